"""DICOM SEG and RTSTRUCT: each frame and contour goes where its own position says."""

import contextlib
from pathlib import Path

import numpy as np
import pydicom
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydicom.data import get_testdata_file
from pydicom.dataset import Dataset
from skimage.draw import polygon2mask

from medsg_build.errors import SourceError
from medsg_build.formats import dicom, dicom_layers
from medsg_build.formats.dicom_contours import filled
from medsg_build.model import Grid, Wanted
from tests.dicom_files import (
    contour,
    ct,
    frame_at,
    made,
    save,
    segmentation,
    sequence,
    structures,
)

CASES = Path(__file__).parents[2] / "shared" / "cases" / "dicom"

SIZE = (6, 5, 4)
"""Columns, rows and slices of the picture that the masks here are made for."""


def grid(turned=None, shape=SIZE):
    """Columns of 0.25 mm to the left, rows of 0.5 mm to the back, slices of 2 mm upward."""
    affine = np.array([[-0.25, 0, 0, 10], [0, -0.5, 0, 20], [0, 0, 2, 0], [0, 0, 0, 1.0]])
    return Grid(shape, affine if turned is None else affine @ turned)


def read(path, onto=None, **wanted):
    """The mask on a grid, after a look that it is measured as that grid."""
    onto = grid() if onto is None else onto
    wish = Wanted(labels=True, onto=onto, **wanted)
    measured = dicom.measure(path, wish)
    assert measured.shape == onto.shape
    volume = dicom.read(path, wish)
    assert volume.data.shape[:3] == onto.shape
    np.testing.assert_array_equal(volume.affine, onto.affine)
    return volume


def refused(path, *words, onto=None):
    with pytest.raises(SourceError) as caught:
        dicom.read(path, Wanted(labels=True, onto=grid() if onto is None else onto))
    message = str(caught.value)
    for word in (path.name, *words):
        assert word in message
    assert "Doe" not in message
    assert "2.25." not in message


def height(slice_number):
    """LPS position of the first pixel of a slice."""
    return (-10, -20, 2.0 * slice_number)


def frame(*voxels):
    """(rows, columns): 1 at the (column, row) given."""
    made_here = np.zeros((SIZE[1], SIZE[0]), np.uint8)
    for column, row in voxels:
        made_here[row, column] = 1
    return made_here


def where(volume, value):
    return sorted(map(tuple, np.argwhere(volume.data == value).tolist()))


# Segmentations


def test_the_shared_case_lies_on_its_series():
    onto = dicom.measure(CASES / "DI7_ct", Wanted())
    volume = read(CASES / "DI7_seg.dcm", onto, picture=CASES / "DI7_ct")
    assert volume.names == {"L-shape": 1, "block": 2}
    assert [int(n) for n in np.flatnonzero((volume.data == 1).any(axis=(0, 1)))] == [2, 3, 4]
    assert [int(n) for n in np.flatnonzero((volume.data == 2).any(axis=(0, 1)))] == [4, 5, 6]
    picture = dicom.read(CASES / "DI7_ct", Wanted())
    ground = picture.data[volume.data == 0].max()
    assert picture.data[volume.data == 2].min() > ground  # the block shines by 800
    i, j, _ = np.nonzero(volume.data == 1)
    assert (i.min(), i.max() + 1, j.min(), j.max() + 1) == (15, 24, 10, 22)
    assert volume.notes == ()


def test_a_real_segmentation(tmp_path):
    path = Path(get_testdata_file("liver_1frame.dcm", download=False))
    refused(path, "1 frames but describes 3")  # it was cut out of a longer one
    ds = pydicom.dcmread(path)
    ds.PerFrameFunctionalGroupsSequence = ds.PerFrameFunctionalGroupsSequence[:1]
    saved = save(ds, tmp_path / "a.dcm")
    x, y, z = ds.PerFrameFunctionalGroupsSequence[0].PlanePositionSequence[0].ImagePositionPatient
    measures = ds.SharedFunctionalGroupsSequence[0].PixelMeasuresSequence[0]
    down, across = measures.PixelSpacing
    affine = np.array([[-across, 0, 0, -x], [0, -down, 0, -y], [0, 0, 1, z - 1], [0, 0, 0, 1]])
    volume = read(saved, Grid((512, 512, 3), affine.astype(float)))
    np.testing.assert_array_equal(volume.data[:, :, 1], ds.pixel_array.T)
    assert volume.data.sum() == ds.pixel_array.sum() > 1000
    refused(saved, "does not lie on voxels")


