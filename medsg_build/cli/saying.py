"""Lines for a terminal."""

import typer


def say(line: str) -> None:
    """Print `line` on standard error; control characters of file names and headers are spelled."""
    typer.echo("".join(c if c.isprintable() else ascii(c)[1:-1] for c in line), err=True)
