"""`medsg-build list`."""

from enum import StrEnum
from typing import Annotated

import typer


class Kind(StrEnum):
    """What can be listed."""

    tasks = "tasks"
    recipes = "recipes"
    datasets = "datasets"
    structures = "structures"
    formats = "formats"
    annotations = "annotations"
    layouts = "layouts"
    perturbations = "perturbations"


def listing(
    kind: Annotated[Kind, typer.Argument(help="What to list.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print a list of objects.")] = False,
) -> None:
    """List tasks, benchmark recipes, datasets, structures and what else is installed.

    Example:
      medsg-build list datasets

    """
    import json

    from ..catalogue import rows

    found = rows(kind.value)
    if as_json:
        typer.echo(json.dumps(found))
        return
    width = max((len(row["name"]) for row in found), default=0)
    for row in found:
        typer.echo(f"{row['name']:<{width}}  {row['about']}".rstrip())
