"""A released folder opened for checking: records, provenance, pictures decoded when asked for."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from ..errors import ReleaseError
from ..model import TASKS, Box, Pixels

KEPT = 64
"""Decoded pictures held at a time; the checks of one sample come one after another."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """One record with where it stands. `provenance` is None where the release has no row for it."""

    id: str
    task: str
    file: str
    record: Mapping[str, Any]
    provenance: Mapping[str, Any] | None

    @property
    def images(self) -> list[str]:
        """The names of its pictures, as far as they are texts."""
        found = self.record.get("images")
        return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []

    @property
    def question(self) -> str:
        """Its question; empty where it is no text."""
        found = self.record.get("question")
        return found if isinstance(found, str) else ""

    @property
    def answer(self) -> Box | None:
        """The gold box, half-open; None where the record holds no four whole numbers."""
        found = self.record.get("answer")
        if not isinstance(found, list) or len(found) != 4:
            return None
        if any(isinstance(v, bool) or not isinstance(v, int) for v in found):
            return None
        return Box(found[0], found[1], found[2] + 1, found[3] + 1)

    @property
    def answer_image(self) -> int | None:
        """0-based place of the picture the answer lies on, where the record tells."""
        found = self.record.get("answer_image")
        return found if isinstance(found, int) and not isinstance(found, bool) else None

    def steps(self, name: str) -> list[Mapping[str, Any]]:
        """The provenance's steps called `name`."""
        return [step for step in (self.provenance or {}).get("steps", []) if step["step"] == name]


@dataclass(slots=False)
class Release:
    """A release folder. `records`: task -> samples in order; pictures are decoded on demand."""

    path: Path
    records: Mapping[str, tuple[Sampled, ...]]
    provenance: Mapping[str, Mapping[str, Any]] | None
    build: Mapping[str, Any] | None
    recipe: Mapping[str, Any] | None
    doubled: tuple[str, ...] = ()
    _held: dict[str, Pixels | str] = field(default_factory=dict)

    def samples(self) -> Iterator[Sampled]:
        """Every sample, task by task."""
        for held in self.records.values():
            yield from held

    @cached_property
    def named(self) -> frozenset[str]:
        """The names of all pictures that records name."""
        return frozenset(name for sample in self.samples() for name in sample.images)

    def inside(self, name: str) -> Path | None:
        """The file of a picture; None where its name leads out of the release."""
        relative = Path(name)
        if relative.is_absolute() or ".." in relative.parts or "\\" in name or "\0" in name:
            return None
        path = self.path / relative
        return None if path.is_symlink() else path

    def picture(self, name: str) -> Pixels | str:
        """The picture (336, 336, 3) uint8 as released; or what is wrong with its file."""
        if name not in self._held:
            if len(self._held) >= KEPT:
                del self._held[next(iter(self._held))]
            self._held[name] = _decoded(self.inside(name))
        return self._held[name]

    def pixels(self, sample: Sampled) -> list[Pixels] | None:
        """All pictures of a sample; None where one cannot be decoded, which `pictures` reports."""
        held = [self.picture(name) for name in sample.images]
        good = [picture for picture in held if not isinstance(picture, str)]
        return good if len(good) == len(held) else None


def _decoded(path: Path | None) -> Pixels | str:
    from PIL import Image

    if path is None:
        return "its name leads out of the release"
    if not path.is_file():
        return "is missing"
    try:
        with Image.open(path) as picture:
            if picture.size != (336, 336):
                return f"is {picture.size[0]} x {picture.size[1]} pixels, not 336 x 336"
            if picture.mode != "RGB":
                return f"has mode {picture.mode}, not RGB"
            return np.asarray(picture)
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        return f"cannot be decoded ({error})"


def opened(path: Path) -> Release:
    """The release at `path`. Raises `ReleaseError` where it is none, or broken as a whole."""
    files = {task: path / f"Task{number}.json" for task, (number, _) in TASKS.items()}
    there = {task: file for task, file in files.items() if file.is_file()}
    if not there:
        unfinished = (path / "work").is_dir()
        raise ReleaseError(
            f"{path}: holds no Task1.json .. Task8.json; "
            + (
                "its build is not finished, give the same generate command again"
                if unfinished
                else "give the folder that generate wrote"
            )
        )
    provenance, doubled = _provenance(path / "provenance.jsonl")
    records = {}
    for task, file in there.items():
        held = _json(file)
        if not isinstance(held, list) or not all(isinstance(record, dict) for record in held):
            raise ReleaseError(f"{file}: a list of records is expected, as generate writes")
        records[task] = tuple(
            _sample(task, file, position, record, provenance)
            for position, record in enumerate(held)
        )
    return Release(
        path, records, provenance, _mapping(path / "report" / "build.json"), _recipe(path), doubled
    )


def _sample(
    task: str,
    file: Path,
    position: int,
    record: Mapping[str, Any],
    provenance: Mapping[str, Mapping[str, Any]] | None,
) -> Sampled:
    name = str(record.get("id", f"{file.stem}:{position}"))
    return Sampled(name, task, file.name, record, (provenance or {}).get(name))


def _provenance(path: Path) -> tuple[dict[str, Mapping[str, Any]] | None, tuple[str, ...]]:
    """Id -> row, and the ids of more than one row; None where the release has no provenance."""
    if not path.is_file():
        return None, ()
    out: dict[str, Mapping[str, Any]] = {}
    doubled = []
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            try:
                row = json.loads(line)
                name = _shaped(row)
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                raise ReleaseError(
                    f"{path}:{number}: not a row of provenance ({type(error).__name__}: {error}); "
                    "build the release anew"
                ) from error
            if name in out:
                doubled.append(name)
            out[name] = row
    return out, tuple(doubled)


def _shaped(row: Any) -> str:
    """The id of a row; an error of the look-up where it lacks what the checks read."""
    for image in row["images"]:
        image["file"], image["pixels"]
    for step in row["steps"]:
        step["step"], [step[k] for k in ("image", "dx", "dy") if step["step"] == "shift"]
    row["task"], row["licences"], row["patients"], row["answer"]["image"]
    boxes = [row["answer"]["box"], (row["reference"] or {}).get("box")]
    for box in boxes:
        if box is not None and (len(box) != 4 or not all(isinstance(v, int) for v in box)):
            raise ValueError(f"box {box!r}")
    return str(row["id"])


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ReleaseError(f"{path}: cannot be read as JSON ({error})") from error


def _mapping(path: Path) -> Mapping[str, Any] | None:
    if not path.is_file():
        return None
    held = _json(path)
    return held if isinstance(held, dict) else None


def _recipe(path: Path) -> Mapping[str, Any] | None:
    file = path / "recipe.yaml"
    if not file.is_file():
        return None
    try:
        held = yaml.safe_load(file.read_text("utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ReleaseError(f"{file}: cannot be read as YAML ({error})") from error
    return held if isinstance(held, dict) else None
