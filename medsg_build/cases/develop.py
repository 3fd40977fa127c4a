"""Second opening: the frames that were chosen, written where the tasks find them."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import formats, regions, standardise
from ..errors import SourceError
from ..identity import digest
from ..model import SIDE, Case, Frame, FrameRef, MaskFile, Order, Pixels, Volume
from ..store import writing
from . import opening
from .survey import planes_of


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

    Raises `SourceError` for the first file or frame that cannot be trusted.
    """
    missing = [o for o in job.orders if not (job.folder / f"{frame_file(o)}.npz").is_file()]
    for order, frame in frames_of(job.case, missing, job.fit):
        _write_frame(job.folder / f"{frame_file(order)}.npz", frame)
    return len(missing)


def frames_of(case: Case, orders: Sequence[Order], fit: str) -> Iterator[tuple[Order, Frame]]:
    """The frames ordered of one case, a series at a time; its files are opened once each.

    Raises `SourceError` for the first file or frame that cannot be trusted.
    """
    masks = _Masks(case)
    for series in sorted({order.ref.series for order in orders}):
        held = sorted(order for order in orders if order.ref.series == series)
        wanted = tuple(sorted({order.ref.number for order in held}))
        by_number: dict[int, list[Order]] = {}
        for order in held:
            by_number.setdefault(order.ref.number, []).append(order)
        done: set[int] = set()
        for volume, numbers in _opened(case, series, wanted):
            modality = case.modality_of(series)
            ends = standardise.levels(volume, case.reading.window, modality)
            planes = planes_of(case, volume)
            for number in numbers:
                done.add(number)
                for order in by_number[number]:
                    yield order, _framed(case, volume, planes, ends, order, fit, masks)
        lost = [number for number in wanted if number not in done]
        if lost:
            raise SourceError(
                f"{case.files[series]}: frame {lost[0]} cannot be decoded"
                + (f", nor {len(lost) - 1} others" if len(lost) > 1 else "")
            )


def _opened(
    case: Case, series: str, wanted: tuple[int, ...]
) -> Iterator[tuple[Volume, tuple[int, ...]]]:
    """The series as one volume, or, of a sequence, a frame at a time in constant memory."""
    path = case.files[series]
    reader = formats.reader_of(path)
    grid = opening.grid_of(case, series)
    # Levels belong to the whole of a sequence; those of 8-bit pictures are fixed.
    if not grid.flat or grid.shape[2] == 1 or not hasattr(reader, "sequence"):
        yield opening.picture(case, series), wanted
        return
    first = opening.picture(case, series, wanted[:1])
    if first.data.dtype != np.uint8 or case.reading.window not in ("auto", "none"):
        yield opening.picture(case, series), wanted
        return
    for number, picture in opening.sequence(case, series, wanted):
        data = picture[:, :, None]
        yield replace(first, data=data, numbers=(number,), notes=()), (number,)


def _framed(
    case: Case,
    volume: Volume,
    planes: Mapping[str, standardise.Plane],
    ends: tuple[float, float] | None,
    order: Order,
    fit: str,
    masks: "_Masks",
) -> Frame:
    """One frame with its matrix, its mask where asked for, and how it was made."""
    if order.ref.view not in planes:
        raise SourceError(f"{order.ref.spelled()}: this view is not to be had of that source")
    plane, number = planes[order.ref.view], order.ref.number
    at = number if volume.numbers is None else volume.numbers.index(number)
    placement = standardise.fit(plane, fit, SIDE + 2 * order.margin)
    picture = standardise.window(standardise.cut(volume.data, plane, at), ends)
    image = standardise.frame(picture, placement)
    mask = masks.on_frame(order, placement) if order.structure else None
    matrix = placement.matrix() @ plane.matrix(number) @ volume.stored
    oriented: dict[str, Any] = {"step": "orient", "to": "RAS", "display": case.reading.display}
    if volume.flat:
        oriented = {"step": "orient", "to": "as stored"}
    if volume.notes:
        oriented["notes"] = list(volume.notes)
    steps = (
        oriented,
        {"step": "window", "rule": case.reading.window, "ends": ends and list(ends)},
        {"step": "fit", "how": fit, "size": [placement.width, placement.height]},
    )
    return Frame(order.ref, image, matrix, mask, steps)


