"""Quotas, splits, ids; a draft to a released sample with its provenance."""

import hashlib
import heapq
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .cases import load_frame
from .identity import rng_for, sample_id, unit
from .model import (
    SIDE,
    TASKS,
    Box,
    Composed,
    Draft,
    Frame,
    FrameRef,
    Order,
    Pixels,
    Rejected,
    Sample,
)
from .seams import find
from .store import write_png


def choose(drafts: Iterable[Draft], seed: int, quota: int) -> list[Draft]:
    """The drafts in the order in which they fill a quota: strata in turn, each by rising rank.

    A draft's rank is a fixed number of its key, a stratum's place a fixed number of its name: the
    first n of the list are the same whatever `quota` is, and a new dataset displaces single drafts.
    Holds at most 2 x `quota` + 32 drafts a stratum.
    """
    most = 2 * quota + 32
    held: dict[str, dict[str, tuple[float, Draft]]] = {}
    ranks: dict[str, list[tuple[float, str]]] = {}
    for draft in drafts:
        there = held.setdefault(draft.stratum, {})
        if draft.key in there:
            continue
        rank = unit(seed, "quota", draft.key)
        queue = ranks.setdefault(draft.stratum, [])
        there[draft.key] = (rank, draft)
        heapq.heappush(queue, (-rank, draft.key))
        if len(queue) > most:
            del there[heapq.heappop(queue)[1]]
    strata = sorted(held, key=lambda name: (unit(seed, "stratum", name), name))
    columns = [
        sorted(held[name].values(), key=lambda pair: (pair[0], pair[1].key)) for name in strata
    ]
    longest = max((len(column) for column in columns), default=0)
    return [column[turn][1] for turn in range(longest) for column in columns if turn < len(column)]


def split_of(patient: str, splits: Mapping[str, float], seed: int) -> str:
    """The split of a patient: a fixed number of the name, so that no patient is in two."""
    place = unit(seed, "split", patient)
    total = 0.0
    for name, share in splits.items():
        total += share
        if place < total:
            return name
    return list(splits)[-1]


def common_split(
    draft: Draft, splits: Mapping[str, float], seed: int, tally: Counter[tuple[str, str, str]]
) -> str | None:
    """The split of all the draft's patients; None, and a tally, where they differ."""
    names = {split_of(patient, splits, seed) for patient in draft.patients}
    if len(names) == 1:
        return names.pop()
    tally["patients of two splits", draft.dataset, draft.structure] += 1
    return None


@dataclass(frozen=True, slots=True)
class FrameFacts:
    """What the provenance says of a frame's source. `file` is relative to the dataset's folder."""

    dataset: str
    modality: str
    licence: str
    file: str
    sha256: str


@dataclass(frozen=True, slots=True)
class ComposeJob:
    """One draft to compose, with the facts of its frames in the draft's order."""

    draft: Draft
    facts: tuple[FrameFacts, ...]
    split: str


