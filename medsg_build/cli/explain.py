"""`medsg-build explain`."""

from pathlib import Path
from typing import Annotated

import typer


def explain(
    out: Annotated[Path, typer.Argument(help="The folder of a release.")],
    sample: Annotated[str, typer.Argument(help="The id of a sample.")],
    source: Annotated[
        list[str] | None, typer.Option(help="NAME=FOLDER: where a dataset lies; may be repeated.")
    ] = None,
) -> None:
    """Print where a sample comes from, rebuild it from its sources and compare the pixels.

    Exit code 0 where the rebuilt sample is the same, 1 where it differs.

    Example:
      medsg-build explain medsg-sample-rdg 0a1b2c3d4e5f6071

    """
    import json

    from ..explain import explained

    told = explained(out, sample, source or [])
    typer.echo(json.dumps(told.provenance, indent=1))
    for line in told.differences:
        typer.echo(f"differs: {line}", err=True)
    if not told.differences:
        typer.echo("rebuilt from source: the same pixels and answer", err=True)
    raise typer.Exit(1 if told.differences else 0)
