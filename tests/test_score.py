"""The scorer: arithmetic, spellings, hostile text, broken files, and the collected cases."""

import json
import math
import os
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medsg_build.errors import ReleaseError
from medsg_build.model import TASKS
from medsg_build.score import (
    Outcome,
    Reading,
    as_json,
    by_task,
    gold,
    iou,
    macro,
    official_boxes,
    predicted,
    read,
    score,
    summary,
    table,
)

SHARED = Path(__file__).parents[1].parent / "shared" / "cases"
CASES = Path(os.environ.get("MEDSG_CASES", SHARED)) / "scorer"
BOX = (48.0, 60.0, 144.0, 180.0)


def record(answer, task="referring", **more):
    return {"task": task, "images": ["a.png"], "question": "where?", "answer": answer, **more}


def write_release(folder, **tasks):
    """`Task8=[records]` and so on, as files in `folder`."""
    for name, records in tasks.items():
        (folder / f"{name}.json").write_text(json.dumps(records))
    return folder


def write_lines(path, *lines):
    path.write_text("\n".join(one if isinstance(one, str) else json.dumps(one) for one in lines))
    return path


# --- arithmetic ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        pytest.param((0, 0, 10, 10), (0, 0, 10, 10), 1.0, id="same"),
        pytest.param((0, 0, 10, 10), (0, 0, 10, 5), 0.5, id="half, without + 1"),
        pytest.param((0, 0, 2, 2), (1, 1, 3, 3), 1 / 7, id="a corner"),
        pytest.param((0, 0, 10, 10), (10, 0, 20, 10), 0.0, id="touching"),
        pytest.param((0, 0, 10, 10), (20, 30, 40, 50), 0.0, id="apart on both axes"),
        pytest.param((10, 10, 0, 0), (0, 0, 10, 10), 0.0, id="inverted, not reordered"),
        pytest.param((20, 20, 10, 10), (0, 0, 30, 30), 0.0, id="inverted inside"),
        pytest.param((5, 5, 5, 9), (5, 5, 5, 9), 0.0, id="no area twice"),
        pytest.param((-5, 0, 10, 10), (0, 0, 10, 10), 2 / 3, id="leaves the picture, not clipped"),
        pytest.param((math.nan, 0, 10, 10), (0, 0, 10, 10), 0.0, id="NaN first"),
        pytest.param((0, 0, 10, 10), (0, 0, 10, math.nan), 0.0, id="NaN last"),
        pytest.param((0, 0, 1e200, 1e200), (0, 0, 1e200, 1e200), 0.0, id="overflow"),
    ],
)
def test_iou(one, other, expected):
    assert iou(one, other) == pytest.approx(expected, abs=1e-15)


numbers = st.integers(-500, 1500)
any_box = st.tuples(numbers, numbers, numbers, numbers)
proper_box = st.builds(
    lambda x, y, w, h: (x, y, x + w, y + h),
    numbers,
    numbers,
    st.integers(1, 400),
    st.integers(1, 400),
)


@given(any_box, any_box)
def test_iou_is_bounded_and_symmetric(one, other):
    assert 0.0 <= iou(one, other) <= 1.0
    assert iou(one, other) == iou(other, one)


@given(st.tuples(*[st.floats()] * 4), st.tuples(*[st.floats()] * 4))
def test_iou_of_any_floats_is_a_fraction(one, other):
    assert 0.0 <= iou(one, other) <= 1.0


@given(proper_box, proper_box, numbers, numbers)
def test_iou_is_one_for_itself_only_and_moves_with_the_picture(one, other, right, down):
    def moved(box):
        return (box[0] + right, box[1] + down, box[2] + right, box[3] + down)

    assert iou(one, one) == 1.0
    assert (iou(one, other) == 1.0) == (one == other)
    assert iou(moved(one), moved(other)) == iou(one, other)


def test_summary_by_hand():
    rows = [Outcome("rg", 0.5, True), Outcome("rg", 0.3, True), Outcome("rg", 0.0, False)]
    assert summary(rows) == {
        "mean_iou": pytest.approx(0.8 / 3),
        "acc_0.3": 2 / 3,
        "acc_0.5": 1 / 3,
        "acc_0.7": 0.0,
        "n": 3,
        "parsed": 2,
    }


