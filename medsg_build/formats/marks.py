"""What the annotation readers share: finding a picture's entry, scaling, checking and drawing.

Boxes and polygons are in pixel edges (pixel p covers [p, p + 1)), sizes are (columns, rows).
"""

import math
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SourceError
from ..model import Floats

Edges = tuple[float, float, float, float]
Size = tuple[int, int]
Mask = NDArray[np.bool_]

LARGEST = 16 * 2**30
"""Bytes of masks that one picture may ask for."""

LARGEST_FILE = 2 * 2**30
"""Bytes of an annotation file that is read whole."""

OVER = 1.0
"""Pixels that a mark may lie outside: rounding, or counting from 1 where 0 was meant."""

PICKS = 10_000_000
"""Crossings of polygon edges with rows of pixels, beyond which a drawing is not believed."""


def stamp(path: Path, largest: int = LARGEST_FILE) -> tuple[int, int]:
    """(mtime in ns, bytes) of a file, for the keys of caches. Raises `SourceError`."""
    try:
        there = path.stat()
    except (OSError, ValueError) as error:
        raise SourceError(
            f"{path}: not found; check the dataset's folder and its recipe's layout"
        ) from error
    if not path.is_file():
        raise SourceError(f"{path}: is not a file; an annotation file is expected")
    if there.st_size > largest:
        raise SourceError(
            f"{path}: {there.st_size} bytes; an annotation file of at most {largest} is expected"
        )
    return there.st_mtime_ns, there.st_size


def content(path: Path, largest: int = LARGEST_FILE) -> bytes:
    """The bytes of an annotation file. Raises `SourceError`."""
    stamp(path, largest)
    try:
        return path.read_bytes()
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror})") from error


def plain(name: str) -> str:
    """A picture's name as it is compared: forward slashes, composed accents, no leading `./`."""
    parts = unicodedata.normalize("NFC", name).strip().replace("\\", "/").split("/")
    return "/".join(part for part in parts if part not in ("", "."))


def _stem(name: str) -> str:
    """The name without the suffix of a picture; numbers after a dot (UIDs) are no suffix."""
    path = PurePosixPath(name)
    if path.suffix.lower() == ".gz":
        path = path.with_suffix("")
    ending = path.suffix[1:]
    looks = ending.isalnum() and ending[0].isalpha() and len(ending) <= 8
    return path.with_suffix("").as_posix() if looks else path.as_posix()


class Listing:
    """The pictures that an annotation file names, to be found by path, name or stem."""

    def __init__(self, keys: Iterable[str]) -> None:
        self.keys = frozenset(keys)
        self._named: dict[str, list[str]] = defaultdict(list)
        self._stems: dict[str, list[str]] = defaultdict(list)
        for key in self.keys:
            self._named[key.rpartition("/")[2]].append(key)
            self._stems[_stem(key).rpartition("/")[2]].append(key)

    def entry(self, path: Path, picture: str) -> str:
        """The key of `picture`, a path relative to the dataset's folder.

        The whole path counts before its end (a file often names pictures from a folder further
        down), that before the file name, that before the stem. Raises `SourceError` where no
        entry fits, or where a shorter match fits several.
        """
        sought = plain(picture)
        if sought in self.keys:
            return sought
        stem = _stem(sought)
        for wanted, known in ((sought, self._named), (stem, self._stems)):
            near = known.get(wanted.rpartition("/")[2], [])
            spelled = {key: key if known is self._named else _stem(key) for key in near}
            whole = [key for key in near if spelled[key] == wanted]
            tails = [
                key
                for key in near
                if "/" in spelled[key] and f"/{wanted}".endswith(f"/{spelled[key]}")
            ]
            found = whole or tails or near
            if len(found) > 1:
                raise SourceError(
                    f"{path}: {len(found)} different entries fit {picture} by its name; the file "
                    "must name pictures by their path in the dataset's folder"
                )
            if found:
                return found[0]
        raise SourceError(
            f"{path}: no entry for {picture}; if nothing is marked on it the file must say so"
        )