def test_frames_in_any_order_and_slices_without_one(tmp_path):
    frames = [frame((1, 2)), frame((3, 4)), frame((0, 0))]
    groups = [frame_at(height(3), 2), frame_at(height(0), 1), frame_at(height(3), 1)]
    volume = read(save(segmentation(frames, groups), tmp_path / "a.dcm"))
    assert volume.data.dtype == np.uint8
    assert where(volume, 2) == [(1, 2, 3)]
    assert where(volume, 1) == [(0, 0, 3), (3, 4, 0)]
    assert volume.names == {"one": 1, "two": 2}


def test_frames_that_do_not_begin_at_a_whole_byte(tmp_path):
    # 30 pixels a frame: frame 1 begins at bit 6 of a byte, frame 3 at bit 2.
    chance = np.random.default_rng(1).integers(0, 2, (4, 5, 6)).astype(np.uint8)
    groups = [frame_at(height(n), 1) for n in range(4)]
    volume = read(save(segmentation(chance, groups), tmp_path / "a.dcm"))
    np.testing.assert_array_equal(volume.data, chance.transpose(2, 1, 0))


def test_overlapping_segments_go_to_layers(tmp_path):
    frames = [frame((1, 1), (2, 1)), frame((2, 1)), frame((5, 4)), frame((4, 4))]
    groups = [frame_at(height(n), s) for n, s in ((0, 1), (0, 2), (1, 2), (0, 3))]
    volume = read(save(segmentation(frames, groups, "abc"), tmp_path / "a.dcm"))
    assert volume.data.shape == (*SIZE, 2)
    assert where(volume, 1) == [(1, 1, 0, 0), (2, 1, 0, 0)]
    assert where(volume, 2) == [(2, 1, 0, 1), (5, 4, 1, 1)]  # wholly in one layer
    assert where(volume, 3) == [(4, 4, 0, 0)]  # the first that is free


def test_layers_beyond_memory_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(dicom_layers, "LARGEST", 200)
    frames, groups = [frame((1, 1))] * 2, [frame_at(height(0), n) for n in (1, 2)]
    refused(save(segmentation(frames, groups), tmp_path / "a.dcm"), "overlap")


def test_fractional_is_cut_at_half(tmp_path):
    values = np.array([frame((1, 1)) * 100 + frame((2, 2)) * 99])
    ds = segmentation(values, [frame_at(height(0), 1)], kind="FRACTIONAL")
    ds.MaximumFractionalValue = 200
    volume = read(save(ds, tmp_path / "a.dcm"))
    assert where(volume, 1) == [(1, 1, 0)]
    assert volume.notes == ("a.dcm: fractional segments, taken from half of the maximum up",)
    ds.MaximumFractionalValue = 0
    refused(save(ds, tmp_path / "b.dcm"), "MaximumFractionalValue")


def test_label_maps_hold_their_numbers(tmp_path):
    values = np.array([frame((1, 1)) + 2 * frame((2, 2)), 2 * frame((0, 0))])
    ds = segmentation(values, [frame_at(height(2)), frame_at(height(1))], kind="LABELMAP")
    volume = read(save(ds, tmp_path / "a.dcm"))
    assert where(volume, 1) == [(1, 1, 2)]
    assert where(volume, 2) == [(0, 0, 1), (2, 2, 2)]
    ds.PerFrameFunctionalGroupsSequence = [frame_at(height(2))] * 2
    refused(save(ds, tmp_path / "b.dcm"), "two frames in one place")


