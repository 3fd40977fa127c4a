"""From files to survey rows and frames: one phantom, stored in every way, seen in one."""

import itertools
import os
from dataclasses import replace

import nibabel as nib
import numpy as np
import pytest
from nibabel.orientations import apply_orientation, axcodes2ornt, inv_ornt_aff, ornt_transform
from PIL import Image

from medsg_build import cases
from medsg_build.errors import SourceError
from medsg_build.model import Box, Case, Choice, FrameRef, MaskFile, Order, Reading
from medsg_build.regions import bounds

CODES = [
    "".join(code)
    for order in itertools.permutations(("LR", "PA", "IS"))
    for code in itertools.product(*order)
]
SHAPE = (28, 24, 21)  # right, anterior, superior; 336 is 12, 14 and 16 times as much
AFFINE = np.array([[1.0, 0, 0, -5], [0, 1, 0, 7], [0, 0, 2, 9], [0, 0, 0, 1]])
MARK = (19, 20, 12)
"""The brightest voxel: to the right, in front, above the middle."""


def phantom() -> tuple[np.ndarray, np.ndarray]:
    """Picture and labels in canonical order. 1: two blocks; 2: one voxel and a dust of one."""
    labels = np.zeros(SHAPE, np.uint8)
    labels[4:7, 6:18, 4:10] = 1  # 216 voxels, to the left
    labels[17:20, 20:22, 8:14] = 1  # 36 voxels, to the right and in front
    labels[26, 1, 1] = 2
    picture = np.zeros(SHAPE, np.int16)
    picture[labels == 1] = 100
    picture[MARK] = 240
    return picture, labels


def save(path, data, codes="RAS", affine=AFFINE):
    turn = ornt_transform(axcodes2ornt("RAS"), axcodes2ornt(tuple(codes)))
    path.parent.mkdir(parents=True, exist_ok=True)
    stored = affine @ inv_ornt_aff(turn, data.shape)
    nib.save(nib.Nifti1Image(apply_orientation(data, turn), stored), path)
    return path


def case_of(folder, codes="RAS", mask_codes=None, affine=AFFINE, **reading) -> Case:
    picture, labels = phantom()
    image = save(folder / "a.nii", picture, codes, affine)
    mask = save(folder / "a_seg.nii.gz", labels, mask_codes or codes, affine)
    return Case(
        dataset="d",
        name="d/a",
        patient="d/a",
        modality="MRI",
        root=folder,
        files={"image": image},
        masks=(MaskFile(mask, {"Liver": Choice((1,)), "Nodule": Choice((2,))}),),
        reading=Reading(**{"window": "120/240", "dust": 1, **reading}),
        licence="CC0-1.0",
    )


def survey(case, tmp_path, fit="stretch"):
    return cases.survey_case(cases.SurveyJob(case, fit, tmp_path / "cache"))


def found(held, view, number):
    """(structure, component) -> box of one slice."""
    rows = [held.region(row) for row in held.regions]
    return {(r.structure, r.component): r.box for r in rows if (r.view, r.number) == (view, number)}


# Rows by hand


def test_the_rows_of_two_blocks(tmp_path):
    held = survey(case_of(tmp_path), tmp_path)
    assert held.structures == ("Liver", "Nodule")
    # Columns 28 - i, rows 24 - j; 12 and 14 pixels each.
    one, two = Box(252, 84, 288, 252), Box(96, 28, 132, 56)
    assert found(held, "axial", 4) == {("Liver", 1): one}
    assert found(held, "axial", 9) == {("Liver", 1): one, ("Liver", 2): two}
    assert found(held, "axial", 13) == {("Liver", 2): two}
    # Columns 28 - i, rows 21 - k; 12 and 16 pixels each.
    assert found(held, "coronal", 20) == {("Liver", 2): Box(96, 112, 132, 208)}
    # Columns 24 - j, rows 21 - k; 14 and 16 pixels each.
    assert found(held, "sagittal", 4) == {("Liver", 1): Box(84, 176, 252, 272)}
    assert found(held, "sagittal", 26) == {("Nodule", 1): Box(308, 304, 322, 320)}
    assert held.inside == {
        ("Liver", 1): (5, 12, 6),
        ("Liver", 2): (18, 20, 10),
        ("Nodule", 1): (26, 1, 1),
    }
    assert held.frames["axial"] == (1, *range(4, 14))
    assert held.frames["sagittal"] == (4, 5, 6, 17, 18, 19, 26)
    assert held.dropped == {}
    rows = held.regions[(held.regions["view"] == 0) & (held.regions["number"] == 9)]
    assert rows["pixels"].tolist() == rows["first"].tolist() == [36, 6]
    assert (rows["second"].tolist(), rows["reach"].tolist()) == ([0, 0], [100, 100])


