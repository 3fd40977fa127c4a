"""Small DICOM files for the tests, made with pydicom, one element at a time."""

import numpy as np
from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.sequence import Sequence

CT = "1.2.840.10008.5.1.4.1.1.2"
ENHANCED_CT = "1.2.840.10008.5.1.4.1.1.2.1"
SEG = "1.2.840.10008.5.1.4.1.1.66.4"
LABEL_MAP = "1.2.840.10008.5.1.4.1.1.66.7"
RTSTRUCT = "1.2.840.10008.5.1.4.1.1.481.3"
ULTRASOUND = "1.2.840.10008.5.1.4.1.1.3.1"

PIXELS = np.arange(12, dtype=np.uint16).reshape(3, 4) + 100
"""(rows, columns): 3 rows of 4."""


def made(kind: str, modality: str, **elements) -> Dataset:
    """A data set without pixels; `elements` are set, and left out where they are None."""
    ds = Dataset()
    ds.file_meta = FileMetaDataset()
    ds.file_meta.TransferSyntaxUID = "1.2.840.10008.1.2.1"
    ds.file_meta.MediaStorageSOPClassUID = ds.SOPClassUID = kind
    ds.SOPInstanceUID = "2.25.1"
    ds.SeriesInstanceUID, ds.FrameOfReferenceUID = "2.25.2", "2.25.3"
    ds.Modality, ds.PatientName, ds.PatientID = modality, "Doe^Secret", "ID-SECRET"
    change(ds, **elements)
    ds.file_meta.MediaStorageSOPInstanceUID = ds.SOPInstanceUID
    return ds


def change(ds: Dataset, **elements) -> Dataset:
    for name, value in elements.items():
        if value is not None:
            setattr(ds, name, value)
        elif name in ds:
            delattr(ds, name)
    return ds


def put_pixels(ds: Dataset, pixels: np.ndarray, photometric: str = "MONOCHROME2") -> Dataset:
    """`pixels`: (rows, columns), (frames, rows, columns), and a last axis of 3 for RGB."""
    colour = photometric in ("RGB", "YBR_FULL")
    shape = pixels.shape[:-1] if colour else pixels.shape
    ds.Rows, ds.Columns = shape[-2:]
    if len(shape) == 3:
        ds.NumberOfFrames = shape[0]
    ds.SamplesPerPixel, ds.PhotometricInterpretation = 3 if colour else 1, photometric
    if colour:
        ds.PlanarConfiguration = 0
    bits = 8 * pixels.dtype.itemsize
    ds.BitsAllocated, ds.BitsStored, ds.HighBit = bits, bits, bits - 1
    ds.PixelRepresentation = int(pixels.dtype.kind == "i")
    raw = pixels.tobytes()
    ds.PixelData = raw + b"\0" * (len(raw) % 2)
    return ds


def ct(number: int = 0, pixels: np.ndarray = PIXELS, step: float = 2.0, **elements) -> Dataset:
    """An axial CT slice: its `number` decides UID and height in mm."""
    ds = made(CT, "CT", SOPInstanceUID=f"2.25.1{number}", InstanceNumber=number)
    ds.ImagePositionPatient = [-10, -20, step * number]
    ds.ImageOrientationPatient = [1, 0, 0, 0, 1, 0]
    ds.PixelSpacing = [0.5, 0.25]  # between rows, between columns
    ds.SliceThickness = 3
    put_pixels(ds, pixels)
    return change(ds, **elements)


def item(**elements) -> Dataset:
    return change(Dataset(), **elements)


def sequence(**elements) -> Sequence:
    return Sequence([item(**elements)])


def frame_at(position, segment: int | None = None, **macros) -> Dataset:
    """The functional groups of one frame."""
    group = item(PlanePositionSequence=sequence(ImagePositionPatient=list(position)))
    if segment is not None:
        group.SegmentIdentificationSequence = sequence(ReferencedSegmentNumber=segment)
    return change(group, **macros)


def shared(turned=(1, 0, 0, 0, 1, 0), spacing=(0.5, 0.25), **macros) -> Sequence:
    """The functional groups that all frames have in common."""
    return sequence(
        PlaneOrientationSequence=sequence(ImageOrientationPatient=list(turned)),
        PixelMeasuresSequence=sequence(PixelSpacing=list(spacing), SliceThickness=2),
        **macros,
    )


def segmentation(frames, groups, labels=("one", "two"), kind="BINARY", turned=None, **elements):
    """A SEG whose `frames` (n, rows, columns) lie where `groups` say."""
    ds = made(LABEL_MAP if kind == "LABELMAP" else SEG, "SEG", SegmentationType=kind)
    frames = np.asarray(frames, np.uint8)
    put_pixels(ds, frames)
    if kind == "BINARY":
        ds.BitsAllocated, ds.BitsStored, ds.HighBit = 1, 1, 0
        raw = np.packbits(frames.ravel(), bitorder="little").tobytes()
        ds.PixelData = raw + b"\0" * (len(raw) % 2)
    ds.SegmentSequence = Sequence(
        [item(SegmentNumber=n, SegmentLabel=name) for n, name in enumerate(labels, 1)]
    )
    ds.SharedFunctionalGroupsSequence = shared() if turned is None else shared(turned)
    ds.PerFrameFunctionalGroupsSequence = Sequence(groups)
    return change(ds, **elements)


def contour(points, kind: str = "CLOSED_PLANAR") -> Dataset:
    """`points`: (n, 3) in LPS mm."""
    flat = [f"{v:.6g}" for point in points for v in point]
    return item(ContourGeometricType=kind, NumberOfContourPoints=len(points), ContourData=flat)


def structures(rois) -> Dataset:
    """An RTSTRUCT of (number, name, contours)."""
    ds = made(RTSTRUCT, "RTSTRUCT")
    ds.StructureSetROISequence = Sequence([item(ROINumber=n, ROIName=name) for n, name, _ in rois])
    ds.ROIContourSequence = Sequence(
        [item(ReferencedROINumber=n, ContourSequence=Sequence(held)) for n, _, held in rois]
    )
    return ds


def save(ds: Dataset, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    ds.save_as(path, enforce_file_format=True)
    return path
