"""COCO files: boxes, polygons and runs of many pictures in one JSON document.

Compressed runs are decoded here and not by pycocotools, whose C code reads and writes beyond its
memory where such a string is damaged.
"""

import json
from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SourceError
from ..model import Floats, Mark, Marking
from .marks import (
    Edges,
    Listing,
    Mask,
    Size,
    bounded,
    content,
    drawn_on,
    filled,
    finite,
    fitted,
    laid,
    plain,
    stamp,
    tight,
)


def coco(path: Path, picture: str, size: Size, marking: Marking) -> list[Mark]:
    """The marks of `picture` in a COCO file (cocodataset.org, "Data format").

    The box is `bbox` (x, y, width, height), or the object's extent where there is none; the mask is
    made of polygons, counts or compressed counts. Crowd regions are no objects and left out; a
    picture that has nothing else is refused, because some writers mark every mask so.
    """
    loaded = _coco(path, *stamp(path))
    if isinstance(loaded, str):
        raise SourceError(loaded)
    images = loaded.images[loaded.listing.entry(path, picture)]
    if len(images) > 1:
        raise SourceError(f"{path}: {picture} is listed {len(images)} times")
    said = images[0]
    if loaded.ids[_id(said["id"])] > 1:
        raise SourceError(f"{path}: the id of {picture} belongs to several pictures")
    entries = loaded.marks.get(_id(said["id"]), [])
    single = [entry for entry in entries if not entry.get("iscrowd")]
    if entries and not single:
        raise SourceError(
            f"{path}: all {len(entries)} entries for {picture} are crowds (iscrowd), no objects; "
            "set iscrowd to 0 where they are objects"
        )
    where = f"{path}: image of {picture}"
    drawn = drawn_on(where, _said(where, said.get("width"), said.get("height")), size)
    named = []
    for number, entry in enumerate(single):
        place = f"{path}: entry {number} of {picture}"
        name = loaded.name(place, entry.get("category_id"))
        if name not in marking.skip:
            named.append((place, name, entry))
    bounded(path, sum(bool(entry.get("segmentation")) for _, _, entry in named), size)
    return [Mark(name, *_object(place, entry, drawn, size)) for place, name, entry in named]


@dataclass(frozen=True, slots=True, eq=False)
class _Coco:
    """A COCO file by picture: `images` by name, `marks` by the picture's id."""

    listing: Listing
    images: dict[str, list[dict[str, Any]]]
    ids: dict[str, int]
    marks: dict[str, list[dict[str, Any]]]
    classes: dict[str, str]

    def name(self, where: str, number: Any) -> str:
        """What a category is called: its number where the file lists no categories."""
        if number is None:
            return ""
        try:
            key = _id(number)
        except ValueError as error:
            raise SourceError(f"{where}: category_id is {error}") from error
        if self.classes and key not in self.classes:
            raise SourceError(f"{where}: its category_id stands not among the categories")
        return self.classes.get(key, key)


@lru_cache(maxsize=4)
def _coco(path: Path, mtime: int, length: int) -> "_Coco | str":  # noqa: ARG001  cache keys
    """The file parsed, or what is wrong with it, so that it is not parsed for every picture."""
    try:
        return _indexed(path, json.loads(content(path)))
    except (ValueError, RecursionError, MemoryError) as error:
        kind = "nested too deep" if isinstance(error, RecursionError) else str(error)[:200]
        return f"{path}: cannot be read as JSON ({kind})"
    except SourceError as error:
        return str(error)


def _indexed(path: Path, data: Any) -> _Coco:
    lists = data if isinstance(data, dict) else {}
    for key in ("images", "annotations"):
        if not isinstance(lists.get(key), list):
            raise SourceError(f"{path}: not a COCO file with truth: it has no list of {key}")
    images, marks = defaultdict(list), defaultdict(list)
    ids: dict[str, int] = defaultdict(int)
    for number, entry in enumerate(lists["images"]):
        try:
            ids[_id(entry["id"])] += 1
            name = plain(entry["file_name"])
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise SourceError(f"{path}: image {number} has no id, or no file_name") from error
        images[name].append(entry)
    for number, entry in enumerate(lists["annotations"]):
        try:
            marks[_id(entry["image_id"])].append(entry)
        except (ValueError, TypeError, LookupError) as error:
            raise SourceError(f"{path}: annotation {number} has no image_id") from error
    if marks and not marks.keys() & ids.keys():
        raise SourceError(f"{path}: no image_id of its annotations belongs to an image")
    classes = _categories(path, lists.get("categories", []))
    return _Coco(Listing(images), dict(images), dict(ids), dict(marks), classes)


def _categories(path: Path, listed: Any) -> dict[str, str]:
    out: dict[str, str] = {}
    try:
        for entry in listed:
            key, name = _id(entry["id"]), entry["name"]
            if not isinstance(name, str) or out.setdefault(key, name) != name:
                raise ValueError("unclear")  # noqa: TRY301
    except (ValueError, TypeError, LookupError) as error:
        raise SourceError(
            f"{path}: its categories are no list of one id and one name each"
        ) from error
    return out


