"""Safe unpacking of zip and tar archives: everything lands inside one new folder, or nothing does.

An archive comes from the network and is not trusted. Names, links, kinds and sizes are checked,
and sizes are counted again while bytes are copied, so no header can fill the disk. Links are never
made: one that leads to a file of the archive becomes a copy of it, and any other is refused (links
that each lie inside can together lead outside). File modes are not taken over. Archives inside
archives stay as they are.
"""

import bz2
import copy
import gzip
import lzma
import shutil
import stat
import tarfile
import tempfile
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from ..errors import RecipeError, SourceError
from ..store import unwritable
from .landing import BLOCK, BROKEN, Landing, Readable

SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")

MOST = 500 * 2**30
"""Bytes that an archive may unpack to."""

_RATIOS = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: 1032}
"""What a method can make of a byte at most (deflate: zlib's technical details)."""

_RATIO = 10_000
"""The same for bzip2 and xz, which have no such bound: what is believed."""

_LONGEST_HEAD = 1 << 16
"""Bytes of a tar extension header (long names), which tarfile takes into memory whole."""


def is_archive(path: Path) -> bool:
    """Whether the name ends as that of an archive that can be unpacked."""
    return path.name.lower().endswith(SUFFIXES)


def unpacked(archive: Path, into: Path, most: int = MOST) -> Path:
    """The folder `into` with all files of the archive; it appears only when it is whole.

    A folder that is there and not empty is taken to be finished. Raises `SourceError`, which names
    archive and member, for a damaged archive and for one that would write outside the folder, hold
    what is no plain file, clash in names, or grow beyond `most` bytes or the free disk;
    `RecipeError` where the disk takes no files.
    """
    if into.is_dir() and any(into.iterdir()):
        return into
    if into.exists() and not into.is_dir():
        raise RecipeError(f"{into}: is a file, not a folder; move it away")
    if not is_archive(archive):
        raise SourceError(f"{archive}: no archive by its name; {', '.join(SUFFIXES)} are unpacked")
    if not archive.is_file():
        raise SourceError(f"{archive}: not found; fetch it again")
    try:
        into.parent.mkdir(parents=True, exist_ok=True)
        beside = Path(tempfile.mkdtemp(prefix=".", suffix=".part", dir=into.parent))
        room = min(most, shutil.disk_usage(beside).free)
    except OSError as error:
        raise RecipeError(unwritable(into.parent, error)) from error
    try:
        job = Landing(archive, beside, room)
        if archive.name.lower().endswith(".zip"):
            _from_zip(job)
        else:
            _from_tar(job)
        job.finish()
        _place(beside, into)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return into


def _place(beside: Path, into: Path) -> None:
    """Give the finished folder its name, unless another process was first."""
    beside.chmod(0o755)  # mkdtemp made it for its owner alone
    try:
        with suppress(FileNotFoundError):
            into.rmdir()  # an empty folder
        beside.replace(into)
    except OSError as error:
        if not into.is_dir():
            raise RecipeError(unwritable(into, error)) from error


def _from_zip(job: Landing) -> None:
    """All members of a zip file; the directory is checked whole before the first is written."""
    try:
        opened = zipfile.ZipFile(job.archive)
    except BROKEN as error:
        raise SourceError(
            f"{job.archive}: is no whole zip file ({error}); fetch it again"
        ) from error
    with opened:
        members = [(info, _checked(job, info)) for info in opened.infolist()]
        if sum(info.compress_size for info, _ in members) > job.archive.stat().st_size:
            raise SourceError(
                f"{job.archive}: its members are larger than itself, so they overlap; not unpacked"
            )
        job.needs("the whole", sum(info.file_size for info, _ in members))
        for info, path in members:
            if _is_folder(info):
                job.make_folder(path)
                continue
            # One byte more than declared is asked for: zipfile would cut it off in silence.
            longer = copy.copy(info)
            longer.file_size += 1
            try:
                source = opened.open(longer)
            except BROKEN as error:
                raise SourceError(
                    f"{job.archive}: {info.orig_filename!r} cannot be read ({error})"
                ) from error
            with source:
                if stat.S_ISLNK(info.external_attr >> 16):
                    target = b"".join(job.blocks(info.orig_filename, source))
                    job.link(info.orig_filename, path, target.decode("utf-8", "replace"), False)
                else:
                    job.write(info.orig_filename, path, source, info.file_size)


def _is_folder(info: zipfile.ZipInfo) -> bool:
    return info.orig_filename.replace("\\", "/").endswith("/")


