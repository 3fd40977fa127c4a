"""One reader a file format, found by suffix. Only `cases` calls these.

A member is a module with `suffixes`, `read(path, labels) -> Volume` and
`measure(path) -> (shape, affine)`, which reads no pixels. Every error of a library becomes one
`SourceError` that names the file.
"""

from pathlib import Path
from typing import Any

from ..errors import SourceError
from ..model import Floats, Volume
from ..seams import find, installed


def reader_of(path: Path) -> Any:
    """The installed format that reads `path`, by the longest matching suffix."""
    name = path.name.lower()
    best: tuple[int, Any] = (0, None)
    for member in installed("formats"):
        module = find("formats", member)
        for suffix in module.suffixes:
            if name.endswith(suffix) and len(suffix) > best[0]:
                best = (len(suffix), module)
    if best[1] is None:
        raise SourceError(f"{path}: no installed format reads files of this kind")
    if not path.is_file():
        raise SourceError(f"{path}: not found; check the dataset's folder and its recipe's layout")
    return best[1]


def read(path: Path, labels: bool = False) -> Volume:
    """The decoded file. `labels` asks for label values (palette indices, not colours)."""
    volume: Volume = reader_of(path).read(path, labels)
    return volume


def flat(path: Path) -> bool:
    """Whether files of this kind are plain pictures, which carry no geometry."""
    return bool(getattr(reader_of(path), "flat", False))


def measure(path: Path) -> tuple[tuple[int, ...], Floats]:
    """Shape (i, j, k) and affine of the file, from its header alone."""
    shape, affine = reader_of(path).measure(path)
    return tuple(shape), affine
