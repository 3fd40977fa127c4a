"""The files of a case, decoded and brought onto one grid: that of its first picture."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import formats, regions, standardise
from ..errors import SourceError
from ..model import Case, Choice, Grid, Mark, MaskFile, Volume, Wanted

Stamp = tuple[Path, int, int]
"""A file, its size and time: equal where nothing changed."""

Layers = Sequence[tuple[NDArray[Any], Mapping[int, regions.Slices]]]
"""The label maps of one mask file, (i, j, k) each, with the blocks of their values."""


def grid_of(case: Case, series: str = "") -> Grid:
    """The grid of the case's first picture, or of one series, as stored; from its header alone."""
    grid = _stored_grid(case, series or next(iter(case.files)))
    if not _as_stored(case) or grid.flat:
        return grid
    across, down, _ = (float(mm) for mm in np.linalg.norm(grid.affine[:3, :3], axis=0))
    return Grid(grid.shape, np.eye(4), True, (across, down))


def _stored_grid(case: Case, series: str) -> Grid:
    path = case.files[series]
    stamp = tuple(_stamp(file) for file in formats.files(path))
    return _measured(path, case.parts.get(series), stamp)


@lru_cache(maxsize=64)  # a series of hundreds of headers is asked for several times a case
def _measured(path: Path, part: int | str | None, _stamp: tuple[Stamp, ...]) -> Grid:
    return formats.measure(path, Wanted(part=part))


def _as_stored(case: Case) -> bool:
    """Whether the recipe wants volumes shown as they are stored, like pictures."""
    return case.reading.views == ("picture",)


def picture(case: Case, series: str, only: tuple[int, ...] | None = None) -> Volume:
    """One series in canonical order, on the grid of the case's first picture.

    `only`: the frames of a sequence that are wanted. Raises `SourceError` where the grids differ.
    """
    path = case.files[series]
    volume = formats.read(path, Wanted(part=case.parts.get(series), only=only))
    return _on_grid(case, path, volume, labels=False)


def mask(case: Case, file: MaskFile) -> Volume:
    """One mask in canonical order on the grid of the case's first picture, as label values.

    Raises `SourceError` where it cannot be trusted, or lies on another grid.
    """
    series, first = next(iter(case.files.items()))
    grid = _stored_grid(case, series)
    wanted = Wanted(labels=True, part=file.part, onto=grid, picture=first, first=case.reading.first)
    volume = formats.read(file.path, wanted)
    limit = case.reading.threshold
    if limit is not None:
        told = f"{file.path.name}: inside from {limit:g} up"
        volume = replace(
            volume, data=(volume.data >= limit).astype(np.uint8), notes=(*volume.notes, told)
        )
    volume = replace(volume, data=regions.whole(volume.data, str(file.path)))
    return _on_grid(case, file.path, volume, labels=True)


def _on_grid(case: Case, path: Path, volume: Volume, labels: bool) -> Volume:
    """`volume` in canonical order on the very grid of the case's first picture.

    A grid that agrees but for float noise is replaced by the first one, so that box, mask and
    picture cannot differ by a rounding. Raises `SourceError` where the grids differ.
    """
    first = next(iter(case.files.values()))
    grid = grid_of(case)
    if _as_stored(case):
        volume = standardise.flattened(volume)
    elif grid.flat != volume.flat:
        volume = _same_kind(grid, volume, f"{first} and {path}", path.name)
    shape = (volume.data.shape[0], volume.data.shape[1], volume.data.shape[2])
    held = Grid(shape, volume.affine, volume.flat)
    names = f"{first} and {path}"
    agreed = standardise.agreement(grid, held, names)
    if volume.flat:
        _same_frames(grid, volume, names)
        # A mask of plain pixels lies on pixels that need not be square.
        return replace(volume, spacing=(*grid.pixel, 1.0))
    if agreed == "placed" and not labels:
        raise SourceError(f"{names}: the second covers only a part of the first; crop both alike")
    if agreed == "same":
        canonical = standardise.to_ras(replace(volume, affine=grid.affine), str(path))
    else:
        how = "reoriented onto" if agreed == "reoriented" else "laid at its place in"
        notes = (*volume.notes, f"{path.name}: {how} the picture's grid")
        canonical = standardise.to_ras(replace(volume, notes=notes), str(path))
    outer = standardise.canonical_grid(grid)
    if agreed == "placed":
        inner = standardise.canonical_grid(held)
        data = standardise.placed(canonical.data, inner, outer)
        canonical = replace(canonical, data=data)
    i, j, k = (float(mm) for mm in np.linalg.norm(outer.affine[:3, :3], axis=0))
    return replace(canonical, affine=outer.affine, spacing=(i, j, k))


