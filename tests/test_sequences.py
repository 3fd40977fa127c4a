"""Videos, folders of frames, and pictures with boxes: from files to samples."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image

from medsg_build import config, layouts
from medsg_build.build import build, planned
from medsg_build.cases import SurveyJob, frame_of, survey_case
from medsg_build.errors import RecipeError, SourceError
from medsg_build.model import FrameRef
from medsg_build.slices import Choices, sliced
from tests import dicom_files

VIDEO = Path(__file__).parents[2] / "shared" / "cases" / "video"
ENTRY = {"title": "Mine", "licence": {"name": "CC0", "redistribution": "yes"}, "citation": "me"}


def recipe(folder: Path, layout: dict, **changes) -> config.DatasetRecipe:
    told = {
        "name": "clips",
        "modality": "Endoscopy",
        "regions": ["abdomen"],
        "layout": layout,
        "dust": 0,
        "entry": ENTRY,
        **changes,
    }
    (folder / "clips.yaml").write_text(yaml.safe_dump(told))
    return config.dataset("clips", folder)


def boxes(out: Path) -> dict[tuple[str, int, str], list[tuple[int, ...]]]:
    """(case, number, structure) -> boxes, half-open."""
    found: dict[tuple[str, int, str], list[tuple[int, ...]]] = {}
    with (out / "boxes.csv").open(newline="") as file:
        for r in csv.DictReader(file):
            box = (int(r["x0"]), int(r["y0"]), int(r["x1"]) + 1, int(r["y1"]) + 1)
            found.setdefault((r["case"], int(r["number"]), r["structure"]), []).append(box)
    return found


def numbers(out: Path) -> list[int]:
    with (out / "images.csv").open(newline="") as file:
        return [int(r["number"]) for r in csv.DictReader(file)]


@pytest.fixture
def filmed(tmp_path) -> Path:
    data = tmp_path / "data"
    (data / "masks").mkdir(parents=True)
    shutil.copy(VIDEO / "good.avi", data / "one.avi")
    shutil.copytree(VIDEO / "VI2_masks", data / "masks" / "one")
    return data


FILMED = {"image": "{case}.avi", "mask": {"Tool": "masks/{case}/"}}


def test_a_video_with_a_mask_on_some_frames(tmp_path, filmed):
    made = sliced(recipe(tmp_path, FILMED), filmed, tmp_path / "o")
    found = boxes(tmp_path / "o")
    assert sorted(n for _, n, _ in found) == list(range(0, 24, 3))
    for (_, n, _), held in found.items():
        assert held == [((4 + 2 * n) * 3, 180, (28 + 2 * n) * 3, 252)]
    assert any("count from 1" in note for note in made.notes["clips/one"])


@pytest.mark.parametrize(("first", "expected"), [(1, 0), (0, 1)])
def test_the_number_of_the_first_mask_can_be_said(tmp_path, filmed, first, expected):
    sliced(recipe(tmp_path, {**FILMED, "first": first}), filmed, tmp_path / "o")
    assert min(n for _, n, _ in boxes(tmp_path / "o")) == expected


def test_frames_at_a_fixed_interval(tmp_path, filmed):
    held = recipe(tmp_path, {"image": "{case}.avi"})  # 10 frames a second
    for name, choices, expected in (
        ("every", Choices(every=7), [0, 7, 14, 21]),
        ("half", Choices(seconds=0.5), [0, 5, 10, 15, 20]),
        ("odd", Choices(seconds=0.35), [0, 4, 7, 11, 14, 18, 21]),
    ):
        sliced(held, filmed, tmp_path / name, choices)
        assert numbers(tmp_path / name) == expected


def test_pictures_have_no_seconds(tmp_path):
    picture(tmp_path / "data" / "a.png", 0)
    with pytest.raises(SourceError, match="has no time"):
        sliced(recipe(tmp_path, {"image": "{case}.png"}), tmp_path / "data", tmp_path / "o",
               Choices(seconds=1))  # fmt: skip


def benchmark(folder: Path, **tasks: int) -> Path:
    told = {"name": "bench", "title": "Clips", "datasets": ["clips"], "fit": "stretch",
            "tasks": {name: {"quota": quota} for name, quota in tasks.items()}}  # fmt: skip
    (folder / "bench.yaml").write_text(yaml.safe_dump(told))
    return folder / "bench.yaml"


def test_tracking_in_a_video(tmp_path, filmed):
    recipe(tmp_path, FILMED)
    plan = planned(str(benchmark(tmp_path, ot=3)), sources={"clips": filmed})
    release = build(plan, tmp_path / "o")
    assert release.made == {"ot": 3}
    for row in (tmp_path / "o" / "provenance.jsonl").read_text().splitlines():
        told = json.loads(row)
        shown = [frame["number"] for frame in told["frames"]]
        assert shown in (sorted(shown), sorted(shown, reverse=True))
        asked = shown[told["answer"]["image"]]
        assert told["answer"]["box"] == [(4 + 2 * asked) * 3, 180, (28 + 2 * asked) * 3, 252]


# Folders and patterns of frames


def picture(path: Path, at: int, mask: bool = False) -> None:
    """A grey picture 56 wide, 42 high, with a bright square of 10 at (at, 20); or its mask."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = np.zeros((42, 56), np.uint8) if mask else np.full((42, 56), 60, np.uint8)
    data[20:30, at : at + 10] = 255 if mask else 220
    Image.fromarray(data).save(path)


