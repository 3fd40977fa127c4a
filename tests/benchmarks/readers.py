"""Each reader beside its library's plain call: `python -m tests.benchmarks.readers [NAME ..]`.

Inputs are made in a temporary folder. Ours and theirs take turns in one process, after one turn
that does not count; a row gives the medians in milliseconds and their ratio. Absolute times drift
with the machine, ratios of one run are what to compare.
"""

import csv
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import nibabel as nib
import numpy as np

from medsg_build import formats
from medsg_build.formats import annotations, tables
from medsg_build.model import Marking

from .phantom import make

ROUNDS = 5


class Pair(NamedTuple):
    """One comparison: what is read, the plain call, and both as functions of nothing."""

    name: str
    plain: str
    ours: Callable[[], Any]
    theirs: Callable[[], Any]


@cache
def scan() -> np.ndarray:
    """The benchmark's CT: (512, 512, 200) int16."""
    with tempfile.TemporaryDirectory() as folder:
        return np.asanyarray(nib.load(make(Path(folder))[0]).dataobj)


def volumes(root: Path) -> Iterator[Pair]:
    """NIfTI, NRRD, MetaImage, and .npy: 512 x 512 x 200, 16 bit."""
    import SimpleITK as sitk

    picture = scan()
    nib.save(nib.Nifti1Image(picture, np.diag([0.8, 0.8, 1.5, 1])), root / "a.nii.gz")
    image = sitk.GetImageFromArray(np.ascontiguousarray(picture.T))
    for name in ("a.nrrd", "a.mha"):
        sitk.WriteImage(image, root / name, useCompression=True)
    sitk.WriteImage(image, root / "a.mhd", useCompression=False)
    np.save(root / "a.npy", picture)
    file = root / "a.nii.gz"
    yield Pair("a.nii.gz", "nibabel get_fdata", lambda: formats.read(file),
               lambda: nib.load(file).get_fdata())  # fmt: skip
    yield Pair("a.nii.gz", "nibabel dataobj", lambda: formats.read(file),
               lambda: np.asanyarray(nib.load(file).dataobj))  # fmt: skip

    def itk(path: Path) -> Callable[[], Any]:
        return lambda: sitk.GetArrayFromImage(sitk.ReadImage(path))

    for name in ("a.nrrd", "a.mha", "a.mhd"):
        yield Pair(name, "SimpleITK", lambda p=root / name: formats.read(p), itk(root / name))
    yield Pair("a.npy", "numpy load", lambda: np.array(formats.read(root / "a.npy").data),
               lambda: np.load(root / "a.npy"))  # fmt: skip


def dicom(root: Path) -> Iterator[Pair]:
    """A series of 200 slices, and one of 40 in JPEG 2000."""
    import pydicom
    import SimpleITK as sitk
    from pydicom.uid import JPEG2000Lossless

    from tests import dicom_files

    picture = scan()
    for name, count in (("plain", 200), ("jpeg2000", 40)):
        for k in range(count):
            pixels = np.ascontiguousarray(picture[:, :, k].T + 1024).astype(np.uint16)
            ds = dicom_files.ct(k, pixels, RescaleIntercept=-1024, RescaleSlope=1)
            if name == "jpeg2000":
                ds.compress(JPEG2000Lossless, generate_instance_uid=False)
            dicom_files.save(ds, root / name / f"{k:03d}.dcm")

        def by_pydicom(folder: Path = root / name) -> Any:
            held = [pydicom.dcmread(path) for path in sorted(folder.iterdir())]
            return np.stack([ds.pixel_array * ds.RescaleSlope + ds.RescaleIntercept for ds in held])

        def by_itk(folder: Path = root / name) -> Any:
            reader = sitk.ImageSeriesReader()
            reader.SetFileNames(reader.GetGDCMSeriesFileNames(str(folder)))
            return sitk.GetArrayFromImage(reader.Execute())

        ours = lambda folder=root / name: formats.read(folder)  # noqa: E731
        yield Pair(f"DICOM {name}", "pydicom", ours, by_pydicom)
        yield Pair(f"DICOM {name}", "SimpleITK series", ours, by_itk)


def matlab(root: Path) -> Iterator[Pair]:
    """A variable of 512 x 512 x 60 in both kinds of file."""
    import h5py
    import scipy.io

    picture = np.ascontiguousarray(scan()[:, :, :60])
    scipy.io.savemat(root / "five.mat", {"v": picture}, do_compression=True)
    with h5py.File(root / "seven.mat", "w", userblock_size=512) as file:
        file.create_dataset("v", data=picture.T, compression="gzip")
    raw = bytearray((root / "seven.mat").read_bytes())
    raw[:128] = b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM"
    (root / "seven.mat").write_bytes(raw)
    yield Pair("v5 .mat", "scipy loadmat", lambda: formats.read(root / "five.mat"),
               lambda: scipy.io.loadmat(root / "five.mat")["v"])  # fmt: skip
    yield Pair("v7.3 .mat", "h5py", lambda: formats.read(root / "seven.mat"),
               lambda: h5py.File(root / "seven.mat")["v"][()])  # fmt: skip


