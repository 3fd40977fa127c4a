"""Tables of marks (CSV, TSV): which column means what, and the rows of each picture.

Tables are UTF-8 with `,`, `;` or tab between fields. Headers are compared without case, spaces or
byte-order mark. Where `marking.columns` does not say which header means what, these do:

* picture: image, image_id, imageid, image_name, image_path, img, picture, filename, file_name, file
* name: label, class, class_name, classname, name, category; for runs also class_id, classid
* frame: frame, frame_id, frame_number, frame_index
* corners of boxes, of which x1, y1 are exclusive edges as they stand: x0 y0 x1 y1, x1 y1 x2 y2,
  xmin ymin xmax ymax, x_min y_min x_max y_max, left top right bottom
* left upper corner and size: x y, x0 y0, x1 y1, xmin ymin, x_min y_min or left top, with w h or
  width height
* centre and size: cx cy, x_center y_center or center_x center_y, with w h or width height
* runs: encodedpixels, encoded_pixels, rle, runs
* sizes (`marking.sizes`, by `marking.sized`): picture as above; width, columns, cols, image_width
  or dim1; height, rows, image_height or dim0

A file that has corners may have width and height beside them; these are then the picture's or
repeat the corners, and are not read. Where `columns` names one number of the box it must name all.
"""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from pathlib import Path

from ..errors import SourceError
from .marks import Listing, plain, stamp

_PICTURE = (
    "image", "image_id", "imageid", "image_name", "image_path", "img", "picture", "filename",
    "file_name", "file",
)  # fmt: skip
_NAME = ("label", "class", "class_name", "classname", "name", "category")
_FRAME = ("frame", "frame_id", "frame_number", "frame_index")
_RUNS = ("encodedpixels", "encoded_pixels", "rle", "runs")
_SIZED = {
    "picture": _PICTURE,
    "width": ("width", "columns", "cols", "image_width", "dim1"),
    "height": ("height", "rows", "image_height", "dim0"),
}
BOXES = (
    ("x0", "y0", "x1", "y1"),
    ("x0", "y0", "width", "height"),
    ("cx", "cy", "width", "height"),
)
_CORNERS = (
    ("x0", "y0", "x1", "y1"), ("x1", "y1", "x2", "y2"), ("xmin", "ymin", "xmax", "ymax"),
    ("x_min", "y_min", "x_max", "y_max"), ("left", "top", "right", "bottom"),
)  # fmt: skip
_STARTS = (
    ("x", "y"),
    ("x0", "y0"),
    ("x1", "y1"),
    ("xmin", "ymin"),
    ("x_min", "y_min"),
    ("left", "top"),
)
_CENTRES = (("cx", "cy"), ("x_center", "y_center"), ("center_x", "center_y"))
_SIDES = (("w", "h"), ("width", "height"))


