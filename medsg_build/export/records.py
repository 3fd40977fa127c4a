"""`Task1.json` .. `Task8.json` in the published form, and what says how they were made."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..model import TASKS, Sample
from ..store import write_json, writing


def records(
    out: Path,
    samples: Mapping[str, Sequence[Sample]],
    recipe: str,
    datasets: Mapping[str, str],
    build: Mapping[str, Any],
) -> list[Path]:
    """Write the release of `samples` (task -> samples in order) into `out`; the files written.

    The `TaskN.json` come last: where they are, all they name is there. Boxes include their last
    pixel (`build["box"]` says so). `recipe` and `datasets` (name -> recipe): as
    used, in YAML, so that a sample can be made again without the package's own.
    """
    files = []
    with writing(out / "recipe.yaml") as file:
        file.write(recipe)
    for name, text in datasets.items():
        with writing(out / "report" / "datasets" / f"{name}.yaml") as file:
            file.write(text)
    write_json(out / "provenance.jsonl", _provenance(samples), lines=True)
    write_json(out / "report" / "build.json", build)
    for task, made in samples.items():
        path = out / f"Task{TASKS[task][0]}.json"
        write_json(path, [dict(sample.record) for sample in made])
        files.append(path)
    return files


def _provenance(samples: Mapping[str, Sequence[Sample]]) -> Iterable[Mapping[str, Any]]:
    for made in samples.values():
        for sample in made:
            yield sample.provenance
