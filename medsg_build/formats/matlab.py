"""MATLAB files (.mat): version 5 (saved with -v6 or -v7), and 7.3, which is HDF5.

What MATLAB shows is what comes out: rows run down, columns to the right, a third axis counts
frames; (rows, columns, 3) of uint8 is a picture in colour, of label values three frames. `part` is
the dotted name of a variable, as `cjdata.image`; numbers from 0 stand for the elements of cell and
struct arrays. Without it, the only picture of the file is taken: numbers with more than one row and
more than one column.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SourceError
from ..model import Grid, Volume, Wanted
from . import library, matlab_v5, matlab_v73
from .arrays import sequence, usable
from .matlab_variables import Variable

suffixes = (".mat",)


def measure(path: Path, wanted: Wanted) -> Grid:
    """Shape (x, y, frames) and the identity, from what the file says of the array."""
    with _variables(path, wanted) as found:
        name, variable = _chosen(path, found, wanted)
        variable.check()
        blank = np.broadcast_to(np.zeros((), variable.kind), variable.shape)
        shape = _pictures(path, name, variable, blank, wanted).shape
        return Grid((shape[0], shape[1], shape[2]), np.eye(4), True)


def read(path: Path, wanted: Wanted) -> Volume:
    """The array as pictures (x, y, frames[, 3]); `wanted.part` is its dotted name.

    Raises `SourceError` for a damaged file, several arrays or none to choose from, and what is
    complex, sparse or no number.
    """
    with _variables(path, wanted) as found:
        name, variable = _chosen(path, found, wanted)
        data = _pictures(path, name, variable, variable.load(), wanted)
        return sequence(path, data, wanted)


@contextmanager
def _variables(path: Path, wanted: Wanted) -> Iterator[dict[str, Variable]]:
    """All arrays of the file by dotted name, loadable while the context lasts."""
    only = wanted.part.split(".")[0] if isinstance(wanted.part, str) else None
    try:
        with path.open("rb") as file:
            head = file.read(520)
        if b"\x89HDF\r\n\x1a\n" in (head[512:520], head[:8]):
            with matlab_v73.opened(path, library("h5py", "matlab", path)) as found:
                yield found
        else:
            yield matlab_v5.opened(path, only)
    except (OSError, EOFError, ValueError, TypeError, LookupError, RuntimeError, MemoryError,
            OverflowError, RecursionError) as error:  # fmt: skip
        said = str(error).splitlines() or [type(error).__name__]
        raise SourceError(
            f"{path}: cannot be read as a MATLAB file ({said[0][:200]}); check it"
        ) from error


def _chosen(path: Path, found: dict[str, Variable], wanted: Wanted) -> tuple[str, Variable]:
    """The variable that is wanted, or the only picture. Raises `SourceError`."""
    if wanted.part is not None:
        name = str(wanted.part)
        if name not in found:
            raise SourceError(f"{path}: has no array {name!r}; it has {_told(found)}")
    else:
        pictures = {
            name: variable
            for name, variable in found.items()
            if not variable.trouble
            and len(variable.shape) in (2, 3, 4)
            and min(variable.shape[:2], default=0) > 1
        }
        if not pictures:
            raise SourceError(f"{path}: holds no picture; it has {_told(found)}")
        if len(pictures) > 1:
            raise SourceError(
                f"{path}: holds several arrays ({_told(pictures)}); parts in the recipe's layout "
                "chooses, by this name"
            )
        name = next(iter(pictures))
    if found[name].trouble:
        raise SourceError(f"{path}: {name} is {found[name].trouble}; plain numbers are expected")
    if not usable(found[name].kind) or min(found[name].shape, default=0) < 1:
        raise SourceError(f"{path}: {name} is empty or holds no plain numbers")
    return name, found[name]


def _told(found: dict[str, Variable]) -> str:
    words = [f"{name} {'x'.join(map(str, v.shape))}" for name, v in list(found.items())[:12]]
    return ", ".join(words) + (", ..." if len(found) > 12 else "") if words else "no arrays"


def _pictures(
    path: Path, name: str, variable: Variable, values: NDArray[Any], wanted: Wanted
) -> NDArray[Any]:
    """(x, y, frames[, 3]), a view of `values` (rows, columns[, slices])."""
    shape = values.shape
    colour = (
        len(shape) in (3, 4)
        and shape[2] == 3
        and values.dtype.name == "uint8"
        and not variable.logical
        and not wanted.labels
    )
    if len(shape) == 2:
        return values.T[:, :, None]
    if len(shape) == 4 and (colour or shape[2] == 1):
        turned = values.transpose(1, 0, 3, 2)
        return turned if colour else turned[..., 0]
    if len(shape) == 3:
        turned = values.swapaxes(0, 1)
        return turned[:, :, None] if colour else turned
    raise SourceError(
        f"{path}: {name} is an array of {'x'.join(map(str, shape))}; rows and columns, with "
        "frames or colours at the most, are expected"
    )
