"""Two readers agree: a real body CT, stored in five ways, shows the same frames in all of them.

What the frames should be is worked out twice without the package, from what nibabel and SimpleITK
read. No noise has to be forgiven: Hounsfield units are whole numbers in every file, and positions
rounded to the 16 characters of DICOM stay far within the tenth of a voxel that is allowed.
"""

import json
from pathlib import Path

import cv2
import nibabel as nib
import numpy as np
import pytest
import SimpleITK as sitk
from PIL import Image, ImageDraw
from pydicom.valuerep import DSfloat

from medsg_build import cases
from medsg_build.cases import opening
from medsg_build.model import Case, Choice, FrameRef, MaskFile, Order, Reading
from tests import dicom_files

DATA = Path(__file__).parents[2] / "shared" / "realdata" / "totalsegmentator"
PICTURE = DATA / "ct" / "example_ct.nii.gz"
LABELS = DATA / "ct" / "example_seg_fast_force_split.nii.gz"
SCAN = DATA / "ct_dicom" / "example_ct_dicom"
SCAN_LABELS = DATA / "ct_dicom" / "example_seg_dicom.nii.gz"
STRUCTURES = ("liver", "spleen", "kidney_left", "kidney_right", "aorta", "urinary_bladder")

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"{DATA} is not on this machine")


def named():
    """The six structures by the label values of TotalSegmentator."""
    told = json.loads((DATA / "labels.json").read_text())["ct"]
    return {name: Choice((int(v),)) for v, name in told.items() if name in STRUCTURES}


# One subject in every format, by plain calls of the libraries


def in_16_bits(source, path):
    """The CT comes in 32 bits; see the last test on frames for what that changes."""
    image = nib.load(source)
    nib.save(nib.Nifti1Image(np.asarray(image.dataobj).astype(np.int16), image.affine), path)
    return path


def by_itk(source, path, axes):
    """Read and written by SimpleITK, its axes put in another order on the way."""
    sitk.WriteImage(sitk.DICOMOrient(sitk.ReadImage(str(source)), axes), str(path), True)
    return path


def as_dicom(source, folder):
    """A slice a file as a scanner writes it, from the feet up, in stored values of HU + 1024."""
    image = sitk.DICOMOrient(sitk.ReadImage(str(source)), "LPS")  # the axes of DICOM
    across, down, apart = image.GetSpacing()
    for number, slice_ in enumerate(sitk.GetArrayFromImage(image)):
        place = image.TransformIndexToPhysicalPoint((0, 0, number))
        ds = dicom_files.ct(
            number,
            (slice_ + 1024).astype(np.int16),
            ImagePositionPatient=[DSfloat(v, auto_format=True) for v in place],
            PixelSpacing=[down, across],
            SliceThickness=apart,
            RescaleSlope=1,
            RescaleIntercept=-1024,
        )
        dicom_files.save(ds, folder / f"{999 - number}.dcm")  # names run the other way
    return folder


def case_of(root, picture, labels) -> Case:
    return Case(
        dataset="d",
        name="d/a",
        patient="d/a",
        modality="CT",
        root=root,
        files={"image": picture},
        masks=(MaskFile(labels, named()),),
        reading=Reading(),
        licence="Apache-2.0",
    )


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """Format -> the same subject in it."""
    root = tmp_path_factory.mktemp("stored")
    picture = in_16_bits(PICTURE, root / "a.nii.gz")
    files = {
        "nifti": (picture, LABELS),
        "nrrd": (by_itk(picture, root / "a.nrrd", "LPS"), by_itk(LABELS, root / "b.nrrd", "LPS")),
        "mha": (by_itk(picture, root / "a.mha", "PIR"), by_itk(LABELS, root / "b.mha", "PIR")),
        "mhd and nrrd": (by_itk(picture, root / "c.mhd", "SAL"), root / "b.nrrd"),
        "dicom": (as_dicom(picture, root / "dicom"), LABELS),
    }
    return {name: case_of(root, *pair) for name, pair in files.items()}


# What must come out, without the package


def by_nibabel(path):
    """(i, j, k) to the right, to the front and upward."""
    return np.asanyarray(nib.as_closest_canonical(nib.load(path)).dataobj)


def by_simpleitk(image):
    """The same from SimpleITK, which counts k, j, i."""
    return sitk.GetArrayFromImage(sitk.DICOMOrient(image, "RAS")).transpose(2, 1, 0)


def expected(slice_, size):
    """The frame of a slice (rows, columns) of HU, the soft-tissue window, `size` pixels inside."""
    grey = np.rint(np.clip((slice_ + 160) / 400, 0, 1) * 255).astype(np.uint8)
    inside = cv2.resize(grey, size, interpolation=cv2.INTER_LINEAR)
    left, top = (336 - size[0]) // 2, (336 - size[1]) // 2
    right, bottom = 336 - size[0] - left, 336 - size[1] - top
    return np.pad(inside, ((top, bottom), (left, right)))


VIEWS = ("axial", "coronal", "sagittal")


def centre(survey, structure):
    """A voxel in the largest piece of a structure, for each view the number of its slice."""
    i, j, k = survey.inside[structure, 1]
    return {"axial": k, "coronal": j, "sagittal": i}


def test_nibabel_and_simpleitk_read_the_same_volume(stored):
    first = by_nibabel(PICTURE)
    assert np.array_equal(by_simpleitk(sitk.ReadImage(str(PICTURE))), first)
    for case in stored.values():
        volume = opening.picture(case, "image")
        assert np.array_equal(volume.data, first)
        np.testing.assert_allclose(volume.affine, nib.load(PICTURE).affine, atol=1e-5)  # is RAS
        mask = opening.mask(case, case.masks[0])
        assert np.array_equal(mask.data, by_nibabel(LABELS))