def _checked(job: Landing, info: zipfile.ZipInfo) -> str:
    """The place of a member whose entry in the directory can be believed."""
    # `filename` is cut at a NUL and changed on Windows; `orig_filename` is what stands there.
    member = info.orig_filename
    path = job.place(member, _is_folder(info))
    if info.flag_bits & 0x2041:  # encrypted, strongly encrypted, masked directory
        job.refuse(member, "is encrypted")
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
        job.refuse(member, "is no file, folder or link")
    if kind == stat.S_IFLNK and info.file_size > 4096:
        job.refuse(member, "is a link with a target longer than any path")
    if info.file_size > _RATIOS.get(info.compress_type, _RATIO) * info.compress_size:
        job.refuse(
            member,
            f"declares {info.file_size} bytes out of {info.compress_size}, more than its method of "
            "compression can hold",
        )
    job.needs(member, info.file_size)
    return path


class _Member(tarfile.TarInfo):
    """A tar header that is read with care."""

    @classmethod
    def fromtarfile(cls, tarfile_: tarfile.TarFile) -> "_Member":
        """The next header. A damaged or missing one is an error, where tarfile sees an end."""
        try:
            return super().fromtarfile(tarfile_)
        except tarfile.HeaderError as error:
            if type(error).__name__ == "EOFHeaderError":  # the zeros that end an archive
                raise
            raise tarfile.ReadError(f"{error} at byte {tarfile_.offset}") from error

    def _proc_member(self, tarfile_: tarfile.TarFile) -> Any:
        plain = (*tarfile.REGULAR_TYPES, tarfile.DIRTYPE)
        if self.size < 0 or (self.type not in plain and self.size > _LONGEST_HEAD):
            raise tarfile.ReadError(f"a header of {self.size} bytes")
        return super()._proc_member(tarfile_)  # type: ignore[misc]


class _Counted:
    """The bytes of a tar file, inflated and counted. `bound`: how many may come."""

    def __init__(self, archive: Path, source: Readable, bound: int) -> None:
        self.archive = archive
        self.source = source
        self.left = bound

    def read(self, size: int) -> bytes:
        """Up to `size` bytes. Raises `SourceError` beyond the bound and for damage."""
        try:
            block = self.source.read(size)
        except BROKEN as error:
            raise SourceError(f"{self.archive}: is damaged ({error}); fetch it again") from error
        self.left -= len(block)
        if self.left < 0:
            raise SourceError(
                f"{self.archive}: unpacks to more than can be believed of its size, or than is "
                "allowed; not unpacked"
            )
        return block


def _inflated(archive: Path, file: IO[bytes], room: int) -> _Counted:
    """The tar file inside, by its first bytes: browsers unpack .gz and keep the name."""
    head = file.read(6)
    file.seek(0)
    packed = archive.stat().st_size
    source: Any = file
    ratio = 1
    if head.startswith(b"\x1f\x8b"):
        source, ratio = gzip.GzipFile(fileobj=file), 1032
    elif head.startswith(b"BZh"):
        source, ratio = bz2.BZ2File(file), _RATIO
    elif head == b"\xfd7zXZ\0":
        source, ratio = lzma.LZMAFile(file), _RATIO  # noqa: SIM115  `file` is closed
    # Headers and padding take up to three blocks a member more than is written in the end.
    return _Counted(archive, source, min(packed * ratio, 2 * room + 2**30))


def _from_tar(job: Landing) -> None:
    """All members of a tar file, in one pass: a large one is inflated only once."""
    try:
        with job.archive.open("rb") as file:
            stream = _inflated(job.archive, file, job.room)
            # r| reads forwards only, so no header can lead round in a circle.
            with tarfile.open(fileobj=stream, mode="r|", tarinfo=_Member, bufsize=BLOCK) as tar:  # type: ignore[call-overload]
                while (member := tar.next()) is not None:
                    _from_member(job, tar, member)
                    tar.members.clear()  # kept for random access, which is not wanted
            while stream.read(BLOCK):  # the checksum stands at the end
                pass
    except BROKEN as error:
        raise SourceError(
            f"{job.archive}: is no whole tar file ({error}); fetch it again"
        ) from error


def _from_member(job: Landing, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
    name = member.name
    path = job.place(name, member.isdir())
    if member.isdir():
        job.make_folder(path)
    elif member.issym() or member.islnk():
        job.link(name, path, member.linkname, member.islnk())
    elif not member.isreg() or member.issparse():
        job.refuse(name, "is a device, a pipe, a sparse file or of unknown kind")
    else:
        job.needs(name, member.size)
        source = tar.extractfile(member)
        if source is None:
            job.refuse(name, "cannot be read")
        job.write(name, path, source, member.size)
