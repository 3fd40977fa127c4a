"""One phantom, stored in every format and every orientation, comes out as one picture.

A volume on disk is an array and a matrix that says where it lies; each of the 48 orders of its axes
(`RAS`: the first index counts to the right, the second to the front, the third upward) is lawful,
and each format spells it in a way of its own. What a reader sees must depend on none of this. The
reference is a NIfTI in the order RAS; its pictures and boxes are worked out by hand.
"""

import functools
import gzip
import itertools

import nibabel as nib
import numpy as np
import pytest
import SimpleITK as sitk
from nibabel.orientations import apply_orientation, axcodes2ornt, inv_ornt_aff, ornt_transform

from medsg_build import cases
from medsg_build.cases import opening
from medsg_build.model import Box, Case, Choice, FrameRef, MaskFile, Order, Reading
from medsg_build.regions import bounds

CODES = [
    "".join(code)
    for order in itertools.permutations(("LR", "PA", "IS"))
    for code in itertools.product(*order)
]
FITS = ("stretch", "pad")
SHAPE = (28, 24, 21)
AFFINE = np.array([[1.25, 0, 0, -17.5], [0, 1.5, 0, -21.25], [0, 0, 2, 40], [0, 0, 0, 1]])
MARK = (20, 13, 6)
"""The brightest voxel. Seen from the other ends it is (7, 10, 14): no number stands twice."""

ORDERS = tuple(
    Order(FrameRef("d/a", "image", view, number), structure)
    for view, number, structure in (
        ("axial", MARK[2], "A"),
        ("axial", MARK[2], "B"),
        ("coronal", MARK[1], "A"),
        ("sagittal", MARK[0], "A"),
    )
)


# The phantom


def phantom():
    """Picture and labels in the order RAS.

    1: a block around the mark with an arm of 5 voxels to the right, one of 9 to the back and one of
    11 upward. 2: a block on the left. Each voxel of the ground differs from those around it.
    """
    labels = np.zeros(SHAPE, np.uint8)
    labels[19:22, 12:15, 5:8] = 1
    labels[22:27, 12:14, 5:7] = 1
    labels[19:21, 3:12, 6:8] = 1
    labels[19:21, 13:15, 8:19] = 1
    labels[3:8, 10:17, 4:11] = 2
    i, j, k = np.indices(SHAPE)
    picture = ((37 * i + 61 * j + 97 * k) % 101 - 50).astype(np.int16)
    picture[labels == 1] = 150
    picture[labels == 2] = 200
    picture[MARK] = 300  # all around it is 150, so that its middle is the brightest place
    return picture, labels


@functools.cache
def turned(code):
    """Picture, labels, affine and place of the mark, as a file in the order `code` has them."""
    turn = ornt_transform(axcodes2ornt("RAS"), axcodes2ornt(tuple(code)))
    back = inv_ornt_aff(turn, SHAPE)  # index in the file -> index in RAS
    picture, labels = (apply_orientation(data, turn) for data in phantom())
    return picture, labels, AFFINE @ back, np.linalg.inv(back) @ (*MARK, 1)


def test_no_turn_and_no_mirror_of_the_marker_is_itself():
    places = np.argwhere(phantom()[1] == 1)
    seen = set()
    for order in itertools.permutations(range(3)):
        for signs in itertools.product((1, -1), repeat=3):
            moved = places[:, order] * signs
            seen.add(tuple(sorted(map(tuple, (moved - moved.min(axis=0)).tolist()))))
    assert len(seen) == len(CODES) == len(set(CODES)) == 48


# The formats: each writes one array (i, j, k) and its affine, index -> RAS mm


def nifti(folder, name, data, affine):
    path = folder / f"{name}.nii.gz"
    nib.save(nib.Nifti1Image(data, affine), path)  # nibabel fills in the sform
    return path


def nifti_qform(folder, name, data, affine):
    image = nib.Nifti1Image(data, None)
    image.set_sform(None, 0)
    image.set_qform(affine, 1)  # a quaternion, whose matrix is off by 1e-7
    nib.save(image, folder / f"{name}.nii")
    return folder / f"{name}.nii"


def nifti2(folder, name, data, affine):
    image = nib.Nifti2Image(data, affine)
    image.set_qform(affine, 1)
    nib.save(image, folder / f"{name}.nii.gz")
    return folder / f"{name}.nii.gz"