@pytest.mark.parametrize(
    ("turned", "first"),
    [
        ((1, 0, 0, 0, 1, 0), height(2)),
        ((-1, 0, 0, 0, 1, 0), (-10 + 5 * 0.25, -20, 4)),  # columns run the other way
        ((1, 0, 0, 0, -1, 0), (-10, -20 + 4 * 0.5, 4)),  # rows do
        ((-1, 0, 0, 0, -1, 0), (-10 + 5 * 0.25, -20 + 4 * 0.5, 4)),
    ],
)
def test_frames_turned_against_the_grid(tmp_path, turned, first):
    # A frame of the whole slice; the voxel (1, 3) is marked wherever that lies in the frame.
    marked = frame((1, 3))
    stored = marked[:: int(turned[4]), :: int(turned[0])]
    ds = segmentation([stored], [frame_at(first, 1)], turned=turned)
    assert where(read(save(ds, tmp_path / "a.dcm")), 1) == [(1, 3, 2)]


def test_frames_with_swapped_axes_and_across_other_axes(tmp_path):
    # Rows and columns change places: a column of the frame is 0.5 mm to the back.
    ds = segmentation([frame((1, 3)).T], [frame_at(height(2), 1)])
    ds.SharedFunctionalGroupsSequence[0].PixelMeasuresSequence[0].PixelSpacing = [0.25, 0.5]
    ds.SharedFunctionalGroupsSequence[0].PlaneOrientationSequence[0].ImageOrientationPatient = [
        0, 1, 0, 1, 0, 0
    ]  # fmt: skip
    assert where(read(save(ds, tmp_path / "a.dcm")), 1) == [(1, 3, 2)]
    # A sagittal frame at column 2: its columns run back, its rows up; the grid has 4 slices.
    side = np.zeros((4, 5), np.uint8)
    side[3, 1] = 1
    ds = segmentation([side], [frame_at((-9.5, -20, 0), 1)])
    group = ds.SharedFunctionalGroupsSequence[0]
    group.PixelMeasuresSequence[0].PixelSpacing = [2, 0.5]
    group.PlaneOrientationSequence[0].ImageOrientationPatient = [0, 1, 0, 0, 0, 1]
    assert where(read(save(ds, tmp_path / "b.dcm")), 1) == [(2, 1, 3)]


def test_a_grid_in_another_order_than_the_frames(tmp_path):
    # The same picture as stored by a NIfTI that runs k, i, j, with i reversed.
    turned = np.zeros((4, 4))
    turned[2, 0] = turned[1, 2] = turned[3, 3] = 1
    turned[0, 1], turned[0, 3] = -1, 5
    onto = grid(turned, (4, 6, 5))
    path = save(segmentation([frame((1, 3))], [frame_at(height(2), 1)]), tmp_path / "a.dcm")
    assert where(read(path, onto), 1) == [(2, 4, 3)]


def test_a_small_frame_lies_within_the_slice(tmp_path):
    ds = segmentation([[[0, 1]]], [frame_at((-9.5, -19, 2), 1)])  # from column 2, row 2
    assert where(read(save(ds, tmp_path / "a.dcm")), 1) == [(3, 2, 1)]


def test_float_noise_is_forgiven_and_shifts_are_not(tmp_path):
    def at(*offset):
        place = np.array(height(1)) + offset
        return segmentation([frame((1, 3))], [frame_at([f"{v:.5g}" for v in place], 1)])

    assert where(read(save(at(0.01, 0.02, 0.1), tmp_path / "a.dcm")), 1) == [(1, 3, 1)]
    for n, offset in enumerate([(0.1, 0, 0), (0, 0.25, 0), (0, 0, 1)]):
        refused(save(at(*offset), tmp_path / f"{n}.dcm"), "does not lie on voxels", "(10, 20, 0)")
    tilted = (0.9997, 0.0245, 0, -0.0245, 0.9997, 0)  # 1.4 degrees
    ds = segmentation([frame((1, 3))], [frame_at(height(1), 1)], turned=tilted)
    refused(save(ds, tmp_path / "t.dcm"), "does not lie on voxels")
    coarse = segmentation([frame((1, 3))], [frame_at(height(1), 1)])
    coarse.SharedFunctionalGroupsSequence[0].PixelMeasuresSequence[0].PixelSpacing = [1, 0.5]
    refused(save(coarse, tmp_path / "c.dcm"), "does not lie on voxels")


