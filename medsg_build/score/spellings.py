"""The ways a box is written: text to four numbers, and where in the text they stood.

A spelling looks at `text[start:end]` and answers every box written that way, in order. All are
linear in the text: a pattern starts at a sign or a word, and what it repeats is possessive.
Rejected: `json.loads` and a repair of what it refuses. Patterns read whole, cut and broken JSON
alike, and cannot be led into deep recursion.

A number is ASCII digits, at most nine before the point, with nothing of a word, a number or a
per cent sign against it: `34` is not read out of `346`, nor 10 out of `10%`. Four or nothing: a
bracket with three or five numbers is no box, so `1,010` never counts as two.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from .metrics import Corners


class Found(NamedTuple):
    """Four numbers in the order they were named or written, and their place `start:end`."""

    corners: Corners
    start: int
    end: int


Spelling = Callable[[str, int, int], Iterator[Found]]

PUNCTUATION = str.maketrans("【】［］（）｛｝，、；：＝“”−", '[][](){},,;:=""-')  # noqa: RUF001
"""Full-width signs to their ASCII kin, one for one, so that places stay. Digits are not among them:
a model that writes full-width digits is not writing coordinates."""

_N = (
    r"([+-]?+(?:[0-9]{1,9}+(?:\.[0-9]{0,30}+)?+|\.[0-9]{1,30}+)(?:[eE][+-]?[0-9]{1,3}+)?+)"
    r"(?![\w.%])"
)
_SEP = r"(?:\s*+[,;]\s*+|\s++)"
_OPEN, _CLOSE = r"[\[(]\s*+", r"\s*+[\])]"
_FOUR = _SEP.join([_N] * 4)
_PAIR = _OPEN + _N + _SEP + _N + _CLOSE

CORNERS = re.compile(rf"{_OPEN}{_FOUR}(?:\s*+,)?+{_CLOSE}|{_PAIR}\s*+(?:[,;-]|to\b)?+\s*+{_PAIR}")
BARE = re.compile(rf"\s*+{_FOUR}\s*+\.?\s*+")
TAG = re.compile(r"<\|box_start\|>|<box>")
KEY = re.compile(r"""(?<![\w])(?:bbox_2d|bbox|box)["']?\s*+[:=]\s*+(?:\[\s*+(?=[\[(]))?+""")
SIDE_NAME = re.compile(
    rf"""(?<![\w"'])(["'])?([xyXY])_?(1|2|min|max)["']?\s*+[:=]\s*+{_N}(?(1)(?=\s*+[,}}\]]))"""
)


def tagged(text: str, start: int, end: int) -> Iterator[Found]:
    """`<|box_start|>(1,2),(3,4)<|box_end|>`, `<box>[1,2,3,4]</box>`, `<box>1 2 3 4</box>`.

    What stands before the next `<` belongs to the tag; cut off without one, only brackets that
    close are sure.
    """
    for tag in TAG.finditer(text, start, end):
        stop = text.find("<", tag.end(), end)
        inside = stop if stop >= 0 else end
        found = list(corners(text, tag.end(), inside))
        yield from found or (bare(text, tag.end(), inside) if stop >= 0 else ())


def keyed(text: str, start: int, end: int) -> Iterator[Found]:
    """`"bbox_2d": [1, 2, 3, 4]`, also `bbox` and `box`, whatever the JSON around it is worth."""
    for key in KEY.finditer(text, start, end):
        match = CORNERS.match(text, key.end(), end)
        if match:
            yield from _found(match)


def named(text: str, start: int, end: int) -> Iterator[Found]:
    """`x1=1, y1=2, x2=3, y2=4` and the same as JSON, also `xmin`..`ymax`, in any order.

    A quoted name must have its number ended by a sign: at a cut the last digits may be missing.
    """
    sides: dict[int, float] = {}
    first = last = start
    for match in SIDE_NAME.finditer(text, start, end):
        side = "xy".index(match[2].lower()) + (2 if match[3] in ("2", "max") else 0)
        if not sides or side in sides or text[last : match.start()].strip(" \t\r\n,;"):
            sides, first = {}, match.start()
        sides[side], last = float(match[4]), match.end()
        if len(sides) == 4:
            box = (sides[0], sides[1], sides[2], sides[3])
            if all(map(math.isfinite, box)):
                yield Found(box, first, last)
            sides = {}


def corners(text: str, start: int, end: int) -> Iterator[Found]:
    """`[1, 2, 3, 4]`, `(1, 2, 3, 4)`, `(1,2),(3,4)`, `[[1, 2], [3, 4]]`; brackets must close."""
    for match in CORNERS.finditer(text, start, end):
        yield from _found(match)


def bare(text: str, start: int, end: int) -> Iterator[Found]:
    """`1, 2, 3, 4`, where that is all there is: in a sentence four numbers may mean anything."""
    match = BARE.fullmatch(text, start, end)
    if match:
        yield from _found(match)


def _found(match: re.Match[str]) -> Iterator[Found]:
    one, two, three, four = (float(number) for number in match.groups() if number is not None)
    box = (one, two, three, four)
    if all(map(math.isfinite, box)):
        yield Found(box, match.start(), match.end())


SPELLINGS: Mapping[str, Spelling] = {
    "tagged": tagged,
    "keyed": keyed,
    "named": named,
    "corners": corners,
    "bare": bare,
}
