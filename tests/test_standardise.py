"""Windows, fits and resizing, on arrays small enough to check by eye."""

import numpy as np
import pytest

from medsg_build import standardise
from medsg_build.errors import RecipeError, SourceError
from medsg_build.model import Box, Volume


def volume(data: np.ndarray, flat: bool = False) -> Volume:
    return Volume(data, np.eye(4), (1.0, 1.0, 1.0), np.eye(4), flat)


def test_a_ct_window_maps_its_ends_to_black_and_white():
    data = np.array([[[-1000, -160, 40, 240, 3000]]], np.int16)
    ends = standardise.levels(volume(data), "soft_tissue", "CT")
    assert ends == (-160, 240)
    assert standardise.window(data, ends).tolist() == [[[0, 0, 128, 255, 255]]]


def test_auto_depends_on_modality_and_depth():
    grey = volume(np.arange(8, dtype=np.uint8).reshape(2, 2, 2), flat=True)
    assert standardise.levels(grey, "auto", "Fundus") is None
    assert standardise.levels(volume(grey.data.astype(np.int16)), "auto", "CT") == (-160, 240)
    low, high = standardise.levels(volume(grey.data.astype(np.int16)), "auto", "MRI")
    assert 1 <= low < high <= 7


@pytest.mark.parametrize("dtype", [np.int16, np.uint16, np.int32, np.float32, np.float64])
def test_percentiles_are_those_of_the_voxels_that_are_not_zero(dtype):
    rng = np.random.default_rng(1)
    data = rng.integers(1, 1000, (20, 20, 20)).astype(dtype)
    data[:10] = 0
    low, high = standardise.levels(volume(data), "percentile", "MRI")
    exact = np.percentile(data[data != 0], [0.5, 99.5])
    assert np.abs([low, high] - exact).max() <= 1


@pytest.mark.parametrize(("value", "shown"), [(np.nan, 0), (-np.inf, 0), (np.inf, 255), (0.5, 128)])
def test_what_is_no_number_has_a_grey_value(value, shown):
    assert standardise.window(np.array([[value]], np.float32), (0.0, 1.0)).item() == shown


def test_a_constant_picture_is_black():
    data = np.full((4, 4, 4), 7, np.int16)
    ends = standardise.levels(volume(data), "percentile", "MRI")
    assert not standardise.window(data[..., 0], ends).any()


def test_uint16_does_not_wrap():
    data = np.array([[0, 30000, 65535]], np.uint16)
    assert standardise.window(data, (0, 65535)).tolist() == [[0, 117, 255]]


@pytest.mark.parametrize("word", ["soft tissue", "40", "40/0", "40/-3", "a/b", "nan/3"])
def test_an_unknown_window_is_refused(word):
    with pytest.raises(RecipeError, match="unknown window"):
        standardise.named_window(word)


def test_own_level_and_width():
    assert standardise.named_window("100/50") == (100, 50)


def plane(rows: int, columns: int, row_mm: float = 1, column_mm: float = 1):
    return standardise.plane_of("picture", (columns, rows, 1), (column_mm, row_mm, 1), "array")


def test_stretch_fills_the_frame():
    placed = standardise.fit(plane(100, 50), "stretch")
    assert (placed.height, placed.width, placed.top, placed.left) == (336, 336, 0, 0)


def test_pad_keeps_the_physical_aspect():
    placed = standardise.fit(plane(10, 20, row_mm=5, column_mm=1), "pad")  # 50 mm x 20 mm
    assert (placed.height, placed.width, placed.top, placed.left) == (336, 134, 0, 101)


def test_boxes_are_rounded_outward_and_whole_numbers_stay():
    placed = standardise.fit(plane(112, 112), "stretch")  # exactly 3 pixels a pixel
    assert placed.box(Box(10, 20, 30, 41)) == (30, 60, 90, 123)
    placed = standardise.fit(plane(100, 100), "stretch")  # 3.36
    assert placed.box(Box(10, 20, 30, 41)) == (33, 67, 101, 138)
    assert placed.box(Box(0, 0, 100, 100)) == (0, 0, 336, 336)


@pytest.mark.parametrize("how", ["stretch", "pad"])
@pytest.mark.parametrize("size", [(28, 28), (512, 512), (1344, 1000), (100, 700), (336, 336)])
def test_box_and_picture_cannot_drift(how, size):
    """A bright rectangle is drawn, framed, and found where its mapped box says, within a pixel."""
    rows, columns = size
    picture = np.zeros(size, np.uint8)
    box = Box(columns // 5, rows // 3, columns // 2, rows // 3 + rows // 4)
    picture[box.y0 : box.y1, box.x0 : box.x1] = 255
    placed = standardise.fit(plane(rows, columns), how)
    mapped = placed.box(box)
    framed = standardise.frame(picture, placed)
    bright = np.argwhere(framed > 127)
    found = (*bright.min(axis=0)[::-1], *(bright.max(axis=0)[::-1] + 1))
    assert np.abs(np.array(found) - np.array(mapped)).max() <= 1
    nearest = standardise.frame((picture > 0).astype(np.uint8), placed, nearest=True)
    part = nearest[mapped.y0 : mapped.y1, mapped.x0 : mapped.x1]
    assert part.sum() == nearest.sum() > 0


def test_shrinking_averages_areas():
    stripes = np.tile(np.array([[0, 200]], np.uint8), (672, 336))
    framed = standardise.frame(stripes, standardise.fit(plane(672, 672), "stretch"))
    assert (framed == 100).all()  # a linear filter would alias


def test_one_side_shrinks_while_the_other_grows():
    stripes = np.tile(np.array([[0, 200]], np.uint8), (28, 336))
    framed = standardise.frame(stripes, standardise.fit(plane(28, 672), "stretch"))
    assert framed.shape == (336, 336)
    assert (framed == 100).all()


def test_agreement_has_three_outcomes():
    affine = np.diag([2.0, 2, 3, 1])
    grid = ((10, 12, 14), affine)
    assert standardise.agreement(grid, ((10, 12, 14), affine + 1e-9), "a and b") == "same"
    flipped = affine.copy()
    flipped[0, 0], flipped[0, 3] = -2, 18
    assert standardise.agreement(grid, ((10, 12, 14), flipped), "a and b") == "reoriented"
    moved = affine.copy()
    moved[2, 3] = 3
    with pytest.raises(SourceError, match="different grids"):
        standardise.agreement(grid, ((10, 12, 14), moved), "a and b")


def test_a_singular_affine_is_refused():
    bad = Volume(np.zeros((2, 2, 2)), np.diag([1.0, 0, 1, 1]), (1.0, 1.0, 1.0), np.eye(4))
    with pytest.raises(SourceError, match=r"x\.nii: the affine is singular"):
        standardise.to_ras(bad, "x.nii")