def test_frames_outside_or_nowhere_are_refused(tmp_path):
    above = segmentation([frame((1, 3))], [frame_at(height(4), 1)])
    refused(save(above, tmp_path / "a.dcm"), "outside of the picture", "6x5x4")
    lost = segmentation([frame((1, 3))], [Dataset()])
    refused(save(lost, tmp_path / "b.dcm"), "no position")
    stray = segmentation([frame((1, 3))], [frame_at(height(1), 3)])
    refused(save(stray, tmp_path / "c.dcm"), "no segment")
    short = segmentation([frame((1, 3))] * 2, [frame_at(height(1), 1)])
    refused(save(short, tmp_path / "d.dcm"), "2 frames but describes 1")
    other = segmentation([frame((1, 3))], [frame_at(height(1), 1)], SegmentationType="OTHER")
    refused(save(other, tmp_path / "e.dcm"), "BINARY, FRACTIONAL, LABELMAP")
    whole = segmentation([frame((1, 3))], [frame_at(height(1), 1)])
    whole.PixelData = whole.PixelData[:2]
    refused(save(whole, tmp_path / "f.dcm"), "truncated")
    flat = Grid(SIZE, np.eye(4), True)
    refused(save(above, tmp_path / "g.dcm"), "flat", onto=flat)


def test_names_that_stand_for_two_segments_are_left_out(tmp_path):
    groups = [frame_at(height(0), 1)]
    ds = segmentation([frame((1, 1))], groups, ("node", "node", "liver"))
    assert read(save(ds, tmp_path / "a.dcm")).names == {"liver": 3}


def test_a_folder_of_one_segmentation(tmp_path):
    save(segmentation([frame((1, 1))], [frame_at(height(0), 1)]), tmp_path / "seg" / "1-1.dcm")
    assert where(read(tmp_path / "seg"), 1) == [(1, 1, 0)]
    save(ct(0, SeriesInstanceUID="2.25.50"), tmp_path / "seg" / "0-0.dcm")  # the picture beside it
    assert where(read(tmp_path / "seg"), 1) == [(1, 1, 0)]
    assert not dicom.read(tmp_path / "seg", Wanted()).names
    second = segmentation([frame((2, 2))], [frame_at(height(0), 1)])
    save(second, tmp_path / "seg" / "1-2.dcm")
    refused(tmp_path / "seg", "2 segmentations")


def test_another_frame_of_reference_is_told(tmp_path):
    picture = save(ct(0), tmp_path / "series" / "0.dcm").parent
    same = save(segmentation([frame((1, 1))], [frame_at(height(0), 1)]), tmp_path / "a.dcm")
    assert read(same, picture=picture).notes == ()
    ds = segmentation([frame((1, 1))], [frame_at(height(0), 1)], FrameOfReferenceUID="2.25.99")
    (note,) = read(save(ds, tmp_path / "b.dcm"), picture=picture).notes
    assert note.startswith("b.dcm: names another frame of reference")
    assert "2.25" not in note


def test_compressed_segmentations(tmp_path):
    values = np.array([frame((1, 1)) * 255, frame((2, 3)) * 255])
    groups = [frame_at(height(n), 1) for n in (1, 3)]
    ds = segmentation(values, groups, kind="FRACTIONAL", MaximumFractionalValue=255)
    ds.compress("1.2.840.10008.1.2.5", generate_instance_uid=False)
    assert where(read(save(ds, tmp_path / "a.dcm")), 1) == [(1, 1, 1), (2, 3, 3)]


# Contours


