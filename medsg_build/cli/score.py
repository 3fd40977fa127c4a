"""`medsg-build score`."""

from pathlib import Path
from typing import Annotated

import typer


def score(
    out: Annotated[Path, typer.Argument(help="The folder of a release, or one TaskN.json.")],
    predictions: Annotated[
        Path, typer.Argument(help='JSON lines: {"id": "..", "text": "what the model said"}.')
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the scores as one object.")
    ] = False,
) -> None:
    """Score a model's answers: mean IoU and accuracy at 0.3, 0.5 and 0.7, a task and in all.

    Boxes are read as pixels of the 336 x 336 picture, written (x1,y1),(x2,y2), [x1,y1,x2,y2] or as
    JSON bbox_2d. An answer that is missing or holds no box counts as IoU 0. No picture is opened.

    Example:
      medsg-build score medsg-sample-rdg answers.jsonl --json

    """
    import json

    from ..score.report import as_json as object_of
    from ..score.report import score as scored
    from ..score.report import table

    report = scored(out, predictions)
    typer.echo(json.dumps(object_of(report)) if as_json else table(report))