def pictures(root: Path) -> Iterator[Pair]:
    """PNG 2048 x 2048 grey, JPEG 2000 x 2000 colour, TIFF 16 bit."""
    from PIL import Image

    rng = np.random.default_rng(0)
    grey = np.kron(rng.integers(0, 255, (256, 256)).astype(np.uint8), np.ones((8, 8), np.uint8))
    Image.fromarray(grey).save(root / "a.png")
    Image.fromarray(np.dstack([grey[:2000, :2000]] * 3)).save(root / "a.jpg")
    Image.fromarray(grey.astype(np.uint16) * 200).save(root / "a.tif")
    for name in ("a.png", "a.jpg", "a.tif"):
        yield Pair(name, "Pillow", lambda p=root / name: formats.read(p),
                   lambda p=root / name: np.asarray(Image.open(p)))  # fmt: skip


def sequences(root: Path) -> Iterator[Pair]:
    """H.264 of 640 x 480, 200 frames; a folder of 200 PNGs of 512 x 512."""
    import av
    import cv2
    from PIL import Image

    rng = np.random.default_rng(0)
    noise = np.kron(
        rng.integers(0, 255, (60, 80, 3)).astype(np.uint8), np.ones((8, 8, 1), np.uint8)
    )
    with av.open(str(root / "a.mp4"), "w") as out:
        stream = out.add_stream("libx264", rate=25, options={"preset": "fast"})
        stream.width, stream.height, stream.pix_fmt = 640, 480, "yuv420p"
        for n in range(200):
            frame = av.VideoFrame.from_ndarray(np.roll(noise, n, axis=1), format="rgb24")
            out.mux(stream.encode(frame))
        out.mux(stream.encode())
    (root / "frames").mkdir()
    for n in range(200):
        Image.fromarray(np.roll(noise[:, :, 0], n, axis=1)).save(root / "frames" / f"f{n:03d}.png")

    def by_cv2() -> Any:
        video, held = cv2.VideoCapture(str(root / "a.mp4")), []
        while (got := video.read())[0]:
            held.append(cv2.cvtColor(got[1], cv2.COLOR_BGR2RGB))
        return np.stack(held)

    yield Pair("a.mp4", "cv2.VideoCapture", lambda: formats.read(root / "a.mp4"), by_cv2)
    yield Pair("frames/", "Pillow", lambda: formats.read(root / "frames"),
               lambda: np.stack([np.asarray(Image.open(p))
                                 for p in sorted((root / "frames").iterdir())]))  # fmt: skip


def marks(root: Path) -> Iterator[Pair]:
    """COCO and CSV of 20,000 pictures, one picture asked for; later ones come from memory."""
    names = [f"{n:05d}.png" for n in range(20000)]
    told = {
        "images": [{"id": n, "file_name": name, "width": 64, "height": 64}
                   for n, name in enumerate(names)],
        "categories": [{"id": 1, "name": "x"}],
        "annotations": [{"id": n, "image_id": n, "category_id": 1, "bbox": [8, 8, 20, 20]}
                        for n in range(20000)],
    }  # fmt: skip
    (root / "a.json").write_text(json.dumps(told))
    (root / "a.csv").write_text(
        "image,label,x1,y1,x2,y2\n" + "".join(f"{name},x,8,8,28,28\n" for name in names)
    )

    def touched(path: Path) -> Path:
        path.touch()  # a changed file is parsed anew
        return path

    def by_csv() -> Any:
        with (root / "a.csv").open(newline="") as file:
            return list(csv.DictReader(file))

    size = (64, 64)
    yield Pair("coco, first", "json.loads",
               lambda: annotations.coco(touched(root / "a.json"), names[7], size, Marking("coco")),
               lambda: json.loads((root / "a.json").read_text()))  # fmt: skip
    yield Pair("boxes, first", "csv.DictReader",
               lambda: tables.boxes(touched(root / "a.csv"), names[7], size, Marking("boxes")),
               by_csv)  # fmt: skip
    yield Pair("boxes, later", "csv.DictReader",
               lambda: tables.boxes(root / "a.csv", names[9], size, Marking("boxes")),
               by_csv)  # fmt: skip


GROUPS = (volumes, dicom, matlab, pictures, sequences, marks)


def main() -> None:
    """Measure all groups, or those named."""
    wanted = sys.argv[1:] or [group.__name__ for group in GROUPS]
    print(f"{'file':<16}{'plain call':<20}{'ours ms':>10}{'theirs ms':>11}{'ratio':>8}")
    for group in GROUPS:
        if group.__name__ not in wanted:
            continue
        with tempfile.TemporaryDirectory() as folder:
            for pair in group(Path(folder)):
                ours, theirs = timed(pair)
                print(
                    f"{pair.name:<16}{pair.plain:<20}{ours:>10.1f}{theirs:>11.1f}"
                    f"{ours / theirs:>8.2f}",
                    flush=True,
                )


def timed(pair: Pair) -> tuple[float, float]:
    """Median milliseconds of ours and theirs, taken in turns."""
    spent: tuple[list[float], list[float]] = ([], [])
    for turn in range(ROUNDS + 1):
        for function, held in zip((pair.ours, pair.theirs), spent, strict=True):
            start = time.perf_counter()
            result = function()
            if turn:
                held.append(1000 * (time.perf_counter() - start))
            del result
    return statistics.median(spent[0]), statistics.median(spent[1])


if __name__ == "__main__":
    main()
