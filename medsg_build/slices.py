"""Every slice of a dataset as a picture, with a table of boxes: a build with "all" for a plan.

Cases are independent: each writes its pictures, then one file that says what they show, so that a
stopped run goes on with the next case. The tables are made of those files at the end.
"""

import csv
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from . import cases, config
from .errors import RecipeError, SourceError
from .identity import digest
from .model import VIEWS, Case, CaseSurvey, FrameRef, Order
from .seams import find
from .store import Store, cache_folder, write_json, write_png, writing
from .workers import Failure, each, executor

Progress = Callable[[str, int, int], None]
"""Told (stage, done, total) as work goes on."""


@dataclass(frozen=True, slots=True)
class Choices:
    """Which slices of each case, and how they are fitted.

    `views`: planes in place of the recipe's; `everything`: slices without labels too; `every`: one
    of that many; `seconds`: of a video, frames that far apart. `fit`: pad or stretch. Boxes with a
    side under `least_side` pixels are left out of the table and counted.
    """

    views: tuple[str, ...] = ()
    everything: bool = False
    every: int = 1
    seconds: float | None = None
    fit: str = "pad"
    least_side: int = 5


@dataclass(frozen=True, slots=True)
class Sliced:
    """What was made: pictures and boxes, the cases that failed, and what was said of the others."""

    out: Path
    cases: int
    pictures: int
    boxes: int
    failures: tuple[Failure, ...]
    notes: Mapping[str, Sequence[str]]
    dropped: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class SliceJob:
    """One case to slice into `out`, under the folder name `slug`."""

    case: Case
    choices: Choices
    out: Path
    slug: str
    cache: Path


def sliced(
    recipe: config.DatasetRecipe,
    root: Path,
    out: Path,
    choices: Choices = Choices(),
    workers: str = "serial",
    strict: bool = False,
    progress: Progress = lambda _stage, _done, _total: None,
) -> Sliced:
    """Slice the dataset that lies under `root` into `out`, or go on with a run that was stopped.

    Writes `images/`, `images.parquet`, `boxes.parquet`, the same as CSV, `notes.jsonl` and
    `failures.jsonl`. Raises `RecipeError` (`out` is taken), `SourceError` (`strict`, or no case
    could be read).
    """
    store = Store(out)
    found = find("layouts", recipe.layout.kind)(recipe, root, choices.least_side)
    store.claim(
        {
            "slice": config.digest_of(recipe),
            "choices": repr(choices),
            "folder": str(root.resolve()),
            "version": version("medsg-build"),
        }
    )
    slugs = _slugs([case.name for case in found.cases])
    cache = cache_folder()
    jobs = [SliceJob(case, choices, out, slugs[case.name], cache) for case in found.cases]
    failures = list(found.failures)
    if strict and failures:
        raise SourceError(f"{failures[0].item}: {failures[0].message}")
    done: list[Path] = []
    with executor(workers) as pool:
        results = each(slice_case, jobs, pool, lambda job: job.case.name)
        progress("slice", 0, len(jobs))
        for number, result in enumerate(results, 1):
            if isinstance(result, Failure):
                failures.append(result)
                if strict:
                    raise SourceError(f"{result.item}: {result.message}")
            else:
                done.append(result)
            progress("slice", number, len(jobs))
    rows = ({"item": f.item, "kind": f.kind, "message": f.message} for f in failures)
    write_json(out / "failures.jsonl", rows, lines=True)
    if not done:
        first = failures[0] if failures else Failure("-", "-", "there is none")
        raise SourceError(
            f"none of {len(failures)} cases could be read; the first: {first.item}: {first.message}"
        )
    return _tabulated(out, found.cases, done, failures, len(jobs) + len(found.failures))