@dataclass(frozen=True, slots=True)
class Composer:
    """Turns a `ComposeJob` into a `Sample` and its pictures under `out/images`."""

    out: Path
    frames: Path
    seed: int
    recipe: str
    version: str

    def __call__(self, job: ComposeJob) -> Sample | Rejected:
        """The sample, its pictures written; or why it could not be made.

        Raises `SourceError` where a frame was not developed.
        """
        draft = job.draft
        orders = frame_orders(draft)
        frames = [load_frame(self.frames, order) for order in orders]
        made = compose(draft, frames, self.seed)
        if isinstance(made, Rejected):
            return made
        name = sample_id(draft.key)
        files = image_names(draft, job.facts, made, name)
        for file, image in zip(files, made.images, strict=True):
            write_png(self.out / file, image)
        return Sample(
            name,
            draft.task,
            job.split,
            _record(draft, made, files, name),
            self._provenance(job, frames, made, files, name),
        )

    def _provenance(
        self, job: ComposeJob, frames: list[Frame], made: Composed, files: list[str], name: str
    ) -> dict[str, Any]:
        draft = job.draft
        return {
            "id": name,
            "task": draft.task,
            "split": job.split,
            "key": draft.key,
            "seed": self.seed,
            "recipe": self.recipe,
            "version": self.version,
            "datasets": sorted({f.dataset for f in job.facts}),
            "patients": list(draft.patients),
            "modality": draft.modality,
            "structure": draft.structure,
            "component": draft.component,
            "licences": sorted({f.licence for f in job.facts}),
            "frames": [
                {
                    **frame.ref._asdict(),
                    "modality": facts.modality,
                    "file": facts.file,
                    "sha256": facts.sha256,
                    "matrix": np.round(frame.matrix, 9).tolist(),
                    "pixels": pixel_digest(frame.image),
                    "steps": list(frame.steps),
                }
                for frame, facts in zip(frames, job.facts, strict=True)
            ],
            "images": [
                {"file": file, "origin": origin, "pixels": pixel_digest(image)}
                for file, origin, image in zip(files, made.origins, made.images, strict=True)
            ],
            "answer": {"image": made.answer_image, "box": list(made.answer)},
            "reference": (
                {
                    "image": made.reference_image,
                    "box": list(made.reference) if made.reference else None,
                }
                if made.reference_image >= 0
                else None
            ),
            "steps": [dict(step) for step in made.steps],
            "draft": as_row(draft),
        }


def compose(draft: Draft, frames: list[Frame], seed: int) -> Composed | Rejected:
    """What the draft's task makes of its frames, all chance drawn from the draft's key."""
    made: Composed | Rejected = find("tasks", draft.task).compose(
        draft, frames, rng_for(seed, draft.task, draft.key)
    )
    return made


def frame_orders(draft: Draft) -> list[Order]:
    """What has to be developed for a draft, in the order of its frames."""
    return [
        Order(
            ref,
            draft.structure if draft.masks and position == draft.target else "",
            draft.margin,
        )
        for position, ref in enumerate(draft.frames)
    ]


def image_names(
    draft: Draft, facts: tuple[FrameFacts, ...], made: Composed, name: str
) -> list[str]:
    """Unique, short, ASCII; they say task, modality and place, and nothing of the answer."""
    number = TASKS[draft.task][0]
    return [
        f"images/Task{number}/{draft.task}_{facts[origin].modality}_{name}_{place}.png"
        for place, origin in enumerate(made.origins, 1)
    ]


def _record(draft: Draft, made: Composed, files: list[str], name: str) -> dict[str, Any]:
    """A row of `TaskN.json` in the published keys, and `id` and `answer_image` of ours."""
    out: dict[str, Any] = {
        "task": TASKS[draft.task][1],
        "images": files,
        "question": made.question,
        "answer": made.answer.published(),
        "additional_info": "",
        "need_format": True,
    }
    if draft.task == "mv":
        out["size"] = [SIDE, SIDE]
    return {**out, "id": name, "answer_image": made.answer_image}


def pixel_digest(image: Pixels) -> str:
    """SHA-256 of the picture as released: (336, 336, 3) uint8, row by row."""
    rgb = np.stack([image] * 3, axis=2) if image.ndim == 2 else image
    return hashlib.sha256(np.ascontiguousarray(rgb).tobytes()).hexdigest()


def as_row(draft: Draft) -> dict[str, Any]:
    """A draft as a line of `plan.jsonl`; `draft_of` reads it back."""
    return {
        **{name: getattr(draft, name) for name in _PLAIN},
        "patients": list(draft.patients),
        "frames": [list(ref) for ref in draft.frames],
        "boxes": [list(box) if box else None for box in draft.boxes],
        "options": dict(draft.options),
    }


def draft_of(row: Mapping[str, Any]) -> Draft:
    """The draft that `as_row` wrote."""
    return Draft(
        **{name: row[name] for name in _PLAIN},
        patients=tuple(row["patients"]),
        frames=tuple(FrameRef(*ref) for ref in row["frames"]),
        boxes=tuple(Box(*box) if box else None for box in row["boxes"]),
        options=row["options"],
    )


_PLAIN = (
    "task", "key", "stratum", "dataset", "target", "reference", "structure", "component",
    "modality", "masks", "margin",
)  # fmt: skip
