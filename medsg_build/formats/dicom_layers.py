"""Label maps on a picture's grid, in layers where structures overlap."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SourceError
from ..model import Grid, Volume, Wanted
from .dicom_headers import LARGEST, head_of
from .dicom_open import has_magic

Piece = tuple[tuple[int | slice, ...], NDArray[np.bool_]]
"""Where on the grid, and which of the voxels there; both of one 2D shape."""


class Layers:
    """Label maps of one shape (i, j, k), begun as they are needed; no value stands in two."""

    def __init__(self, path: Path, grid: Grid, largest: int) -> None:
        self.path, self.grid = path, grid
        self.kind = np.dtype(np.uint8 if largest < 256 else np.uint16)
        self.maps: list[NDArray[Any]] = [np.zeros(grid.shape, self.kind)]

    def lay(self, value: int, pieces: Sequence[Piece]) -> None:
        """Writes `value` into the first layer in which nothing else stands there.

        Raises `SourceError` where so many overlap that no memory holds them.
        """
        for layer in self.maps:
            if not any(layer[where][mask].any() for where, mask in pieces):
                break
        else:
            if (len(self.maps) + 1) * self.maps[0].nbytes > LARGEST:
                raise SourceError(
                    f"{self.path}: over {len(self.maps)} structures overlap in one place; no "
                    "layers of this size can be held"
                )
            layer = np.zeros(self.grid.shape, self.kind)
            self.maps.append(layer)
        for where, mask in pieces:
            layer[where][mask] = value

    def volume(self, names: Mapping[str, int], notes: Sequence[str]) -> Volume:
        """The label map: (i, j, k), or (i, j, k, layers) where structures overlap."""
        spacing = np.linalg.norm(self.grid.affine[:3, :3], axis=0)
        return Volume(
            self.maps[0] if len(self.maps) == 1 else np.stack(self.maps, axis=-1),
            self.grid.affine,
            (float(spacing[0]), float(spacing[1]), float(spacing[2])),
            np.eye(4),
            False,
            tuple(notes),
            dict(names),
        )


def grid_for(path: Path, wanted: Wanted, what: str) -> Grid:
    """The grid of the picture that a mask is made for. Raises `SourceError` where there is none."""
    if wanted.onto is None:
        raise SourceError(
            f"{path}: {what} are laid on the grid of the picture they were made for; name that "
            "series as the picture of the same case"
        )
    if wanted.onto.flat:
        raise SourceError(
            f"{path}: {what} need a picture with a place in space, but theirs is a flat one"
        )
    return wanted.onto


def elsewhere(path: Path, wanted: Wanted, places: set[str]) -> tuple[str, ...]:
    """A note where the picture, if it is DICOM, names another frame of reference than the mask."""
    picture = wanted.picture
    if picture is not None and picture.is_dir():
        there = sorted(file for file in picture.iterdir() if file.is_file() and has_magic(file))
        picture = there[0] if there else None
    if picture is None or not picture.is_file() or not has_magic(picture):
        return ()
    place = head_of(picture).place
    if not place or not places - {""} or place in places:
        return ()
    return (f"{path.name}: names another frame of reference than its picture; laid on by position",)


def unique(names: Sequence[tuple[str, int]]) -> dict[str, int]:
    """The names that stand for one value alone -> that value."""
    told = [name for name, _ in names]
    return {name: value for name, value in names if name and told.count(name) == 1}