@pytest.mark.parametrize("way", ["folders", "pattern"])
def test_frames_in_files(tmp_path, way):
    data = tmp_path / "data"
    for n in (8, 9, 10, 11):  # 9 before 10, whatever the alphabet says
        if way == "folders":
            picture(data / "clips" / "x" / f"f{n}.png", n)
            picture(data / "masks" / "x" / f"f{n}_m.png", n, mask=True) if n != 9 else None
        else:
            picture(data / f"x_{n}.png", n)
            picture(data / f"x_{n}_mask.png", n, mask=True) if n != 9 else None
    layout = {
        "folders": {"image": "clips/{case}/", "mask": {"Polyp": "masks/{case}/"}},
        "pattern": {"image": "{case}_{frame}.png", "mask": {"Polyp": "{case}_{frame}_mask.png"}},
    }[way]
    if way == "folders":
        for path in (data / "masks" / "x").iterdir():
            path.rename(path.with_name(path.name.replace("_m", "")))
    sliced(recipe(tmp_path, layout), data, tmp_path / "o", Choices(fit="stretch"))
    # Frames count from 0; the mask of file 9 is missing.
    expected = {
        ("clips/x", at, "Polyp"): [((8 + at) * 6, 160, (18 + at) * 6, 240)] for at in (0, 2, 3)
    }
    assert boxes(tmp_path / "o") == expected


def test_a_sequence_is_one_case_and_its_files_are_its_sources(tmp_path):
    for n in range(3):
        picture(tmp_path / "data" / f"x_{n}.png", n)
        picture(tmp_path / "data" / f"y_{n}.png", n)
    found = layouts.paired(recipe(tmp_path, {"image": "{case}_{frame}.png"}), tmp_path / "data")
    assert [case.name for case in found.cases] == ["clips/x", "clips/y"]
    job = SurveyJob(found.cases[0], "pad", tmp_path / "cache")
    before = survey_case(job)
    picture(tmp_path / "data" / "x_1.png", 30)
    assert survey_case(job).sources != before.sources


# Boxes and marks


def annotated(tmp_path: Path, kind: str, file: str, text: str, **marking) -> Path:
    data = tmp_path / "data"
    picture(data / "a.png", 12)
    picture(data / "b.png", 30)
    (data / file).write_text(text)
    layout = {"image": "{case}.png", "marks": file}
    recipe(tmp_path, layout, labels={"Polyp": "cyst"}, marking={"kind": kind, **marking})
    return data


CSV = "image,label,x1,y1,x2,y2\na.png,cyst,12,20,22,30\na.png,cyst,40,2,46,9\nb.png,,,,,\n"


def test_boxes_from_a_table(tmp_path):
    data = annotated(tmp_path, "boxes", "boxes.csv", CSV)
    out = tmp_path / "o"
    made = sliced(config.dataset("clips", tmp_path), data, out, Choices(fit="stretch"))
    assert made.cases == 2
    assert not made.failures  # that nothing is marked on b is said
    assert boxes(out) == {("clips/a", 0, "Polyp"): [(72, 160, 132, 240), (240, 16, 276, 72)]}


def test_a_box_feeds_the_tasks_that_need_no_outline(tmp_path):
    text = CSV.replace("a.png,cyst,40,2,46,9\n", "")
    data = annotated(tmp_path, "boxes", "boxes.csv", text)
    plan = planned(str(benchmark(tmp_path, vcg=1, vpg=1)), sources={"clips": data})
    release = build(plan, tmp_path / "o")
    assert release.made["vcg"] == 0
    assert release.short["vcg"] == {"a box without an outline": 1}


POLYGON = {
    "images": [
        {"id": 1, "file_name": "a.png", "width": 56, "height": 42},
        {"id": 2, "file_name": "b.png", "width": 56, "height": 42},
    ],
    "categories": [{"id": 7, "name": "cyst"}],
    "annotations": [
        {
            "id": 1, "image_id": 1, "category_id": 7, "iscrowd": 0, "area": 100,
            "bbox": [12, 20, 10, 10], "segmentation": [[12, 20, 22, 20, 22, 30, 12, 30]],
        }
    ],
}  # fmt: skip


def test_an_outline_gives_a_mask(tmp_path):
    data = annotated(tmp_path, "coco", "marks.json", json.dumps(POLYGON))
    case = layouts.paired(config.dataset("clips", tmp_path), data).cases[0]
    survey = survey_case(SurveyJob(case, "stretch", tmp_path / "cache"))
    assert not survey.boxed
    assert tuple(survey.region(survey.regions[0]).box) == (72, 160, 132, 240)
    frame = frame_of(case, FrameRef(case.name, "image", "picture", 0), "stretch", "Polyp")
    rows, columns = np.nonzero(frame.mask)
    assert (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1) == (72, 160, 132, 240)