def _same_kind(grid: Grid, volume: Volume, names: str, name: str) -> Volume:
    """A plain picture as the mask of a single slice, pixel on pixel; nothing else goes together."""
    if volume.flat and grid.shape[2] == 1 and volume.data.shape[:3] == grid.shape:
        note = f"{name}: a plain picture, laid on the one slice pixel by pixel"
        return replace(volume, affine=grid.affine, flat=False, notes=(*volume.notes, note))
    raise SourceError(
        f"{names}: a plain picture and a volume cannot be laid on each other; "
        "correct the pairing in the recipe"
    )


def _same_frames(grid: Grid, volume: Volume, names: str) -> None:
    if volume.numbers is None and volume.data.shape[2] != grid.shape[2]:
        raise SourceError(
            f"{names}: {grid.shape[2]} frames against {volume.data.shape[2]}; a mask a frame is "
            "expected, or masks whose names tell their frame"
        )
    if volume.numbers and not 0 <= min(volume.numbers) <= max(volume.numbers) < grid.shape[2]:
        raise SourceError(
            f"{names}: frames {min(volume.numbers)} to {max(volume.numbers)} of {grid.shape[2]}"
        )


def layers_of(volume: Volume) -> Layers:
    """The label maps of a mask, one where its structures do not overlap."""
    data = volume.data
    maps = [data] if data.ndim == 3 else [data[..., n] for n in range(data.shape[3])]
    return [(one, regions.blocks(one)) for one in maps]


