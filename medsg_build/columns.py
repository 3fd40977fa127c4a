"""A survey on disk: its regions as columns of a Parquet file, all else in the file's metadata."""

import json
from pathlib import Path

import numpy as np

from .model import REGION_DTYPE, Case, CaseSurvey
from .store import writing


def keep(path: Path, survey: CaseSurvey) -> None:
    """Write a survey to `path`; its case is not kept with it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    head = {
        "structures": survey.structures,
        "frames": survey.frames,
        "inside": [[name, number, *voxel] for (name, number), voxel in survey.inside.items()],
        "dropped": survey.dropped,
        "sources": survey.sources,
        "notes": survey.notes,
        "boxed": sorted(survey.boxed),
        "extent": {view: _runs(numbers) for view, numbers in survey.extent.items()},
    }
    table = pa.table({name: survey.regions[name] for name in REGION_DTYPE.names or ()})
    table = table.replace_schema_metadata({"medsg": json.dumps(head)})
    with writing(path, "wb") as file:
        pq.write_table(table, file)


def load(path: Path, case: Case) -> CaseSurvey:
    """The survey of `case` that `keep` wrote.

    Raises what pyarrow, json or a look-up raise where the file is damaged.
    """
    import pyarrow.parquet as pq

    table = pq.read_table(path, memory_map=False)
    head = json.loads(table.schema.metadata[b"medsg"])
    rows = np.empty(table.num_rows, REGION_DTYPE)
    for name in REGION_DTYPE.names or ():
        rows[name] = table.column(name).to_numpy()
    return CaseSurvey(
        case,
        tuple(head["structures"]),
        rows,
        {view: tuple(numbers) for view, numbers in head["frames"].items()},
        {(name, number): (i, j, k) for name, number, i, j, k in head["inside"]},
        head["dropped"],
        head["sources"],
        tuple(head["notes"]),
        frozenset(head["boxed"]),
        {
            view: tuple(n for low, high in runs for n in range(low, high))
            for view, runs in head["extent"].items()
        },
    )


def _runs(numbers: tuple[int, ...]) -> list[tuple[int, int]]:
    """Rising numbers as half-open ranges."""
    out: list[tuple[int, int]] = []
    for number in numbers:
        if out and out[-1][1] == number:
            out[-1] = (out[-1][0], number + 1)
        else:
            out.append((number, number + 1))
    return out