def test_macro_weighs_tasks_alike_and_micro_samples():
    rows = [Outcome("rdg", 1.0, True), *[Outcome("rg", 0.0, True)] * 3]
    assert summary(rows)["mean_iou"] == 0.25
    assert macro(by_task(rows)) == {
        "mean_iou": 0.5, "acc_0.3": 0.5, "acc_0.5": 0.5, "acc_0.7": 0.5, "n": 4, "parsed": 4,
    }  # fmt: skip


def test_summary_of_nothing_is_refused():
    with pytest.raises(ValueError, match="no rows"):
        summary([])


outcomes = st.lists(
    st.builds(Outcome, st.sampled_from(["rdg", "mv", "rg"]), st.floats(0, 1), st.booleans()),
    min_size=1,
)


@given(outcomes, st.randoms())
def test_order_of_rows_changes_no_digit(rows, random):
    mixed = random.sample(rows, len(rows))
    assert summary(mixed) == summary(rows)
    assert by_task(mixed) == by_task(rows)
    assert macro(by_task(mixed)) == macro(by_task(rows))


# --- spellings ----------------------------------------------------------------------------------

WAYS = {
    "list": "[{}, {}, {}, {}]",
    "list without blanks": "[{},{},{},{}]",
    "list with blanks only": "[{} {} {} {}]",
    "list in a list": "[[{}, {}, {}, {}]]",
    "round": "({}, {}, {}, {})",
    "pairs": "({},{}),({},{})",
    "pairs in words": "It spans ({}, {}) to ({}, {}), I think.",
    "pairs in lists": "[[{}, {}], [{}, {}]]",
    "box tokens": "<|box_start|>({},{}),({},{})<|box_end|>",
    "box tokens, closed by the opening one": "<|box_start|>({},{}),({},{})<|box_start|>",
    "box tags with a list": "<box>[[{}, {}, {}, {}]]</box>",
    "box tags with blanks": "<ref>liver</ref><box>{} {} {} {}</box>",
    "a sentence and tokens": "It's in the third image. <|box_start|>({},{}),({},{})<|box_end|>",
    "json": '{{"bbox_2d": [{}, {}, {}, {}], "label": "T2"}}',
    "json, fenced": '```json\n[\n\t{{"bbox_2d": [{}, {}, {}, {}], "label": "T2"}}\n]\n```',
    "json with sides": '{{"x1": {}, "y1": {}, "x2": {}, "y2": {}}}',
    "json with limits": '{{"xmin": {}, "ymin": {}, "x_max": {}, "y_max": {}}}',
    "sides": "x1={}, y1={}, x2={}, y2={}",
    "prose with other numbers": "In image 2 of 5 (slice 17) it is at [{}, {}, {}, {}].",
    "key before another list": '{{"size": [336, 336, 3, 1], "bbox": [{}, {}, {}, {}]}}',
    "bare": "{}, {}, {}, {}",
    "after thinking": "<think>[1, 2, 3, 4]?</think> [{}, {}, {}, {}]",
    "after thinking that began in the prompt": "[1, 2, 3, 4]? </think> [{}, {}, {}, {}]",
    "last wrapper": "<answer>[1, 2, 3, 4]</answer> no: <answer>[{}, {}, {}, {}]</answer>",
    "wrapper before an afterthought": "<answer>[{}, {}, {}, {}]</answer> (not [1, 2, 3, 4])",
    "cut wrapper": "[1, 2, 3, 4], or <|begin_of_box|>[[{}, {}, {}, {}]]",
    "full-width signs": "\u3010 {}\uff0c {}\uff0c {}\uff0c {} \u3011",
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "box", [(48, 60, 144, 180), (-3, 0.5, 12.25, 400.0)], ids=["ints", "floats"]
)
def test_every_way_to_write_a_box(way, box):
    reading = read(WAYS[way].format(*box))
    assert reading.first == box
    start, end = reading.span
    written = re.findall(r"(?<!\w)-?\d+(?:\.\d+)?", WAYS[way].format(*box)[start:end])
    assert tuple(map(float, written)) == box


def test_sides_may_stand_in_any_order():
    assert read("xmin: 1; xmax: 3; ymin: 2; ymax: 4").first == (1, 2, 3, 4)