def point(column, row, slice_number):
    """LPS mm of a place in voxels."""
    return (-10 + 0.25 * column, -20 + 0.5 * row, 2.0 * slice_number)


def ring(low, high, slice_number):
    """A rectangle from the corner (column, row) `low` to `high`."""
    (a, b), (c, d) = low, high
    return contour([point(*at, slice_number) for at in ((a, b), (c, b), (c, d), (a, d))])


def pixels(volume, number, value=1):
    return sorted(map(tuple, np.argwhere(volume.data[:, :, number] == value).tolist()))


def test_the_shared_ring():
    onto = dicom.measure(CASES / "DI7_ct", Wanted())
    volume = read(CASES / "DI8_rtstruct.dcm", onto, picture=CASES / "DI7_ct")
    assert volume.names == {"ring": 1}
    assert (volume.data == 1).sum(axis=(0, 1)).tolist() == [0, 0, 0, 0, 128, 128, *[0] * 8]
    i, j, _ = np.nonzero(volume.data)
    assert (i.min(), i.max() + 1, j.min(), j.max() + 1) == (4, 16, 6, 18)
    assert not volume.data[8:12, 10:14].any()  # the hole
    assert volume.notes == ()


def test_a_pixel_is_inside_where_its_centre_is(tmp_path):
    rois = [(1, "a", [ring((0.6, 1.4), (2.4, 2.6), 1)])]
    volume = read(save(structures(rois), tmp_path / "a.dcm"))
    assert pixels(volume, 1) == [(1, 2), (2, 2)]
    assert where(volume, 1) == [(1, 2, 1), (2, 2, 1)]


def test_neighbours_that_share_an_edge_through_centres_share_no_pixel(tmp_path):
    left, right = ring((0, 0), (2, 3), 0), ring((2, 0), (4, 3), 0)
    rois = [(1, "left", [left]), (2, "right", [right])]
    volume = read(save(structures(rois), tmp_path / "a.dcm"))
    assert volume.data.ndim == 3  # no overlap, so no layers
    assert (volume.data > 0).sum() == 4 * 3
    both = read(save(structures([(1, "both", [left, right])]), tmp_path / "b.dcm"))
    np.testing.assert_array_equal(both.data > 0, volume.data > 0)  # nor a gap between them


def test_a_keyhole_contour_is_a_ring(tmp_path):
    outer = [(-0.4, -0.4), (4.4, -0.4), (4.4, 4.4), (-0.4, 4.4), (-0.4, 2)]
    inner = [(0.6, 2), (0.6, 3.4), (3.4, 3.4), (3.4, 0.6), (0.6, 0.6), (0.6, 2)]
    path = [*outer, *inner, (-0.4, 2)]
    rois = [(1, "a", [contour([point(*at, 0) for at in path])])]
    volume = read(save(structures(rois), tmp_path / "a.dcm"))
    expected = np.ones((5, 5), int)
    expected[1:4, 1:4] = 0
    np.testing.assert_array_equal(volume.data[:5, :5, 0], expected)
    assert not volume.data[5].any()


def test_islands_in_holes(tmp_path):
    rings = [ring((n - 0.4, n - 0.4), (4.4 - n, 4.4 - n), 0) for n in range(3)]
    volume = read(save(structures([(1, "a", rings)]), tmp_path / "a.dcm"))
    assert volume.data[:5, 2, 0].tolist() == [1, 0, 1, 0, 1]


def test_numbers_names_and_layers(tmp_path):
    rois = [
        (7, "liver", [ring((0, 0), (3, 3), 0)]),
        (3, "lesion", [ring((1, 1), (2, 2), 0)]),
        (9, "empty", []),
        (10, "twice", []),
        (11, "twice", []),
    ]
    volume = read(save(structures(rois), tmp_path / "a.dcm"))
    assert volume.names == {"liver": 7, "lesion": 3, "empty": 9}
    assert volume.data.shape == (*SIZE, 2)
    assert set(np.unique(volume.data[..., 0])) == {0, 3}
    assert set(np.unique(volume.data[..., 1])) == {0, 7}


