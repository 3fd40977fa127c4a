"""The disk: write beside, then rename. During a build nothing else opens a file for writing.

Accepted: no fsync. A power cut may lose what was just renamed; a killed process cannot.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from .errors import RecipeError


def cache_folder() -> Path:
    """Where surveys and downloads are kept: `$MEDSG_CACHE`, else the user's cache folder."""
    named = os.environ.get("MEDSG_CACHE")
    if named:
        return Path(named)
    root = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(root) / "medsg-build"


@contextmanager
def writing(path: Path, mode: str = "w") -> Iterator[IO[Any]]:
    """A file that appears under its own name only when it is whole.

    `mode` is `w` (UTF-8 text) or `wb`. Raises `RecipeError` where the folder cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=".", suffix=".part", dir=path.parent)
    except OSError as error:
        raise RecipeError(unwritable(path.parent, error)) from error
    beside = Path(name)
    try:
        if "b" in mode:
            with os.fdopen(handle, mode) as file:
                yield file
        else:
            with os.fdopen(handle, mode, encoding="utf-8", newline="\n") as file:
                yield file
        beside.chmod(0o644)
        beside.replace(path)
    except OSError as error:
        raise RecipeError(unwritable(path.parent, error)) from error
    finally:
        beside.unlink(missing_ok=True)


def unwritable(folder: Path, error: OSError) -> str:
    """What to tell a user whose folder takes no files."""
    return f"{folder}: cannot be written ({error.strerror}); choose another --out or free the disk"


class Store:
    """The folder OUT of one build and its `work/`; paths in one place, whole files only."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.work = out / "work"
        self.there = out.is_dir()
        """Whether OUT was the user's before."""

    def claim(self, identity: dict[str, Any]) -> None:
        """Make OUT this build's own, or go on with it.

        Raises `RecipeError` where OUT cannot be written, holds another build, or holds files that
        no build of ours made.
        """
        mark = self.work / "build.json"
        if mark.is_file():
            try:
                there = json.loads(mark.read_text("utf-8"))
            except ValueError:
                there = None
            if there == identity:
                return
            told = there if isinstance(there, dict) else {}
            differs = sorted(
                key for key in identity.keys() | told.keys() if identity.get(key) != told.get(key)
            )
            raise RecipeError(
                f"{self.out}: holds another build ({', '.join(differs)} differ); "
                "choose another --out, or delete that folder"
            )
        if self.out.exists() and not self.out.is_dir():
            raise RecipeError(f"{self.out}: is a file, not a folder; choose another --out")
        try:
            taken = self.out.is_dir() and any(self.out.iterdir())
        except OSError as error:
            raise RecipeError(unwritable(self.out, error)) from error
        if taken:
            raise RecipeError(
                f"{self.out}: holds files that are no build of medsg-build; choose another --out"
            )
        write_json(mark, identity)

    def abandon(self) -> None:
        """Take back a claim before anything was planned, so that OUT is free again."""
        if not (self.work / "plan.jsonl").exists():
            shutil.rmtree(self.work, ignore_errors=True)
            if not self.there:
                with suppress(OSError):  # not empty
                    self.out.rmdir()

    def based_on(self, sources: str) -> None:
        """Forget developed frames that were made of other source files (`sources`: a digest)."""
        mark = self.work / "sources"
        if not mark.is_file() or mark.read_text("utf-8") != sources:
            shutil.rmtree(self.work / "frames", ignore_errors=True)
            with writing(mark) as file:
                file.write(sources)

    def sweep(self, named: Collection[str]) -> None:
        """Remove pictures of an earlier run that the release does not name."""
        for path in (self.out / "images").rglob("*.png"):
            if path.relative_to(self.out).as_posix() not in named:
                path.unlink()


def write_json(path: Path, what: Any, lines: bool = False) -> None:
    """`what` as JSON; with `lines`, an iterable of rows as JSON lines. Keys keep their order."""
    with writing(path) as file:
        if lines:
            for row in what:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
        else:
            file.write(json.dumps(what, ensure_ascii=False, indent=1) + "\n")


def write_png(path: Path, image: Any) -> None:
    """`image` (336, 336[, 3]) uint8 as an RGB PNG without text chunks; grey in three channels."""
    import cv2

    rgb = cv2.cvtColor(image, cv2.COLOR_GRAY2BGR if image.ndim == 2 else cv2.COLOR_RGB2BGR)
    # Level 1 with the "up" filter: half the time of the default filters at the same size.
    how = [cv2.IMWRITE_PNG_COMPRESSION, 1]
    if hasattr(cv2, "IMWRITE_PNG_FILTER"):  # OpenCV before 4.12 has only its default
        how += [cv2.IMWRITE_PNG_FILTER, cv2.IMWRITE_PNG_FILTER_UP]
    done, raw = cv2.imencode(".png", rgb, how)
    if not done:  # OpenCV says no only for lack of memory
        raise MemoryError(f"{path}: the picture could not be encoded")
    with writing(path, "wb") as file:
        file.write(raw.tobytes())
