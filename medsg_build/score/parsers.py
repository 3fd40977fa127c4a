"""A model's answer to boxes: one row a dialect.

Nothing is guessed from the size of a number, from the question or from the gold box: on a picture
of 336 pixels, 0..1000 and pixels look alike. A dialect says what its numbers mean. To add a family
of models, add a row to `DIALECTS` (and a spelling, where it writes boxes in a way of its own).

Policies, the same for every dialect: thinking is no answer; where answers are wrapped, the last
wrapper holds the answer; the first spelling of the dialect that finds a box is the one the answer
is written in; of several boxes the first counts. Nothing found is no box, never a box of zeros.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from .metrics import Corners
from .spellings import PUNCTUATION, SPELLINGS


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a family of models writes boxes.

    `spellings`: names in `SPELLINGS`, surest first. `order` and `frame` say what the four numbers
    are: `xyxy` in `px`, pixels of the picture as released, are taken as they stand.
    """

    name: str
    spellings: tuple[str, ...]
    order: str = "xyxy"
    frame: str = "px"


PIXELS = Dialect("pixels", ("tagged", "keyed", "named", "corners", "bare"))

DIALECTS: Mapping[str, Dialect] = {dialect.name: dialect for dialect in (PIXELS,)}

WRAPPERS = (("<answer>", "</answer>"), ("<|begin_of_box|>", "<|end_of_box|>"))

_THOUGHT = re.compile(r"<(/?)think>")
_BLANK = "\0"  # not a space: no box may be read across a thought


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read. `span`: (start, end) of the first box in the text of the answer.

    An answer that is no text (a list, an object) is read as its JSON, and `span` is a place in it.
    """

    boxes: tuple[Corners, ...] = ()
    span: tuple[int, int] | None = None
    spelling: str = ""

    @property
    def first(self) -> Corners | None:
        """The box that counts; None where none was found."""
        return self.boxes[0] if self.boxes else None


def read(answer: object, dialect: Dialect = PIXELS) -> Reading:
    """The boxes of `answer`, in linear time; raises nothing, whatever it is given."""
    text = _without_thoughts(_spelt(answer).translate(PUNCTUATION))
    start, end = _answered(text)
    for name in dialect.spellings:
        found = list(SPELLINGS[name](text, start, end))
        if found:
            boxes = tuple(one.corners for one in found)
            return Reading(boxes, (found[0].start, found[0].end), name)
    return Reading()


def _spelt(answer: object) -> str:
    if isinstance(answer, str):
        return answer
    try:
        return json.dumps(answer)
    except (TypeError, ValueError, RecursionError):
        return ""


def _without_thoughts(text: str) -> str:
    """`text`, as long as before, with its thinking blanked out.

    A closing tag without an opening one ends a thought that began in the prompt; an opening one
    without a closing one begins a thought that was cut off.
    """
    kept: list[tuple[int, int]] = []
    at, thinking = 0, False
    for tag in _THOUGHT.finditer(text):
        if tag[1]:
            if not thinking:
                kept.clear()
            at, thinking = tag.end(), False
        elif not thinking:
            kept.append((at, tag.start()))
            thinking = True
    if not thinking:
        if at == 0:
            return text
        kept.append((at, len(text)))
    pieces, last = [], 0
    for start, end in kept:
        pieces += [_BLANK * (start - last), text[start:end]]
        last = end
    return "".join([*pieces, _BLANK * (len(text) - last)])


def _answered(text: str) -> tuple[int, int]:
    """Where the answer stands: in the last wrapper, closed or cut off, or else the whole text."""
    opened, opening, closing = max((text.rfind(first), first, last) for first, last in WRAPPERS)
    if opened < 0:
        return 0, len(text)
    start = opened + len(opening)
    end = text.find(closing, start)
    return start, end if end >= 0 else len(text)