def _id(value: Any) -> str:
    """An id as text: some writers quote it in one place and not in another."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError("no id")  # noqa: TRY004  one error for the caller
    return str(value)


def _said(where: str, width: Any, height: Any) -> tuple[float, float] | None:
    if width is None and height is None:
        return None
    try:
        return finite(width), finite(height)
    except ValueError as error:
        raise SourceError(f"{where}: its width or height is {error}") from error


def _object(
    where: str, entry: dict[str, Any], drawn: tuple[float, float], size: Size
) -> tuple[Edges, Mask | None]:
    """Box and mask of one entry, which must tell of one place."""
    box, mask, extent = None, None, None
    if entry.get("bbox"):
        x, y, width, height = _numbers(where, "bbox", entry["bbox"], 4)
        box = fitted(where, (x, y, x + width, y + height), drawn, size)
    segmentation = entry.get("segmentation")
    if isinstance(segmentation, dict):
        mask = _run_lengths(where, segmentation, size)
        extent = tight(mask)
    elif segmentation:
        if not isinstance(segmentation, list):
            raise SourceError(f"{where}: its segmentation is neither polygons nor runs")
        extent, mask = filled(where, [_polygon(where, one) for one in segmentation], drawn, size)
    if box is None and extent is None:
        raise SourceError(f"{where}: has neither bbox nor segmentation")
    if box is not None and extent is not None:
        sides = (extent[2] - extent[0], extent[3] - extent[1]) * 2
        gaps = zip(box, extent, sides, strict=True)
        if any(abs(a - b) > 2 * max(1, size[0] / drawn[0]) + 0.1 * side for a, b, side in gaps):
            raise SourceError(
                f"{where}: its bbox and its segmentation lie in different places; bbox is "
                "x, y, width, height in COCO"
            )
    return box or extent or (0, 0, 0, 0), mask


def _numbers(where: str, what: str, values: Any, count: int | None = None) -> list[float]:
    if not isinstance(values, list) or (count is not None and len(values) != count):
        raise SourceError(f"{where}: its {what} is no list of {count or 'numbers'}")
    try:
        return [finite(value) for value in values]
    except ValueError as error:
        raise SourceError(f"{where}: its {what} holds what is {error}") from error


def _polygon(where: str, values: Any) -> Floats:
    numbers = _numbers(where, "polygon", values)
    if len(numbers) < 6 or len(numbers) % 2:
        raise SourceError(
            f"{where}: a polygon of {len(numbers)} numbers; 6 or more, even, expected"
        )
    return np.array(numbers, np.float64).reshape(-1, 2)


def _run_lengths(where: str, runs: dict[str, Any], size: Size) -> Mask:
    """COCO's runs, down the columns, of background and object in turn."""
    if runs.get("size") != [size[1], size[0]]:
        rows, columns = _numbers(where, "runs' size", runs.get("size"), 2)
        raise SourceError(
            f"{where}: runs of a picture of {columns:g}x{rows:g} pixels, but the picture is "
            f"{size[0]}x{size[1]}; runs cannot be scaled"
        )
    counts = runs.get("counts")
    if isinstance(counts, str):
        lengths = _uncompressed(where, counts)
    elif isinstance(counts, list) and all(type(value) is int for value in counts):
        try:
            lengths = np.array(counts, np.int64)
        except OverflowError as error:
            raise SourceError(f"{where}: its runs leave the picture") from error
    else:
        raise SourceError(f"{where}: the counts of its runs are neither text nor whole numbers")
    pixels = size[0] * size[1]
    if lengths.min(initial=0) < 0 or lengths.max(initial=0) > pixels or lengths.sum() != pixels:
        raise SourceError(f"{where}: its runs do not add up to {size[0]}x{size[1]} pixels")
    ends = np.cumsum(lengths)
    starts = (ends - lengths)[1::2]
    ends = ends[1::2]
    if not (ends > starts).any():
        raise SourceError(f"{where}: its runs hold no pixel")
    return laid(starts[ends > starts], ends[ends > starts], size, by_columns=True)


def _uncompressed(where: str, text: str) -> NDArray[np.int64]:
    """Counts of COCO's text (maskApi.c, rleFrString): 5 bits a letter, low first, as differences.

    Bit 5 of a letter says that more follow, bit 4 of the last is the sign; from the fourth on a
    count is the difference to the one two before.
    """
    letters = np.frombuffer(text.encode("utf-8", "replace"), np.uint8).astype(np.int64) - 48
    last = (letters & 32) == 0
    if not len(letters) or letters.min() < 0 or letters.max() > 63 or not last[-1]:
        raise SourceError(f"{where}: its compressed runs are damaged")
    first = np.flatnonzero(np.concatenate(([True], last[:-1])))
    long = np.diff(np.append(first, len(letters)))
    if long.max() > 8:
        raise SourceError(f"{where}: its compressed runs are damaged")
    place = np.arange(len(letters)) - np.repeat(first, long)
    values = np.add.reduceat((letters & 31) << (5 * place), first)
    values -= np.where(letters[last] & 16, np.int64(1) << (5 * long), 0)
    values[1::2] = np.cumsum(values[1::2])
    values[2::2] = np.cumsum(values[2::2])
    return values
