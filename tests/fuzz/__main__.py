"""Coverage-guided fuzzing of one reader: `python -m tests.fuzz nifti --seconds 1200`.

atheris (libFuzzer) mutates small valid files; whatever the bytes, a reader may answer with a volume
or a `SourceError` and nothing else, within 60 s. What breaks that is left in the folder
of `--found`. Needs `pip install atheris`.
"""

import argparse
import gzip
import io
import pkgutil
import sys
import tarfile
import tempfile
import zipfile
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import atheris
import numpy as np

with atheris.instrument_imports(include=["medsg_build"]):
    from medsg_build import formats

    for module in pkgutil.iter_modules(formats.__path__):  # readers are else loaded when asked for
        import_module(f"medsg_build.formats.{module.name}")
    from medsg_build.errors import SourceError
    from medsg_build.fetch import archives
    from medsg_build.formats import annotations, tables
    from medsg_build.model import Grid, Marking, Wanted

CASES = Path(__file__).parents[3] / "shared" / "cases"
ONTO = Grid((28, 28, 14), np.diag([1.0, 1, 2, 1]))
SUFFIXES = {
    "nifti": (".nii", ".nii.gz", ".hdr"),
    "pictures": (".png", ".jpg", ".tif", ".gif", ".bmp"),
    "itk": (".nrrd", ".mha", ".nhdr", ".mhd"),
    "dicom": (".dcm",),
    "matlab": (".mat",),
    "arrays": (".npy", ".npz"),
    "video": (".avi", ".mp4", ".mkv", ".mpg"),
}
KINDS = {
    "coco": (annotations.coco, Marking("coco")),
    "yolo": (annotations.yolo, Marking("yolo")),
    "voc": (annotations.voc, Marking("voc")),
    "boxes": (tables.boxes, Marking("boxes")),
    "runs": (tables.runs, Marking("runs", runs="columns-absolute")),
}
SEEDS = {
    "nifti": "nifti_*/*.nii*", "pictures": "image2d/*.[pj]*", "itk": "nrrd_mha/*.*a",
    "dicom": "dicom/**/*.dcm", "matlab": "annotations/*.mat", "video": "video/*.avi",
    "annotations": "annotations/*.[ctjx]*", "frames": "image2d/*.png",
}  # fmt: skip


def one_file(reader: str, folder: Path, data: bytes) -> None:
    """The bytes as a file of one of the reader's suffixes, as a picture and as a mask."""
    suffix = SUFFIXES[reader][data[0] % len(SUFFIXES[reader])] if data else ".x"
    path = folder / f"case{suffix}"
    path.write_bytes(data[1:])
    for wanted in (Wanted(), Wanted(labels=True, onto=ONTO, picture=path), Wanted(part=0)):
        for function in (formats.measure, formats.read):
            try:
                function(path, wanted)
            except SourceError as error:
                assert str(path.name) in str(error) or str(folder) in str(error)
    path.unlink()


def frames(folder: Path, data: bytes) -> None:
    """The bytes as one frame among good ones."""
    path = folder / "clip" / "f_0002.png"
    path.write_bytes(data)
    for wanted in (Wanted(), Wanted(labels=True, picture=folder / "clip")):
        with suppress(SourceError):
            formats.read(folder / "clip", wanted)


def marks(folder: Path, data: bytes) -> None:
    """The bytes as an annotation file of every kind."""
    for name, (function, marking) in KINDS.items():
        path = folder / f"marks.{name}"
        path.write_bytes(data)
        for picture in ("AN3.png", "img_1.png"):
            try:
                function(path, picture, (56, 56), marking)
            except SourceError as error:
                assert path.name in str(error)


def archive(folder: Path, data: bytes) -> None:
    """The bytes as an archive."""
    suffix = (".zip", ".tar", ".tar.gz", ".tar.xz", ".tar.bz2")[data[0] % 5] if data else ".zip"
    path = folder / f"case{suffix}"
    path.write_bytes(data[1:])
    with tempfile.TemporaryDirectory(dir=folder) as into, suppress(SourceError):
        archives.unpacked(path, Path(into) / "out", most=2**28)


def seeds(reader: str, into: Path) -> None:
    """Small valid files, each behind the byte that chooses its suffix."""
    into.mkdir(parents=True, exist_ok=True)
    for number, path in enumerate(sorted(CASES.glob(SEEDS.get(reader, "nothing")))[:60]):
        raw = path.read_bytes()
        first = 0
        for at, suffix in enumerate(SUFFIXES.get(reader, ())):
            first = at if path.name.lower().endswith(suffix) else first
        head = b"" if reader in ("annotations", "frames") else bytes([first])
        (into / f"{number:03d}").write_bytes(head + raw)
        if raw.startswith(b"\x1f\x8b"):  # a checksum would hide what lies behind it
            with suppress(OSError, EOFError):
                (into / f"{number:03d}-plain").write_bytes(b"\0" + gzip.decompress(raw))
    if reader == "archives":
        (into / "zip").write_bytes(b"\0" + _packed(zipfile.ZipFile))
        (into / "tar").write_bytes(b"\1" + _packed(tarfile.TarFile))
    if reader == "arrays":
        with (into / "npy").open("wb") as file:
            file.write(b"\0")
            np.save(file, np.arange(24, dtype=np.int16).reshape(4, 6))
        with (into / "npz").open("wb") as file:
            file.write(b"\1")
            np.savez(file, a=np.eye(5), b=np.ones((4, 4, 3), np.uint8))


def _packed(kind: type) -> bytes:
    """Three members in a folder, as an archive."""
    held = io.BytesIO()
    if kind is zipfile.ZipFile:
        with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as file:
            for name in ("a/1.txt", "a/2.txt", "b.txt"):
                file.writestr(name, name * 20)
        return held.getvalue()
    with tarfile.open(fileobj=held, mode="w") as tar:
        for name in ("a/1.txt", "a/2.txt", "b.txt"):
            member = tarfile.TarInfo(name)
            member.size = 5
            tar.addfile(member, io.BytesIO(b"12345"))
    return held.getvalue()


def main() -> None:
    """Fuzz until the time is up or something breaks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reader", choices=[*SUFFIXES, "frames", "annotations", "archives"])
    parser.add_argument("--seconds", type=int, default=1200)
    parser.add_argument("--found", type=Path, default=Path("fuzz-found"))
    said = parser.parse_args()
    work = Path(
        tempfile.mkdtemp(prefix="fuzz-", dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
    )
    seeds(said.reader, work / "corpus")
    (said.found / said.reader).mkdir(parents=True, exist_ok=True)
    if said.reader == "frames":
        (work / "clip").mkdir()
        from PIL import Image

        for number in (1, 3):
            Image.fromarray(np.eye(16, dtype=np.uint8)).save(work / "clip" / f"f_{number:04d}.png")

    def target(data: bytes) -> None:
        if said.reader == "annotations":
            marks(work, data)
        elif said.reader == "frames":
            frames(work, data)
        elif said.reader == "archives":
            archive(work, data)
        else:
            one_file(said.reader, work, data)

    atheris.Setup(
        [sys.argv[0], str(work / "corpus"), f"-max_total_time={said.seconds}", "-timeout=60",
         "-rss_limit_mb=12000", "-max_len=65536", f"-artifact_prefix={said.found / said.reader}/",
         "-print_final_stats=1"],
        target,
    )  # fmt: skip
    atheris.Fuzz()


if __name__ == "__main__":
    main()
