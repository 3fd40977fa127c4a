"""Moves a picture by whole pixels, as two examinations of one patient never lie quite the same."""

import numpy as np

from ..model import SIDE, Pixels

FILL = "edge"
"""The revealed border repeats the outermost row or column, in both pictures of a pair."""


def shifted(image: Pixels, dx: int, dy: int) -> Pixels:
    """`image` (336, 336[, 3]) moved right by `dx`, down by `dy` pixels; the border is repeated."""
    reach = max(abs(dx), abs(dy))
    pad = [(reach, reach), (reach, reach)] + [(0, 0)] * (image.ndim - 2)
    wide = np.pad(image, pad, mode="edge")
    top, left = reach - dy, reach - dx
    return np.ascontiguousarray(wide[top : top + SIDE, left : left + SIDE])
