"""Where one sample comes from, and the proof: it is made again from its sources and compared."""

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import cases, config
from .assemble import compose, draft_of, frame_orders, pixel_digest
from .errors import ReleaseError, SourceError
from .fetch import folder_of, given_folders
from .model import Case, Draft, Rejected
from .seams import find


@dataclass(frozen=True, slots=True)
class Explained:
    """A sample's row of `provenance.jsonl`, and how the rebuilt sample differs (empty: not)."""

    provenance: Mapping[str, Any]
    differences: tuple[str, ...]


def explained(out: Path, sample: str, sources: Sequence[str] = ()) -> Explained:
    """Rebuild one sample of the release `out` from its source files.

    `sources`: `NAME=FOLDER` words. Raises `ReleaseError` for an unknown sample, `SourceError`
    where a source is missing or broken.
    """
    row = _row(out, sample)
    draft = draft_of(row["draft"])
    recipe = config.load(out / "recipe.yaml", config.BenchmarkRecipe)
    held = _cases(out, row["datasets"], recipe, given_folders(list(sources), recipe.datasets))
    differences = []
    for frame in row["frames"]:
        if frame["case"] not in held:
            raise SourceError(f"case {frame['case']!r} is no longer in its dataset's folder")
        path = held[frame["case"]].root / frame["file"]
        if cases.file_digest(path) != frame["sha256"]:
            differences.append(f"{path}: the source file has changed since the build")
    differences += _compared(row, draft, held, recipe.fit)
    return Explained(row, tuple(differences))


def _compared(
    row: Mapping[str, Any], draft: Draft, held: Mapping[str, Case], fit: str
) -> list[str]:
    orders = frame_orders(draft)
    with tempfile.TemporaryDirectory() as folder:
        for job in cases.orders(orders, held.__getitem__, fit, Path(folder)):
            cases.develop_case(job)
        frames = [cases.load_frame(Path(folder), order) for order in orders]
    made = compose(draft, frames, row["seed"])
    if isinstance(made, Rejected):
        return [f"the draft is rejected now: {made.reason}"]
    out = [
        f"{there['file']}: other pixels"
        for there, image in zip(row["images"], made.images, strict=True)
        if pixel_digest(image) != there["pixels"]
    ]
    for there, frame in zip(row["frames"], frames, strict=True):
        if not np.allclose(frame.matrix, there["matrix"], atol=1e-6):
            out.append(f"{frame.ref.spelled()}: another voxel-to-pixel matrix")
    if [made.answer_image, list(made.answer)] != [row["answer"]["image"], row["answer"]["box"]]:
        out.append(f"answer {list(made.answer)} in place of {row['answer']['box']}")
    return out


def _row(out: Path, sample: str) -> dict[str, Any]:
    path = out / "provenance.jsonl"
    try:
        with path.open(encoding="utf-8") as file:
            for line in file:
                row: dict[str, Any] = json.loads(line)
                if row["id"] == sample:
                    return row
    except (OSError, ValueError, KeyError) as error:
        raise ReleaseError(f"{path}: cannot be read ({error})") from error
    raise ReleaseError(f"{path}: no sample {sample!r}; ids stand in TaskN.json")


def _cases(
    out: Path,
    datasets: Sequence[str],
    recipe: config.BenchmarkRecipe,
    given: Mapping[str, Path],
) -> dict[str, Case]:
    """The cases of the sample's datasets, by the recipes that the release was built with."""
    held = {}
    for name in datasets:
        used = config.dataset(name, out / "report" / "datasets")
        found = find("layouts", used.layout.kind)(used, folder_of(used, given), recipe.least_side)
        held.update({case.name: case for case in found.cases})
    return held
