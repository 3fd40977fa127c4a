"""Task 2, nrdg: as task 1, each picture moved by up to 20 pixels on both axes (section 3.2.1)."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from ..errors import RecipeError
from ..model import SIDE, Box, CaseSurvey, Composed, Draft, Frame, Rejected
from ..perturb.misalign import shifted
from ..questions import ask, ordinal
from ..seams import Options
from .altering import OPTIONS, altered, proposals

name = "nrdg"
options = {**OPTIONS, "shift": 20}


def propose(surveys: Iterable[CaseSurvey], options: Options) -> Iterator[Draft]:
    """A draft a slice worth showing, as for task 1, with a real margin to move it in."""
    most = options.values["shift"]
    if not isinstance(most, int) or not 1 <= most <= 100:
        raise RecipeError(f"tasks.nrdg.options.shift: {most!r}; expected pixels from 1 to 100")
    return proposals(name, surveys, options, most)


def compose(draft: Draft, frames: Sequence[Frame], rng: np.random.Generator) -> Composed | Rejected:
    """The pair, each picture moved by its own shift; the answer lies in the named picture's frame.

    The change is confined to what both moved pictures show, so that no box leaves the canvas and
    undoing the shifts leaves a difference inside the box alone.
    """
    image, margin = frames[0].image, draft.margin
    shifts = _shifts(margin, rng)
    shown = np.zeros(image.shape[:2], bool)
    left, top = margin - shifts.min(axis=0)
    right, bottom = margin + SIDE - shifts.max(axis=0)
    shown[top:bottom, left:right] = True
    made = altered(draft, frames[0], shown, rng)
    if isinstance(made, Rejected):
        return made
    place, target = int(rng.integers(2)), int(rng.integers(2))
    pair = [image, image]
    pair[place] = made.image
    moves = [(int(dx), int(dy)) for dx, dy in shifts]
    dx, dy = moves[target][0] - margin, moves[target][1] - margin
    box = Box(made.box.x0 + dx, made.box.y0 + dy, made.box.x1 + dx, made.box.y1 + dy)
    return Composed(
        images=tuple(shifted(held, *move) for held, move in zip(pair, moves, strict=True)),
        origins=(0, 0),
        question=ask(name, rng, target=ordinal(target)),
        answer=box,
        answer_image=target,
        steps=(
            *({**step, "image": place, "margin": margin} for step in made.steps),
            *(
                {"step": "shift", "image": number, "dx": move[0], "dy": move[1], "margin": margin}
                for number, move in enumerate(moves)
            ),
        ),
    )


def _shifts(most: int, rng: np.random.Generator) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """(2, 2) whole-pixel shifts, uniform in [-most, most]; never the same for both pictures."""
    while True:
        shifts = rng.integers(-most, most + 1, (2, 2))
        if (shifts[0] != shifts[1]).any():
            return shifts
