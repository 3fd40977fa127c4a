"""The only opener of source pixels: once to survey what a case holds, once to develop frames.

A survey opens the masks (the picture's header only, for its grid); where a case has none it opens
the picture, to learn which slices show the body. Developing opens the picture, and the masks
whose structures a task asked for.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import columns, formats, regions, standardise
from .errors import SourceError
from .identity import digest
from .model import (
    REGION_DTYPE,
    SIDE,
    VIEWS,
    Case,
    CaseSurvey,
    Frame,
    FrameRef,
    Order,
    Pixels,
    Volume,
)
from .store import writing

SURVEY_VERSION = 2
"""Raise when a survey would come out differently: cached ones are then made anew."""

SHOWN = 0.1
"""A slice without labels is worth showing where this share of it is brighter than air."""


@dataclass(frozen=True, slots=True)
class SurveyJob:
    """One case to survey for frames of one `fit`; `cache` keeps the result."""

    case: Case
    fit: str
    cache: Path


def survey_case(job: SurveyJob) -> CaseSurvey:
    """What the case holds; from the cache where no file and no option has changed since.

    Raises `SourceError` for the first file that cannot be trusted.
    """
    kept = job.cache / "survey" / f"{_survey_digest(job)}.parquet"
    if kept.is_file():
        with suppress(OSError, ValueError, LookupError):  # a damaged cache is no cache
            return columns.load(kept, job.case)
    survey = _surveyed(job.case, job.fit)
    columns.keep(kept, survey)
    return survey


def _surveyed(case: Case, how: str) -> CaseSurvey:
    first, *others = case.files.values()
    grid = formats.measure(first)
    for other in others:
        standardise.agreement(grid, formats.measure(other), f"{first} and {other}")
    reading = case.reading
    names: list[str] = []
    rows: list[NDArray[np.void]] = []
    inside: dict[tuple[str, int], tuple[int, int, int]] = {}
    dropped = {"dust": 0, "too small": 0, "structures absent": 0}
    notes: list[str] = []
    filled: dict[str, NDArray[np.bool_]] = {}
    for mask in case.masks:
        canonical = _canonical(case, mask.path, labels=True)
        notes += canonical.notes
        planes = _planes(case, canonical)
        placements = {view: standardise.fit(plane, how) for view, plane in planes.items()}
        at = regions.blocks(canonical.data)
        labelled = regions.structure(canonical.data, (), at)
        for view in planes:
            axis = standardise.slices_of(view)
            shown = filled.setdefault(view, np.zeros(canonical.data.shape[axis], bool))
            if labelled is not None:
                rest = tuple(o for o in range(3) if o != axis)
                shown[labelled[1][axis]] |= labelled[0].any(axis=rest)
        for name, values in mask.labels.items():
            part = regions.structure(canonical.data, values, at)
            if part is None:
                dropped["structures absent"] += 1
                continue
            found, dust = regions.components(*part, reading.dust)
            dropped["dust"] += dust
            if not found:
                continue
            names.append(name)
            for component in found:
                across = regions.sections(component)
                inside[name, component.number] = regions.inside(component, across)
                for view, plane in planes.items():
                    rows.append(_rows(component, across, plane, placements[view], len(names) - 1))
    if case.masks and not names:
        told = ", ".join(mask.path.name for mask in case.masks)
        raise SourceError(
            f"{case.name}: no labelled object is left in {told} (empty masks, or values that the "
            "recipe's labels do not name); correct labels:, or add the case to ignore:"
        )
    if not case.masks:
        filled = _shown(case)
    table = np.concatenate(rows) if rows else np.empty(0, REGION_DTYPE)
    least = reading.least_side
    dropped["too small"] = int(
        np.count_nonzero((table["x1"] - table["x0"] < least) | (table["y1"] - table["y0"] < least))
    )
    return CaseSurvey(
        case,
        tuple(names),
        table,
        {view: tuple(int(n) for n in np.flatnonzero(shown)) for view, shown in filled.items()},
        inside,
        {reason: count for reason, count in dropped.items() if count},
        _sources(case),
        tuple(notes),
    )


def _planes(case: Case, volume: Volume) -> dict[str, standardise.Plane]:
    """The views of the case; a picture has only the one it is."""
    views = ("picture",) if volume.flat else tuple(v for v in case.reading.views if v != "picture")
    shape = volume.data.shape
    return {
        view: standardise.plane_of(view, shape, volume.spacing, case.reading.display)
        for view in views
    }


def _rows(
    component: regions.Component,
    across: Mapping[int, regions.Sections],
    plane: standardise.Plane,
    placement: standardise.Placement,
    structure: int,
) -> NDArray[np.void]:
    """The sections of one component in one view, as survey rows with final boxes."""
    wanted = standardise.slices_of(plane.view)
    found = across[wanted]
    others = [axis for axis in range(3) if axis != wanted]
    ends = {}
    for axis, flip, size in (
        (plane.column_axis, plane.flip_columns, plane.columns),
        (plane.row_axis, plane.flip_rows, plane.rows),
    ):
        low, high = found.spans[:, others.index(axis)].T
        ends[axis] = (size - high, size - low) if flip else (low, high)
    boxes = placement.boxes(
        np.stack(
            [
                ends[plane.column_axis][0],
                ends[plane.row_axis][0],
                ends[plane.column_axis][1],
                ends[plane.row_axis][1],
            ],
            axis=1,
        )
    )
    rows = np.zeros(len(found.numbers), REGION_DTYPE)
    rows["view"] = VIEWS.index(plane.view)
    rows["number"] = found.numbers
    rows["structure"], rows["component"] = structure, component.number
    rows["pixels"] = found.pixels
    for column, name in enumerate(("x0", "y0", "x1", "y1")):
        rows[name] = boxes[:, column]
    rows["first"], rows["second"], rows["reach"] = found.pixels, 0, 100
    corner = [part.start for part in component.block]
    for n in np.flatnonzero(~found.plain):
        window: list[Any] = [int(found.numbers[n]) - corner[wanted]] * 3
        for axis, (low, high) in zip(others, found.spans[n], strict=True):
            window[axis] = slice(low - corner[axis], high - corner[axis])
        section = component.mask[tuple(window)]
        rows["first"][n], rows["second"][n], rows["reach"][n] = regions.pieces(section)
    return rows


def _canonical(case: Case, path: Path, labels: bool = False) -> Volume:
    """One file of the case in canonical order, on the very grid of the case's first picture.

    A grid that agrees but for float noise is replaced by the first one, so that box, mask and
    picture cannot differ by a rounding. Raises `SourceError` where the grids differ.
    """
    first = next(iter(case.files.values()))
    if formats.flat(first) != formats.flat(path):
        raise SourceError(
            f"{first} and {path}: a plain picture and a volume cannot be laid on each other; "
            "correct the pairing in the recipe"
        )
    shape, affine = formats.measure(first)
    volume = formats.read(path, labels)
    data = regions.whole(volume.data, str(path)) if labels else volume.data
    agreed = standardise.agreement(
        (shape, affine), (data.shape[:3], volume.affine), f"{first} and {path}"
    )
    notes = volume.notes
    if agreed == "same":
        volume = replace(volume, data=data, affine=affine)
    else:
        volume = replace(volume, data=data)
        notes = (*notes, f"{path.name}: {agreed} onto the picture's grid")
    canonical = standardise.to_ras(volume, str(path))
    if volume.flat:
        return canonical
    grid = replace(volume, data=np.broadcast_to(np.uint8(0), shape), affine=affine)
    affine = standardise.to_ras(grid, str(first)).affine
    i, j, k = (float(mm) for mm in np.linalg.norm(affine[:3, :3], axis=0))
    return replace(canonical, affine=affine, spacing=(i, j, k), notes=notes)


def _shown(case: Case) -> dict[str, NDArray[np.bool_]]:
    """View -> which slices of an unlabelled picture show the body rather than air."""
    series, path = next(iter(case.files.items()))
    volume = _canonical(case, path)
    if volume.flat:
        return {"picture": np.ones(1, bool)}
    ends = standardise.levels(volume, case.reading.window, case.modality_of(series))
    low, high = ends if ends is not None else (0.0, 255.0)
    bright = volume.data > low + 0.05 * (high - low)
    if bright.ndim == 4:
        bright = np.asarray(bright.any(axis=3))
    out = {}
    for view in _planes(case, volume):
        axis = standardise.slices_of(view)
        others = tuple(o for o in range(3) if o != axis)
        out[view] = bright.mean(axis=others) >= SHOWN
    return out


def _sources(case: Case) -> dict[str, str]:
    """File -> sha256 of its bytes, for the provenance; in the order of the case."""
    out = {}
    for path in (*case.files.values(), *(mask.path for mask in case.masks)):
        out[str(path)] = file_digest(path)
    return out


def file_digest(path: Path) -> str:
    """SHA-256 of a source file's bytes. Raises `SourceError` where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror})") from error


