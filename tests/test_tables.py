"""Boxes and run-length masks from tables: usual headers, named columns, and rows that lie."""

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medsg_build.errors import SourceError
from medsg_build.formats import table_headers as headers
from medsg_build.formats.tables import DIALECTS, boxes, runs
from medsg_build.model import Marking

CASES = Path(__file__).parents[2] / "shared" / "cases" / "annotations"
BOXES = Marking("boxes")
SIZE = (8, 6)  # columns, rows


@pytest.fixture
def table(tmp_path):
    def save(text, name="t.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return save


def drawn(*rows):
    """A mask as it looks: '.' and 'x', one word a row."""
    return np.array([[letter == "x" for letter in row] for row in rows])


# The shared cases


def test_an1_relative_runs_down_the_columns():
    marking = Marking("runs", runs="columns-relative")
    first, second = runs(CASES / "AN1_rle.csv", "img_1.png", (56, 56), marking)
    expected = np.zeros((56, 56), bool)
    expected[8:34, 10:16] = expected[28:34, 16:30] = True
    np.testing.assert_array_equal(first.mask, expected)
    assert first.box == (10, 8, 30, 34)
    assert second.box == (40, 10, 50, 20)
    assert second.mask.sum() == 100
    assert runs(CASES / "AN1_rle.csv", "img_2.png", (56, 56), marking) == []


@pytest.mark.parametrize("dialect", sorted(DIALECTS.keys() - {"columns-relative"}))
def test_an1_in_another_dialect_is_refused(dialect):
    marking = Marking("runs", runs=dialect)
    with pytest.raises(SourceError, match=r"AN1_rle.csv: row 2: .*backwards.*dialect"):
        runs(CASES / "AN1_rle.csv", "img_1.png", (56, 56), marking)


def test_an2_boxes_drawn_on_a_larger_picture():
    sized = Marking("boxes", sizes=CASES / "AN2_meta.csv")
    (mark,) = boxes(CASES / "AN2_boxes.csv", "AN2_resized.png", (560, 420), sized)
    assert mark.name == "Nodule"
    assert mark.box == (140, 105, 280, 210)
    with pytest.raises(SourceError, match=r"AN2_boxes.csv: row 2: .*outside.*560x420"):
        boxes(CASES / "AN2_boxes.csv", "AN2_resized.png", (560, 420), BOXES)


def test_an3_corners():
    (mark,) = boxes(CASES / "AN3_xyxy.csv", "AN3.png", (56, 56), BOXES)
    assert mark == ("cyst", (14, 28, 35, 49), None, 0)


# Which column means what


@pytest.mark.parametrize(
    "text",
    [
        "image,label,x1,y1,x2,y2\na.png,cyst,1,2,5,6",
        "\ufeffImage ID;Class;XMin;YMin;XMax;YMax\na.png;cyst;1;2;5;6".replace("ID", "_ID"),
        "filename\tclass_name\tx\ty\tw\th\na.png\tcyst\t1\t2\t4\t4",
        '"file","name","cx","cy","width","height"\n"a.png","cyst","3","4","4","4"',
        "image_id, label, left, top, right, bottom\r\na , cyst , 1.0, 2, 5, 6\r\n\r\n",
        # Beside corners, width and height are those of the picture.
        "filename,width,height,class,xmin,ymin,xmax,ymax\na.png,8,6,cyst,1,2,5,6",
        "image,label,x0,y0,x1,y1,\na.png,cyst,1,2,5,6,",
    ],
)
def test_usual_headers(table, text):
    assert boxes(table(text), "a.png", SIZE, BOXES) == [("cyst", (1, 2, 5, 6), None, 0)]


def test_named_columns(table):
    path = table('Image Index,Finding Label,"Bbox [x",y,w,h],,\na.png,Mass,1,2,4,4,,\n')
    columns = {"picture": "image index", "name": "Finding Label", "x0": "Bbox [x", "y0": "y",
               "width": "w", "height": "h]"}  # fmt: skip
    assert boxes(path, "a.png", SIZE, Marking("boxes", columns)) == [
        ("Mass", (1, 2, 5, 6), None, 0)
    ]


def test_frames_of_a_sequence(table):
    path = table("file,frame,x1,y1,x2,y2\nv.mp4,7,1,2,5,6\nv.mp4,8.0,1,2,5,6\nw.mp4,b,1,2,5,6")
    assert [mark.frame for mark in boxes(path, "v.mp4", SIZE, BOXES)] == [7, 8]
    with pytest.raises(SourceError, match="row 4: frame is no finite number"):
        boxes(path, "w.mp4", SIZE, BOXES)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("photo,x1,y1,x2,y2", "0 columns for picture.*'photo', 'x1'"),
        ("image,file,x1,y1,x2,y2", "2 columns for picture"),
        ("image,label,class,x1,y1,x2,y2", "2 columns for name"),
        ("image,a,b,c,d", "0 sets of columns for boxes"),
        ("image,x1,y1,x2,y2,xmin,ymin,xmax,ymax", "2 sets of columns"),
        ("image,x,y,cx,cy,w,h", "2 sets of columns"),
        ("", "the headers of the file: none"),
        ("image,x1,y1,x2,y2\n,1,2,3,4", "row 2 names no picture"),
        ('image,x1,y1,x2,y2\na,1,2,3,"4\nb,1,2,3,4', "cannot be read as a table"),
        (b"image,x1,y1,x2,y2\n\xff\xfe,1,2,3,4", "cannot be read as a table in UTF-8"),
    ],
)
def test_tables_that_are_unclear(table, text, fault):
    path = table(text)
    for _ in range(2):  # the fault is kept with the parsed file
        with pytest.raises(SourceError, match=rf"t\.csv: .*{fault}"):
            boxes(path, "a.png", SIZE, BOXES)


