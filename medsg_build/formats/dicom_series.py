"""From headers to one stack of slices: which series, which phase, in which order, and where.

Slices are ordered by their position along the normal of their plane (PS3.3, section C.7.6.2),
never by file name or InstanceNumber. A stack is evenly spaced, or it is refused.
"""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import SourceError
from ..model import Floats
from .dicom_headers import LARGEST, Head
from .dicom_places import KEYS, Plane

EVEN = 0.01
"""Part of the step by which the distance of two slices may differ from it."""

ROUNDED = 0.01
"""Millimetres by which it may differ in any case: headers round positions."""

SHIFTED = 0.1
"""Part of a pixel by which a slice may lie beside the line of the others."""

TILTED = 0.5
"""Degrees between step and normal from which slices are said to be sheared."""


class Shot(NamedTuple):
    """One frame to be decoded and where it lies."""

    head: Head
    plane: Plane


class Stack(NamedTuple):
    """Slices in their order, `affine`: (4, 4), index (column, row, slice) -> RAS mm, and notes."""

    shots: tuple[Shot, ...]
    affine: Floats
    notes: tuple[str, ...]


def one_series(
    path: Path, heads: Sequence[Head], part: int | str | None
) -> tuple[list[Head], int | str | None]:
    """The headers of one series, by file name, and the part that is left to choose within it.

    Several series are counted in the order of SeriesNumber, then of their lowest file name.
    """
    found: dict[str, list[Head]] = {}
    for head in sorted(heads, key=lambda head: head.path.name):
        found.setdefault(head.series, []).append(head)
    series = sorted(found.values(), key=lambda each: (each[0].series_number, each[0].path.name))
    if len(series) == 1:
        return series[0], part
    if isinstance(part, int) and 0 <= part < len(series):
        return series[part], None
    counts = ", ".join(f"{n}: {len(each)}" for n, each in enumerate(series[:20]))
    raise SourceError(
        f"{path}: holds {len(series)} series, with this many files each: {counts}; "
        "say which under layout.parts of the recipe, counted from 0"
        + ("" if part is None else f" (there is no {part!r})")
    )


