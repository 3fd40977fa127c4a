"""What the YAML documents say: manifest, dataset recipes, benchmark recipes."""

import difflib
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from ..errors import RecipeError, UnknownName
from ..model import TASKS, Choice, Reading
from ..standardise import SPECIAL_WINDOWS, named_window

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]
Policy = Literal["one", "largest", "union"]
View = Literal["axial", "coronal", "sagittal", "picture"]
Modality = Literal[
    "CT", "CTA", "CBCT", "MRI", "US", "X-ray", "Endoscopy", "Colonoscopy", "Fundus", "Dermoscopy"
]


class Document(BaseModel):
    """A document whose every key is known: a typo is an error, not a silence."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)


class Licence(Document):
    """What a source allows. `redistribution`: whether pictures made of it may be passed on."""

    name: str
    redistribution: Literal["yes", "no", "unknown"]
    url: str | None = None
    note: str | None = None


class Access(Document):
    """One way to obtain a dataset; `embedded` ones travel with the package."""

    kind: Name
    id: str | None = None
    url: str | None = None
    gated: bool = False
    steps: str | None = None


class Entry(Document):
    """What a dataset is and allows; stands in the manifest, or in the recipe of one's own dataset.

    `family` joins datasets that share patients (default: the dataset alone); a split never
    separates a family's patient.
    """

    title: str
    licence: Licence
    citation: str
    family: Name | None = None
    access: list[Access] = []


class DatasetEntry(Entry):
    """One dataset of the manifest: what it is and how it is obtained."""

    name: Name
    modalities: list[Modality] = Field(min_length=1)
    dim: Literal["2D", "3D", "video"]


class Manifest(Document):
    """`data_manifest.yaml`."""

    datasets: list[DatasetEntry]

    def entry(self, name: str) -> DatasetEntry:
        """The entry called `name`. Raises `UnknownName`."""
        for entry in self.datasets:
            if entry.name == name:
                return entry
        near = difflib.get_close_matches(name, [e.name for e in self.datasets], 1)
        raise UnknownName(
            f"data_manifest.yaml: no dataset {name!r}"
            + (f"; did you mean {near[0]!r}?" if near else "; add an entry for it")
        )


class Layout(Document):
    """How a dataset's files are named. Patterns are relative, with `{case}` and `{patient}`.

    A pattern that ends in `/` names folders (a DICOM series, a folder of frames); `{frame}` in a
    file's name stands for the number of each frame of a sequence. `image` is one pattern, or one a
    series. `mask` is one pattern whose values `labels` names, or one a structure (any value but 0
    is inside). `marks`: an annotation file, one for all cases or one a case. `parts`: of files that
    hold several arrays, series or structure (`image`, `mask`) -> which. `first`: the number that
    the mask of a video's first frame carries.
    """

    kind: Name = "paired"
    image: str | dict[str, str]
    mask: str | dict[str, str] | None = None
    marks: str | None = None
    parts: dict[str, int | str] = {}
    first: int | None = Field(None, ge=0)
    patient: str = "{case}"

    @field_validator("image", "mask", "marks")
    @classmethod
    def _inside(cls, value: str | dict[str, str] | None) -> str | dict[str, str] | None:
        for pattern in [value] if isinstance(value, str) else (value or {}).values():
            if pattern.startswith("/") or ".." in Path(pattern).parts or "\\" in pattern:
                raise ValueError(f"{pattern!r} must be a relative path inside the dataset's folder")
            unknown = set(re.findall(r"\{(.*?)\}", pattern)) - {"case", "patient", "frame"}
            if unknown:
                raise ValueError(
                    f"{pattern!r}: only {{case}}, {{patient}} and {{frame}} can stand in braces"
                )
            folder, _, name = pattern.rpartition("/")
            if "{frame}" in folder or ("{frame}" in name and re.search(r"[*?]", pattern)):
                raise ValueError(
                    f"{pattern!r}: {{frame}} stands in the file's name, and not beside * or ?"
                )
        return value

    @model_validator(mode="after")
    def _known_parts(self) -> "Layout":
        series = list(self.image) if isinstance(self.image, dict) else ["image"]
        masks = list(self.mask) if isinstance(self.mask, dict) else ["mask"]
        for name in self.parts:
            if name not in (*series, *masks):
                raise ValueError(f"parts: {name!r} is none of {', '.join((*series, *masks))}")
        if self.mask is not None and self.marks is not None:
            raise ValueError("mask and marks: give one of them")
        return self


class MarkingPlan(Document):
    """How the annotation file of `layout.marks` is to be read; see `medsg-build list annotations`.

    `columns`: what a column means (picture, name, x0, y0, x1, y1, width, height, cx, cy, frame,
    runs) -> its header. `runs`: the dialect of run-length masks. `classes`: the names of YOLO's
    numbers. `sizes`: a table of the sizes of the pictures that the marks were drawn on; `sized`:
    its columns (picture, width, height). `skip`: names that mean that nothing is marked.
    """

    kind: Name
    columns: dict[str, str] = {}
    runs: str = ""
    classes: list[str] = []
    sizes: str | None = None
    sized: dict[str, str] = {}
    skip: list[str] = []

    @field_validator("sizes")
    @classmethod
    def _inside(cls, value: str | None) -> str | None:
        if value is not None and (value.startswith("/") or ".." in Path(value).parts):
            raise ValueError(f"{value!r} must be a relative path inside the dataset's folder")
        return value


class Pick(Document):
    """A structure as a union of label values, without others: `{any: [1, 2], never: [3]}`."""

    any: list[int | str] = []
    never: list[int | str] = []


Labels = int | str | list[int | str] | Pick
"""A value, or several; a name that the file itself gives; `any`: every value but 0."""


class DatasetRecipe(Document):
    """How one dataset is read."""

    name: Name
    modality: Modality
    regions: list[str] = []
    layout: Layout
    labels: dict[str, Labels] = {}
    sides: dict[str, Literal["whole", "cut"]] = {}
    marking: MarkingPlan | None = None
    threshold: float | None = None
    window: str = "auto"
    display: Literal["radiological", "array"] = "radiological"
    views: list[View] = ["axial", "coronal", "sagittal"]
    dust: int = Field(8, ge=0)
    policy: dict[str, Policy] = {}
    ignore: dict[str, str] = {}
    tasks: list[str] | None = None
    entry: Entry | None = None

    @field_validator("window")
    @classmethod
    def _window(cls, value: str) -> str:
        if value not in SPECIAL_WINDOWS:
            try:
                named_window(value)
            except RecipeError as error:
                raise ValueError(str(error)) from error
        return value

    @field_validator("labels")
    @classmethod
    def _labels(cls, value: dict[str, Labels]) -> dict[str, Labels]:
        for structure, said in value.items():
            choice = _choice(said)
            for one in (*choice.among, *choice.never):
                if isinstance(one, int) and not 1 <= one <= 65535:
                    raise ValueError(f"{structure}: label values run from 1 to 65535, not {one}")
            if not choice.among and said != "any" and not choice.never:
                raise ValueError(f"{structure}: names no value; `any` means every value but 0")
        return value

    @field_validator("tasks")
    @classmethod
    def _tasks(cls, value: list[str] | None) -> list[str] | None:
        return _known_tasks(value)

    @model_validator(mode="after")
    def _complete(self) -> "DatasetRecipe":
        layout = self.layout
        several = isinstance(layout.mask, dict)
        if (isinstance(layout.mask, str) or layout.marks) and not self.labels:
            raise ValueError("labels: name the structures of the mask's values, as Liver: 1")
        if self.labels and not (layout.mask or layout.marks):
            raise ValueError("labels: are given, but layout has neither mask nor marks")
        if several and self.labels.keys() - layout.mask.keys():  # type: ignore[union-attr]
            extra = ", ".join(sorted(self.labels.keys() - layout.mask.keys()))  # type: ignore[union-attr]
            raise ValueError(f"labels: {extra}: layout.mask has no pattern for it")
        if bool(layout.marks) != bool(self.marking):
            raise ValueError("layout.marks and marking: belong together; one of them is missing")
        known = layout.mask if isinstance(layout.mask, dict) else self.labels
        for structure in self.sides:
            if structure not in known:
                raise ValueError(f"sides: {structure!r} is none of {', '.join(known)}")
        if self.sides and layout.marks:
            raise ValueError("sides: pictures do not tell left from right; only volumes do")
        if "picture" in self.views and len(self.views) > 1:
            raise ValueError("views: `picture` (shown as stored) stands alone")
        return self

    def choices(self) -> dict[str, dict[str, Choice]]:
        """Mask pattern's name ('' for the one of all) -> structure -> its values.

        Structures under `sides` become two, as LeftKidney and RightKidney.
        """
        said = {name: _choice(one) for name, one in self.labels.items()}
        if isinstance(self.layout.mask, dict):
            by_mask = {name: {name: said.get(name, Choice())} for name in self.layout.mask}
        else:
            by_mask = {"": said}
        return {
            mask: {
                f"{side.capitalize()}{name}": choice._replace(
                    side=side, cut=self.sides.get(name) == "cut"
                )
                for name, choice in held.items()
                for side in (("left", "right") if name in self.sides else ("",))
            }
            for mask, held in by_mask.items()
        }

    def reading(self, least_side: int) -> Reading:
        """The plain form that travels to workers."""
        return Reading(
            self.window,
            self.display,
            tuple(self.views),
            self.dust,
            dict(self.policy),
            least_side,
            self.threshold,
            self.layout.first,
        )


def _choice(said: Labels) -> Choice:
    if isinstance(said, Pick):
        return Choice(tuple(said.any), tuple(said.never))
    if said == "any":
        return Choice()
    return Choice(tuple(said) if isinstance(said, list) else (said,))


class TaskPlan(Document):
    """What a benchmark asks of one task: how many, and the task's own options."""

    quota: int = Field(ge=1)
    options: dict[str, Any] = {}


class BenchmarkRecipe(Document):
    """What is built from which datasets."""

    name: Name
    title: str
    seed: int = Field(0, ge=0, lt=2**63)
    fit: Literal["stretch", "pad"] = "pad"
    least_side: int = Field(5, ge=1, le=336)
    datasets: list[Name] = Field(min_length=1)
    tasks: dict[str, TaskPlan] = Field(min_length=1)
    splits: dict[Name, float] = {"test": 1.0}
    max_failed: float = Field(0.5, ge=0, le=1)

    @field_validator("tasks")
    @classmethod
    def _tasks(cls, value: dict[str, TaskPlan]) -> dict[str, TaskPlan]:
        _known_tasks(list(value))
        return value

    @field_validator("splits")
    @classmethod
    def _splits(cls, value: dict[str, float]) -> dict[str, float]:
        if not value or min(value.values()) < 0 or abs(sum(value.values()) - 1) > 1e-9:
            raise ValueError("shares must not be negative and must add up to 1")
        return value


def _known_tasks(value: list[str] | None) -> list[str] | None:
    for name in value or ():
        if name not in TASKS:
            raise ValueError(f"unknown task {name!r}; known: {', '.join(TASKS)}")
    return value
