"""Where a dataset's files are. Only this package will know the network."""

from collections.abc import Mapping
from pathlib import Path

from ..config import DatasetEntry
from ..errors import RecipeError, SourceError
from ..store import cache_folder


def folder_of(entry: DatasetEntry, given: Mapping[str, Path]) -> Path:
    """The folder of a dataset: given by the user, embedded in the package, or in the cache.

    Raises `SourceError` with what to do where it is not on this machine.
    """
    if entry.name in given:
        folder = given[entry.name]
        if not folder.is_dir():
            raise SourceError(
                f"{folder}: given with --source for {entry.name!r}, but no such folder"
            )
        return folder
    if any(access.kind == "embedded" for access in entry.access):
        return Path(__file__).parent.parent / "sample" / entry.name.removeprefix("sample-")
    folder = cache_folder() / "raw" / entry.name
    if folder.is_dir():
        return folder
    ways = "; ".join(
        " ".join(filter(None, (access.kind, access.url or access.id, access.steps)))
        for access in entry.access
    )
    raise SourceError(
        f"dataset {entry.name!r} is not on this machine (looked in {folder}). Obtain it: {ways}. "
        f"Then put it there, or give --source {entry.name}=FOLDER"
    )


def given_folders(words: list[str], names: list[str]) -> dict[str, Path]:
    """`--source NAME=FOLDER` options as a mapping; `names` are those of the recipe.

    Raises `RecipeError` for a word without `=` or a name the recipe does not use.
    """
    out = {}
    for word in words:
        name, equals, folder = word.partition("=")
        if not equals or not folder or name not in names:
            raise RecipeError(
                f"--source {word!r}: expected NAME=FOLDER with a dataset of the recipe "
                f"({', '.join(names)})"
            )
        out[name] = Path(folder)
    return out
