"""The protocols of what can be added, and the look-up by entry point (group `medsg_build.<kind>`).

Nothing is registered by import: a member is loaded when it is asked for by name.
"""

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .errors import UnknownName
from .model import (
    CaseSurvey,
    Composed,
    Draft,
    Frame,
    Grid,
    Mark,
    Marking,
    Pixels,
    Rejected,
    Volume,
    Wanted,
)

KINDS = ("tasks", "formats", "annotations", "layouts", "perturbations", "exporters", "parsers")


@dataclass(frozen=True, slots=True)
class Options:
    """What a benchmark recipe says to one task.

    `quota`: samples wanted; `values`: the task's own options, every default filled in.
    `tally` counts what a filter dropped: (reason, dataset, structure) -> how many.
    """

    seed: int
    quota: int
    least_side: int
    values: Mapping[str, Any] = field(default_factory=dict)
    tally: Counter[tuple[str, str, str]] = field(default_factory=Counter)


class Task(Protocol):
    """A kind of question; a module with these four."""

    name: str
    options: Mapping[str, Any]
    """Every option with its default; a recipe that names another is refused."""

    def propose(self, surveys: Iterable[CaseSurvey], options: Options) -> Iterator[Draft]:
        """Questions that could be asked; pixels are not looked at."""
        ...

    def compose(
        self, draft: Draft, frames: Sequence[Frame], rng: np.random.Generator
    ) -> Composed | Rejected:
        """The sample that `draft` becomes on these frames, which stand in the draft's order."""
        ...


class Format(Protocol):
    """A reader of volumes, pictures or sequences; a module with these three.

    It may also have `takes(path)`, whether it reads a folder or a file without a telling suffix,
    and `files(path)`, the files behind a path. Both raise nothing but `SourceError`.
    """

    suffixes: tuple[str, ...]

    def measure(self, path: Path, wanted: Wanted) -> Grid:
        """Where the voxels lie, from the header alone; the same grid that `read` gives."""
        ...

    def read(self, path: Path, wanted: Wanted) -> Volume:
        """The decoded file."""
        ...


class Annotation(Protocol):
    """A reader of marked objects; a function."""

    def __call__(
        self, path: Path, picture: str, size: tuple[int, int], marking: Marking
    ) -> list[Mark]:
        """The marks of one picture of `size` (columns, rows), named relative to its dataset."""
        ...


class Perturbation(Protocol):
    """A function that changes a picture inside a mask."""

    def __call__(
        self, image: Pixels, allowed: NDArray[np.bool_], rng: np.random.Generator, options: Any
    ) -> tuple[Pixels, Mapping[str, Any]] | None:
        """The changed copy of `image` (336, 336[, 3]) and what was done; None where nothing fits.

        Only pixels inside `allowed` (336, 336) may change.
        """
        ...


@cache
def _points(kind: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=f"medsg_build.{kind}")}


def installed(kind: str) -> tuple[str, ...]:
    """The names of `kind` that are installed, sorted."""
    return tuple(sorted(_points(kind)))


def find(kind: str, name: str) -> Any:
    """The plug-in `name` of `kind`. Raises `UnknownName` with the names that would do."""
    points = _points(kind)
    if name not in points:
        raise UnknownName(f"unknown {kind.rstrip('s')} {name!r}; {suggestion(name, points)}")
    return points[name].load()


def suggestion(name: str, known: Iterable[str]) -> str:
    """`did you mean ..?`, or the whole list where nothing is near."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, 1)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"
