"""Orientation, display, windows and the way onto the frame, on arrays that an eye can check."""

import itertools

import nibabel as nib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nibabel.orientations import axcodes2ornt, inv_ornt_aff, ornt_transform

from medsg_build.errors import RecipeError, SourceError
from medsg_build.model import Box, Grid, Volume
from medsg_build.regions import bounds
from medsg_build.standardise import (
    Placement,
    agreement,
    cut,
    fit,
    frame,
    levels,
    named_window,
    placed,
    plane_of,
    sheared,
    to_ras,
    window,
)

CODES = [
    "".join(code)
    for order in itertools.permutations(("LR", "PA", "IS"))
    for code in itertools.product(*order)
]
"""All 48 ways in which three axes can run."""


def volume(data, affine=None, flat=False) -> Volume:
    affine = np.eye(4) if affine is None else np.asarray(affine, float)
    i, j, k = np.linalg.norm(affine[:3, :3], axis=0)
    return Volume(np.asarray(data), affine, (i, j, k), np.eye(4), flat)


def turned(data, affine, codes):
    """`data` and `affine` as a scanner with axes `codes` would have stored them."""
    turn = ornt_transform(axcodes2ornt("RAS"), axcodes2ornt(tuple(codes)))
    return nib.orientations.apply_orientation(data, turn), affine @ inv_ornt_aff(turn, data.shape)


