"""Marks from tables (CSV, TSV): boxes, and masks as run lengths.

Both functions take `path` (the table), `picture` (its path relative to the dataset's folder),
`size` (columns, rows of the picture on disk) and `marking`, and give the picture's marks in pixel
edges of the picture on disk. An empty list means that the table says nothing is marked; a picture
without a row is a `SourceError`, and so is every row that cannot be trusted, when its picture is
asked for.

Which column means what is told in `table_headers`.
"""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import SourceError
from ..model import Mark, Marking
from .marks import Mask, Size, bounded, drawn_on, fitted, laid, parsed, tight
from .table_headers import BOXES, Table, loaded

DIALECTS = {
    "columns-absolute": (True, 1, False),
    "columns-absolute-0": (True, 0, False),
    "columns-relative": (True, 0, True),
    "rows-absolute": (False, 1, False),
    "rows-absolute-0": (False, 0, False),
}
"""Of runs -> pixels counted down the columns, number of the first, starts from the last end."""

_NOTHING = ("", "-1", "nan")
"""What a table writes for a mask without a pixel."""


def boxes(path: Path, picture: str, size: Size, marking: Marking) -> list[Mark]:
    """The boxes of `picture`. Four empty fields, or a name under `skip`, mark nothing.

    `marking.sizes` tells on pictures of which size the boxes were drawn; they are then scaled.
    Raises `SourceError` where a box lies outside, has no area or is not finite.
    """
    table = loaded(path, "boxes", marking.columns)
    kind = next(kind for kind in BOXES if all(key in table.where for key in kind))
    drawn: tuple[float, float] | None = None
    marks = []
    for number, fields in table.rows[table.listing.entry(path, picture)]:
        where = f"{path}: row {number}"
        checked = _whole(where, fields)
        name = table.field(checked, "name")
        texts = [table.field(checked, key) for key in kind]
        if name in marking.skip or not any(texts):
            continue
        drawn = drawn or drawn_on(where, _sized(picture, marking), size)
        a, b, c, d = (_number(where, key, text) for key, text in zip(kind, texts, strict=True))
        if kind[0] == "cx":
            a, b = a - c / 2, b - d / 2
        if kind[2] == "width":
            c, d = a + c, b + d
        frame = _frame(where, table, checked)
        marks.append(Mark(name, fitted(where, (a, b, c, d), drawn, size), frame=frame))
    return marks


def runs(path: Path, picture: str, size: Size, marking: Marking) -> list[Mark]:
    """The masks of `picture`, one a row, with their tight boxes. '-1', 'nan' or '' mark nothing.

    `marking.runs` is one of `DIALECTS`: nothing in a file tells them apart. Raises `SourceError`
    where runs overlap, go backwards, leave the picture, or are of a picture of another size.
    """
    if marking.runs not in DIALECTS:
        raise SourceError(
            f"{path}: which dialect its runs are in must be said (runs: {', '.join(DIALECTS)})"
            + (f"; {marking.runs!r} is none of them" if marking.runs else "")
        )
    table = loaded(path, "runs", marking.columns)
    rows = table.rows[table.listing.entry(path, picture)]
    said = _sized(picture, marking)
    if said is not None and said != size:
        raise SourceError(
            f"{path}: runs of a picture of {said[0]:g}x{said[1]:g} pixels, but the picture is "
            f"{size[0]}x{size[1]}; runs cannot be scaled"
        )
    bounded(path, len(rows), size)
    marks = []
    for number, fields in rows:
        where = f"{path}: row {number}"
        checked = _whole(where, fields)
        name, text = table.field(checked, "name"), table.field(checked, "runs")
        if name in marking.skip or text.lower() in _NOTHING:
            continue
        mask = _decoded(where, text, size, marking.runs)
        marks.append(Mark(name, tight(mask), mask, _frame(where, table, checked)))
    return marks


def _decoded(where: str, text: str, size: Size, dialect: str) -> Mask:
    """The mask (rows, columns) of pairs of a start and a length."""
    by_columns, origin, relative = DIALECTS[dialect]
    if not re.fullmatch(r"[0-9\s]+", text, re.ASCII):
        raise SourceError(f"{where}: its runs are no whole numbers with spaces between")
    words = text.split()
    pixels = size[0] * size[1]
    # No number of a run is longer than that of the pixels; int() is slow for long ones.
    if len(words) % 2 or len(max(words, key=len)) > 15:
        raise SourceError(f"{where}: its runs are no pairs of a start and a length; which dialect?")
    numbers = np.array(words, np.int64)
    starts, lengths = numbers[::2] - origin, numbers[1::2]
    if relative:
        starts = np.cumsum(np.minimum(starts, pixels)) + _before(np.minimum(lengths, pixels))
    ends = starts + lengths
    if lengths.min() < 1:
        raise SourceError(f"{where}: a run of no length; are the runs in the dialect {dialect!r}?")
    if (starts[1:] < ends[:-1]).any():
        fault = "overlap or go backwards"
    elif starts[0] < 0 or ends[-1] > pixels:
        fault = f"leave the picture of {size[0]}x{size[1]} pixels"
    else:
        return laid(starts, ends, size, by_columns)
    raise SourceError(f"{where}: its runs {fault}; are they in the dialect {dialect!r}?")


def _before(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """For each run, how much those before it cover."""
    total: NDArray[np.int64] = np.cumsum(lengths) - lengths
    return total


def _whole(where: str, fields: tuple[str, ...] | None) -> tuple[str, ...]:
    if fields is None:
        raise SourceError(f"{where}: has more or fewer fields than the header; is it quoted right?")
    return fields


def _number(where: str, key: str, text: str) -> float:
    try:
        return parsed(text)
    except ValueError as error:
        raise SourceError(
            f"{where}: {key} is {'empty' if not text else 'no finite number'}; four numbers, or "
            "four empty fields where nothing is marked, are expected"
        ) from error


def _frame(where: str, table: Table, fields: Sequence[str]) -> int:
    if "frame" not in table.where:
        return 0
    number = _number(where, "frame", table.field(fields, "frame"))
    if number < 0 or not number.is_integer():
        raise SourceError(f"{where}: frame {number:g}; a whole number from 0 is expected")
    return int(number)


def _sized(picture: str, marking: Marking) -> tuple[float, float] | None:
    """What `marking.sizes` says of the size (columns, rows) of `picture`; None without one."""
    if marking.sizes is None:
        return None
    path = marking.sizes
    table = loaded(path, "sizes", marking.sized)
    found = set()
    for number, fields in table.rows[table.listing.entry(path, picture)]:
        where = f"{path}: row {number}"
        checked = _whole(where, fields)
        width, height = (
            _number(where, key, table.field(checked, key)) for key in ("width", "height")
        )
        if width <= 0 or height <= 0:
            raise SourceError(f"{where}: a picture of {width:g}x{height:g} pixels")
        found.add((width, height))
    if len(found) > 1:
        raise SourceError(f"{path}: gives {len(found)} different sizes for {picture}")
    return found.pop()