def test_pad_keeps_millimetres(tmp_path):
    held = survey(case_of(tmp_path), tmp_path, "pad")
    # Coronal: 28 x 42 mm, 8 pixels a millimetre, 224 x 336 with 56 black on either side.
    assert found(held, "coronal", 20) == {("Liver", 2): Box(120, 112, 144, 208)}


def test_dust_and_absent_structures_are_counted(tmp_path):
    case = case_of(tmp_path, dust=36, least_side=100)
    case = replace(
        case, masks=(replace(case.masks[0], labels={"L": Choice((1, 2)), "None": Choice((9,))}),)
    )
    held = survey(case, tmp_path)
    assert held.structures == ("L",)
    assert held.dropped["dust"] == 1
    assert held.dropped["structures absent"] == 1
    assert held.dropped["too small"] == int((held.regions["pixels"] > 0).sum())


def test_sections_in_pieces(tmp_path):
    labels = np.zeros((28, 28, 4), np.uint8)
    labels[2:4, 2:26, :] = labels[20:22, 2:10, :] = 1
    labels[2:22, 2:4, 0] = 1  # joins the two arms, below
    case = case_of(tmp_path)
    save(case.files["image"], labels)
    save(case.masks[0].path, labels)
    held = survey(case, tmp_path)
    rows = {int(r["number"]): r for r in held.regions if r["view"] == 0}
    assert [int(rows[0][n]) for n in ("first", "second", "reach")] == [96, 0, 100]
    assert [int(rows[1][n]) for n in ("first", "second", "reach")] == [48, 16, 10]


def test_an_empty_mask_is_named(tmp_path):
    case = case_of(tmp_path)
    save(case.masks[0].path, np.zeros(SHAPE, np.uint8))
    with pytest.raises(SourceError, match=r"d/a: no labelled object is left in a_seg\.nii\.gz"):
        survey(case, tmp_path)


def test_a_mask_on_another_grid_is_refused(tmp_path):
    case = case_of(tmp_path)
    save(case.masks[0].path, phantom()[1], affine=np.diag([2.0, 1, 1, 1]))
    with pytest.raises(SourceError, match=r"a\.nii and .*a_seg\.nii\.gz: .* different grids"):
        survey(case, tmp_path)


def test_without_masks_the_body_is_shown(tmp_path):
    picture = np.zeros(SHAPE, np.int16)
    picture[5:20, 5:20, 6:9] = 100
    for name, data in (("grey", picture), ("colour", colour(picture))):
        case = replace(case_of(tmp_path / name), masks=(), reading=Reading(window="50/100"))
        save(case.files["image"], data)
        held = survey(case, tmp_path)
        assert held.frames["axial"] == (6, 7, 8)
        assert held.regions.size == 0


def colour(data):
    out = np.zeros(data.shape, [("R", "u1"), ("G", "u1"), ("B", "u1")])
    out["G"] = data
    return out


# Every orientation


ORDERS = tuple(
    Order(FrameRef("d/a", "image", view, number), "Liver")
    for view, number in (("axial", MARK[2]), ("coronal", MARK[1]), ("sagittal", MARK[0]))
)


def developed(case, folder, orders=ORDERS, fit="stretch"):
    cases.develop_case(cases.DevelopJob(case, tuple(orders), fit, folder))
    return {order: cases.load_frame(folder, order) for order in orders}


@pytest.mark.parametrize("display", ["radiological", "array"])
@pytest.mark.parametrize("codes", CODES)
def test_every_orientation_gives_the_same_frames(tmp_path, codes, display):
    expected = case_of(tmp_path / "ras", display=display)
    case = case_of(tmp_path / "turned", codes, display=display)
    one, other = survey(expected, tmp_path, "pad"), survey(case, tmp_path, "pad")
    np.testing.assert_array_equal(other.regions, one.regions)
    assert (other.frames, other.inside) == (one.frames, one.inside)
    frames = developed(expected, tmp_path / "f1", fit="pad")
    turn = ornt_transform(axcodes2ornt("RAS"), axcodes2ornt(tuple(codes)))
    stored = np.linalg.inv(inv_ornt_aff(turn, SHAPE)) @ (*MARK, 1)  # the mark, as the file has it
    for order, frame in developed(case, tmp_path / "f2", fit="pad").items():
        np.testing.assert_array_equal(frame.image, frames[order].image)
        np.testing.assert_array_equal(frame.mask, frames[order].mask)
        x, y, away, _ = frame.matrix @ stored
        assert away == pytest.approx(0)
        assert frame.image[int(y), int(x)] > 200  # a neighbouring voxel is at most 180