def slice_case(job: SliceJob) -> Path:
    """Write the pictures of one case, then the file that tells them; returns that file.

    Raises `SourceError` for the first file that cannot be trusted.
    """
    case, choices = job.case, job.choices
    if choices.views:
        case = replace(case, reading=_seen_in(case, choices.views))
    survey = cases.survey_case(cases.SurveyJob(case, choices.fit, job.cache))
    told = job.out / "work" / "cases" / f"{job.slug}.json"
    stamp = digest("sliced", json.dumps(survey.sources, sort_keys=True)).hex()
    if _done(told, stamp, job.out):
        return told
    notes = list(survey.notes)
    orders = _orders(case, survey, choices)
    images = []
    boxes = _boxes(survey, choices.least_side)
    for order, frame in cases.frames_of(case, orders, choices.fit):
        ref = order.ref
        name = f"images/{job.slug}/{_safe(ref.series)}-{ref.view}-{ref.number:04d}.png"
        write_png(job.out / name, frame.image)
        path = case.files[ref.series]
        images.append(
            {
                "image": name,
                "dataset": case.dataset,
                "case": case.name,
                "patient": case.patient,
                "series": ref.series,
                "modality": case.modality_of(ref.series),
                "view": ref.view,
                "number": ref.number,
                "source": path.relative_to(case.root).as_posix(),
                "sha256": survey.sources[str(path)],
                "licence": case.licence,
                "matrix": [round(float(v), 9) for v in frame.matrix.ravel()],
                "boxes": boxes.get((ref.view, ref.number), []),
            }
        )
        for step in frame.steps:
            notes += step.get("notes", ())
    images.sort(key=lambda row: (row["series"], row["view"], row["number"]))
    shown = {(order.ref.view, order.ref.number) for order in orders}
    notes += _too_small(case, survey, choices.least_side, shown)
    write_json(
        told,
        {
            "stamp": stamp,
            "case": case.name,
            "notes": list(dict.fromkeys(notes)),
            "dropped": dict(survey.dropped),
            "structures": survey.structures,
            "images": images,
        },
    )
    return told


def _done(told: Path, stamp: str, out: Path) -> bool:
    """Whether a case was sliced from these very files, and its pictures are all there."""
    if not told.is_file():
        return False
    case = json.loads(told.read_text("utf-8"))
    return case["stamp"] == stamp and all((out / row["image"]).is_file() for row in case["images"])


def _seen_in(case: Case, views: tuple[str, ...]) -> Any:
    flat = cases.grid_of(case).flat
    return case.reading if flat else replace(case.reading, views=views)


def _orders(case: Case, survey: CaseSurvey, choices: Choices) -> list[Order]:
    """The slices wanted of a case: those with labels, or all; thinned out."""
    out = []
    for view, shown in survey.frames.items():
        numbers: Sequence[int] = shown
        if survey.structures:  # a mask may label far more than the recipe asks for
            rows = survey.regions[survey.regions["view"] == VIEWS.index(view)]
            numbers = np.unique(rows["number"]).tolist()
        if choices.everything:
            numbers = survey.extent.get(view, shown)
        step = float(choices.every)
        rate = cases.rate_of(case) if choices.seconds else None
        if choices.seconds and view == "picture" and rate is None:
            raise SourceError(f"{case.name}: has no time, so frames cannot be taken by the second")
        if choices.seconds and rate is not None:
            step = choices.seconds * rate
        for series in case.files:
            kept = _thinned(numbers, step, by_time=rate is not None)
            out += [Order(FrameRef(case.name, series, view, number)) for number in kept]
    return out


def _thinned(numbers: Sequence[int], step: float, by_time: bool) -> list[int]:
    """One of every `step` in order; by time, the first at or after each multiple of `step`."""
    if not by_time:
        return list(numbers[:: max(1, int(step))])
    kept, due = [], 0.0
    for number in numbers:
        if number >= due - 1e-6:
            kept.append(number)
            due = (int(number / step + 1e-6) + 1) * step
    return kept


def _boxes(survey: CaseSurvey, least: int) -> dict[tuple[str, int], list[dict[str, Any]]]:
    """(view, number) -> the boxes on that slice, one a component, in the published form."""
    out: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in survey.regions:
        region = survey.region(row)
        if min(region.box.width, region.box.height) >= least:
            x0, y0, x1, y1 = region.box.published()
            out.setdefault((region.view, region.number), []).append(
                {
                    "structure": region.structure,
                    "component": region.component,
                    "x0": x0,
                    "y0": y0,
                    "x1": x1,
                    "y1": y1,
                    "pixels": region.pixels,
                }
            )
    return out


def _too_small(
    case: Case, survey: CaseSurvey, least: int, shown: set[tuple[str, int]]
) -> list[str]:
    """What is said of the boxes left out: where from, how many, of what."""
    small: Counter[str] = Counter()
    for row in survey.regions:
        region = survey.region(row)
        if (region.view, region.number) in shown:
            small[region.structure] += min(region.box.width, region.box.height) < least
    told = ", ".join(f"{name} {count}" for name, count in small.most_common(8) if count)
    count = small.total()
    masks = ", ".join(file.path.name for file in case.masks[:3]) or case.name
    return (
        [f"{masks}: {count} boxes dropped, a side under {least} pixels ({told})"] if count else []
    )


