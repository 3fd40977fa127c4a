"""`medsg-build sheet`."""

from pathlib import Path
from typing import Annotated

import typer


def sheet(
    out: Annotated[Path, typer.Argument(help="The folder of a release.")],
    task: Annotated[
        list[str] | None, typer.Option("--task", help="Only these tasks; may be repeated.")
    ] = None,
    count: Annotated[int, typer.Option("-n", min=1, help="Samples a task.")] = 6,
    to: Annotated[
        Path | None, typer.Option(help="The PNG to write.  [default: OUT/report/sheet.png]")
    ] = None,
) -> None:
    """Draw samples side by side, gold boxes in green, as one picture to look at.

    Example:
      medsg-build sheet medsg-sample-rdg --task rdg -n 12

    """
    from ..view.sheet import contact_sheet

    path = to or out / "report" / "sheet.png"
    drawn = contact_sheet(out, path, task or [], count)
    typer.echo(f"{drawn} samples in {path}")