def test_columns_that_are_not_all_named(table):
    path = table("image,a,b,c,d\nx,1,2,3,4")
    with pytest.raises(SourceError, match="columns names x0, y0; all of"):
        boxes(path, "x", SIZE, Marking("boxes", {"x0": "a", "y0": "b"}))
    columns = {"x0": "a", "y0": "b", "x1": "c", "y1": "e"}
    with pytest.raises(SourceError, match="0 columns for y1"):
        boxes(path, "x", SIZE, Marking("boxes", columns))


# Rows


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("1,2,9.5,6", "outside the picture of 8x6"),
        ("-3,2,5,6", "outside"),
        ("8,2,9,6", "outside"),
        ("5,2,1,6", "no area"),
        ("1,2,1,6", "no area"),
        ("nan,2,5,6", "x0 is no finite number"),
        ("1,inf,5,6", "y0 is no finite number"),
        ("1,2,1_0,6", "x1 is no finite number"),
        ("1,2,5,", "y1 is empty"),
        ("0.1,0.2,0.5,0.6", "fractions"),
        ("1,2,5", "more or fewer fields"),
        ("1,2,5,6,7", "more or fewer fields"),
    ],
)
def test_a_bad_row_spoils_only_its_picture(table, row, fault):
    path = table(f"image,x1,y1,x2,y2\nbad.png,{row}\ngood.png,1,2,5,6\n")
    assert len(boxes(path, "good.png", SIZE, BOXES)) == 1
    with pytest.raises(SourceError, match=rf"t\.csv: row 2: .*{fault}"):
        boxes(path, "bad.png", SIZE, BOXES)


def test_up_to_a_pixel_outside_is_clipped(table):
    path = table("image,x1,y1,x2,y2\na,-1,-0.5,9,7\n")
    assert boxes(path, "a.png", SIZE, BOXES)[0].box == (0, 0, 8, 6)


def test_nothing_marked(table):
    path = table("image,label,x1,y1,x2,y2\na,No finding,,,,\nb,none,0,0,1,1\n")
    marking = Marking("boxes", skip=("none",))
    assert boxes(path, "a.png", SIZE, marking) == boxes(path, "b.png", SIZE, marking) == []
    with pytest.raises(SourceError, match=r"no entry for c\.png"):
        boxes(path, "c.png", SIZE, marking)


# Which rows are a picture's


def test_the_whole_path_goes_before_the_name(table):
    path = table("image,x1,y1,x2,y2\ntrain/a.png,1,1,2,2\ntest/a.png,1,1,3,3\ntest\\b.png,1,1,4,4")
    assert boxes(path, "test/a.png", SIZE, BOXES)[0].box[2] == 3
    assert boxes(path, "data/train/a.png", SIZE, BOXES)[0].box[2] == 2
    assert boxes(path, "elsewhere/b.jpg", SIZE, BOXES)[0].box[2] == 4
    for picture in ("a.png", "other/a.png", "other/a.jpg"):
        with pytest.raises(SourceError, match="2 different entries fit"):
            boxes(path, picture, SIZE, BOXES)