@pytest.mark.parametrize("mask_codes", ["LPS", "SRA"])
def test_a_mask_stored_otherwise_is_repaired_and_told(tmp_path, mask_codes):
    held = survey(case_of(tmp_path, "RAS", mask_codes), tmp_path)
    np.testing.assert_array_equal(held.regions, survey(case_of(tmp_path / "ras"), tmp_path).regions)
    assert held.notes == ("a_seg.nii.gz: reoriented onto the picture's grid",)


@pytest.mark.parametrize("degrees", [10, 20, 45])
def test_an_oblique_grid_is_seen_along_its_own_axes(tmp_path, degrees):
    angle = np.deg2rad(degrees)
    turn = np.eye(4)
    turn[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    case = case_of(tmp_path, affine=turn @ AFFINE)
    if degrees == 45:  # where float noise alone decides which axis is which
        noisy = turn @ AFFINE
        noisy[:2, :2] += [[-1e-6, 1e-6], [1e-6, 1e-6]]
        save(case.masks[0].path, phantom()[1], affine=noisy)
    held = survey(case, tmp_path)
    for order, frame in developed(case, tmp_path / "f").items():
        boxes = found(held, order.ref.view, order.ref.number)
        assert bounds(frame.mask) == boxes["Liver", 2]
    if degrees < 45:
        plain = survey(case_of(tmp_path / "plain"), tmp_path)
        np.testing.assert_array_equal(held.regions, plain.regions)


def test_box_and_frame_share_one_spacing(tmp_path):
    """A mask whose spacing differs by float noise must not shift its boxes against the picture."""
    case = case_of(tmp_path)
    labels = np.zeros((300, 150, 2), np.uint8)
    labels[0, 0] = 1  # left and behind: bottom right
    save(case.files["image"], labels, affine=np.diag([1, 0.99703, 1, 1]))  # 167.501 pixels high
    save(case.masks[0].path, labels, affine=np.diag([1, 0.99702, 1, 1]))  # 167.499
    held = survey(case, tmp_path, "pad")
    assert held.notes == ()
    assert found(held, "axial", 0)["Liver", 1] == Box(334, 250, 336, 252)  # 168 high, from 84
    order = Order(FrameRef("d/a", "image", "axial", 0), "Liver")
    frame = developed(case, tmp_path / "f", [order], "pad")[order]
    assert bounds(frame.mask).x1 == 336
    assert bounds(frame.mask).y1 == 252


# Developing


def test_any_order_gives_the_same_frames(tmp_path):
    case = case_of(tmp_path)
    one = developed(case, tmp_path / "f1", ORDERS)
    other = {}
    for order in reversed(ORDERS):  # one at a time
        other |= developed(case, tmp_path / "f2", [order])
    for order in ORDERS:
        np.testing.assert_array_equal(one[order].image, other[order].image)
        np.testing.assert_array_equal(one[order].matrix, other[order].matrix)
    assert cases.develop_case(cases.DevelopJob(case, ORDERS, "stretch", tmp_path / "f1")) == 0


@pytest.mark.parametrize("fit", ["stretch", "pad"])
def test_the_mask_lies_on_the_frame(tmp_path, fit):
    case = case_of(tmp_path)
    held = survey(case, tmp_path, fit)
    for order, frame in developed(case, tmp_path / "f", fit=fit).items():
        assert bounds(frame.mask) == found(held, order.ref.view, order.ref.number)["Liver", 2]
        assert (frame.image.shape, frame.mask.dtype) == ((336, 336), np.uint8)
        assert frame.image[frame.mask > 0].min() > 25  # a quarter of the grey at its corners
        far = np.ones((336, 336), bool)
        box = bounds(frame.mask)
        far[box.y0 - 8 : box.y1 + 8, box.x0 - 8 : box.x1 + 8] = False
        assert not frame.image[far].any()  # nothing else shows on these slices


def test_no_mask_unless_asked(tmp_path):
    case = case_of(tmp_path)
    assert cases.frame_of(case, ORDERS[0].ref, "pad").mask is None
    assert cases.frame_of(case, ORDERS[0].ref, "pad", "Nodule").mask.sum() == 0
    with pytest.raises(SourceError, match="was not developed"):
        cases.load_frame(tmp_path, ORDERS[0])


def test_what_the_header_left_open_is_in_the_steps(tmp_path):
    case = case_of(tmp_path)
    image = nib.Nifti1Image(phantom()[0], None)  # no affine, no codes
    nib.save(image, case.files["image"])
    frame = cases.frame_of(replace(case, masks=()), ORDERS[0].ref, "pad")
    assert "no orientation in the header" in frame.steps[0]["notes"][0]


def test_a_picture_and_its_mask(tmp_path):
    picture = np.zeros((56, 112, 3), np.uint8)
    picture[10:20, 8:40] = (200, 100, 50)
    mask = (picture[..., 0] > 0).astype(np.uint8) * 255
    Image.fromarray(picture).save(tmp_path / "a.png")
    Image.fromarray(mask).save(tmp_path / "m.png")
    case = replace(
        case_of(tmp_path),
        files={"image": tmp_path / "a.png"},
        masks=(MaskFile(tmp_path / "m.png", {"Polyp": Choice()}),),
        reading=Reading(),
    )
    held = survey(case, tmp_path, "pad")
    assert found(held, "picture", 0) == {("Polyp", 1): Box(24, 114, 120, 144)}
    order = Order(FrameRef("d/a", "image", "picture", 0), "Polyp")
    frame = developed(case, tmp_path / "f", [order], "pad")[order]
    assert bounds(frame.mask) == Box(24, 114, 120, 144)
    assert frame.image[130, 60].tolist() == [200, 100, 50]
    Image.fromarray(mask[::2, ::2]).save(tmp_path / "m.png")
    with pytest.raises(SourceError, match=r"differ in size \(112x56 pixels against 56x28"):
        survey(case, tmp_path, "pad")


# The cache


def kept(tmp_path):
    return sorted((tmp_path / "cache" / "survey").glob("*.parquet"))


def same(one, other):
    np.testing.assert_array_equal(one.regions, other.regions)
    for name in ("structures", "frames", "inside", "dropped", "sources", "notes"):
        assert getattr(one, name) == getattr(other, name)


def test_a_survey_is_kept_and_used_again(tmp_path, monkeypatch):
    case = case_of(tmp_path, mask_codes="LPS")
    first = survey(case, tmp_path)
    assert len(kept(tmp_path)) == 1
    monkeypatch.setattr(cases.opening.formats, "read", None)  # no pixel is opened again
    same(survey(case, tmp_path), first)


def test_a_survey_is_made_anew_when_anything_changed(tmp_path):
    case = case_of(tmp_path)
    survey(case, tmp_path)
    path = case.masks[0].path
    changes = [
        (case, "pad"),
        (replace(case, reading=replace(case.reading, least_side=6)), "stretch"),
        (replace(case, reading=replace(case.reading, display="array")), "stretch"),
        (replace(case, reading=replace(case.reading, views=("axial",))), "stretch"),
        (replace(case, masks=(MaskFile(path, {"Liver": Choice((1,))}),)), "stretch"),
        (
            replace(case, masks=(MaskFile(path, {"Nodule": Choice((2,)), "Liver": Choice((1,))}),)),
            "stretch",
        ),
    ]
    for count, (changed, fit) in enumerate(changes, 2):
        held = survey(changed, tmp_path, fit)
        assert len(kept(tmp_path)) == count
        assert held.structures == tuple(changed.masks[0].labels)
    stat = path.stat()
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
    survey(case, tmp_path)
    assert len(kept(tmp_path)) == len(changes) + 2
    with path.open("ab") as file:
        file.write(b"\0")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    survey(case, tmp_path)
    assert len(kept(tmp_path)) == len(changes) + 3


def test_a_damaged_cache_is_no_cache(tmp_path):
    case = case_of(tmp_path)
    first = survey(case, tmp_path)
    kept(tmp_path)[0].write_bytes(b"PAR1 cut off")
    same(survey(case, tmp_path), first)
    same(survey(case, tmp_path), first)


def test_a_vanished_file_is_named(tmp_path):
    case = case_of(tmp_path)
    case.masks[0].path.unlink()
    with pytest.raises(SourceError, match=r"a_seg\.nii\.gz: cannot be read"):
        survey(case, tmp_path)


def test_a_picture_and_a_volume_cannot_be_a_pair(tmp_path):
    Image.fromarray(np.zeros((24, 28), np.uint8)).save(tmp_path / "a.png")
    mask = tmp_path / "a.nii"
    nib.save(nib.Nifti1Image(np.ones((28, 24, 1), np.uint8), np.eye(4)), mask)
    case = case_of(tmp_path / "c")
    case = replace(
        case,
        files={"image": tmp_path / "a.png"},
        masks=(MaskFile(mask, {"Liver": Choice((1,))}),),
    )
    with pytest.raises(SourceError, match="a plain picture and a volume"):
        survey(case, tmp_path)


# What belongs together, and what does not


def cropped(case, tmp_path, low=(2, 4, 1), high=(28, 24, 21), codes="LPS"):
    """The case with a mask that covers a part of the picture's grid, stored in another order."""
    _, labels = phantom()
    affine = AFFINE.copy()
    affine[:3, 3] += AFFINE[:3, :3] @ low
    part = labels[tuple(slice(a, b) for a, b in zip(low, high, strict=True))]
    path = save(tmp_path / "crop.nii.gz", part, codes, affine)
    return replace(case, masks=(replace(case.masks[0], path=path),))


def test_a_cropped_mask_is_laid_at_its_place_and_said(tmp_path):
    case = case_of(tmp_path)
    whole, part = survey(case, tmp_path), survey(cropped(case, tmp_path), tmp_path)
    rows = whole.regions[whole.regions["structure"] == 0]
    np.testing.assert_array_equal(part.regions, rows)  # the nodule lies beyond the crop
    assert part.notes == ("crop.nii.gz: laid at its place in the picture's grid",)
    ref = FrameRef(case.name, "image", "axial", 9)
    frame = cases.frame_of(cropped(case, tmp_path), ref, "stretch", "Liver")
    np.testing.assert_array_equal(frame.mask, cases.frame_of(case, ref, "stretch", "Liver").mask)


def test_a_turned_mask_is_turned_back_and_said(tmp_path):
    held = survey(case_of(tmp_path, mask_codes="LPS"), tmp_path)
    assert held.notes == ("a_seg.nii.gz: reoriented onto the picture's grid",)


def test_a_tilted_gantry_leaves_the_views_that_stay_true(tmp_path):
    tilted = AFFINE.copy()
    tilted[1, 2] = 2 * np.tan(np.radians(15))
    held = survey(case_of(tmp_path, affine=tilted), tmp_path)
    assert {held.region(row).view for row in held.regions} == {"axial", "coronal"}
    assert "not at right angles" in held.notes[0]
    with pytest.raises(SourceError, match="none of the recipe's views shows true shapes"):
        survey(case_of(tmp_path / "s", affine=tilted, views=("sagittal",)), tmp_path)


def test_volumes_can_be_shown_as_they_are_stored(tmp_path):
    case = case_of(tmp_path, codes="PIR", views=("picture",))
    held = survey(case, tmp_path)
    assert {held.region(row).view for row in held.regions} == {"picture"}
    stored = np.asarray(nib.load(case.files["image"]).dataobj)
    number = int(held.regions["number"][0])
    frame = cases.frame_of(case, FrameRef(case.name, "image", "picture", number), "stretch")
    grey = np.clip(np.rint(stored[:, :, number].T * 255 / 240), 0, 255)
    assert frame.image[168, 168] == pytest.approx(
        grey[grey.shape[0] // 2, grey.shape[1] // 2], abs=9
    )
    np.testing.assert_allclose(
        frame.matrix @ [0, 0, number, 1],
        [168 / stored.shape[0], 168 / stored.shape[1], 0, 1],
    )


def test_a_plain_mask_on_a_single_slice(tmp_path):
    picture = np.zeros((28, 24, 1), np.int16)
    path = save(tmp_path / "one.nii.gz", picture, "RAS", AFFINE)
    mask = np.zeros((24, 28), np.uint8)
    mask[3:9, 5:20] = 1  # rows and columns as stored: j and i
    Image.fromarray(mask).save(tmp_path / "m.png")
    case = case_of(tmp_path, views=("axial",))
    case = replace(
        case, files={"image": path}, masks=(MaskFile(tmp_path / "m.png", {"A": Choice()}),)
    )
    held = survey(case, tmp_path)
    # i runs to the right: columns 28 - 20 to 28 - 5; j forward: rows 24 - 9 to 24 - 3.
    assert found(held, "axial", 0) == {("A", 1): Box(96, 210, 276, 294)}
    assert "pixel by pixel" in held.notes[0]
