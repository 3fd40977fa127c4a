"""DICOM RT structure sets (PS3.3, C.8.8.5 and C.8.8.6): contours drawn on a picture's grid.

The contours of a structure on one slice count by even and odd, so that a contour within another
one is a hole, and so is the inside of a keyhole. A voxel belongs to what its centre lies in.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import SourceError
from ..model import Floats, Grid, Volume, Wanted
from .dicom_layers import Layers, Piece, elsewhere, grid_for, unique
from .dicom_open import dataset, guarded

PLANAR = 0.1
"""Steps between slices by which the points of a contour may leave their plane."""

EXACT = 6
"""Decimals of a voxel that are kept, so that a point on a centre is not moved off by rounding."""

BLOCK = 1 << 20
"""Crossings of edges and rows that are worked out at once."""


class _Roi(NamedTuple):
    """One structure: its number and name, its contours (n, 3) in voxels, and how many were odd."""

    number: int
    name: str
    contours: list[Floats]
    skipped: int


def measure(path: Path, wanted: Wanted) -> Grid:
    """The grid of the picture: contours are drawn on it."""
    return grid_for(path, wanted, "contours")


def read(path: Path, wanted: Wanted) -> Volume:
    """Label values = ROI numbers, (i, j, k) on `wanted.onto`, with layers for overlaps.

    `names`: ROIName -> number. Raises `SourceError` for contours oblique to the slices or beyond
    them, and for numbers that are none.
    """
    grid = grid_for(path, wanted, "contours")
    with guarded(path):
        source = dataset(path, True, whole=True)
        way = np.asarray(np.linalg.inv(grid.affine), np.float64)  # RAS mm -> voxel
        way[:, :2] *= -1  # LPS
        rois = _rois(path, source, way)
        spaces = {
            str(item.get("FrameOfReferenceUID", ""))
            for item in source.get("ReferencedFrameOfReferenceSequence") or ()
        }
        axis = _axis(path, [contour for roi in rois for contour in roi.contours])
        values, notes = _values(path, rois)
        layers = Layers(path, grid, max(values, default=1))
        seen = _Seen()
        for value, roi in sorted(zip(values, rois, strict=True), key=lambda pair: pair[0]):
            layers.lay(value, _drawn(path, roi.contours, axis, grid, seen))
    skipped = sum(roi.skipped for roi in rois)
    if skipped:
        notes.append(f"{path.name}: {skipped} contours left out that are open or mere points")
    notes += [f"{path.name}: {count} contours {what}" for what, count in seen.told.items() if count]
    notes += elsewhere(path, wanted, spaces)
    return layers.volume(
        unique([(roi.name, value) for roi, value in zip(rois, values, strict=True)]), notes
    )


class _Seen:
    """Counts of what was found while drawing, for the notes."""

    def __init__(self) -> None:
        self.told = dict.fromkeys(
            (
                "lie off their slice, by over a tenth of the step; drawn on the nearest",
                "lie between slices, where nearer ones are; left out",
                "reach beyond the picture; cut at its edge",
                "are of structures drawn on every second slice at most; those between are empty",
            ),
            0,
        )

    def add(self, place: int, count: int) -> None:
        """Counts `count` contours under the statement at `place`."""
        self.told[list(self.told)[place]] += count


def _rois(path: Path, source: Any, way: Floats) -> list[_Roi]:
    """The structures in the file's order, their closed contours in voxels."""
    found: dict[int, _Roi] = {}
    for item in source.get("StructureSetROISequence") or ():
        number = int(item.ROINumber)
        if number in found:
            raise SourceError(f"{path}: two structures carry the ROI number {number}")
        found[number] = _Roi(number, str(item.get("ROIName", "")), [], 0)
    if found and "ROIContourSequence" not in source:
        raise SourceError(f"{path}: names structures but holds no contours; fetch it again")
    for item in source.get("ROIContourSequence") or ():
        number = int(item.ReferencedROINumber)
        if number not in found:
            raise SourceError(f"{path}: contours of ROI {number}, which the file does not name")
        roi = found[number]
        for contour in item.get("ContourSequence") or ():
            points = _points(path, contour)
            closed = str(contour.get("ContourGeometricType", "")).startswith("CLOSED_PLANAR")
            if closed and len(points) >= 3:
                roi.contours.append(np.round(points @ way[:3, :3].T + way[:3, 3], EXACT))
            else:
                found[number] = roi = roi._replace(skipped=roi.skipped + 1)
    return list(found.values())


def _points(path: Path, contour: Any) -> Floats:
    """(n, 3) LPS mm. The text is taken as it stands: pydicom's own numbers are 50 times slower."""
    item = contour.get_item("ContourData") if "ContourData" in contour else None
    value = getattr(item, "value", None)
    if isinstance(value, bytes):
        text = value.decode("ascii").strip(" \0")
        value = text.split("\\") if text else []
    numbers = np.array([float(v) for v in (value or ())])
    if numbers.size % 3 or not np.isfinite(numbers).all() or np.abs(numbers).max(initial=0) > 1e6:
        raise SourceError(f"{path}: a contour's points are no finite triples; fetch it again")
    return numbers.reshape(-1, 3)