def values_of(choice: Choice, names: Mapping[str, int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The label values meant by a choice; a name that the file does not have means none.

    Raises `LookupError` where no value of a choice that names some is left.
    """
    among = tuple(v for one in choice.among if (v := _value(one, names)) is not None)
    never = tuple(v for one in choice.never if (v := _value(one, names)) is not None)
    if choice.among and not among:
        raise LookupError
    return among, never


def _value(one: int | str, names: Mapping[str, int]) -> int | None:
    if isinstance(one, int):
        return one
    lower = {name.strip().lower(): value for name, value in names.items()}
    return names.get(one, lower.get(one.strip().lower()))


def part_of(
    choice: Choice, layers: Layers, names: Mapping[str, int], width: int
) -> tuple[regions.Mask, regions.Slices] | None:
    """The voxels of one structure and their block; None where it is absent.

    `width`: voxels across from left to right, for structures cut at the midline.
    """
    try:
        among, never = values_of(choice, names)
    except LookupError:
        return None
    found = regions.united(layers, among, never)
    if found is not None and choice.side and choice.cut:
        return regions.half(*found, width / 2, choice.side)
    return found


def marks_on(case: Case, number: int, size: tuple[int, int], count: int) -> list[Mark]:
    """The marks on one frame of a case whose annotation file is given; `size`: (columns, rows).

    A file that names frames tells them of the whole sequence; where each frame is a file of its
    own, its marks go by that file's name.
    """
    if case.marks is None:
        return []
    from ..seams import find

    path = next(iter(case.files.values()))
    shown, frame = path, number
    own = formats.files(path)
    if count > 1 and len(own) == count:  # a file a frame
        shown, frame = own[number], 0
    read = find("annotations", case.marks.marking.kind)
    name = shown.relative_to(case.root).as_posix()
    marks: list[Mark] = read(case.marks.path, name, size, case.marks.marking)
    beyond = [mark.frame for mark in marks if not 0 <= mark.frame < max(count, 1)]
    if beyond and frame == number:
        raise SourceError(
            f"{case.marks.path}: marks frame {beyond[0]} of {name}, which has {count}, from 0"
        )
    return [mark for mark in marks if mark.frame == frame]


def named_marks(case: Case, marks: list[Mark]) -> Iterator[tuple[str, list[Mark]]]:
    """Structure -> its marks on one frame, by the classes that the recipe names."""
    labels = case.marks.labels if case.marks else {}
    for structure, choice in labels.items():
        wished = {str(one).strip().lower() for one in choice.among}
        barred = {str(one).strip().lower() for one in choice.never}
        held = [
            mark
            for mark in marks
            if (not wished or mark.name.strip().lower() in wished)
            and mark.name.strip().lower() not in barred
        ]
        if held:
            yield structure, held


def sources(case: Case) -> dict[str, str]:
    """File -> sha256 of its bytes, for the provenance; in the order of the case."""
    return {str(path): file_digest(path) for path in paths_of(case)}


def paths_of(case: Case) -> list[Path]:
    """Pictures, masks and annotations of a case, each as its recipe names it."""
    paths = [*case.files.values(), *(file.path for file in case.masks)]
    if case.marks is not None:
        paths.append(case.marks.path)
        if case.marks.marking.sizes is not None:
            paths.append(case.marks.marking.sizes)
    return list(dict.fromkeys(paths))


def stamps(case: Case) -> list[list[Any]]:
    """Path, size and time of every file of a case; changes when one of them does."""
    files = [file for path in paths_of(case) for file in _files(path)]
    return [[str(file.resolve()), *_stamp(file)[1:]] for file in files]


def _stamp(file: Path) -> Stamp:
    try:
        stat = file.stat()
    except OSError as error:
        raise SourceError(f"{file}: cannot be read ({error.strerror})") from error
    return file, stat.st_size, stat.st_mtime_ns


def _files(path: Path) -> tuple[Path, ...]:
    """The files behind a path; annotation files are no format of pictures."""
    if path.is_dir() or formats.FRAME in path.name:
        return formats.files(path)
    try:
        return formats.files(path)
    except SourceError:
        return (path,)


def file_digest(path: Path) -> str:
    """SHA-256 of a source file's bytes; of a list of digests and names where it is several files.

    Raises `SourceError` where one cannot be read.
    """
    held = _files(path)
    if held == (path,):
        return _digest(path)
    lines = "".join(f"{_digest(file)}  {file.name}\n" for file in held)
    return hashlib.sha256(lines.encode()).hexdigest()


def _digest(path: Path) -> str:
    try:
        return _kept_digest(_stamp(path))
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror})") from error


@lru_cache(maxsize=256)  # one annotation file may serve every case of a dataset
def _kept_digest(stamp: Stamp) -> str:
    with stamp[0].open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sequence(
    case: Case, series: str, only: tuple[int, ...] | None
) -> Iterator[tuple[int, NDArray[Any]]]:
    """The frames of a series of pictures, in order, one at a time: number, (x, y[, 3])."""
    path = case.files[series]
    wanted = Wanted(part=case.parts.get(series), only=only)
    yield from formats.reader_of(path).sequence(path, wanted)


def remarks(case: Case, series: str) -> tuple[str, ...]:
    """What the reader of a sequence finds wrong with the file as a whole."""
    path = case.files[series]
    reader = formats.reader_of(path)
    if not hasattr(reader, "remarks"):
        return ()
    return tuple(reader.remarks(path, Wanted(part=case.parts.get(series))))


def rate_of(case: Case) -> float | None:
    """Frames a second of a video; None for all that has no time."""
    path = next(iter(case.files.values()))
    reader = formats.reader_of(path)
    return float(reader.rate(path)) if hasattr(reader, "rate") else None
