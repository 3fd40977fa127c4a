"""Boxes to numbers: the published arithmetic and the means made of it.

Corners are continuous coordinates and areas have no + 1, as in the official evaluator, although
the released boxes name their last pixel. Rejected: + 1 areas, which would be truer to such boxes
but match no published figure.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

Corners = tuple[float, float, float, float]
"""x1, y1, x2, y2 as written, in pixels: x to the right, y down, not clipped, not reordered."""

Summary = dict[str, float]
"""`mean_iou`, `acc_0.3`, `acc_0.5`, `acc_0.7` in [0, 1]; `n` and `parsed` are counts."""

THRESHOLDS = (0.3, 0.5, 0.7)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one sample came to. `parsed`: a box was read from the answer."""

    task: str
    iou: float
    parsed: bool


def iou(predicted: Sequence[float], gold: Sequence[float]) -> float:
    """Intersection over union of two boxes `x1, y1, x2, y2`; in [0, 1], never NaN.

    A box with inverted corners overlaps nothing, and two boxes without area have no overlap to
    speak of: 0.
    """
    left, top = max(predicted[0], gold[0]), max(predicted[1], gold[1])
    right, bottom = min(predicted[2], gold[2]), min(predicted[3], gold[3])
    if right < left or bottom < top:
        return 0.0
    both = (right - left) * (bottom - top)
    union = _area(predicted) + _area(gold) - both
    ratio = both / union if union else 0.0
    return ratio if 0.0 <= ratio <= 1.0 else 0.0  # not so where numbers are NaN or overflow


def _area(box: Sequence[float]) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def summary(rows: Iterable[Outcome]) -> Summary:
    """The means over samples (micro). The order of rows cannot change a digit.

    Raises `ValueError` where there are no rows: nothing has no mean.
    """
    rows = list(rows)
    if not rows:
        raise ValueError("no rows to summarise")
    count = len(rows)
    return {
        "mean_iou": math.fsum(row.iou for row in rows) / count,
        **{f"acc_{at}": sum(row.iou >= at for row in rows) / count for at in THRESHOLDS},
        "n": count,
        "parsed": sum(row.parsed for row in rows),
    }


def by_task(rows: Iterable[Outcome]) -> dict[str, Summary]:
    """One summary a task, for the tasks that occur, in the order they first occur."""
    groups: dict[str, list[Outcome]] = {}
    for row in rows:
        groups.setdefault(row.task, []).append(row)
    return {task: summary(group) for task, group in groups.items()}


def macro(tasks: Mapping[str, Summary]) -> Summary:
    """The plain mean of the tasks' figures, each task weighing the same; `n`, `parsed` are sums."""
    counts = ("n", "parsed")
    return {
        key: math.fsum(each[key] for each in tasks.values()) / len(tasks)
        if key not in counts
        else sum(each[key] for each in tasks.values())
        for key in next(iter(tasks.values()))
    }