def pair(folder, name, data, affine):
    nib.save(nib.Nifti1Pair(data, affine), folder / f"{name}.img")
    return folder / f"{name}.hdr"


def itk(suffix, packed):
    """What SimpleITK writes; its positions count to the left and to the back (LPS)."""

    def write(folder, name, data, affine):
        lps = np.diag([-1, -1, 1, 1]) @ affine
        spacing = np.linalg.norm(lps[:3, :3], axis=0)
        image = sitk.GetImageFromArray(np.ascontiguousarray(data.transpose(2, 1, 0)))
        image.SetSpacing(spacing.tolist())
        image.SetDirection((lps[:3, :3] / spacing).ravel().tolist())
        image.SetOrigin(lps[:3, 3].tolist())
        sitk.WriteImage(image, str(folder / f"{name}{suffix}"), packed)
        return folder / f"{name}{suffix}"

    return write


def nrrd_ras(folder, name, data, affine):
    steps = " ".join(f"({x:g},{y:g},{z:g})" for x, y, z in affine[:3, :3].T)
    head = f"""NRRD0004
type: {data.dtype}
dimension: 3
sizes: {" ".join(map(str, data.shape))}
space: right-anterior-superior
space directions: {steps}
space origin: ({",".join(f"{v:g}" for v in affine[:3, 3])})
endian: little
encoding: gzip

"""
    path = folder / f"{name}.nrrd"
    path.write_bytes(head.encode() + gzip.compress(data.tobytes(order="F"), 1))
    return path


FORMATS = {
    "nifti": nifti,
    "nifti_qform": nifti_qform,
    "nifti2": nifti2,
    "pair": pair,
    "nrrd_lps": itk(".nrrd", True),
    "nrrd_ras": nrrd_ras,
    "nhdr": itk(".nhdr", False),
    "mha": itk(".mha", True),
    "mhd": itk(".mhd", False),
}


def case_of(folder, write, code, write_mask=None, mask_code=None):
    """The phantom on disk: the picture in one format and order, the mask in these or others."""
    picture, _, affine, _ = turned(code)
    image = write(folder, "image", picture, affine)
    _, labels, affine, _ = turned(mask_code or code)
    return paired(folder, image, (write_mask or write)(folder, "mask", labels, affine))


def paired(folder, image, mask) -> Case:
    return Case(
        dataset="d",
        name="d/a",
        patient="d/a",
        modality="MR",
        root=folder,
        files={"image": image},
        masks=(MaskFile(mask, {"A": Choice((1,)), "B": Choice((2,))}),),
        reading=Reading(window="125/350", dust=1),  # -50 is black, 300 white
        licence="CC0-1.0",
    )


# What must come out


def seen(case, folder, fit):
    """The survey, and the three views at the mark with the mask of each structure."""
    held = cases.survey_case(cases.SurveyJob(case, fit, folder / "cache"))
    return held, dict(cases.frames_of(case, ORDERS, fit))


def seen_plainly(folder):
    """Fit -> what is seen of the reference: a NIfTI in the order RAS."""
    case = case_of(folder, nifti, "RAS")
    return {fit: seen(case, folder, fit) for fit in FITS}


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    return seen_plainly(tmp_path_factory.mktemp("reference"))


def boxes(held, view, number):
    rows = [held.region(row) for row in held.regions]
    return {r.structure: r.box for r in rows if (r.view, r.number) == (view, number)}


