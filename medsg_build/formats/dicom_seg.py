"""DICOM segmentations (PS3.3, section A.51 and C.8.20): frames laid where their positions say.

A file need not hold every slice, nor in order: each frame carries its own position and the number
of its segment. What it holds no frame of is empty.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import SourceError
from ..model import Floats, Grid, Volume, Wanted
from .dicom_decoding import decoded
from .dicom_gdcm import Apart
from .dicom_headers import believable, head_of
from .dicom_layers import Layers, Piece, elsewhere, grid_for, unique
from .dicom_open import dataset, guarded
from .dicom_places import look_in, place_in
from .dicom_series import plane_affine

OFF = 0.1
"""Voxels by which a frame's corner may lie beside the voxel it is taken for."""

KINDS = ("BINARY", "FRACTIONAL", "LABELMAP")


class _Seg(NamedTuple):
    """A segmentation's header. `frames`: where each lies, and the number of its segment."""

    kind: str
    names: dict[str, int]
    frames: tuple[tuple[Floats, int], ...]
    half: float


class _Spot(NamedTuple):
    """Where a frame goes on the grid, and how its (rows, columns) are turned for it."""

    where: tuple[int | slice, ...]
    flipped: tuple[int, int]
    swapped: bool

    def piece(self, inside: NDArray[np.bool_]) -> Piece:
        """The frame as a piece of the grid."""
        turned = inside.T[:: self.flipped[0], :: self.flipped[1]]
        return self.where, turned.T if self.swapped else turned


def measure(path: Path, wanted: Wanted) -> Grid:
    """The grid of the picture: a segmentation is laid on it."""
    return grid_for(path, wanted, "segmentations")


def read(path: Path, wanted: Wanted) -> Volume:
    """Label values = segment numbers, (i, j, k) on `wanted.onto`, with layers for overlaps.

    `names`: SegmentLabel -> number. Raises `SourceError` where a frame does not coincide with
    voxels of the picture, lies outside of it, or belongs to no segment.
    """
    grid = grid_for(path, wanted, "segmentations")
    head = head_of(path)
    believable(head)
    with guarded(path), Apart() as apart:
        source = dataset(path, True)
        seg = _described(path, source, head.frames)
        shape = (head.rows, head.columns)
        spots = [_spot(path, affine, shape, grid) for affine, _ in seg.frames]
        layers = Layers(path, grid, max(number for _, number in seg.frames))
        frames = (data for data, _ in decoded(head, source, range(head.frames), apart))
        if seg.kind == "LABELMAP":
            _lay_labels(layers, frames, spots)
        else:
            half = seg.half if seg.kind == "FRACTIONAL" else 1.0
            _lay_segments(layers, (frame >= half for frame in frames), spots, seg)
    notes = list(elsewhere(path, wanted, {head.place}))
    if seg.kind == "FRACTIONAL":
        notes.append(f"{path.name}: fractional segments, taken from half of the maximum up")
    return layers.volume(seg.names, notes)


def _described(path: Path, source: Any, frames: int) -> _Seg:
    """Kind, names, and place and number of each frame (PS3.3, section C.8.20.2 and C.8.20.3)."""
    kind = str(source.get("SegmentationType", ""))
    if kind not in KINDS:
        raise SourceError(f"{path}: its segments are none of {', '.join(KINDS)}; not read")
    named = [
        (str(item.get("SegmentLabel", "")), int(item.SegmentNumber))
        for item in source.get("SegmentSequence") or ()
    ]
    known = {number for _, number in named}
    if not all(0 <= number < 65536 for number in known):
        raise SourceError(f"{path}: its segment numbers are not within 0 and 65535")
    groups = source.get("PerFrameFunctionalGroupsSequence") or ()
    if len(groups) != frames:
        raise SourceError(
            f"{path}: declares {frames} frames but describes {len(groups)}; fetch it again"
        )
    found = []
    for place, group in enumerate(groups):
        look = look_in(source, group)
        plane = place_in(path, look, place)
        if plane is None:
            raise SourceError(
                f"{path}: frame {place} carries no position in the patient, so nothing says which "
                "slice it belongs to; not read"
            )
        name = "ReferencedSegmentNumber"
        number = look("SegmentIdentificationSequence", name).get(name)
        if kind == "LABELMAP":  # the values are the numbers
            number = 255 if source.BitsAllocated <= 8 else 65535
        elif number not in known or number < 1:
            raise SourceError(f"{path}: frame {place} belongs to no segment the file describes")
        found.append((plane_affine(plane), int(number)))
    most = float(source.MaximumFractionalValue) if kind == "FRACTIONAL" else 2.0
    if not most > 0:
        raise SourceError(f"{path}: its MaximumFractionalValue is {most:g}")
    return _Seg(kind, unique([n for n in named if n[1]]), tuple(found), most / 2)


