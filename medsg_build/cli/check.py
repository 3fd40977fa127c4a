"""`medsg-build check`."""

from pathlib import Path
from typing import Annotated

import typer


def check(
    out: Annotated[Path, typer.Argument(help="The folder of a release.")],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the report as one object.")
    ] = False,
) -> None:
    """Prove a release true to its promises: pictures, boxes, names, questions, provenance.

    Exit code 0 without findings, 1 with some.

    Example:
      medsg-build check medsg-sample-rdg

    """
    import json
    from dataclasses import asdict

    from ..audit.validate import validate
    from .bars import bars

    with bars() as progress:
        report = validate(out, progress=progress)
    if as_json:
        typer.echo(
            json.dumps(
                {
                    "findings": [asdict(finding) for finding in report.findings],
                    "checked": dict(report.checked),
                    "skipped": dict(report.skipped),
                }
            )
        )
    else:
        for finding in report.findings:
            typer.echo(f"{finding.check}: {finding.sample}: {finding.message}")
        for name, reason in report.skipped.items():
            typer.echo(f"not checked: {name}: {reason}", err=True)
        typer.echo(f"{len(report.findings)} findings in {len(report.checked)} checks")
    raise typer.Exit(1 if report.findings else 0)
