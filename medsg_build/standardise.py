"""Orient, window, cut, fit, resize to 336: from a decoded volume to the frame a reader sees.

Pixel edges, not centres, carry the geometry: a plane of n pixels spans [0, n), and scaling it to m
pixels multiplies by m / n. Boxes and pictures go through one `Placement`, so they cannot drift.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import RecipeError, SourceError
from .model import SIDE, Box, Floats, Grid, Pixels, Volume

WINDOWS: Mapping[str, tuple[float, float]] = {
    "soft_tissue": (40, 400),
    "lung": (-600, 1500),
    "bone": (300, 1500),
    "brain": (40, 80),
    "mediastinum": (50, 350),
    "angio": (200, 700),
    "liver": (60, 160),
}
"""Named CT windows: level and width in Hounsfield units, as radiology workstations preset them."""

SPECIAL_WINDOWS = ("auto", "percentile", "full", "none")
"""auto: soft_tissue for CT, none for 8-bit pictures, percentile otherwise."""

_AXES = {"axial": (1, 0, 2), "coronal": (2, 0, 1), "sagittal": (2, 1, 0), "picture": (1, 0, 2)}
"""View -> the RAS axis along rows (down), along columns (right), and through the slices."""


def to_ras(volume: Volume, what: str) -> Volume:
    """Permute and flip axes (never resample) so that i, j, k run Right, Anterior, Superior.

    `volume.data`: (i, j, k[, c]); a flat picture is returned as it is. `what` names the file.
    Raises `SourceError` where the affine is singular or not finite.
    """
    if volume.flat:
        return volume
    from nibabel.orientations import apply_orientation, inv_ornt_aff, io_orientation

    if not _regular(volume.affine):
        raise SourceError(
            f"{what}: the affine is singular or not finite, so directions are unknown; "
            "repair the header (qform or sform) before use"
        )
    turn = io_orientation(volume.affine)
    back = inv_ornt_aff(turn, volume.data.shape[:3])
    data: NDArray[Any] = apply_orientation(volume.data, turn)
    spacing = tuple(float(volume.spacing[int(axis)]) for axis in np.argsort(turn[:, 0]))
    return replace(
        volume,
        data=data,
        affine=volume.affine @ back,
        spacing=(spacing[0], spacing[1], spacing[2]),
        stored=np.linalg.inv(back) @ volume.stored,
    )


def _regular(affine: Floats) -> bool:
    """Whether the axes are finite and independent, whatever the size of a voxel."""
    if not np.isfinite(affine).all():
        return False
    lengths = np.linalg.norm(affine[:3, :3], axis=0)
    return bool(lengths.min() > 0) and abs(np.linalg.det(affine[:3, :3] / lengths)) > 1e-3


def slices_of(view: str) -> int:
    """The canonical axis that `view` is numbered along."""
    return _AXES[view][2]


@dataclass(frozen=True, slots=True)
class Plane:
    """How one view lays canonical indices on a picture; no pixels.

    `rows`, `columns`: size in source pixels; `row_axis`, `column_axis`: canonical axes along them;
    `flip_rows`, `flip_columns`: whether the index runs against the picture.
    `row_mm`, `column_mm`: pixel size.
    """

    view: str
    rows: int
    columns: int
    row_axis: int
    column_axis: int
    flip_rows: bool
    flip_columns: bool
    row_mm: float
    column_mm: float

    def matrix(self, number: int) -> Floats:
        """(4, 4): canonical voxel index -> plane pixel edges (x, y, slices away, 1)."""
        out = np.zeros((4, 4))
        for row, axis, flip, size in (
            (0, self.column_axis, self.flip_columns, self.columns),
            (1, self.row_axis, self.flip_rows, self.rows),
        ):
            out[row, axis] = -1.0 if flip else 1.0
            out[row, 3] = size - 0.5 if flip else 0.5
        out[2, slices_of(self.view)], out[2, 3], out[3, 3] = 1.0, -float(number), 1.0
        return out


def plane_of(
    view: str, shape: tuple[int, ...], spacing: tuple[float, float, float], display: str
) -> Plane:
    """The display convention of `view` for a canonical volume of `shape` (i, j, k).

    `radiological`: axial anterior up, patient right on image left; coronal superior up, patient
    right on image left; sagittal superior up, anterior on image left. `array` keeps index order.
    """
    row, column, _ = _AXES[view]
    turned = display == "radiological" and view != "picture"
    return Plane(
        view, shape[row], shape[column], row, column, turned, turned, spacing[row], spacing[column]
    )


def cut(data: NDArray[Any], plane: Plane, number: int) -> NDArray[Any]:
    """The picture (rows, columns[, 3]) of slice `number`; a view, not a copy."""
    axis = slices_of(plane.view)
    index: list[Any] = [slice(None)] * data.ndim
    index[axis] = number
    picture: NDArray[Any] = data[tuple(index)]
    if plane.row_axis > plane.column_axis:
        picture = picture.swapaxes(0, 1)
    if plane.flip_rows:
        picture = picture[::-1]
    if plane.flip_columns:
        picture = picture[:, ::-1]
    return picture


def levels(volume: Volume, window: str, modality: str) -> tuple[float, float] | None:
    """The grey values (low, high) that become 0 and 255; None where 8-bit pictures pass through.

    Per volume, so that contrast does not flicker from slice to slice. `percentile`: 0.5 and 99.5 %
    of the non-zero finite voxels (after MedSAM's preprocessing, as the paper's section 3.1.2);
    `full`: the finite extremes; `none`: as stored (8-bit only); else a name of `WINDOWS` or
    `LEVEL/WIDTH` in the stored units. Equal levels mean a constant picture, shown black.
    """
    if window == "auto":
        if modality in ("CT", "CTA", "CBCT"):
            window = "soft_tissue"
        else:
            window = "none" if volume.data.dtype == np.uint8 and volume.flat else "percentile"
    if window == "none":
        if volume.data.dtype != np.uint8:
            raise RecipeError(
                f"window 'none' needs 8-bit pictures, but these are {volume.data.dtype}; "
                "use percentile, full, a named window or LEVEL/WIDTH"
            )
        return None
    if window in ("percentile", "full"):
        return _spread(volume.data, (0.5, 99.5) if window == "percentile" else (0.0, 100.0))
    level, width = named_window(window)
    return level - width / 2, level + width / 2


def named_window(window: str) -> tuple[float, float]:
    """Level and width of a named window or of `LEVEL/WIDTH`. Raises `RecipeError` for others."""
    if window in WINDOWS:
        return WINDOWS[window]
    level, slash, width = window.partition("/")
    try:
        pair = float(level), float(width)
    except ValueError:
        pair = (0.0, -1.0)
    if not slash or not np.isfinite(pair).all() or pair[1] <= 0:
        raise RecipeError(
            f"unknown window {window!r}; known: {', '.join((*SPECIAL_WINDOWS, *WINDOWS))}, "
            "or LEVEL/WIDTH such as 40/400"
        )
    return pair


def _spread(data: NDArray[Any], percent: tuple[float, float]) -> tuple[float, float]:
    if data.dtype.kind in "ui" and data.dtype.itemsize <= 2:
        # Counting is exact for integers and several times faster than a partition.
        low = int(data.min())
        flat, step = data.ravel(order="K"), 1 << 20
        values = np.arange(low, int(data.max()) + 1)
        counts = np.zeros(values.size, np.int64)
        # bincount widens what it counts to 64 bits; a piece at a time stays in the cache.
        for start in range(0, flat.size, step):
            piece = flat[start : start + step].astype(np.int64) - low
            counts += np.bincount(piece, minlength=values.size)
        if percent != (0.0, 100.0):
            counts[values == 0] = 0
        filled = np.flatnonzero(counts)
        if not filled.size:
            return 0.0, 0.0
        total = np.cumsum(counts[filled])
        ends = [
            float(values[filled[np.searchsorted(total, total[-1] * p / 100, side="left")]])
            for p in percent
        ]
        return ends[0], ends[1]
    kept = data[np.isfinite(data)]
    if percent != (0.0, 100.0):
        kept = kept[kept != 0]
    if not kept.size:
        return 0.0, 0.0
    low_value, high_value = np.percentile(kept, percent)
    return float(low_value), float(high_value)


def window(picture: NDArray[Any], ends: tuple[float, float] | None) -> Pixels:
    """`picture` (rows, columns[, 3]) as uint8: `ends` become 0 and 255, rounded half to even.

    NaN and -Inf become 0, +Inf 255. Equal ends give a black picture.
    """
    if ends is None:
        return np.ascontiguousarray(picture, np.uint8)
    low, high = ends
    if not high > low:
        return np.zeros(picture.shape, np.uint8)
    # Wide whole numbers and doubles lose their last digits in single precision.
    wide = picture.dtype.itemsize > 2 and picture.dtype != np.float32
    scaled: NDArray[Any] = np.array(picture, np.float64 if wide else np.float32, order="C")
    np.nan_to_num(scaled, copy=False, nan=low, posinf=high, neginf=low)
    np.clip(scaled, low, high, out=scaled)
    np.subtract(scaled, low, out=scaled)
    # In this order whole numbers stay exact, so a grey does not depend on the type it came in.
    np.multiply(scaled, 255.0, out=scaled)
    np.divide(scaled, high - low, out=scaled)
    np.rint(scaled, out=scaled)
    return np.asarray(scaled.astype(np.uint8))


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a plane lies on the frame: its size there in pixels and its top left corner."""

    rows: int
    columns: int
    height: int
    width: int
    top: int
    left: int
    side: int = SIDE

    def matrix(self) -> Floats:
        """(4, 4): plane pixel edges -> frame pixel edges; the third coordinate is kept."""
        out = np.eye(4)
        out[0, 0], out[0, 3] = self.width / self.columns, self.left
        out[1, 1], out[1, 3] = self.height / self.rows, self.top
        return out

    def boxes(self, boxes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Half-open plane boxes (n, 4) as x0, y0, x1, y1 on the frame, rounded outward."""
        scale = np.array([self.width / self.columns, self.height / self.rows] * 2)
        shift = np.array([self.left, self.top] * 2)
        exact = boxes * scale + shift
        # A whole number spelled 119.99999999 by floating point must not grow the box.
        exact = np.where(np.abs(exact - np.rint(exact)) < 1e-6, np.rint(exact), exact)
        out = np.concatenate([np.floor(exact[:, :2]), np.ceil(exact[:, 2:])], axis=1)
        clipped: NDArray[np.int64] = np.clip(out, 0, self.side).astype(np.int64)
        return clipped

    def box(self, box: Box) -> Box:
        """One half-open plane box on the frame, rounded outward."""
        return Box(*(int(v) for v in self.boxes(np.array([box], np.int64))[0]))


def fit(plane: Plane, how: str, side: int = SIDE) -> Placement:
    """Where `plane` goes on a square frame of `side` pixels.

    `stretch` fills it (the paper: resized to 336 x 336); `pad` keeps the physical aspect from the
    pixel size and centres it on black.
    """
    if how == "stretch":
        return Placement(plane.rows, plane.columns, side, side, 0, 0, side)
    tall, wide = plane.rows * plane.row_mm, plane.columns * plane.column_mm
    longest = max(tall, wide)
    height = max(1, round(side * tall / longest))
    width = max(1, round(side * wide / longest))
    top, left = (side - height) // 2, (side - width) // 2
    return Placement(plane.rows, plane.columns, height, width, top, left, side)


def frame(picture: Pixels, placement: Placement, nearest: bool = False) -> Pixels:
    """`picture` (rows, columns[, 3]) uint8 on its frame (336, 336[, 3], or the side it is fit to).

    Area averaging where a side shrinks, linear where it grows, each side once; `nearest` is for
    masks and picks the source pixel whose centre is closest (INTER_NEAREST_EXACT).
    """
    import cv2

    picture = np.ascontiguousarray(picture)
    height, width = placement.height, placement.width
    if nearest:
        out = cv2.resize(picture, (width, height), interpolation=cv2.INTER_NEAREST_EXACT)
    else:
        # OpenCV's INTER_AREA turns into another filter as soon as one side grows.
        smaller = (min(width, picture.shape[1]), min(height, picture.shape[0]))
        out = picture
        if smaller != (picture.shape[1], picture.shape[0]):
            out = cv2.resize(out, smaller, interpolation=cv2.INTER_AREA)
        if smaller != (width, height):
            out = cv2.resize(out, (width, height), interpolation=cv2.INTER_LINEAR)
    side = placement.side
    if (height, width) == (side, side):
        return np.asarray(out, np.uint8)
    canvas = np.zeros((side, side, *picture.shape[2:]), np.uint8)
    canvas[placement.top : placement.top + height, placement.left : placement.left + width] = out
    return canvas


def flattened(volume: Volume) -> Volume:
    """`volume` as plain pictures: i to the right, j down, k frames, whatever its affine says."""
    i, j, _ = volume.spacing
    return replace(volume, affine=np.eye(4), spacing=(i, j, 1.0), flat=True)


SHEAR = 0.02
"""Cosine beyond which two axes of a grid are not at right angles (1.1 degrees)."""


def sheared(affine: Floats) -> list[set[int]]:
    """The pairs of axes of a grid that are not at right angles, as a tilted gantry leaves them."""
    axes = affine[:3, :3] / np.linalg.norm(affine[:3, :3], axis=0)
    return [
        {one, other}
        for one, other in ((0, 1), (0, 2), (1, 2))
        if abs(float(axes[:, one] @ axes[:, other])) > SHEAR
    ]


def agreement(picture: Grid, mask: Grid, names: str) -> str:
    """How the grids of a picture and its mask agree: `same`, `reoriented` or `placed`.

    A tenth of a voxel at the worst corner is float noise. `placed`: after reorienting, the mask's
    grid is the picture's, moved by whole voxels, so that it covers a part of it (as Slicer crops).
    Raises `SourceError` with both geometries where they are different grids.
    """
    if picture.flat or mask.flat:
        if picture.shape[:2] == mask.shape[:2] and picture.flat == mask.flat:
            return "same"
        told = " against ".join(f"{g.shape[0]}x{g.shape[1]} pixels" for g in (picture, mask))
        raise SourceError(
            f"{names}: picture and mask differ in size ({told}); bring the mask to the picture's "
            "size, or correct the pairing in the recipe"
        )
    if _apart(picture, mask) <= 0.1:
        return "same"
    regular = all(_regular(grid.affine) for grid in (picture, mask))
    if regular:
        one, other = canonical_grid(picture), canonical_grid(mask)
        if _apart(one, other) <= 0.1:
            return "reoriented"
        # With the picture's own origin a smaller mask is more likely a copied header than a crop.
        moved = np.linalg.inv(picture.affine) @ mask.affine[:, 3]
        if corner_in(one, other) is not None and np.abs(moved[:3]).max() > 0.5:
            return "placed"
    from nibabel.orientations import aff2axcodes

    told = " against ".join(
        f"{'x'.join(map(str, grid.shape))} voxels of "
        f"{'x'.join(f'{s:.4g}' for s in np.linalg.norm(grid.affine[:3, :3], axis=0))} mm at "
        f"({', '.join(f'{v:.4g}' for v in grid.affine[:3, 3])}) "
        f"{''.join(str(c) for c in aff2axcodes(grid.affine)) if regular else 'unknown'}"
        for grid in (picture, mask)
    )
    how = "of the same shape" if picture.shape == mask.shape else "of another shape"
    raise SourceError(
        f"{names}: picture and mask lie on different grids, {how} ({told}); "
        "resample the mask onto the picture's grid, or correct the pairing in the recipe"
    )


def canonical_grid(grid: Grid) -> Grid:
    """`grid` permuted and flipped to RAS; a flat one as it is."""
    if grid.flat:
        return grid
    from nibabel.orientations import inv_ornt_aff, io_orientation

    turn = io_orientation(grid.affine)
    i, j, k = (grid.shape[int(axis)] for axis in np.argsort(turn[:, 0]))
    return Grid((i, j, k), grid.affine @ inv_ornt_aff(turn, grid.shape))


def corner_in(outer: Grid, inner: Grid) -> tuple[int, int, int] | None:
    """The voxel of `outer` at which the first voxel of `inner` lies, both in canonical order.

    None where `inner` is not a part of `outer`, voxel on voxel. A grid that reaches beyond is no
    part: two equal shapes a voxel apart are a slip in a header, not a crop.
    """
    across = np.linalg.inv(outer.affine) @ inner.affine
    extent = np.array(inner.shape, float)
    if np.abs((across[:3, :3] - np.eye(3)) * extent).max() > 0.1:
        return None
    corner = np.rint(across[:3, 3])
    if np.abs(across[:3, 3] - corner).max() > 0.1:
        return None
    if (corner < 0).any() or (corner + extent > outer.shape).any():
        return None
    i, j, k = (int(c) for c in corner)
    return i, j, k


def placed(data: NDArray[Any], inner: Grid, outer: Grid) -> NDArray[Any]:
    """A label map on `inner`, a part of `outer` (both canonical), on `outer`: 0 around it."""
    corner = corner_in(outer, inner)
    if corner is None:
        raise ValueError("not a part of that grid")
    out = np.zeros((*outer.shape, *data.shape[3:]), data.dtype)
    out[tuple(slice(c, c + n) for c, n in zip(corner, inner.shape, strict=True))] = data
    return out


def _apart(one: Grid, other: Grid) -> float:
    """Largest distance of matching corners in voxels; infinite where the shapes differ."""
    if one.shape != other.shape:
        return float("inf")
    ends = np.array(np.meshgrid(*[(0, n - 1) for n in one.shape], indexing="ij")).reshape(3, -1)
    corners = np.vstack([ends, np.ones(ends.shape[1])])
    gaps = np.linalg.norm(((one.affine - other.affine) @ corners)[:3], axis=0)
    least = float(np.linalg.norm(one.affine[:3, :3], axis=0).min())
    return float(gaps.max() / least) if least > 0 else float("inf")
