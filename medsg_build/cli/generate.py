"""`medsg-build generate`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ..build import Release


def generate(
    task: Annotated[
        list[str] | None,
        typer.Option(
            "--task", help="rdg, nrdg, mv, ot, vcg, vpg, cmg, rg or all; may be repeated."
        ),
    ] = None,
    recipe: Annotated[
        str, typer.Option(help="A shipped benchmark recipe, or the path of one of yours.")
    ] = "sample",
    source: Annotated[
        list[str] | None,
        typer.Option(help="NAME=FOLDER: where a dataset of the recipe lies; may be repeated."),
    ] = None,
    count: Annotated[
        int | None, typer.Option("-n", min=1, help="Samples a task, in place of the recipe's.")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(min=0, help="In place of the recipe's; the same seed, the same samples."),
    ] = None,
    workers: Annotated[
        str, typer.Option(help="serial, a number of processes, threads:N or processes:N.")
    ] = "serial",
    out: Annotated[
        Path | None, typer.Option(help="The folder of the release.  [default: medsg-RECIPE-TASKS]")
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at the first case that cannot be read.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as one object.")
    ] = False,
) -> None:
    """Build a benchmark: pictures, questions and gold boxes, with the provenance of each.

    Without --recipe it uses real images that come with the package. A build that was stopped goes
    on where it was when the same command is given again.

    Examples:
      medsg-build generate --task rdg

      medsg-build generate --task all -n 10 --seed 7 --workers 2 --out bench

    """
    from .. import config
    from ..build import build, planned
    from ..errors import TooManyFailures
    from ..fetch import given_folders
    from .bars import bars

    tasks = [] if not task or "all" in task else list(dict.fromkeys(task))
    datasets = config.load(
        config.recipe_path("benchmarks", recipe), config.BenchmarkRecipe
    ).datasets
    plan = planned(recipe, tasks, count, seed, given_folders(source or [], datasets))
    folder = out or Path("-".join(["medsg", plan.recipe.name, *(tasks or ["all"])]))
    with bars() as progress:
        release = build(plan, folder, workers, strict, progress)
    _tell(release, as_json)
    if release.excess:
        raise TooManyFailures(release.excess)
    if count is not None and release.short:
        raise typer.Exit(1)


def _tell(release: "Release", as_json: bool) -> None:
    """Failures and shortages on standard error, the result on standard output."""
    import json

    from .saying import say

    for failure in release.failures:
        kind = (
            "" if failure.expected else f" [{failure.kind}; a fault of medsg-build, please report]"
        )
        say(f"skipped {failure.item}: {failure.message}{kind}")
    for task, reasons in release.short.items():
        told = ", ".join(
            f"{reason} ({count})" if count else reason for reason, count in reasons.items()
        )
        typer.echo(
            f"{task}: {release.made[task]} of {release.asked[task]} samples; lost: {told}", err=True
        )
    if release.notes:
        held = release.out / "report" / "notes.jsonl"
        typer.echo(f"{release.notes} notes on what was repaired or chosen: {held}", err=True)
    if as_json:
        typer.echo(
            json.dumps(
                {
                    "out": str(release.out),
                    "made": dict(release.made),
                    "asked": dict(release.asked),
                    "short": {task: dict(reasons) for task, reasons in release.short.items()},
                    "cases": release.cases,
                    "failed": [failure.item for failure in release.failures],
                }
            )
        )
        return
    made = ", ".join(f"{task} {count}" for task, count in release.made.items())
    typer.echo(f"{sum(release.made.values())} samples ({made}) in {release.out}")
    typer.echo(f"next: medsg-build check {release.out}")
