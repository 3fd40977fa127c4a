"""What the tasks with a marked object share: one picture with the red rectangle, another asked."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..model import Box, Composed, Draft, Frame, Pixels, Rejected
from ..questions import ask, box_words, ordinal

RED = (255, 0, 0)


def marked(image: Pixels, box: Box) -> Pixels:
    """`image` in colour with the red rectangle of `box`; its outer edge is the box itself.

    Two pixels wide; one where two would hide most of a small object.
    """
    out: Pixels = np.stack([image] * 3, axis=2) if image.ndim == 2 else image.copy()
    width = line_width(box)
    ring = out[box.y0 : box.y1, box.x0 : box.x1]
    ring[:width] = ring[-width:] = RED
    ring[:, :width] = ring[:, -width:] = RED
    return out


def line_width(box: Box) -> int:
    """Pixels of the rectangle's line."""
    return 2 if min(box.width, box.height) >= 24 else 1


def rectangle_step(image: int, box: Box) -> Mapping[str, Any]:
    """What `marked` did, for the provenance."""
    return {
        "step": "rectangle",
        "image": image,
        "box": list(box),
        "colour": list(RED),
        "width": line_width(box),
    }


def pointed(
    task: str, draft: Draft, frames: Sequence[Frame], rng: np.random.Generator
) -> Composed | Rejected:
    """A sample whose object is marked in the reference picture and asked for in the target."""
    given, answer = draft.boxes[draft.reference], draft.boxes[draft.target]
    if given is None or answer is None:
        return Rejected("no box on the marked or the asked picture")
    images = [frame.image for frame in frames]
    images[draft.reference] = marked(images[draft.reference], given)
    return Composed(
        images=tuple(images),
        origins=tuple(range(len(images))),
        question=ask(
            task,
            rng,
            reference=ordinal(draft.reference),
            target=ordinal(draft.target),
            box=box_words(given),
            count=len(images),
        ),
        answer=answer,
        answer_image=draft.target,
        steps=(rectangle_step(draft.reference, given),),
        reference=given,
        reference_image=draft.reference,
    )