Pairs = tuple[tuple[str, str], ...]
Row = tuple[int, tuple[str, ...] | None]
"""Number of the row (the header is 1) and its fields; None where it is cut short or too long."""


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A table by picture. `where`: what a column means -> its position in the fields of a row."""

    listing: Listing
    rows: Mapping[str, list[Row]]
    where: Mapping[str, int]

    def field(self, fields: Sequence[str], key: str) -> str:
        """One field; '' where the table has no such column."""
        return fields[self.where[key]].strip() if key in self.where else ""


def loaded(path: Path, kind: str, columns: Mapping[str, str]) -> Table:
    """The table as `kind` (boxes, runs, sizes); `columns`: what a column means -> its header.

    Parsed once for all pictures. Raises `SourceError` for a broken file or unclear headers.
    """
    there = _parsed(path, *stamp(path), kind, tuple(sorted(columns.items())))
    if isinstance(there, str):
        raise SourceError(there)
    return there


@lru_cache(maxsize=4)
def _parsed(path: Path, mtime: int, length: int, kind: str, columns: Pairs) -> "Table | str":  # noqa: ARG001  cache keys
    """The table parsed, or what is wrong with it, so that it is not parsed for every picture."""
    if csv.field_size_limit() < 2**31 - 1:  # runs are long; a C long holds no more on Windows
        csv.field_size_limit(2**31 - 1)
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return _read(path, file, kind, dict(columns))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        return f"{path}: cannot be read as a table in UTF-8 ({error})"
    except SourceError as error:
        return str(error)


def _read(path: Path, file: io.TextIOBase, kind: str, columns: Mapping[str, str]) -> Table:
    head = file.readline(1 << 16)
    # Without `strict` a quote that is never closed swallows the rows that follow.
    delimiter = max(",;\t", key=lambda mark: len(next(csv.reader([head], delimiter=mark), [])))
    headers = next(csv.reader([head], delimiter=delimiter, strict=True), [])
    where = _recognised(path, headers, kind, columns)
    positions = sorted(set(where.values()))
    rows: dict[str, list[Row]] = {}
    for number, fields in enumerate(csv.reader(file, delimiter=delimiter, strict=True), 2):
        if not any(map(str.strip, fields)):
            continue
        if len(fields) <= where["picture"] or not fields[where["picture"]].strip():
            raise SourceError(f"{path}: row {number} names no picture")
        whole = len(fields) >= len(headers) and not any(map(str.strip, fields[len(headers) :]))
        kept = tuple(fields[position] for position in positions) if whole else None
        rows.setdefault(plain(fields[where["picture"]]), []).append((number, kept))
    return Table(Listing(rows), rows, {key: positions.index(at) for key, at in where.items()})


def _recognised(
    path: Path, headers: Sequence[str], kind: str, columns: Mapping[str, str]
) -> dict[str, int]:
    """What a column means -> its position. Raises `SourceError` that lists the headers."""
    seen = [_bare(header) for header in headers]
    listed = ", ".join(repr(header.strip()[:60]) for header in headers[:60]) or "none"
    told = f"the headers of the file: {listed}"

    def at(key: str, names: Sequence[str], needed: bool) -> dict[str, int]:
        if key in columns:
            names = (_bare(columns[key]),)
        found = [position for position, header in enumerate(seen) if header in names]
        if len(found) > 1 or (not found and (needed or key in columns)):
            raise SourceError(
                f"{path}: {len(found)} columns for {key}; say which under columns; {told}"
            )
        return {key: found[0]} if found else {}

    if kind == "sizes":
        return {name: at(name, usual, True)[name] for name, usual in _SIZED.items()}
    out = at("picture", _PICTURE, True) | at("frame", _FRAME, False)
    if kind == "runs":
        return out | at("runs", _RUNS, True) | at("name", (*_NAME, "class_id", "classid"), False)
    out |= at("name", _NAME, False)
    named = {key for box in BOXES for key in box} & columns.keys()
    kinds = [box for box in BOXES if set(box) == named]
    if named and not kinds:
        raise SourceError(
            f"{path}: columns names {', '.join(sorted(named))}; all of x0 y0 x1 y1, of x0 y0 width "
            "height, or of cx cy width height are expected"
        )
    if named:
        return out | {key: at(key, (), True)[key] for key in kinds[0]}
    found = _usual(seen)
    if len(found) != 1:
        raise SourceError(
            f"{path}: {len(found)} sets of columns for boxes; say which under columns; {told}"
        )
    box, chosen = found[0]
    return out | {key: at(key, (name,), True)[key] for key, name in zip(box, chosen, strict=True)}


def _usual(seen: Sequence[str]) -> Sequence[tuple[tuple[str, ...], tuple[str, ...]]]:
    """(meanings, headers) of the usual sets of four that are there; corners go before sizes."""
    corners = [(BOXES[0], names) for names in _CORNERS if set(names) <= set(seen)]
    if corners:
        return corners
    sized = [(BOXES[1], (*start, *side)) for start, side in product(_STARTS, _SIDES)]
    centred = [(BOXES[2], (*centre, *side)) for centre, side in product(_CENTRES, _SIDES)]
    return [(box, names) for box, names in sized + centred if set(names) <= set(seen)]


def _bare(header: str) -> str:
    """A header as it is compared."""
    return re.sub(r"[\s\ufeff]+", "", header).casefold()
