"""COCO, YOLO and VOC: one object told in many ways, and files that cannot be trusted."""

import json
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medsg_build.errors import SourceError
from medsg_build.formats import coco as coco_module
from medsg_build.formats import marks
from medsg_build.formats.annotations import coco, voc, yolo
from medsg_build.model import Marking

CASES = Path(__file__).parents[2] / "shared" / "cases" / "annotations"
SIZE = (8, 6)  # columns, rows
NONE = Marking("x")


@pytest.fixture
def saved(tmp_path):
    def save(text, name="t.txt"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return save


def drawn(*rows):
    """A mask as it looks: '.' and 'x', one word a row."""
    return np.array([[letter == "x" for letter in row] for row in rows])


def an_l():
    return drawn("........", ".xx.....", ".xx.....", ".xxxxx..", "........", "........")


def document(*entries, image=None, **top):
    """A COCO document of the picture a.png (id 1) with these annotations."""
    held = {
        "images": [{"id": 1, "file_name": "a.png", **(image or {})}],
        "categories": [{"id": 3, "name": "cyst"}, {"id": 4, "name": "none"}],
        "annotations": [{"image_id": 1, "category_id": 3, **entry} for entry in entries],
    }
    return json.dumps(held | top)


def test_an3_one_object_in_three_formats():
    named = Marking("yolo", classes=("cyst",))
    for marks_ in (
        coco(CASES / "AN3_coco.json", "AN3.png", (56, 56), NONE),
        yolo(CASES / "AN3_yolo.txt", "AN3.png", (56, 56), named),
        voc(CASES / "AN3_voc.xml", "AN3.png", (56, 56), NONE),
    ):
        assert marks_ == [("cyst", (14, 28, 35, 49), None, 0)]


# COCO

BOX = {"bbox": [1, 1, 5, 3]}
L_SHAPE = [[1, 1, 3, 1, 3, 3, 6, 3, 6, 4, 1, 4]]
PARTS = [[1, 1, 3, 1, 3, 4, 1, 4], [2, 3, 6, 3, 6, 4, 2, 4]]  # they overlap: a union, not even-odd
COUNTS = [7, 3, 3, 3, 5, 1, 5, 1, 5, 1, 14]
COMPRESSED = "73302N00009"


@pytest.mark.parametrize(
    "segmentation",
    [
        L_SHAPE,
        PARTS,
        {"size": [6, 8], "counts": COUNTS},
        {"size": [6, 8], "counts": COMPRESSED},
    ],
    ids=["polygon", "two polygons", "counts", "compressed"],
)
def test_masks(saved, segmentation):
    for entry in ({"segmentation": segmentation}, {"segmentation": segmentation, **BOX}):
        (mark,) = coco(saved(document(entry)), "a.png", SIZE, NONE)
        assert (mark.name, mark.box) == ("cyst", (1, 1, 6, 4))
        np.testing.assert_array_equal(mark.mask, an_l())
        assert mark.mask.dtype == bool


def test_compressed_runs_as_pycocotools_writes_them(saved):
    coder = pytest.importorskip("pycocotools.mask")
    rng = np.random.default_rng(5)
    for _ in range(40):
        rows, columns = rng.integers(1, 90, 2).tolist()
        mask = rng.random((rows, columns)) < rng.random()
        mask[0, 0] = True
        runs = coder.encode(np.asfortranarray(mask.astype(np.uint8)))
        runs["counts"] = runs["counts"].decode()
        (mark,) = coco(saved(document({"segmentation": runs})), "a.png", (columns, rows), NONE)
        np.testing.assert_array_equal(mark.mask, mask)


def test_polygons_as_skimage_draws_them():
    """At places where no centre lies on an edge, which either may count or not."""
    from skimage.draw import polygon as rival

    rng = np.random.default_rng(7)
    for _ in range(100):
        points = rng.random((rng.integers(3, 9), 2)) * (40, 30)
        expected = np.zeros((30, 40), bool)
        expected[rival(points[:, 1] - 0.5, points[:, 0] - 0.5, expected.shape)] = True
        if expected.any():
            _, mask = marks.filled("here", [points], (40, 30), (40, 30))
            np.testing.assert_array_equal(mask, expected)


def test_a_polygon_of_many_points_is_quick(saved):
    turn = np.linspace(0, 2 * np.pi, 20_000, endpoint=False)
    points = np.stack([np.cos(turn), np.sin(turn)], axis=1) * 1000 + 1024
    start = time.perf_counter()
    path = saved(document({"segmentation": [points.ravel().tolist()]}))
    (mark,) = coco(path, "a.png", (2048, 2048), NONE)
    assert time.perf_counter() - start < 10
    assert abs(mark.mask.sum() / (np.pi * 1e6) - 1) < 1e-3


def test_a_polygon_that_crosses_a_row_too_often(saved, monkeypatch):
    monkeypatch.setattr(marks, "PICKS", 5)
    with pytest.raises(SourceError, match="a polygon of 6 points; not believed"):
        coco(saved(document({"segmentation": L_SHAPE})), "a.png", SIZE, NONE)


def test_a_picture_of_another_size(saved):
    doubled = [[2 * v for v in L_SHAPE[0]]]
    entry = {"segmentation": doubled, "bbox": [2, 2, 10, 6]}
    path = saved(document(entry, image={"width": 16, "height": 12}))
    (mark,) = coco(path, "a.png", SIZE, NONE)
    assert mark.box == (1, 1, 6, 4)
    np.testing.assert_array_equal(mark.mask, an_l())
    path = saved(document(BOX, image={"width": 12, "height": 16}))
    with pytest.raises(SourceError, match="12x16 pixels, but the picture is 8x6"):
        coco(path, "a.png", SIZE, NONE)


def test_a_pixel_outside_counts_on_the_picture_that_was_drawn_on(saved):
    path = saved(document({"bbox": [0, 0, 2, 4]}, image={"width": 1, "height": 3}))
    assert coco(path, "a.png", (100, 300), NONE)[0].box == (0, 0, 100, 300)


def test_crowds_are_no_objects(saved):
    crowd = {"iscrowd": 1, "segmentation": {"size": [6, 8], "counts": COUNTS}}
    assert len(coco(saved(document(BOX, crowd)), "a.png", SIZE, NONE)) == 1
    with pytest.raises(SourceError, match=r"all 1 entries for a\.png are crowds"):
        coco(saved(document(crowd)), "a.png", SIZE, NONE)


def test_a_picture_with_nothing_on_it(saved):
    path = saved(document())
    assert coco(path, "a.png", SIZE, NONE) == []
    with pytest.raises(SourceError, match=r"t\.txt: no entry for b\.png"):
        coco(path, "b.png", SIZE, NONE)
    path = saved(document({"bbox": [0, 0, 1, 1], "category_id": 4}))
    assert coco(path, "a.png", SIZE, Marking("coco", skip=("none",))) == []


def test_frames_of_videos_by_name(saved):
    images = [
        {"id": n, "file_name": f"v{n // 2}/{n % 2}.png", "video_id": n // 2} for n in range(4)
    ]
    entries = [{"image_id": str(n), "bbox": [0, 0, n + 2, 2]} for n in range(4)]
    path = saved(document(images=images, annotations=entries))
    for number in range(4):
        (mark,) = coco(path, f"frames/v{number // 2}/{number % 2}.png", SIZE, NONE)
        assert mark == ("", (0, 0, number + 2, 2), None, 0)
    with pytest.raises(SourceError, match="2 different entries fit"):
        coco(path, "0.png", SIZE, NONE)


ENTRIES = {
    "bbox as corners": ({"segmentation": L_SHAPE, "bbox": [4, 3, 4, 3]}, "different places"),
    "outside": ({"bbox": [1, 1, 9, 3]}, r"\(1, 1, 10, 4\) lies outside the picture of 8x6"),
    "no area": ({"bbox": [1, 1, 0, 3]}, "no area"),
    "negative": ({"bbox": [3, 1, -2, 3]}, "no area"),
    "fractions": ({"bbox": [0.1, 0.1, 0.5, 0.5]}, "fractions"),
    "nan": ({"bbox": [1, 1, float("nan"), 3]}, "not a finite number"),
    "infinite": ({"bbox": [1, 1, float("inf"), 3]}, "not a finite number"),
    "huge": ({"bbox": [1, 1, 10**400, 3]}, "not a finite number"),
    "three": ({"bbox": [1, 1, 3]}, "no list of 4"),
    "text": ({"bbox": ["1", 1, 3, 3]}, "not a number"),
    "true": ({"bbox": [True, 1, 3, 3]}, "not a number"),
    "object": ({"bbox": {"x": 1}}, "no list of 4"),
    "nothing": ({}, "neither bbox nor segmentation"),
    "category": ({**BOX, "category_id": 9}, "not among the categories"),
    "category list": ({**BOX, "category_id": [3]}, "no id"),
    "two points": ({"segmentation": [[1, 1, 3, 3]]}, "a polygon of 4 numbers"),
    "odd": ({"segmentation": [[1, 1, 3, 3, 4, 4, 5]]}, "a polygon of 7 numbers"),
    "flat": ({"segmentation": [1, 1, 3, 1, 3, 3]}, "no list of numbers"),
    "polygon text": ({"segmentation": "1 1 3 3"}, "neither polygons nor runs"),
    "polygon outside": ({"segmentation": [[1, 1, 30, 1, 3, 3]]}, "outside"),
    "thin": ({"segmentation": [[1, 1.6, 5, 1.6, 5, 2.4]]}, "too thin"),
    "flat polygon": ({"segmentation": [[1, 1, 5, 1, 3, 1]]}, "no area"),
    "other size": ({"segmentation": {"size": [12, 16], "counts": COUNTS}}, "16x12 pixels, but"),
    "no size": ({"segmentation": {"counts": COUNTS}}, "no list of 2"),
    "short": ({"segmentation": {"size": [6, 8], "counts": COUNTS[:-1]}}, "do not add up"),
    "below nought": ({"segmentation": {"size": [6, 8], "counts": [50, -2]}}, "do not add up"),
    "beyond": ({"segmentation": {"size": [6, 8], "counts": [10**30]}}, "leave the picture"),
    "fraction": ({"segmentation": {"size": [6, 8], "counts": [47.5, 0.5]}}, "nor whole numbers"),
    "none set": ({"segmentation": {"size": [6, 8], "counts": [48]}}, "hold no pixel"),
    "no counts": ({"segmentation": {"size": [6, 8], "counts": None}}, "neither text"),
    "unended": ({"segmentation": {"size": [6, 8], "counts": "73o"}}, "damaged"),
    "long letters": ({"segmentation": {"size": [6, 8], "counts": "o" * 20 + "0"}}, "damaged"),
    "empty text": ({"segmentation": {"size": [6, 8], "counts": ""}}, "damaged"),
    "foreign text": ({"segmentation": {"size": [6, 8], "counts": "7é!"}}, "damaged"),
    "wrong text": ({"segmentation": {"size": [6, 8], "counts": "73"}}, "do not add up"),
}


@pytest.mark.parametrize(("entry", "fault"), ENTRIES.values(), ids=ENTRIES)
def test_a_bad_entry_spoils_only_its_picture(saved, entry, fault):
    images = [{"id": 1, "file_name": "a.png"}, {"id": 2, "file_name": "b.png"}]
    entries = [{"image_id": 1, "category_id": 3, **entry}, {"image_id": 2, **BOX}]
    path = saved(document(images=images, annotations=entries))
    assert len(coco(path, "b.png", SIZE, NONE)) == 1
    with pytest.raises(SourceError, match=rf"t\.txt: entry 0 of a\.png.*{fault}"):
        coco(path, "a.png", SIZE, NONE)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "cannot be read as JSON"),
        ("{", "cannot be read as JSON"),
        (b"\xff\xfe\x00", "cannot be read as JSON"),
        ("[" * 200_000, "nested too deep"),
        ('{"a":' * 200_000, "nested too deep"),
        ("1" * 5000, "cannot be read as JSON"),
        ("[]", "no list of images"),
        ("3", "no list of images"),
        ('{"images": {}}', "no list of images"),
        ('{"images": []}', "no list of annotations"),
        (document(images=[3]), "image 0 has no id"),
        (document(images=[{"id": 1}]), "image 0 has no id"),
        (document(images=[{"id": None, "file_name": "a"}]), "image 0 has no id"),
        (document(images=[{"id": 1, "file_name": 3}]), "image 0 has no id"),
        (document(annotations=["x"]), "annotation 0 has no image_id"),
        (document(annotations=[{"image_id": [1]}]), "annotation 0 has no image_id"),
        (document(annotations=[{"image_id": 7}]), "no image_id .* belongs to an image"),
        (document(categories=3), "categories are no list"),
        (document(categories=["x"]), "categories are no list"),
        (document(categories=[{"id": 1, "name": 3}]), "categories are no list"),
        (document(categories=[{"id": 1, "name": "a"}, {"id": 1, "name": "b"}]), "categories"),
        (document(images=[{"id": 1, "file_name": "a.png"}] * 2), "is listed 2 times"),
        (
            document(images=[{"id": 1, "file_name": "a.png"}, {"id": 1, "file_name": "b.png"}]),
            "belongs to several",
        ),
        (document(image={"width": "8", "height": 6}), "width or height"),
        (document(image={"width": 8}), "width or height"),
        (document(image={"width": -8, "height": 6}), "-8x6"),
    ],
)
def test_documents_that_are_unclear(saved, text, fault):
    path = saved(text)
    for _ in range(2):  # the fault is kept, so that a large file is not parsed for every picture
        with pytest.raises(SourceError, match=rf"t\.txt: .*{fault}"):
            coco(path, "a.png", SIZE, NONE)


