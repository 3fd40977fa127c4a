"""A dataset's folder to cases, by path patterns. No file is opened."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from .config import DatasetRecipe
from .errors import RecipeError, SourceError
from .model import Case, MarkFile, Marking, MaskFile
from .workers import Failure

_HOLES = {
    "case": r"(?P<case>[^/]+?)",
    "patient": r"(?P<patient>[^/]+?)",
    "frame": r"(?P<frame>\d+)",
}


@dataclass(frozen=True, slots=True)
class Found:
    """The cases of a dataset, those that lack a file, and those ignored on purpose."""

    cases: tuple[Case, ...]
    failures: tuple[Failure, ...]
    ignored: Mapping[str, str]


def paired(recipe: DatasetRecipe, root: Path, least_side: int = 5) -> Found:
    """The cases under `root` whose image and mask names differ by pattern only.

    A series or a label map that is missing is a failure of its case; a mask of one structure may be
    missing. Raises `SourceError` where the folder is missing or holds no image of the pattern.
    """
    if not root.is_dir():
        raise SourceError(
            f"{root}: the folder of dataset {recipe.name!r} is missing; "
            f"give it with --source {recipe.name}=FOLDER"
        )
    layout, entry = recipe.layout, recipe.entry
    if entry is None:
        raise RecipeError(f"dataset {recipe.name!r}: its recipe has no entry")
    family = entry.family or recipe.name
    images = layout.image if isinstance(layout.image, dict) else {"image": layout.image}
    masks = layout.mask if isinstance(layout.mask, dict) else {"": layout.mask or ""}
    segmented: dict[tuple[str, str], dict[str, Path]] = {}
    taken: set[Path] = set()
    for structure, pattern in masks.items():
        for holes, path in _matches(root, pattern, recipe.name) if pattern else ():
            segmented.setdefault(_key(holes), {})[structure] = path
            taken.add(path)
    series: dict[tuple[str, str], dict[str, Path]] = {}
    for name, pattern in images.items():
        for holes, path in _matches(root, pattern, recipe.name):
            # `{case}.png` also fits `a_mask.png`; one file for both holds both (a .mat).
            if path not in taken or pattern in masks.values():
                series.setdefault(_key(holes), {})[name] = path
    if not series:
        raise SourceError(
            f"{root}: no file matches layout.image of dataset {recipe.name!r} "
            f"({', '.join(images.values())}); check the folder, or the pattern in its recipe"
        )
    marks = dict(_marks(recipe, root))
    choices = recipe.choices()
    cases, failures, ignored = [], [], {}
    for (case, patient), files in sorted(series.items()):
        name = f"{recipe.name}/{case}"
        if case in recipe.ignore:
            ignored[name] = recipe.ignore[case]
            continue
        missing = [s for s in images if s not in files]
        there = segmented.get((case, patient), {})
        if layout.mask is not None and not there:
            missing.append("mask")
        marked = marks.get((case, patient)) or marks.get(("", ""))
        if layout.marks is not None and marked is None:
            missing.append("marks")
        if missing:
            told = ", ".join(f"{m} ({images.get(m, layout.mask or layout.marks)})" for m in missing)
            failures.append(
                Failure(name, "SourceError", f"{root}: case {case}: no file for {told}")
            )
            continue
        cases.append(
            Case(
                dataset=recipe.name,
                name=name,
                patient=f"{family}/{layout.patient.format(case=case, patient=patient)}",
                modality=recipe.modality,
                root=root,
                files=files,
                masks=tuple(
                    MaskFile(path, choices[structure], layout.parts.get(structure or "mask"))
                    for structure, path in sorted(there.items())
                ),
                reading=recipe.reading(least_side),
                licence=entry.licence.name,
                regions=tuple(recipe.regions),
                parts={name: layout.parts[name] for name in files if name in layout.parts},
                marks=marked,
            )
        )
    return Found(tuple(cases), tuple(failures), ignored)


def _marks(recipe: DatasetRecipe, root: Path) -> Iterator[tuple[tuple[str, str], MarkFile]]:
    """The annotation files by case and patient; by two empty words where one serves all cases."""
    plan, pattern = recipe.marking, recipe.layout.marks
    if plan is None or pattern is None:
        return
    marking = Marking(
        plan.kind,
        plan.columns,
        plan.runs,
        tuple(plan.classes),
        root / plan.sizes if plan.sizes else None,
        plan.sized,
        tuple(plan.skip),
    )
    for holes, path in _matches(root, pattern, recipe.name):
        key = _key(holes) if "{case}" in pattern or "{patient}" in pattern else ("", "")
        yield key, MarkFile(path, recipe.choices()[""], marking)


def _key(holes: Mapping[str, str]) -> tuple[str, str]:
    return holes["case"], holes.get("patient", "")


def _matches(root: Path, pattern: str, dataset: str) -> list[tuple[dict[str, str], Path]]:
    """What stands in a pattern's holes, and the file, sorted; `*` and `**` match as in a shell."""
    glob = re.sub(r"\{\w+\}", "*", pattern)
    parts = re.split(r"(\{\w+\}|\*\*/|\*|\?)", pattern)
    seen: set[str] = set()
    regex = ""
    for part in parts:
        hole = part[1:-1] if part.startswith("{") else ""
        if hole:
            regex += f"(?P={hole})" if hole in seen else _HOLES[hole]
            seen.add(hole)
        else:
            regex += {"**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}.get(part, re.escape(part))
    found: dict[Path, dict[str, str]] = {}
    for path in sorted(root.glob(glob)):
        name = path.relative_to(root).as_posix() + ("/" if pattern.endswith("/") else "")
        match = re.fullmatch(regex, name)
        if match and (path.is_dir() if pattern.endswith("/") else path.is_file()):
            holes = match.groupdict()
            if holes.pop("frame", None) is not None:
                # One path for all frames of a sequence; the format lists them.
                whole = re.sub(r"\{(case|patient)\}", lambda hole: holes[hole[1]], pattern)  # noqa: B023
                path = root / whole
            holes.setdefault("case", holes.get("patient", dataset))
            found[path] = holes
    return [(holes, path) for path, holes in found.items()]