def stacked(path: Path, heads: Sequence[Head], part: int | str | None) -> Stack:
    """One evenly spaced stack of slices out of the frames of a series.

    Raises `SourceError` for frames of several kinds, several frames at a position of which no
    `part` chooses, missing slices and uneven distances.
    """
    heads, repeats = _unrepeated(path, heads)
    shots = [Shot(head, plane) for head in heads for plane in head.planes]
    _alike(path, shots)
    size = len(shots) * heads[0].rows * heads[0].columns * heads[0].samples
    if size * max(1, heads[0].allocated // 8) > LARGEST:
        raise SourceError(f"{path}: {len(shots)} frames, {size} voxels; not believed")
    first = shots[0].plane
    normal = np.cross(first.across, first.down)
    shots.sort(key=lambda shot: float(np.dot(shot.plane.position, normal)))
    notes = [f"{path.name}: {repeats} repeated files left out"] if repeats else []
    shots, chosen = _one_phase(path, shots, normal, part)
    step = _step(path, shots, normal)
    angle = _tilt(step, normal)
    if angle > TILTED:
        notes.append(f"{path.name}: gantry tilt {angle:.1f} degrees; slices sheared, not resampled")
    return Stack(tuple(shots), _affine(shots[0].plane, step), (*notes, *chosen))


def _unrepeated(path: Path, heads: Sequence[Head]) -> tuple[list[Head], int]:
    """The headers without copies of the same instance, and how many copies there were."""
    kept: dict[str, Head] = {}
    for head in heads:
        other = kept.setdefault(head.instance or head.path.name, head)
        if other.planes != head.planes or (other.rows, other.columns) != (head.rows, head.columns):
            raise SourceError(
                f"{path}: {other.path.name} and {head.path.name} carry the same SOPInstanceUID but "
                "lie elsewhere; one of them is wrong"
            )
    return list(kept.values()), len(heads) - len(kept)


def _alike(path: Path, shots: Sequence[Shot]) -> None:
    """Raises `SourceError` unless all frames have the size, spacing and turn of the first."""

    def different(what: str, shot: Shot) -> SourceError:
        return SourceError(
            f"{path}: its images differ in {what} ({shots[0].head.path.name} and "
            f"{shot.head.path.name}), as where a localizer lies among them; "
            "keep one kind of image in a folder"
        )

    first = shots[0]
    for shot in shots[1:]:
        head, plane = shot
        if (head.rows, head.columns) != (first.head.rows, first.head.columns):
            raise different("Rows and Columns", shot)
        told = {head.photometric, first.head.photometric}
        if len(told) > 1 and any(colour.startswith("MONOCHROME") for colour in told):
            raise different("PhotometricInterpretation", shot)
        if not np.allclose(plane.spacing, first.plane.spacing, rtol=1e-3, atol=0):
            raise different("PixelSpacing", shot)
        turned = [*plane.across, *plane.down]
        if not np.allclose(turned, [*first.plane.across, *first.plane.down], rtol=0, atol=1e-3):
            raise different("orientation", shot)


def _one_phase(
    path: Path, shots: list[Shot], normal: Floats, part: int | str | None
) -> tuple[list[Shot], tuple[str, ...]]:
    """The frames of one phase, sorted as they were, and a note of what told it apart."""
    along = np.array([np.dot(shot.plane.position, normal) for shot in shots])
    same = ROUNDED * min(1.0, *shots[0].plane.spacing)
    places = np.concatenate([[0], np.cumsum(np.diff(along) > same)])
    counts = np.bincount(places)
    phases = int(counts.max())
    if phases == 1:
        if part not in (None, 0):
            raise SourceError(f"{path}: has no part {part!r}; it holds one volume, part 0")
        return shots, ()
    if counts.min() != phases:
        odd = along[np.flatnonzero(np.diff(places, prepend=-1))][counts != phases][:3]
        raise SourceError(
            f"{path}: duplicate positions: a place holds {counts.min()} to {phases} images (as at "
            f"{', '.join(f'{at:g}' for at in odd)} mm), so that no phase or acquisition is whole; "
            "keep one acquisition in a folder"
        )
    names, groups = _split(shots, places, phases)
    if part is None or not groups or not isinstance(part, int) or not 0 <= part < phases:
        raise SourceError(
            f"{path}: duplicate positions: each holds {phases} images, as of {phases} phases or "
            "acquisitions"
            + (f", told apart by {names}" if groups else ", and nothing tells these apart evenly")
            + ("; keep one acquisition in a folder" if not groups else "")
            + ("" if not groups else "; say which under layout.parts of the recipe, from 0")
            + ("" if part is None else f" (there is no {part!r})")
        )
    note = f"{path.name}: phase {part} of {phases}, told apart by {names}"
    return groups[part], (note,)


def _split(
    shots: Sequence[Shot], places: NDArray[np.int64], phases: int
) -> tuple[str, list[list[Shot]]]:
    """What splits the frames so that each phase has each position once, and the phases in order."""
    names = [key[0] for key in KEYS if all(key[0] in shot.plane.keys for shot in shots)]
    for pair in [(name,) for name in names] + list(itertools.combinations(names, 2)):
        held: dict[tuple[str, ...], list[tuple[int, Shot]]] = {}
        for place, shot in zip(places, shots, strict=True):
            held.setdefault(tuple(shot.plane.keys[name] for name in pair), []).append((place, shot))
        even = all(len({place for place, _ in group}) == len(group) for group in held.values())
        if len(held) == phases and even:
            return " and ".join(pair), [[s for _, s in held[k]] for k in sorted(held, key=_sorting)]
    return "", []


def _sorting(values: tuple[str, ...]) -> list[tuple[float, str]]:
    """Numbers by size, other words after them."""

    def number(value: str) -> float:
        try:
            return float(value)
        except ValueError:
            return float("inf")

    return [(number(value), value) for value in values]


def _step(path: Path, shots: Sequence[Shot], normal: Floats) -> Floats:
    """The way from one slice to the next in LPS mm; `SourceError` where it is not one for all."""
    places = np.array([shot.plane.position for shot in shots])
    if len(shots) == 1:
        return normal * shots[0].plane.apart
    along = places @ normal
    gaps = np.diff(along)
    usual = float(np.median(gaps))
    allowed = max(EVEN * usual, min(ROUNDED, 0.1 * usual))
    wrong = np.flatnonzero(np.abs(gaps - usual) > allowed)
    if wrong.size:
        told = ", ".join(
            f"{gaps[n]:.4g} mm between {along[n]:.6g} and {along[n + 1]:.6g} mm" for n in wrong[:3]
        )
        raise SourceError(
            f"{path}: missing slice / gap: {told}{' and more' if wrong.size > 3 else ''}, where "
            f"slices lie {usual:.4g} mm apart; fetch the missing files, or leave the series out"
        )
    step: Floats = (places[-1] - places[0]) / (len(shots) - 1)
    beside = places - places[0] - np.outer(np.arange(len(shots)), step)
    drift = np.abs(beside @ normal).max()
    side = np.linalg.norm(beside - np.outer(beside @ normal, normal), axis=1).max()
    if drift > 0.25 * usual or side > max(ROUNDED, SHIFTED * min(shots[0].plane.spacing)):
        raise SourceError(
            f"{path}: its slices lie up to {max(drift, side):.3g} mm beside an even stack (a gap "
            "in their positions that adds up, or two stations); leave the series out"
        )
    return step


def _tilt(step: Floats, normal: Floats) -> float:
    """Degrees between the way to the next slice and the normal of the slices."""
    cosine = abs(float(np.dot(step, normal))) / float(np.linalg.norm(step))
    return float(np.degrees(np.arccos(min(1.0, cosine))))


def _affine(first: Plane, step: Floats) -> Floats:
    """Index (column, row, slice) -> RAS mm; DICOM's own axes run to the left and back (LPS)."""
    affine = plane_affine(first)
    affine[:2, 2], affine[2, 2] = -step[:2], step[2]
    return affine + 0.0


def plane_affine(plane: Plane) -> Floats:
    """(4, 4): index (column, row, slices off along the normal, by 1 mm) -> RAS mm."""
    affine = np.eye(4)
    affine[:3, 0] = np.array(plane.across) * plane.spacing[1]
    affine[:3, 1] = np.array(plane.down) * plane.spacing[0]
    affine[:3, 2] = np.cross(plane.across, plane.down)
    affine[:3, 3] = plane.position
    affine[:2] *= -1
    return affine + 0.0  # without negative zeros
