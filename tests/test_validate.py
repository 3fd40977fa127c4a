"""Every check of `medsg-build check` is shown to fail, each on a release broken in one way."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from medsg_build.audit import CHECKS, validate
from medsg_build.build import build, planned
from medsg_build.errors import ReleaseError
from medsg_build.model import TASKS


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release of the embedded images, two samples a task; never changed."""
    out = tmp_path_factory.mktemp("validate") / "whole"
    build(planned(count=2, seed=3), out)
    return out


@pytest.fixture
def out(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "out", ignore=shutil.ignore_patterns("work"))
    return tmp_path / "out"


def file_of(out: Path, task: str) -> Path:
    return out / f"Task{TASKS[task][0]}.json"


def edit(out: Path, task: str, change: Callable[[dict], None], at: int = 0) -> str:
    """Change one record in place; its id before."""
    records = json.loads(file_of(out, task).read_text())
    name = records[at]["id"]
    change(records[at])
    file_of(out, task).write_text(json.dumps(records))
    return name


def edit_rows(out: Path, change: Callable[[list[dict]], None]) -> None:
    path = out / "provenance.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    change(rows)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def row_of(rows: list[dict], task: str) -> dict:
    return next(row for row in rows if row["task"] == task)


def paint(out: Path, task: str, draw: Callable[[np.ndarray, dict], object], image: int) -> str:
    """Change pixels of one picture of a task's first sample; the sample's id."""
    record = json.loads(file_of(out, task).read_text())[0]
    path = out / record["images"][image]
    pixels = np.array(Image.open(path))
    draw(pixels, record)
    Image.fromarray(pixels).save(path)
    return record["id"]


def put(key: str, value: object) -> Callable[[dict], None]:
    return lambda record: record.__setitem__(key, value)


def first_picture(out: Path, task: str = "rdg") -> Path:
    return out / json.loads(file_of(out, task).read_text())[0]["images"][0]


# Each break: what it does, what is found, and which other checks cannot but see it too.


def drop_key(out):
    edit(out, "ot", lambda r: r.pop("need_format"))


def wrong_task_value(out):
    edit(out, "ot", put("task", "patch"))


def too_many_pictures(out):
    edit(out, "vcg", lambda r: r["images"].extend(r["images"][:1]))


def answer_on_no_picture(out):
    edit(out, "rg", put("answer_image", 7))


def no_size(out):
    edit(out, "mv", put("size", [512, 512]))


def same_id_twice(out):
    name = edit(out, "rg", lambda _r: None)
    edit(out, "rg", put("id", name), 1)


def provenance_twice(out):
    edit_rows(out, lambda rows: rows.append(rows[0]))


def lost_record(out):
    path = file_of(out, "cmg")
    path.write_text(json.dumps(json.loads(path.read_text())[:1]))


def lost_row(out):
    edit_rows(out, lambda rows: rows.pop(0))


def box_outside(out):
    edit(out, "rg", put("answer", [300, 300, 336, 336]))


def box_of_fractions(out):
    edit(out, "rg", put("answer", [10.5, 20, 30, 40]))


def box_upside_down(out):
    edit(out, "rg", put("answer", [30, 40, 10, 20]))


def box_too_small(out):
    edit(out, "rg", put("answer", [30, 40, 33, 60]))


def no_question(out):
    edit(out, "rdg", put("question", " "))


def placeholder(out):
    edit(out, "vcg", lambda r: put("question", r["question"] + " {name}")(r))


def nothing_named(out):
    edit(out, "rg", put("question", "Where is it? Give the bounding box."))


def other_ordinal(out):
    swap = {"first": "second", "second": "first"}

    def change(record):
        words = re.sub(r"\b(first|second)\b", lambda m: swap[m[1]], record["question"])
        record["question"] = words

    edit(out, "rdg", change)


def ordinal_in_rg(out):
    edit(out, "rg", lambda r: put("question", r["question"] + " It is the second image.")(r))


def other_reference_words(out):
    edit(
        out,
        "ot",
        lambda r: put("question", re.sub(r"\(\d+,", "(1,", r["question"], count=1))(r),
    )