def test_uids_have_no_suffix(table):
    path = table("image,x1,y1,x2,y2\n1.2.840,1,1,2,2\n1.2.841,1,1,3,3")
    assert boxes(path, "dicom/1.2.841.dcm", SIZE, BOXES)[0].box[2] == 3
    with pytest.raises(SourceError, match="no entry"):
        boxes(path, "1.2.png", SIZE, BOXES)


def test_a_changed_table_is_read_again(table):
    assert boxes(table("image,x1,y1,x2,y2\na,1,1,2,2"), "a", SIZE, BOXES)[0].box[2] == 2
    path = table("image,x1,y1,x2,y2\na,1,1,3,3")
    os.utime(path, ns=(1, 1))
    assert boxes(path, "a", SIZE, BOXES)[0].box[2] == 3


def test_the_table_is_parsed_once(table, monkeypatch):
    read, calls = headers._read, []
    monkeypatch.setattr(headers, "_read", lambda *args: calls.append(1) or read(*args))
    path = table("image,x1,y1,x2,y2\n" + "".join(f"{n}.png,1,1,2,2\n" for n in range(50)))
    for number in range(50):
        boxes(path, f"{number}.png", SIZE, BOXES)
    assert len(calls) == 1


# Sizes


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("image,width,height\na,16,16", "16x16 pixels, but the picture is 8x6"),
        ("image,width,height\na,0,12", "row 2: a picture of 0x12"),
        ("image,width,height\na,,12", "width is empty"),
        ("image,width,height\nb,16,12", "no entry for a"),
        ("image,width,height\na,16,12\na,8,6", "2 different sizes"),
        ("image,width,dim1\na,16,12", "2 columns for width"),
    ],
)
def test_sizes_that_do_not_fit(table, text, fault):
    path = table("image,x1,y1,x2,y2\na,2,2,4,4")
    with pytest.raises(SourceError, match=fault):
        boxes(path, "a.png", SIZE, Marking("boxes", sizes=table(text, "sizes.csv")))


def test_sizes_by_named_columns(table):
    marking = Marking(
        "boxes",
        sizes=table("study,Rows,Columns,rows_seen\na,12,16,1", "sizes.csv"),
        sized={"picture": "study"},
    )
    path = table("image,x1,y1,x2,y2\na,2,2,4,4")
    assert boxes(path, "a.png", SIZE, marking)[0].box == (1, 1, 2, 2)


def test_runs_of_another_size(table):
    marking = Marking(
        "runs", runs="rows-absolute", sizes=table("image,rows,cols\na,12,16", "s.csv")
    )
    with pytest.raises(SourceError, match="16x12 pixels, but the picture is 8x6; runs cannot"):
        runs(table("image,rle\na,1 2"), "a.png", SIZE, marking)


# Runs


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        ("columns-absolute", "8 3 14 1 20 1"),
        ("columns-absolute-0", "7 3 13 1 19 1"),
        ("columns-relative", "7 3 3 1 5 1"),
        ("rows-absolute", "10 3 18 1 26 1"),
        ("rows-absolute-0", "9 3 17 1 25 1"),
    ],
)
def test_dialects(table, dialect, text):
    path = table(f"ImageId, EncodedPixels ,ClassId\na.png,{text},3\n")
    (mark,) = runs(path, "a.png", SIZE, Marking("runs", runs=dialect))
    expected = drawn("........", ".xxx....", ".x......", ".x......", "........", "........")
    np.testing.assert_array_equal(mark.mask, expected)
    assert (mark.name, mark.box) == ("3", (1, 1, 4, 4))


@pytest.mark.parametrize("nothing", ["-1", " -1 ", "", "nan", "NaN"])
def test_no_runs(table, nothing):
    path = table(f"image,rle\na.png,{nothing}\n")
    assert runs(path, "a.png", SIZE, Marking("runs", runs="rows-absolute")) == []


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("1 3 3 1", "overlap or go backwards"),
        ("9 3 1 2", "backwards"),
        ("0 3", "leave the picture of 8x6"),
        ("46 4", "leave"),
        ("999999999999999 1", "leave"),
        ("1 999999999999999 5 1", "overlap"),
        ("9" * 30 + " 1", "no pairs"),
        ("1 0", "no length"),
        ("1 2 3", "no pairs"),
        ("1 -2", "no whole numbers"),
        ("1 2.5", "no whole numbers"),
        ("\u0661 \u0662", "no whole numbers"),
    ],
)
def test_runs_that_cannot_be(table, text, fault):
    path = table(f"image,rle\na,{text}\nb,1 48\n")
    marking = Marking("runs", runs="rows-absolute")
    assert runs(path, "b", SIZE, marking)[0].mask.all()
    with pytest.raises(SourceError, match=rf"row 2: .*{fault}"):
        runs(path, "a", SIZE, marking)


