"""The header of a NRRD file (.nrrd, .nhdr), read with suspicion.

Source: teem.sourceforge.net/nrrd/format.html. Where that leaves a choice, ours is that of ITK.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ..errors import SourceError
from .itk_headers import Header, beside, counted, listed, numbers

_TYPES = {
    "i1": "signed char,char,int8,int8_t",
    "u1": "uchar,unsigned char,uint8,uint8_t",
    "i2": "short,short int,signed short,signed short int,int16,int16_t",
    "u2": "ushort,unsigned short,unsigned short int,uint16,uint16_t",
    "i4": "int,signed int,int32,int32_t",
    "u4": "uint,unsigned int,uint32,uint32_t",
    "i8": "longlong,long long,long long int,signed long long,signed long long int,int64,int64_t",
    "u8": "ulonglong,unsigned long long,unsigned long long int,uint64,uint64_t",
    "f4": "float",
    "f8": "double",
}
_CODES = {word: code for code, words in _TYPES.items() for word in words.split(",")}

_PACKINGS = {"raw": "raw", "gz": "gzip", "gzip": "gzip", "hex": "hex",
             "txt": "text", "text": "text", "ascii": "text"}  # fmt: skip
"""bzip2 is left out, as in ITK: a few bytes of it may stand for any number."""

_FIELDS = {"type", "dimension", "space", "sizes", "space directions", "kinds", "endian", "encoding",
           "space origin", "data file", "spacings", "thicknesses", "centers", "labels", "units",
           "content", "number", "block size", "min", "max", "old min", "old max", "line skip",
           "byte skip", "sample units", "space dimension", "space units", "axis mins", "axis maxs",
           "measurement frame", "centerings", "datafile", "lineskip", "byteskip", "blocksize",
           "axismins", "axismaxs", "oldmin", "oldmax", "sampleunits"}  # fmt: skip
_LONG = {"datafile": "data file", "lineskip": "line skip", "byteskip": "byte skip"}

_OF_SPACE = {"domain", "space", "time", "???", "none"}
_COLOURS = {"rgb-color", "rgba-color", "3-color", "4-color", "vector", "3-vector", "4-vector"}
_SIDES = {
    "right-anterior-superior": (-1.0, -1.0, 1.0),
    "ras": (-1.0, -1.0, 1.0),
    "left-anterior-superior": (1.0, -1.0, 1.0),
    "las": (1.0, -1.0, 1.0),
    "left-posterior-superior": (1.0, 1.0, 1.0),
    "lps": (1.0, 1.0, 1.0),
}
"""Signs that turn the vectors of a space to (left, posterior, superior)."""

_STEP = r"(?:none|\([^()]{1,200}\))"

_SPACES = ("scanner-xyz", "3d-right-handed", "3d-left-handed")
"""Spaces of three axes that say nothing of a patient."""


def parsed(path: Path, raw: bytes) -> Header:
    """The header at the beginning of `raw`. Raises `SourceError` where it is damaged."""
    if not re.match(rb"NRRD000[1-5]\r?\n", raw):
        raise SourceError(f"{path}: not a NRRD file (it begins with {raw[:8]!r})")
    fields, keys, end, sources = _lines(path, raw)
    for name in ("dimension", "sizes", "type", "encoding"):
        if name not in fields:
            raise SourceError(f"{path}: the header has no {name!r}; fetch the file again")
    sizes = counted(path, fields["sizes"].split(), fields["dimension"])
    code = _CODES.get(fields["type"].lower())
    packing = _PACKINGS.get(fields["encoding"].lower())
    if code is None or packing is None:
        raise SourceError(
            f"{path}: voxels of type {fields['type'][:40]!r}, encoded as "
            f"{fields['encoding'][:40]!r}, are not read; save numbers, raw or with gzip"
        )
    endian = fields.get("endian", "").lower()
    if endian not in ("little", "big") and code[1] != "1" and packing != "text":
        raise SourceError(f"{path}: the header does not tell the byte order of its voxels")
    skip = _skip(path, fields, packing)
    vectors, origin, unplaced = _placed(path, fields, len(sizes))
    channel, colour = _channel(path, fields, vectors)
    of_space = [vector or (0.0,) for axis, vector in enumerate(vectors) if axis != channel]
    return Header(
        sizes=sizes,
        kind=np.dtype((">" if endian == "big" else "<") + code),
        packing=packing,
        sources=sources or (path,),
        start=-1 if skip < 0 else 0 if sources else end,
        steps=tuple(of_space[:3]),
        origin=origin,
        inner=max(skip, 0),
        channel=channel,
        colour=colour,
        unplaced=unplaced,
        keys=keys,
    )


def _lines(path: Path, raw: bytes) -> tuple[dict[str, str], dict[str, str], int, tuple[Path, ...]]:
    """Fields, keys of the user, where the header ends, and the data files it names."""
    fields: dict[str, str] = {}
    keys: dict[str, str] = {}
    sources: tuple[Path, ...] = ()
    at, closed = raw.index(b"\n") + 1, False
    while at < len(raw) and not closed:
        stop = raw.find(b"\n", at)
        stop = len(raw) if stop < 0 else stop
        line = raw[at:stop].removesuffix(b"\r").decode("utf-8", "replace")
        at = stop + 1
        if any(ord(letter) < 32 and letter != "\t" for letter in line):
            raise SourceError(f"{path}: the header holds bytes that are no text; fetch it again")
        name, colon, value = line.partition(": ")
        key, pair, text = line.partition(":=")
        name = _LONG.get(name.lower(), name.lower())
        if not line:
            closed = True
        elif line.startswith("#"):
            continue
        elif colon and name in _FIELDS:
            if name in fields:
                raise SourceError(f"{path}: the header says {name!r} twice")
            fields[name] = value.strip()
            if name == "data file" and value.split()[:1] == ["LIST"]:
                return fields, keys, len(raw), listed(path, raw[at:])
            if name == "data file":
                sources = (_single(path, value.strip()),)
        elif pair:
            keys[key] = text
        else:
            raise SourceError(f"{path}: a line of the header is none of NRRD; fetch it again")
    if not sources and not closed:
        raise SourceError(f"{path}: the header has no end; fetch it again")
    return fields, keys, at, sources


def _single(path: Path, named: str) -> Path:
    if "%" in named:
        raise SourceError(f"{path}: names its data files by a pattern; list them instead (LIST)")
    return beside(path, named)


def _skip(path: Path, fields: Mapping[str, str], packing: str) -> int:
    """Bytes between the header and the voxels; -1 where the voxels are the file's last bytes."""
    lines, skip = fields.get("line skip", "0"), fields.get("byte skip", "0")
    if lines != "0" or not re.fullmatch("-1|[0-9]{1,10}", skip):
        raise SourceError(f"{path}: skips lines before its voxels; save it anew, without")
    if (skip == "-1" and packing != "raw") or (skip != "0" and packing not in ("raw", "gzip")):
        raise SourceError(f"{path}: skips bytes before {packing} voxels; save it anew, without")
    return int(skip)


