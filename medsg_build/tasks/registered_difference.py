"""Task 1, rdg: two pictures alike but for one region (paper, section 3.2.1).

Which of the two is altered, and in whose coordinates the question asks, are drawn apart from each
other, so that neither place nor wording tells where the change is.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from ..model import CaseSurvey, Composed, Draft, Frame, Rejected
from ..questions import ask, ordinal
from ..seams import Options
from .altering import OPTIONS, altered, proposals

name = "rdg"
options = OPTIONS


def propose(surveys: Iterable[CaseSurvey], options: Options) -> Iterator[Draft]:
    """A draft a slice worth showing; the perturbation is the recipe's."""
    return proposals(name, surveys, options)


def compose(draft: Draft, frames: Sequence[Frame], rng: np.random.Generator) -> Composed | Rejected:
    """The pair in random order; the answer is the tight box of the pixels that changed."""
    made = altered(draft, frames[0], None, rng)
    if isinstance(made, Rejected):
        return made
    place, target = int(rng.integers(2)), int(rng.integers(2))
    pair = [frames[0].image, frames[0].image]
    pair[place] = made.image
    return Composed(
        images=tuple(pair),
        origins=(0, 0),
        question=ask(name, rng, target=ordinal(target)),
        answer=made.box,
        answer_image=target,
        steps=tuple({**step, "image": place} for step in made.steps),
    )
