"""Folders of picture files, and patterns `frame_{frame}.png`: a sequence, a file for each frame.

The number of a file is what stands at `{frame}`, or the last digits of its name. Pictures count
from 0 in the order of their numbers (2 before 10). A mask belongs to the picture with its number;
where the picture is one file (a video, a GIF), masks count from `wanted.first`, else from 1, else,
where one is numbered 0, from 0, and a note says so.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SourceError
from ..model import Grid, Volume, Wanted
from . import FRAME, pictures
from .video import spelled

suffixes = ()

LARGEST = 16 * 2**30
"""Bytes of pixels beyond which frames are not held at once."""

_Label = int | str


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    """Frame number and file, ascending, and what was chosen."""

    files: tuple[tuple[int, Path], ...]
    notes: tuple[str, ...] = ()


def takes(path: Path) -> bool:
    """Whether this is a pattern, or a folder that holds pictures and no DICOM."""
    if FRAME in path.name:
        return True
    if not path.is_dir():
        return False
    names = [entry.name.lower() for entry in path.iterdir() if not entry.name.startswith(".")]
    foreign = any(name.endswith(".dcm") or name == "dicomdir" for name in names)
    return not foreign and any(name.endswith(pictures.suffixes) for name in names)


def files(path: Path) -> tuple[Path, ...]:
    """The files of the frames, in their order. Raises `SourceError` where it cannot be told."""
    return tuple(file for _, file in _labelled(path))


def remarks(path: Path, wanted: Wanted) -> tuple[str, ...]:
    """What was chosen about the sequence as a whole, found without decoding."""
    return _planned(path, wanted).notes


def measure(path: Path, wanted: Wanted) -> Grid:
    """Shape (x, y, frames) by the first frame that can be opened."""
    plan = _planned(path, replace(wanted, only=None))
    fault: SourceError | None = None
    for _, file in plan.files:
        try:
            grid = pictures.measure(file, Wanted(labels=wanted.labels, part=wanted.part))
        except SourceError as error:
            fault = fault or error
        else:
            return Grid((*grid.shape[:2], len(plan.files)), np.eye(4), True)
    raise SourceError(f"{path}: none of its frames can be read: {fault}")


def sequence(path: Path, wanted: Wanted) -> Iterator[tuple[int, NDArray[Any]]]:
    """Each wanted frame that can be read, (x, y[, 3]), with its number, in order, one at a time."""
    for number, frame in _frames(path, _planned(path, wanted), wanted, [], {}):
        yield number, frame.data[:, :, 0]


def read(path: Path, wanted: Wanted) -> Volume:
    """The frames as (x, y, frames[, 3]), in colour where one of them is.

    `numbers` where not every frame is held: some were chosen, some cannot be read, or masks lie on
    some frames only. A picture that cannot be read is told in a note; a mask raises `SourceError`,
    as do frames of several sizes or depths.
    """
    plan = _planned(path, wanted)
    lost: list[int] = []
    names: dict[str, int] = {}
    held: list[int] = []
    layers: list[NDArray[Any]] = []
    said: Counter[str] = Counter()
    for number, frame in _frames(path, plan, wanted, lost, names):
        held.append(number)
        layers.append(frame.data[:, :, 0])
        said.update(frame.notes)
        if layers[0].nbytes * len(plan.files) > LARGEST:
            raise SourceError(
                f"{path}: {len(plan.files)} frames of {frame.data.shape[0]}x{frame.data.shape[1]} "
                "pixels are more than 16 GiB; choose fewer frames"
            )
    if not held and (not wanted.labels or wanted.onto is None):
        raise SourceError(f"{path}: none of the {len(plan.files)} frames asked for can be read")
    notes = [
        *plan.notes,
        *(f"{path.name}: {note} ({n} frames)" for note, n in said.most_common(8)),
    ]
    if lost:
        notes.append(f"{path.name}: {spelled(lost)} cannot be read; the others keep their numbers")
    count = wanted.onto.shape[2] if wanted.labels and wanted.onto else len(plan.files)
    whole = wanted.only is None and held == list(range(count))
    return Volume(
        _stacked(path, layers, wanted),
        np.eye(4),
        (1.0, 1.0, 1.0),
        np.eye(4),
        flat=True,
        notes=tuple(notes),
        names=names,
        numbers=None if whole else tuple(held),
    )


def _stacked(path: Path, layers: list[NDArray[Any]], wanted: Wanted) -> NDArray[Any]:
    """(x, y, frames[, 3]); `layers` is emptied, so that the pixels are not held twice."""
    if not layers and wanted.onto is not None:
        return np.zeros((*wanted.onto.shape[:2], 0), np.uint8)
    kinds = {layer.dtype for layer in layers}
    if len(kinds) > 1 and not wanted.labels:
        told = " and ".join(sorted(str(kind) for kind in kinds))
        raise SourceError(f"{path}: frames of several depths ({told}); convert them to one")
    colour = any(layer.ndim == 3 for layer in layers)
    across, down = layers[0].shape[:2]
    # Frame by frame and row by row, as decoded; seen as (x, y, frames[, 3]).
    data = np.empty((len(layers), down, across, *((3,) if colour else ())), np.result_type(*kinds))
    for at in range(len(layers)):
        layer, layers[at] = layers[at], np.empty(0)
        rows = layer.swapaxes(0, 1)
        data[at] = rows[:, :, None] if colour and layer.ndim == 2 else rows
    return data.transpose(2, 1, 0, *range(3, data.ndim))


def _frames(
    path: Path, plan: _Plan, wanted: Wanted, lost: list[int], names: dict[str, int]
) -> Iterator[tuple[int, Volume]]:
    """Number and (x, y, 1[, 3]) of each frame; `lost` and `names` are filled on the way."""
    size: tuple[int, ...] | None = None
    unnamed: Path | None = None
    for number, file in plan.files:
        try:
            frame = pictures.read(file, Wanted(labels=wanted.labels, part=wanted.part))
        except SourceError:
            if wanted.labels:
                raise
            lost.append(number)
            continue
        size = size or frame.data.shape[:2]
        if frame.data.shape[:2] != size or frame.data.shape[2] != 1:
            here, first = ("x".join(map(str, one)) for one in (frame.data.shape[:3], (*size, 1)))
            raise SourceError(f"{file}: {here} pixels, where the first frame of {path} has {first}")
        if frame.names:
            frame = replace(frame, data=_renamed(file, frame, names))
        elif wanted.labels and frame.data.any():
            unnamed = file
        if names and unnamed is not None:
            raise SourceError(
                f"{unnamed}: label values without names, where other frames of {path} have "
                "colours; save all masks in one way"
            )
        notes = tuple(note.removeprefix(f"{file.name}: ") for note in frame.notes)
        yield number, replace(frame, notes=notes)


def _renamed(file: Path, frame: Volume, names: dict[str, int]) -> NDArray[Any]:
    """The labels under the values that earlier frames gave to their names.

    A colour's value in one file depends on the other colours there.
    """
    taken = {value: name for name, value in names.items()}
    agreed = all(
        names.get(name, value) == value and taken.get(value, name) == name
        for name, value in frame.names.items()
    )
    if agreed:
        names.update(frame.names)
        return frame.data
    table = np.zeros(int(frame.data.max()) + 1, np.int32)
    for name, value in frame.names.items():
        if value < table.size:
            table[value] = names.setdefault(name, max(names.values()) + 1)
    present = np.unique(frame.data)
    if np.any(table[present[present > 0]] == 0):
        raise SourceError(
            f"{file}: a label value that has another name in other frames, or none; save label "
            "values instead of colours"
        )
    renamed: NDArray[Any] = table[frame.data]
    return renamed


def _planned(path: Path, wanted: Wanted) -> _Plan:
    """Files and frame numbers, those of `wanted.only`."""
    labelled = _labelled(path)
    if not wanted.labels or wanted.picture is None:
        plan = _Plan(tuple((place, file) for place, (_, file) in enumerate(labelled)))
    elif wanted.first is None and takes(wanted.picture):
        plan = _paired(path, labelled, wanted.picture)
    else:
        plan = _counted(path, labelled, wanted)
    if wanted.only is None:
        return plan
    return replace(plan, files=tuple(one for one in plan.files if one[0] in wanted.only))


def _paired(path: Path, labelled: Sequence[tuple[_Label, Path]], picture: Path) -> _Plan:
    """Each mask on the picture with its number."""
    places = {label: place for place, (label, _) in enumerate(_labelled(picture))}
    alone = [file for label, file in labelled if label not in places]
    if alone:
        raise SourceError(
            f"{alone[0]}: no frame of {picture} has this number"
            + (f", nor have {len(alone) - 1} more masks one" if len(alone) > 1 else "")
            + f"; {path} and the pictures should count alike, or give first:"
        )
    return _Plan(tuple((places[label], file) for label, file in labelled))


def _counted(path: Path, labelled: Sequence[tuple[_Label, Path]], wanted: Wanted) -> _Plan:
    """Each mask by its distance from the number of the first frame."""
    numbers = [(label, file) for label, file in labelled if isinstance(label, int)]
    if len(numbers) < len(labelled):
        raise SourceError(f"{labelled[0][1]}: no number in its name tells its frame in the video")
    first = wanted.first if wanted.first is not None else min(1, numbers[0][0])
    if numbers[0][0] < first:
        raise SourceError(f"{numbers[0][1]}: its number is below that of the first frame, {first}")
    count = wanted.onto.shape[2] if wanted.onto is not None else numbers[-1][0] - first + 1
    placed = [(number - first, file) for number, file in numbers]
    held = tuple(one for one in placed if one[0] < count)
    beyond = [file.name for number, file in placed if number >= count]
    if not held:
        raise SourceError(
            f"{path}: masks count from {first} here, and none has a frame among the {count} of "
            "the video; give first:"
        )
    notes = [
        f"{path.name}: mask numbers count from {first} ({held[0][1].name} is frame {held[0][0]})"
    ]
    if beyond:
        more = f" and {len(beyond) - 1} more masks have" if len(beyond) > 1 else " has"
        notes.append(f"{path.name}: mask {beyond[0]}{more} no frame in the video; left out")
    return _Plan(held, tuple(notes))


def _labelled(path: Path) -> list[tuple[_Label, Path]]:
    """Number and file of each frame, ascending; stem and file where no name has digits."""
    found: dict[_Label, Path] = {}
    listed = _matching(path) if FRAME in path.name else _pictured(path)
    numbered = any(digits for digits, _ in listed)
    for digits, file in listed:
        if numbered and not digits:
            raise SourceError(f"{file}: no number in its name, unlike its neighbours; give {FRAME}")
        label: _Label = int(digits) if numbered else file.stem
        if label in found:
            raise SourceError(
                f"{file}: has the number of {found[label].name} ({label}); tell the frames apart "
                f"by a pattern with {FRAME}"
            )
        found[label] = file
    if not found:
        raise SourceError(f"{path}: no frames found; check the recipe's layout")
    return sorted(found.items(), key=lambda item: item[0] if numbered else str(item[0]))


def _matching(path: Path) -> list[tuple[str, Path]]:
    """Digits and file of each name that fits the pattern."""
    if path.name.count(FRAME) != 1:
        raise SourceError(f"{path}: {FRAME} stands more than once in its name")
    before, after = (re.escape(part) for part in path.name.split(FRAME))
    shape = re.compile(f"{before}([0-9]+){after}")
    fits = ((shape.fullmatch(file.name), file) for file in _inside(path.parent))
    return [(fit.group(1), file) for fit, file in fits if fit]


def _pictured(path: Path) -> list[tuple[str, Path]]:
    """The last digits in the name, '' if none, and the file of each picture of a folder."""
    held = [file for file in _inside(path) if file.name.lower().endswith(pictures.suffixes)]
    return [(("", *re.findall("[0-9]+", file.stem))[-1], file) for file in held]


def _inside(folder: Path) -> list[Path]:
    """The files of a folder, by name, hidden ones passed over. Raises if one lies elsewhere."""
    try:
        entries = sorted(entry for entry in folder.iterdir() if not entry.name.startswith("."))
    except OSError as error:
        raise SourceError(f"{folder}: cannot be listed; check the dataset's folder") from error
    home = folder.resolve()
    for entry in entries:
        if entry.is_symlink() and not entry.resolve().is_relative_to(home):
            raise SourceError(f"{entry}: a link that leads out of its folder; copy the file there")
    return [entry for entry in entries if entry.is_file()]
