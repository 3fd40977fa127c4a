"""NRRD (.nrrd, .nhdr, also 3D Slicer's .seg.nrrd) and MetaImage (.mha, .mhd).

Choice: the files are read here, and the tests hold the result against ITK (SimpleITK). Rejected:
ITK itself. It dies of a long line in a NRRD header, taking the whole pool of workers along, takes
the memory that a header declares, opens the data files that it names anywhere on the disk, and
returns chance voxels for a damaged compressed MetaImage.

A segmentation of 3D Slicer is known by its keys `SegmentN_ID` or `SegmentN_LabelValue`, not by its
name (Slicer, vtkMRMLSegmentationStorageNode). Its layers overlap, and may use a value again: then
all segments are renumbered 1..N in their order, and a voxel value that no segment claims gets a
number beyond those where its own is taken. A name that two segments carry names neither.
"""

import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import SourceError
from ..model import Floats, Grid, Volume, Wanted
from .itk_headers import LONGEST, Header, believed
from .itk_voxels import surplus, voxels

suffixes = (".nrrd", ".nhdr", ".mha", ".mhd")


class Segment(NamedTuple):
    """One segment of a Slicer segmentation: the voxels of `layer` that are `value`."""

    name: str
    layer: int
    value: int


class Layout(NamedTuple):
    """What the axes of a file mean: `shape` (i, j, k), and what lies along the others.

    `moments`: volumes along a further axis. `channels`: values a voxel. `colour`: these make one
    colour. `segments`: those of a Slicer segmentation.
    """

    shape: tuple[int, int, int]
    flat: bool
    moments: int
    channels: int
    colour: bool
    segments: tuple[Segment, ...]


def files(path: Path) -> tuple[Path, ...]:
    """The header and the files that it names. Raises `SourceError`."""
    return tuple(dict.fromkeys((path, *_header(path).sources)))


def measure(path: Path, wanted: Wanted) -> Grid:
    """Shape and place of the voxels, from the header alone. Raises `SourceError`."""
    header = _header(path)
    layout = _layout(path, header, wanted)
    affine, spacing = _place(path, header)
    pixel = (spacing[0], spacing[1]) if layout.flat else (1.0, 1.0)
    return Grid(layout.shape, affine, layout.flat, pixel)


def read(path: Path, wanted: Wanted) -> Volume:
    """The volume (i, j, k), or (i, j, k, 3) in colour, in the file's order; a view where it can be.

    `wanted.part` picks one of several volumes, from 0. A file of two axes is a flat picture
    (x, y, 1). With `wanted.labels`, the overlapping layers of a Slicer segmentation are
    (i, j, k, layers). Raises `SourceError` for a damaged or unbelievable file.
    """
    header = _header(path)
    layout = _layout(path, header, wanted)
    affine, spacing = _place(path, header)
    data = voxels(header)
    if header.channel is not None:
        data = np.moveaxis(data, header.channel, -1)
    data = data.reshape((*layout.shape, layout.moments, layout.channels))
    notes = _notes(path, header, layout, affine)
    names: dict[str, int] = {}
    if layout.segments:
        data = data.reshape((*layout.shape, -1))
        data, names, said = _separate(path, data, layout.segments)
        notes += said
    elif layout.colour:
        data = data[:, :, :, int(wanted.part or 0), :3]
    else:
        data = data.reshape((*layout.shape, -1))[..., int(wanted.part or 0)]
    return Volume(data, affine, spacing, np.eye(4), layout.flat, notes, names)


def _header(path: Path) -> Header:
    from . import itk_meta, itk_nrrd

    nrrd = path.name.lower().endswith((".nrrd", ".nhdr"))
    try:
        with path.open("rb") as file:
            raw = file.read(LONGEST)
        found = itk_nrrd.parsed(path, raw) if nrrd else itk_meta.parsed(path, raw)
        return believed(path, found)
    except OSError as error:
        raise SourceError(f"{path}: cannot be read ({error.strerror}); check the file") from error


