"""From a release and a model's answers to the figures that are printed.

Every gold sample counts: one without an answer, or whose answer holds no box, has IoU 0 and stays
in the denominator, so leaving out what is hard cannot raise a score. Answers to unknown ids are
named and left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ReleaseError
from ..model import TASKS
from .metrics import Corners, Outcome, Summary, by_task, iou, macro, summary
from .parsers import PIXELS, Dialect, read
from .predictions import predicted
from .release import Gold, gold, several


@dataclass(frozen=True, slots=True)
class Row:
    """One sample, scored. `predicted` and `span` are None where no box was read.

    `span`: (start, end) of what was read in the answer's text. `answered`: the id was in the file.
    """

    id: str
    task: str
    iou: float
    gold: Corners
    predicted: Corners | None
    span: tuple[int, int] | None
    answered: bool


@dataclass(frozen=True, slots=True)
class Report:
    """The figures and what stands behind them.

    `micro`: means over samples, the published average; `macro`: means over tasks. `missing`,
    `unparsed`: ids without an answer, and with one that holds no box. `unknown`: ids answered that
    the release does not have. `repeated`: ids answered twice alike. `degenerate`: ids whose gold
    box has no area, which nothing can hit.
    """

    micro: Summary
    macro: Summary
    tasks: dict[str, Summary]
    rows: tuple[Row, ...]
    unknown: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()
    dialect: Dialect = PIXELS

    @property
    def missing(self) -> tuple[str, ...]:
        """Ids of the release that have no answer."""
        return tuple(row.id for row in self.rows if not row.answered)

    @property
    def unparsed(self) -> tuple[str, ...]:
        """Ids whose answer holds no box."""
        return tuple(row.id for row in self.rows if row.answered and row.predicted is None)

    @property
    def degenerate(self) -> tuple[str, ...]:
        """Ids whose gold box has no area."""
        return tuple(row.id for row in self.rows if iou(row.gold, row.gold) == 0.0)


def score(release_path: Path, predictions_path: Path, dialect: Dialect = PIXELS) -> Report:
    """The report of a file of predictions on a release folder or one TaskN.json.

    Raises `ReleaseError` where either cannot be read, or where the two have no id in common.
    """
    golds, given = gold(release_path), predicted(predictions_path)
    if not any(sample.id in given.answers for sample in golds):
        raise ReleaseError(
            f"{predictions_path}: none of its ids is in {release_path} (it has "
            f"{several([repr(name) for name in given.answers], 2)}, the release "
            f"{several([repr(sample.id) for sample in golds], 2)}); "
            "give the predictions for this release"
        )
    return report_on(golds, given.answers, given.repeated, dialect)


def report_on(
    golds: Sequence[Gold],
    answers: Mapping[str, object],
    repeated: tuple[str, ...] = (),
    dialect: Dialect = PIXELS,
) -> Report:
    """The figures of `answers` (id -> text, or whatever was answered) on `golds`."""
    rows = tuple(_row(sample, answers, dialect) for sample in golds)
    outcomes = [Outcome(row.task, row.iou, row.predicted is not None) for row in rows]
    found = by_task(outcomes)
    tasks = {task: found[task] for task in TASKS if task in found}
    known = {sample.id for sample in golds}
    return Report(
        summary(outcomes),
        macro(tasks),
        tasks,
        rows,
        tuple(name for name in answers if name not in known),
        repeated,
        dialect,
    )


def _row(sample: Gold, answers: Mapping[str, object], dialect: Dialect) -> Row:
    reading = read(answers.get(sample.id), dialect)
    box = reading.first
    return Row(
        sample.id,
        sample.task,
        iou(box, sample.answer) if box else 0.0,
        sample.answer,
        box,
        reading.span,
        sample.id in answers,
    )


def as_json(report: Report) -> dict[str, Any]:
    """The report as one object for machines; means are fractions, problems are lists of ids."""
    return {
        "micro": report.micro,
        "macro": report.macro,
        "tasks": report.tasks,
        **{kind: list(ids) for kind, (ids, _) in _problems(report).items()},
    }


def table(report: Report) -> str:
    """The report as plain text, in percent: a line a task, the averages, then the problems."""
    lines = [f"{'task':<6}{'n':>7}{'parsed':>8}{'IoU':>8}{'@0.3':>8}{'Acc@0.5':>8}{'@0.7':>8}"]
    named = {task.upper(): figures for task, figures in report.tasks.items()}
    for name, figures in {**named, "Avg": report.micro, "Macro": report.macro}.items():
        percents = (figures[key] for key in ("mean_iou", "acc_0.3", "acc_0.5", "acc_0.7"))
        lines.append(
            f"{name:<6}{figures['n']:>7}{figures['parsed']:>8}"
            + "".join(f"{100 * value:>8.2f}" for value in percents)
        )
    dialect = report.dialect
    lines.append(
        f"Percent. Avg is over samples, Macro over tasks. Read as {dialect.name} "
        f"({dialect.order}, {dialect.frame})."
    )
    lines += [
        f"{len(ids)} {words}: {several([repr(name) for name in ids])}"
        for ids, words in _problems(report).values()
        if ids
    ]
    return "\n".join(lines)


def _problems(report: Report) -> dict[str, tuple[tuple[str, ...], str]]:
    return {
        "missing": (report.missing, "without an answer, counted as IoU 0"),
        "unparsed": (report.unparsed, "answered without a box, counted as IoU 0"),
        "unknown": (report.unknown, "answered but not in the release, left out"),
        "repeated": (report.repeated, "answered more than once alike, counted once"),
        "degenerate": (report.degenerate, "with a gold box without area, IoU 0 whatever is said"),
    }
