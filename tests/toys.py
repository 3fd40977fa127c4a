"""A small world of volumes whose truth is exact: ellipsoids in a noisy body, as NIfTI pairs."""

from collections.abc import Iterator
from pathlib import Path

import nibabel as nib
import numpy as np

from medsg_build import cases
from medsg_build.assemble import compose, frame_orders
from medsg_build.model import (
    Case,
    CaseSurvey,
    Choice,
    Composed,
    Draft,
    Frame,
    MaskFile,
    Reading,
    Rejected,
)
from medsg_build.seams import Options, find

SHAPE = (72, 64, 56)
ORGANS = {
    # centre and radius in voxels of canonical order: patient right is high i
    "Liver": ((48, 36, 34), (13, 13, 11), 90),
    "Spleen": ((18, 26, 36), (7, 8, 9), 150),
    "LeftKidney": ((24, 20, 20), (6, 6, 9), 210),
}


def volume(seed: int, gain: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Picture int16 and labels uint8, (i, j, k) canonical."""
    rng = np.random.default_rng(seed)
    i, j, k = np.indices(SHAPE)
    body = ((i - 35.5) / 32) ** 2 + ((j - 31.5) / 28) ** 2 < 1
    picture = np.where(body, 30, -1000).astype(np.float64)
    labels = np.zeros(SHAPE, np.uint8)
    for value, (centre, radius, grey) in enumerate(ORGANS.values(), 1):
        inside = sum(
            ((axis - c) / r) ** 2 for axis, c, r in zip((i, j, k), centre, radius, strict=True)
        )
        labels[inside < 1] = value
        picture[inside < 1] = grey
    picture[body] += rng.normal(0, 25, SHAPE)[body]
    return (picture * gain).astype(np.int16), labels


def write(path: Path, data: np.ndarray, affine: np.ndarray | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    nib.save(nib.Nifti1Image(data, np.diag([3.0, 3, 3, 1]) if affine is None else affine), path)
    return path


def world(root: Path) -> list[Case]:
    """Two CT cases and an MR case of the abdomen, labelled; a head without labels."""
    labels = MaskFile
    values = {name: Choice((number,)) for number, name in enumerate(ORGANS, 1)}
    out = []
    for dataset, name, modality, seed in (
        ("toy-ct", "a", "CT", 1),
        ("toy-ct", "b", "CT", 2),
        ("toy-mr", "c", "MRI", 3),
        ("toy-head", "d", "MRI", 4),
    ):
        folder = root / dataset
        picture, mask = volume(seed)
        if modality == "MRI":
            picture = np.clip(picture, 0, None).astype(np.int16)
        files = {"image": write(folder / f"{name}.nii.gz", picture)}
        masks: tuple[MaskFile, ...] = ()
        if dataset != "toy-head":
            masks = (labels(write(folder / f"{name}_seg.nii.gz", mask), values),)
        out.append(
            Case(
                dataset=dataset,
                name=f"{dataset}/{name}",
                patient=f"{dataset}/{name}",
                modality=modality,
                root=folder,
                files=files,
                masks=masks,
                reading=Reading(),
                licence="CC0-1.0",
                regions=("head",) if dataset == "toy-head" else ("abdomen",),
            )
        )
    return out


def surveyed(held: list[Case], cache: Path, fit: str = "pad") -> list[CaseSurvey]:
    return [cases.survey_case(cases.SurveyJob(case, fit, cache)) for case in held]


def options(task: str, seed: int = 5, quota: int = 20, **values: object) -> Options:
    return Options(seed, quota, 5, {**find("tasks", task).options, **values})


def framed(draft: Draft, held: list[Case], folder: Path, fit: str = "pad") -> list[Frame]:
    by_name = {case.name: case for case in held}
    orders = frame_orders(draft)
    for job in cases.orders(orders, by_name.__getitem__, fit, folder):
        cases.develop_case(job)
    return [cases.load_frame(folder, order) for order in orders]


def made(
    task: str, surveys: list[CaseSurvey], held: list[Case], folder: Path, most: int = 12
) -> Iterator[tuple[Draft, list[Frame], Composed]]:
    """The first samples of a task, as (draft, frames, composed)."""
    count = 0
    for draft in find("tasks", task).propose(surveys, options(task)):
        frames = framed(draft, held, folder)
        composed = compose(draft, frames, 5)
        if not isinstance(composed, Rejected):
            yield draft, frames, composed
            count += 1
            if count == most:
                return
