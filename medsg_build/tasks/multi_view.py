"""Task 3, mv: one object in three orthogonal slices through one of its voxels (section 3.2.2).

The slices cross at the component's centroid where that lies inside it, else at a voxel deep within.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from ..identity import rng_for
from ..model import CaseSurvey, Composed, Draft, Frame, FrameRef, Rejected
from ..seams import Options
from ..standardise import slices_of
from .choosing import Seen, seen, single, spelled
from .pointing import pointed

name = "mv"
options = {"views": ["axial", "coronal", "sagittal"]}


def propose(surveys: Iterable[CaseSurvey], options: Options) -> Iterator[Draft]:
    """A draft for each component and each ordered pair of views (marked, asked)."""
    views = tuple(options.values["views"])
    for survey in surveys:
        if any(view not in survey.frames for view in views):
            continue
        at = {
            (found.structure, found.component, found.view, found.number): found
            for found in (seen(survey, row) for row in single(survey, options))
        }
        for (structure, component), voxel in sorted(survey.inside.items()):
            met = [at.get((structure, component, v, voxel[slices_of(v)])) for v in views]
            there = [found for found in met if found is not None]
            if len(there) < len(views):
                options.tally["not one object in all views", survey.case.dataset, structure] += 1
                continue
            for series in sorted(survey.case.files):
                yield from _pairs(survey, series, there, options)


def _pairs(survey: CaseSurvey, series: str, met: list[Seen], options: Options) -> Iterator[Draft]:
    case, first = survey.case, met[0]
    for marked_view in met:
        for asked_view in met:
            if marked_view is asked_view:
                continue
            refs = [FrameRef(case.name, series, found.view, found.number) for found in met]
            key = spelled(
                name, options, refs, first.structure, first.component,
                marked=marked_view.view, asked=asked_view.view,
            )  # fmt: skip
            order = rng_for(options.seed, "order", key).permutation(len(met))
            shown = [met[int(i)] for i in order]
            yield Draft(
                task=name,
                key=key,
                stratum=f"{case.dataset}/{first.structure}",
                dataset=case.dataset,
                patients=(case.patient,),
                frames=tuple(refs[int(i)] for i in order),
                boxes=tuple(found.box for found in shown),
                target=shown.index(asked_view),
                reference=shown.index(marked_view),
                structure=first.structure,
                component=first.component,
                modality=case.modality_of(series),
            )


def compose(draft: Draft, frames: Sequence[Frame], rng: np.random.Generator) -> Composed | Rejected:
    """The views in the draft's order, the object marked in one and asked for in another."""
    return pointed(name, draft, frames, rng)
