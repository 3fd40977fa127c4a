"""Label map to components and boxes; the body in a picture; the box of what changed.

A component is found once a volume (26-connectivity), so that a track or a triple of views is one
object. Its sections in all three views come from six reductions over its own bounding block, not
from a pass over every slice.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import SourceError
from .model import Box, Pixels

Mask = NDArray[np.bool_]
Slices = tuple[slice, ...]


def bounds(mask: NDArray[Any]) -> Box | None:
    """The half-open box of the non-zero pixels of `mask` (rows, columns); None without any."""
    rows = np.flatnonzero(mask.any(axis=1))
    if not rows.size:
        return None
    columns = np.flatnonzero(mask.any(axis=0))
    return Box(int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1)


def changed(before: Pixels, after: Pixels, floor: int = 0) -> Box | None:
    """The half-open box of the pixels that differ by more than `floor` in any channel."""
    gap = np.abs(before.astype(np.int16) - after.astype(np.int16))
    return bounds((gap.max(axis=2) if gap.ndim == 3 else gap) > floor)


def body(image: Pixels) -> Mask:
    """Where a frame (336, 336[, 3]) shows the patient: the largest bright part, holes filled.

    Air and the black surround of a field of view lie at or near 0 after windowing.
    """
    import cv2

    grey = image.max(axis=2) if image.ndim == 3 else image
    above = (cv2.blur(grey, (5, 5)) > 12).astype(np.uint8)
    bright = cv2.morphologyEx(above, cv2.MORPH_OPEN, np.ones((5, 5), np.uint8))
    count, labels, stats, _ = cv2.connectedComponentsWithStats(bright, connectivity=8)
    if count < 2:
        return np.zeros(grey.shape, bool)
    largest = labels == 1 + int(np.argmax(stats[1:, cv2.CC_STAT_AREA]))
    outside = np.zeros((grey.shape[0] + 2, grey.shape[1] + 2), np.uint8)
    outside[1:-1, 1:-1] = largest
    # Flood from a rim of one pixel: what stays dry is a hole.
    cv2.floodFill(outside, None, (0, 0), 2)
    return np.asarray(outside[1:-1, 1:-1] != 2)


def whole(data: NDArray[Any], what: str) -> NDArray[Any]:
    """`data` as unsigned label values. `what` names the file.

    Floats within 0.01 of a whole number are rounded (an exporter's noise). Raises `SourceError`
    for fractions (a probability map), negative or non-finite values, and colour.
    """
    if data.ndim != 3:
        raise SourceError(f"{what}: a label map needs one value a voxel, but this has colour")
    if data.dtype.kind == "f":
        if not np.isfinite(data).all():
            raise SourceError(f"{what}: the label map holds NaN or infinite values")
        rounded = np.rint(data)
        worst = float(np.abs(data - rounded).max(initial=0.0))
        if worst > 0.01:
            raise SourceError(
                f"{what}: label values are not whole numbers (off by up to {worst:.3g}); "
                "a probability map must be thresholded first"
            )
        data = rounded
    low, high = (int(data.min()), int(data.max())) if data.size else (0, 0)
    if low < 0 or high > 65535:
        raise SourceError(f"{what}: label values run from {low} to {high}; 0 to 65535 are expected")
    if data.dtype == np.uint8 or data.dtype == np.uint16:
        return data
    return data.astype(np.uint8 if high < 256 else np.uint16)


def blocks(data: NDArray[Any]) -> dict[int, Slices]:
    """Label value -> the bounding block of its voxels, for every value present but 0."""
    from scipy.ndimage import find_objects

    # find_objects walks C-ordered memory; a Fortran volume is walked transposed.
    turned = data.flags.f_contiguous and not data.flags.c_contiguous
    found = find_objects(data.T if turned else data)
    return {
        value: (block[::-1] if turned else block)
        for value, block in enumerate(found, 1)
        if block is not None
    }


def structure(
    data: NDArray[Any], values: tuple[int, ...], at: Mapping[int, Slices]
) -> tuple[Mask, Slices] | None:
    """The mask of some label values, cropped to their common block, and that block.

    No values mean any but 0. None where nothing is labelled.
    """
    there = [at[v] for v in (values or tuple(at)) if v in at]
    if not there:
        return None
    block = tuple(
        slice(min(b[axis].start for b in there), max(b[axis].stop for b in there))
        for axis in range(3)
    )
    crop = data[block]
    if not values:
        return crop != 0, block
    if len(values) == 1:
        return crop == values[0], block
    return np.isin(crop, values), block


@dataclass(frozen=True, slots=True, eq=False)
class Component:
    """One 26-connected part of a structure. `mask` is cropped to `block`; `voxels` counts it."""

    number: int
    mask: Mask
    block: Slices
    voxels: int


def components(mask: Mask, block: Slices, dust: int) -> tuple[list[Component], int]:
    """The parts of `mask`, largest first, and how many under `dust` voxels were dropped.

    Numbers count from 1 by falling size; equal sizes keep the order of their first voxel.
    """
    import cc3d

    labels, count = cc3d.connected_components(
        np.ascontiguousarray(mask), connectivity=26, return_N=True
    )
    at = blocks(labels)
    found: list[tuple[int, int, Mask, Slices]] = []
    for value in range(1, count + 1):
        part = np.asarray(labels[at[value]] == value)
        found.append((int(np.count_nonzero(part)), value, part, at[value]))
    kept = sorted((f for f in found if f[0] >= dust), key=lambda f: (-f[0], f[1]))
    out = [
        Component(
            number,
            part,
            tuple(
                slice(outer.start + inner.start, outer.start + inner.stop)
                for outer, inner in zip(block, inner_block, strict=True)
            ),
            voxels,
        )
        for number, (voxels, _, part, inner_block) in enumerate(kept, 1)
    ]
    return out, count - len(kept)


@dataclass(frozen=True, slots=True, eq=False)
class Sections:
    """The sections of one component along one canonical axis.

    `numbers`: (n,) slice numbers; `spans`: (n, 2, 2) half-open index ranges along the other two
    axes, in axis order; `pixels`: (n,).
    """

    numbers: NDArray[np.int64]
    spans: NDArray[np.int64]
    pixels: NDArray[np.int64]


def sections(component: Component) -> Iterator[tuple[int, Sections]]:
    """Axis 0, 1, 2 and the sections of `component` across it."""
    mask, block = component.mask, component.block
    shadows = [np.asarray(mask.any(axis=axis)) for axis in range(3)]  # without axis 0, 1, 2
    for axis in range(3):
        others = [other for other in range(3) if other != axis]
        pixels = np.count_nonzero(mask, axis=tuple(others))
        spans = np.empty((mask.shape[axis], 2, 2), np.int64)
        for place, other in enumerate(others):
            # The shadow along the remaining axis shows `axis` against `other`.
            shadow = shadows[3 - axis - other]
            if axis > other:
                shadow = shadow.T
            spans[:, place, 0] = shadow.argmax(axis=1) + block[other].start
            spans[:, place, 1] = block[other].stop - shadow[:, ::-1].argmax(axis=1)
        filled = np.flatnonzero(pixels)
        yield axis, Sections(filled + block[axis].start, spans[filled], pixels[filled])


def pieces(section: NDArray[Any]) -> tuple[int, int, int]:
    """Pixels of the largest and second largest 8-connected piece of a 2D section, and its reach.

    `reach`: the box of the largest piece in percent of the section's; 100 where it is one piece.
    """
    import cv2

    count, _, stats, _ = cv2.connectedComponentsWithStats(
        np.ascontiguousarray(section, np.uint8), connectivity=8
    )
    if count <= 2:
        return int(stats[1:, cv2.CC_STAT_AREA].sum()), 0, 100
    parts = stats[1:]
    order = np.argsort(-parts[:, cv2.CC_STAT_AREA], kind="stable")
    left, top = parts[:, cv2.CC_STAT_LEFT], parts[:, cv2.CC_STAT_TOP]
    wide, tall = parts[:, cv2.CC_STAT_WIDTH], parts[:, cv2.CC_STAT_HEIGHT]
    all_wide = int((left + wide).max() - left.min())
    all_tall = int((top + tall).max() - top.min())
    first = int(order[0])
    reach = int(100 * int(wide[first]) * int(tall[first]) // (all_wide * all_tall))
    return (
        int(parts[first, cv2.CC_STAT_AREA]),
        int(parts[order[1], cv2.CC_STAT_AREA]),
        reach,
    )


def inside(component: Component) -> tuple[int, int, int]:
    """A voxel of the component: its centroid where that lies inside, else its deepest voxel."""
    counts = [
        np.count_nonzero(component.mask, axis=tuple(o for o in range(3) if o != axis))
        for axis in range(3)
    ]
    centre = np.array([round(float(c @ np.arange(c.size)) / component.voxels) for c in counts])
    if not component.mask[tuple(centre)]:
        from scipy.ndimage import distance_transform_edt

        depth = distance_transform_edt(np.pad(component.mask, 1))[1:-1, 1:-1, 1:-1]
        centre = np.array(np.unravel_index(int(np.argmax(depth)), depth.shape))
    i, j, k = (int(c) + int(b.start) for c, b in zip(centre, component.block, strict=True))
    return i, j, k