def test_a_picture_that_no_one_annotated_is_a_failure_by_name(tmp_path):
    text = CSV.replace("b.png,,,,,\n", "")
    data = annotated(tmp_path, "boxes", "boxes.csv", text)
    made = sliced(config.dataset("clips", tmp_path), data, tmp_path / "o")
    assert [failure.item for failure in made.failures] == ["clips/b"]
    assert "no entry for" in made.failures[0].message


def test_boxes_on_the_frames_of_a_video(tmp_path, filmed):
    lines = "".join(f"one.avi,{n},cyst,{4 + 2 * n},60,{28 + 2 * n},84\n" for n in (2, 5))
    (filmed / "boxes.csv").write_text("video,frame,label,x1,y1,x2,y2\n" + lines)
    columns = {"picture": "video", "frame": "frame", "name": "label",
               "x0": "x1", "y0": "y1", "x1": "x2", "y1": "y2"}  # fmt: skip
    held = recipe(
        tmp_path, {"image": "{case}.avi", "marks": "boxes.csv"}, labels={"Tool": "cyst"},
        marking={"kind": "boxes", "columns": columns},
    )  # fmt: skip
    sliced(held, filmed, tmp_path / "o")
    assert boxes(tmp_path / "o") == {
        ("clips/one", n, "Tool"): [((4 + 2 * n) * 3, 180, (28 + 2 * n) * 3, 252)] for n in (2, 5)
    }


@pytest.mark.parametrize(
    ("layout", "more", "told"),
    [
        ({"image": "{case}.png", "marks": "a.csv"}, {}, "labels: name the structures"),
        ({"image": "{case}.png", "marks": "a.csv"}, {"labels": {"A": 1}}, "belong together"),
        ({"image": "{frame}/{case}.png"}, {}, "{frame} stands in the file's name"),
        ({"image": "{case}*{frame}.png"}, {}, "{frame} stands in the file's name"),
        ({"image": "{case}.png", "parts": {"mask1": 0}}, {}, "none of image, mask"),
        ({"image": "{case}.png", "mask": "m.png"}, {"labels": {"A": []}}, "names no value"),
        ({"image": "{case}.png"}, {"sides": {"A": "cut"}}, "sides: 'A' is none of"),
        ({"image": "{case}.png"}, {"views": ["picture", "axial"]}, "stands alone"),
        ({"image": "{case}.png", "mask": {"A": "m.png"}}, {"labels": {"B": 1}}, "no pattern for"),
    ],
)  # fmt: skip
def test_faults_of_a_recipe_are_told(tmp_path, layout, more, told):
    with pytest.raises(RecipeError) as fault:
        recipe(tmp_path, layout, **more)
    assert told in str(fault.value)
    assert "clips.yaml:" in str(fault.value)


# Pixels that are not square


@pytest.mark.parametrize("marked", ["mask", "masks of a cine", "box"])
def test_what_lies_on_oblong_pixels_is_fitted_as_the_picture_is(tmp_path, marked):
    """Rows are 2 mm apart, columns 1 mm: under `pad` the picture is 120 mm wide, 160 mm high."""
    grey = np.full((80, 120), 300, np.uint16)
    grey[10:30, 20:50] = 3900
    frames = 3 if marked == "masks of a cine" else 1
    ds = dicom_files.made(dicom_files.ULTRASOUND, "US", PixelSpacing=[2, 1])
    dicom_files.put_pixels(ds, np.stack([grey] * frames) if frames > 1 else grey)
    data = tmp_path / "data"
    dicom_files.save(ds, data / "a.dcm")
    layout: dict = {"image": "{case}.dcm", "mask": {"Cyst": "{case}.png"}}
    more: dict = {}
    mask = Image.fromarray((grey > 1000).astype(np.uint8))
    if marked == "mask":
        mask.save(data / "a.png")
    elif marked == "box":
        (data / "b.csv").write_text("image,label,x1,y1,x2,y2\na.dcm,cyst,20,10,50,30\n")
        layout = {"image": "{case}.dcm", "marks": "b.csv"}
        more = {"labels": {"Cyst": "cyst"}, "marking": {"kind": "boxes"}}
    else:
        layout["mask"] = {"Cyst": "m/{case}/"}
        for n in range(frames):
            (data / "m" / "a").mkdir(parents=True, exist_ok=True)
            mask.save(data / "m" / "a" / f"{n + 1}.png")
    sliced(recipe(tmp_path, layout, **more), data, tmp_path / "o")
    # 336 pixels are 160 mm high, 252 are 120 mm wide with 42 on either side.
    expected = (42 + 42, 42, 42 + 105, 126)
    assert all(held == [expected] for held in boxes(tmp_path / "o").values())
    assert len(boxes(tmp_path / "o")) == frames
    with Image.open(next((tmp_path / "o" / "images").rglob("*.png"))) as picture:
        bright = np.array(picture.convert("L")) > 200
    rows, columns = np.nonzero(bright)
    found = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
    assert np.abs(np.subtract(found, expected)).max() <= 1