class _Masks:
    """The masks of one case, each read once and only when a structure of it is asked for."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.read: dict[Path, Volume] = {}
        self.sided: dict[str, NDArray[np.bool_]] = {}

    def on_frame(self, order: Order, placement: standardise.Placement) -> Pixels:
        """(336, 336) uint8, 1 inside the structure; nearest, pixel centres aligned."""
        inside = self._marked(order) if self.case.marks else self._labelled(order)
        return standardise.frame(inside.astype(np.uint8), placement, nearest=True)

    def _labelled(self, order: Order) -> NDArray[np.bool_]:
        file = next(m for m in self.case.masks if order.structure in m.labels)
        volume = self._volume(file)
        plane = planes_of(self.case, volume)[order.ref.view]
        number = order.ref.number
        if volume.numbers is not None:
            if number not in volume.numbers:
                raise SourceError(f"{file.path}: has no mask of frame {number}")
            number = volume.numbers.index(number)
        choice = file.labels[order.structure]
        if choice.side:
            return standardise.cut(self._side(order.structure, file, volume), plane, number)
        try:
            among, never = opening.values_of(choice, volume.names)
        except LookupError as error:
            raise SourceError(f"{file.path}: has no {order.structure}") from error
        data = volume.data
        maps = [data] if data.ndim == 3 else [data[..., n] for n in range(data.shape[3])]
        sections = [standardise.cut(one, plane, number) for one in maps]
        inside = np.zeros(sections[0].shape, bool)
        for section in sections:
            inside |= np.isin(section, among) if among else section != 0
        for section in sections if never else ():
            inside &= ~np.isin(section, never)
        return inside

    def _volume(self, file: MaskFile) -> Volume:
        if file.path not in self.read:
            self.read[file.path] = opening.mask(self.case, file)
        return self.read[file.path]

    def _side(self, structure: str, file: MaskFile, volume: Volume) -> NDArray[np.bool_]:
        """All voxels of a structure on its side of the midline, as the survey told them apart."""
        if structure not in self.sided:
            choice = file.labels[structure]
            width = volume.data.shape[0]
            whole = np.zeros(volume.data.shape[:3], bool)
            part = opening.part_of(choice, opening.layers_of(volume), volume.names, width)
            if part is not None and choice.cut:
                whole[part[1]] = part[0]
            elif part is not None:
                for component in regions.components(*part, self.case.reading.dust)[0]:
                    held, _ = regions.one_side(component, width / 2, choice.side)
                    if held is not None:
                        whole[held.block] |= held.mask
            self.sided[structure] = whole
        return self.sided[structure]

    def _marked(self, order: Order) -> NDArray[np.bool_]:
        columns, rows, count = opening.grid_of(self.case).shape
        marks = opening.marks_on(self.case, order.ref.number, (columns, rows), count)
        inside = np.zeros((rows, columns), bool)
        for structure, held in opening.named_marks(self.case, marks):
            for mark in held if structure == order.structure else ():
                if mark.mask is None:
                    raise SourceError(f"{self.case.name}: {structure} has a box but no outline")
                inside |= mark.mask
        return inside


def _write_frame(path: Path, frame: Frame) -> None:
    arrays: dict[str, NDArray[Any]] = {"image": frame.image, "matrix": frame.matrix}
    if frame.mask is not None:
        arrays["mask"] = np.packbits(frame.mask)
    arrays["steps"] = np.frombuffer(json.dumps(frame.steps).encode(), np.uint8)
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
    """One frame straight from the source; for readers and tests.

    Raises `SourceError` as `develop_case` does.
    """
    return next(frames_of(case, (Order(ref, structure),), fit))[1]