def telling_name(out):
    record = json.loads(file_of(out, "rdg").read_text())[0]
    old = record["images"][0]
    new = old.replace(".png", "_ori.png")
    (out / old).rename(out / new)
    edit(out, "rdg", lambda r: r["images"].__setitem__(0, new))
    edit_rows(out, lambda rows: row_of(rows, "rdg")["images"][0].__setitem__("file", new))


def climbing_name(out):
    new = "../outside.png"
    edit(out, "rdg", lambda r: r["images"].__setitem__(0, new))


def shared_picture(out):
    other = json.loads(file_of(out, "rg").read_text())[1]["images"][0]
    edit(out, "rg", lambda r: r["images"].__setitem__(0, other))


def stray_picture(out):
    (out / "images" / "Task1" / "left_over.png").write_bytes(first_picture(out).read_bytes())


def missing_picture(out):
    first_picture(out).unlink()


def small_picture(out):
    Image.new("RGB", (335, 336)).save(first_picture(out))


def grey_picture(out):
    path = first_picture(out)
    Image.open(path).convert("L").save(path)


def damaged_picture(out):
    path = first_picture(out)
    path.write_bytes(path.read_bytes()[:900])


def text_in_picture(out):
    path = first_picture(out)
    told = PngImagePlugin.PngInfo()
    told.add_text("answer", "10,20,30,40")
    Image.open(path).save(path, pnginfo=told)


def appendix(out):
    with first_picture(out).open("ab") as file:
        file.write(b"secret")


def other_pixels(out):
    paint(out, "vpg", lambda p, _r: p.__setitem__((5, 5), 250), 1)


def other_answer(out):
    edit(out, "rg", lambda r: put("answer", [v - 1 for v in r["answer"]])(r))


def no_licence(out):
    edit_rows(out, lambda rows: row_of(rows, "rg").__setitem__("licences", []))


def pixel_outside_rdg(out):
    paint(out, "rdg", lambda p, _r: p.__setitem__((1, 2), 255), 0)


def wider_rdg(out):
    def wider(record):
        x0, y0, x1, y1 = record["answer"]
        record["answer"] = [x0 - 1, y0, x1, y1]

    edit(out, "rdg", wider)


def same_pair(out):
    record = json.loads(file_of(out, "rdg").read_text())[0]
    shutil.copyfile(out / record["images"][0], out / record["images"][1])


def pixel_outside_nrdg(out):
    paint(out, "nrdg", lambda p, _r: p.__setitem__((160, 30), (9, 200, 9)), 0)


def equal_shifts(out):
    def change(rows):
        shifts = [s for s in row_of(rows, "nrdg")["steps"] if s["step"] == "shift"]
        shifts[0].update(dx=shifts[1]["dx"], dy=shifts[1]["dy"])

    edit_rows(out, change)


def rubbed_out(out):
    def rub(pixels, _record):
        red = (pixels == (255, 0, 0)).all(axis=2)
        pixels[red] = 0

    row = json.loads(
        next(x for x in (out / "provenance.jsonl").read_text().splitlines() if '"task": "mv"' in x)
    )
    paint(out, "mv", rub, row["reference"]["image"])


