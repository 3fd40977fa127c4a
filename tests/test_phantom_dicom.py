"""The phantom of `test_phantom` in DICOM, in every order, with every kind of mask.

A DICOM slice tells where its rows and columns run, and each slice where it lies; a reader sorts
slices along the normal of their plane, whatever their names and numbers. So 24 of the 48 orders are
those of the other 24 with the files counted from the other end.
"""

import highdicom
import numpy as np
import pydicom
import pytest
from skimage.measure import find_contours

from tests import dicom_files
from tests.dicom_files import ENHANCED_CT, contour, ct, frame_at, made, put_pixels, shared
from tests.test_phantom import (
    CODES,
    FORMATS,
    agrees,
    case_of,
    nifti,
    paired,
    seen_plainly,
    turned,
)

FEW = ["RAS", "LPS", "LAS", "PIR", "SRA", "IAL"]
"""Axes in order and not, left-handed and right-handed ones."""

REORIENTED = "reoriented onto the picture's grid"


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    return seen_plainly(tmp_path_factory.mktemp("reference"))


# Writing


def in_dicom(affine):
    """ImageOrientationPatient, PixelSpacing, thickness, and slice -> ImagePositionPatient."""
    lps = np.diag([-1, -1, 1, 1]) @ affine
    across, down, apart = np.linalg.norm(lps[:3, :3], axis=0)
    cosines = [*(lps[:3, 0] / across), *(lps[:3, 1] / down)]
    return cosines, [down, across], apart, lambda number: list(lps[:3, 3] + number * lps[:3, 2])


def series(folder, name, data, affine):
    """A file a slice, numbered in the array's order; a left-handed one runs against the normal."""
    turn, spacing, apart, place = in_dicom(affine)
    for number in range(data.shape[2]):
        ds = ct(
            number,
            np.ascontiguousarray(data[:, :, number].T),
            ImagePositionPatient=place(number),
            ImageOrientationPatient=turn,
            PixelSpacing=spacing,
            SliceThickness=apart,
        )
        dicom_files.save(ds, folder / name / f"{number:03d}.dcm")
    return folder / name


def enhanced(folder, name, data, affine):
    """All slices in one file, in the array's order."""
    turn, spacing, _, place = in_dicom(affine)
    ds = put_pixels(made(ENHANCED_CT, "CT"), np.ascontiguousarray(data.transpose(2, 1, 0)))
    ds.SharedFunctionalGroupsSequence = shared(turn, spacing)
    ds.PerFrameFunctionalGroupsSequence = [frame_at(place(n)) for n in range(data.shape[2])]
    return dicom_files.save(ds, folder / f"{name}.dcm")


def right_handed(code):
    """Whether slices in this order follow the normal of their plane."""
    return np.linalg.det(turned(code)[2][:3, :3]) > 0


def stacked(code):
    """Where the mark is, as (column, row, place along the normal)."""
    picture, _, _, (column, row, number, one) = turned(code)
    return column, row, number if right_handed(code) else picture.shape[2] - 1 - number, one


# Pictures


@pytest.mark.parametrize("code", CODES)
def test_a_dicom_series_in_every_order(tmp_path, reference, code):
    # A NIfTI mask keeps the order in which the files are named, and so may have to be turned.
    case = case_of(tmp_path, series, code, nifti)
    notes = () if right_handed(code) else (f"mask.nii.gz: {REORIENTED}",)
    agrees(case, tmp_path, stacked(code), reference, notes)


@pytest.mark.parametrize("code", FEW)
def test_an_enhanced_file_and_labels_in_dicom(tmp_path, reference, code):
    agrees(case_of(tmp_path, enhanced, code, series), tmp_path, stacked(code), reference)


# Masks made on a series, which carry its places and not its order


def segmented(folder, labels, path):
    """A segmentation by highdicom: labels (i, j, k) in the order of the folder's files."""
    source = [pydicom.dcmread(file) for file in sorted(folder.iterdir())]
    for ds in source:  # what highdicom copies of the patient and the study
        dicom_files.change(
            ds, PatientBirthDate="", PatientSex="", StudyInstanceUID="2.25.9", StudyID="",
            StudyDate="", StudyTime="", AccessionNumber="", ReferringPhysicianName="",
        )  # fmt: skip
    what = highdicom.sr.CodedConcept("49755003", "SCT", "Morphologically abnormal structure")
    by = highdicom.seg.SegmentAlgorithmTypeValues.MANUAL
    segments = [
        highdicom.seg.SegmentDescription(number, name, what, what, by)
        for number, name in enumerate("AB", 1)
    ]
    ds = highdicom.seg.Segmentation(
        source, np.ascontiguousarray(labels.transpose(2, 1, 0)), "BINARY", segments,
        series_instance_uid="2.25.10", series_number=2, sop_instance_uid="2.25.11",
        instance_number=1, manufacturer="x", manufacturer_model_name="x", software_versions="1",
        device_serial_number="1",
    )  # fmt: skip
    return dicom_files.save(ds, path)


def contoured(labels, affine, path):
    """Contours halfway between voxels: what they go around is the mask, voxel by voxel."""
    lps = np.diag([-1, -1, 1, 1]) @ affine
    drawn = []
    for value, name in enumerate("AB", 1):
        rings = [
            contour(np.insert(ring, 2, number, axis=1) @ lps[:3, :3].T + lps[:3, 3])
            for number in range(labels.shape[2])
            for ring in find_contours((labels[:, :, number] == value).astype(float), 0.5)
        ]
        drawn.append((value, name, rings))
    return dicom_files.save(dicom_files.structures(drawn), path)


def masks_of(folder, code):
    """A series in one order with both kinds of masks made on it."""
    picture, labels, affine, _ = turned(code)
    images = series(folder, "series", picture, affine)
    masks = (
        segmented(images, labels, folder / "seg.dcm"),
        contoured(labels, affine, folder / "rt.dcm"),
    )
    return images, masks


@pytest.mark.parametrize("code", FEW)
def test_segments_and_contours_on_their_series(tmp_path, reference, code):
    images, masks = masks_of(tmp_path, code)
    for mask in masks:
        agrees(paired(tmp_path, images, mask), tmp_path, stacked(code), reference)


def test_segments_and_contours_of_an_axial_series_on_other_formats(tmp_path, reference):
    _, masks = masks_of(tmp_path, "LPS")
    for number, code in enumerate(FEW):
        write = [*FORMATS.values()][number]
        picture, _, affine, mark = turned(code)
        image = write(tmp_path, f"image{number}", picture, affine)
        for mask in masks:
            agrees(paired(tmp_path, image, mask), tmp_path, mark, reference)


# Picture and mask of different origins


@pytest.mark.parametrize(
    ("write", "code", "write_mask", "mask_code"),
    [
        (series, "LPS", FORMATS["nrrd_ras"], "LAS"),
        (series, "RSP", FORMATS["mha"], "LPS"),
        (enhanced, "AIR", FORMATS["nrrd_lps"], "RSP"),
        (FORMATS["nifti2"], "LAS", series, "LPS"),
    ],
)
def test_dicom_and_another_format(tmp_path, reference, write, code, write_mask, mask_code):
    case = case_of(tmp_path, write, code, write_mask, mask_code)
    mark = stacked(code) if write in (series, enhanced) else turned(code)[3]
    agrees(case, tmp_path, mark, reference, (f"{case.masks[0].path.name}: {REORIENTED}",))
