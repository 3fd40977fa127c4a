"""Task 8, rg: words for a structure, 2 or 3 pictures of unrelated anatomy; the words fit one.

A picture's body regions are those of the structures labelled on it and those its recipe declares.
Pictures go together only where no region of one is, or borders on, a region of another: a partly
labelled set may show far more than it labels.
"""

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..errors import UnknownName
from ..identity import rng_for, unit
from ..model import VIEWS, Box, CaseSurvey, Composed, Draft, Frame, FrameRef, Rejected
from ..questions import ask, name_words
from ..seams import Options
from ..vocabulary import structure as structure_named
from ..vocabulary import unrelated
from .choosing import objects, ranked, seen, single, spelled, well_shown

name = "rg"
options = {
    "views": ["axial", "coronal", "sagittal", "picture"],
    "length": [2, 3],
    "least_section": 0.25,
    "per_object": 4,
    "pool": 64,
}
"""`pool`: other pictures kept for each set of body regions."""


class Other(NamedTuple):
    """A picture that may stand beside another."""

    rank: float
    ref: FrameRef
    patient: str
    modality: str


class Wanted(NamedTuple):
    """An object that words can ask for."""

    ref: FrameRef
    box: Box
    structure: str
    component: int
    dataset: str
    patient: str
    modality: str
    regions: frozenset[str]


def propose(surveys: Iterable[CaseSurvey], options: Options) -> Iterator[Draft]:
    """Each well-shown object, beside one or two pictures of unrelated regions."""
    pools: dict[frozenset[str], list[Other]] = {}
    wanted: dict[str, list[tuple[float, Wanted]]] = {}
    most = max(4 * options.quota, 64)
    for survey in surveys:
        regions = _regions_by_frame(survey, options)
        _fill(pools, survey, regions, options)
        for found in _objects(survey, regions, options):
            rank = unit(options.seed, name, f"{found.structure}|{found.ref.spelled()}")
            held = wanted.setdefault(f"{found.dataset}/{found.structure}", [])
            heapq.heappush(held, (-rank, found))
            if len(held) > most:
                heapq.heappop(held)
    for stratum in sorted(wanted):
        for _, found in sorted(wanted[stratum], reverse=True):
            draft = _beside(found, stratum, pools, options)
            if draft is None:
                options.tally[
                    "no picture of unrelated anatomy", found.dataset, found.structure
                ] += 1
            else:
                yield draft


def _regions_by_frame(
    survey: CaseSurvey, options: Options
) -> dict[tuple[str, int], frozenset[str]]:
    """(view, number) -> body regions on view; frames whose regions are not known are left out."""
    named: list[frozenset[str] | None] = []
    for word in survey.structures:
        try:
            named.append(frozenset(structure_named(word).regions))
        except UnknownName:
            named.append(None)
            options.tally["not in the vocabulary", survey.case.dataset, word] += 1
    out: dict[tuple[str, int], set[str]] = {
        (view, number): set(survey.case.regions)
        for view, numbers in survey.frames.items()
        for number in numbers
    }
    unknown: set[tuple[str, int]] = set()
    shown = np.unique(survey.regions[["view", "number", "structure"]])
    for view, number, position in shown.tolist():
        there = named[position]
        if there is None:
            unknown.add((VIEWS[view], number))
        else:
            out.setdefault((VIEWS[view], number), set(survey.case.regions)).update(there)
    return {at: frozenset(there) for at, there in out.items() if there and at not in unknown}


def _fill(
    pools: dict[frozenset[str], list[Other]],
    survey: CaseSurvey,
    regions: dict[tuple[str, int], frozenset[str]],
    options: Options,
) -> None:
    """Add this case's lowest-ranked pictures to the pool of their regions."""
    case = survey.case
    for series in sorted(case.files):
        by_set: dict[frozenset[str], list[FrameRef]] = {}
        for (view, number), there in sorted(regions.items()):
            if view in options.values["views"]:
                by_set.setdefault(there, []).append(FrameRef(case.name, series, view, number))
        for there, refs in by_set.items():
            held = pools.setdefault(there, [])
            for ref in ranked(refs, 8, options, "beside", [ref.spelled() for ref in refs]):
                rank = unit(options.seed, "beside", ref.spelled())
                held.append(Other(rank, ref, case.patient, case.modality_of(series)))
            held.sort()
            del held[options.values["pool"] :]


def _objects(
    survey: CaseSurvey, regions: dict[tuple[str, int], frozenset[str]], options: Options
) -> Iterator[Wanted]:
    case, values = survey.case, options.values
    for view, structure, component, part in objects(survey, single(survey, options)):
        if view not in values["views"]:
            continue
        shown = [seen(survey, row) for row in well_shown(part, values["least_section"])]
        shown = [found for found in shown if (view, found.number) in regions]
        for series in sorted(case.files):
            refs = [FrameRef(case.name, series, view, found.number) for found in shown]
            keys = [ref.spelled() for ref in refs]
            for position in ranked(range(len(refs)), values["per_object"], options, name, keys):
                yield Wanted(
                    refs[position],
                    shown[position].box,
                    structure,
                    component,
                    case.dataset,
                    case.patient,
                    case.modality_of(series),
                    regions[view, shown[position].number],
                )


def _beside(
    found: Wanted, stratum: str, pools: dict[frozenset[str], list[Other]], options: Options
) -> Draft | None:
    """The draft for one object; None where no picture of unrelated anatomy is to be had."""
    rng = rng_for(options.seed, name, f"{found.structure}|{found.ref.spelled()}")
    least, most = options.values["length"]
    wished = int(rng.integers(least, most + 1))
    pictures, taken = [found.ref], [found.regions]
    patients = {found.patient}
    sets = sorted(pools, key=sorted)
    while len(pictures) < wished:
        open_sets = [s for s in sets if all(unrelated(s, other) for other in taken)]
        if not open_sets:
            break
        picked = open_sets[int(rng.integers(len(open_sets)))]
        other = pools[picked][int(rng.integers(len(pools[picked])))]
        pictures.append(other.ref)
        taken.append(picked)
        patients.add(other.patient)
    if len(pictures) < least:
        return None
    order = [int(i) for i in rng.permutation(len(pictures))]
    frames = tuple(pictures[i] for i in order)
    target = order.index(0)
    return Draft(
        task=name,
        key=spelled(name, options, frames, found.structure, found.component),
        stratum=stratum,
        dataset=found.dataset,
        patients=tuple(sorted(patients)),
        frames=frames,
        boxes=tuple(found.box if i == target else None for i in range(len(frames))),
        target=target,
        structure=found.structure,
        component=found.component,
        modality=found.modality,
    )


def compose(draft: Draft, frames: Sequence[Frame], rng: np.random.Generator) -> Composed | Rejected:
    """The pictures in the draft's order; the words do not say which of them is meant."""
    answer = draft.boxes[draft.target]
    if answer is None:
        return Rejected("no box on the asked picture")
    words = structure_named(draft.structure).say
    return Composed(
        images=tuple(frame.image for frame in frames),
        origins=tuple(range(len(frames))),
        question=ask(name, rng, name=name_words(words), count=len(frames)),
        answer=answer,
        answer_image=draft.target,
    )