def test_the_document_is_parsed_once(saved, monkeypatch):
    parsed, calls = coco_module._indexed, []
    monkeypatch.setattr(coco_module, "_indexed", lambda *args: calls.append(1) or parsed(*args))
    path = saved(document(images=[{"id": n, "file_name": f"{n}.png"} for n in range(50)]))
    for number in range(50):
        coco(path, f"{number}.png", SIZE, NONE)
    assert len(calls) == 1


def test_more_masks_than_memory(saved):
    path = saved(document(*[{"segmentation": L_SHAPE}] * 800))
    with pytest.raises(SourceError, match="800 masks of 5000x5000"):
        coco(path, "a.png", (5000, 5000), NONE)


# YOLO


def test_yolo_polygons_and_numbers_for_names(saved):
    line = " ".join(f"{v / (8, 6)[n % 2]:.9f}" for n, v in enumerate(L_SHAPE[0]))
    path = saved(f"2 {line}\n\n0 0.5 0.5 1 1\n")
    outline, whole = yolo(path, "a.png", SIZE, NONE)
    assert (outline.name, whole.name) == ("2", "0")
    assert outline.box == pytest.approx((1, 1, 6, 4))
    np.testing.assert_array_equal(outline.mask, an_l())
    assert whole.box == (0, 0, 8, 6)
    assert whole.mask is None