def test_first_of_several_boxes_counts_and_all_are_kept():
    reading = read('[{"bbox_2d": [1, 2, 3, 4]}, {"bbox_2d": [5, 6, 7, 8]}]')
    assert reading.boxes == ((1, 2, 3, 4), (5, 6, 7, 8))
    assert reading.first == (1, 2, 3, 4)


NO_BOX = {
    "nothing": "",
    "words": "There is no such structure in this image.",
    "three numbers": "[10, 20, 110]",
    "five numbers": "[10, 20, 110, 220, 0.9]",
    "a thousands separator": "1,010",
    "thousands in a list": "[1,010, 20, 110, 220]",
    "NaN": "[nan, 20, 110, 220]",
    "infinity": "[10, 20, inf, 220]",
    "too large": "[10, 20, 1e309, 220]",
    "ten digits": "[10, 20, 1234567890, 220]",
    "per cent": "[10%, 20%, 30%, 40%]",
    "full-width digits": "[\uff11\uff10, 20, 110, 220]",
    "full-width digit within": "x1=1\uff10, y1=2, x2=3, y2=4",
    "a date": "2024-01-02, 3 and 4",
    "four numbers in a sentence": "I count 2, 3, 4, 5 of them",
    "brackets that do not close": "[10, 20, 110, 220",
    "cut list": '[{"bbox_2d": [161, 346, 187,',
    "cut token": "<|box_start|>(10,20),(110,22",
    "cut tag": "<box>10 20 110 22",
    "cut sides": '{"x1": 10, "y1": 20, "x2": 110, "y2": 22',
    "sides apart": "x1=1, y1=2 in image 1 and x2=3, y2=4",
    "a side twice": "x1=1, x1=2, x2=3, y2=4",
    "only a thought": "<think>[1, 2, 3, 4]",
    "a thought in the middle": "[1, 2, <think>so</think> 3, 4]",
    "an empty last wrapper": "[1, 2, 3, 4] <answer>none</answer>",
}


@pytest.mark.parametrize("text", NO_BOX.values(), ids=NO_BOX)
def test_no_box_is_none_and_never_zeros(text):
    assert read(text) == Reading(boxes=(), span=None, spelling="")
    assert read(text).first is None


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        pytest.param([1, 2, 3, 4.5], (1, 2, 3, 4.5), id="list"),
        pytest.param([[1, 2, 3, 4]], (1, 2, 3, 4), id="list in a list"),
        pytest.param({"bbox": [1, 2, 3, 4]}, (1, 2, 3, 4), id="object"),
        pytest.param([1e-5, 0, 3, 4], (1e-5, 0, 3, 4), id="exponent"),
        pytest.param(None, None, id="null"),
        pytest.param(7, None, id="number"),
        pytest.param([], None, id="empty list"),
        pytest.param([1, 2, 3], None, id="three"),
        pytest.param([True, 2, 3, 4], None, id="a truth value"),
        pytest.param([math.nan, 2, 3, 4], None, id="NaN in a list"),
        pytest.param([math.inf, 2, 3, 4], None, id="infinity in a list"),
        pytest.param({(1, 2): {3, 4}}, None, id="no JSON at all"),
    ],
)
def test_answers_that_are_no_text(answer, expected):
    assert read(answer).first == expected


@given(any_box, st.sampled_from(sorted(WAYS.keys() - {"bare", "sides"})), st.data())
def test_a_cut_answer_gives_the_whole_box_or_none(box, way, data):
    text = WAYS[way].format(*box)
    cut = text[: data.draw(st.integers(0, len(text)))]
    assert read(cut).first in (None, box, (1, 2, 3, 4), (336, 336, 3, 1))


@given(st.text('0123456789.,()[]{}<>|x1y2 \n-e"=:bobx_/think', max_size=80))
def test_any_text_gives_finite_boxes_with_a_place(text):
    reading = read(text)
    assert bool(reading.boxes) == (reading.span is not None)
    assert all(math.isfinite(number) for box in reading.boxes for number in box)
    assert all(math.isfinite(number) for box in official_boxes(text) for number in box)


