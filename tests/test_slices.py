"""`slice`: every labelled slice as a picture, boxes as tables; nothing lost, nothing made twice."""

import csv
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml
from PIL import Image

from medsg_build import config
from medsg_build.errors import RecipeError, SourceError
from medsg_build.slices import Choices, sliced
from tests import toys

ENTRY = {"title": "Mine", "licence": {"name": "CC0", "redistribution": "yes"}, "citation": "me"}


def recipe(folder: Path, **changes) -> config.DatasetRecipe:
    told = {
        "name": "mine",
        "modality": "CT",
        "layout": {"image": "{case}.nii.gz", "mask": "{case}_seg.nii.gz"},
        "labels": {"Liver": 1, "Spleen": 2, "LeftKidney": 3},
        "entry": ENTRY,
        **changes,
    }
    (folder / "mine.yaml").write_text(yaml.safe_dump(told))
    return config.dataset("mine", folder)


@pytest.fixture
def data(tmp_path) -> Path:
    for name, seed in (("a", 1), ("b", 2)):
        picture, labels = toys.volume(seed)
        toys.write(tmp_path / "data" / f"{name}.nii.gz", picture)
        toys.write(tmp_path / "data" / f"{name}_seg.nii.gz", labels)
    return tmp_path / "data"


def rows(out: Path, name: str) -> list[dict[str, str]]:
    with (out / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def contents(out: Path) -> dict[str, bytes]:
    return {
        path.relative_to(out).as_posix(): path.read_bytes()
        for path in sorted(out.rglob("*"))
        if path.is_file() and "work" not in path.parts
    }


def test_tables_and_pictures_agree(tmp_path, data):
    out = tmp_path / "o"
    made = sliced(recipe(tmp_path), data, out)
    images, boxes = rows(out, "images"), rows(out, "boxes")
    assert (made.cases, made.pictures, made.boxes) == (2, len(images), len(boxes))
    assert {row["view"] for row in images} == {"axial", "coronal", "sagittal"}
    for row in images:
        with Image.open(out / row["image"]) as picture:
            assert (picture.size, picture.mode, picture.info) == ((336, 336), "RGB", {})
    assert len(list((out / "images").rglob("*.png"))) == len(images)
    for name in ("images", "boxes"):
        table = pq.read_table(out / f"{name}.parquet").to_pylist()
        assert [{k: str(v) for k, v in row.items()} for row in table] == rows(out, name)


def test_a_box_is_where_the_mask_is(tmp_path, data):
    out = tmp_path / "o"
    sliced(recipe(tmp_path), data, out, Choices(views=("axial",)))
    _, labels = toys.volume(1)
    row = next(
        r for r in rows(out, "boxes")
        if r["case"] == "mine/a" and (r["number"], r["structure"]) == ("34", "Liver")
    )  # fmt: skip
    i, j = np.nonzero(labels[:, :, 34] == 1)
    # 72 columns of 3 mm fill the width, 64 rows are padded; patient right is on image left.
    scale, top = 336 / 72, (336 - 64 * 336 / 72) / 2
    expected = [
        (71 - i.max()) * scale, (63 - j.max()) * scale + top,
        (72 - i.min()) * scale, (64 - j.min()) * scale + top,
    ]  # fmt: skip
    found = [int(row["x0"]), int(row["y0"]), int(row["x1"]) + 1, int(row["y1"]) + 1]
    assert np.abs(np.subtract(found, expected)).max() <= 1
    assert int(row["pixels"]) == len(i)


def test_which_slices(tmp_path, data):
    held = recipe(tmp_path)

    def numbers(name: str, **choices) -> list[int]:
        sliced(held, data, tmp_path / name, Choices(views=("axial",), **choices))
        return [int(r["number"]) for r in rows(tmp_path / name, "images") if r["case"] == "mine/a"]

    _, labels = toys.volume(1)
    labelled = np.flatnonzero(labels.any(axis=(0, 1))).tolist()
    assert numbers("o") == labelled
    assert numbers("every", every=5) == labelled[::5]
    assert numbers("all", everything=True) == list(range(56))


def test_the_number_of_workers_changes_nothing(tmp_path, data):
    held = recipe(tmp_path)
    choices = Choices(every=6)
    for workers in ("serial", "threads:2", "processes:2"):
        sliced(held, data, tmp_path / workers.replace(":", ""), choices, workers)
    first = contents(tmp_path / "serial")
    assert contents(tmp_path / "threads2") == contents(tmp_path / "processes2") == first


def test_a_bad_case_is_a_row_and_stops_only_when_strict(tmp_path, data):
    (data / "b_seg.nii.gz").write_bytes((data / "b_seg.nii.gz").read_bytes()[:-200])
    made = sliced(recipe(tmp_path), data, tmp_path / "o")
    assert [failure.item for failure in made.failures] == ["mine/b"]
    told = json.loads((tmp_path / "o" / "failures.jsonl").read_text())
    assert told["item"] == "mine/b"
    assert "b_seg.nii.gz" in told["message"]
    assert {row["case"] for row in rows(tmp_path / "o", "images")} == {"mine/a"}
    with pytest.raises(SourceError, match=r"mine/b: .*b_seg\.nii\.gz"):
        sliced(recipe(tmp_path), data, tmp_path / "s", strict=True)


def test_none_readable_is_an_error(tmp_path, data):
    for path in data.glob("*_seg.nii.gz"):
        path.write_bytes(b"")
    with pytest.raises(SourceError, match="none of 2 cases could be read; the first: mine/a"):
        sliced(recipe(tmp_path), data, tmp_path / "o")


def test_a_run_goes_on_and_makes_again_what_is_missing_or_changed(tmp_path, data):
    out, held = tmp_path / "o", recipe(tmp_path)
    sliced(held, data, out, Choices(every=7))
    first = contents(out)
    kept, lost = sorted((out / "images" / "a").iterdir())[:2]
    before = kept.stat().st_mtime_ns, lost.read_bytes()
    lost.unlink()
    sliced(held, data, out, Choices(every=7))
    assert contents(out) == first
    toys.write(data / "b.nii.gz", toys.volume(9)[0])
    sliced(held, data, out, Choices(every=7))
    assert contents(out).keys() == first.keys()
    assert contents(out) != first
    assert before[1] == lost.read_bytes()


def test_another_run_in_the_same_folder_is_refused(tmp_path, data):
    held = recipe(tmp_path)
    sliced(held, data, tmp_path / "o", Choices(every=9))
    with pytest.raises(RecipeError, match="holds another build"):
        sliced(held, data, tmp_path / "o", Choices(every=8))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("mine")
    with pytest.raises(RecipeError, match="no build of medsg-build"):
        sliced(held, data, tmp_path / "full")


def test_a_killed_run_leaves_whole_files_and_goes_on(tmp_path, data):
    recipe(tmp_path)
    words = [sys.executable, "-m", "medsg_build.cli", "slice", str(tmp_path / "mine.yaml"),
             str(tmp_path / "o"), "--source", str(data)]  # fmt: skip
    run = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not list((tmp_path / "o").rglob("*.png")) and time.monotonic() < deadline:
        time.sleep(0.02)
    run.send_signal(signal.SIGKILL)
    run.wait()
    for path in (tmp_path / "o" / "images").rglob("*.png"):
        with Image.open(path) as picture:
            picture.load()
    subprocess.run(words, check=True, capture_output=True)
    sliced(recipe(tmp_path), data, tmp_path / "whole")
    assert contents(tmp_path / "o") == contents(tmp_path / "whole")


def test_names_are_safe_and_apart_on_every_file_system(tmp_path, data):
    for name in ("A", "nul", "患者 1", "x" * 150):
        (data / f"{name}.nii.gz").write_bytes((data / "a.nii.gz").read_bytes())
        (data / f"{name}_seg.nii.gz").write_bytes((data / "a_seg.nii.gz").read_bytes())
    made = sliced(recipe(tmp_path), data, tmp_path / "o", Choices(views=("axial",), every=20))
    folders = [path.name for path in (tmp_path / "o" / "images").iterdir()]
    assert len(folders) == len({name.lower() for name in folders}) == made.cases == 6
    assert all(name.isascii() and len(name) < 60 and name.lower() != "nul" for name in folders)


# What a recipe can say of labels


def boxes_of(tmp_path: Path, data: Path, name: str, **changes) -> list[tuple[str, str, int, int]]:
    out = tmp_path / name
    sliced(recipe(tmp_path, **changes), data, out, Choices(views=("axial",), least_side=1))
    return [
        (r["structure"], r["number"], int(r["x0"]), int(r["x1"]))
        for r in rows(out, "boxes")
        if r["case"] == "mine/a"
    ]


def test_unions_and_exclusions(tmp_path, data):
    _, labels = toys.volume(1)
    labels[labels == 3] = 2  # spleen and left kidney under one number
    labels[44:50, :, :][labels[44:50] == 1] = 9  # a lesion in the liver
    toys.write(data / "a_seg.nii.gz", labels)
    said = {
        "All": "any",
        "Both": [1, 9],
        "Healthy": {"any": [1, 9], "never": [9]},
        "Not": {"never": [9]},
    }
    found = boxes_of(tmp_path, data, "o", labels=said)

    def across(name: str) -> tuple[int, int]:
        ends = [(a, b) for s, n, a, b in found if s == name and n == "34"]
        return min(a for a, _ in ends), max(b for _, b in ends)

    def columns(*values: int) -> tuple[int, int]:
        at = np.flatnonzero(np.isin(labels[:, :, 34], values).any(axis=1))
        return int((71 - at.max()) * 336 / 72), int(np.ceil((72 - at.min()) * 336 / 72)) - 1

    assert across("Both") == columns(1, 9)
    assert across("Healthy") == columns(1)
    assert across("All") == columns(1, 2, 9)
    assert across("Not") == columns(1, 2)
    names = {"Both": (1, 9), "Healthy": (1,), "All": (1, 2, 9), "Not": (1, 2)}
    for name, values in names.items():
        shown = {int(n) for s, n, *_ in found if s == name}
        assert shown == set(np.flatnonzero(np.isin(labels, values).any(axis=(0, 1))).tolist())


def two_kidneys(data: Path, bridge: bool) -> np.ndarray:
    labels = np.zeros(toys.SHAPE, np.uint8)
    labels[12:22, 20:30, 10:20] = labels[50:60, 20:30, 10:20] = 1  # low i is the patient's left
    if bridge:
        labels[22:50, 22:24, 14:16] = 1
    for name in ("a", "b"):
        toys.write(data / f"{name}_seg.nii.gz", labels)
    return labels


@pytest.mark.parametrize("how", ["whole", "cut"])
def test_a_label_is_split_at_the_midline(tmp_path, data, how):
    two_kidneys(data, bridge=False)
    found = boxes_of(tmp_path, data, "o", labels={"Kidney": 1}, sides={"Kidney": how})
    right = {(a, b) for name, _, a, b in found if name == "RightKidney"}
    left = {(a, b) for name, _, a, b in found if name == "LeftKidney"}
    # Patient right on image left: voxels 50 to 59 of 72 are columns 12 to 21.
    assert right == {(56, 102)}
    assert left == {(233, 279)}


def test_what_lies_astride_the_midline_is_left_out_or_cut(tmp_path, data):
    two_kidneys(data, bridge=True)
    with pytest.raises(SourceError, match="no labelled object is left"):
        boxes_of(tmp_path, data, "o", labels={"Kidney": 1}, sides={"Kidney": "whole"})
    found = boxes_of(tmp_path, data, "c", labels={"Kidney": 1}, sides={"Kidney": "cut"})
    right = {(a, b) for name, n, a, b in found if name == "RightKidney" and n == "14"}
    assert right == {(56, 167)}  # up to the midline at 168


def test_a_probability_map_needs_a_threshold(tmp_path, data):
    _, labels = toys.volume(1)
    chance = np.where(labels == 1, 0.7, 0.2).astype(np.float32)
    for name in ("a", "b"):
        toys.write(data / f"{name}_seg.nii.gz", chance)
    with pytest.raises(SourceError, match=r"not whole numbers .* `threshold:`"):
        boxes_of(tmp_path, data, "o", labels={"Liver": "any"})
    held = recipe(tmp_path, labels={"Liver": "any"}, threshold=0.5)
    made = sliced(held, data, tmp_path / "t", Choices(every=9))
    assert made.boxes
    assert "a_seg.nii.gz: inside from 0.5 up" in made.notes["mine/a"]


def test_one_of_several_volumes(tmp_path, data):
    for name in ("a", "b"):
        picture, _ = toys.volume(1)
        toys.write(data / f"{name}.nii.gz", np.stack([picture, picture[::-1]], axis=3))
    with pytest.raises(SourceError, match=r"holds 2 volumes .* layout\.parts"):
        sliced(recipe(tmp_path), data, tmp_path / "o")
    layout = {"image": "{case}.nii.gz", "mask": "{case}_seg.nii.gz"}
    made = {}
    for part in (0, 1):
        held = recipe(tmp_path, layout={**layout, "parts": {"image": part}})
        out = tmp_path / f"p{part}"
        sliced(held, data, out, Choices(views=("axial",), every=30))
        made[part] = np.array(Image.open(next((out / "images" / "a").iterdir())))
    np.testing.assert_array_equal(made[0][28:-28, ::-1].shape, made[1][28:-28].shape)
    assert (made[0] != made[1]).any()


def test_an_archive_is_a_source(tmp_path, data, monkeypatch):
    import shutil

    from medsg_build.fetch import folder_of

    monkeypatch.setenv("MEDSG_CACHE", str(tmp_path / "cache"))
    packed = Path(shutil.make_archive(str(tmp_path / "packed"), "zip", data))
    root = folder_of(recipe(tmp_path), {"mine": packed})
    assert sorted(p.name for p in root.iterdir()) == sorted(p.name for p in data.iterdir())
    assert folder_of(recipe(tmp_path), {"mine": packed}) == root


def test_a_mask_that_fits_the_picture_pattern_is_no_case(tmp_path, data):
    made = sliced(recipe(tmp_path), data, tmp_path / "o", Choices(every=30))
    assert made.cases == 2
    assert not made.failures


def test_slices_that_show_only_what_the_recipe_does_not_ask_for_are_left_out(tmp_path, data):
    asked = recipe(tmp_path, labels={"Spleen": 2})
    made = sliced(asked, data, tmp_path / "o", Choices(views=("axial",)))
    _, labels = toys.volume(1)
    held = np.flatnonzero((labels == 2).any(axis=(0, 1)))
    assert [int(r["number"]) for r in rows(made.out, "images") if r["case"] == "mine/a"] == [*held]
    assert {row["boxes"] for row in rows(made.out, "images")} == {"1"}


def test_a_structure_that_no_case_shows_is_told_once(tmp_path, data):
    asked = recipe(tmp_path, labels={"Spleen": 2, "Heart": 99})
    told = sliced(asked, data, tmp_path / "o").notes
    assert told == {"mine": ["shown in no case: Heart (are the recipe's labels right?)"]}
    # One case with it is enough.
    _, labels = toys.volume(2)
    labels[5:15, 5:15, 5:15] = 99
    toys.write(data / "b_seg.nii.gz", labels)
    assert sliced(asked, data, tmp_path / "p").notes == {}
