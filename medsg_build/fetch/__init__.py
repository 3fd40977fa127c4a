"""Where a dataset's files are. Only this package will know the network."""

from collections.abc import Mapping
from pathlib import Path

from ..config import DatasetRecipe
from ..errors import RecipeError, SourceError
from ..identity import digest
from ..store import cache_folder
from . import archives


def folder_of(recipe: DatasetRecipe, given: Mapping[str, Path]) -> Path:
    """The folder of a dataset: given by the user, embedded in the package, or in the cache.

    Raises `SourceError` with what to do where it is not on this machine.
    """
    name = recipe.name
    if name in given:
        folder = given[name]
        if archives.is_archive(folder) and folder.is_file():
            return _unpacked(name, folder)
        if not folder.is_dir():
            raise SourceError(f"{folder}: given with --source for {name!r}, but no such folder")
        return folder
    access = recipe.entry.access if recipe.entry else []
    if any(way.kind == "embedded" for way in access):
        return Path(__file__).parent.parent / "sample" / name.removeprefix("sample-")
    folder = cache_folder() / "raw" / name
    if folder.is_dir():
        return folder
    ways = "; ".join(
        " ".join(filter(None, (way.kind, way.url or way.id, way.steps))) for way in access
    )
    obtain = f" Obtain it: {ways}. Then put it there," if ways else " Put it there,"
    raise SourceError(
        f"dataset {name!r} is not on this machine (looked in {folder}).{obtain} "
        f"or give --source {name}=FOLDER"
    )


def _unpacked(name: str, archive: Path) -> Path:
    """An archive's files, unpacked once into the cache; patterns count from the archive's root."""
    stat = archive.stat()
    stamp = digest("archive", str(archive.resolve()), stat.st_size, stat.st_mtime_ns).hex()[:16]
    return archives.unpacked(archive, cache_folder() / "unpacked" / f"{name}-{stamp}")


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