def test_an_empty_yolo_file_marks_nothing(saved, tmp_path):
    assert yolo(saved(""), "a.png", SIZE, NONE) == yolo(saved("\n"), "a.png", SIZE, NONE) == []
    assert (
        yolo(saved("1 9 9 9 9"), "a", SIZE, Marking("yolo", classes=("a", "b"), skip=("b",))) == []
    )
    with pytest.raises(SourceError, match="not found"):
        yolo(tmp_path / "gone.txt", "a.png", SIZE, NONE)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("0 4 3 2 2", "outside the picture"),
        ("0 0.5 0.5 0 0.5", "no area"),
        ("0 0.5 0.5 -0.5 0.5", "no area"),
        ("0 0.5 nan 0.5 0.5", "no finite number"),
        ("cyst 0.5 0.5 0.5 0.5", "no finite number"),
        ("1.5 0.5 0.5 0.5 0.5", "the class is 1.5"),
        ("-1 0.5 0.5 0.5 0.5", "the class is -1"),
        ("2 0.5 0.5 0.5 0.5", "class 2, but the recipe names 2"),
        ("0 0.5 0.5 0.5 0.5 0.9", "a confidence"),
        ("0 0.5 0.5 0.5", "4 numbers"),
        ("0 0.1 0.1 0.5 0.1 0.5 0.5 0.9", "8 numbers"),
        ("0 0.1 0.1 5 0.1 0.5 0.5", "outside"),
        (b"\xff\xff", "no text in UTF-8"),
    ],
)
def test_yolo_lines_that_cannot_be(saved, line, fault):
    with pytest.raises(SourceError, match=fault):
        yolo(saved(line), "a.png", SIZE, Marking("yolo", classes=("a", "b")))


