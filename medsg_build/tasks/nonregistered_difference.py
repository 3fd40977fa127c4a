"""Task 2, nrdg: as task 1, each picture moved by up to 20 pixels on both axes (section 3.2.1)."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from ..model import SIDE, Box, CaseSurvey, Composed, Draft, Frame, Rejected
from ..perturb.misalign import FILL, shifted
from ..questions import ask, ordinal
from ..seams import Options
from .altering import OPTIONS, altered, proposals

name = "nrdg"
options = {**OPTIONS, "shift": 20}


def propose(surveys: Iterable[CaseSurvey], options: Options) -> Iterator[Draft]:
    """A draft a slice worth showing, as for task 1."""
    return proposals(name, surveys, options)


def compose(draft: Draft, frames: Sequence[Frame], rng: np.random.Generator) -> Composed | Rejected:
    """The pair, each picture moved by its own shift; the answer lies in the named picture's frame.

    The change is confined to what both moved pictures still show, so that no box leaves the canvas
    and undoing the shifts leaves a difference inside the box alone.
    """
    shifts = _shifts(int(draft.options["shift"]), rng)
    kept = np.zeros((SIDE, SIDE), bool)
    low = np.maximum(0, -shifts).max(axis=0)
    high = SIDE - np.maximum(0, shifts).max(axis=0)
    kept[low[1] : high[1], low[0] : high[0]] = True
    made = altered(draft, frames[0], kept, rng)
    if isinstance(made, Rejected):
        return made
    place, target = int(rng.integers(2)), int(rng.integers(2))
    pair = [frames[0].image, frames[0].image]
    pair[place] = made.image
    moves = [(int(dx), int(dy)) for dx, dy in shifts]
    dx, dy = moves[target]
    box = Box(made.box.x0 + dx, made.box.y0 + dy, made.box.x1 + dx, made.box.y1 + dy)
    return Composed(
        images=tuple(shifted(image, *move) for image, move in zip(pair, moves, strict=True)),
        origins=(0, 0),
        question=ask(name, rng, target=ordinal(target)),
        answer=box,
        answer_image=target,
        steps=(
            *({**step, "image": place} for step in made.steps),
            *(
                {"step": "shift", "image": image, "dx": move[0], "dy": move[1], "fill": FILL}
                for image, move in enumerate(moves)
            ),
        ),
    )


def _shifts(most: int, rng: np.random.Generator) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """(2, 2) whole-pixel shifts, uniform in [-most, most]; never the same for both pictures."""
    while True:
        shifts = rng.integers(-most, most + 1, (2, 2))
        if (shifts[0] != shifts[1]).any():
            return shifts
