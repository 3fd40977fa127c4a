"""`medsg-build slice`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Plane(StrEnum):
    """The planes of a volume."""

    axial = "axial"
    coronal = "coronal"
    sagittal = "sagittal"


class Fit(StrEnum):
    """How a slice becomes square."""

    pad = "pad"
    stretch = "stretch"


def slice_(
    dataset: Annotated[
        str, typer.Argument(help="A shipped dataset recipe, or the path of one of yours.")
    ],
    out: Annotated[Path, typer.Argument(help="The folder to write.")],
    source: Annotated[
        Path | None,
        typer.Option(help="Where the dataset lies: a folder, or a zip or tar archive."),
    ] = None,
    plane: Annotated[
        list[Plane] | None,
        typer.Option(help="In place of the recipe's views; may be repeated. Volumes only."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Slices without labels too.")] = False,
    every: Annotated[int, typer.Option(min=1, help="One of that many slices or frames.")] = 1,
    seconds: Annotated[
        float | None, typer.Option(min=0.001, help="Of videos: frames that far apart in time.")
    ] = None,
    fit: Annotated[Fit, typer.Option(help="pad keeps the physical aspect.")] = Fit.pad,
    least_side: Annotated[
        int, typer.Option(min=1, max=336, help="Boxes with a smaller side are left out, counted.")
    ] = 5,
    workers: Annotated[
        str, typer.Option(help="serial, a number of processes, threads:N or processes:N.")
    ] = "serial",
    strict: Annotated[
        bool, typer.Option("--strict", help="Stop at the first case that cannot be read.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as one object.")
    ] = False,
) -> None:
    """Write every labelled slice of a dataset as a 336 x 336 PNG, with a table of boxes.

    OUT/images/ holds the pictures; images.csv and boxes.csv (and the same as Parquet) tell where
    each comes from and what is boxed on it, [x0, y0, x1, y1] with the last pixel included. What was
    repaired while reading stands in notes.jsonl, cases that could not be read in failures.jsonl.

    Examples:
      medsg-build slice sample-body-ct slices --plane axial --every 4

      medsg-build slice mine/liver.yaml slices --source /data/liver --workers 4

    """
    import json

    from ..errors import TooManyFailures
    from ..fetch import folder_of
    from ..slices import Choices, described, sliced
    from .bars import bars
    from .saying import say

    recipe = described(dataset)
    root = folder_of(recipe, {recipe.name: source} if source else {})
    choices = Choices(
        tuple(one.value for one in plane or ()), everything, every, seconds, fit.value, least_side
    )
    with bars() as progress:
        made = sliced(recipe, root, out, choices, workers, strict, progress)
    for failure in made.failures:
        say(f"skipped {failure.item}: {failure.message}")
    told = [f"{case}: {note}" for case, notes in made.notes.items() for note in notes]
    for line in told[:20]:
        say(f"note {line}")
    if len(told) > 20:
        say(f"note: {len(told) - 20} more in {out / 'notes.jsonl'}")
    if as_json:
        typer.echo(
            json.dumps(
                {
                    "out": str(out),
                    "cases": made.cases,
                    "pictures": made.pictures,
                    "boxes": made.boxes,
                    "failed": [failure.item for failure in made.failures],
                    "dropped": dict(made.dropped),
                }
            )
        )
    else:
        typer.echo(
            f"{made.pictures} pictures and {made.boxes} boxes of "
            f"{made.cases - len(made.failures)} cases in {out}"
        )
    if len(made.failures) > made.cases / 2:
        raise TooManyFailures(
            f"{out}: written, but {len(made.failures)} of {made.cases} cases failed; "
            f"see {out / 'failures.jsonl'}"
        )
