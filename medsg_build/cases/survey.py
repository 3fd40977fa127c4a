"""First opening: what a case holds, without pixels."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import columns, regions, standardise
from ..errors import SourceError
from ..identity import digest
from ..model import REGION_DTYPE, VIEWS, Case, CaseSurvey, Choice, Volume
from . import opening, sequences
from .findings import Found

SURVEY_VERSION = 4
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
    grid = opening.grid_of(case)
    for series in list(case.files)[1:]:
        other = opening.grid_of(case, series)
        names = f"{next(iter(case.files.values()))} and {case.files[series]}"
        if standardise.agreement(grid, other, names) == "placed" or (
            grid.flat and grid.shape != other.shape
        ):
            raise SourceError(f"{names}: the series differ in extent; crop them alike")
    found = Found()
    if grid.flat and (case.marks or grid.shape[2] > 1):
        sequences.survey(case, grid, how, found)
    elif case.marks:
        raise SourceError(
            f"{case.name}: boxes and marks are read on plain pictures, not on volumes"
        )
    elif case.masks:
        _labelled(case, how, found)
    else:
        found.shown.update(_shown(case))
    if (case.masks or case.marks) and not found.names and not found.empty_is_told:
        raise SourceError(_nothing(case, found))
    table = np.concatenate(found.rows) if found.rows else np.empty(0, REGION_DTYPE)
    least = case.reading.least_side
    narrow = (table["x1"] - table["x0"] < least) | (table["y1"] - table["y0"] < least)
    found.dropped["too small"] = int(np.count_nonzero(narrow))
    return CaseSurvey(
        case,
        tuple(found.names),
        table,
        {view: tuple(int(n) for n in np.flatnonzero(at)) for view, at in found.shown.items()},
        found.inside,
        {reason: count for reason, count in found.dropped.items() if count},
        opening.sources(case),
        tuple(dict.fromkeys(found.notes)),
        frozenset(found.boxed),
        found.extent or {view: tuple(range(len(at))) for view, at in found.shown.items()},
    )


def _nothing(case: Case, found: Found) -> str:
    held = [file.path for file in case.masks]
    if case.marks:
        held.append(case.marks.path)
    told = ", ".join(path.name for path in held)
    # What a file calls its structures goes to a terminal: as plain text and not too long.
    called = [ascii(name)[1:-1][:40] for name in sorted(found.called)[:12]]
    hint = f"; the file itself has the names {', '.join(called)}" if called else ""
    return (
        f"{case.name}: no labelled object is left in {told} (empty masks, or values that the "
        f"recipe's labels do not name){hint}; correct labels:, or add the case to ignore:"
    )


def _labelled(case: Case, how: str, found: Found) -> None:
    """The structures of every mask of a volume, or of a single picture."""
    for file in case.masks:
        canonical = opening.mask(case, file)
        found.notes += canonical.notes
        found.called |= canonical.names.keys()
        planes = planes_of(case, canonical, found.notes)
        placements = {view: standardise.fit(plane, how) for view, plane in planes.items()}
        layers = opening.layers_of(canonical)
        for view in planes:
            axis = standardise.slices_of(view)
            at = found.shown.setdefault(view, np.zeros(canonical.data.shape[axis], bool))
            for data, blocks in layers:
                labelled = regions.structure(data, (), blocks)
                if labelled is not None:
                    rest = tuple(o for o in range(3) if o != axis)
                    at[labelled[1][axis]] |= labelled[0].any(axis=rest)
        for name, choice in file.labels.items():
            parts = _components(case, choice, layers, canonical, found.dropped)
            if not parts:
                continue
            found.names.append(name)
            for component in parts:
                across = regions.sections(component)
                found.inside[name, component.number] = regions.inside(component, across)
                for view, plane in planes.items():
                    found.rows.append(
                        _rows(component, across, plane, placements[view], len(found.names) - 1)
                    )


def _components(
    case: Case, choice: Choice, layers: opening.Layers, volume: Volume, dropped: Counter[str]
) -> list[regions.Component]:
    """The objects of one structure, largest first; what is left out is counted."""
    width = volume.data.shape[0]
    if choice.side and volume.flat:
        raise SourceError(f"{case.name}: sides: a plain picture does not tell left from right")
    part = opening.part_of(choice, layers, volume.names, width)
    if part is None:
        dropped["structures absent"] += 1
        return []
    parts, dust = regions.components(*part, case.reading.dust)
    dropped["dust"] += dust
    if not choice.side or choice.cut:
        return parts
    kept = []
    for component in parts:
        held, astride = regions.one_side(component, width / 2, choice.side)
        dropped["astride the midline"] += astride
        if held is not None:
            kept.append(held)
    if not kept and parts:
        dropped["structures absent"] += 1
    return kept


def planes_of(
    case: Case, volume: Volume, notes: list[str] | None = None
) -> dict[str, standardise.Plane]:
    """The views of the case; a picture has only the one it is, a sheared volume only its slices."""
    views: Iterable[str] = ("picture",) if volume.flat else case.reading.views
    skewed = [] if volume.flat else standardise.sheared(volume.affine)
    if skewed:
        views = [view for view in views if {0, 1, 2} - {standardise.slices_of(view)} not in skewed]
        if notes is not None:
            notes.append(
                "axes not at right angles (a tilted gantry): only views that show true shapes"
            )
        if not views:
            raise SourceError(
                f"{case.name}: its axes are not at right angles, and none of the recipe's views "
                "shows true shapes"
            )
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


def _shown(case: Case) -> dict[str, NDArray[np.bool_]]:
    """View -> which slices of an unlabelled picture show the body rather than air."""
    series = next(iter(case.files))
    volume = opening.picture(case, series)
    if volume.flat:
        return {"picture": np.ones(1, bool)}
    ends = standardise.levels(volume, case.reading.window, case.modality_of(series))
    low, high = ends if ends is not None else (0.0, 255.0)
    bright = volume.data > low + 0.05 * (high - low)
    if bright.ndim == 4:
        bright = np.asarray(bright.any(axis=3))
    out = {}
    for view in planes_of(case, volume):
        axis = standardise.slices_of(view)
        others = tuple(o for o in range(3) if o != axis)
        out[view] = bright.mean(axis=others) >= SHOWN
    return out


def _survey_digest(job: SurveyJob) -> str:
    """Changes with the case's files (path, size, time), its reading, the fit and this version."""
    case = job.case
    reading = case.reading
    marks = case.marks
    told = {
        "version": SURVEY_VERSION,
        "case": [case.name, case.modality_of(next(iter(case.files))), job.fit],
        "files": opening.stamps(case),
        "parts": sorted(case.parts.items()),
        # In the recipe's order: it is the order of a survey's structures.
        "labels": [[list(m.labels.items()), m.part] for m in case.masks],
        "marks": marks and [list(marks.labels.items()), repr(marks.marking)],
        "reading": [
            reading.window,
            reading.display,
            list(reading.views),
            reading.dust,
            reading.least_side,
            reading.threshold,
            reading.first,
        ],
    }
    return digest("survey", json.dumps(told, sort_keys=True)).hex()[:32]
