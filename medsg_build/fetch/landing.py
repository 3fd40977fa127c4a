"""Where an archive's members land: one new folder, with names, links and sizes kept in check."""

import lzma
import re
import struct
import tarfile
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn, Protocol

from ..errors import RecipeError, SourceError
from ..store import unwritable, writing

BLOCK = 1 << 20
"""Bytes that are copied at a time."""

BROKEN = (
    OSError, EOFError, ValueError, RuntimeError, LookupError, TypeError, AttributeError,
    AssertionError, OverflowError, MemoryError, struct.error, zlib.error, lzma.LZMAError,
    zipfile.BadZipFile, tarfile.TarError,
)  # fmt: skip
"""What the libraries raise for a damaged archive."""


class Readable(Protocol):
    """What bytes come out of."""

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes; none at the end."""
        ...


class Landing:
    """One archive on its way into the folder `beside`.

    `room`: bytes that may still be written. `folders` and `files`: names taken, by how a file
    system that ignores case sees them. `links`: path -> (member, target), made when all is there.
    """

    def __init__(self, archive: Path, beside: Path, room: int) -> None:
        self.archive = archive
        self.beside = beside
        self.room = room
        self.folders: dict[str, str] = {}
        self.files: dict[str, str] = {}
        self.links: dict[str, tuple[str, str]] = {}

    def refuse(self, member: str, fault: str) -> NoReturn:
        """Raise the one error of this module; control characters of a name are spelled out."""
        raise SourceError(f"{self.archive}: {member!r} {fault}; the archive is not unpacked")

    def place(self, member: str, folder: bool = False) -> str:
        """The path of a member inside the folder, checked and taken; '' for the folder itself.

        A backslash parts folders, as in archives made on Windows.
        """
        if any(unicodedata.category(letter) in ("Cc", "Cs") for letter in member):
            self.refuse(member, "holds control characters, or a name that is no UTF-8")
        name = member.replace("\\", "/")
        if name.startswith("/") or re.match("[A-Za-z]:", name):
            self.refuse(member, "is an absolute path")
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if ".." in parts:
            self.refuse(member, "climbs out of the folder")
        # Names of 255 bytes and paths of 4096 are what file systems take; ours has a beginning.
        if len(name) > 2048 or any(len(part.encode()) > 255 for part in parts):
            self.refuse(member, "is longer than a file system takes")
        for depth in range(1, len(parts) + folder):
            self._take_folder(member, "/".join(parts[:depth]))
        path = "/".join(parts)
        if not folder:
            key = _folded(path)
            if not path:
                self.refuse(member, "is a file without a name")
            if key in self.files or key in self.folders:
                other = self.files.get(key) or self.folders[key]
                self.refuse(member, f"stands twice, also as {other!r} (case does not count)")
            self.files[key] = path
        return path

    def _take_folder(self, member: str, path: str) -> None:
        key = _folded(path)
        if key in self.files or self.folders.setdefault(key, path) != path:
            other = self.files.get(key) or self.folders[key]
            self.refuse(member, f"clashes with {other!r} (case does not count)")

    def needs(self, member: str, size: int) -> None:
        """Refuse a declared size that is no size, or beyond the room that is left."""
        if size < 0:
            self.refuse(member, "declares a negative size")
        if size > self.room:
            self.refuse(member, f"needs {size} bytes, but {self.room} are allowed or free")

    def write(self, member: str, path: str, source: Readable, size: int) -> None:
        """Copy a member of the declared `size` in blocks, counting."""
        done = 0
        with writing(self.beside / path, "wb") as file:
            for block in self.blocks(member, source):
                done += len(block)
                if done > size:
                    self.refuse(member, f"unpacks to more than the {size} bytes it declares")
                self.needs(member, len(block))
                self.room -= len(block)
                file.write(block)
            # Inside, so that the file never gets its name.
            if done < size:
                self.refuse(member, f"is cut off: {done} of {size} bytes are there")

    def blocks(self, member: str, source: Readable) -> Iterator[bytes]:
        """The bytes of a member; errors of the library must not pass for errors of the disk."""
        while True:
            try:
                block = source.read(BLOCK)
            except BROKEN as error:
                raise SourceError(
                    f"{self.archive}: {member!r} is damaged ({error}); fetch the archive again"
                ) from error
            if not block:
                return
            yield block

    def make_folder(self, path: str) -> None:
        """An empty folder; those with files come with them."""
        try:
            (self.beside / path).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RecipeError(unwritable(self.beside / path, error)) from error

    def link(self, member: str, path: str, target: str, hard: bool) -> None:
        """Remember a link; `target` is relative to its folder, or to the archive where `hard`."""
        name = target.replace("\\", "/")
        if name.startswith("/") or re.match("[A-Za-z]:", name):
            self.refuse(member, "links outside of the folder")
        steps = [] if hard else path.split("/")[:-1]
        for part in name.split("/"):
            if part == "..":
                if not steps:
                    self.refuse(member, "links outside of the folder")
                steps.pop()
            elif part not in ("", "."):
                steps.append(part)
        self.links[path] = (member, "/".join(steps))

    def finish(self) -> None:
        """Copy what links lead to. Refuses a link to no file, a circle, and an empty archive."""
        if not self.files:
            raise SourceError(f"{self.archive}: holds no files; fetch it again")
        real = set(self.files.values()) - self.links.keys()
        for path, (member, target) in self.links.items():
            passed = {path}
            while target in self.links and target not in passed:
                passed.add(target)
                target = self.links[target][1]
            if target not in real:
                self.refuse(member, "links to what is no file of the archive")
            source = self.beside / target
            size = source.stat().st_size
            self.needs(member, size)
            with source.open("rb") as file:
                self.write(member, path, file, size)


def _folded(path: str) -> str:
    """A path as file systems that ignore case and the composition of accents see it."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())
