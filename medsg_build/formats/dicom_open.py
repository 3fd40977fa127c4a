"""Opening and parsing DICOM files, so that nothing but a `SourceError` can come of it.

pydicom parses late, when an element is asked for: all use of what `dataset` returns happens inside
`guarded`. Sizes that a file claims take no memory before the bytes are there.
"""

import io
import math
import os
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import SourceError
from . import library

INFLATED = 2**31
"""Bytes beyond which a file whose whole data set is deflated is not believed."""


@contextmanager
def guarded(
    path: Path, what: str = "damaged, or not DICOM as the standard has it"
) -> Iterator[None]:
    """Turns whatever a library raises into one `SourceError`, and keeps its warnings quiet.

    The library's own words are left out: they may quote what the header says of the patient.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        except SourceError:
            raise
        except Exception as error:
            raise SourceError(f"{path}: {what} ({type(error).__name__}); fetch it again") from error


def has_magic(path: Path) -> bool:
    """Whether the file begins as PS3.10 section 7.1 asks: 128 bytes, then DICM."""
    try:
        with path.open("rb") as file:
            return file.read(132)[128:] == b"DICM"
    except OSError:
        return False


class _Bounded(io.BufferedReader):
    """A file of which a read never takes more memory than there are bytes left.

    `beyond` counts the reads past its end. pydicom meets the end of a whole file once, when it
    looks for the next element; where an element or a sequence is cut off, it only warns.
    """

    beyond = 0

    def __init__(self, path: Path) -> None:
        super().__init__(io.FileIO(path))
        self._end = os.fstat(self.fileno()).st_size

    def read(self, size: int | None = -1, /) -> bytes:
        left = max(0, self._end - self.tell())
        if size is not None and size >= 0:
            self.beyond += 0 if size <= left else 1 if left == 0 else 2
            return super().read(min(size, left))
        # pydicom asks for all the rest only to inflate it (PS3.5, section A.5).
        rest = super().read(left)
        inflater, total, block = zlib.decompressobj(-zlib.MAX_WBITS), 0, rest
        while block and not inflater.eof:
            total += len(inflater.decompress(block, 1 << 20))
            block = inflater.unconsumed_tail
            if total > INFLATED:
                raise SourceError(f"{self.name}: inflates to over 2 GiB; not believed")
        return rest


def dataset(
    path: Path, pixels: bool, tags: tuple[str, ...] | None = None, whole: bool = False
) -> Any:
    """The parsed file; to be called, and its result used, inside `guarded`.

    Raises `SourceError` where the file has to be `whole` and ends too early.
    """
    pydicom = library("pydicom", "dicom", path)
    with _Bounded(path) as file:
        read = pydicom.dcmread(
            file, stop_before_pixels=not pixels, specific_tags=None if tags is None else list(tags)
        )
        if whole and file.beyond > 1:
            raise SourceError(f"{path}: truncated in the middle of an element; fetch it again")
        return read


def numbers(path: Path, source: Any, name: str, count: int) -> tuple[float, ...] | None:
    """`count` finite numbers of the element `name`; None where it is missing or empty."""
    value = source.get(name)
    if value is None or value == "" or (hasattr(value, "__len__") and not len(value)):
        return None
    found = [float(v) for v in value] if hasattr(value, "__iter__") else [float(value)]
    if len(found) != count or not all(map(math.isfinite, found)):
        raise SourceError(f"{path}: its {name} is not {count} finite number(s); fetch it again")
    return tuple(found)
