"""What the header of a DICOM file says, as plain numbers (PS3.3, sections C.7.6 and C.8).

No name, date, description or identifier of a patient leaves here but as a key to group by.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import SourceError
from .dicom_open import dataset, guarded, has_magic, numbers
from .dicom_places import KEYS, Pair, Plane, framed, plane_in, rescale_in

SEGMENTATIONS = ("1.2.840.10008.5.1.4.1.1.66.4", "1.2.840.10008.5.1.4.1.1.66.7")
"""SOP classes: Segmentation Storage and Label Map Segmentation Storage."""

CONTOURS = "1.2.840.10008.5.1.4.1.1.481.3"
"""SOP class: RT Structure Set Storage."""

LARGEST = 16 * 2**30
"""Bytes of voxels beyond which a header is not believed."""

SMALL = 64 * 2**20
"""Bytes of decoded pixels that any compressed file may hold, however small it is."""

INFLATION = 2000
"""Times its own size that a compressed file may decode to; a flat picture compresses this well."""

FLAT = frozenset(
    ("CR", "DX", "MG", "US", "IVUS", "XA", "RF", "ES", "XC", "GM", "SM", "IO", "PX", "OP")
)
"""Modalities whose pictures are projections or views, whatever position they carry."""

_TAGS = (
    "SOPClassUID", "SOPInstanceUID", "SeriesInstanceUID", "SeriesNumber", "Modality", "Rows",
    "Columns", "NumberOfFrames", "SamplesPerPixel", "BitsAllocated", "BitsStored",
    "PhotometricInterpretation", "PixelRepresentation", "ImagePositionPatient",
    "ImageOrientationPatient", "PixelSpacing", "ImagerPixelSpacing", "PixelAspectRatio",
    "NominalScannedPixelSpacing", "SliceThickness", "SpacingBetweenSlices", "RescaleSlope",
    "RescaleIntercept", "GridFrameOffsetVector", "FrameOfReferenceUID",
    "SharedFunctionalGroupsSequence", "PerFrameFunctionalGroupsSequence",
    *(key[0] for key in KEYS),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Head:
    """The header of one file. `size`: bytes of the file. `planes`: empty where it has no place.

    `rescale`: slope and intercept of each frame, or one pair for all. `pixel`: mm or units along a
    row, then down a column, of a flat picture.
    """

    path: Path
    size: int
    kind: str
    instance: str
    series: str
    series_number: float
    place: str
    modality: str
    syntax: str
    photometric: str
    rows: int
    columns: int
    frames: int
    samples: int
    allocated: int
    stored: int
    signed: bool
    pixel: tuple[float, float]
    planes: tuple[Plane, ...]
    rescale: tuple[Pair, ...]

    @property
    def mark(self) -> bool:
        """Whether it is a segmentation, or contours."""
        return self.kind in (*SEGMENTATIONS, CONTOURS)

    @property
    def picture(self) -> bool:
        """Whether it holds pixels to look at."""
        return self.rows > 0 and self.columns > 0 and not self.mark


def head_of(path: Path) -> Head:
    """The header of one file, its pixels unread. Raises `SourceError`."""
    with guarded(path):
        if not has_magic(path):
            raise SourceError(f"{path}: not a DICOM file (no DICM at byte 128); fetch it again")
        return _head(path, dataset(path, False, _TAGS))


def declared(head: Head) -> int:
    """Bytes of uncompressed pixels that the header declares; half of YBR_FULL_422's colour."""
    size = -(-head.rows * head.columns * head.frames * head.samples * head.allocated // 8)
    return size * 2 // 3 if head.photometric == "YBR_FULL_422" else size


def believable(head: Head) -> None:
    """Raises `SourceError` where the file cannot hold the pixels that its header declares."""
    where = f"{head.path}: its header declares {head.frames} of {head.columns}x{head.rows} pixels"
    count = head.rows * head.columns * head.frames * head.samples
    size = declared(head)
    if not 0 < head.allocated <= 64 or head.stored > head.allocated:
        raise SourceError(f"{where} of {head.stored} in {head.allocated} bits; fetch it again")
    if count * max(1, head.allocated // 8) > LARGEST:
        raise SourceError(f"{where}, {size / 2**30:.0f} GiB; not believed")
    if not _packed(head.syntax) and size > head.size:
        raise SourceError(
            f"{where}, {size} bytes, but the file has {head.size}: truncated; fetch it again"
        )
    if size > max(SMALL, INFLATION * head.size):
        raise SourceError(f"{where}, {size} bytes, out of {head.size} compressed; not believed")


def _packed(syntax: str) -> bool:
    """Whether pixels are compressed: all but implicit and explicit, little and big endian."""
    return syntax not in ("", "1.2.840.10008.1.2", "1.2.840.10008.1.2.1", "1.2.840.10008.1.2.2")


def _head(path: Path, source: Any) -> Head:
    def whole(name: str, missing: int) -> int:
        found = numbers(path, source, name, 1)
        value = missing if found is None else int(found[0])
        if not 0 <= value < 2**31:
            raise SourceError(f"{path}: its {name} is {value}; fetch it again")
        return value

    frames = max(1, whole("NumberOfFrames", 1))
    kind, modality = str(source.get("SOPClassUID", "")), str(source.get("Modality", ""))
    planes: tuple[Plane, ...] = ()
    rescale: tuple[Pair, ...] = (rescale_in(path, source),)
    if kind not in (*SEGMENTATIONS, CONTOURS):
        if "PerFrameFunctionalGroupsSequence" in source:
            planes, rescale = framed(path, source, frames)
        elif modality not in FLAT:
            plane = plane_in(path, lambda *_: source, 0, lambda key: source.get(key[0]))
            planes = () if plane is None else (plane,)
            _old_multiframe(path, source, frames, planes)
    series_number = numbers(path, source, "SeriesNumber", 1)
    return Head(
        path, path.stat().st_size, kind, str(source.get("SOPInstanceUID", "")),
        str(source.get("SeriesInstanceUID", "")),
        math.inf if series_number is None else series_number[0],
        str(source.get("FrameOfReferenceUID", "")), modality,
        str(source.file_meta.get("TransferSyntaxUID", "")),
        str(source.get("PhotometricInterpretation", "")), whole("Rows", 0), whole("Columns", 0),
        frames, max(1, whole("SamplesPerPixel", 1)), whole("BitsAllocated", 0),
        whole("BitsStored", 0), bool(whole("PixelRepresentation", 0)), _pixel(path, source),
        () if modality in FLAT else planes, rescale,
    )  # fmt: skip


def _old_multiframe(path: Path, source: Any, frames: int, planes: tuple[Plane, ...]) -> None:
    """Refuses frames whose distance only a retired or a dose module would tell."""
    if frames > 1 and (planes or source.get("GridFrameOffsetVector")):
        raise SourceError(
            f"{path}: {frames} frames with one position and no functional groups (a dose grid, or "
            "an old form of multi-frame), which are not read; convert it to NIfTI"
        )


def _pixel(path: Path, source: Any) -> tuple[float, float]:
    """Size of a flat picture's pixels: along a row, down a column; in mm where these are known."""
    for name in ("PixelSpacing", "ImagerPixelSpacing", "NominalScannedPixelSpacing"):
        found = numbers(path, source, name, 2)
        if found is not None and min(found) > 0 and max(found) < 1e6:
            return found[1], found[0]
    ratio = numbers(path, source, "PixelAspectRatio", 2)  # height, then width
    if ratio is not None and min(ratio) > 0:
        return 1.0, ratio[0] / ratio[1]
    return 1.0, 1.0