def _survey_digest(job: SurveyJob) -> str:
    """Changes with the case's files (path, size, time), its reading, the fit and this version."""
    case = job.case
    stamps = []
    for path in (*case.files.values(), *(mask.path for mask in case.masks)):
        try:
            stat = path.stat()
        except OSError as error:
            raise SourceError(f"{path}: cannot be read ({error.strerror})") from error
        stamps.append([str(path.resolve()), stat.st_size, stat.st_mtime_ns])
    reading = case.reading
    told = {
        "version": SURVEY_VERSION,
        "case": [case.name, case.modality_of(next(iter(case.files))), job.fit, stamps],
        # In the recipe's order: it is the order of a survey's structures.
        "labels": [[(n, list(v)) for n, v in m.labels.items()] for m in case.masks],
        "reading": [
            reading.window,
            reading.display,
            list(reading.views),
            reading.dust,
            reading.least_side,
        ],
    }
    return digest("survey", json.dumps(told, sort_keys=True)).hex()[:32]


@dataclass(frozen=True, slots=True)
class DevelopJob:
    """The frames wanted of one case, written into `folder`."""

    case: Case
    orders: tuple[Order, ...]
    fit: str
    folder: Path


def frame_file(order: Order) -> str:
    """The name, without suffix, of a developed frame's files."""
    return digest("frame", order.ref.spelled(), order.structure, order.margin).hex()[:24]