def _layout(path: Path, header: Header, wanted: Wanted) -> Layout:
    """What the axes mean. Raises `SourceError` where what is wanted does not choose one volume."""
    spatial = (*header.spatial, 1) if len(header.spatial) == 2 else header.spatial
    further = [size for size in spatial[3:] if size > 1]
    channels = 1 if header.channel is None else header.sizes[header.channel]
    colour = header.colour and channels in (3, 4) and header.kind.name == "uint8"
    segments = _segments(path, header)
    if len(spatial) < 3 or len(further) > 1 or (further and channels > 1 and not colour):
        raise SourceError(
            f"{path}: holds an array of {'x'.join(map(str, header.sizes))}; one volume, or several "
            "along one further axis, are expected"
        )
    if wanted.labels and colour and not segments:
        raise SourceError(f"{path}: a picture in colour; a mask of label values is expected")
    moments = further[0] if further else 1
    count = 1 if segments else moments * (1 if colour else channels)
    if segments and not wanted.labels:
        raise SourceError(f"{path}: a segmentation of 3D Slicer, not a picture")
    if wanted.part is None and count > 1:
        raise SourceError(
            f"{path}: holds {count} volumes ({'x'.join(map(str, header.sizes))}); parts in the "
            "recipe's layout chooses, counted from 0"
        )
    if wanted.part is not None and (
        not isinstance(wanted.part, int) or not 0 <= wanted.part < count
    ):
        raise SourceError(f"{path}: has no part {wanted.part!r}; it holds {count}, counted from 0")
    if wanted.only is not None and set(wanted.only) - {0}:
        raise SourceError(f"{path}: has one frame only, number 0")
    flat = len(header.spatial) == 2
    return Layout((spatial[0], spatial[1], spatial[2]), flat, moments, channels, colour, segments)


def _place(path: Path, header: Header) -> tuple[Floats, tuple[float, float, float]]:
    """Voxel index -> RAS mm, and the spacing. Raises `SourceError` for singular directions."""
    affine = np.eye(4)
    if len(header.spatial) == 2:
        across, down = (float(np.linalg.norm(step)) for step in header.steps)
        usable = across > 0 and down > 0
        return affine, (across, down, 1.0) if usable else (1.0, 1.0, 1.0)
    affine[:3, :3] = 0
    for axis, step in enumerate(header.steps):
        if len(step) == 1:  # a length only
            affine[axis, axis] = step[0]
        else:
            affine[: len(step), axis] = step
    affine[: len(header.origin), 3] = header.origin
    affine[:2] *= -1  # both formats count towards left and posterior
    affine += 0.0  # no -0
    spacing = np.linalg.norm(affine[:3, :3], axis=0)
    if not spacing.all() or abs(np.linalg.det(affine[:3, :3] / spacing)) < 1e-6:
        raise SourceError(
            f"{path}: the header's directions are singular, so sides are unknown; repair the header"
        )
    return affine, (float(spacing[0]), float(spacing[1]), float(spacing[2]))


def _notes(path: Path, header: Header, layout: Layout, affine: Floats) -> tuple[str, ...]:
    said = []
    if header.unplaced and not layout.flat:
        said.append(
            f"{path.name}: {header.unplaced}; its axes taken to run left, posterior and superior"
        )
    if layout.colour and layout.channels == 4:
        said.append(f"{path.name}: the fourth channel, transparency, is left out")
    cosines = affine[:3, :3] / np.linalg.norm(affine[:3, :3], axis=0)
    if not layout.flat and np.abs(cosines.T @ cosines - np.eye(3)).max() > 0.01:
        said.append(f"{path.name}: its axes do not stand at right angles; taken as they are")
    if surplus(header):
        said.append(f"{path.name}: bytes follow the voxels that the header declares")
    return tuple(said)


