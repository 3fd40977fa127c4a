"""`medsg-build sheet`."""

from pathlib import Path
from typing import Annotated

import typer


def sheet(
    out: Annotated[Path, typer.Argument(help="The folder of a release, or of slices.")],
    task: Annotated[
        list[str] | None, typer.Option("--task", help="Only these tasks; may be repeated.")
    ] = None,
    count: Annotated[int, typer.Option("-n", min=1, help="Samples a task, or slices.")] = 6,
    to: Annotated[
        Path | None, typer.Option(help="The PNG to write.  [default: OUT/report/sheet.png]")
    ] = None,
) -> None:
    """Draw samples side by side, gold boxes in green, as one picture to look at.

    Of a folder that `slice` wrote: pictures taken evenly, with every box and its name.

    Examples:
      medsg-build sheet medsg-sample-rdg --task rdg -n 12

      medsg-build sheet slices -n 12 --to slices.jpg

    """
    from ..view.sheet import contact_sheet
    from ..view.slices import is_sliced, slice_sheet

    if is_sliced(out) and not task:
        path = to or out / "sheet.png"
        typer.echo(f"{slice_sheet(out, path, count)} slices in {path}")
        return
    path = to or out / "report" / "sheet.png"
    drawn = contact_sheet(out, path, task or [], count)
    typer.echo(f"{drawn} samples in {path}")
