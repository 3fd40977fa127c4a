"""The nouns of the project. No I/O, no pixels made here.

Conventions (design, section 4), stated once:

* A **frame** is 336 x 336, uint8, grey (336, 336) or RGB (336, 336, 3); origin top left, x to the
  right, y down. Pixel p covers [p, p + 1).
* A **box** is half-open, in whole pixels of a frame; the release writes the last pixel included.
* A **matrix** is (4, 4) float64 and maps a source voxel index (centre of a voxel at whole numbers,
  in the order the file stores them; slices of DICOM count along their normal) to (x, y, slices
  away from the frame, 1). The floor of x and y is the pixel that shows the voxel's centre.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

SIDE = 336
"""Width and height of every frame in pixels (paper, section 3.1.2)."""

VIEWS = ("axial", "coronal", "sagittal", "picture")
"""The ways a source is cut; `picture` is a 2D source as it is. Surveys store the position here."""

TASKS = {
    "rdg": (1, "Registered_Diff"),
    "nrdg": (2, "Non_Registered_Diff"),
    "mv": (3, "multi_view"),
    "ot": (4, "object_tracking"),
    "vcg": (5, "concept"),
    "vpg": (6, "patch"),
    "cmg": (7, "crossmodal"),
    "rg": (8, "referring"),
}
"""Short name -> (number of the paper, `task` value of the published records)."""

Floats = NDArray[np.float64]
Pixels = NDArray[np.uint8]


class Box(NamedTuple):
    """Half-open pixel rectangle [x0, x1) x [y0, y1) on a frame; origin top left."""

    x0: int
    y0: int
    x1: int
    y1: int

    @property
    def width(self) -> int:
        """Pixels across; not negative."""
        return max(0, self.x1 - self.x0)

    @property
    def height(self) -> int:
        """Pixels down; not negative."""
        return max(0, self.y1 - self.y0)

    @property
    def area(self) -> int:
        """Pixels covered."""
        return self.width * self.height

    def contains(self, other: "Box") -> bool:
        """Whether `other` lies wholly inside this box."""
        return (
            self.x0 <= other.x0
            and self.y0 <= other.y0
            and self.x1 >= other.x1
            and self.y1 >= other.y1
        )

    def overlap(self, other: "Box") -> int:
        """Pixels that both boxes cover."""
        return Box(
            max(self.x0, other.x0),
            max(self.y0, other.y0),
            min(self.x1, other.x1),
            min(self.y1, other.y1),
        ).area

    def iou(self, other: "Box") -> float:
        """Intersection over union of the covered pixels; 0 where neither covers any."""
        both = self.overlap(other)
        union = self.area + other.area - both
        return both / union if union else 0.0

    def published(self) -> list[int]:
        """The released form `[x0, y0, x1 - 1, y1 - 1]`: the last pixel is included."""
        return [self.x0, self.y0, self.x1 - 1, self.y1 - 1]


FULL = Box(0, 0, SIDE, SIDE)


class FrameRef(NamedTuple):
    """Which picture of which source: `number` counts in canonical RAS order along `view`."""

    case: str
    series: str
    view: str
    number: int

    def spelled(self) -> str:
        """The reference in one line, for keys and file digests."""
        return f"{self.case}/{self.series}/{self.view}/{self.number}"


@dataclass(frozen=True, slots=True)
class Reading:
    """How the pixels of a dataset are to be understood; the plain form of its recipe."""

    window: str = "auto"
    display: str = "radiological"
    views: tuple[str, ...] = ("axial", "coronal", "sagittal")
    dust: int = 8
    policy: Mapping[str, str] = field(default_factory=dict)
    least_side: int = 5
    threshold: float | None = None
    first: int | None = None


class Choice(NamedTuple):
    """Which label values make a structure: any of `among` but none of `never`.

    A value is a number, or a name that the file itself gives (a segment, a colour `#rrggbb`, the
    class of a mark). An empty `among` means every value but 0. `side` (left or right) keeps one
    side of the midline: whole components by their centroid, or, with `cut`, the voxels there.
    """

    among: tuple[int | str, ...] = ()
    never: tuple[int | str, ...] = ()
    side: str = ""
    cut: bool = False


@dataclass(frozen=True, slots=True)
class MaskFile:
    """One mask on disk and what its structures are made of; `part` as in `Wanted`."""

    path: Path
    labels: Mapping[str, Choice]
    part: int | str | None = None


@dataclass(frozen=True, slots=True)
class Marking:
    """How an annotation file (boxes, runs, polygons) is to be read.

    `kind`: coco, yolo, voc, boxes or runs. `columns`: for tables, what a column means -> its
    header. `runs`: the dialect of run-length masks. `classes`: what the numbers of YOLO mean.
    `sizes`: a table of the sizes of the pictures that the marks were drawn on, where the pictures
    on disk are others, and `sized` its columns. `skip`: names that mean that nothing is marked.
    """

    kind: str
    columns: Mapping[str, str] = field(default_factory=dict)
    runs: str = ""
    classes: tuple[str, ...] = ()
    sizes: Path | None = None
    sized: Mapping[str, str] = field(default_factory=dict)
    skip: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MarkFile:
    """One annotation file, how it is read, and what its structures are called there."""

    path: Path
    labels: Mapping[str, Choice]
    marking: Marking


class Mark(NamedTuple):
    """One object of an annotation file, in pixel edges of the picture: pixel p covers [p, p + 1).

    `name`: its class as the file spells it ('' where it names none). `box`: x0, y0, x1, y1, not
    rounded. `mask`: (rows, columns) bool, where the file draws the object. `frame`: which frame of
    a sequence it lies on.
    """

    name: str
    box: tuple[float, float, float, float]
    mask: NDArray[np.bool_] | None = None
    frame: int = 0


@dataclass(frozen=True, slots=True)
class Case:
    """One examination as it lies on disk, undecoded.

    `name` is unique in a build (`dataset/case`); `patient` is qualified by the dataset's family, so
    that two datasets that share patients share these words. `files` maps a series to its picture,
    volume, folder or pattern of frames, under `root`, and `parts` to which array of it is meant;
    `regions` are body regions the recipe declares to be on view.
    """

    dataset: str
    name: str
    patient: str
    modality: str
    root: Path
    files: Mapping[str, Path]
    masks: tuple[MaskFile, ...]
    reading: Reading
    licence: str
    regions: tuple[str, ...] = ()
    modalities: Mapping[str, str] = field(default_factory=dict)
    parts: Mapping[str, int | str] = field(default_factory=dict)
    marks: MarkFile | None = None

    def modality_of(self, series: str) -> str:
        """The modality of one series; most cases have only one."""
        return self.modalities.get(series, self.modality)


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Where the voxels of a file lie, as its header tells.

    `shape`: (i, j, k). `affine`: (4, 4) float64, voxel index -> RAS mm. `flat`: plain pictures with
    no place in space; i runs to the right, j down, k counts the frames of a sequence, and `pixel`
    is their size along i and j in any unit, where the file tells it.
    """

    shape: tuple[int, int, int]
    affine: Floats
    flat: bool = False
    pixel: tuple[float, float] = (1.0, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """What is asked of a file, beside its path.

    `labels`: label values rather than intensities. `part`: which array of a file that holds several
    (a position from 0, or a name). `only`: the frames of a sequence that are asked for; None for
    all. For masks: `onto`, the grid of the picture, and `picture`, its path; `first`, the number
    that the mask of a sequence's first frame carries in its name (None: by the stated default).
    """

    labels: bool = False
    part: int | str | None = None
    only: tuple[int, ...] | None = None
    onto: Grid | None = None
    picture: Path | None = None
    first: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Volume:
    """Decoded voxels. `data`: (i, j, k) or, in colour, (i, j, k, 3); any dtype.

    A label map of overlapping structures is (i, j, k, layers); no value stands in two layers.
    `affine`: (4, 4) float64, voxel index -> RAS mm. `spacing`: mm along i, j, k. `stored`: (4, 4)
    float64, index in the file -> index in `data`. `flat` marks plain pictures, shown as they are.
    `names`: what the file itself calls its label values. `numbers`: the frames held, where these
    are not all of a sequence. `notes` say what was repaired or chosen while reading.
    """

    data: NDArray[Any]
    affine: Floats
    spacing: tuple[float, float, float]
    stored: Floats
    flat: bool = False
    notes: tuple[str, ...] = ()
    names: Mapping[str, int] = field(default_factory=dict)
    numbers: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """One standardised picture. `image`: (336, 336) or (336, 336, 3) uint8; `matrix`: (4, 4).

    Where a task asked for a margin of m pixels, both sides are 336 + 2 m, margin included.
    `mask` is (336, 336) uint8, 1 inside the structure asked for; None where no task asked.
    `steps` tell how it was made, in order, for the provenance.
    """

    ref: FrameRef
    image: Pixels
    matrix: Floats
    mask: Pixels | None = None
    steps: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class Order:
    """A frame to develop, with the structure whose mask goes with it ('' for none).

    `margin`: pixels of picture wanted beyond each side of the 336, for tasks that move it.
    """

    ref: FrameRef
    structure: str = ""
    margin: int = 0


class Region(NamedTuple):
    """One 3D component of one structure on one slice; `box` is final, on the 336 frame.

    `pixels` counts source pixels; `first` and `second` are its largest pieces on this slice, in
    source pixels (`second` is 0 where the section is one piece). `reach`: the box of the largest
    piece in percent of the section's.
    """

    view: str
    number: int
    structure: str
    component: int
    box: Box
    pixels: int
    first: int
    second: int
    reach: int


REGION_DTYPE = np.dtype(
    [
        ("view", "u1"), ("number", "i4"), ("structure", "i2"), ("component", "i4"),
        ("x0", "i2"), ("y0", "i2"), ("x1", "i2"), ("y1", "i2"),
        ("pixels", "i4"), ("first", "i4"), ("second", "i4"), ("reach", "u1"),
    ]
)  # fmt: skip
"""A survey's columns; `view` and `structure` are positions in `VIEWS` and `structures`."""


@dataclass(frozen=True, slots=True, eq=False)
class CaseSurvey:
    """What a case holds, without pixels.

    `regions`: (n,) of `REGION_DTYPE`. `frames`: view -> numbers of the slices worth showing (some
    labelled foreground; where nothing is labelled, some body); `extent`: all that there are.
    `inside`: (structure, component) -> a voxel (i, j, k) of canonical RAS order inside it, its
    centroid where that lies inside.
    `dropped` counts rejections by reason. `sources`: file -> sha256. `boxed`: structures of which
    the source tells a box but no outline.
    """

    case: Case
    structures: tuple[str, ...]
    regions: NDArray[np.void]
    frames: Mapping[str, tuple[int, ...]]
    inside: Mapping[tuple[str, int], tuple[int, int, int]]
    dropped: Mapping[str, int]
    sources: Mapping[str, str]
    notes: tuple[str, ...] = ()
    boxed: frozenset[str] = frozenset()
    extent: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def region(self, row: NDArray[np.void]) -> Region:
        """One row of `regions` in words."""
        return Region(
            VIEWS[int(row["view"])],
            int(row["number"]),
            self.structures[int(row["structure"])],
            int(row["component"]),
            Box(int(row["x0"]), int(row["y0"]), int(row["x1"]), int(row["y1"])),
            int(row["pixels"]),
            int(row["first"]),
            int(row["second"]),
            int(row["reach"]),
        )


@dataclass(frozen=True, slots=True)
class Draft:
    """A question that could be asked: everything is decided but the pixels.

    `frames` are the source frames in the order the sequence shows them; `boxes` go with them
    (None where the draft needs none). `target` and `reference` are positions in `frames`
    (`reference` -1 where the task has none). `masks` asks for the structure's mask on the target,
    `margin` for that many pixels of picture beyond each side.
    """

    task: str
    key: str
    stratum: str
    dataset: str
    patients: tuple[str, ...]
    frames: tuple[FrameRef, ...]
    boxes: tuple[Box | None, ...]
    target: int
    reference: int = -1
    structure: str = ""
    component: int = 0
    modality: str = ""
    masks: bool = False
    margin: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Composed:
    """A finished sample without a name: what a task makes of its frames.

    `images`: each (336, 336[, 3]) uint8. `origins` says for each image which of the draft's frames
    it shows. `answer` lies on `images[answer_image]`.
    """

    images: tuple[Pixels, ...]
    origins: tuple[int, ...]
    question: str
    answer: Box
    answer_image: int
    steps: tuple[Mapping[str, Any], ...] = ()
    reference: Box | None = None
    reference_image: int = -1


@dataclass(frozen=True, slots=True)
class Rejected:
    """Why a draft did not become a sample: a short, countable reason."""

    reason: str


@dataclass(frozen=True, slots=True)
class Sample:
    """One released question. `record` is the row of `TaskN.json`, `provenance` its custody."""

    id: str
    task: str
    split: str
    record: Mapping[str, Any]
    provenance: Mapping[str, Any]
