"""The voxels that a checked NRRD or MetaImage header tells of.

Not through ITK: of a damaged compressed file, ITK returns whatever memory held (MetaImage, with a
word on standard error only) or wrong voxels (NRRD, whose checksum it does not reach). `isal`
checks the stream to its end, in about half the time. Raw voxels cost one read, as they do in ITK.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SourceError
from .itk_headers import Header


def voxels(header: Header) -> NDArray[Any]:
    """All voxels, axes as `header.sizes`, in this machine's byte order; one buffer, no copy.

    `header` must have passed `believed`. Raises `SourceError` where the data are damaged, or are
    not as many as the header declares.
    """
    pieces = [_piece(source, header) for source in header.sources]
    data = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
    if not data.dtype.isnative:
        data = data.astype(data.dtype.newbyteorder("="))
    return data.reshape(header.sizes, order="F")


def surplus(header: Header) -> bool:
    """Whether bytes follow the voxels of a raw file: the header may be another's."""
    if header.packing != "raw" or header.start < 0:
        return False
    used = header.start + header.inner + header.share
    return any(source.stat().st_size > used for source in header.sources)


def _piece(source: Path, header: Header) -> NDArray[Any]:
    """(n,): the voxels of one source."""
    count = header.share // header.kind.itemsize
    try:
        with source.open("rb") as file:
            if header.start < 0:
                file.seek(source.stat().st_size - header.share)
            else:
                file.seek(header.start)
            if header.packing == "raw":
                file.seek(header.inner, 1)
                data = np.fromfile(file, header.kind, count)
            elif header.packing in ("gzip", "zlib"):
                inflated = _inflated(file.read(header.length), header.inner + header.share)
                data = np.frombuffer(inflated, header.kind, count, header.inner)
            elif header.packing == "hex":
                data = np.frombuffer(bytes.fromhex(file.read().decode("ascii")), header.kind)
            else:
                data = _spelled(file.read(), header.kind)
    except (OSError, ValueError, EOFError, OverflowError) as error:
        raise SourceError(f"{source}: its voxels are damaged ({error}); fetch it again") from error
    if data.size != count:
        raise SourceError(
            f"{source}: holds {data.size} voxels where the header declares {count}; fetch it again"
        )
    return data


def _inflated(packed: bytes, size: int) -> bytes:
    """`size` bytes out of a gzip or zlib stream. Raises `ValueError` for another number of bytes.

    One byte more is asked for, so that a stream that ends in time is followed to its checksum.
    """
    from isal import isal_zlib

    gzip = packed.startswith(b"\x1f\x8b")
    pieces: list[bytes] = []
    missing, ended = size + 1, False
    while packed and missing and not (ended and not (gzip and packed.startswith(b"\x1f\x8b"))):
        part = isal_zlib.decompressobj(31 if gzip else 15)
        try:
            pieces.append(part.decompress(packed, missing))
        except isal_zlib.error as error:  # type: ignore[misc]  # isal's stub has no class
            raise ValueError(str(error)) from error
        missing -= len(pieces[-1])
        packed, ended = part.unused_data, part.eof
    if missing != 1:
        raise ValueError("more voxels than the header declares" if not missing else "truncated")
    if not ended:
        raise ValueError("the compressed stream has no end")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _spelled(raw: bytes, kind: np.dtype[Any]) -> NDArray[Any]:
    """Numbers written as text, blanks or commas between them."""
    words = raw.replace(b",", b" ").split()
    number = r"[-+]?[0-9]{1,20}" if kind.kind in "ui" else r"[-+0-9.eEnNaAiIfF]{1,40}"
    if not all(re.fullmatch(number.encode(), word) for word in words):
        raise ValueError("not all are numbers")
    read = int if kind.kind in "ui" else float
    return np.array([read(word) for word in words], kind)