def _axis(path: Path, contours: Sequence[Floats]) -> int:
    """The axis of the grid that all contours lie across; of several, the last."""
    extents = np.array([np.ptp(contour, axis=0) for contour in contours]).reshape(-1, 3)
    flat = extents <= PLANAR
    if flat.all(axis=0).any():
        return int(np.flatnonzero(flat.all(axis=0)).max())
    if flat.any(axis=1).all():
        raise SourceError(f"{path}: its contours lie across different axes of the picture")
    odd = extents[~flat.any(axis=1)].min(axis=1)
    raise SourceError(
        f"{path}: {odd.size} contours are oblique to the picture's slices (over "
        f"{odd.max():.2g} slices); name the series that they were drawn on"
    )


def _values(path: Path, rois: Sequence[_Roi]) -> tuple[list[int], list[str]]:
    """The label value of each structure: its number, unless some cannot be one."""
    numbers = [roi.number for roi in rois]
    if all(0 < number < 65536 for number in numbers):
        return numbers, []
    note = f"{path.name}: ROI numbers beyond 1 to 65535; counted from 1 in the file's order instead"
    if len(numbers) > 65535:
        raise SourceError(f"{path}: {len(numbers)} structures; not believed")
    return list(range(1, len(numbers) + 1)), [note]


def _drawn(
    path: Path, contours: Sequence[Floats], axis: int, grid: Grid, seen: _Seen
) -> list[Piece]:
    """The structure's voxels, slice by slice."""
    count = grid.shape[axis]
    others = [n for n in range(3) if n != axis]
    shape = (grid.shape[others[0]], grid.shape[others[1]])
    pieces: list[Piece] = []
    slices = _by_slice(contours, axis, seen)
    if len(slices) > 1 and min(b - a for a, b in pairwise(slices)) > 1:
        seen.add(3, len(contours))
    for number, held in slices.items():
        if not 0 <= number < count:
            raise SourceError(
                f"{path}: contours lie on slice {number}, but the picture has {count}; name the "
                "series that they were drawn on"
            )
        flat = [contour[:, others] for contour in held]
        low, high = -0.5, np.array(shape) - 0.5
        seen.add(2, sum(bool((c < low - 1).any() or (c > high + 1).any()) for c in flat))
        where: list[int | slice] = [slice(None)] * 3
        where[axis] = number
        pieces.append((tuple(where), filled(flat, shape)))
    return pieces


def _by_slice(contours: Sequence[Floats], axis: int, seen: _Seen) -> Mapping[int, list[Floats]]:
    """The contours that belong to each slice: those of the plane that lies nearest to it."""
    found: dict[int, list[tuple[float, Floats]]] = {}
    for contour in contours:
        at = float(contour[:, axis].mean())
        found.setdefault(math.floor(at + 0.5), []).append((at, contour))
    kept = {}
    for number, held in sorted(found.items()):
        nearest = min((at for at, _ in held), key=lambda at: (abs(at - number), at))
        kept[number] = [contour for at, contour in held if abs(at - nearest) <= PLANAR]
        seen.add(0, len(kept[number]) if abs(nearest - number) > PLANAR else 0)
        seen.add(1, len(held) - len(kept[number]))
    return kept


def filled(contours: Sequence[Floats], shape: tuple[int, int]) -> NDArray[np.bool_]:
    """(i, j): the pixels whose centre an odd number of closed contours (n, 2) go around.

    Along j, an edge that passes a row of centres (its ends half-open, so that a shared point
    counts once) changes all pixels from there on.
    """
    turns = np.zeros(shape[0] * (shape[1] + 1), np.int64)
    starts = np.concatenate(contours)
    ends = np.concatenate([np.roll(contour, -1, axis=0) for contour in contours])
    upward = starts[:, :1] <= ends[:, :1]
    low, high = np.where(upward, starts, ends), np.where(upward, ends, starts)
    first = np.clip(np.ceil(low[:, 0]), 0, shape[0]).astype(np.int64)
    past = np.clip(np.ceil(high[:, 0]), 0, shape[0]).astype(np.int64)
    rows = np.maximum(past - first, 0)
    total = np.cumsum(rows)
    cuts = np.searchsorted(total, np.arange(BLOCK, total[-1], BLOCK))
    for begin, end in pairwise([0, *(int(cut) for cut in cuts), len(rows)]):
        count = rows[begin:end]
        edge = np.repeat(np.arange(begin, end), count)
        row = np.arange(edge.size) - np.repeat(np.cumsum(count) - count, count) + first[edge]
        share = (row - low[edge, 0]) / (high[edge, 0] - low[edge, 0])
        at = np.round(low[edge, 1] + share * (high[edge, 1] - low[edge, 1]), EXACT)
        column = np.clip(np.ceil(at), 0, shape[1]).astype(np.int64)
        turns += np.bincount(row * (shape[1] + 1) + column, minlength=turns.size)
    odd = np.cumsum(turns.reshape(shape[0], shape[1] + 1), axis=1) & 1
    return odd[:, : shape[1]].astype(bool)
