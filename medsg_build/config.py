"""The YAML documents: manifest, dataset recipes, benchmark recipes. pydantic stays in this file.

A fault is told as `file:line: where: what`, and all faults of a file at once.
"""

import difflib
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from .errors import RecipeError, UnknownName
from .model import TASKS, Reading
from .standardise import SPECIAL_WINDOWS, named_window

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

    `image` is one pattern, or one a series. `mask` is one pattern whose values `labels` names, or
    one a structure (any value but 0 is inside).
    """

    kind: Name = "paired"
    image: str | dict[str, str]
    mask: str | dict[str, str] | None = None
    patient: str = "{case}"

    @field_validator("image", "mask")
    @classmethod
    def _inside(cls, value: str | dict[str, str] | None) -> str | dict[str, str] | None:
        for pattern in [value] if isinstance(value, str) else (value or {}).values():
            if pattern.startswith("/") or ".." in Path(pattern).parts or "\\" in pattern:
                raise ValueError(f"{pattern!r} must be a relative path inside the dataset's folder")
            unknown = set(re.findall(r"\{(.*?)\}", pattern)) - {"case", "patient"}
            if unknown:
                raise ValueError(f"{pattern!r}: only {{case}} and {{patient}} can stand in braces")
        return value


class DatasetRecipe(Document):
    """How one dataset is read."""

    name: Name
    modality: Modality
    regions: list[str] = []
    layout: Layout
    labels: dict[str, int | list[int]] = {}
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
    def _labels(cls, value: dict[str, int | list[int]]) -> dict[str, int | list[int]]:
        for structure, values in value.items():
            for one in [values] if isinstance(values, int) else values:
                if not 1 <= one <= 65535:
                    raise ValueError(f"{structure}: label values run from 1 to 65535, not {one}")
        return value

    @field_validator("tasks")
    @classmethod
    def _tasks(cls, value: list[str] | None) -> list[str] | None:
        return _known_tasks(value)

    @model_validator(mode="after")
    def _complete(self) -> "DatasetRecipe":
        if isinstance(self.layout.mask, str) and not self.labels:
            raise ValueError("labels: name the structures of the mask's values, as Liver: 1")
        if self.labels and not isinstance(self.layout.mask, str):
            raise ValueError("labels: are given, but layout.mask is not one pattern")
        return self

    def reading(self, least_side: int) -> Reading:
        """The plain form that travels to workers."""
        return Reading(
            self.window, self.display, tuple(self.views), self.dust, dict(self.policy), least_side
        )


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


Kind = TypeVar("Kind", bound=Document)


def load(path: Path, kind: type[Kind]) -> Kind:
    """The document at `path`. Raises `RecipeError` with every fault as `file:line: where: what`."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(f"{path}: cannot be read: {error}") from error
    try:
        tree = yaml.compose(text, yaml.SafeLoader)
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise RecipeError(f"{path}{line}: not YAML: {getattr(error, 'problem', error)}") from error
    faults = [f"{path}:{line}: {what}" for line, what in _doubles(tree)]
    if not isinstance(value, dict):
        raise RecipeError(f"{path}: a mapping of keys is expected, as in recipes/")
    try:
        document = kind.model_validate(value)
    except ValidationError as error:
        for fault in error.errors():
            where = tuple(part for part in fault["loc"] if not str(part).startswith("function-"))
            faults.append(f"{path}:{_line(tree, where)}: {_told(kind, where, fault)}")
        document = None
    if faults or document is None:
        raise RecipeError("\n".join(faults))
    return document


