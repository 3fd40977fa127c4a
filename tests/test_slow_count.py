"""What a survey says, against a slow count of every slice."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from medsg_build import cases, regions, standardise
from medsg_build.model import VIEWS, Case, Choice, MaskFile, Reading
from tests.toys import write


def case_of(
    folder: Path, picture: np.ndarray, labels: np.ndarray | None, affine=None, **reading: object
) -> Case:
    files = {"image": write(folder / "image.nii.gz", picture, affine)}
    masks: tuple[MaskFile, ...] = ()
    if labels is not None:
        path = write(folder / "labels.nii.gz", labels, affine)
        values = {f"S{v}": Choice((int(v),)) for v in np.unique(labels) if v}
        masks = (MaskFile(path, values),)
    return Case(
        dataset="d", name="d/c", patient="d/c", modality="CT", root=folder, files=files,
        masks=masks, reading=Reading(**{"dust": 1, **reading}), licence="CC0-1.0",
    )  # fmt: skip


def survey(case: Case, cache: Path, fit: str = "stretch"):
    return cases.survey_case(cases.SurveyJob(case, fit, cache))


def slow_rows(labels: np.ndarray, spacing, fit: str) -> set[tuple]:
    """Every section of every component, by scipy and a loop over all slices."""
    out = set()
    for value in np.unique(labels[labels > 0]):
        parts, count = ndimage.label(labels == value, np.ones((3, 3, 3)))
        sizes = [int((parts == n).sum()) for n in range(1, count + 1)]
        order = sorted(range(count), key=lambda n: (-sizes[n], n))
        for number, part in enumerate(order, 1):
            for view in ("axial", "coronal", "sagittal"):
                plane = standardise.plane_of(view, labels.shape, spacing, "radiological")
                for at in range(labels.shape[standardise.slices_of(view)]):
                    section = standardise.cut(parts == part + 1, plane, at)
                    if not section.any():
                        continue
                    pieces, pieces_count = ndimage.label(section, np.ones((3, 3)))
                    areas = sorted(
                        ((pieces == p).sum() for p in range(1, pieces_count + 1)), reverse=True
                    )
                    box = standardise.fit(plane, fit).box(regions.bounds(section))
                    second = int(areas[1]) if pieces_count > 1 else 0
                    out.add(
                        (
                            view,
                            at,
                            f"S{value}",
                            number,
                            box,
                            int(section.sum()),
                            int(areas[0]),
                            second,
                        )
                    )
    return out


@settings(max_examples=40, deadline=None)
@given(
    shape=st.tuples(*[st.integers(3, 9)] * 3),
    seed=st.integers(0, 2**16),
    share=st.sampled_from([0.15, 0.5, 0.85]),
    fit=st.sampled_from(["stretch", "pad"]),
)
def test_a_survey_is_what_a_slow_count_finds(tmp_path_factory, shape, seed, share, fit):
    folder = tmp_path_factory.mktemp("slow")
    rng = np.random.default_rng(seed)
    labels = (rng.random(shape) < share) * rng.integers(1, 4, shape)
    labels = labels.astype(np.uint8)
    labels[0, 0, 0] = 1
    case = case_of(folder, np.zeros(shape, np.int16), labels)
    found = survey(case, folder / "cache", fit)
    rows = {tuple(found.region(row))[:-1] for row in found.regions}
    slow = slow_rows(labels, (3.0, 3.0, 3.0), fit)
    # Components of equal size may be numbered the other way round by scipy.
    assert {r[:3] + r[4:] for r in rows} == {r[:3] + r[4:] for r in slow}
    assert len(found.regions) == len(slow)
    for (name, number), voxel in found.inside.items():
        assert labels[voxel] == int(name[1:])
        at = {(r[0], r[1]) for r in rows if r[2:4] == (name, number)}
        assert {(v, voxel[standardise.slices_of(v)]) for v in VIEWS[:3]} <= at


@pytest.mark.parametrize("axis", range(3))
def test_a_thread_of_two_parts_has_two_components(axis):
    mask = np.array([True, False, True]).reshape(np.roll((3, 1, 1), axis))
    found, dust = regions.components(mask, (slice(0, 3),) * 3, 1)
    assert ([c.voxels for c in found], dust) == ([1, 1], 0)