def about_z(degrees):
    angle = np.deg2rad(degrees)
    affine = np.eye(4)
    affine[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    return affine


# Orientation


@pytest.mark.parametrize("codes", CODES)
def test_every_orientation_becomes_the_same_volume(codes):
    data = np.arange(2 * 3 * 4).reshape(2, 3, 4)
    affine = np.array([[2.0, 0, 0, 10], [0, 3, 0, 20], [0, 0, 5, 30], [0, 0, 0, 1]])
    stored, told = turned(data, affine, codes)
    out = to_ras(volume(stored, told), "x")
    np.testing.assert_array_equal(out.data, data)
    np.testing.assert_allclose(out.affine, affine, atol=1e-12)
    assert out.spacing == (2, 3, 5)
    for index in np.ndindex(stored.shape):
        there = tuple(int(v) for v in (out.stored @ (*index, 1))[:3])
        assert out.data[there] == stored[index]


@pytest.mark.parametrize("degrees", [10, 20, -20])
def test_an_oblique_volume_keeps_its_voxels(degrees):
    data = np.arange(8).reshape(2, 2, 2)
    stored, told = turned(data, about_z(degrees), "LPS")
    out = to_ras(volume(stored, told), "x")
    np.testing.assert_array_equal(out.data, data)
    np.testing.assert_allclose(out.spacing, (1, 1, 1))


def test_colour_stays_last():
    data = np.arange(2 * 3 * 4 * 3).reshape(2, 3, 4, 3)
    out = to_ras(volume(data[::-1], np.diag([-1, 1, 1, 1])), "x")
    np.testing.assert_array_equal(out.data, data)


@pytest.mark.parametrize(
    "affine", [np.zeros((4, 4)), np.diag([1, 1, np.nan, 1]), np.ones((4, 4)), np.diag([1, 1, 0, 1])]
)
def test_unknown_directions_are_refused(affine):
    with pytest.raises(SourceError, match=r"head\.nii: the affine is singular"):
        to_ras(volume(np.zeros((2, 2, 2)), affine), "head.nii")


def test_voxels_of_half_a_micrometre_are_not_singular():
    small = volume(np.zeros((2, 2, 2)), np.diag([5e-4, 5e-4, 5e-4, 1]))
    assert to_ras(small, "x").spacing == (5e-4, 5e-4, 5e-4)


# Display


def shown(view, display="radiological"):
    """Where the voxel (right, anterior, superior) = (3, 1, 0) of 5 x 4 x 3 comes to lie."""
    data = np.zeros((5, 4, 3), int)
    data[3, 1, 0] = 1
    plane = plane_of(view, data.shape, (1, 1, 1), display)
    number = {"axial": 0, "coronal": 1, "sagittal": 3}[view]
    picture = cut(data, plane, number)
    row, column = np.argwhere(picture)[0]
    x, y, away, _ = plane.matrix(number) @ (3, 1, 0, 1)
    assert (int(np.floor(x)), int(np.floor(y)), away) == (column, row, 0)
    return picture.shape, (int(row), int(column))


def test_axial_has_anterior_up_and_patient_right_on_the_left():
    assert shown("axial") == ((4, 5), (2, 1))  # 2 of 4 from the front, 1 of 5 from the right


def test_coronal_has_superior_up_and_patient_right_on_the_left():
    assert shown("coronal") == ((3, 5), (2, 1))


def test_sagittal_has_superior_up_and_anterior_on_the_left():
    assert shown("sagittal") == ((3, 4), (2, 2))


def test_display_array_keeps_the_stored_order():
    assert shown("axial", "array") == ((4, 5), (1, 3))
    assert shown("coronal", "array") == ((3, 5), (0, 3))
    assert shown("sagittal", "array") == ((3, 4), (0, 1))


def test_a_picture_is_never_turned():
    data = np.arange(6).reshape(3, 2, 1)  # x, y
    plane = plane_of("picture", data.shape, (1, 1, 1), "radiological")
    np.testing.assert_array_equal(cut(data, plane, 0), [[0, 2, 4], [1, 3, 5]])


# Onto the frame


def test_stretch_fills_the_frame_and_pad_keeps_the_aspect():
    plane = plane_of("coronal", (100, 1, 50), (1, 1, 1), "radiological")
    assert fit(plane, "stretch") == Placement(50, 100, 336, 336, 0, 0)
    assert fit(plane, "pad") == Placement(50, 100, 168, 336, 84, 0)


def test_pad_goes_by_millimetres():
    plane = plane_of("coronal", (28, 28, 7), (1, 1, 4), "radiological")
    assert fit(plane, "pad") == Placement(7, 28, 336, 336, 0, 0)


def test_boxes_are_rounded_outward_and_stay_on_the_frame():
    half = Placement(672, 672, 336, 336, 0, 0)
    assert half.box(Box(3, 3, 4, 4)) == Box(1, 1, 2, 2)
    assert half.box(Box(3, 4, 6, 7)) == Box(1, 2, 3, 4)
    assert half.box(Box(0, 0, 672, 672)) == Box(0, 0, 336, 336)
    thirds = Placement(300, 300, 336, 336, 0, 0)  # 25 * 336 / 300 = 28, however it is spelled
    assert thirds.box(Box(25, 50, 75, 100)) == Box(28, 56, 84, 112)


def test_the_matrix_and_the_boxes_of_a_placement_agree():
    placement = Placement(50, 100, 168, 336, 84, 0)
    assert placement.box(Box(10, 10, 20, 30)) == Box(33, 117, 68, 185)
    np.testing.assert_allclose(placement.matrix() @ (10, 10, 0, 1), (33.6, 117.6, 0, 1))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_box_and_mask_agree_within_a_pixel(data):
    """The mask on the frame, by nearest, lies in the mapped box and reaches its edges."""
    rows, columns = data.draw(st.tuples(st.integers(1, 500), st.integers(1, 500)))
    mm = data.draw(st.tuples(st.sampled_from([0.5, 1.0, 3.3]), st.sampled_from([1.0, 2.0])))
    plane = plane_of("axial", (columns, rows, 1), (*mm, 1.0), "radiological")
    x0 = data.draw(st.integers(0, columns - 1))
    y0 = data.draw(st.integers(0, rows - 1))
    box = Box(x0, y0, data.draw(st.integers(x0 + 1, columns)), data.draw(st.integers(y0 + 1, rows)))
    mask = np.zeros((rows, columns), np.uint8)
    mask[box.y0 : box.y1, box.x0 : box.x1] = 1
    placement = fit(plane, data.draw(st.sampled_from(["stretch", "pad"])))
    mapped = placement.box(box)
    assert Box(0, 0, 336, 336).contains(mapped)
    assert mapped.area > 0
    drawn = bounds(frame(mask, placement, nearest=True))
    if drawn is None:  # smaller than a pixel of the frame
        assert min(mapped.width, mapped.height) <= 2
        return
    assert mapped.contains(drawn)
    assert max(abs(a - b) for a, b in zip(mapped, drawn, strict=True)) <= 1


@pytest.mark.parametrize("size", [100, 224, 255])
def test_nearest_takes_the_source_pixel_under_the_centre(size):
    picture = np.arange(size, dtype=np.uint8)[None, :].repeat(size, axis=0)
    row = frame(picture, Placement(size, size, 336, 336, 0, 0), nearest=True)[0]
    centre = (np.arange(336) + 0.5) * size / 336  # on an edge, either neighbour will do
    assert np.all(np.abs(row + 0.5 - centre) <= 0.5 + 1e-4)


def test_shrinking_averages_areas():
    stripes = np.zeros((672, 672), np.uint8)
    stripes[:, ::2] = 200
    assert np.unique(frame(stripes, Placement(672, 672, 336, 336, 0, 0))).tolist() == [100]


def test_enlarging_is_linear_and_centred():
    picture = np.array([[0, 100]], np.uint8).repeat(336, axis=0)
    row = frame(picture, Placement(336, 2, 336, 336, 0, 0))[0].astype(float)
    position = np.clip((np.arange(336) + 0.5) * 2 / 336 - 0.5, 0, 1)
    np.testing.assert_allclose(row, 100 * position, atol=1)


def test_a_side_that_shrinks_is_averaged_though_the_other_grows():
    stripes = np.zeros((672, 2), np.uint8)
    stripes[::2] = 200
    assert np.unique(frame(stripes, Placement(672, 2, 336, 336, 0, 0))).tolist() == [100]


def test_padding_is_black_and_colour_stays():
    red = np.zeros((10, 20, 3), np.uint8)
    red[..., 0] = 255
    out = frame(red, Placement(10, 20, 168, 336, 84, 0))
    assert out.shape == (336, 336, 3)
    assert bounds(out[..., 0]) == Box(0, 84, 336, 252)
    assert not out[..., 1:].any()


# Grey values


def test_soft_tissue_is_the_window_of_a_ct():
    assert levels(volume(np.zeros((1, 1, 1), np.int16)), "auto", "CT") == (-160, 240)


def test_named_windows_and_level_width():
    assert named_window("lung") == (-600, 1500)
    assert named_window("40/400") == (40, 400)
    for wrong in ("lungs", "40", "40/-1", "40/nan", "/"):
        with pytest.raises(RecipeError, match="unknown window"):
            named_window(wrong)


def test_8_bit_pictures_pass_through():
    picture = volume(np.zeros((2, 2, 1), np.uint8), flat=True)
    assert levels(picture, "auto", "endoscopy") is None
    assert window(np.array([[0, 7, 255]], np.uint8), None).tolist() == [[0, 7, 255]]
    with pytest.raises(RecipeError, match="needs 8-bit"):
        levels(volume(np.zeros((2, 2, 1), np.uint16), flat=True), "none", "XR")


def test_full_takes_the_finite_extremes():
    data = np.array([[[np.nan, -np.inf, -3.0, 9.0, np.inf]]])
    assert levels(volume(data), "full", "MRI") == (-3, 9)


@pytest.mark.parametrize("kind", [np.int16, np.uint16, np.uint8])
def test_counting_gives_the_percentiles_of_a_partition(kind):
    rng = np.random.default_rng(0)
    about = np.iinfo(kind)
    data = np.clip(rng.normal(90, 30, (40, 40, 40)), about.min, about.max).astype(kind)
    data[:10] = 0  # the air, which does not count
    counted = levels(volume(data), "percentile", "MRI")
    sorted_out = levels(volume(data.astype(np.float64)), "percentile", "MRI")
    np.testing.assert_allclose(counted, sorted_out, atol=1)


@pytest.mark.parametrize(
    ("data", "ends"),
    [
        (np.array([-32768, 32767], np.int16), (-32768, 32767)),
        (np.array([0, 65535], np.uint16), (0, 65535)),
        (np.array([-(2**31), 2**31 - 1], np.int32), (-(2**31), 2**31 - 1)),
        (np.array([-1.5, 2.5], np.float32), (-1.5, 2.5)),
    ],
)
def test_extremes_become_black_and_white(data, ends):
    assert levels(volume(data[:, None, None]), "full", "MRI") == ends
    assert window(data[None], ends).tolist() == [[0, 255]]


@pytest.mark.parametrize("window_rule", ["percentile", "full", "40/400"])
def test_constant_and_empty_volumes_are_flat_pictures(window_rule):
    for data in (np.full((2, 2, 2), 7, np.int16), np.full((2, 2, 2), np.nan, np.float32)):
        ends = levels(volume(data), window_rule, "MRI")
        assert len(np.unique(window(data[0], ends))) == 1


def test_what_is_not_finite_is_black_or_white():
    picture = np.array([[np.nan, -np.inf, 50, np.inf]], np.float32)
    assert window(picture, (0.0, 100.0)).tolist() == [[0, 0, 128, 255]]  # 127.5 to even


def test_wide_integers_keep_their_last_digits():
    base = 2**30
    picture = np.array([[base, base + 1, base + 2, base + 5]], np.int32)
    assert window(picture, (base, base + 5)).tolist() == [[0, 51, 102, 255]]


# Do a picture and its mask agree?

GRID = Grid((4, 5, 6), np.diag([1.0, 2, 3, 1]))


def test_equal_and_nearly_equal_grids_are_the_same():
    noise = GRID.affine + 1e-5
    noise[3] = 0, 0, 0, 1
    assert agreement(GRID, GRID, "x") == agreement(GRID, Grid(GRID.shape, noise), "x") == "same"


@pytest.mark.parametrize("codes", CODES[:3] + CODES[-3:])
def test_a_turned_mask_is_reoriented(codes):
    data, affine = turned(np.zeros(GRID.shape), GRID.affine, codes)
    found = agreement(GRID, Grid(data.shape, affine), "x")
    assert found == ("same" if codes == "RAS" else "reoriented")


@pytest.mark.parametrize(
    "other",
    [
        Grid((4, 5, 7), GRID.affine),
        Grid(GRID.shape, np.diag([1.0, 2, 2, 1])),
        Grid(GRID.shape, np.diag([1.0, 2, 3, 1]) + np.eye(4)[0][:, None] * np.eye(4)[3]),
        Grid(GRID.shape, np.zeros((4, 4))),
    ],
    ids=["shape", "spacing", "origin", "singular"],
)
def test_different_grids_are_refused_with_both_told(other):
    with pytest.raises(SourceError, match=r"a and b: .*4x5x6 voxels of 1x2x3 mm.* against "):
        agreement(GRID, other, "a and b")


def test_a_crop_of_the_picture_is_laid_at_its_place():
    data = np.arange(24).reshape(2, 3, 4)
    inner = Grid(data.shape, GRID.affine @ [[1, 0, 0, 1], [0, 1, 0, 2], [0, 0, 1, 0], [0, 0, 0, 1]])
    assert agreement(GRID, inner, "x") == "placed"
    whole = placed(data, inner, GRID)
    np.testing.assert_array_equal(whole[1:3, 2:5, 0:4], data)
    assert whole.sum() == data.sum()


def test_a_smaller_mask_with_the_pictures_own_header_is_refused():
    with pytest.raises(SourceError, match="of another shape"):
        agreement(GRID, Grid((2, 5, 6), GRID.affine), "x")


def test_a_tilted_gantry_skews_the_planes_that_hold_the_step():
    tilted = np.diag([1.0, 1, 5, 1])
    tilted[1, 2] = 5 * np.tan(np.radians(15))
    assert sheared(tilted) == [{1, 2}]  # only the sagittal view would show it slanted
    turn = np.eye(4)
    turn[:3, :3] = [[0.8, -0.6, 0], [0.6, 0.8, 0], [0, 0, 1]]
    assert sheared(turn @ np.diag([1.0, 2, 3, 1])) == []  # oblique is not sheared