def _spot(path: Path, affine: Floats, shape: tuple[int, int], grid: Grid) -> _Spot:
    """Where a frame of (rows, columns) lies on the grid. Raises `SourceError` where beside it."""
    rows, columns = shape
    way = np.linalg.inv(grid.affine) @ affine  # (column, row, 0, 1) -> voxel
    axes = [int(np.abs(way[:3, n]).argmax()) for n in (0, 1)]
    signs = [1 if way[axis, n] > 0 else -1 for n, axis in enumerate(axes)]
    first = np.rint(way[:3, 3])
    plain = np.zeros((3, 3))
    plain[axes[0], 0], plain[axes[1], 1] = signs
    corners = np.array([(c, r, 0) for c in (0, columns - 1) for r in (0, rows - 1)]).T
    ideal = plain @ corners + first[:, None]
    beside = np.abs(way[:3, :3] @ corners + way[:3, 3:] - ideal).max()
    if axes[0] == axes[1] or not beside <= OFF or np.abs(way[:3, :2] - plain[:, :2]).max() > OFF:
        raise SourceError(
            f"{path}: a frame with its first pixel at {_told(affine[:3, 3])}, a column step of "
            f"{_told(affine[:3, 0])} and a row step of {_told(affine[:3, 1])} mm (RAS) does not "
            f"lie on voxels of the picture, which begins at {_told(grid.affine[:3, 3])} with steps "
            f"of {' and '.join(_told(grid.affine[:3, n]) for n in range(3))} mm; name the series "
            "that was segmented"
        )
    if ideal.min() < 0 or (ideal.max(axis=1) >= grid.shape).any():
        raise SourceError(
            f"{path}: a frame at {_told(affine[:3, 3])} mm (RAS) lies outside of the picture's "
            f"{'x'.join(map(str, grid.shape))} voxels; name the series that was segmented"
        )
    lowest, highest = ideal.min(axis=1).astype(int), ideal.max(axis=1).astype(int)
    where = tuple(
        slice(int(lowest[n]), int(highest[n]) + 1) if n in axes else int(lowest[n])
        for n in range(3)
    )
    return _Spot(where, (signs[0], signs[1]), axes[0] > axes[1])


def _told(vector: Floats) -> str:
    return f"({', '.join(f'{v:.4g}' for v in vector)})"


def _lay_segments(
    layers: Layers, frames: Iterator[NDArray[np.bool_]], spots: Sequence[_Spot], seg: _Seg
) -> None:
    """Segment by segment, by number; the frames wait as single bits, since a file mixes them."""
    held: dict[int, list[tuple[_Spot, tuple[int, int], NDArray[np.uint8]]]] = {}
    for inside, spot, (_, value) in zip(frames, spots, seg.frames, strict=True):
        if inside.any():
            rows, columns = inside.shape
            held.setdefault(value, []).append((spot, (rows, columns), np.packbits(inside)))
    for value in sorted(held):
        layers.lay(
            value,
            [
                spot.piece(np.unpackbits(bits, count=rows * columns).reshape(rows, columns) > 0)
                for spot, (rows, columns), bits in held[value]
            ],
        )


def _lay_labels(layers: Layers, frames: Iterator[NDArray[Any]], spots: Sequence[_Spot]) -> None:
    """A label map holds one frame for a slice, with the numbers of its segments as values."""
    if len({str(spot.where) for spot in spots}) < len(spots):
        raise SourceError(f"{layers.path}: a label map with two frames in one place; not read")
    for frame, spot in zip(frames, spots, strict=True):
        where, turned = spot.piece(frame)
        layers.maps[0][where] = turned
