"""What a survey says, against a slow count of every slice; and frames of every orientation."""

import itertools
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nibabel.orientations import axcodes2ornt, inv_ornt_aff
from scipy import ndimage

from medsg_build import cases, regions, standardise
from medsg_build.errors import SourceError
from medsg_build.model import VIEWS, Case, FrameRef, MaskFile, Reading
from tests.toys import write


def case_of(
    folder: Path, picture: np.ndarray, labels: np.ndarray | None, affine=None, **reading: object
) -> Case:
    files = {"image": write(folder / "image.nii.gz", picture, affine)}
    masks: tuple[MaskFile, ...] = ()
    if labels is not None:
        path = write(folder / "labels.nii.gz", labels, affine)
        values = {f"S{v}": (int(v),) for v in np.unique(labels) if v}
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


def test_a_c_shape_is_met_inside(tmp_path):
    labels = np.zeros((20, 20, 8), np.uint8)
    labels[3:17, 3:17, 2:6] = 1
    labels[7:17, 7:13, :] = 0  # its centroid lies in the hollow
    found = survey(case_of(tmp_path, np.zeros(labels.shape, np.int16), labels), tmp_path / "k")
    assert labels[found.inside["S1", 1]] == 1


CODES = [
    "".join(axes[i][s] for i, s in zip(range(3), signs, strict=True))
    for axes in itertools.permutations(("LR", "PA", "IS"))
    for signs in itertools.product((0, 1), repeat=3)
]


@pytest.fixture(scope="module")
def phantom() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Canonical picture, labels and affine; no mirror image or turn of it looks the same."""
    i, j, k = np.indices((20, 24, 16))
    picture = (3 * i + 2 * j + 4 * k).astype(np.int16)
    labels = np.zeros(picture.shape, np.uint8)
    labels[3:6, 5:17, 4:9] = 1
    labels[6:12, 5:8, 4:9] = 1
    labels[14:17, 19:22, 8:13] = 2
    picture[labels == 2] += 150
    return picture, labels, np.array([[2, 0, 0, -7], [0, 1.5, 0, 3], [0, 0, 3, 11], [0, 0, 0, 1.0]])


def test_there_are_48_orientations():
    assert len(set(CODES)) == 48


@pytest.mark.parametrize("code", CODES)
def test_every_orientation_comes_out_as_one_picture(code, phantom, tmp_path):
    picture, labels, affine = phantom
    wanted = axcodes2ornt(code)
    turn = nib.orientations.ornt_transform(axcodes2ornt("RAS"), wanted)
    turned = affine @ inv_ornt_aff(turn, picture.shape)
    stored = [nib.orientations.apply_orientation(a, turn) for a in (picture, labels)]
    assert "".join(nib.aff2axcodes(turned)) == code
    upright = case_of(tmp_path / "ras", picture, labels, affine, window="60/200")
    case = case_of(tmp_path / "code", *stored, turned, window="60/200")
    one = survey(upright, tmp_path / "k1", "pad")
    other = survey(case, tmp_path / "k2", "pad")
    assert [tuple(one.region(r)) for r in one.regions] == [
        tuple(other.region(r)) for r in other.regions
    ]
    marker = np.argwhere(stored[1] == 2)[0]
    canonical = np.linalg.inv(affine) @ turned @ [*marker, 1]
    at = np.rint(canonical).astype(int)
    for view in ("axial", "coronal", "sagittal"):
        ref = FrameRef("d/c", "image", view, int(at[standardise.slices_of(view)]))
        there = cases.frame_of(upright, ref, "pad")
        here = cases.frame_of(case, ref, "pad", "S2")
        assert np.array_equal(there.image, here.image)
        x, y, away, _ = here.matrix @ [*marker, 1]
        assert abs(away) < 1e-6
        assert here.mask[int(y), int(x)] == 1


@pytest.mark.parametrize(
    ("view", "number", "box"),
    [  # half-open, by hand, on planes of 20 x 24 x 16 stretched to 336
        ("axial", 10, (3, 2, 6, 5)),  # columns 20-17..20-14, rows 24-22..24-19
        ("coronal", 20, (3, 3, 6, 8)),
        ("sagittal", 15, (2, 3, 5, 8)),  # anterior on image left
    ],
)
def test_display_convention(view, number, box, phantom, tmp_path):
    picture, labels, affine = phantom
    case = case_of(tmp_path, picture, labels, affine)
    found = survey(case, tmp_path / "k")
    plane = standardise.plane_of(view, labels.shape, (2, 1.5, 3), "radiological")
    expected = standardise.fit(plane, "stretch").box(regions.Box(*box))
    seen = [found.region(r) for r in found.regions]
    (mine,) = [r for r in seen if (r.view, r.number, r.structure) == (view, number, "S2")]
    assert mine.box == expected
    scale = np.array([336 / plane.columns, 336 / plane.rows] * 2)
    assert np.abs(np.array(mine.box) - np.array(box) * scale).max() < 1


def test_array_display_keeps_index_order(phantom, tmp_path):
    picture, labels, affine = phantom
    case = case_of(tmp_path, picture, labels, affine, display="array")
    seen = [survey(case, tmp_path / "k").region(r) for r in survey(case, tmp_path / "k").regions]
    (mine,) = [r for r in seen if (r.view, r.number, r.structure) == ("axial", 10, "S2")]
    assert mine.box[:2] == (14 * 336 // 20, 19 * 336 // 24)  # as stored: low i left, low j up


def test_a_mask_of_another_grid_is_rejected_with_both_geometries(phantom, tmp_path):
    picture, labels, affine = phantom
    case = case_of(tmp_path, picture, labels, affine)
    write(tmp_path / "labels.nii.gz", labels[:, :, :-1], affine)
    with pytest.raises(SourceError, match=r"20x24x16 voxels .* against 20x24x15 voxels"):
        survey(case, tmp_path / "k")


def test_an_empty_mask_is_named(phantom, tmp_path):
    picture, labels, affine = phantom
    case = case_of(tmp_path, picture, labels, affine)
    write(tmp_path / "labels.nii.gz", labels * 0, affine)
    with pytest.raises(SourceError, match=r"no labelled object is left in labels\.nii\.gz"):
        survey(case, tmp_path / "k")


def test_the_cache_is_used_until_a_file_changes(phantom, tmp_path, monkeypatch):
    picture, labels, affine = phantom
    case = case_of(tmp_path, picture, labels, affine)
    first = survey(case, tmp_path / "k")

    def unopened(*_args: object, **_words: object) -> None:
        raise AssertionError("opened again")

    with monkeypatch.context() as patch:
        patch.setattr("medsg_build.formats.read", unopened)
        again = survey(case, tmp_path / "k")
        assert np.array_equal(again.regions, first.regions)
        assert (again.inside, again.frames, again.sources) == (
            first.inside, first.frames, first.sources,
        )  # fmt: skip
        with pytest.raises(AssertionError, match="opened again"):
            survey(case, tmp_path / "k", "pad")
    labels = labels.copy()
    labels[14:17, 19:22, 8:13] = 0
    write(tmp_path / "labels.nii.gz", labels, affine)
    assert len(survey(case, tmp_path / "k").regions) < len(first.regions)
