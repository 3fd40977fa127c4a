"""What both difference tasks share: frames worth altering, and one local change that is visible."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..model import Box, CaseSurvey, Draft, Frame, FrameRef, Pixels, Rejected
from ..regions import body, changed
from ..seams import Options, find
from .choosing import ranked, spelled

OPTIONS: Mapping[str, Any] = {
    "perturbation": "cutpaste",
    "parameters": {},
    "frames_per_case": 40,
    "tries": 8,
    "least_change": 12,
    "least_share": 0.3,
}
"""`least_change`: mean grey levels of change in the box; `least_share`: share of the box's pixels
that change by more than 4 levels. Below either, a person would not see the difference."""


@dataclass(frozen=True, slots=True, eq=False)
class Altered:
    """A changed picture, the tight box of its changed pixels, and what was done."""

    image: Pixels
    box: Box
    steps: tuple[Mapping[str, Any], ...]


def proposals(
    task: str, surveys: Iterable[CaseSurvey], options: Options, margin: int = 0
) -> Iterator[Draft]:
    """A draft for the lowest-ranked slices of every series and view, its frame with `margin`."""
    for survey in surveys:
        case = survey.case
        for series in sorted(case.files):
            refs = [
                FrameRef(case.name, series, view, number)
                for view in sorted(survey.frames)
                for number in survey.frames[view]
            ]
            keys = [ref.spelled() for ref in refs]
            for ref in ranked(refs, options.values["frames_per_case"], options, task, keys):
                yield Draft(
                    task=task,
                    key=spelled(
                        task, options, [ref], perturbation=options.values["perturbation"],
                        parameters=options.values["parameters"],
                    ),
                    stratum=f"{case.dataset}/{series}/{ref.view}",
                    dataset=case.dataset,
                    patients=(case.patient,),
                    frames=(ref,),
                    boxes=(None,),
                    target=-1,
                    modality=case.modality_of(series),
                    margin=margin,
                    options=options.values,
                )  # fmt: skip


def altered(
    draft: Draft, frame: Frame, allowed: NDArray[np.bool_] | None, rng: np.random.Generator
) -> Altered | Rejected:
    """One visible change of the picture inside its body and inside `allowed`, as large."""
    change = find("perturbations", draft.options["perturbation"])
    where = body(frame.image)
    if allowed is not None:
        where &= allowed
    if where.mean() < 0.05:
        return Rejected("too little body in the picture")
    reason = "no place for the change"
    for _ in range(draft.options["tries"]):
        made = change(frame.image, where, rng, draft.options["parameters"])
        if made is None:
            continue
        image, step = made
        box = changed(frame.image, image)
        if box is None or not visible(frame.image, image, box, draft.options):
            reason = "the change cannot be seen"
            continue
        return Altered(image, box, (step,))
    return Rejected(reason)


def visible(before: Pixels, after: Pixels, box: Box, options: Mapping[str, Any]) -> bool:
    """Whether the change is large enough on average and covers enough of its box."""
    part = np.s_[box.y0 : box.y1, box.x0 : box.x1]
    gap = np.abs(before[part].astype(np.int16) - after[part].astype(np.int16))
    if gap.ndim == 3:
        gap = gap.max(axis=2)
    return bool(
        gap.mean() >= options["least_change"] and (gap > 4).mean() >= options["least_share"]
    )