def _placed(
    path: Path, fields: Mapping[str, str], count: int
) -> tuple[list[tuple[float, ...] | None], tuple[float, ...], str]:
    """For each axis one step in mm, None where it has none; the origin; why no side is known."""
    space = fields.get("space", "").lower()
    signs = _SIDES.get(space.removesuffix("-time"))
    axes = 3 if signs or space.removesuffix("-time") in _SPACES else 0
    axes += space.endswith("-time") and axes > 0
    if not space and re.fullmatch("[2-4]", fields.get("space dimension", "")):
        axes = int(fields["space dimension"])
    if (space or "space directions" in fields) and not axes:
        raise SourceError(f"{path}: the header's space {space[:40]!r} is not known")
    origin = _vector(path, "space origin", fields.get("space origin", "none"), axes, signs)
    if "space directions" not in fields:
        words = fields.get("spacings", "nan " * count).split()
        # A number that is none means that the axis has no spacing.
        words = ["1" if word.lower() == "nan" else word for word in words]
        lengths = numbers(path, "spacings", words, count)
        if min(lengths) <= 0:
            raise SourceError(f"{path}: the header's spacings are not all above 0")
        return [(length,) for length in lengths], (), "no orientation in the header"
    words = re.findall(_STEP, fields["space directions"])
    if len(words) != count or not re.fullmatch(rf"({_STEP}\s*)+", fields["space directions"]):
        raise SourceError(f"{path}: the header's space directions are not {count} vectors")
    vectors = [_vector(path, "space directions", word, axes, signs) or None for word in words]
    return vectors, origin, "" if signs else "the header's space is not that of a patient"


def _vector(
    path: Path, name: str, word: str, axes: int, signs: tuple[float, float, float] | None
) -> tuple[float, ...]:
    """Up to three numbers, `(left, posterior, superior)`; none where the word is `none`."""
    if word == "none":
        return ()
    words = [part.strip() for part in word.strip("()").split(",")]
    found = numbers(path, name, words, axes)
    return tuple(n * s for n, s in zip(found, signs or (1.0, 1.0, 1.0), strict=False))


def _channel(
    path: Path, fields: Mapping[str, str], vectors: list[tuple[float, ...] | None]
) -> tuple[int | None, bool]:
    """The axis that is none of space, by its kind or direction, and whether it may hold colours."""
    kinds = fields.get("kinds", "??? " * len(vectors)).lower().split()
    if len(kinds) != len(vectors):
        raise SourceError(f"{path}: the header declares {len(vectors)} axes, {len(kinds)} kinds")
    pairs = enumerate(zip(kinds, vectors, strict=True))
    among = [n for n, (kind, step) in pairs if kind not in _OF_SPACE or step is None]
    if len(among) > 1:
        raise SourceError(f"{path}: {len(among)} of its axes are none of space; one is read")
    return (among[0], kinds[among[0]] in _COLOURS) if among else (None, False)
