"""Task 7, cmg: a region marked in the first picture, asked for in another contrast or modality.

Two strata: the same slice in the other series of one case, and the same structure in another
modality, which is another patient (as the published pairs of CT and MRI spleen are).
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..identity import rng_for, unit
from ..model import Box, CaseSurvey, Composed, Draft, Frame, FrameRef, Rejected
from ..seams import Options
from .choosing import Seen, objects, seen, single, spelled, well_shown
from .pointing import pointed

name = "cmg"
options = {
    "views": ["axial", "picture"],
    "length": [2, 4],
    "least_section": 0.5,
    "pool": 32,
    "per_object": 4,
    "skip": ["SmallBowel", "Colon", "Duodenum"],
}
"""`skip`: structures whose sections in two patients have nothing in common; `pool`: candidates kept
a structure and modality, so that memory stays O(quota)."""


class Candidate(NamedTuple):
    """One object on one slice, as a partner for another modality."""

    rank: float
    ref: FrameRef
    box: Box
    dataset: str
    patient: str
    modality: str
    component: int


def propose(surveys: Iterable[CaseSurvey], options: Options) -> Iterator[Draft]:
    """Pairs within a case as they come; pairs across cases from a bounded, ranked pool."""
    pools: dict[tuple[str, str], dict[str, list[Candidate]]] = {}
    for survey in surveys:
        case = survey.case
        for view, structure, component, part in objects(survey, single(survey, options)):
            if view not in options.values["views"] or structure in options.values["skip"]:
                continue
            shown = [seen(survey, r) for r in well_shown(part, options.values["least_section"])]
            if len(case.files) > 1:
                yield from _contrasts(survey, shown, options)
            for series in sorted(case.files):
                modality = case.modality_of(series)
                held = pools.setdefault((structure, view), {}).setdefault(modality, [])
                for found in shown:
                    ref = FrameRef(case.name, series, view, found.number)
                    rank = unit(options.seed, name, f"{structure}|{ref.spelled()}")
                    held.append(
                        Candidate(
                            rank, ref, found.box, case.dataset, case.patient, modality, component
                        )
                    )
                held.sort()
                del held[options.values["pool"] :]
    for (structure, _), by_modality in sorted(pools.items()):
        if len(by_modality) > 1:
            yield from _modalities(structure, by_modality, options)


def _contrasts(survey: CaseSurvey, shown: list[Seen], options: Options) -> Iterator[Draft]:
    case = survey.case
    every = sorted(case.files)
    for found in shown[: options.values["per_object"]]:
        word = f"{case.name}/{found.view}/{found.number}/{found.structure}#{found.component}"
        rng = rng_for(options.seed, "contrast", word)
        order = [every[int(i)] for i in rng.permutation(len(every))]
        series = order[: int(rng.integers(2, min(options.values["length"][1], len(order)) + 1))]
        target = int(rng.integers(1, len(series)))
        refs = [FrameRef(case.name, s, found.view, found.number) for s in series]
        yield Draft(
            task=name,
            key=spelled(name, options, refs, found.structure, found.component, asked=target),
            stratum=f"contrast/{case.dataset}/{found.structure}",
            dataset=case.dataset,
            patients=(case.patient,),
            frames=tuple(refs),
            boxes=(found.box,) * len(refs),
            target=target,
            reference=0,
            structure=found.structure,
            component=found.component,
            modality=case.modality_of(series[0]),
        )


def _modalities(
    structure: str, by_modality: dict[str, list[Candidate]], options: Options
) -> Iterator[Draft]:
    least, most = options.values["length"]
    for modality, held in sorted(by_modality.items()):
        for first in held:
            for variant in range(options.values["per_object"]):
                word = f"{structure}|{first.ref.spelled()}|{variant}"
                rng = rng_for(options.seed, "modality", word)
                others = [m for m in sorted(by_modality) if m != modality]
                order = [others[int(i)] for i in rng.permutation(len(others))]
                count = int(rng.integers(least, min(most, len(order) + 1) + 1))
                partners = [
                    by_modality[m][int(rng.integers(len(by_modality[m])))]
                    for m in order[: count - 1]
                ]
                shown = [first, *partners]
                target = int(rng.integers(1, len(shown)))
                refs = [c.ref for c in shown]
                yield Draft(
                    task=name,
                    key=spelled(name, options, refs, structure, asked=target),
                    stratum=f"modality/{modality}>{shown[target].modality}/{structure}",
                    dataset=first.dataset,
                    patients=tuple(sorted({c.patient for c in shown})),
                    frames=tuple(refs),
                    boxes=tuple(c.box for c in shown),
                    target=target,
                    reference=0,
                    structure=structure,
                    component=first.component,
                    modality=modality,
                )


def compose(draft: Draft, frames: Sequence[Frame], rng: np.random.Generator) -> Composed | Rejected:
    """The marked picture first, the others in the draft's order."""
    return pointed(name, draft, frames, rng)
