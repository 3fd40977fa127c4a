"""The arrays of a MATLAB 7.3 file, which is HDF5 behind 512 bytes of MATLAB's own, through h5py.

HDF5 keeps the axes of MATLAB backwards. Links out of the file, values in other files and filters
that HDF5 would load from a library on the disk are left alone.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arrays import usable
from .matlab_variables import DEEPEST, LARGEST, MOST, Variable, believed

_DEFLATE = 1
_FILTERS = {_DEFLATE, 2, 3}
"""Those within HDF5 itself: deflate, shuffle and the checksum fletcher32."""


@contextmanager
def opened(path: Path, h5py: Any) -> Iterator[dict[str, Variable]]:
    """All arrays of the file by dotted name; they can be read while the context lasts."""
    with h5py.File(path, "r", locking=False) as file:
        found: dict[str, Variable] = {}
        _walk(h5py, file, "", found, path.stat().st_size, 0)
        yield found


def _walk(h5py: Any, group: Any, name: str, found: dict[str, Variable], size: int, at: int) -> None:
    """Adds the arrays of a group, a struct in MATLAB, to what was found."""
    if at > DEEPEST:
        raise ValueError("structs within structs without end")
    for word in group:
        if len(found) >= MOST:
            raise ValueError(f"more than {MOST} arrays")
        # A link that is soft or external may lead out of the file; #refs# holds cells.
        hard = isinstance(group.get(word, getlink=True), h5py.HardLink)
        if not hard or word.startswith("#"):
            continue
        item = group[word]
        dotted = f"{name}.{word}" if name else word
        if isinstance(item, h5py.Group):
            if "MATLAB_sparse" in item.attrs:
                found[dotted] = Variable((), np.dtype("f8"), False, lambda: np.zeros(0), "sparse")
            else:
                _walk(h5py, item, dotted, found, size, at + 1)
        elif isinstance(item, h5py.Dataset):
            variable = _variable(item, size)
            if variable:
                found[dotted] = variable


def _variable(item: Any, size: int) -> Variable | None:
    """The array of a dataset; None for texts and what MATLAB marks as empty."""
    spelled = item.attrs.get("MATLAB_class", b"")
    called = spelled.decode("latin-1") if isinstance(spelled, bytes) else str(spelled)
    if called in ("char", "function_handle") or "MATLAB_empty" in item.attrs:
        return None
    if item.shape is None:
        return None
    kind, trouble = item.dtype, ""
    if kind.names and set(kind.names) == {"real", "imag"}:
        trouble = "complex"
    elif not usable(kind):
        trouble = "a cell array or no number"
    shape = tuple(int(n) for n in reversed(item.shape))

    def check() -> None:
        _there(item, size)

    def load() -> NDArray[Any]:
        check()
        values: NDArray[Any] = item[()]
        return values.T

    return Variable(shape, kind, called == "logical" or kind.kind == "b", load, trouble, check)


def _there(item: Any, size: int) -> None:
    """Raises `ValueError` where the file of `size` bytes cannot hold what the dataset declares."""
    made = item.id.get_create_plist()
    filters = {made.get_filter(n)[0] for n in range(made.get_nfilters())}
    if item.external or item.is_virtual:
        raise ValueError("its values lie in other files")
    if not filters <= _FILTERS:
        raise ValueError("packed by a filter that HDF5 itself does not have")
    stored = min(int(item.id.get_storage_size()), size)
    most = 1032 * stored + 2**16 if _DEFLATE in filters else stored
    if not stored:
        raise ValueError("an array that was never written")
    believed(item.shape, item.dtype, most)
    if item.chunks and math.prod(item.chunks) * item.dtype.itemsize > min(most, LARGEST) + 2**20:
        raise ValueError("a chunk larger than the file can hold")
