"""An array of a MATLAB file of either version, and what of it is believed."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

LARGEST = 16 * 2**30
"""Bytes of an array beyond which a header is not believed."""

MOST = 20_000
"""Variables, fields and elements beyond which a file is not believed."""

DEEPEST = 12
"""Structs within structs beyond which a file is not believed."""


class Variable(NamedTuple):
    """An array of a file, not yet read. `shape`: as MATLAB tells it; `load()` gives that order.

    `logical`: true and false, not numbers. `trouble`: why it is no picture, where it is none.
    `check()` raises `ValueError` where the file cannot hold it; `load()` does so first.
    """

    shape: tuple[int, ...]
    kind: np.dtype[Any]
    logical: bool
    load: Callable[[], NDArray[Any]]
    trouble: str = ""
    check: Callable[[], None] = lambda: None


def believed(shape: tuple[int, ...], kind: np.dtype[Any], most: int) -> None:
    """Raises `ValueError` where an array is larger than the `most` bytes its file can hold."""
    size = math.prod(shape) * kind.itemsize
    if size > min(most, LARGEST):
        raise ValueError(
            f"an array of {'x'.join(map(str, shape))} is declared, {size} bytes, where {most} can "
            "be at the most"
        )
