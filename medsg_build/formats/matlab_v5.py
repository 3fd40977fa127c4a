"""The elements of a MATLAB 5 file ("MAT-File Format", R2024b, MathWorks), without copies.

Choice: read here. Rejected: scipy.io, which takes the memory that an element declares, must decode
a whole struct to tell its fields, and follows elements within elements until the stack ends.
"""

import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .matlab_variables import DEEPEST, LARGEST, MOST, Variable, believed

_STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8",
           13: "u8"}  # fmt: skip
_CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8",
            15: "u8"}  # fmt: skip
_CELL, _STRUCT, _OBJECT, _SPARSE = 1, 2, 3, 5
_MATRIX, _COMPRESSED = 14, 15
_COMPLEX, _LOGICAL = 0x0800, 0x0200

HEAD = 2**13
"""Unpacked bytes that hold the flags, axes and name of any variable."""


class Reader(NamedTuple):
    """Bytes with their order ('<' or '>'), what is found in them, and each element looked at."""

    view: memoryview
    order: str
    found: dict[str, Variable]
    seen: list[int]


class Element(NamedTuple):
    """One element: its type, where its data begin and end, where the next one begins."""

    type: int
    start: int
    stop: int
    after: int


class Matrix(NamedTuple):
    """The head of an array: class, flags, axes, name, and where its contents begin."""

    type: int
    flags: int
    shape: tuple[int, ...]
    name: str
    start: int


def opened(path: Path, only: str | None) -> dict[str, Variable]:
    """All arrays of the file, or of the variable `only`, by dotted name.

    Raises `ValueError` where the file is damaged, or declares more than it can hold.
    """
    if path.stat().st_size < 136:
        raise ValueError("too short")
    mapped: Any = np.memmap(path, np.uint8, "r")
    view = memoryview(mapped)
    order = {b"IM": "<", b"MI": ">"}.get(bytes(view[126:128]))
    if order is None:
        raise ValueError("neither version 5 nor 7.3; save it with -v7")
    outer = Reader(view, order, {}, [])
    at = 128
    while at + 8 <= len(view):
        element = _element(outer, at, len(view), padded=False)
        at = element.after
        if element.type == _COMPRESSED:
            _unpacked(outer, element, only)
        elif element.type == _MATRIX:
            matrix = _matrix(outer, element)
            if matrix and only in (None, matrix.name):
                _walk(outer, matrix, element.stop, matrix.name, 0)
            at += -at % 8
    return outer.found


def _unpacked(outer: Reader, element: Element, only: str | None) -> None:
    """The arrays of a compressed element. A plain one is only unpacked when it is read."""
    packed = outer.view[element.start : element.stop]
    most = min(1032 * len(packed) + 2**16, LARGEST)
    inner = outer._replace(view=memoryview(_inflated(packed, HEAD)))
    kind, size = _tag(inner, 0)
    if kind != _MATRIX:
        return
    if size + 8 > most:
        raise ValueError(f"an element of {size} bytes is declared in {len(packed)} packed ones")
    matrix = _matrix(inner, Element(kind, 8, 8 + size, 8 + size))
    if matrix is None or only not in (None, matrix.name):
        return

    def whole() -> Reader:
        view = memoryview(_inflated(packed, size + 8, ended=True))
        return outer._replace(view=view, found={})

    if matrix.type not in _CLASSES:
        reader = whole()._replace(found=outer.found)
        _walk(reader, matrix, size + 8, matrix.name, 0)
        return
    kinds = np.dtype(_CLASSES[matrix.type])
    believed(matrix.shape, np.dtype("u1"), size)  # MATLAB stores a number in a byte at least

    def load() -> NDArray[Any]:
        reader = whole()
        _walk(reader, matrix, size + 8, "", 0)
        return reader.found[""].load()

    _add(outer, matrix.name, _variable(matrix, kinds, load))


def _walk(reader: Reader, matrix: Matrix, stop: int, name: str, depth: int) -> None:
    """Adds the array, or the arrays within it, to what was found."""
    if depth > DEEPEST:
        raise ValueError("structs within structs without end")
    at = matrix.start
    if matrix.type in _CLASSES:
        data = _element(reader, at, stop)
        stored = np.dtype(reader.order + _STORED.get(data.type, "V1"))
        kind = np.dtype(_CLASSES[matrix.type])
        count = math.prod(matrix.shape)
        if stored.kind == "V" or count * stored.itemsize != data.stop - data.start:
            raise ValueError("an array whose axes do not fit its data")
        believed(matrix.shape, kind, 8 * len(reader.view))
        view, shape = reader.view, matrix.shape

        def load() -> NDArray[Any]:
            values = np.frombuffer(view, stored, count, data.start).astype(kind, copy=False)
            return values.reshape(shape, order="F")

        _add(reader, name, _variable(matrix, kind, load))
    elif matrix.type == _SPARSE:
        _add(reader, name, Variable(matrix.shape, np.dtype("f8"), False, _nothing, "sparse"))
    elif matrix.type in (_CELL, _STRUCT, _OBJECT):
        fields = [""]
        if matrix.type != _CELL:
            fields, at = _fields(reader, at, stop, matrix.type == _OBJECT)
        if math.prod(matrix.shape) * max(len(fields), 1) > MOST:
            raise ValueError(f"more than {MOST} arrays")
        single = matrix.type != _CELL and math.prod(matrix.shape) == 1
        for number in range(math.prod(matrix.shape)):
            for field in fields:
                element = _element(reader, at, stop)
                at = element.after
                words = (name, "" if single else str(number), field)
                inside = _matrix(reader, element) if element.type == _MATRIX else None
                if inside:
                    _walk(reader, inside, element.stop, ".".join(filter(None, words)), depth + 1)