def _segments(path: Path, header: Header) -> tuple[Segment, ...]:
    """The segments that the keys of a Slicer segmentation tell of; none for any other file.

    Slicer up to 4.10 gave every segment a layer of its own, value 1, and wrote neither.
    """
    told: dict[int, dict[str, str]] = {}
    for key, text in header.keys.items():
        found = re.fullmatch(r"Segment([0-9]{1,5})_(ID|Name|Layer|LabelValue)", key)
        if found:
            told.setdefault(int(found[1]), {})[found[2]] = text.strip()
    layers = int(np.prod(header.sizes)) // int(np.prod(header.spatial[:3]))
    segments = []
    for number, said in sorted(told.items()):
        layer, value = said.get("Layer", str(number)), said.get("LabelValue", "1")
        if not re.fullmatch("[0-9]{1,5}", layer) or not re.fullmatch("-?[0-9]{1,9}", value):
            raise SourceError(f"{path}: segment {number} has no usable layer or label value")
        if int(layer) >= layers:
            raise SourceError(f"{path}: segment {number} lies on layer {layer} of {layers}")
        segments.append(Segment(said.get("Name", said.get("ID", "")), int(layer), int(value)))
    if len({(s.layer, s.value) for s in segments}) < len(segments):
        raise SourceError(f"{path}: two of its segments claim the same voxels")
    if segments and header.kind.kind not in "ui":
        raise SourceError(f"{path}: segments by label value, but its voxels are no whole numbers")
    return tuple(segments)


def _separate(
    path: Path, data: NDArray[Any], segments: tuple[Segment, ...]
) -> tuple[NDArray[Any], dict[str, int], tuple[str, ...]]:
    """Layers (i, j, k, layers) in which no value stands twice, what segments are called, notes."""
    named = [segment.name for segment in segments]
    twice = {name for name in named if named.count(name) > 1}
    notes = [f"{path.name}: {len(twice)} names stand for two segments each; use numbers"] * bool(
        twice
    )
    layers = data.shape[3]
    pairs = {(s.layer, s.value): s.value for s in segments}
    if layers > 1:
        found = [(n, int(v)) for n in range(layers) for v in _values(data[..., n]) if v]
        unnamed = sorted(set(found) - pairs.keys())
        values = [value for _, value in [*pairs, *unnamed]]
        if len(set(values)) < len(values):
            pairs = {(s.layer, s.value): number for number, s in enumerate(segments, 1)}
            taken = set(pairs.values())
            for pair in unnamed:
                pairs[pair] = pair[1] if pair[1] not in taken else max(taken) + 1
                taken.add(pairs[pair])
            data = _renumbered(data, pairs)
            notes.append(
                f"{path.name}: layers use label values twice; its {len(segments)} segments are "
                "renumbered from 1 in their order"
            )
            if unnamed:
                notes.append(f"{path.name}: {len(unnamed)} values of no segment kept beside them")
    names = {s.name: pairs[s.layer, s.value] for s in segments if s.name and s.name not in twice}
    return (data if layers > 1 else data[..., 0]), names, tuple(notes)


def _values(data: NDArray[Any]) -> NDArray[Any]:
    """The different values, in order; counted, where they are few, rather than sorted."""
    if data.dtype.kind == "u" and data.dtype.itemsize <= 2:
        return np.flatnonzero(np.bincount(data.ravel(order="K")))
    return np.unique(data)


def _renumbered(data: NDArray[Any], pairs: dict[tuple[int, int], int]) -> NDArray[Any]:
    """(i, j, k, layers) with the values of each layer replaced; what no pair tells of is 0."""
    lowest, highest = min(pairs.values()), max(pairs.values())
    kind = np.result_type(np.min_scalar_type(highest), np.min_scalar_type(lowest))
    out = np.zeros(data.shape, kind, order="F")
    for (layer, value), number in pairs.items():
        out[..., layer][data[..., layer] == value] = number
    return out