HOSTILE = {
    "[": "[", "([": "([", "(1,2)": "(1,2)", "[1,": "[1,", "[1 blanks": "[1" + " " * 500,
    "1": "1", "1,": "1,", "1.": "1.", "9 ": "9 ", "<box>": "<box>", "<box>((": "<box>((",
    "<think>": "<think>", "</think>": "</think>", "both thinks": "<think></think>",
    "<answer>": "<answer>", "x1=1,": "x1=1,", "x1 blanks": "x1" + " " * 500, "bbox:[": "bbox:[",
    "bbox: blanks": "bbox:" + " " * 500, '{"a":[': '{"a":[', "20 digits": "9" * 20 + ",",
    "full-width": "\uff3b",
}  # fmt: skip


def seconds(function, text):
    times = []
    for _ in range(3):
        start = time.perf_counter()
        function(text)
        times.append(time.perf_counter() - start)
    return min(times)


@pytest.mark.parametrize("function", [read, official_boxes], ids=["ours", "official"])
@pytest.mark.parametrize("bait", HOSTILE.values(), ids=HOSTILE)
def test_ten_times_the_text_takes_about_ten_times_as_long(bait, function):
    small, large = (bait * (size // len(bait)) for size in (20_000, 200_000))
    assert seconds(function, large) < 40 * max(seconds(function, small), 1e-3)


def test_ten_megabytes_of_brackets_and_then_a_box():
    assert read("[" * 10_000_000).first is None
    assert read("[" * 10_000_000 + "48, 60, 144, 180]").first == BOX


# --- the released folder ------------------------------------------------------------------------


def test_gold_of_a_folder_keeps_numbers_as_they_stand(tmp_path):
    changed = record([1, 2, 3, 4], "Registered_Diff", id="a", answer_image=1)
    views = [record([0, 0, 335, 99.5], "multi_view", size=[512, 256])]
    views += [record([1, 1, 9, 9], "multi_view")]
    write_release(tmp_path, Task1=[changed], Task3=views)
    first, second, third = gold(tmp_path)
    assert (first.id, first.task, first.answer, first.answer_image) == ("a", "rdg", (1, 2, 3, 4), 1)
    assert (first.size, first.question) == ((336, 336), "where?")
    assert (second.id, second.task, second.size) == ("Task3:0", "mv", (512, 256))
    assert second.answer == (0, 0, 335, 99.5)
    assert (third.id, third.answer_image) == ("Task3:1", None)


@pytest.mark.parametrize(("task", "numbered"), TASKS.items(), ids=TASKS)
def test_every_published_task_value_is_known(tmp_path, task, numbered):
    number, value = numbered
    (tmp_path / "mine.json").write_text(json.dumps([record([1, 2, 3, 4], value)]))
    (sample,) = gold(tmp_path / "mine.json")
    assert (sample.task, sample.id) == (task, f"Task{number}:0")


BROKEN_RELEASES = {
    "not json": ("{", r"Task8\.json: is not JSON .*; expected a list"),
    "deep": ("[" * 200_000, r"Task8\.json: is not JSON"),
    "not utf-8": ("\udcff", r"Task8\.json: is not JSON .*utf-8"),
    "an object": ({"a": 1}, r'Task8\.json: holds \{"a": 1\}; expected a list'),
    "empty": ([], r"holds no records; nothing can be scored"),
    "record is a list": ([[1]], r"Task8\.json: record 0: is \[1\]; expected an object"),
    "no task": ([{"answer": [1, 2, 3, 4]}], r"record 0: task is null; expected one of Registered_"),
    "task": ([record([1, 2, 3, 4], "refering")], r'record 0: task is "refering"; expected one of'),
    "no answer": ([{"task": "referring"}], r"record 0: has no answer; a release"),
    "three": ([record([1, 2, 3])], r"is \[1, 2, 3\]; expected four numbers \[x1, y1, x2, y2\] in"),
    "text": ([record([1, 2, 3, 4]), record(["1", 2, 3, 4])], r"record 1: answer is .*four numbers"),
    "truth": ([record([True, 2, 3, 4])], r"answer is \[true, 2, 3, 4\]; expected four"),
    "nan": ([record([math.nan, 2, 3, 4])], r"answer is \[NaN, 2, 3, 4\]; expected four"),
    "size": ([record([1, 2, 3, 4], size=[336])], r"size is \[336\]; expected two numbers \[width"),
    "id": ([record([1, 2, 3, 4], id=[7])], r"record 0: id is \[7\]; expected a text, or no id"),
    "twice": (
        [record([1, 2, 3, 4], id=name) for name in ("a", "b", "a", 7, "7")],
        r"twice there: 'a' \(Task8\.json record 0, Task8\.json record 2\), '7' \(.*3, .*4\); give",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("content", "message"), BROKEN_RELEASES.values(), ids=BROKEN_RELEASES)
def test_a_broken_release_says_where_and_what_to_do(tmp_path, content, message):
    text = content if isinstance(content, str) else json.dumps(content)
    (tmp_path / "Task8.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ReleaseError, match=message):
        gold(tmp_path)


def test_many_duplicate_ids_are_counted_not_all_named(tmp_path):
    write_release(tmp_path, Task8=[record([1, 2, 3, 4], id=n // 2) for n in range(20)])
    with pytest.raises(ReleaseError, match=r"'4' \([^)]*\), and 5 more; give each"):
        gold(tmp_path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", r"holds no Task1\.json \.\. Task8\.json; give"),
        ("no.json", r"no\.json: cannot be read"),
    ],
    ids=["empty folder", "no file"],
)
def test_no_release_at_all(tmp_path, name, message):
    with pytest.raises(ReleaseError, match=message):
        gold(tmp_path / name)


# --- predictions --------------------------------------------------------------------------------


def test_predictions_ids_are_text_and_blank_lines_nothing(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_bytes(
        b'\xef\xbb\xbf{"id": 7, "text": "a"}\r\n\n  \n{"id": "b", "answer": null, "model": "m"}\n'
        b'{"id": "c", "text": "one\xe2\x80\xa8line"}'
    )
    assert predicted(path).answers == {"7": "a", "b": None, "c": "one\u2028line"}


def test_the_same_answer_twice_counts_once_and_is_named(tmp_path):
    path = write_lines(tmp_path / "p.jsonl", *[{"id": "a", "text": "x"}] * 3)
    assert (predicted(path).answers, predicted(path).repeated) == ({"a": "x"}, ("a",))


BROKEN_LINES = {
    "broken": ("{not json", r"p\.jsonl:2: is not JSON .*; expected \{.id.: \.\., .text.: \.\.\}"),
    "half": ('{"id": "b", "te', r"p\.jsonl:2: is not JSON"),
    "deep": ("[" * 200_000, r"p\.jsonl:2: is not JSON"),
    "not utf-8": ('{"id": "b", "text": "\udcff"}', r"p\.jsonl:2: is not UTF-8; save"),
    "a list": ("[1]", r"p\.jsonl:2: is not an object; expected .* without a list around them"),
    "no id": ('{"text": "x"}', r"p\.jsonl:2: has no id that is a text or a whole number"),
    "id null": ('{"id": null, "text": "x"}', r"p\.jsonl:2: has no id"),
    "id true": ('{"id": true, "text": "x"}', r"p\.jsonl:2: has no id"),
    "no text": ('{"id": "b", "txt": "x"}', r"p\.jsonl:2: has no text for id 'b'"),
    "two texts": ('{"id": "b", "text": 1, "answer": 2}', r":2: has text and answer for id 'b'"),
    "duplicate": ('{"id": "a", "text": "y"}', r":2: duplicate id 'a', .* on line 1; keep"),
}  # fmt: skip


@pytest.mark.parametrize(("line", "message"), BROKEN_LINES.values(), ids=BROKEN_LINES)
def test_a_broken_line_is_named_by_its_number(tmp_path, line, message):
    path = tmp_path / "p.jsonl"
    path.write_bytes(('{"id": "a", "text": "x"}\n' + line).encode("utf-8", "surrogateescape"))
    with pytest.raises(ReleaseError, match=message):
        predicted(path)


def test_all_faults_at_once_but_not_without_end(tmp_path):
    path = write_lines(tmp_path / "p.jsonl", *["{"] * 8)
    with pytest.raises(ReleaseError) as caught:
        predicted(path)
    *named, last = str(caught.value).splitlines()
    assert [line.split(": ")[0] for line in named] == [f"{path}:{n}" for n in range(1, 6)]
    assert last == "and 3 more"


@pytest.mark.parametrize(
    ("content", "message"),
    [("\n\n", r"p\.jsonl: holds no predictions; expected"), (None, r"p\.jsonl: cannot be read")],
    ids=["empty", "no file"],
)
def test_no_predictions_at_all(tmp_path, content, message):
    if content is not None:
        (tmp_path / "p.jsonl").write_text(content)
    with pytest.raises(ReleaseError, match=message):
        predicted(tmp_path / "p.jsonl")


# --- the report ---------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path):
    """Two tasks, five samples: hit, half, no box, missing, gold without area; one unknown id."""
    write_release(
        tmp_path,
        Task8=[record([0, 0, 10, 10], id=name) for name in ("half", "mute", "gone")],
        Task1=[record([0, 0, 10, 10], "Registered_Diff", id="hit"),
               record([5, 5, 5, 9], "Registered_Diff", id="flat")],
    )  # fmt: skip
    lines = [
        {"id": "half", "text": "[0, 0, 10, 5]"},
        {"id": "mute", "text": "I see none."},
        {"id": "hit", "text": "(0,0),(10,10)"},
        {"id": "hit", "text": "(0,0),(10,10)"},
        {"id": "flat", "text": "[5, 5, 5, 9]"},
        {"id": "who", "text": "[1, 2, 3, 4]"},
    ]
    return score(tmp_path, write_lines(tmp_path / "p.jsonl", *lines))


def test_report_as_json_is_the_contract(small):
    def figures(mean_iou, at_3, at_5, at_7, n, parsed):
        means = {"mean_iou": mean_iou, "acc_0.3": at_3, "acc_0.5": at_5, "acc_0.7": at_7}
        return {key: pytest.approx(mean) for key, mean in means.items()} | {
            "n": n,
            "parsed": parsed,
        }

    told = json.loads(json.dumps(as_json(small)))
    assert told == {
        "micro": figures(0.3, 0.4, 0.4, 0.2, 5, 3),
        "macro": figures(1 / 3, 5 / 12, 5 / 12, 1 / 4, 5, 3),
        "tasks": {
            "rdg": figures(1 / 2, 1 / 2, 1 / 2, 1 / 2, 2, 2),
            "rg": figures(1 / 6, 1 / 3, 1 / 3, 0, 3, 1),
        },
        "missing": ["gone"],
        "unparsed": ["mute"],
        "unknown": ["who"],
        "repeated": ["hit"],
        "degenerate": ["flat"],
    }
    assert list(told["tasks"]) == ["rdg", "rg"]


def test_report_keeps_what_was_read(small):
    rows = {row.id: row for row in small.rows}
    assert (rows["half"].predicted, rows["half"].span, rows["half"].iou) == (
        (0, 0, 10, 5),
        (0, 13),
        0.5,
    )
    assert (rows["mute"].predicted, rows["mute"].span, rows["mute"].answered) == (None, None, True)
    assert (rows["gone"].predicted, rows["gone"].iou, rows["gone"].answered) == (None, 0.0, False)


def test_table_prints_percent_and_every_problem(small):
    assert table(small).splitlines() == [
        "task        n  parsed     IoU    @0.3 Acc@0.5    @0.7",
        "RDG         2       2   50.00   50.00   50.00   50.00",
        "RG          3       1   16.67   33.33   33.33    0.00",
        "Avg         5       3   30.00   40.00   40.00   20.00",
        "Macro       5       3   33.33   41.67   41.67   25.00",
        "Percent. Avg is over samples, Macro over tasks. Read as pixels (xyxy, px).",
        "1 without an answer, counted as IoU 0: 'gone'",
        "1 answered without a box, counted as IoU 0: 'mute'",
        "1 answered but not in the release, left out: 'who'",
        "1 answered more than once alike, counted once: 'hit'",
        "1 with a gold box without area, IoU 0 whatever is said: 'flat'",
    ]


def test_answers_to_another_release_are_refused(tmp_path):
    write_release(tmp_path, Task8=[record([1, 2, 3, 4])])
    path = write_lines(tmp_path / "p.jsonl", {"id": "x", "text": "[1, 2, 3, 4]"})
    with pytest.raises(
        ReleaseError, match=r"none of its ids is in .*\(it has 'x', the release 'Task8:0'\)"
    ):
        score(tmp_path, path)


@pytest.mark.parametrize("way", WAYS)
def test_gold_against_itself_is_exactly_one(tmp_path, way):
    boxes = [[0, 0, 335, 335], [91, 52, 229, 258], [7, 300, 16, 309]]
    write_release(
        tmp_path,
        **{f"Task{n}": [record(box, value) for box in boxes] for n, value in TASKS.values()},
    )
    lines = [
        {"id": one.id, "text": WAYS[way].format(*map(int, one.answer))} for one in gold(tmp_path)
    ]
    report = score(tmp_path, write_lines(tmp_path / "p.jsonl", *lines))
    perfect = {"mean_iou": 1.0, "acc_0.3": 1.0, "acc_0.5": 1.0, "acc_0.7": 1.0}
    assert report.micro == perfect | {"n": 24, "parsed": 24}
    assert report.macro == report.micro
    assert report.tasks == {task: perfect | {"n": 3, "parsed": 3} for task in TASKS}


# --- the collected cases ------------------------------------------------------------------------

needs_cases = pytest.mark.skipif(not CASES.is_dir(), reason=f"{CASES} is not on this machine")


def case(name, tmp_path):
    """The case's release, predictions and expected checks."""
    told = json.loads((CASES / "expected.json").read_text("utf-8"))
    (expected,) = (one for one in told["cases"] if one["id"] == name)
    golds = [json.loads(line) for line in (CASES / f"{name}_gold.jsonl").read_text().splitlines()]
    write_release(tmp_path, Task8=[record(one["box"], id=one["id"]) for one in golds])
    return tmp_path, CASES / f"{name}_pred.jsonl", expected


@needs_cases
def test_sc1_twelve_ways_to_write_one_box(tmp_path):
    release, answers, expected = case("SC1", tmp_path)
    (check,) = expected["checks"]
    report = score(release, answers)
    assert {row.id: row.iou for row in report.rows} == pytest.approx(check["iou"], abs=1e-12)
    assert (report.micro["n"], report.micro["parsed"]) == (check["n"], 12)
    assert report.micro["mean_iou"] == pytest.approx(check["mean_iou"], abs=1e-6)
    assert report.micro["acc_0.5"] == check["acc_at_0_5"]


@needs_cases
def test_sc2_degenerate_boxes(tmp_path):
    release, answers, expected = case("SC2", tmp_path)
    (check,) = expected["checks"]
    report = score(release, answers)
    for row in report.rows:
        allowed = check["iou_any_of"][row.id]
        assert any(row.iou == pytest.approx(one) for one in allowed if one is not None), row.id
    assert report.micro["n"] == 13
    assert report.micro["mean_iou"] == pytest.approx((0.5 + 0.5 + 0.5) / 13)  # d01, d06, d07
    assert report.micro["acc_0.5"] == 3 / 13
    assert report.unparsed == ("d04", "d05", "d09", "d10", "d11", "d13")
    assert report.degenerate == ("d12",)


@needs_cases
def test_sc3_duplicate_and_broken_lines_are_both_named(tmp_path):
    release, answers, _ = case("SC3", tmp_path)
    with pytest.raises(ReleaseError) as caught:
        score(release, answers)
    first, second = str(caught.value).splitlines()
    assert first.startswith(f"{answers}:5: duplicate id 'd', answered otherwise on line 4")
    assert second.startswith(f"{answers}:9: is not JSON")


@needs_cases
@pytest.mark.parametrize(("dropped", "policy"), [(5, 0), (4, 1)], ids=["first d", "last d"])
def test_sc3_mended_by_hand_counts_all_six(tmp_path, dropped, policy):
    release, answers, expected = case("SC3", tmp_path)
    (check,) = expected["any_of"][policy]
    lines = answers.read_text().splitlines()
    kept = [line for number, line in enumerate(lines, 1) if number not in (dropped, 9)]
    report = score(release, write_lines(tmp_path / "mended.jsonl", *kept))
    assert {row.id: row.iou for row in report.rows} == pytest.approx(check["iou"])
    assert report.micro["n"] == check["n"]
    assert report.micro["mean_iou"] == pytest.approx(check["mean_iou"], abs=1e-6)
    assert report.micro["acc_0.5"] == pytest.approx(check["acc_at_0_5"], abs=1e-6)
    assert (report.missing, report.unknown, report.unparsed) == (("c",), ("zzz",), ("b",))
