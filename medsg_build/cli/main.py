"""The application, and how an error of ours reaches a person: one line, its own exit code."""

from typing import Any

import typer
from typer.core import TyperGroup

from ..errors import MedsgError
from . import check, explain, generate, listing, score, sheet
from . import slice as slicing
from .saying import say

ABOUT = """Build, check and score benchmarks for grounding in medical image sequences.

Start here: medsg-build generate --task rdg
"""


class Commands(TyperGroup):
    """Tells errors of ours without a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; a `MedsgError` becomes its message and exit code."""
        try:
            return super().invoke(ctx)
        except MedsgError as error:
            for line in str(error).splitlines():
                say(f"error: {line}")
            raise typer.Exit(error.exit_code) from None
        except KeyboardInterrupt:
            typer.echo("stopped; run the same command again to go on", err=True)
            raise typer.Exit(130) from None


app = typer.Typer(
    cls=Commands,
    help=ABOUT,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command()(generate.generate)
app.command(name="slice")(slicing.slice_)
app.command()(check.check)
app.command()(score.score)
app.command()(sheet.sheet)
app.command()(explain.explain)
app.command(name="list")(listing.listing)