@pytest.mark.parametrize("text", ["999999999999999 1", "1 999999999999999 1 1", "40 4 8 1"])
def test_relative_runs_that_cannot_be(table, text):
    with pytest.raises(SourceError, match="dialect"):
        runs(table(f"image,rle\na,{text}"), "a", SIZE, Marking("runs", runs="columns-relative"))


@pytest.mark.parametrize("dialect", ["", "columns"])
def test_the_dialect_is_never_guessed(table, dialect):
    with pytest.raises(SourceError, match=r"dialect.*columns-absolute, .*columns-relative"):
        runs(table("image,rle\na,1 2"), "a", SIZE, Marking("runs", runs=dialect))


def test_long_runs(table):
    """Beyond the 128 KiB that the csv module takes by itself."""
    text = " ".join(f"{n} 1" for n in range(1, 60_000, 2))
    assert len(text) > 1 << 17
    (mark,) = runs(
        table(f"image,rle\na,{text}"), "a", (300, 200), Marking("runs", runs="rows-absolute")
    )
    assert mark.mask.sum() == 30_000


def test_more_masks_than_memory(table):
    rows = "a,1 2\n" * 1000
    with pytest.raises(SourceError, match="1000 masks of 5000x5000 pixels"):
        runs(table(f"image,rle\n{rows}"), "a", (5000, 5000), Marking("runs", runs="rows-absolute"))


def _encoded(mask, by_columns, origin, relative):
    line = (mask.T if by_columns else mask).ravel().astype(np.int8)
    edges = np.flatnonzero(np.diff(np.concatenate(([0], line, [0]))))
    out, end = [], 0
    for start, stop in edges.reshape(-1, 2):
        out += [start + origin - (end if relative else 0), stop - start]
        end = stop
    return " ".join(map(str, out))


@settings(max_examples=100, deadline=None)
@given(bits=st.integers(1, 2**48 - 1), dialect=st.sampled_from(sorted(DIALECTS)))
def test_any_mask_comes_back(tmp_path_factory, bits, dialect):
    mask = np.array([bool(bits >> n & 1) for n in range(48)]).reshape(6, 8)
    path = tmp_path_factory.mktemp("runs") / "t.csv"
    path.write_text(f"image,rle\na,{_encoded(mask, *DIALECTS[dialect])}")
    (mark,) = runs(path, "a", SIZE, Marking("runs", runs=dialect))
    np.testing.assert_array_equal(mark.mask, mask)


# Damage

VALID = {
    boxes: b"image,label,x1,y1,x2,y2\na.png,cyst,1,2,5,6\nb.png,,,,,\na.png,x,1,1,4,4\n",
    runs: b"ImageId,EncodedPixels\na.png,1 4 9 3\nb.png,-1\na.png,20 5\n",
}


@settings(max_examples=200, deadline=None)
@given(data=st.data(), reader=st.sampled_from([boxes, runs]))
def test_damage_is_told(tmp_path_factory, data, reader):
    raw = bytearray(VALID[reader])
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    raw = raw[: data.draw(st.integers(0, len(raw)))] if data.draw(st.booleans()) else raw
    raw = data.draw(st.binary()) if data.draw(st.integers(0, 9)) == 0 else bytes(raw)
    path = tmp_path_factory.mktemp("fuzz") / "t.csv"
    path.write_bytes(raw)
    for picture in ("a.png", "b.png"):
        try:
            marks = reader(path, picture, SIZE, Marking("x", runs="rows-absolute"))
        except SourceError:
            continue
        for mark in marks:
            x0, y0, x1, y1 = mark.box
            assert 0 <= x0 < x1 <= 8
            assert 0 <= y0 < y1 <= 6


def test_a_missing_file(tmp_path):
    with pytest.raises(SourceError, match="not found"):
        boxes(tmp_path / "gone.csv", "a", SIZE, BOXES)
    with pytest.raises(SourceError, match="is not a file"):
        boxes(tmp_path, "a", SIZE, BOXES)