def test_numbers_that_are_no_label_values(tmp_path):
    rois = [(70_000, "a", [ring((0, 0), (2, 2), 0)]), (5, "b", [ring((3, 3), (5, 4), 0)])]
    volume = read(save(structures(rois), tmp_path / "a.dcm"))
    assert volume.names == {"a": 1, "b": 2}
    assert "counted from 1" in volume.notes[0]
    refused(save(structures([(1, "a", []), (1, "b", [])]), tmp_path / "b.dcm"), "ROI number 1")
    stray = structures([(1, "a", [])])
    stray.ROIContourSequence[0].ReferencedROINumber = 4
    refused(save(stray, tmp_path / "c.dcm"), "ROI 4")


def test_points_and_open_contours_are_left_out_and_counted(tmp_path):
    dot = contour([point(1, 1, 0)], "POINT")
    line = contour([point(1, 1, 0), point(2, 1, 0), point(3, 1, 0)], "OPEN_PLANAR")
    two = contour([point(1, 1, 0), point(2, 1, 0)])
    rois = [(1, "a", [dot, line, two, ring((0, 0), (2, 2), 0)])]
    volume = read(save(structures(rois), tmp_path / "a.dcm"))
    assert (volume.data == 1).sum() == 4
    assert volume.notes == ("a.dcm: 3 contours left out that are open or mere points",)


def test_contours_beside_their_slice(tmp_path):
    def drawn(*places):
        rois = [(1, "a", [ring((0, 0), (2, 2), at) for at in places])]
        return save(structures(rois), tmp_path / "a.dcm")

    assert read(drawn(1.05)).notes == ()
    volume = read(drawn(1.3))
    assert where(volume, 1)[0][2] == 1
    assert "1 contours lie off their slice" in volume.notes[0]
    refused(drawn(3.6), "slice 4", "has 4")
    refused(drawn(-0.7), "slice -1")
    halves = read(drawn(0.5, 1.5, 2.5))  # each to a slice of its own, none on none
    assert np.flatnonzero(halves.data.any(axis=(0, 1))).tolist() == [1, 2, 3]
    finer = read(drawn(1.0, 1.4, 0.8))  # two on one slice would cancel each other out
    assert (finer.data == 1).sum() == 4
    assert "2 contours lie between slices" in finer.notes[0]


def test_slices_skipped_by_the_drawer_are_told(tmp_path):
    rois = [(1, "a", [ring((0, 0), (2, 2), at) for at in (1, 3)])]
    volume = read(save(structures(rois), tmp_path / "a.dcm"))
    assert np.flatnonzero(volume.data.any(axis=(0, 1))).tolist() == [1, 3]
    assert "2 contours are of structures drawn on every second slice" in volume.notes[0]


def test_oblique_contours_are_refused(tmp_path):
    oblique = contour([point(0, 0, 0), point(4, 0, 1), point(4, 3, 2)])
    refused(save(structures([(1, "a", [oblique])]), tmp_path / "a.dcm"), "oblique")
    across = contour([point(2, 0, 0), point(2, 3, 0), point(2, 3, 2)])
    rois = [(1, "a", [across, ring((0, 0), (2, 2), 0)])]
    refused(save(structures(rois), tmp_path / "b.dcm"), "different axes")


def test_contours_across_another_axis(tmp_path):
    corners = [(2, 0.6, 0.6), (2, 3.4, 0.6), (2, 3.4, 2.4), (2, 0.6, 2.4)]
    rois = [(1, "a", [contour([point(*at) for at in corners])])]
    volume = read(save(structures(rois), tmp_path / "a.dcm"))
    assert where(volume, 1) == [(2, j, k) for j in (1, 2, 3) for k in (1, 2)]


def test_contours_beyond_the_picture_are_cut_and_told(tmp_path):
    volume = read(save(structures([(1, "a", [ring((-9, -9), (2.5, 2.5), 0)])]), tmp_path / "a.dcm"))
    assert (volume.data == 1).sum() == 9
    assert "1 contours reach beyond the picture" in volume.notes[0]