# VOC


def xml(objects="", size="<size><width>8</width><height>6</height></size>"):
    return f"<annotation><filename>else.jpg</filename>{size}{objects}</annotation>"


def thing(*corners, name="cyst"):
    keys = ("xmin", "ymin", "xmax", "ymax")
    inner = "".join(f"<{k}>{v}</{k}>" for k, v in zip(keys, corners, strict=True))
    return f"<object><name>{name}</name><bndbox>{inner}</bndbox></object>"


def test_voc(saved):
    path = saved(
        xml(thing(2, 2, 6, 4) + thing("3.5", 1, 3.5, 1.0, name="none") + thing(0, 0, 8, 6))
    )
    assert voc(path, "a.png", SIZE, Marking("voc", skip=("none",))) == [
        ("cyst", (1, 1, 6, 4), None, 0),
        ("cyst", (0, 0, 8, 6), None, 0),  # counted from 0, which is up to a pixel outside
    ]
    assert voc(saved(xml()), "a.png", SIZE, NONE) == []


def test_voc_of_another_size(saved):
    size = "<size><width>16</width><height>12</height></size>"
    assert voc(saved(xml(thing(3, 3, 12, 8), size)), "a", SIZE, NONE)[0].box == (1, 1, 6, 4)
    unsaid = "<size><width>0</width><height>0</height></size>"
    for size in (unsaid, ""):
        assert voc(saved(xml(thing(2, 2, 6, 4), size)), "a", SIZE, NONE)[0].box == (1, 1, 6, 4)