def finite(value: Any) -> float:
    """`value` as a float. Raises `ValueError` for anything but a finite int or float."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("not a number")  # noqa: TRY004  one error for the caller
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ValueError("not a finite number")
    return number


def parsed(text: str) -> float:
    """A number of a text file. Raises `ValueError` for all that is not finite and plain."""
    if "_" in text:  # Python would take 1_0 for ten
        raise ValueError("not a number")
    return finite(float(text))


def drawn_on(where: str, said: tuple[float, float] | None, size: Size) -> tuple[float, float]:
    """The size of the picture that marks were drawn on: what the file says, else `size`.

    Raises `SourceError` (which begins with `where`) unless the two have one shape within 1 %.
    """
    if said is None or said == (0, 0):  # some writers leave the size at nought
        return size
    width, height = said
    if width <= 0 or height <= 0:
        raise SourceError(f"{where}: declares a picture of {width:g}x{height:g} pixels")
    if abs(width * size[1] / (height * size[0]) - 1) > 0.01:
        raise SourceError(
            f"{where}: drawn on a picture of {width:g}x{height:g} pixels, but the picture is "
            f"{size[0]}x{size[1]}: another shape, so the marks cannot be scaled"
        )
    return said


def fitted(where: str, box: Sequence[float], drawn: tuple[float, float], size: Size) -> Edges:
    """`box` (x0, y0, x1, y1 on `drawn`) clipped and scaled to `size`.

    Raises `SourceError` for a box that is not finite, has no area, or lies outside by over 1 pixel.
    """
    told = f"{where}: the box ({', '.join(f'{v:g}' for v in box)})"
    if not all(map(math.isfinite, box)):
        raise SourceError(f"{told} is not finite")
    x0, y0, x1, y1 = box
    width, height = drawn
    if x1 <= x0 or y1 <= y0:
        raise SourceError(
            f"{told} has no area; are its numbers two corners, or a corner with width and height?"
        )
    # A box of fractions would otherwise pass as a speck in the corner.
    if x1 <= 1 and y1 <= 1 and width > 1 and height > 1:
        raise SourceError(
            f"{told} lies within the first pixel; pixels are expected, not fractions of the "
            "picture (a name that means nothing is marked goes under skip)"
        )
    inside = (max(x0, 0.0), max(y0, 0.0), min(x1, float(width)), min(y1, float(height)))
    over = max(abs(a - b) for a, b in zip(box, inside, strict=True))
    if over > OVER or inside[2] <= inside[0] or inside[3] <= inside[1]:
        raise SourceError(
            f"{told} lies outside the picture of {width:g}x{height:g} pixels; was it drawn on a "
            "larger one? a table of sizes goes under sizes"
        )
    across, down = size[0] / width, size[1] / height
    return inside[0] * across, inside[1] * down, inside[2] * across, inside[3] * down


def filled(
    where: str, polygons: Sequence[Floats], drawn: tuple[float, float], size: Size
) -> tuple[Edges, Mask]:
    """The extent and the mask (rows, columns) of an object of `polygons`, each (n, 2) x, y.

    Polygons are united; a pixel belongs to one where its centre does (even-odd within a polygon).
    Raises `SourceError` for a polygon outside the picture, or that holds no pixel's centre.
    """
    mask = np.zeros((size[1], size[0]), np.bool_)
    extents = []
    for polygon in polygons:
        low, high = polygon.min(axis=0), polygon.max(axis=0)
        extent = (float(low[0]), float(low[1]), float(high[0]), float(high[1]))
        extents.append(fitted(where, extent, drawn, size))
        scaled = np.clip(polygon, 0, drawn) * (np.array(size) / np.array(drawn))
        _fill(where, mask, scaled)
    if not mask.any():
        raise SourceError(f"{where}: its polygons are too thin to hold the centre of a pixel")
    ends = np.array(extents)
    x0, y0 = ends[:, :2].min(axis=0)
    x1, y1 = ends[:, 2:].max(axis=0)
    return (float(x0), float(y0), float(x1), float(y1)), mask


def _fill(where: str, mask: Mask, polygon: Floats) -> None:
    """Set the pixels whose centre lies in `polygon` (n, 2), by the rows its edges cross.

    Not by skimage.draw.polygon: that tests every pixel against every edge.
    """
    start, end = polygon - 0.5, np.roll(polygon, -1, axis=0) - 0.5  # centres on whole numbers
    up = (start[:, 1] > end[:, 1])[:, None]
    start, end = np.where(up, end, start), np.where(up, start, end)
    first = np.ceil(start[:, 1]).astype(np.int64)
    count = np.ceil(end[:, 1]).astype(np.int64) - first  # rows in [y of start, y of end)
    if count.sum() > PICKS:
        raise SourceError(f"{where}: a polygon of {len(polygon)} points; not believed")
    edge = np.repeat(np.arange(len(polygon)), count)
    row = np.arange(len(edge)) - np.repeat(np.cumsum(count) - count, count) + first[edge]
    (x0, y0), (x1, y1) = start[edge].T, end[edge].T
    column = np.ceil(x0 + (row - y0) * (x1 - x0) / (y1 - y0)).astype(np.int64)
    if not len(row):
        return
    top, left = int(row.min()), max(int(column.min()), 0)
    high, wide = int(row.max()) + 1 - top, min(int(column.max()), mask.shape[1]) - left
    if wide <= 0:
        return
    # Each crossing turns inside to outside for all that lies to its right.
    flat = (row - top) * (wide + 1) + np.clip(column - left, 0, wide)
    turns = np.bincount(flat, minlength=high * (wide + 1)).reshape(high, wide + 1)
    mask[top : top + high, left : left + wide] |= (np.cumsum(turns, axis=1)[:, :wide] & 1) == 1


def laid(starts: NDArray[np.int64], ends: NDArray[np.int64], size: Size, by_columns: bool) -> Mask:
    """The mask (rows, columns) of runs [start, end) over the pixels, counted by columns or rows.

    The runs must not overlap and must lie inside; the caller has seen to that.
    """
    shape = (size[0], size[1]) if by_columns else (size[1], size[0])
    if not len(starts):
        return np.zeros((size[1], size[0]), np.bool_)
    # Only the lines that are touched take memory: a picture may hold thousands of objects.
    first, last = int(starts[0]) // shape[1], (int(ends[-1]) - 1) // shape[1] + 1
    turns = np.zeros((last - first) * shape[1] + 1, np.int8)
    turns[starts - first * shape[1]] += 1
    turns[ends - first * shape[1]] -= 1  # runs that touch cancel out
    lines = np.cumsum(turns[:-1], dtype=np.int8).astype(np.bool_).reshape(-1, shape[1])
    mask = np.zeros((size[1], size[0]), np.bool_)
    if by_columns:
        mask[:, first:last] = lines.T
    else:
        mask[first:last] = lines
    return mask


def tight(mask: Mask) -> Edges:
    """The half-open box of the set pixels; there must be one."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    return float(columns[0]), float(rows[0]), float(columns[-1] + 1), float(rows[-1] + 1)


def bounded(path: Path, objects: int, size: Size) -> None:
    """Refuse more masks of one picture than memory holds. Raises `SourceError`."""
    if objects * size[0] * size[1] > LARGEST:
        raise SourceError(
            f"{path}: {objects} masks of {size[0]}x{size[1]} pixels on one picture; too many"
        )
