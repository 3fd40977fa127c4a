"""Every installed task keeps the same promises; then each its own, where truth is exact."""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from medsg_build import cases, standardise
from medsg_build.errors import RecipeError
from medsg_build.identity import rng_for
from medsg_build.model import FULL, SIDE, VIEWS, Box, Case, CaseSurvey, Frame, FrameRef
from medsg_build.regions import body, bounds, changed
from medsg_build.seams import find, installed
from medsg_build.tasks import choosing, visual_patch
from medsg_build.tasks.pointing import RED, marked
from tests import toys


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    return toys.world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def surveys(held, tmp_path_factory: pytest.TempPathFactory) -> list[CaseSurvey]:
    return toys.surveyed(held, tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def frames(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("frames")


def test_the_eight_tasks_are_installed():
    assert installed("tasks") == ("cmg", "mv", "nrdg", "ot", "rdg", "rg", "vcg", "vpg")


@pytest.mark.parametrize("task", installed("tasks"))
def test_answer_lies_on_its_picture(task, surveys, held, frames):
    seen = 0
    for draft, developed, made in toys.made(task, surveys, held, frames):
        assert made.images[made.answer_image].shape[:2] == (SIDE, SIDE)
        assert all(image.dtype == np.uint8 for image in made.images)
        assert FULL.contains(made.answer)
        assert min(made.answer.width, made.answer.height) >= 5
        assert len(made.origins) == len(made.images)
        assert max(made.origins) < len(developed) == len(draft.frames)
        assert 2 <= len(made.images) <= 6
        assert "{" not in made.question
        seen += 1
    assert seen == 12


@pytest.mark.parametrize("task", installed("tasks"))
def test_order_of_the_cases_changes_no_draft(task, surveys):
    options = toys.options(task)
    forwards = {d.key: d for d in find("tasks", task).propose(surveys, options)}
    backwards = {d.key: d for d in find("tasks", task).propose(surveys[::-1], options)}
    assert forwards == backwards
    assert len(forwards) >= 20


@pytest.mark.parametrize("task", installed("tasks"))
def test_a_seed_changes_the_drafts(task, surveys):
    keys = [
        {d.key for d in find("tasks", task).propose(surveys, toys.options(task, seed))}
        for seed in (1, 2)
    ]
    assert not keys[0] & keys[1]


def test_rdg_differs_in_the_box_and_nowhere_else(surveys, held, frames):
    places, targets = Counter(), Counter()
    for _, developed, made in toys.made("rdg", surveys, held, frames, 40):
        first, second = made.images
        assert changed(first, second) == made.answer
        place = made.steps[0]["image"]
        assert np.array_equal(made.images[1 - place], developed[0].image)
        inside = body(developed[0].image)
        different = made.images[place] != developed[0].image
        assert inside[different].all()
        places[place] += 1
        targets[made.answer_image] += 1
    assert min(places.values()) >= 10  # of 40; a fair coin falls below once in 900
    assert min(targets.values()) >= 10


@pytest.mark.parametrize("shift", [0, -3, "far", 2.5])
def test_nrdg_refuses_a_shift_that_cannot_be_meant(shift, surveys):
    with pytest.raises(RecipeError, match=r"nrdg\.options\.shift"):
        list(find("tasks", "nrdg").propose(surveys, toys.options("nrdg", shift=shift)))


def test_nrdg_reveals_anatomy_and_no_fill(surveys, held, frames):
    """Both pictures are windows of one larger frame; not a pixel of them is made up."""
    for draft, developed, made in toys.made("nrdg", surveys, held, frames, 8):
        wide = developed[0].image
        assert wide.shape[:2] == (SIDE + 40, SIDE + 40)
        assert draft.margin == 20
        altered = next(s["image"] for s in made.steps if s["step"] == "cutpaste")
        shifts = {s["image"]: (s["dx"], s["dy"]) for s in made.steps if s["step"] == "shift"}
        dx, dy = shifts[1 - altered]
        window = wide[20 - dy : 20 - dy + SIDE, 20 - dx : 20 - dx + SIDE]
        assert np.array_equal(made.images[1 - altered], window)


def test_nrdg_undone_differs_in_the_box_and_nowhere_else(surveys, held, frames):
    for _, _, made in toys.made("nrdg", surveys, held, frames, 20):
        shifts = {s["image"]: (s["dx"], s["dy"]) for s in made.steps if s["step"] == "shift"}
        assert shifts[0] != shifts[1]
        assert max(abs(v) for pair in shifts.values() for v in pair) <= 20
        undone, real = [], np.ones((SIDE, SIDE), bool)
        for image, (dx, dy) in sorted(shifts.items()):
            back = np.roll(made.images[image], (-dy, -dx), (0, 1))
            here = np.zeros((SIDE, SIDE), bool)
            here[max(0, -dy) : SIDE - max(0, dy), max(0, -dx) : SIDE - max(0, dx)] = True
            undone.append(back)
            real &= here
        box = bounds((undone[0] != undone[1]) & real)
        dx, dy = shifts[made.answer_image]
        assert box is not None
        assert Box(box.x0 + dx, box.y0 + dy, box.x1 + dx, box.y1 + dy) == made.answer


@pytest.mark.parametrize("task", ["mv", "ot", "cmg"])
def test_the_marked_box_is_drawn_and_said(task, surveys, held, frames):
    for draft, developed, made in toys.made(task, surveys, held, frames):
        given = made.reference
        red = (made.images[made.reference_image] == RED).all(axis=2)
        assert bounds(red) == given == draft.boxes[draft.reference]
        said = re.search(r"\((\d+),(\d+)\),\((\d+),(\d+)\)", made.question)
        assert [int(v) for v in said.groups()] == given.published()
        assert made.reference_image != made.answer_image
        target = developed[draft.target].image
        assert np.array_equal(made.images[made.answer_image], target)


def test_a_box_is_the_mask_of_its_slice(surveys, held):
    """Gold boxes against the label map itself, cut and fitted by hand."""
    case, survey = held[0], surveys[0]
    _, labels = toys.volume(1)
    options = toys.options("rg")
    rows = choosing.single(survey, options)
    assert len(rows) > 100
    for row in rows[::7]:
        seen = choosing.seen(survey, row)
        plane = standardise.plane_of(seen.view, labels.shape, (3, 3, 3), "radiological")
        section = standardise.cut(labels, plane, seen.number)
        value = 1 + list(toys.ORGANS).index(seen.structure)
        expected = standardise.fit(plane, "pad").box(bounds(section == value))
        assert seen.box == expected
    assert case.name == survey.case.name


def test_mv_views_cross_in_one_voxel_of_the_object(surveys):
    for draft in find("tasks", "mv").propose(surveys, toys.options("mv")):
        _, labels = toys.volume(1)
        at = {ref.view: ref.number for ref in draft.frames}
        voxel = (at["sagittal"], at["coronal"], at["axial"])
        assert labels[voxel] == 1 + list(toys.ORGANS).index(draft.structure)
        assert draft.target != draft.reference


def test_mv_reference_view_varies(surveys):
    drafts = list(find("tasks", "mv").propose(surveys, toys.options("mv")))
    assert {d.frames[d.reference].view for d in drafts} == {"axial", "coronal", "sagittal"}
    assert {d.reference for d in drafts} == {0, 1, 2}


def test_ot_is_ordered_and_follows_one_object(surveys):
    lengths, directions = Counter(), Counter()
    for draft in find("tasks", "ot").propose(surveys, toys.options("ot")):
        numbers = [ref.number for ref in draft.frames]
        steps = set(np.diff(numbers))
        assert len(steps) == 1
        assert len({ref.view for ref in draft.frames}) == 1
        assert len({ref.case for ref in draft.frames}) == 1
        assert draft.boxes[draft.reference].iou(draft.boxes[draft.target]) <= 0.8
        lengths[len(numbers)] += 1
        directions[steps.pop() > 0] += 1
    assert set(lengths) == {2, 3, 4, 5, 6}
    assert set(directions) == {True, False}


def test_vcg_shows_the_structure_alone_and_hides_its_place(surveys, held, frames):
    for draft, developed, made in toys.made("vcg", surveys, held, frames):
        alone = bounds(made.images[0] > 0)
        assert abs((alone.x0 + alone.x1) / 2 - SIDE / 2) <= 12
        assert abs((alone.y0 + alone.y1) / 2 - SIDE / 2) <= 12
        assert made.answer == draft.boxes[0]
        mask = bounds(developed[0].mask)
        assert made.answer.iou(mask) > 0.8  # the mask on the frame is nearest, the box outward


def test_vpg_patches_are_parts_of_the_source(surveys, held, frames):
    for _, developed, made in toys.made("vpg", surveys, held, frames):
        boxes = [Box(*step["box"]) for step in made.steps]
        assert boxes[made.reference_image - 1] == made.answer
        assert made.answer_image == 0
        for image, box in zip(made.images[1:], boxes, strict=True):
            again = visual_patch.patch_picture(developed[0].image, box, "enlarged")
            assert np.array_equal(image, again)
        for i, one in enumerate(boxes):
            for other in boxes[:i]:
                assert one.overlap(other) <= min(one.area, other.area) / 3


def test_vpg_keeps_rich_patches_and_no_air():
    image = np.zeros((SIDE, SIDE), np.uint8)
    image[:, :168] = 120  # a flat half, a half of air, and a checkered corner
    image[200:300, 20:120] = np.indices((100, 100)).sum(0) // 8 % 2 * 200
    values = {**visual_patch.options, "sampled": 200, "kept": 200, "most_overlap": 1.0}
    kept = visual_patch.kept(image, [], values, rng_for(0, "vpg", "test"))
    assert kept
    checkered = Box(20, 200, 120, 300)
    assert all(box.overlap(checkered) > 0 for box, _ in kept)
    assert [rich for _, rich in kept] == sorted((rich for _, rich in kept), reverse=True)


def test_cmg_pairs_one_structure_in_two_modalities(surveys):
    drafts = list(find("tasks", "cmg").propose(surveys, toys.options("cmg")))
    for draft in drafts:
        assert draft.reference == 0 < draft.target
        datasets = {ref.case.split("/")[0] for ref in draft.frames}
        assert datasets == {"toy-ct", "toy-mr"}
    assert {d.structure for d in drafts} == set(toys.ORGANS)


def test_rg_words_fit_one_picture(surveys, held, frames):
    for draft, _, made in toys.made("rg", surveys, held, frames, 20):
        others = [ref for i, ref in enumerate(draft.frames) if i != draft.target]
        assert others
        assert all(ref.case.startswith("toy-head") for ref in others)
        assert not re.search(r"\b(first|second|third)\b", made.question)


def _survey_of(rows: list[tuple[int, ...]], structures: tuple[str, ...], like: CaseSurvey):
    from medsg_build.model import REGION_DTYPE

    table = np.array(rows, REGION_DTYPE)
    return CaseSurvey(like.case, structures, table, {"axial": (4,)}, {}, {}, {})


def test_two_pieces_of_one_structure_are_no_single_object(surveys):
    axial = VIEWS.index("axial")
    #        view   n  s  c  x0  y0  x1  y1  px  first second reach
    large = (axial, 4, 0, 1, 10, 10, 60, 60, 900, 900, 0, 100)
    rival = (axial, 4, 0, 2, 90, 90, 120, 120, 300, 300, 0, 100)
    speck = (axial, 4, 1, 1, 10, 10, 60, 60, 900, 880, 20, 95)
    tiny = (axial, 4, 2, 1, 10, 10, 14, 60, 100, 100, 0, 100)
    survey = _survey_of([large, rival, speck, tiny], ("Liver", "Spleen", "Stomach"), surveys[0])
    options = toys.options("rg")
    kept = [choosing.seen(survey, row) for row in choosing.single(survey, options)]
    assert [(k.structure, k.box) for k in kept] == [("Spleen", Box(10, 10, 60, 60))]
    assert options.tally["several pieces on the slice", "toy-ct", "Liver"] == 1
    assert options.tally["box under the least side", "toy-ct", "Stomach"] == 1


def test_a_far_speck_cannot_stretch_the_box(surveys):
    axial = VIEWS.index("axial")
    speck = (axial, 4, 0, 1, 10, 10, 200, 200, 900, 880, 20, 20)
    survey = _survey_of([speck], ("Liver",), surveys[0])
    assert len(choosing.single(survey, toys.options("rg"))) == 0


@pytest.mark.parametrize(
    ("policy", "box"), [("union", Box(10, 10, 120, 120)), ("largest", Box(10, 10, 60, 60))]
)
def test_policies_for_several_pieces(policy, box, surveys, held):
    from dataclasses import replace

    axial = VIEWS.index("axial")
    rows = [
        (axial, 4, 0, 2, 90, 90, 120, 120, 300, 300, 0, 100),
        (axial, 4, 0, 1, 10, 10, 60, 60, 900, 900, 0, 100),
    ]
    survey = _survey_of(rows, ("Liver",), surveys[0])
    case = replace(held[0], reading=replace(held[0].reading, policy={"Liver": policy}))
    survey = replace(survey, case=case)
    (row,) = choosing.single(survey, toys.options("rg"))
    assert choosing.seen(survey, row).box == box


def test_marked_keeps_small_objects_visible():
    image = np.full((SIDE, SIDE), 90, np.uint8)
    box = Box(100, 100, 107, 108)
    out = marked(image, box)
    red = (out == RED).all(axis=2)
    assert bounds(red) == box
    assert (~red[100:108, 100:107]).sum() == 5 * 6  # one pixel wide: the inside stays


def test_a_frame_shows_the_voxel_its_matrix_says(held):
    """The brightest organ's centre, through the stored matrix, falls on bright pixels."""
    centre = np.array([*toys.ORGANS["LeftKidney"][0], 1.0])
    for view, number in (("axial", 20), ("coronal", 20), ("sagittal", 24)):
        ref = FrameRef(held[0].name, "image", view, number)
        frame: Frame = cases.frame_of(held[0], ref, "pad")
        x, y, away, _ = frame.matrix @ centre
        assert away == 0
        around = frame.image[int(y) - 4 : int(y) + 5, int(x) - 4 : int(x) + 5]
        assert around.mean() > 200
