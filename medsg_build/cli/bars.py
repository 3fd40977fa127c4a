"""Progress on standard error; silent where nobody watches."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def bars() -> Iterator[Callable[[str, int, int], None]]:
    """A function to tell (stage, done, total); one bar a stage."""
    if not sys.stderr.isatty():
        yield lambda _stage, _done, _total: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    shown = Progress(
        TextColumn("{task.description:<14}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    )
    with shown:
        held = {}

        def tell(stage: str, done: int, total: int) -> None:
            if stage not in held:
                held[stage] = shown.add_task(stage, total=total)
            shown.update(held[stage], completed=done, total=total)

        yield tell
