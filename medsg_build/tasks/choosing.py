"""What the tasks share before pixels are seen: single objects on slices, keys, strata, ranks."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..identity import unit
from ..model import VIEWS, Box, CaseSurvey, FrameRef
from ..seams import Options

SECOND = 0.1
"""A second piece above this share of the first makes a question about one object ambiguous."""

REACH = 90
"""The largest piece must make up this percentage of the box, so that a speck cannot stretch it."""


class Seen(NamedTuple):
    """One object, alone of its structure, on one slice of one case."""

    view: str
    number: int
    structure: str
    component: int
    box: Box
    pixels: int


def single(survey: CaseSurvey, options: Options, outlined: bool = False) -> NDArray[np.void]:
    """The rows (m,) of `REGION_DTYPE` that a single-box question can ask for.

    One row a structure and slice, its box around all that is labelled there, by the policy of the
    structure: `one` drops slices with a second piece, `union` keeps them, `largest` keeps the
    largest component alone. Boxes under the least side are dropped, and, with `outlined`,
    structures of which only a box is known. Each drop is tallied.
    """
    rows = survey.regions
    if outlined and survey.boxed:
        bare = np.array([name in survey.boxed for name in survey.structures])[rows["structure"]]
        _count(survey, options, "a box without an outline", rows[bare])
        rows = rows[~bare]
    if not len(rows):
        return rows
    order = np.lexsort((-rows["first"], rows["structure"], rows["number"], rows["view"]))
    rows = rows[order]
    new = np.ones(len(rows), bool)
    new[1:] = np.any([rows[n][1:] != rows[n][:-1] for n in ("view", "number", "structure")], axis=0)
    starts = np.flatnonzero(new)
    out = rows[starts].copy()
    policies = np.array([survey.case.reading.policy.get(s, "one") for s in survey.structures])
    policy = policies[out["structure"]] if len(policies) else np.array([], str)
    together = out.copy()
    for name, ufunc in (
        ("x0", np.minimum),
        ("y0", np.minimum),
        ("x1", np.maximum),
        ("y1", np.maximum),
    ):
        together[name] = ufunc.reduceat(rows[name], starts)
    together["pixels"] = np.add.reduceat(rows["pixels"], starts)
    rivals = np.where(new, rows["second"], rows["first"])
    second = np.maximum.reduceat(rivals, starts)
    reach = out["reach"] * _areas(out) / np.maximum(_areas(together), 1)
    ambiguous = (policy == "one") & ((second > SECOND * out["first"]) | (reach < REACH))
    merged = policy != "largest"
    out[merged] = together[merged]
    least = options.least_side
    small = (out["x1"] - out["x0"] < least) | (out["y1"] - out["y0"] < least)
    _count(survey, options, "several pieces on the slice", out[ambiguous])
    _count(survey, options, "box under the least side", out[small & ~ambiguous])
    kept: NDArray[np.void] = out[~ambiguous & ~small]
    return kept


def _areas(rows: NDArray[np.void]) -> NDArray[np.float64]:
    areas: NDArray[np.float64] = (rows["x1"].astype(np.float64) - rows["x0"]) * (
        rows["y1"].astype(np.float64) - rows["y0"]
    )
    return areas


def _count(survey: CaseSurvey, options: Options, reason: str, rows: NDArray[np.void]) -> None:
    positions, counts = np.unique(rows["structure"], return_counts=True)
    for position, count in zip(positions, counts, strict=True):
        structure = survey.structures[int(position)]
        options.tally[reason, survey.case.dataset, structure] += int(count)


def seen(survey: CaseSurvey, row: NDArray[np.void]) -> Seen:
    """A row of `single` in words."""
    found = survey.region(row)
    return Seen(found.view, found.number, found.structure, found.component, found.box, found.pixels)


def objects(
    survey: CaseSurvey, rows: NDArray[np.void]
) -> Iterator[tuple[str, str, int, NDArray[np.void]]]:
    """View, structure, component, and that object's rows by rising slice number."""
    order = np.lexsort((rows["number"], rows["component"], rows["structure"], rows["view"]))
    rows = rows[order]
    keys = np.stack([rows["view"], rows["structure"], rows["component"]], axis=1)
    ends = (
        np.flatnonzero((keys[1:] != keys[:-1]).any(axis=1)) + 1 if len(rows) else np.array([], int)
    )
    for part in np.split(rows, ends) if len(rows) else ():
        view, structure = VIEWS[int(part[0]["view"])], survey.structures[int(part[0]["structure"])]
        yield view, structure, int(part[0]["component"]), part


def well_shown(part: NDArray[np.void], share: float) -> NDArray[np.void]:
    """The rows of one object on which it is at least `share` of its largest section."""
    kept: NDArray[np.void] = part[part["pixels"] >= share * part["pixels"].max()]
    return kept


def ranked(
    items: Sequence[Any], most: int, options: Options, purpose: str, keys: Sequence[str]
) -> list[Any]:
    """The `most` items lowest by their own fixed number, in that order."""
    order = sorted(range(len(items)), key=lambda i: (unit(options.seed, purpose, keys[i]), keys[i]))
    return [items[i] for i in order[:most]]


def spelled(
    task: str,
    options: Options,
    frames: Sequence[FrameRef],
    structure: str = "",
    component: int = 0,
    **words: Any,
) -> str:
    """The key of a draft: its whole content in one line, so that its digest can be its name."""
    said: Mapping[str, Any] = {**words, "seed": options.seed}
    return "|".join(
        [
            task,
            "+".join(frame.spelled() for frame in frames),
            f"{structure}#{component}",
            ";".join(f"{name}={said[name]}" for name in sorted(said)),
        ]
    )
