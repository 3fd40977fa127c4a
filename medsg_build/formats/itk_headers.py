"""What the text headers of NRRD and MetaImage files say, and whether it can be true.

`itk_nrrd` and `itk_meta` read the headers; what they find is checked here against the files.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np

from ..errors import SourceError

LARGEST = 16 * 2**30
"""Bytes of voxels beyond which a header is not believed."""

LONGEST = 2**22
"""Bytes within which a header must end."""

FARTHEST = 1e9
"""mm, a thousand kilometres, beyond which a place is not believed."""


@dataclass(frozen=True, slots=True)
class Header:
    """What a header says of the voxels.

    `sizes`: all axes, the fastest first. `kind`: of one voxel, with its byte order. `packing`: raw,
    gzip, zlib, text or hex. `sources`: the files of the voxels, equal shares in order; `start`:
    where they begin in each (-1: they are its last bytes); `length`: bytes packed (-1: to the end);
    `inner`: bytes to skip once unpacked. `channel`: the axis that is none of space; `colour`:
    whether colours may lie along it. `steps`: one voxel on along each of the first three other
    axes, in mm towards (left, posterior, superior), fewer where there are fewer; `origin`: the
    centre of the first voxel, likewise. `unplaced`: why the sides cannot be trusted. `keys`: what
    the file's user added.
    """

    sizes: tuple[int, ...]
    kind: np.dtype[Any]
    packing: str
    sources: tuple[Path, ...]
    start: int
    steps: tuple[tuple[float, ...], ...]
    origin: tuple[float, ...]
    length: int = -1
    inner: int = 0
    channel: int | None = None
    colour: bool = False
    unplaced: str = ""
    keys: Mapping[str, str] = field(default_factory=dict)

    @property
    def spatial(self) -> tuple[int, ...]:
        """The sizes without that of the channels."""
        return tuple(size for axis, size in enumerate(self.sizes) if axis != self.channel)

    @property
    def share(self) -> int:
        """Bytes of voxels, unpacked, that each of the sources holds."""
        return math.prod(self.sizes) * self.kind.itemsize // len(self.sources)


def believed(path: Path, header: Header) -> Header:
    """The header as it is. Raises `SourceError` where its files cannot hold what it declares."""
    shape, total = "x".join(map(str, header.sizes)), math.prod(header.sizes) * header.kind.itemsize
    if total > LARGEST:
        raise SourceError(
            f"{path}: the header declares {shape} voxels, {total / 2**30:.0f} GiB; not believed"
        )
    if math.prod(header.sizes) % len(header.sources):
        raise SourceError(f"{path}: {len(header.sources)} files cannot share {shape} voxels")
    values = header.share // header.kind.itemsize
    for source in header.sources:
        there = source.stat().st_size - max(header.start, 0)
        if header.length >= 0 and header.length > there:
            raise SourceError(f"{path}: truncated: {there} of {header.length} bytes are there")
        there = there if header.length < 0 else header.length
        most = {
            "raw": there,
            "hex": there // 2,
            "text": (there + 1) // 2 * header.kind.itemsize,  # a digit and a blank a value
        }.get(header.packing, 1032 * there + 2**16)  # the most that deflate makes of a byte
        if most - header.inner < header.share:
            raise SourceError(
                f"{path}: truncated: the header declares {shape} voxels, {values} of "
                f"{header.kind.itemsize} bytes in {source.name}, where {max(there, 0)} bytes of "
                f"{header.packing} data are; fetch it again"
            )
    return header


def counted(path: Path, words: list[str], count: str) -> tuple[int, ...]:
    """The lengths of the axes. Raises `SourceError` where they are no sizes."""
    if not re.fullmatch("[2-5]", count):
        raise SourceError(f"{path}: the header declares {count[:20]!r} axes; 2 to 5 are read")
    if len(words) != int(count):
        raise SourceError(f"{path}: the header declares {count} axes, but sizes of {len(words)}")
    if not all(re.fullmatch("[0-9]{1,10}", word) and int(word) for word in words):
        raise SourceError(
            f"{path}: the header declares sizes {' '.join(words)[:80]!r}; numbers above 0 expected"
        )
    return tuple(int(word) for word in words)


def numbers(path: Path, name: str, words: list[str], count: int) -> tuple[float, ...]:
    """The `count` numbers that `words` spell. Raises `SourceError` where they are others."""
    spelled = r"[-+]?([0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})([eE][-+]?[0-9]{1,3})?"
    if len(words) == count and all(re.fullmatch(spelled, word) for word in words):
        found = tuple(float(word) for word in words)
        if all(abs(number) < FARTHEST for number in found):
            return found
    raise SourceError(f"{path}: {name!r} of the header is not {count} believable numbers")


def beside(path: Path, name: str) -> Path:
    """The data file `name` of a header, which must lie in the header's folder or below it."""
    parts = PurePosixPath(name)
    if not name or parts.is_absolute() or PureWindowsPath(name).drive or "\\" in name:
        plain = False
    else:
        there = path.parent / name
        inside = there.resolve().is_relative_to(path.parent.resolve())
        plain = inside and ".." not in parts.parts
    if not plain:
        raise SourceError(
            f"{path}: names the data file {name[:80]!r}; only a file in the header's own folder "
            "is read: put it there and name it plainly"
        )
    if not there.is_file():
        raise SourceError(f"{path}: its data file {name[:80]!r} is missing; fetch it too")
    if there.samefile(path):
        raise SourceError(f"{path}: names itself as its data file")
    return there


def listed(path: Path, raw: bytes) -> tuple[Path, ...]:
    """The data files that stand one a line at the end of a header."""
    names = [line.strip() for line in raw.decode("utf-8", "replace").splitlines() if line.strip()]
    if not 1 <= len(names) <= 10_000:
        raise SourceError(f"{path}: lists {len(names)} data files; 1 to 10000 are read")
    return tuple(beside(path, name) for name in names)
