"""One reader a file format, found by suffix. Only `cases` calls these.

A member is a module with `suffixes`, `read(path, wanted) -> Volume` and
`measure(path, wanted) -> Grid`, which reads no pixels. It may have `takes(path)`, for folders,
patterns of frames and files whose name tells nothing, and `files(path)`, the files behind a path.
Every error of a library becomes one `SourceError` that names the file.
"""

import difflib
from importlib import import_module
from pathlib import Path
from typing import Any

from ..errors import SourceError
from ..model import Grid, Volume, Wanted
from ..seams import find, installed

FRAME = "{frame}"
"""Stands in the name of a path for the number of each frame of a sequence."""


def reader_of(path: Path) -> Any:
    """The installed format that reads `path`: by the longest matching suffix, else by its content.

    Raises `SourceError` where the file is missing or no format takes it.
    """
    members = [find("formats", member) for member in installed("formats")]
    if FRAME not in path.name and not path.is_dir():
        name = path.name.lower()
        best: tuple[int, Any] = (0, None)
        for module in members:
            for suffix in module.suffixes:
                if name.endswith(suffix) and len(suffix) > best[0]:
                    best = (len(suffix), module)
        if not path.is_file():
            raise SourceError(
                f"{path}: not found; check the dataset's folder and its recipe's layout"
            )
        if best[1] is not None:
            return best[1]
    for module in members:
        if hasattr(module, "takes") and module.takes(path):
            return module
    known = sorted({suffix for module in members for suffix in module.suffixes})
    near = difflib.get_close_matches(path.suffix.lower(), known, 1)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
    kind = "a folder" if path.is_dir() else "a file"
    raise SourceError(f"{path}: no installed format reads {kind} of this kind; {hint}")


def read(path: Path, wanted: Wanted = Wanted()) -> Volume:  # noqa: B008  frozen
    """The decoded file."""
    volume: Volume = reader_of(path).read(path, wanted)
    return volume


def measure(path: Path, wanted: Wanted = Wanted()) -> Grid:  # noqa: B008  frozen
    """Shape and place of the file's voxels, from its header alone."""
    grid: Grid = reader_of(path).measure(path, wanted)
    return grid


def files(path: Path) -> tuple[Path, ...]:
    """The files that are read for `path`: itself, or what its folder, pattern or header names."""
    reader = reader_of(path)
    return tuple(reader.files(path)) if hasattr(reader, "files") else (path,)


def library(name: str, extra: str, path: Path) -> Any:
    """The optional library `name`. Raises `SourceError` that says which extra brings it."""
    try:
        return import_module(name)
    except ImportError as error:
        raise SourceError(
            f"{path}: reading this needs {name.split('.')[0]}: pip install 'medsg-build[{extra}]'"
        ) from error