BREAKS: list[tuple[str, Callable[[Path], None], str, set[str]]] = [
    ("records", drop_key, "has no need_format", set()),
    ("records", wrong_task_value, "'patch', not 'object_tracking'", set()),
    ("records", too_many_pictures, "3 pictures; 2 to 2", {"names", "pixels"}),
    ("records", answer_on_no_picture, "answer_image is 7", {"provenance"}),
    ("records", no_size, r"size is \[512, 512\]", set()),
    ("ids", same_id_twice, "2 times", {"counts", "provenance", "pixels", "gold scores 1"}),
    ("ids", provenance_twice, "more than once", set()),
    ("counts", lost_record, "report/build.json says 2", {"strays"}),
    ("counts", lost_row, "no row in provenance", {"nrdg proof"}),
    ("boxes", box_outside, "leaves the picture", {"provenance"}),
    ("boxes", box_of_fractions, "not four integers", {"provenance"}),
    ("boxes", box_upside_down, "covers no pixel", {"provenance", "gold scores 1"}),
    ("boxes", box_too_small, "side under 5", {"provenance"}),
    ("questions", no_question, "no question", {"ordinals"}),
    ("questions", placeholder, "placeholder", set()),
    ("questions", nothing_named, "names nothing", set()),
    ("ordinals", other_ordinal, "pictures asked about", set()),
    ("ordinals", ordinal_in_rg, "second, but the pictures asked about are none", set()),
    ("reference words", other_reference_words, "is marked", set()),
    ("names", telling_name, "tells '_ori'", set()),
    ("names", climbing_name, "leads out", {"pictures", "pixels", "strays"}),
    ("names", shared_picture, "another sample", {"pixels", "strays"}),
    ("strays", stray_picture, "no record names", set()),
    ("pictures", missing_picture, "is missing", set()),
    ("pictures", small_picture, "335 x 336", set()),
    ("pictures", grey_picture, "mode L", set()),
    ("pictures", damaged_picture, "cannot be decoded", set()),
    ("pictures", text_in_picture, "tEXt chunk", set()),
    ("pictures", appendix, "after its end", set()),
    ("pixels", other_pixels, "other pixels", set()),
    ("provenance", other_answer, "not the box", set()),
    ("provenance", no_licence, "no licence", set()),
    ("rdg proof", pixel_outside_rdg, r"1 changed pixels outside .*\(2, 1\)", {"pixels"}),
    ("rdg proof", wider_rdg, "not the tight box", {"provenance"}),
    ("rdg proof", same_pair, "do not differ", {"pixels"}),
    ("nrdg proof", pixel_outside_nrdg, "changed pixels outside", {"pixels"}),
    ("nrdg proof", equal_shifts, "no two shifts that differ", set()),
    ("marked rectangle", rubbed_out, "no red line", {"pixels"}),
    ("gold scores 1", box_upside_down, "scores 0", {"boxes", "provenance"}),
]


def test_a_whole_release_has_no_finding(whole):
    report = validate(whole)
    assert report.findings == ()
    assert set(report.checked) == set(CHECKS)
    assert not report.skipped


@pytest.mark.parametrize(
    ("check", "break_it", "told", "others"), BREAKS, ids=[f"{b[0]}-{b[1].__name__}" for b in BREAKS]
)
def test_a_broken_promise_is_found(out, check, break_it, told, others):
    break_it(out)
    found = validate(out).findings
    assert {f.check for f in found} <= {check} | others
    mine = [f for f in found if f.check == check]
    assert any(re.search(told, f.message) for f in mine), [f.message for f in found]
    assert all(f.sample for f in mine)


def test_every_check_is_shown_to_fail():
    assert {b[0] for b in BREAKS} == set(CHECKS)


def test_the_published_form_without_ids_is_checked_as_far_as_it_goes(out):
    for task in TASKS:
        path = file_of(out, task)
        records = json.loads(path.read_text())
        for record in records:
            del record["id"], record["answer_image"]
        path.write_text(json.dumps(records))
    for name in ("provenance.jsonl", "recipe.yaml", "report/build.json"):
        (out / name).unlink()
    report = validate(out)
    assert report.findings == ()
    assert "no provenance.jsonl" in report.skipped["pixels"]
    assert "answer_image" in report.skipped["ordinals"]
    edit_rdg = json.loads(file_of(out, "rdg").read_text())
    edit_rdg[1]["answer"][0] -= 1
    file_of(out, "rdg").write_text(json.dumps(edit_rdg))
    assert [(f.check, f.sample) for f in validate(out).findings] == [("rdg proof", "Task1:1")]


@pytest.mark.parametrize(
    ("break_it", "told"),
    [
        (lambda out: [p.unlink() for p in out.glob("Task*.json")], "give the folder that generate"),
        (lambda out: (out / "Task1.json").write_text("{"), "Task1.json: cannot be read as JSON"),
        (lambda out: (out / "Task1.json").write_text("{}"), "a list of records"),
        (
            lambda out: (out / "provenance.jsonl").write_text("{}\n"),
            "provenance.jsonl:1: not a row",
        ),
    ],
    ids=["no tasks", "half a file", "no list", "no row"],
)
def test_what_is_no_release_is_said_so(out, break_it, told):
    break_it(out)
    with pytest.raises(ReleaseError, match=told):
        validate(out)


def test_an_unfinished_build_is_named_as_such(tmp_path):
    (tmp_path / "work").mkdir()
    with pytest.raises(ReleaseError, match="not finished"):
        validate(tmp_path)