@pytest.mark.parametrize("undefined", [False, True])
def test_no_part_of_a_truncated_structure_set_is_taken_for_the_whole(tmp_path, undefined):
    rois = [(n, f"roi {n}", [ring((0, 0), (2, 2), k) for k in range(4)]) for n in (1, 2)]
    ds = structures(rois)
    ds["ROIContourSequence"].is_undefined_length = undefined
    for held in ds.ROIContourSequence:
        held["ContourSequence"].is_undefined_length = undefined
        held.is_undefined_length_sequence_item = undefined
    path = save(ds, tmp_path / "a.dcm")
    assert len(np.unique(read(path).data)) == 3
    raw = path.read_bytes()
    for length in range(raw.index(b"roi 2") + 6, len(raw) - 1):
        (tmp_path / "b.dcm").write_bytes(raw[:length])
        refused(tmp_path / "b.dcm")


@pytest.mark.parametrize("text", ["nan", "inf", "1e300", "x", ""])
def test_coordinates_that_are_no_numbers(tmp_path, text):
    path = save(structures([(1, "a", [ring((0, 0), (2, 2), 0)])]), tmp_path / "a.dcm")
    raw = path.read_bytes()
    path.write_bytes(raw.replace(b"-9.5\\", text.encode().ljust(4) + b"\\"))
    refused(path)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(-3, 12), st.integers(-3, 10)), min_size=3, max_size=12, unique=True
    )
)
def test_filling_agrees_with_another_rasteriser(points):
    # Corners off the centres by chance, so that no rule for edges can matter.
    corners = np.array(points) + np.linspace(0.21, 0.37, len(points))[:, None] * [1, 1.3]
    ours = filled([corners], (9, 7))
    np.testing.assert_array_equal(ours, polygon2mask((9, 7), corners))


def test_filling_in_blocks_is_filling_at_once(monkeypatch):
    from medsg_build.formats import dicom_contours

    chance = np.random.default_rng(0)
    corners = [chance.uniform(-5, 45, (30, 2)) for _ in range(4)]
    whole = filled(corners, (40, 40))
    monkeypatch.setattr(dicom_contours, "BLOCK", 16)
    np.testing.assert_array_equal(filled(corners, (40, 40)), whole)
    nothing = filled([np.full((3, 2), 0.5)], (4, 4))
    assert not nothing.any()


# Any damage


@pytest.fixture(scope="module")
def seeds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("seeds")
    groups = [frame_at(height(n), 1 + n % 2, FrameContentSequence=sequence()) for n in range(3)]
    kinds = [
        segmentation([frame((1, 1))] * 3, groups),
        segmentation([frame((1, 1))] * 3, groups, kind="LABELMAP"),
        structures([(1, "a", [ring((0, 0), (2, 2), 0)]), (2, "b", [ring((1, 1), (4, 4), 2)])]),
    ]
    return [save(ds, folder / str(n)).read_bytes() for n, ds in enumerate(kinds)]


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_damaged_masks_raise_nothing_but_source_errors(seeds, tmp_path, data):
    raw = bytearray(data.draw(st.sampled_from(seeds)))
    for at in data.draw(st.lists(st.integers(128, len(raw) - 1), max_size=8)):
        raw[at] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del raw[data.draw(st.integers(132, len(raw))) :]
    path = tmp_path / "a.dcm"
    path.write_bytes(raw)
    with contextlib.suppress(SourceError):
        volume = dicom.read(path, Wanted(labels=True, onto=grid(), picture=path))
        assert volume.data.shape[:3] == SIZE or not volume.names


def test_a_mask_without_a_picture_is_refused(tmp_path):
    for number, ds in enumerate(
        (structures([]), segmentation([frame()], [frame_at(height(0), 1)]), made("1.2", "SR"))
    ):
        path = save(ds, tmp_path / f"{number}.dcm")
        with pytest.raises(SourceError, match=path.name):
            dicom.measure(path, Wanted(labels=True))
