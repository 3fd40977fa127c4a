"""A published run of 1,482 real answers: our arithmetic and both readings against its figures."""

import json
import math
import re
from pathlib import Path

import pytest

from medsg_build.score import iou, official_boxes, read, score, table

RUN = Path(__file__).parents[1].parent / "shared" / "scorer" / "task8_qwen2_5_vl_7b.jsonl"
SUM = 187.7150475079984
AT_LEAST = {0.3: 231, 0.5: 92, 0.7: 32}

pytestmark = pytest.mark.skipif(not RUN.is_file(), reason=f"{RUN} is not on this machine")


@pytest.fixture(scope="module")
def rows():
    rows = [json.loads(line) for line in RUN.read_text("utf-8").splitlines()]
    for row in rows:
        listed = row["official_box"]
        many = listed if isinstance(listed[0], list) else [listed]
        row["official_boxes"] = [tuple(box) for box in many]
    assert len(rows) == 1482
    return rows


def test_arithmetic_equals_the_official_one_row_by_row(rows):
    ious = [iou(row["official_boxes"][0], row["gold"]) for row in rows]
    assert ious == pytest.approx([row["official_iou"] for row in rows], abs=1e-12, rel=0)
    assert sum(ious) == pytest.approx(SUM, abs=1e-9, rel=0)
    assert {at: sum(one >= at for one in ious) for at in AT_LEAST} == AT_LEAST


def test_official_reading_equals_the_published_boxes_row_by_row(rows):
    differ = [
        row["row"] for row in rows if list(official_boxes(row["response"])) != row["official_boxes"]
    ]
    assert differ == []
    assert sum(len(row["official_boxes"]) > 1 for row in rows) == 89


def test_official_sum_is_reproduced_from_the_answers_alone(rows):
    total = math.fsum(iou(official_boxes(row["response"])[0], row["gold"]) for row in rows)
    assert total == pytest.approx(SUM, abs=1e-9, rel=0)


def test_our_reading_differs_only_by_boxes_made_of_cut_numbers(rows):
    ours = {row["row"]: read(row["response"]) for row in rows}
    differ = [row for row in rows if list(ours[row["row"]].boxes) != row["official_boxes"]]
    assert len(differ) == 42
    for row in differ:
        *whole, invented = row["official_boxes"]
        numbers = {float(word) for word in re.findall(r"(?<!\d)\d+(?!\d)", row["response"])}
        assert list(ours[row["row"]].boxes) == whole, row["row"]
        assert any(number not in numbers for number in invented), row["row"]


def test_our_first_boxes_give_the_published_sum(rows):
    total = math.fsum(iou(read(row["response"]).first, row["gold"]) for row in rows)
    assert total == pytest.approx(SUM, abs=1e-9, rel=0)


def test_span_is_where_the_box_stands(rows):
    for row in rows:
        reading = read(row["response"])
        start, end = reading.span
        written = row["response"][start:end]
        assert tuple(float(n) for n in re.findall(r"\d+", written)) == reading.first, row["row"]


def test_the_whole_road_from_files(rows, tmp_path):
    records = [{"task": row["task"], "images": [], "answer": row["gold"]} for row in rows]
    lines = [
        json.dumps({"id": f"Task8:{row['row']}", "text": row["response"]}) for row in reversed(rows)
    ]
    (tmp_path / "Task8.json").write_text(json.dumps(records))
    (tmp_path / "answers.jsonl").write_text("\n".join(lines))

    report = score(tmp_path, tmp_path / "answers.jsonl")

    assert report.micro["mean_iou"] == pytest.approx(SUM / 1482, abs=1e-12, rel=0)
    assert {at: report.micro[f"acc_{at}"] for at in AT_LEAST} == {
        at: count / 1482 for at, count in AT_LEAST.items()
    }
    assert (report.micro["n"], report.micro["parsed"]) == (1482, 1482)
    assert report.tasks == {"rg": report.micro}
    assert re.search(r"^RG +1482 +1482 +12\.67 +15\.59 +6\.21 +2\.16$", table(report), re.M)