@pytest.mark.parametrize(
    "head", ["<!DOCTYPE annotation>", '<!DOCTYPE a [<!ENTITY x "xxxx">]>', "<!doctype a>"]
)
@pytest.mark.parametrize("codec", ["utf-8", "utf-16"])
def test_entities_are_refused_before_parsing(saved, head, codec):
    text = f'<?xml version="1.0"?>{head}{xml(thing(2, 2, 6, 4))}'
    with pytest.raises(SourceError, match="document type or entities"):
        voc(saved(text.encode(codec)), "a.png", SIZE, NONE)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "cannot be read as XML"),
        ("<annotation>", "cannot be read as XML"),
        ("<html/>", "not a VOC file"),
        (b"<annotation>\xff</annotation>", "no text in UTF-8"),
        ("<annotation>\0</annotation>", "cannot be read as XML"),
        (xml("<object><name>x</name></object>"), "object 1: has 0 of bndbox/xmin"),
        (xml(thing(2, 2, 6, "y")), "ymax is no finite number"),
        (xml(thing(2, 2, "inf", 4)), "xmax is no finite number"),
        (xml(thing(2, 2, "", 4)), "xmax is no finite number"),
        (xml(thing(7, 2, 6, 4)), "no area"),
        (xml(thing(2, 2, 60, 4)), "object 1: .*outside the picture of 8x6"),
        (xml(size="<size><width>6</width><height>8</height></size>"), "6x8 pixels, but"),
        (xml(size="<size/>"), "has 0 of size/width"),
    ],
)
def test_voc_files_that_cannot_be_trusted(saved, text, fault):
    with pytest.raises(SourceError, match=rf"t\.txt.*{fault}"):
        voc(saved(text), "a.png", SIZE, NONE)


