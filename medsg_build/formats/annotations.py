"""Annotation files of plain pictures: COCO (json), YOLO (txt), PASCAL VOC (xml).

Each function takes `path` (the annotation file), `picture` (its path relative to the dataset's
folder), `size` (columns, rows of the picture on disk) and `marking`, and gives the picture's marks
in pixel edges of the picture on disk. An empty list means that the file says nothing is marked; a
picture that the file does not mention, and all that cannot be trusted, is a `SourceError`. Marks
whose name stands in `marking.skip` are left out, whatever their box.
"""

from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from ..errors import SourceError
from ..model import Mark, Marking
from .coco import coco
from .marks import Size, bounded, content, drawn_on, filled, fitted, parsed

__all__ = ["coco", "voc", "yolo"]

LARGEST_TEXT = 64 * 2**20
"""Bytes of an annotation file that describes one picture."""


def yolo(path: Path, picture: str, size: Size, marking: Marking) -> list[Mark]:  # noqa: ARG001
    """The marks of a YOLO file, one a picture: a line an object, numbers in parts of the picture.

    `class cx cy width height`, or a polygon `class x1 y1 x2 y2 ...` of three points or more (four:
    also what oriented boxes are). A sixth number is a detector's confidence: such a file holds
    guesses, no truth, and is refused. `marking.classes` names the classes; without it the number
    is the name. An empty file says that nothing is marked.
    """
    marks: list[Mark] = []
    for number, line in enumerate(_text(path).splitlines(), 1):
        where = f"{path}: line {number}"
        words = line.split()
        if not words:
            continue
        try:
            values = [parsed(word) for word in words]
        except ValueError as error:
            raise SourceError(f"{where}: holds what is no finite number") from error
        if len(words) == 6:
            raise SourceError(f"{where}: six numbers, the last a confidence: guesses, not truth")
        if len(words) < 5 or len(words) % 2 == 0:
            raise SourceError(f"{where}: {len(words)} numbers; 5, or 7 and more (odd), expected")
        name = _class(where, values[0], marking)
        if name in marking.skip:
            continue
        points = np.array(values[1:]).reshape(-1, 2) * size
        if len(points) > 2:
            bounded(path, len(marks) + 1, size)
            marks.append(Mark(name, *filled(where, [points], size, size)))
        else:
            (cx, cy), (width, height) = points.tolist()
            box = (cx - width / 2, cy - height / 2, cx + width / 2, cy + height / 2)
            marks.append(Mark(name, fitted(where, box, size, size)))
    return marks


def _class(where: str, value: float, marking: Marking) -> str:
    if not value.is_integer() or value < 0:
        raise SourceError(f"{where}: the class is {value:g}; a whole number from 0 is expected")
    if marking.classes and value >= len(marking.classes):
        raise SourceError(
            f"{where}: class {value:g}, but the recipe names {len(marking.classes)} classes"
        )
    return marking.classes[int(value)] if marking.classes else str(int(value))


def _text(path: Path) -> str:
    """A small file's text, UTF-8, or UTF-16 where it says so. Raises `SourceError`."""
    raw = content(path, LARGEST_TEXT)
    try:
        return raw.decode("utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig")
    except UnicodeDecodeError as error:
        raise SourceError(f"{path}: is no text in UTF-8; save it so") from error


def voc(path: Path, picture: str, size: Size, marking: Marking) -> list[Mark]:  # noqa: ARG001
    """The marks of a PASCAL VOC file, one a picture.

    Its corners count from 1 and belong to the box (VOC2007 development kit): 1 is taken off xmin
    and ymin, the others are edges as they stand. `filename` is not compared: it is often that of
    another copy. A file without objects says that nothing is marked.
    """
    text = _text(path)
    # Neither is of use here, and entities grow without bound or read other files.
    if any(word in text.upper() for word in ("<!DOCTYPE", "<!ENTITY")):
        raise SourceError(f"{path}: declares a document type or entities; not read")
    try:
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError, RecursionError) as error:
        raise SourceError(f"{path}: cannot be read as XML ({error})") from error
    if root.tag != "annotation":
        raise SourceError(f"{path}: not a VOC file: its root is not <annotation>")
    said = None
    if root.find("size") is not None:
        said = (_value(f"{path}: size", root, "size/width"), _value(path, root, "size/height"))
    drawn = drawn_on(str(path), said, size)
    marks = []
    for number, entry in enumerate(root.findall("object"), 1):
        where = f"{path}: object {number}"
        name = (entry.findtext("name") or "").strip()
        if name in marking.skip:
            continue
        corners = [
            _value(where, entry, f"bndbox/{key}") for key in ("xmin", "ymin", "xmax", "ymax")
        ]
        x0, y0, x1, y1 = corners
        marks.append(Mark(name, fitted(where, (x0 - 1, y0 - 1, x1, y1), drawn, size)))
    return marks


def _value(where: object, element: ElementTree.Element, key: str) -> float:
    """The number of a child that must be there once."""
    found = element.findall(key)
    if len(found) != 1:
        raise SourceError(f"{where}: has {len(found)} of {key}; one is expected")
    try:
        return parsed(found[0].text or "")
    except ValueError as error:
        raise SourceError(f"{where}: its {key} is no finite number") from error