def test_the_reference_is_worked_out_by_hand(reference):
    held, frames = reference["stretch"]
    assert (held.structures, held.notes, held.dropped) == (("A", "B"), (), {})
    # The picture's columns run to the left, its rows to the back or downward. A voxel is 12 pixels
    # wide on columns of 28, 14 high or wide on those of 24, and 16 high on rows of 21.
    assert boxes(held, "axial", MARK[2]) == {
        "A": Box((28 - 27) * 12, (24 - 15) * 14, (28 - 19) * 12, (24 - 3) * 14),
        "B": Box((28 - 8) * 12, (24 - 17) * 14, (28 - 3) * 12, (24 - 10) * 14),
    }
    assert boxes(held, "coronal", MARK[1]) == {
        "A": Box((28 - 27) * 12, (21 - 19) * 16, (28 - 19) * 12, (21 - 5) * 16),
        "B": Box((28 - 8) * 12, (21 - 11) * 16, (28 - 3) * 12, (21 - 4) * 16),
    }
    assert boxes(held, "sagittal", MARK[0]) == {
        "A": Box((24 - 15) * 14, (21 - 19) * 16, (24 - 3) * 14, (21 - 5) * 16)
    }
    at = {order.ref.view: (frame.matrix @ (*MARK, 1)).tolist() for order, frame in frames.items()}
    assert at == {
        "axial": [7.5 * 12, 10.5 * 14, 0, 1],
        "coronal": [7.5 * 12, 14.5 * 16, 0, 1],
        "sagittal": [10.5 * 14, 14.5 * 16, 0, 1],
    }
    # Padded, the frame keeps millimetres: 35 to the side, 36 in depth, 42 in height.
    padded = reference["pad"][1]
    assert {order.ref.view: frame.steps[2]["size"] for order, frame in padded.items()} == {
        "axial": [327, 336],
        "coronal": [280, 336],
        "sagittal": [288, 336],
    }


@pytest.mark.parametrize("fit", FITS)
def test_box_mask_and_matrix_of_the_reference_tell_of_one_place(reference, fit):
    held, frames = reference[fit]
    for order, frame in frames.items():
        box = boxes(held, order.ref.view, order.ref.number)[order.structure]
        inside = bounds(frame.mask)
        assert box.contains(inside)  # a box is rounded outward, a mask to the nearest pixel
        assert max(abs(a - b) for a, b in zip(box, inside, strict=True)) <= 1
        x, y, *_ = (int(v) for v in frame.matrix @ (*MARK, 1))
        assert bool(frame.mask[y, x]) == (order.structure == "A")


def agrees(case, folder, mark, reference, notes=()):
    """The case shows what the reference shows; `mark`: the marked voxel's index in its picture."""
    volume = opening.picture(case, "image")
    np.testing.assert_array_equal(volume.data, phantom()[0], strict=True)
    np.testing.assert_allclose(volume.affine, AFFINE, atol=1e-5)
    for fit in FITS:
        held, frames = seen(case, folder, fit)
        expected, pictures = reference[fit]
        np.testing.assert_array_equal(held.regions, expected.regions)
        for name in ("structures", "frames", "extent", "inside", "dropped"):
            assert getattr(held, name) == getattr(expected, name)
        assert held.notes == notes
        assert frames.keys() == pictures.keys()
        for order, frame in frames.items():
            assert np.array_equal(frame.image, pictures[order].image)
            assert np.array_equal(frame.mask, pictures[order].mask)
            place = frame.matrix @ mark
            np.testing.assert_allclose(place, pictures[order].matrix @ (*MARK, 1), atol=1e-9)
            x, y, away, _ = place
            assert away == pytest.approx(0)
            assert frame.image[int(y), int(x)] == frame.image.max() > 240


# Every format in every order


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_in_every_order(tmp_path, reference, kind, code):
    agrees(case_of(tmp_path, FORMATS[kind], code), tmp_path, turned(code)[3], reference)


@pytest.mark.parametrize(("kind", "other"), [*itertools.pairwise([*FORMATS, "nifti"])])
def test_one_order_in_two_formats_needs_no_repair(tmp_path, reference, kind, other):
    case = case_of(tmp_path, FORMATS[kind], "LPS", FORMATS[other])
    agrees(case, tmp_path, turned("LPS")[3], reference)


@pytest.mark.parametrize(
    ("kind", "code", "other", "mask_code"),
    [
        ("nrrd_lps", "LPS", "nifti", "RAS"),
        ("mha", "PIR", "pair", "SAL"),
        ("nifti_qform", "IRP", "mhd", "ALS"),
        ("nhdr", "LAS", "nifti2", "IPR"),
    ],
)
def test_two_orders_in_two_formats_are_brought_together(
    tmp_path, reference, kind, code, other, mask_code
):
    case = case_of(tmp_path, FORMATS[kind], code, FORMATS[other], mask_code)
    note = f"{case.masks[0].path.name}: reoriented onto the picture's grid"
    agrees(case, tmp_path, turned(code)[3], reference, (note,))
