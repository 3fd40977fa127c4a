"""Where the frames of a DICOM file lie (PS3.3, sections C.7.6.2 and C.7.6.16), as plain numbers."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import SourceError
from .dicom_open import numbers

Look = Callable[[str, str], Any]
"""(macro, element) -> the item that holds the element of a frame; an empty one where none does."""

Pair = tuple[float, float]

KEYS = (
    ("AcquisitionNumber", "FrameContentSequence", "FrameAcquisitionNumber"),
    ("TemporalPositionIdentifier", "FrameContentSequence", "TemporalPositionIndex"),
    ("EchoTime", "MREchoSequence", "EffectiveEchoTime"),
    ("DiffusionBValue", "MRDiffusionSequence", "DiffusionBValue"),
    ("AcquisitionTime", "FrameContentSequence", "FrameAcquisitionDateTime"),
    ("TriggerTime", "CardiacSynchronizationSequence", "NominalCardiacTriggerDelayTime"),
    ("ImageType", "MRImageFrameTypeSequence", "FrameType"),
)
"""What tells the phases of a series apart: its name, and where a multi-frame file has it."""


@dataclass(frozen=True, slots=True)
class Plane:
    """Where one frame lies, in the patient's LPS mm, and what its stored values mean.

    `position`: the centre of the first pixel. `across`, `down`: unit vectors along a row and along
    a column. `spacing`: mm between rows, and between columns. `apart`: mm to the next slice, as far
    as the header tells. `keys`: what may tell phases apart.
    """

    frame: int
    position: tuple[float, float, float]
    across: tuple[float, float, float]
    down: tuple[float, float, float]
    spacing: tuple[float, float]
    apart: float
    keys: Mapping[str, str]


def framed(path: Path, source: Any, frames: int) -> tuple[tuple[Plane, ...], tuple[Pair, ...]]:
    """Planes and rescaling of an enhanced file's frames (PS3.3, section C.7.6.16)."""
    groups = source.PerFrameFunctionalGroupsSequence
    if len(groups) != frames:
        raise SourceError(
            f"{path}: declares {frames} frames but describes {len(groups)}; fetch it again"
        )
    planes, rescale = [], []
    for number, group in enumerate(groups):
        look = look_in(source, group)

        def key(names: tuple[str, str, str], look: Look = look) -> Any:
            return look(names[1], names[2]).get(names[2])

        plane = plane_in(path, look, number, key)
        if plane is not None:
            planes.append(plane)
        rescale.append(rescale_in(path, look("PixelValueTransformationSequence", "RescaleSlope")))
    if planes and len(planes) < frames:
        raise SourceError(f"{path}: only {len(planes)} of its {frames} frames have a position")
    return tuple(planes), tuple(rescale)


def look_in(source: Any, group: Any) -> Look:
    """Finds the item that holds an element of a frame: in its own group, else in the shared one."""
    shared = source.get("SharedFunctionalGroupsSequence") or [{}]

    def look(macro: str, name: str) -> Any:
        for holder in (group, shared[0]):
            items = holder.get(macro)
            if items and items[0].get(name) is not None:
                return items[0]
        return {}

    return look


def place_in(path: Path, look: Look, number: int) -> Plane | None:
    """Where a frame lies, by its functional groups; None where these do not tell."""
    return plane_in(path, look, number, lambda _: None)


def plane_in(
    path: Path,
    look: Look,
    number: int,
    key: Callable[[tuple[str, str, str]], Any],
) -> Plane | None:
    """Where a frame lies; `key` finds what may tell its phase. None where it has no place.

    Raises `SourceError` where the numbers cannot be a position, a spacing or an orientation.
    """

    def get(macro: str, name: str, count: int) -> tuple[float, ...] | None:
        return numbers(path, look(macro, name), name, count)

    position = get("PlanePositionSequence", "ImagePositionPatient", 3)
    turned = get("PlaneOrientationSequence", "ImageOrientationPatient", 6)
    spacing = get("PixelMeasuresSequence", "PixelSpacing", 2)
    if position is None or turned is None or spacing is None:
        return None
    if min(spacing) <= 0 or max(map(abs, (*position, *spacing))) > 1e6:
        raise SourceError(f"{path}: its position or pixel spacing cannot be; fetch it again")
    across, down = turned[:3], turned[3:]
    lengths = math.hypot(*across), math.hypot(*down)
    cosine = sum(a * b for a, b in zip(across, down, strict=True))
    if max(abs(lengths[0] - 1), abs(lengths[1] - 1), abs(cosine)) > 0.01:
        raise SourceError(
            f"{path}: its ImageOrientationPatient is not two unit vectors at right angles"
        )
    apart = get("PixelMeasuresSequence", "SpacingBetweenSlices", 1) or (0.0,)
    if not apart[0]:
        apart = get("PixelMeasuresSequence", "SliceThickness", 1) or (0.0,)
    found = {names[0]: key(names) for names in KEYS}
    return Plane(
        number,
        (position[0], position[1], position[2]),
        (across[0] / lengths[0], across[1] / lengths[0], across[2] / lengths[0]),
        (down[0] / lengths[1], down[1] / lengths[1], down[2] / lengths[1]),
        (spacing[0], spacing[1]),
        abs(apart[0]) or 1.0,
        {name: str(value) for name, value in found.items() if value not in (None, "")},
    )


def rescale_in(path: Path, source: Any) -> Pair:
    """Slope and intercept, 1 and 0 where there are none (PS3.3, section C.11.1)."""
    slope = numbers(path, source, "RescaleSlope", 1) or (1.0,)
    intercept = numbers(path, source, "RescaleIntercept", 1) or (0.0,)
    if not slope[0]:
        raise SourceError(f"{path}: its RescaleSlope is 0, which leaves no picture")
    return slope[0], intercept[0]
