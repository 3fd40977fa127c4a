"""Task 5, vcg: a structure alone, cut out by its mask, then the whole picture to find it in.

The cut-out is centred and enlarged. Left in its place, as a masked copy of the target, its position
would be the answer.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from ..model import SIDE, Box, CaseSurvey, Composed, Draft, Frame, FrameRef, Pixels, Rejected
from ..questions import ask, ordinal
from ..regions import bounds
from ..seams import Options
from .choosing import objects, ranked, seen, single, spelled, well_shown

name = "vcg"
options = {
    "views": ["axial", "coronal", "sagittal", "picture"],
    "least_section": 0.25,
    "per_object": 3,
    "longest": 224,
    "least_grey": 20,
}
"""`least_section`: share of the object's largest section; `longest`: side of the cut-out in
pixels; `least_grey`: mean grey level below which it cannot be told from its black ground."""


def propose(surveys: Iterable[CaseSurvey], options: Options) -> Iterator[Draft]:
    """Some slices of every object on which it is well shown."""
    values = options.values
    for survey in surveys:
        case = survey.case
        for view, structure, component, part in objects(
            survey, single(survey, options, outlined=True)
        ):
            if view not in values["views"]:
                continue
            shown = [seen(survey, row) for row in well_shown(part, values["least_section"])]
            for series in sorted(case.files):
                refs = [FrameRef(case.name, series, view, found.number) for found in shown]
                keys = [ref.spelled() for ref in refs]
                for position in ranked(range(len(refs)), values["per_object"], options, name, keys):
                    yield Draft(
                        task=name,
                        key=spelled(name, options, [refs[position]], structure, component),
                        stratum=f"{case.dataset}/{structure}",
                        dataset=case.dataset,
                        patients=(case.patient,),
                        frames=(refs[position],),
                        boxes=(shown[position].box,),
                        target=0,
                        structure=structure,
                        component=component,
                        modality=case.modality_of(series),
                        masks=True,
                        options=values,
                    )


def compose(draft: Draft, frames: Sequence[Frame], rng: np.random.Generator) -> Composed | Rejected:
    """The cut-out first, the whole second; the answer is the structure's box in the second."""
    answer, mask = draft.boxes[0], frames[0].mask
    if answer is None or mask is None:
        return Rejected("no mask on the picture")
    made = cut_out(frames[0].image, mask, int(draft.options["longest"]))
    if made is None:
        return Rejected("the mask vanishes at 336 pixels")
    if frames[0].image[mask > 0].mean() < draft.options["least_grey"]:
        return Rejected("the cut-out is too dark to be seen")
    image, scale = made
    return Composed(
        images=(image, frames[0].image),
        origins=(0, 0),
        question=ask(name, rng, reference=ordinal(0), target=ordinal(1)),
        answer=answer,
        answer_image=1,
        steps=({"step": "cut-out", "image": 0, "scale": round(scale, 6), "placed": "centre"},),
    )


def cut_out(image: Pixels, mask: Pixels, longest: int) -> tuple[Pixels, float] | None:
    """The pixels of `image` under `mask`, on black, centred, the longer side `longest` pixels.

    Also the factor of enlargement. None where the mask holds fewer than four pixels.
    """
    import cv2

    box = bounds(mask)
    if box is None or int(np.count_nonzero(mask)) < 4:
        return None
    part = np.s_[box.y0 : box.y1, box.x0 : box.x1]
    scale = longest / max(box.width, box.height)
    size = (max(1, round(box.width * scale)), max(1, round(box.height * scale)))
    grown = cv2.resize(
        image[part], size, interpolation=cv2.INTER_LINEAR if scale > 1 else cv2.INTER_AREA
    )
    inside = cv2.resize(mask[part], size, interpolation=cv2.INTER_NEAREST_EXACT) > 0
    out = np.zeros(image.shape, np.uint8)
    place = Box((SIDE - size[0]) // 2, (SIDE - size[1]) // 2, 0, 0)
    window = out[place.y0 : place.y0 + size[1], place.x0 : place.x0 + size[0]]
    window[inside] = grown[inside]
    return out, scale
