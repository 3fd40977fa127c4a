"""The survey of plain pictures: sequences of frames, and pictures with boxes or marks.

In a sequence a structure is one object through time: its frames make a track where it is a single
piece on each. The pieces of a frame are judged by that frame alone.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from .. import formats, regions, standardise
from ..errors import SourceError
from ..model import REGION_DTYPE, VIEWS, Case, Grid, Mark
from . import opening
from .findings import Found


def survey(case: Case, grid: Grid, how: str, found: Found) -> None:
    """Fill `found` with the labelled frames of a flat case."""
    shape = (*grid.shape[:2], 1)
    plane = standardise.plane_of("picture", shape, (*grid.pixel, 1.0), "array")
    placement = standardise.fit(plane, how)
    readable = _readable(case, grid, found)
    found.extent["picture"] = tuple(int(n) for n in np.flatnonzero(readable))
    shown = found.shown.setdefault("picture", np.zeros(grid.shape[2], bool))
    if case.marks is not None:
        _marked(case, grid, placement, readable, found)
    elif case.masks:
        _masked(case, placement, readable, found)
    else:
        shown[:] = readable


def _readable(case: Case, grid: Grid, found: Found) -> NDArray[np.bool_]:
    """Which frames of the first series can be decoded; the others are told by number."""
    series, path = next(iter(case.files.items()))
    out = np.ones(grid.shape[2], bool)
    if grid.shape[2] > 1 and hasattr(formats.reader_of(path), "sequence"):
        out[:] = False
        for number, _ in opening.sequence(case, series, None):
            out[number] = True
        lost = [int(n) for n in np.flatnonzero(~out)]
        if lost:
            told = ", ".join(map(str, lost[:8])) + (" .." if len(lost) > 8 else "")
            found.notes.append(
                f"{path.name}: {len(lost)} of {grid.shape[2]} frames unreadable ({told}); "
                "the others keep their numbers"
            )
            found.dropped["frames unreadable"] += len(lost)
        found.notes += opening.remarks(case, series)
    return out


def _masked(
    case: Case, placement: standardise.Placement, readable: NDArray[np.bool_], found: Found
) -> None:
    shown = found.shown["picture"]
    for file in case.masks:
        volume = opening.mask(case, file)
        found.notes += volume.notes
        found.called |= volume.names.keys()
        numbers = volume.numbers or tuple(range(volume.data.shape[2]))
        for at, number in enumerate(numbers):
            if not readable[number]:
                found.dropped["masks of unreadable frames"] += 1
                continue
            data = volume.data[:, :, at : at + 1]
            maps = [data] if data.ndim == 3 else [data[..., n] for n in range(data.shape[3])]
            layers = [(one, regions.blocks(one)) for one in maps]
            shown[number] |= any(blocks for _, blocks in layers)
            for name, choice in file.labels.items():
                if choice.side:
                    raise SourceError(f"{case.name}: sides: pictures do not tell left from right")
                part = opening.part_of(choice, layers, volume.names, data.shape[0])
                if part is None:
                    continue
                kept, dust = regions.components(*part, case.reading.dust)
                found.dropped["dust"] += dust
                if kept:
                    _add_section(found, name, number, kept, placement)


def _add_section(
    found: Found,
    name: str,
    number: int,
    parts: list[regions.Component],
    placement: standardise.Placement,
) -> None:
    """One frame of a structure: the box of all its pieces, and how it falls into them."""
    boxes = np.array(
        [[p.block[0].start, p.block[1].start, p.block[0].stop, p.block[1].stop] for p in parts],
        np.float64,
    )
    _add(found, name, number, boxes, [p.voxels for p in parts], placement)


def _add(
    found: Found,
    name: str,
    number: int,
    boxes: NDArray[np.float64],
    pixels: list[int],
    placement: standardise.Placement,
    component: int = 1,
) -> None:
    """A row for boxes (n, 4) of one structure on one frame, taken together."""
    whole = np.concatenate([boxes[:, :2].min(axis=0), boxes[:, 2:].max(axis=0)])
    order = np.argsort([-p for p in pixels], kind="stable")
    largest = boxes[int(order[0])]
    reach = _area(largest) / max(_area(whole), 1e-9)
    row = np.zeros(1, REGION_DTYPE)
    row["view"], row["number"] = VIEWS.index("picture"), number
    row["structure"], row["component"] = found.position(name), component
    for column, value in zip(
        ("x0", "y0", "x1", "y1"), placement.boxes(whole[None])[0], strict=True
    ):
        row[column] = value
    row["pixels"] = sum(pixels)
    row["first"] = pixels[int(order[0])]
    row["second"] = pixels[int(order[1])] if len(pixels) > 1 else 0
    row["reach"] = int(100 * reach)
    found.rows.append(row)
    x, y = whole.reshape(2, 2).mean(axis=0)
    found.inside.setdefault((name, component), (int(x), int(y), number))


def _area(box: NDArray[np.float64]) -> float:
    return float((box[2] - box[0]) * (box[3] - box[1]))


def _marked(
    case: Case,
    grid: Grid,
    placement: standardise.Placement,
    readable: NDArray[np.bool_],
    found: Found,
) -> None:
    """Boxes and outlines of an annotation file: on one picture each mark is an object."""
    found.empty_is_told = True
    count = grid.shape[2]
    boxed: set[str] = set()
    for number, marks in _marks(case, grid):
        found.called |= {mark.name for mark in marks if mark.name}
        if marks and not readable[number]:
            found.dropped["masks of unreadable frames"] += 1
            continue
        for name, held in opening.named_marks(case, marks):
            found.shown["picture"][number] = True
            if any(mark.mask is None for mark in held):
                boxed.add(name)
            order = sorted(held, key=lambda mark: (-_pixels(mark), mark.box))
            groups = [order] if count > 1 else [[mark] for mark in order]
            for component, group in enumerate(groups, 1):
                boxes = np.array([mark.box for mark in group], np.float64)
                pixels = [_pixels(mark) for mark in group]
                _add(found, name, number, boxes, pixels, placement, component)
    if count == 1 and not found.names:
        found.shown["picture"][:] = True  # said to be empty: still a picture
    found.boxed |= boxed


def _marks(case: Case, grid: Grid) -> Iterator[tuple[int, list[Mark]]]:
    columns, rows, count = grid.shape
    for number in range(count):
        yield number, opening.marks_on(case, number, (columns, rows), count)


def _pixels(mark: Mark) -> int:
    if mark.mask is not None:
        return int(np.count_nonzero(mark.mask))
    return max(1, round(_area(np.array(mark.box))))
