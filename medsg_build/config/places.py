"""Where recipes and the manifest lie: those shipped with the package, and one's own."""

import difflib
from pathlib import Path

from ..errors import RecipeError, UnknownName
from .documents import DatasetRecipe, Entry, Manifest
from .loading import load


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
    here = Path(__file__).parents[1]
    return here / name if (here / name).exists() else here.parent / name
