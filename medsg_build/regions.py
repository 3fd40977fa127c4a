"""Label map to components and boxes; the body in a picture; the box of what changed.

A component is found once a volume (26-connectivity), so that a track or a triple of views is one
object. Its sections in all three views come from the runs of its voxels along the three axes, not
from a pass over every slice.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

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
    """`data` (i, j, k[, layers]) as unsigned label values. `what` names the file.

    Floats within 0.01 of a whole number are rounded (an exporter's noise). Raises `SourceError`
    for fractions (a probability map), negative or non-finite values.
    """
    if data.dtype.kind == "f":
        if not np.isfinite(data).all():
            raise SourceError(f"{what}: the label map holds NaN or infinite values")
        rounded = np.rint(data)
        worst = float(np.abs(data - rounded).max(initial=0.0))
        if worst > 0.01:
            raise SourceError(
                f"{what}: label values are not whole numbers (off by up to {worst:.3g}); for a "
                "probability map, give `threshold:` in the dataset's recipe"
            )
        data = rounded
    low, high = (int(data.min()), int(data.max())) if data.size else (0, 0)
    if low < 0 or high > 65535:
        raise SourceError(f"{what}: label values run from {low} to {high}; 0 to 65535 are expected")
    if data.dtype == np.uint8 or data.dtype == np.uint16:
        return data
    return data.astype(np.uint8 if high < 256 else np.uint16)


def blocks(data: NDArray[Any]) -> dict[int, Slices]:
    """Label value -> the bounding block of its voxels, for every value present but 0.

    Found from the runs of equal values in memory order, in a fifth of the time that scipy's
    `find_objects` takes for an ordinary label map; a map that is mostly borders is left to that.
    """
    # The same voxels as a C-ordered view, whatever permutation and flips `data` is seen through.
    flips = tuple(slice(None, None, -1 if stride < 0 else 1) for stride in data.strides)
    order = sorted(range(data.ndim), key=lambda axis: -abs(data.strides[axis]))
    packed = np.ascontiguousarray(data[flips].transpose(order))
    flat = packed.ravel()
    starts, step = [np.array([0])], 1 << 18  # a piece at a time stays in the processor's cache
    for low in range(0, flat.size - 1, step):
        high = min(low + step, flat.size - 1)
        starts.append(np.flatnonzero(flat[low + 1 : high + 1] != flat[low:high]) + low + 1)
    runs = np.concatenate(starts)
    if runs.size > flat.size // 16:
        from scipy.ndimage import find_objects

        ends = {v: block for v, block in enumerate(find_objects(packed), 1) if block is not None}
    else:
        ends = _run_blocks(flat, runs, packed.shape)
    out = {}
    for value, block in ends.items():
        held = [slice(0)] * data.ndim
        for axis, part in zip(order, block, strict=True):
            size = data.shape[axis]
            flipped = data.strides[axis] < 0
            held[axis] = slice(size - part.stop, size - part.start) if flipped else part
        out[value] = tuple(held)
    return out


def _run_blocks(
    flat: NDArray[Any], starts: NDArray[np.int64], shape: tuple[int, ...]
) -> dict[int, Slices]:
    """The blocks of `blocks`, from the starts (n,) of all runs of equal values in `flat`."""
    lasts = np.append(starts[1:], flat.size) - 1
    values = flat[starts]
    kept = np.flatnonzero(values)
    kept = kept[np.argsort(values[kept], kind="stable")]
    if not kept.size:
        return {}
    values, starts, lasts = values[kept], starts[kept], lasts[kept]
    groups = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    spans = []
    wrapped = np.zeros(values.size, bool)
    for low, high, size in zip(
        np.unravel_index(starts, shape), np.unravel_index(lasts, shape), shape, strict=True
    ):
        # A run that goes on into the next line covers the lines' ends in between.
        first = np.minimum.reduceat(np.where(wrapped, 0, low), groups)
        last = np.maximum.reduceat(np.where(wrapped, size - 1, high), groups)
        spans.append((first, last + 1))
        wrapped |= low != high
    return {
        int(values[group]): tuple(slice(int(low[n]), int(high[n])) for low, high in spans)
        for n, group in enumerate(groups)
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
    block = _hull(there)
    crop = data[block]
    if not values:
        return crop != 0, block
    if len(values) == 1:
        return crop == values[0], block
    return np.isin(crop, [v for v in values if v in at]), block


def _hull(blocks: Sequence[Slices]) -> Slices:
    return tuple(
        slice(min(b[axis].start for b in blocks), max(b[axis].stop for b in blocks))
        for axis in range(3)
    )


def united(
    layers: Sequence[tuple[NDArray[Any], Mapping[int, Slices]]],
    among: tuple[int, ...],
    never: tuple[int, ...] = (),
) -> tuple[Mask, Slices] | None:
    """The voxels that carry a value of `among` on any layer and none of `never` on any.

    `layers`: label maps (i, j, k) of one grid, each with its `blocks`. An empty `among` means any
    value but 0. As `structure` otherwise.
    """
    kept = [
        tuple(v for v in (among or tuple(at)) if v in at and v not in never) for _, at in layers
    ]
    parts = [
        found
        for (data, at), values in zip(layers, kept, strict=True)
        if values and (found := structure(data, values, at)) is not None
    ]
    if not parts:
        return None
    mask, block = parts[0]
    if len(parts) > 1:
        block = _hull([part[1] for part in parts])
        mask = np.zeros([b.stop - b.start for b in block], bool)
        for crop, where in parts:
            mask[_within(where, block)] |= crop
    for data, at in layers:
        if any(v in at for v in never):
            mask = mask & ~np.isin(data[block], never)
    return (mask, block) if mask.any() else None


def _within(inner: Slices, outer: Slices) -> Slices:
    """`inner` counted from the corner of `outer`."""
    return tuple(
        slice(i.start - o.start, i.stop - o.start) for i, o in zip(inner, outer, strict=True)
    )


ASTRIDE = 0.1
"""A component with more than this share of its voxels on the other side belongs to neither."""


def one_side(component: "Component", middle: float, side: str) -> "tuple[Component | None, bool]":
    """The component where it lies on `side` (left, right); and whether it lies astride.

    `middle`: the midline along the first canonical axis, in voxel edges; right is beyond it.
    Returns (None, False) for one of the other side, (None, True) for one that lies on both.
    """
    counts = component.mask.sum(axis=(1, 2))
    centres = np.arange(component.block[0].start, component.block[0].stop) + 0.5
    right = float(counts[centres > middle].sum() + 0.5 * counts[centres == middle].sum())
    share = right / component.voxels
    if ASTRIDE < share < 1 - ASTRIDE:
        return None, True
    return (component if (share > 0.5) == (side == "right") else None), False


def half(mask: Mask, block: Slices, middle: float, side: str) -> tuple[Mask, Slices] | None:
    """The voxels of `mask` whose centre lies on `side` of the midline; None where there is none.

    Voxels on the midline itself belong to neither side.
    """
    centres = np.arange(block[0].start, block[0].stop) + 0.5
    kept = mask & (centres > middle if side == "right" else centres < middle)[:, None, None]
    return (kept, block) if kept.any() else None


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

    mask = np.ascontiguousarray(mask)
    # As bytes: cc3d 4.1.1 fails on boolean blocks one voxel thick.
    labels, count = cc3d.connected_components(mask.view(np.uint8), connectivity=26, return_N=True)
    at = blocks(labels) if count > 1 else {1: tuple(slice(0, n) for n in mask.shape)}
    found: list[tuple[int, int, Mask, Slices]] = []
    for value in range(1, count + 1):
        part = np.asarray(labels[at[value]] == value) if count > 1 else mask
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
    axes, in axis order; `pixels`: (n,). `plain`: (n,) bool, sections that are certainly one piece;
    the others have to be looked at.
    """

    numbers: NDArray[np.int64]
    spans: NDArray[np.int64]
    pixels: NDArray[np.int64]
    plain: Mask


def sections(component: Component) -> dict[int, Sections]:
    """Axis 0, 1, 2 -> the sections of `component` across it."""
    mask, block = component.mask, component.block
    lines = [_lines(mask, axis) for axis in range(3)]
    out = {}
    for axis in range(3):
        others = [other for other in range(3) if other != axis]
        spans = np.empty((mask.shape[axis], 2, 2), np.int64)
        plain = np.zeros(mask.shape[axis], bool)
        for place, other in enumerate(others):
            # The lines along the remaining axis show `axis` against `other`.
            along = lines[3 - axis - other].seen(axis < other)
            filled = along.runs > 0
            spans[:, place, 0] = filled.argmax(axis=1) + block[other].start
            spans[:, place, 1] = block[other].stop - filled[:, ::-1].argmax(axis=1)
            plain |= _plain(along)
        pixels = along.pixels.sum(axis=1)
        kept = np.flatnonzero(pixels)
        out[axis] = Sections(kept + block[axis].start, spans[kept], pixels[kept], plain[kept])
    return out


class _Lines(NamedTuple):
    """What the lines of a mask along one axis hold, each array over the other two axes.

    `runs`: how many unbroken runs; `pixels`: how many voxels; `first`, `end`: their extent.
    """

    runs: NDArray[np.int64]
    pixels: NDArray[np.int64]
    first: NDArray[np.int64]
    end: NDArray[np.int64]

    def seen(self, upright: bool) -> "_Lines":
        return self if upright else _Lines(*(part.T for part in self))


def _lines(mask: Mask, axis: int) -> _Lines:
    turned = np.moveaxis(mask, axis, 2)
    *shape, size = turned.shape
    # A voxel of nothing before each line parts it from the last one.
    packed = np.zeros((*shape, size + 1), bool)
    packed[..., 1:] = turned
    flat = np.append(packed.ravel(), False)
    edges = np.flatnonzero(flat[1:] != flat[:-1])
    starts, ends = edges[0::2], edges[1::2]
    line = starts // (size + 1)
    new = np.flatnonzero(np.diff(line, prepend=-1))
    there = line[new]
    out = np.zeros((4, shape[0] * shape[1]), np.int64)
    out[0, there] = np.diff(new, append=line.size)
    out[1, there] = np.add.reduceat(ends - starts, new)
    out[2, there] = starts[new] - there * (size + 1)
    out[3, there] = ends[np.append(new[1:], line.size) - 1] - there * (size + 1)
    return _Lines(*out.reshape(4, *shape))


def _plain(lines: _Lines) -> Mask:
    """Which sections (n,) are one 8-connected piece, seen from their lines (n, lines) alone.

    True where the filled lines follow each other, each is one run, and each touches the next; a
    section that is False may still be one piece.
    """
    filled = lines.runs > 0
    both = filled[:, 1:] & filled[:, :-1]
    touching = (lines.first[:, 1:] <= lines.end[:, :-1]) & (lines.first[:, :-1] <= lines.end[:, 1:])
    gapless = both.sum(axis=1) == filled.sum(axis=1) - 1
    out: Mask = (lines.runs <= 1).all(axis=1) & (touching | ~both).all(axis=1) & gapless
    return out


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


def inside(component: Component, across: Mapping[int, Sections]) -> tuple[int, int, int]:
    """A voxel of the component: its centroid where that lies inside, else one deep within it.

    `across` are its `sections`. In a large component the depth is found on blocks of voxels that
    lie wholly inside; where it is too thin for one, the voxel nearest to the centroid is taken.
    """
    corner = np.array([part.start for part in component.block])
    middle = np.array(
        [float(across[a].numbers @ across[a].pixels) / component.voxels for a in range(3)]
    )
    middle -= corner
    centre: NDArray[np.int64] = np.rint(middle).astype(np.int64)
    if not component.mask[tuple(centre)]:
        centre = _deepest(component.mask, middle)
    i, j, k = (int(c) for c in centre + corner)
    return i, j, k


def _deepest(mask: Mask, middle: NDArray[np.float64]) -> NDArray[np.int64]:
    from scipy.ndimage import distance_transform_edt

    # The distance transform takes 0.1 us a voxel: seconds for a bowel.
    step = max(1, math.ceil((mask.size / 2**16) ** (1 / 3)))
    if step > 1:
        whole_steps = tuple(slice(0, n // step * step) for n in mask.shape)
        a, b, c = (n // step for n in mask.shape)
        parts = mask[whole_steps].reshape(a, step, b, step, c, step)
        pooled = np.asarray(parts.all(axis=(1, 3, 5)))
        if not pooled.any():
            voxels = np.argwhere(mask)
            return np.asarray(voxels[((voxels - middle) ** 2).sum(axis=1).argmin()])
        mask = pooled
    depth = distance_transform_edt(np.pad(mask, 1))[1:-1, 1:-1, 1:-1]
    deepest = np.array(np.unravel_index(int(np.argmax(depth)), depth.shape), np.int64)
    return np.asarray(deepest * step + step // 2)
