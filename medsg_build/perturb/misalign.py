"""Moves a picture by whole pixels, as two examinations of one patient never lie quite the same.

The picture comes with a margin of real pixels, so what a shift reveals is anatomy, not fill: a
black band or a repeated edge would tell the shift.
"""

import numpy as np

from ..model import SIDE, Pixels


def shifted(image: Pixels, dx: int, dy: int) -> Pixels:
    """The (336, 336[, 3]) picture moved right by `dx` and down by `dy` pixels.

    `image`: (336 + 2 m, 336 + 2 m[, 3]) with the margin m on every side; |dx| and |dy| at most m.
    """
    margin = (image.shape[0] - SIDE) // 2
    top, left = margin - dy, margin - dx
    return np.ascontiguousarray(image[top : top + SIDE, left : left + SIDE])
