"""The header of a MetaImage (.mha, .mhd), read with suspicion.

Source: itk.org/Wiki/MetaIO/Documentation. Where that leaves a choice, ours is that of ITK.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ..errors import SourceError
from .itk_headers import Header, beside, counted, listed, numbers

_TYPES = {"MET_CHAR": "i1", "MET_UCHAR": "u1", "MET_SHORT": "i2", "MET_USHORT": "u2",
          "MET_INT": "i4", "MET_UINT": "u4", "MET_LONG": "i4", "MET_ULONG": "u4",
          "MET_LONG_LONG": "i8", "MET_ULONG_LONG": "u8", "MET_FLOAT": "f4",
          "MET_DOUBLE": "f8"}  # fmt: skip
_WHOLE = ("HeaderSize", "CompressedDataSize", "ElementNumberOfChannels")

_LINE = re.compile(r"[ \t]*([^=:\x00-\x1f]{1,200}?)[ \t]*[=:][ \t]*([^\x00-\x08\x0a-\x1f]*)")


def parsed(path: Path, raw: bytes) -> Header:
    """The header at the beginning of `raw`. Raises `SourceError` where it is damaged."""
    fields, end = _lines(path, raw)
    for name in ("NDims", "DimSize", "ElementType", "ElementDataFile"):
        if name not in fields:
            raise SourceError(f"{path}: no MetaImage header: {name!r} is missing")
    if fields.get("ObjectType", "Image") != "Image":
        raise SourceError(f"{path}: a MetaIO file, but of no image")
    sizes = counted(path, fields["DimSize"].split(), fields["NDims"])
    for name in _WHOLE:
        if not re.fullmatch("-?[0-9]{1,12}", fields.get(name, "0")):
            raise SourceError(f"{path}: {name} of the header is no whole number")
    code = _TYPES.get(fields["ElementType"].removesuffix("_ARRAY"))
    if code is None:
        raise SourceError(f"{path}: elements of type {fields['ElementType'][:40]!r} are not read")
    channels = int(fields.get("ElementNumberOfChannels", "1"))
    if not 1 <= channels <= 10_000:
        raise SourceError(f"{path}: ElementNumberOfChannels of the header cannot be meant")
    packing = "raw" if _true(fields, "BinaryData", "True") else "text"
    sources = _sources(path, fields["ElementDataFile"], raw[end:])
    start, length = int(fields.get("HeaderSize", "0")), -1
    if start > 0 and not sources:
        raise SourceError(f"{path}: HeaderSize is for voxels in a file of their own")
    if _true(fields, "CompressedData", "False"):
        if packing == "text" or len(sources) > 1 or start:
            raise SourceError(f"{path}: compressed voxels in parts or as text; save it in one file")
        packing, length = "zlib", int(fields.get("CompressedDataSize", "-1"))
    big = _true(fields, "BinaryDataByteOrderMSB", fields.get("ElementByteOrderMSB", "False"))
    steps, origin, placed = _placed(path, fields, len(sizes))
    return Header(
        sizes=(channels, *sizes) if channels > 1 else sizes,
        kind=np.dtype((">" if big else "<") + code),
        packing=packing,
        sources=sources or (path,),
        start=-1 if start < 0 else start if sources else end,
        steps=steps,
        origin=origin,
        length=length if length > 0 else -1,
        channel=0 if channels > 1 else None,
        colour=channels > 1,
        unplaced="" if placed else "no orientation in the header",
    )


def _lines(path: Path, raw: bytes) -> tuple[dict[str, str], int]:
    """Fields by name, and where the line of `ElementDataFile`, which is the last, ends."""
    fields: dict[str, str] = {}
    at = 0
    while at < len(raw) and "ElementDataFile" not in fields:
        stop = raw.find(b"\n", at)
        stop = len(raw) if stop < 0 else stop
        line = raw[at:stop].removesuffix(b"\r")
        at = stop + 1
        if not line.strip(b" \t"):
            continue
        found = _LINE.fullmatch(line[:10_000].decode("utf-8", "replace"))
        if not found:
            raise SourceError(f"{path}: no MetaImage header, or damaged; fetch it again")
        name, value = found[1], found[2].strip()
        if name in fields:
            raise SourceError(f"{path}: the header says {name[:40]!r} twice")
        fields[name] = value
    return fields, min(at, len(raw))


def _placed(
    path: Path, fields: Mapping[str, str], axes: int
) -> tuple[tuple[tuple[float, ...], ...], tuple[float, ...], bool]:
    """One step in mm along each of three axes at the most, the origin, and if sides are known."""
    lengths = (
        _told(path, fields, ("ElementSpacing",), axes)
        or _told(path, fields, ("ElementSize",), axes)
        or (1.0,) * axes
    )
    if min(lengths) <= 0:
        raise SourceError(f"{path}: the header's spacings are not all above 0")
    turn = _told(path, fields, ("TransformMatrix", "Rotation", "Orientation"), axes * axes)
    matrix = turn or tuple(float(n % (axes + 1) == 0) for n in range(axes * axes))
    # Row n of the matrix is the direction of axis n (MetaIO writes ITK's directions column-wise).
    rows = [matrix[axes * n : axes * n + min(axes, 3)] for n in range(min(axes, 3))]
    steps = tuple(
        tuple(length * part for part in row) for length, row in zip(lengths, rows, strict=False)
    )
    origin = _told(path, fields, ("Offset", "Position", "Origin"), axes) or (0.0,) * axes
    return steps, origin[:3], turn is not None


def _told(
    path: Path, fields: Mapping[str, str], names: tuple[str, ...], count: int
) -> tuple[float, ...] | None:
    """What the header says under one of the names, which all mean the same."""
    told = {numbers(path, name, fields[name].split(), count) for name in names if name in fields}
    if len(told) > 1:
        raise SourceError(f"{path}: {' and '.join(names)} of the header differ; one is expected")
    return told.pop() if told else None


def _sources(path: Path, named: str, rest: bytes) -> tuple[Path, ...]:
    """The files that hold the voxels; none where they follow the header."""
    if named.lower() == "local":
        return ()
    if named.split()[:1] == ["LIST"]:
        return listed(path, rest)
    if "%" in named:
        raise SourceError(f"{path}: names its data files by a pattern; list them instead (LIST)")
    return (beside(path, named),)


def _true(fields: Mapping[str, str], name: str, default: str) -> bool:
    return fields.get(name, default)[:1] in ("T", "t", "1")
