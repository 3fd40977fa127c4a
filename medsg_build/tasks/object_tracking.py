"""Task 4, ot: 2 to 6 ordered slices of one object, marked in one, asked for in another.

All slices show the same 3D component (section 3.2.2: tracking across slices along a fixed axis).
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ..identity import rng_for
from ..model import CaseSurvey, Composed, Draft, Frame, FrameRef, Rejected
from ..seams import Options
from .choosing import objects, seen, single, spelled
from .pointing import pointed

name = "ot"
options = {
    "views": ["axial", "coronal", "sagittal", "picture"],
    "length": [2, 6],
    "longest_step": 4,
    "most_overlap": 0.8,
    "per_object": 4,
}
"""`most_overlap`: IoU of the marked and the asked box above which copying the box would do."""


def propose(surveys: Iterable[CaseSurvey], options: Options) -> Iterator[Draft]:
    """Some windows of every object that is long enough, forwards and backwards."""
    for survey in surveys:
        rows = single(survey, options)
        for view, structure, _, part in objects(survey, rows):
            if view not in options.values["views"] or len(part) < options.values["length"][0]:
                continue
            for series in sorted(survey.case.files):
                for variant in range(options.values["per_object"]):
                    draft = _window(survey, series, view, part, variant, options)
                    if draft is not None:
                        yield draft
                    else:
                        options.tally["box hardly moves", survey.case.dataset, structure] += 1


def _window(
    survey: CaseSurvey,
    series: str,
    view: str,
    part: NDArray[np.void],
    variant: int,
    options: Options,
) -> Draft | None:
    """One window of an object, drawn from its name; None where its box hardly moves."""
    case, values = survey.case, options.values
    numbers = [int(n) for n in part["number"]]
    first = seen(survey, part[0])
    word = f"{case.name}/{series}/{view}/{first.structure}#{first.component}/{variant}"
    rng = rng_for(options.seed, name, word)
    least, most = values["length"]
    length = int(rng.integers(least, min(most, len(numbers)) + 1))
    step = int(rng.integers(1, min(values["longest_step"], (len(numbers) - 1) // (length - 1)) + 1))
    start = int(rng.integers(len(numbers) - (length - 1) * step))
    # Steps count slices that show the object as one piece; others are passed over.
    picked = numbers[start : start + (length - 1) * step + 1 : step]
    at = dict(zip(numbers, part, strict=True))
    if rng.integers(2):
        picked.reverse()
    order = rng.permutation(len(picked))
    reference, target = int(order[0]), int(order[1])
    boxes = [seen(survey, at[number]).box for number in picked]
    if boxes[reference].iou(boxes[target]) > values["most_overlap"]:
        return None
    refs = [FrameRef(case.name, series, view, number) for number in picked]
    return Draft(
        task=name,
        key=spelled(
            name, options, refs, first.structure, first.component, marked=reference, asked=target
        ),
        stratum=f"{case.dataset}/{first.structure}",
        dataset=case.dataset,
        patients=(case.patient,),
        frames=tuple(refs),
        boxes=tuple(boxes),
        target=target,
        reference=reference,
        structure=first.structure,
        component=first.component,
        modality=case.modality_of(series),
    )


def compose(draft: Draft, frames: Sequence[Frame], rng: np.random.Generator) -> Composed | Rejected:
    """The slices in order, the object marked in one and asked for in another."""
    return pointed(name, draft, frames, rng)
