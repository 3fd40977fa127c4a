"""Arrays of NumPy (.npy, and members of .npz), as plain pictures; never unpickled.

Convention, since an array does not tell what its axes are: (rows, columns) is a picture;
(rows, columns, 3) of uint8 a picture in colour; (rows, columns, 1) a grey picture; any other three
axes are (frames, rows, columns), and (frames, rows, columns, 3) of uint8 is a sequence in colour.
Source: numpy.lib.format, NEP 1.
"""

import math
import tokenize
import warnings
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import SourceError
from ..model import Grid, Volume, Wanted

suffixes = (".npy", ".npz")

LARGEST = 16 * 2**30
"""Bytes of an array beyond which a header is not believed."""

_BROKEN = (OSError, EOFError, ValueError, TypeError, SyntaxError, LookupError, RuntimeError,
           MemoryError, OverflowError, NotImplementedError, zipfile.BadZipFile,
           zlib.error, tokenize.TokenError)  # fmt: skip
"""What NumPy and zipfile raise for a damaged file."""


class Head(NamedTuple):
    """What an array's header says, and where its values begin in the file or member."""

    shape: tuple[int, ...]
    columnwise: bool
    kind: np.dtype[Any]
    start: int


def measure(path: Path, wanted: Wanted) -> Grid:
    """Shape (x, y, frames) and the identity, from the header alone. Raises `SourceError`."""
    head, _ = _taken(path, wanted, values=False)
    # The axes of an array of no bytes show what becomes of the real one.
    blank = np.broadcast_to(np.zeros((), head.kind), head.shape)
    shape = _pictures(path, blank, wanted)[0].shape
    return Grid((shape[0], shape[1], shape[2]), np.eye(4), True)


def read(path: Path, wanted: Wanted) -> Volume:
    """The array as pictures (x, y, frames[, 3]), mapped from the file where that is possible.

    `wanted.part` names the member of a .npz. Raises `SourceError` for a damaged file, objects, or
    axes that are no pictures.
    """
    _, values = _taken(path, wanted, values=True)
    data, notes = _pictures(path, values, wanted)
    return sequence(path, data, wanted, notes)


def sequence(path: Path, data: NDArray[Any], wanted: Wanted, notes: tuple[str, ...] = ()) -> Volume:
    """A flat volume of `data` (x, y, frames[, 3]), of the frames that are wanted."""
    if wanted.only is not None:
        if not all(0 <= number < data.shape[2] for number in wanted.only):
            raise SourceError(f"{path}: has {data.shape[2]} frames, from 0; others are wanted")
        data = data[:, :, list(wanted.only)]
    if data.dtype == np.bool_:
        data = data.astype(np.uint8)
    elif data.dtype == np.float16:
        data = data.astype(np.float32)
    elif not data.dtype.isnative:
        data = data.astype(data.dtype.newbyteorder("="))
    return Volume(data, np.eye(4), (1.0, 1.0, 1.0), np.eye(4), True, notes, numbers=wanted.only)


def usable(kind: np.dtype[Any]) -> bool:
    """Whether values of this type are numbers that a picture may have."""
    return kind.kind in "bui" or (kind.kind == "f" and kind.itemsize <= 8)


def _taken(path: Path, wanted: Wanted, *, values: bool) -> tuple[Head, NDArray[Any]]:
    """The header of the wanted array, and its values where asked for (else none)."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # headers of Python 2
            with path.open("rb") as file:
                if file.read(4) == b"PK\x03\x04":
                    return _member(path, file, wanted, values=values)
                if wanted.part is not None:
                    raise SourceError(f"{path}: holds one array; parts are for .npz files")
                head = _head(path, file, path.stat().st_size)
            if not values:
                return head, np.zeros(0)
            flat = np.memmap(path, head.kind, "r", head.start, (math.prod(head.shape),))
            return head, _shaped(flat.view(np.ndarray), head)
    except _BROKEN as error:
        said = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise SourceError(f"{path}: cannot be read as an array ({said}); check it") from error


def _member(
    path: Path, file: IO[bytes], wanted: Wanted, *, values: bool
) -> tuple[Head, NDArray[Any]]:
    """As `_taken`, of one member of a .npz."""
    with zipfile.ZipFile(file) as archive:
        names = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        part = next(iter(names)) if wanted.part is None and len(names) == 1 else wanted.part
        if not isinstance(part, str) or part.removesuffix(".npy") not in names:
            raise SourceError(
                f"{path}: holds {len(names)} arrays ({', '.join(sorted(names))[:200]}); parts in "
                "the recipe's layout chooses by name"
            )
        info = names[part.removesuffix(".npy")]
        packed = min(info.compress_size, path.stat().st_size)
        most = 1032 * packed + 2**16 if info.compress_type == zipfile.ZIP_DEFLATED else packed
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise SourceError(f"{path}: {part} is packed otherwise than NumPy does")
        with archive.open(info) as stream:
            head = _head(path, stream, min(most, info.file_size))
            if not values:
                return head, np.zeros(0)
            raw = stream.read(math.prod(head.shape) * head.kind.itemsize)
            while stream.read(2**16):  # to the end, where the checksum is compared
                pass
    return head, _shaped(np.frombuffer(raw, head.kind), head)


def _shaped(values: NDArray[Any], head: Head) -> NDArray[Any]:
    return values.reshape(head.shape, order="F" if head.columnwise else "C")


def _head(path: Path, file: IO[bytes], there: int) -> Head:
    """The header at the file's beginning, held against the bytes that are `there`."""
    file.seek(0)
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        shape, columnwise, kind = np.lib.format.read_array_header_1_0(file)
    elif version == (2, 0):
        shape, columnwise, kind = np.lib.format.read_array_header_2_0(file)
    else:
        raise SourceError(f"{path}: an array file of version {version[0]}; 1 and 2 are read")
    if not usable(kind):
        raise SourceError(f"{path}: holds values of type {kind}; plain numbers are expected")
    size = math.prod(shape) * kind.itemsize
    if min(shape, default=1) < 1 or size > LARGEST:
        raise SourceError(f"{path}: the header declares axes {shape}; not believed")
    if file.tell() + size > there:
        raise SourceError(
            f"{path}: truncated: the header declares {size} bytes of values in a file of {there} "
            "at the most; fetch it again"
        )
    return Head(tuple(int(n) for n in shape), columnwise, kind, file.tell())


def _pictures(
    path: Path, values: NDArray[Any], wanted: Wanted
) -> tuple[NDArray[Any], tuple[str, ...]]:
    """(x, y, frames[, 3]), a view, by the convention above, and what was chosen."""
    colour = values.ndim in (3, 4) and values.shape[-1] == 3 and values.dtype.name == "uint8"
    if colour and wanted.labels:
        raise SourceError(f"{path}: a picture in colour; a mask of label values is expected")
    if colour and values.ndim == 3:
        return values.swapaxes(0, 1)[:, :, None], ()
    if values.ndim == 2:
        return values.T[:, :, None], ()
    if values.ndim == 3 and values.shape[2] == 1:
        return values.swapaxes(0, 1), ()
    if values.ndim == 3 or colour:
        axes = (2, 1, 0, 3)[: values.ndim]
        return values.transpose(axes), (f"{path.name}: its first axis taken as frames",)
    raise SourceError(
        f"{path}: holds an array of {'x'.join(map(str, values.shape))}; (rows, columns), "
        "(frames, rows, columns), or colours (uint8) along a last axis of 3 are expected"
    )