@pytest.mark.parametrize("name", ["nifti", "nrrd", "mha", "mhd and nrrd", "dicom"])
def test_every_format_shows_what_nibabel_and_simpleitk_tell(tmp_path, stored, name):
    case = stored[name]
    survey = cases.survey_case(cases.SurveyJob(case, "pad", tmp_path))
    at = centre(survey, "liver")
    frames = {
        view: cases.frame_of(case, FrameRef("d/a", "image", view, number), "pad", "liver")
        for view, number in at.items()
    }
    # 122 x 101 x 112 voxels of 3 mm, the first axis is the longest: 336 / 122 pixels each, but in
    # the sagittal view, whose longest side is 112.
    ras = by_nibabel(PICTURE)
    slices = {
        "axial": ras[:, ::-1, at["axial"]].T[:, ::-1],
        "coronal": ras[:, at["coronal"], ::-1].T[:, ::-1],
        "sagittal": ras[at["sagittal"], :, ::-1].T[:, ::-1],
    }
    sizes = {"axial": (336, 278), "coronal": (336, 308), "sagittal": (303, 336)}
    # In LPS the columns of a picture run to the left and its rows to the back, as on a screen.
    lps = sitk.GetArrayFromImage(sitk.DICOMOrient(sitk.ReadImage(str(PICTURE)), "LPS"))
    k, j, i = at["axial"], lps.shape[1] - 1 - at["coronal"], lps.shape[2] - 1 - at["sagittal"]
    others = {"axial": lps[k], "coronal": lps[::-1, j], "sagittal": lps[::-1, :, i]}
    for view, frame in frames.items():
        assert np.array_equal(others[view], slices[view])
        assert np.array_equal(frame.image, expected(slices[view], sizes[view]))


# The same frames, boxes and masks


def everything(case, folder, fit="pad"):
    """All views through the middle of each structure, and the survey."""
    survey = cases.survey_case(cases.SurveyJob(case, fit, folder))
    orders = [
        Order(FrameRef("d/a", "image", view, number), structure)
        for structure in survey.structures
        for view, number in centre(survey, structure).items()
    ]
    return survey, dict(cases.frames_of(case, orders, fit))


def same(one, other):
    """Two surveys and their frames are the same, pixel by pixel."""
    np.testing.assert_array_equal(other[0].regions, one[0].regions)
    for name in ("structures", "frames", "extent", "inside", "dropped"):
        assert getattr(other[0], name) == getattr(one[0], name)
    assert other[1].keys() == one[1].keys()
    for order, frame in one[1].items():
        assert np.array_equal(other[1][order].image, frame.image)
        assert np.array_equal(other[1][order].mask, frame.mask)


@pytest.mark.parametrize("fit", ["pad", "stretch"])
def test_one_subject_in_five_formats_gives_one_set_of_frames(tmp_path, stored, fit):
    first = everything(stored["nifti"], tmp_path, fit)
    assert set(first[0].structures) == set(STRUCTURES)
    assert len(first[1]) == 3 * len(STRUCTURES)
    for case in stored.values():
        same(first, everything(case, tmp_path, fit))


def test_a_scan_in_jpeg_2000_is_what_simpleitk_reads(tmp_path):
    """A real series under its scanner's names; SimpleITK decodes it with GDCM, we with OpenJPEG."""
    case = case_of(tmp_path, SCAN, SCAN_LABELS)
    names = sitk.ImageSeriesReader.GetGDCMSeriesFileNames(str(SCAN))
    image = sitk.ReadImage(names)
    assert np.array_equal(opening.picture(case, "image").data, by_simpleitk(image))
    sitk.WriteImage(image, str(tmp_path / "a.nrrd"), True)
    other = case_of(tmp_path, tmp_path / "a.nrrd", SCAN_LABELS)
    same(everything(case, tmp_path), everything(other, tmp_path))


def test_the_width_of_a_number_changes_no_grey(tmp_path, stored):
    """Hounsfield units are the same numbers in 16 bits and in 32."""
    wide = case_of(tmp_path, PICTURE, LABELS)
    same(everything(stored["nifti"], tmp_path), everything(wide, tmp_path))


# To look at


def side_by_side(stored, structure, folder):
    """A row a format, a column a view: the frames through a structure with the boxes on them."""
    sheet = Image.new("RGB", (3 * 340, len(stored) * 354), "white")
    pen = ImageDraw.Draw(sheet)
    for row, (name, case) in enumerate(stored.items()):
        survey = cases.survey_case(cases.SurveyJob(case, "pad", folder))
        regions = [survey.region(each) for each in survey.regions]
        for column, (view, number) in enumerate(centre(survey, structure).items()):
            left, top = 340 * column, 354 * row
            ref = FrameRef("d/a", "image", view, number)
            sheet.paste(Image.fromarray(cases.frame_of(case, ref, "pad").image), (left, top))
            pen.text((left + 2, top + 338), f"{name} {view} {number}", fill="black")
            for region in regions:
                if (region.view, region.number) == (view, number):
                    x0, y0, x1, y1 = region.box
                    edges = (left + x0, top + y0, left + x1 - 1, top + y1 - 1)
                    pen.rectangle(edges, outline="yellow")
                    pen.text((edges[0] + 2, edges[1] + 1), region.structure, fill="yellow")
    path = folder / "side_by_side.png"
    sheet.save(path)
    return path


def test_side_by_side(tmp_path, stored):
    with Image.open(side_by_side(stored, "liver", tmp_path)) as sheet:
        rows = np.asarray(sheet).reshape(len(stored), 354, 3 * 340, 3)[:, :336]
    assert (rows == rows[0]).all()
    assert (rows[0] == (255, 255, 0)).all(axis=2).any()  # some boxes are drawn
