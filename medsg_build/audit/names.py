"""Checks of the picture files: there, sound, named so that nothing is told."""

import re
import struct
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from .finding import Finding, Unchecked
from .release import Release

LEAKS = re.compile(r"_ori\b|_ori_|normal|changed|altered|original|perturb|answer|gold", re.I)
"""Words in a name that tell which picture was altered, or what is asked for."""

TEXT_CHUNKS = {b"tEXt", b"zTXt", b"iTXt", b"eXIf", b"tIME"}
SIGNATURE = b"\x89PNG\r\n\x1a\n"


def check_names(release: Release) -> Iterator[Finding]:
    """Names are ASCII, safe everywhere, used by one sample only, and tell nothing of the answer."""
    users: Counter[str] = Counter()
    folded: dict[str, str] = {}
    for sample in release.samples():
        structure = str((sample.provenance or {}).get("structure", ""))
        for name in dict.fromkeys(sample.images):
            users[name] += 1
            if users[name] > 1:
                yield Finding("names", sample.id, f"{name}: is a picture of another sample as well")
            if release.inside(name) is None:
                yield Finding("names", sample.id, f"{name!r}: leads out of the release")
            elif not re.fullmatch(r"[A-Za-z0-9_./-]{1,180}", name):
                yield Finding("names", sample.id, f"{name!r}: not safe on every file system")
            other = folded.setdefault(name.lower(), name)
            if other != name:
                yield Finding("names", sample.id, f"{name}: differs from {other} by case only")
            stem = Path(name).stem
            told = LEAKS.search(stem)
            if told or (structure and structure.lower() in stem.lower()):
                yield Finding(
                    "names", sample.id, f"{name}: tells {told.group(0) if told else structure!r}"
                )
        if len(set(sample.images)) != len(sample.images):
            yield Finding("names", sample.id, "shows one picture file twice")


def check_strays(release: Release) -> Iterator[Finding]:
    """Every file under images/ is a picture of some record."""
    folder = release.path / "images"
    if not folder.is_dir():
        raise Unchecked("the release has no images folder of its own")
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(release.path).as_posix()
        if path.is_file() and name not in release.named:
            yield Finding("strays", name, "no record names this file")


def check_pictures(release: Release) -> Iterator[Finding]:
    """Every picture is there, decodes as 336 x 336 RGB, and is a PNG without text or appendix."""
    for sample in release.samples():
        for name in sample.images:
            held = release.picture(name)
            if isinstance(held, str):
                yield Finding("pictures", sample.id, f"{name}: {held}")
                continue
            path = release.inside(name)
            for fault in _chunks(path.read_bytes()) if path else ():
                yield Finding("pictures", sample.id, f"{name}: {fault}")


def _chunks(raw: bytes) -> Iterator[str]:
    """What is wrong with the chunks of a PNG file (PNG specification, section 5)."""
    if not raw.startswith(SIGNATURE):
        yield "is not a PNG file"
        return
    at = len(SIGNATURE)
    while at + 8 <= len(raw):
        size, kind = struct.unpack_from(">I4s", raw, at)
        if kind == b"IHDR" and raw[at + 16 : at + 18] != b"\x08\x02":
            yield "is not stored as 8-bit RGB"
        if kind in TEXT_CHUNKS:
            yield f"carries a {kind.decode()} chunk; text can tell the answer"
        at += 12 + size
        if kind == b"IEND":
            break
    if at != len(raw):
        yield "carries bytes after its end"
