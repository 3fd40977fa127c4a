"""Task 6, vpg: a picture, then patches of it; the place of one is asked for.

The paper samples 15 patches a picture and keeps up to five by hand, "based on foreground richness".
Ours is a measure. **Richness** of a patch, between 0 and 1, is
`0.4 edges + 0.4 texture + 0.2 labels`: `edges` is the share of pixels whose Sobel gradient exceeds
40 grey levels (a third counts as full), `texture` the mean standard deviation in 7 x 7 windows
(24 levels count as full), `labels` the number of labelled structures whose border crosses the patch
(four count as full). A patch that is mostly air, or poorer than the recipe's floor, is never kept.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..model import SIDE, VIEWS, Box, CaseSurvey, Composed, Draft, Frame, FrameRef, Pixels, Rejected
from ..questions import ask, ordinal
from ..regions import body
from ..seams import Options
from .choosing import ranked, spelled

name = "vpg"
options = {
    "frames_per_case": 40,
    "sampled": 15,
    "kept": 5,
    "side": [40, 120],
    "most_overlap": 1 / 3,
    "least_richness": 0.25,
    "least_body": 0.6,
    "shown": "enlarged",
}
"""`side`: least and most pixels; `most_overlap`: of the smaller of two kept patches; `shown`:
`enlarged` to 336 pixels, or `as is`, centred on black."""


def propose(surveys: Iterable[CaseSurvey], options: Options) -> Iterator[Draft]:
    """A draft for the lowest-ranked slices of every series; labelled boxes go with it."""
    for survey in surveys:
        case = survey.case
        for series in sorted(case.files):
            refs = [
                FrameRef(case.name, series, view, number)
                for view in sorted(survey.frames)
                for number in survey.frames[view]
            ]
            keys = [ref.spelled() for ref in refs]
            for ref in ranked(refs, options.values["frames_per_case"], options, name, keys):
                yield Draft(
                    task=name,
                    key=spelled(name, options, [ref]),
                    stratum=f"{case.dataset}/{series}/{ref.view}",
                    dataset=case.dataset,
                    patients=(case.patient,),
                    frames=(ref,),
                    boxes=(None,),
                    target=0,
                    modality=case.modality_of(series),
                    options={**options.values, "labelled": _labelled(survey, ref)},
                )


def _labelled(survey: CaseSurvey, ref: FrameRef) -> list[list[int]]:
    rows = survey.regions
    here = rows[(rows["view"] == VIEWS.index(ref.view)) & (rows["number"] == ref.number)]
    return [list(survey.region(row).box) for row in here]


def compose(draft: Draft, frames: Sequence[Frame], rng: np.random.Generator) -> Composed | Rejected:
    """The picture, then its patches from the richest on, shuffled; one of them is asked for."""
    image, values = frames[0].image, draft.options
    found = kept(image, [Box(*b) for b in values["labelled"]], values, rng)
    if not found:
        return Rejected("no patch is rich enough")
    shuffled = [found[int(i)] for i in rng.permutation(len(found))]
    asked = int(rng.integers(len(shuffled)))
    return Composed(
        images=(image, *(patch_picture(image, box, values["shown"]) for box, _ in shuffled)),
        origins=(0,) * (1 + len(shuffled)),
        question=ask(name, rng, reference=ordinal(asked + 1), target=ordinal(0)),
        answer=shuffled[asked][0],
        answer_image=0,
        steps=tuple(
            {
                "step": "patch",
                "image": position,
                "box": list(box),
                "richness": round(rich, 4),
                "shown": values["shown"],
            }
            for position, (box, rich) in enumerate(shuffled, 1)
        ),
        reference_image=asked + 1,
    )


def kept(
    image: Pixels, labelled: Sequence[Box], values: Mapping[str, Any], rng: np.random.Generator
) -> list[tuple[Box, float]]:
    """Up to `kept` of `sampled` square patches with their richness, the richest first."""
    inside = body(image)
    edges, texture = _maps(image)
    drawn: list[tuple[float, int, Box]] = []
    for number in range(values["sampled"]):
        low, high = values["side"]
        side = int(rng.integers(low, high + 1))
        x, y = (int(v) for v in rng.integers(0, SIDE - side + 1, 2))
        box = Box(x, y, x + side, y + side)
        part = np.s_[box.y0 : box.y1, box.x0 : box.x1]
        crossed = sum(box.overlap(b) > 0 and not b.contains(box) for b in labelled)
        rich = (
            0.4 * min(1.0, float(edges[part].mean()) * 3)
            + 0.4 * min(1.0, float(texture[part].mean()) / 24)
            + 0.2 * min(1.0, crossed / 4)
        )
        if inside[part].mean() >= values["least_body"] and rich >= values["least_richness"]:
            drawn.append((-rich, number, box))
    out: list[tuple[Box, float]] = []
    for rich, _, box in sorted(drawn):
        if len(out) < values["kept"] and all(
            box.overlap(other) <= values["most_overlap"] * min(box.area, other.area)
            for other, _ in out
        ):
            out.append((box, -rich))
    return out


def _maps(image: Pixels) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Where a gradient is steep (bool), and the local standard deviation, both (336, 336)."""
    import cv2

    grey = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) if image.ndim == 3 else image
    plain = grey.astype(np.float32)
    gradient = cv2.magnitude(
        cv2.Sobel(plain, cv2.CV_32F, 1, 0, scale=0.25),
        cv2.Sobel(plain, cv2.CV_32F, 0, 1, scale=0.25),
    )
    mean = cv2.blur(plain, (7, 7))
    variance = np.maximum(cv2.blur(plain * plain, (7, 7)) - mean * mean, 0)
    return gradient > 40, np.sqrt(variance)


def patch_picture(image: Pixels, box: Box, shown: str) -> Pixels:
    """The patch as a picture of its own (336, 336[, 3]): enlarged, or at its size on black."""
    import cv2

    part = image[box.y0 : box.y1, box.x0 : box.x1]
    if shown == "enlarged":
        return np.asarray(cv2.resize(part, (SIDE, SIDE), interpolation=cv2.INTER_LINEAR), np.uint8)
    out = np.zeros(image.shape, np.uint8)
    left, top = (SIDE - box.width) // 2, (SIDE - box.height) // 2
    out[top : top + box.height, left : left + box.width] = part
    return out