def test_deep_and_large_files_of_one_picture(saved, monkeypatch):
    text = "<annotation>" + "<a>" * 200_000 + "</a>" * 200_000 + "</annotation>"
    assert voc(saved(text), "a.png", SIZE, NONE) == []
    monkeypatch.setattr("medsg_build.formats.annotations.LARGEST_TEXT", 1000)
    for reader in (voc, yolo):
        with pytest.raises(SourceError, match="at most 1000"):
            reader(saved(text), "a.png", SIZE, NONE)


# Damage

VALID = {
    coco: document(
        {**BOX, "segmentation": L_SHAPE},
        {"segmentation": {"size": [6, 8], "counts": COMPRESSED}},
        {"segmentation": {"size": [6, 8], "counts": COUNTS}},
        image={"width": 8, "height": 6},
    ),
    yolo: "0 0.5 0.5 0.25 0.5\n1 0.1 0.1 0.9 0.1 0.5 0.9\n",
    voc: '<?xml version="1.0" encoding="UTF-8"?>' + xml(thing(2, 2, 6, 4) + thing(1, 1, 8, 6)),
}


@settings(max_examples=300, deadline=None)
@given(data=st.data(), reader=st.sampled_from([coco, yolo, voc]))
def test_damage_is_told(tmp_path_factory, data, reader):
    raw = bytearray(VALID[reader].encode())
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    raw = raw[: data.draw(st.integers(0, len(raw)))] if data.draw(st.booleans()) else raw
    raw = data.draw(st.binary()) if data.draw(st.integers(0, 9)) == 0 else bytes(raw)
    path = tmp_path_factory.mktemp("fuzz") / "t"
    path.write_bytes(raw)
    sound(reader, path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6)
    | st.sampled_from([1, 3, "a.png", "73", "o", [6, 8], [1, 1, 5, 3], L_SHAPE]),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.sampled_from(["size", "counts", "id", "bbox", "x"]), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_wrong_types_anywhere(tmp_path_factory, data):
    """A valid document with another value at one place."""
    held = json.loads(VALID[coco])
    places = []

    def walk(node):
        for key in node if isinstance(node, dict) else range(len(node)):
            places.append((node, key))
            if isinstance(node[key], dict | list):
                walk(node[key])

    walk(held)
    node, key = places[data.draw(st.integers(0, len(places) - 1))]
    node[key] = data.draw(JSON)
    path = tmp_path_factory.mktemp("fuzz") / "t"
    path.write_text(json.dumps(held))
    sound(coco, path)


def sound(reader, path):
    """Only a `SourceError`, or marks that lie on the picture."""
    try:
        found = reader(path, "a.png", SIZE, NONE)
    except SourceError:
        return
    for mark in found:
        x0, y0, x1, y1 = mark.box
        assert 0 <= x0 < x1 <= 8
        assert 0 <= y0 < y1 <= 6
        assert mark.mask is None or (mark.mask.shape == (6, 8) and mark.mask.any())