def _told(kind: type[Document], where: tuple[Any, ...], fault: Any) -> str:
    place = ".".join(str(part) for part in where) or "the document"
    if fault["type"] == "extra_forbidden":
        known = _keys(kind, where[:-1])
        near = difflib.get_close_matches(str(where[-1]), known, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
        return f"{place}: unknown key; {hint}"
    message = str(fault["msg"]).removeprefix("Value error, ")
    given = fault.get("input")
    short = (
        "" if isinstance(given, dict | list) or fault["type"] == "missing" else f" (not {given!r})"
    )
    return f"{place}: {message[0].lower() + message[1:]}{short}"


def _keys(kind: type[Document], where: tuple[Any, ...]) -> list[str]:
    """The keys that may stand at `where`; those of the document where the way there is unclear."""
    here: Any = kind
    for part in where:
        fields = getattr(here, "model_fields", {})
        if part in fields:
            here = fields[part].annotation
        for inner in (here, *getattr(here, "__args__", ())):
            if isinstance(inner, type) and issubclass(inner, Document):
                here = inner
    return list(getattr(here, "model_fields", kind.model_fields))


def _line(tree: Any, where: tuple[Any, ...]) -> int:
    """The line of the deepest node on the way `where` leads."""
    node, line = tree, 1
    for part in where:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                if key.value == str(part):
                    node, line = value, key.start_mark.line + 1
                    break
            else:
                return line
        elif (
            isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value)
        ):
            node = node.value[part]
            line = node.start_mark.line + 1
    return int(line)


def _doubles(node: Any) -> Iterator[tuple[int, str]]:
    """Keys that stand twice in one mapping; YAML would quietly keep the last."""
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            if key.value in seen:
                yield key.start_mark.line + 1, f"{key.value}: stands twice"
            seen.add(key.value)
            yield from _doubles(value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _doubles(item)


def changed(document: Kind, changes: dict[str, Any]) -> Kind:
    """A copy with some values replaced, held to the same rules. Raises `RecipeError`."""
    kind = type(document)
    try:
        return kind.model_validate({**dict(document), **changes})
    except ValidationError as error:
        faults = [_told(kind, fault["loc"], fault) for fault in error.errors()]
        raise RecipeError("\n".join(faults)) from error


def digest_of(document: Document) -> str:
    """SHA-256 of what a document says, whatever its spelling in YAML."""
    told = json.dumps(document.model_dump(mode="json"), sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(told.encode()).hexdigest()


def dumped(document: Document) -> str:
    """The document as YAML, every default written out."""
    return str(
        yaml.safe_dump(document.model_dump(mode="json"), sort_keys=False, allow_unicode=True)
    )


def shipped(kind: str) -> dict[str, Path]:
    """Recipes that come with the package: `kind` is datasets or benchmarks; name -> file."""
    return {path.stem: path for path in sorted((_home("recipes") / kind).glob("*.yaml"))}


def manifest(path: Path | None = None) -> Manifest:
    """The manifest at `path`, else the one that comes with the package."""
    return load(path or _home("data_manifest.yaml"), Manifest)


def recipe_path(kind: str, name: str) -> Path:
    """A recipe by the name of a shipped one, or by its file. Raises `UnknownName`."""
    if name.endswith((".yaml", ".yml")) or "/" in name:
        return Path(name)
    known = shipped(kind)
    if name not in known:
        near = difflib.get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"shipped: {', '.join(known)}"
        raise UnknownName(f"no recipe {name!r} for {kind}; {hint}; or give the path of a file")
    return known[name]


def dataset(name: str, folder: Path | None = None) -> DatasetRecipe:
    """The recipe of a dataset, its `entry` filled in: `folder`'s own NAME.yaml, else a shipped one.

    Raises `UnknownName` where neither has it, `RecipeError` where its entry is nowhere.
    """
    own = folder / f"{name}.yaml" if folder else None
    path = own if own and own.is_file() else recipe_path("datasets", name)
    recipe = load(path, DatasetRecipe)
    if recipe.name != name:
        raise RecipeError(f"{path}: name: {recipe.name!r}, but the file is called {name!r}")
    if recipe.entry is not None:
        return recipe
    try:
        found = manifest().entry(name).model_dump(include=set(Entry.model_fields))
    except UnknownName as error:
        raise RecipeError(
            f"{path}: entry: missing; data_manifest.yaml has no dataset {name!r}, so say here what "
            "it is: entry: {title: .., licence: {name: .., redistribution: ..}, citation: ..}"
        ) from error
    return recipe.model_copy(update={"entry": Entry(**found)})


def _home(name: str) -> Path:
    """`recipes` and the manifest lie in the wheel's package, or beside it in a checkout."""
    here = Path(__file__).parent
    return here / name if (here / name).exists() else here.parent / name