def develop_case(job: DevelopJob) -> int:
    """Write the frames ordered of one case that are not there yet; how many were written.

    Raises `SourceError` for the first file that cannot be trusted.
    """
    missing = [o for o in job.orders if not (job.folder / f"{frame_file(o)}.npz").is_file()]
    case = job.case
    masks = _Masks(case)
    for series in sorted({order.ref.series for order in missing}):
        path = case.files[series]
        volume = _canonical(case, path)
        modality = case.modality_of(series)
        ends = standardise.levels(volume, case.reading.window, modality)
        planes = _planes(case, volume)
        for order in (o for o in missing if o.ref.series == series):
            plane = planes[order.ref.view]
            placement = standardise.fit(plane, job.fit, SIDE + 2 * order.margin)
            picture = standardise.window(
                standardise.cut(volume.data, plane, order.ref.number), ends
            )
            image = standardise.frame(picture, placement)
            mask = masks.on_frame(order, placement) if order.structure else None
            matrix = placement.matrix() @ plane.matrix(order.ref.number) @ volume.stored
            oriented: dict[str, Any] = {
                "step": "orient",
                "to": "RAS",
                "display": case.reading.display,
            }
            if volume.notes:
                oriented["notes"] = list(volume.notes)
            steps = (
                oriented,
                {"step": "window", "rule": case.reading.window, "ends": ends and list(ends)},
                {"step": "fit", "how": job.fit, "size": [placement.width, placement.height]},
            )
            _write_frame(job.folder / f"{frame_file(order)}.npz", image, mask, matrix, steps)
    return len(missing)


class _Masks:
    """The masks of one case, each read once and only when a structure of it is asked for."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.read: dict[Path, NDArray[Any]] = {}
        self.planes: dict[Path, dict[str, standardise.Plane]] = {}

    def on_frame(self, order: Order, placement: standardise.Placement) -> Pixels:
        """(336, 336) uint8, 1 inside the structure; nearest, pixel centres aligned."""
        file = next(m for m in self.case.masks if order.structure in m.labels)
        if file.path not in self.read:
            volume = _canonical(self.case, file.path, labels=True)
            self.read[file.path] = volume.data
            self.planes[file.path] = _planes(self.case, volume)
        plane = self.planes[file.path][order.ref.view]
        section = standardise.cut(self.read[file.path], plane, order.ref.number)
        values = file.labels[order.structure]
        inside = np.isin(section, values) if values else section != 0
        return standardise.frame(inside.astype(np.uint8), placement, nearest=True)


def _write_frame(
    path: Path,
    image: Pixels,
    mask: Pixels | None,
    matrix: NDArray[np.float64],
    steps: Sequence[Mapping[str, Any]],
) -> None:
    arrays: dict[str, NDArray[Any]] = {"image": image, "matrix": matrix}
    if mask is not None:
        arrays["mask"] = np.packbits(mask)
    arrays["steps"] = np.frombuffer(json.dumps(steps).encode(), np.uint8)
    with writing(path, "wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]  # numpy's stub confuses ** with allow_pickle


def load_frame(folder: Path, order: Order) -> Frame:
    """A developed frame from `folder`. Raises `SourceError` where it was not developed."""
    path = folder / f"{frame_file(order)}.npz"
    if not path.is_file():
        raise SourceError(f"{order.ref.spelled()}: its frame was not developed; see failures.jsonl")
    with np.load(path, allow_pickle=False) as held:
        image = held["image"]
        mask = None
        if "mask" in held:
            mask = np.unpackbits(held["mask"], count=image.shape[0] * image.shape[1])
            mask = mask.reshape(image.shape[:2])
        steps = json.loads(held["steps"].tobytes())
        return Frame(order.ref, image, held["matrix"], mask, tuple(steps))


def orders(
    wanted: Sequence[Order], case_of: Callable[[str], Case], fit: str, folder: Path
) -> list[DevelopJob]:
    """The orders gathered by case, each frame once, cases in the order of their names."""
    by_case: dict[str, dict[Order, None]] = {}
    for order in wanted:
        by_case.setdefault(order.ref.case, {})[order] = None
    return [
        DevelopJob(case_of(name), tuple(sorted(held)), fit, folder)
        for name, held in sorted(by_case.items())
    ]


def frame_of(case: Case, ref: FrameRef, fit: str, structure: str = "") -> Frame:
    """One frame straight from the source, without a folder; for `explain` and for readers.

    Raises `SourceError` as `develop_case` does.
    """
    import tempfile

    order = Order(ref, structure)
    with tempfile.TemporaryDirectory() as folder:
        develop_case(DevelopJob(case, (order,), fit, Path(folder)))
        return load_frame(Path(folder), order)
