"""DICOM pictures (PS3.3 and PS3.10): a folder as one series, single images, multi-frame, cine.

A folder is one stack of slices, data (column, row, slice), ordered by position. A file without a
place in space (radiographs, ultrasound, endoscopy) is a flat picture, (x, y, frames[, 3]).
Segmentations and contours are handed to the readers beside this one.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SourceError
from ..model import Grid, Volume, Wanted
from . import dicom_contours, dicom_seg
from .dicom_gdcm import Apart
from .dicom_headers import CONTOURS, Head, believable, head_of
from .dicom_open import has_magic
from .dicom_pixels import frames_of
from .dicom_series import Stack, one_series, stacked

suffixes = (".dcm", ".dicom", ".ima")

PROBED = 10
"""Files of a folder that are looked at to see whether it holds DICOM."""


def takes(path: Path) -> bool:
    """Whether `path` is a folder of DICOM files, or such a file under a name that tells nothing."""
    if path.is_dir():
        return any(_telling(file) or has_magic(file) for file in files(path)[:PROBED])
    return path.is_file() and has_magic(path)


def files(path: Path) -> tuple[Path, ...]:
    """The file itself, or those of the folder by name; hidden ones and DICOMDIR are left out."""
    if not path.is_dir():
        return (path,)
    try:
        return tuple(
            sorted(
                file
                for file in path.iterdir()
                if not file.name.startswith(".") and file.name != "DICOMDIR" and file.is_file()
            )
        )
    except OSError as error:
        raise SourceError(f"{path}: this folder cannot be read ({error.strerror})") from error


def measure(path: Path, wanted: Wanted) -> Grid:
    """Shape and place as `read` gives them, from headers alone. Raises `SourceError`."""
    heads, part, _ = _heads(path, wanted)
    other = _marked(path, heads, wanted)
    if other is not None:
        grid: Grid = other.measure(heads[0].path, wanted)
        return grid
    first = heads[0]
    if not _placed(path, heads):
        count = 1 if part is not None else first.frames
        return Grid((first.columns, first.rows, count), np.eye(4), True, first.pixel)
    stack = stacked(path, heads, part)
    return Grid((first.columns, first.rows, len(stack.shots)), stack.affine)


def read(path: Path, wanted: Wanted) -> Volume:
    """The picture or volume: grey values rescaled slice by slice, colour as uint8 RGB.

    `wanted.part` chooses among several series of a folder (in the order of SeriesNumber, then of
    the lowest file name), among the phases of a series, or a frame of a flat picture. Raises
    `SourceError` for a broken file, an uneven stack, or a choice that is left open.
    """
    heads, part, notes = _heads(path, wanted)
    other = _marked(path, heads, wanted)
    if other is not None:
        marked: Volume = other.read(heads[0].path, wanted)
        return marked
    if not _placed(path, heads):
        return _flat(heads[0], part, wanted, notes)
    stack = stacked(path, heads, part)
    slices, said = _slices(stack, wanted.labels)
    affine = stack.affine
    spacing = np.linalg.norm(affine[:3, :3], axis=0)
    return Volume(
        _joined(slices),
        affine,
        (float(spacing[0]), float(spacing[1]), float(spacing[2])),
        np.eye(4),
        False,
        (*notes, *stack.notes, *(f"{path.name}: {note}" for note in said)),
    )


def _telling(path: Path) -> bool:
    return path.name.lower().endswith(suffixes)


def _heads(path: Path, wanted: Wanted) -> tuple[list[Head], int | str | None, tuple[str, ...]]:
    """The headers of one series, the part left to choose, and what was left out of the folder.

    For labels, segmentations and contours go before pictures that lie beside them.
    """
    if not path.is_dir():
        head = head_of(path)
        if not head.picture and not head.mark:
            raise SourceError(f"{path}: a DICOM file without pixels, segments or contours")
        return [head], wanted.part, ()
    found, strange = [], 0
    for file in files(path):
        if has_magic(file) or _telling(file):  # what is called DICOM but is not, is damaged
            found.append(head_of(file))
        else:
            strange += 1
    pictures = [head for head in found if head.picture]
    marks = [head for head in found if head.mark]
    kept = (marks or pictures) if wanted.labels else (pictures or marks)
    if not kept:
        raise SourceError(f"{path}: holds no DICOM file with pixels, segments or contours")
    notes = [
        f"{path.name}: {count} files {what} left out"
        for count, what in (
            (strange, "that are not DICOM"),
            (len(found) - len(kept), "of DICOM of another kind"),
        )
        if count
    ]
    heads, part = one_series(path, kept, wanted.part)
    return heads, part, tuple(notes)


def _marked(path: Path, heads: Sequence[Head], wanted: Wanted) -> Any:
    """The reader of segmentations or contours, where the file is one; None for pictures."""
    head = heads[0]
    if not head.mark:
        return None
    if len(heads) > 1:
        raise SourceError(
            f"{path}: holds {len(heads)} segmentations; name one file in the recipe's layout"
        )
    if not wanted.labels:
        raise SourceError(
            f"{head.path}: is a segmentation, not a picture; name it as a mask in the recipe"
        )
    return dicom_contours if head.kind == CONTOURS else dicom_seg


def _placed(path: Path, heads: Sequence[Head]) -> bool:
    """Whether all files have a place in space. Raises `SourceError` where a folder has none."""
    for head in heads:
        believable(head)
    lost = [head for head in heads if not head.planes]
    if not lost:
        return True
    if len(heads) == 1:
        return False
    raise SourceError(
        f"{path}: {len(lost)} of its {len(heads)} images carry no position (as "
        f"{lost[0].path.name}), so they are no stack of slices; name single files instead"
    )


def _slices(stack: Stack, labels: bool) -> tuple[list[NDArray[Any]], tuple[str, ...]]:
    """The decoded slices in the order of the stack; each file is opened once."""
    wished: dict[Path, list[int]] = {}
    for place, shot in enumerate(stack.shots):
        wished.setdefault(shot.head.path, []).append(place)
    slices: list[NDArray[Any]] = [np.empty((0, 0))] * len(stack.shots)
    said: dict[str, None] = {}
    with Apart() as apart:
        for places in wished.values():
            # By frame, so that a file in order is decoded in one pass.
            places = sorted(places, key=lambda place: stack.shots[place].plane.frame)
            numbers = [stack.shots[place].plane.frame for place in places]
            frames, notes = frames_of(stack.shots[places[0]].head, numbers, labels, apart)
            for place, frame in zip(places, frames, strict=True):
                slices[place] = frame
            said.update(dict.fromkeys(notes))
    return slices, tuple(said)


def _joined(slices: list[NDArray[Any]]) -> NDArray[Any]:
    """(columns, rows, slices[, 3]) of slices (rows, columns[, 3]), in a type that holds all."""
    kinds = {data.dtype for data in slices}
    kind = np.dtype(np.float32) if any(k.kind == "f" for k in kinds) else np.result_type(*kinds)
    out = np.empty((len(slices), *slices[0].shape), kind)
    for number in range(len(slices)):
        out[number] = slices[number]
        slices[number] = np.empty((0, 0))  # so that the volume is not held twice
    return out.transpose(2, 1, 0, *range(3, out.ndim))


def _flat(head: Head, part: int | str | None, wanted: Wanted, notes: tuple[str, ...]) -> Volume:
    """A picture without a place: (x, y, frames[, 3]); only the frames asked for are decoded."""
    numbers: Sequence[int] = range(head.frames)
    if part is not None:
        if not isinstance(part, int) or not 0 <= part < head.frames:
            raise SourceError(
                f"{head.path}: has no part {part!r}; it has {head.frames} frames, from 0"
            )
        numbers = [part]
    elif wanted.only is not None:
        numbers = wanted.only
    if head.modality in ("CT", "MR", "PT", "NM"):
        notes = (*notes, f"{head.path.name}: no position in its header; read as a flat picture")
    with Apart() as apart:
        frames, said = frames_of(head, numbers, wanted.labels, apart)
    return Volume(
        _joined(frames),
        np.eye(4),
        (*head.pixel, 1.0),
        np.eye(4),
        True,
        (*notes, *(f"{head.path.name}: {note}" for note in said)),
        numbers=wanted.only if part is None else None,
    )