def _fields(reader: Reader, at: int, stop: int, of_class: bool) -> tuple[list[str], int]:
    """The names of a struct's fields, and where its first value begins."""
    if of_class:
        at = _element(reader, at, stop).after
    length = _element(reader, at, stop)
    width = int.from_bytes(reader.view[length.start : length.start + 4], _endian(reader))
    names = _element(reader, length.after, stop)
    raw = bytes(reader.view[names.start : names.stop])
    if not 0 < width <= 256 or len(raw) // width > MOST:
        raise ValueError("a struct whose fields cannot be told")
    words = [raw[n : n + width].split(b"\0")[0] for n in range(0, len(raw), width)]
    if not words:
        return [], names.after
    return [word.decode("latin-1") for word in words], names.after


def _matrix(reader: Reader, element: Element) -> Matrix | None:
    """The head of an array; None for an empty element, which is an empty array."""
    if element.start == element.stop:
        return None
    flags = _element(reader, element.start, element.stop)
    axes = _element(reader, flags.after, element.stop)
    name = _element(reader, axes.after, element.stop)
    said = np.frombuffer(reader.view[flags.start : flags.stop], reader.order + "u4")
    if said.size != 2 or (axes.stop - axes.start) % 4:
        raise ValueError("an array without a head")
    shape = np.frombuffer(reader.view[axes.start : axes.stop], reader.order + "i4")
    if not 2 <= shape.size <= 32 or shape.min() < 0:
        raise ValueError("an array whose axes cannot be meant")
    spelled = bytes(reader.view[name.start : name.stop])[:128].decode("latin-1")
    sizes = tuple(int(n) for n in shape)
    return Matrix(int(said[0]) & 0xFF, int(said[0]), sizes, spelled, name.after)


def _element(reader: Reader, at: int, stop: int, padded: bool = True) -> Element:
    """The element at `at`. Raises `ValueError` where it would reach beyond `stop`."""
    kind, size = _tag(reader, at)
    reader.seen.append(at)
    if len(reader.seen) > 8 * MOST:  # four of each array
        raise ValueError(f"more than {MOST} arrays")
    if kind >> 16:  # small: size, type and data in eight bytes
        kind, size = kind & 0xFFFF, kind >> 16
        if size > 4:
            raise ValueError("a small element of more than four bytes")
        start, after = at + 4, at + 8
    else:
        start = at + 8
        after = start + size + (-size % 8 if padded else 0)
    if start + size > stop:
        raise ValueError("truncated, or an element larger than what holds it")
    return Element(kind, start, start + size, min(after, stop))


def _tag(reader: Reader, at: int) -> tuple[int, int]:
    """Type and bytes that an element declares."""
    raw = bytes(reader.view[at : at + 8])
    if len(raw) < 8:
        raise ValueError("truncated")
    return int.from_bytes(raw[:4], _endian(reader)), int.from_bytes(raw[4:], _endian(reader))


def _variable(matrix: Matrix, kind: np.dtype[Any], load: Any) -> Variable:
    logical = bool(matrix.flags & _LOGICAL)
    trouble = "complex" if matrix.flags & _COMPLEX else ""
    return Variable(matrix.shape, kind, logical, load, trouble)


def _add(reader: Reader, name: str, variable: Variable) -> None:
    if len(reader.found) >= MOST:
        raise ValueError(f"more than {MOST} arrays")
    reader.found[name] = variable


def _nothing() -> NDArray[Any]:
    raise ValueError("nothing to read")


def _endian(reader: Reader) -> Any:
    return "little" if reader.order == "<" else "big"


def _inflated(packed: memoryview, size: int, *, ended: bool = False) -> bytes:
    """The first `size` bytes of a zlib stream, fewer where it is shorter.

    Raises `ValueError` for a damaged one, or where it does not end there and should.
    """
    from isal import isal_zlib

    part = isal_zlib.decompressobj()
    try:
        # One byte more, so that a stream that ends in time is followed to its checksum.
        data = part.decompress(packed, size + 1)
    except isal_zlib.error as error:  # type: ignore[misc]  # isal's stub has no class
        raise ValueError(str(error)) from error
    if ended and (len(data) != size or not part.eof):
        raise ValueError("a compressed array that does not end where it says")
    return data[:size]
