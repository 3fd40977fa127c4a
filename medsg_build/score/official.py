"""What the benchmark's own evaluator reads from an answer of a Qwen2.5-VL model, faults included.

Kept beside our reading so that published figures can be matched row by row. Its pattern does not
ask that a number be whole, so a list that was cut off, `161, 346, 187,`, is read as
161, 34, 6, 187. Written from the 1,482 published rows; the code behind them was not copied.
One liberty: runs of digits are taken twenty at a time, which keeps hostile text linear.
"""

import re

from .metrics import Corners

_N = r"([0-9]{1,20}(?:\.[0-9]{1,20})?)"
_PAIR = rf"{_N}\s*+,\s*+{_N}"
_BOX = re.compile(rf"{_PAIR}\s*+[)\]]?+\s*+,?+\s*+[(\[]?+\s*+{_PAIR}")


def official_boxes(text: str) -> tuple[Corners, ...]:
    """The boxes the official evaluator reads, in order; it scores the first, or none as IoU 0."""
    return tuple(
        (float(match[1]), float(match[2]), float(match[3]), float(match[4]))
        for match in _BOX.finditer(text)
    )