def _slugs(names: Iterable[str]) -> dict[str, str]:
    """Case -> a folder name safe on every file system; a digest parts those that would clash."""
    first = {name: _safe(name.split("/", 1)[-1]) for name in names}
    seen = Counter(slug.lower() for slug in first.values())
    return {
        name: slug
        if slug == name.split("/", 1)[-1] and seen[slug.lower()] == 1
        else f"{slug}-{digest('case', name).hex()[:8]}"
        for name, slug in first.items()
    }


_RESERVED = {"con", "prn", "aux", "nul", *(f"{d}{n}" for d in ("com", "lpt") for n in range(10))}


def _safe(word: str) -> str:
    """ASCII letters, digits, dot, dash and underscore, at most 48, no device name of Windows."""
    plain = unicodedata.normalize("NFKD", word).encode("ascii", "ignore").decode()
    slug = re.sub(r"[^A-Za-z0-9._-]+", "_", plain).strip("._")[:48]
    return slug if slug and slug.split(".")[0].lower() not in _RESERVED else f"x{slug}"


_IMAGE = ("image", "dataset", "case", "patient", "series", "modality", "view", "number", "source",
          "sha256", "licence")  # fmt: skip
_BOX = ("image", "dataset", "case", "patient", "series", "modality", "view", "number", "structure",
        "component", "x0", "y0", "x1", "y1", "pixels")  # fmt: skip
_WHOLE = ("number", "component", "x0", "y0", "x1", "y1", "pixels", "boxes")


def _tabulated(
    out: Path, known: Sequence[Case], told: Sequence[Path], failures: list[Failure], found: int
) -> Sliced:
    """The tables of all cases, a case at a time, so that memory does not grow with the dataset."""
    notes: dict[str, list[str]] = {}
    dropped: Counter[str] = Counter()
    seen: dict[str, set[str]] = {}
    by_name = {case.name: case for case in known}
    for path in told:
        case = json.loads(path.read_text("utf-8"))
        dropped.update(case["dropped"])
        seen.setdefault(by_name[case["case"]].dataset, set()).update(case["structures"])
        if case["notes"]:
            notes[case["case"]] = case["notes"]
    notes = {**cases.nowhere(known, seen), **notes}
    write_json(
        out / "notes.jsonl",
        ({"case": case, "note": note} for case, held in notes.items() for note in held),
        lines=True,
    )
    pictures = _table(out / "images", (*_IMAGE, "boxes", "matrix"), _image_rows(told))
    boxes = _table(out / "boxes", _BOX, _box_rows(told))
    return Sliced(out, found, pictures, boxes, tuple(failures), notes, dropped)


def _image_rows(told: Sequence[Path]) -> Iterator[list[dict[str, Any]]]:
    for path in told:
        yield [
            {
                **{name: row[name] for name in _IMAGE},
                "boxes": len(row["boxes"]),
                "matrix": json.dumps(row["matrix"]),
            }
            for row in json.loads(path.read_text("utf-8"))["images"]
        ]


def _box_rows(told: Sequence[Path]) -> Iterator[list[dict[str, Any]]]:
    for path in told:
        yield [
            {name: row[name] if name in row else box[name] for name in _BOX}
            for row in json.loads(path.read_text("utf-8"))["images"]
            for box in row["boxes"]
        ]


def _table(path: Path, columns: Sequence[str], batches: Iterator[list[dict[str, Any]]]) -> int:
    """One table as Parquet and as CSV beside it; how many rows it has."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds = {name: pa.int32() if name in _WHOLE else pa.string() for name in columns}
    schema = pa.schema(list(kinds.items()))
    count = 0
    with (
        writing(path.with_suffix(".parquet"), "wb") as binary,
        writing(path.with_suffix(".csv")) as text,
        pq.ParquetWriter(binary, schema) as parquet,
    ):
        plain = csv.DictWriter(text, columns, lineterminator="\n")
        plain.writeheader()
        for rows in batches:
            if rows:
                parquet.write_table(pa.Table.from_pylist(rows, schema))
                plain.writerows(rows)
                count += len(rows)
    return count


def described(name: str) -> config.DatasetRecipe:
    """The dataset recipe called `name` (shipped), or in the file of that name.

    Raises `RecipeError` with the faults of the document.
    """
    path = config.recipe_path("datasets", name)
    if not path.is_file():
        raise RecipeError(f"{path}: no such recipe")
    return config.dataset(path.stem, path.parent)
