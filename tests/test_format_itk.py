"""NRRD and MetaImage: what comes out, held against ITK; what is refused, and in which words."""

import gzip
import json
import re
import zlib
from pathlib import Path

import numpy as np
import pytest
import SimpleITK as sitk
from hypothesis import given, settings
from hypothesis import strategies as st

from medsg_build.errors import SourceError
from medsg_build.formats import itk
from medsg_build.model import Wanted
from medsg_build.standardise import to_ras

CASES = Path(__file__).parents[2] / "shared" / "cases" / "nrrd_mha"
PLAIN, LABELS = Wanted(), Wanted(labels=True)
VOXELS = np.arange(3 * 4 * 5, dtype="<i2").reshape(3, 4, 5, order="F")
NRRD = """type: short
dimension: 3
sizes: 3 4 5
space: RAS
space directions: (1,0,0) (0,2,0) (0,0,3)
space origin: (10,20,30)
endian: little
"""
META = """NDims = 3
DimSize = 3 4 5
ElementType = MET_SHORT
ElementSpacing = 1 2 3
TransformMatrix = 1 0 0 0 1 0 0 0 1
"""


def nrrd(path, head=NRRD, data=None, encoding="raw"):
    data = VOXELS.tobytes(order="F") if data is None else data
    path.write_bytes(f"NRRD0005\n{head}encoding: {encoding}\n\n".encode() + data)
    return path


def meta(path, head=META, data=None, where="LOCAL"):
    data = VOXELS.tobytes(order="F") if data is None else data
    path.write_bytes(f"ObjectType = Image\n{head}ElementDataFile = {where}\n".encode() + data)
    return path


def itks(path):
    """Voxels (i, j, k[, channel]) and affine, as ITK reads them."""
    image = sitk.ReadImage(str(path))
    data = sitk.GetArrayFromImage(image)
    axes = image.GetDimension()
    data = data.transpose(*range(axes - 1, -1, -1), *range(axes, data.ndim))
    affine = np.eye(4)
    turn = np.array(image.GetDirection()).reshape(axes, axes) * image.GetSpacing()
    affine[:3, :3], affine[:3, 3] = turn[:3, :3], image.GetOrigin()[:3]
    return data, np.diag([-1, -1, 1, 1]) @ affine


def agrees(path, wanted=PLAIN):
    volume, grid = itk.read(path, wanted), itk.measure(path, wanted)
    data, affine = itks(path)
    assert np.array_equal(volume.data, data)
    assert volume.data.dtype == data.dtype
    assert np.allclose(volume.affine, affine, atol=1e-9)
    assert np.array_equal(grid.affine, volume.affine)
    assert grid.shape == volume.data.shape[:3]
    return volume


# ------------------------------------------------------------------------- the cases of the shelf


@pytest.mark.parametrize("pair", [("ras", "ras"), ("lps", "lps"), ("ras", "lps")])
def test_nr1_the_space_of_the_header_is_heeded(pair):
    image = to_ras(agrees(CASES / f"NR1_{pair[0]}.nrrd"), "image").data
    mask = to_ras(agrees(CASES / f"NR1_{pair[1]}_mask.nrrd", LABELS), "mask").data
    for check in json.loads((CASES / "expected.json").read_text())["cases"][0]["checks"]:
        if check["type"] == "voxel":
            assert image[tuple(check["ras_index"])] == check["value"]
    assert [(n.min(), n.max()) for n in np.nonzero(mask == 1)] == [(4, 12), (6, 17), (4, 9)]


def test_nr2_three_segments_of_two_layers_stay_three():
    volume = itk.read(CASES / "NR2_layers.seg.nrrd", LABELS)
    assert volume.data.shape == (28, 28, 28, 2)
    assert volume.names == {"organ A": 1, "lesion B": 2, "organ C": 3}
    assert "renumbered" in volume.notes[0]
    a, b, _ = ((volume.data == value).any(axis=3) for value in (1, 2, 3))
    assert (a & b).sum() == 5 * 6 * 4  # what they share belongs to both
    assert [n.sum() for n in (a, b)] == [10 * 12 * 7, 11 * 12 * 6]
    assert not np.intersect1d(*(np.unique(layer[layer > 0]) for layer in volume.data.T)).size
    assert np.array_equal(volume.affine, itk.read(CASES / "NR2_image.nrrd", PLAIN).affine)


def test_mh1_the_matrix_of_a_metaimage_is_heeded():
    volume = to_ras(agrees(CASES / "MH1_image.mha"), "image")
    assert volume.spacing == (1, 1, 4)
    assert volume.data[4, 6, 1] == 546
    assert volume.data[0, 27, 6] == 301


# ------------------------------------------------------------------------------------- as ITK does


@pytest.mark.parametrize("name", ["a.mha", "a.mhd", "a.nrrd", "a.nhdr"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kind", ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8"])
def test_what_itk_writes_comes_out(tmp_path, name, packed, kind):
    image = sitk.GetImageFromArray(np.arange(60).reshape(5, 4, 3).astype(kind))
    image.SetSpacing((0.5, 0.7, 3))
    image.SetOrigin((1, -2, 3.5))
    image.SetDirection((0, 0.6, 0.8, 1, 0, 0, 0, 0.8, -0.6))
    sitk.WriteImage(image, str(tmp_path / name), packed)
    volume = agrees(tmp_path / name)
    assert volume.notes == ()
    assert volume.spacing == pytest.approx((0.5, 0.7, 3))
    detached = name in ("a.mhd", "a.nhdr")
    assert len(itk.files(tmp_path / name)) == (2 if detached else 1)


SPACES = ["RAS", "LAS", "LPS", "left-anterior-superior", "scanner-xyz", "3D-right-handed"]


@pytest.mark.parametrize("space", SPACES)
def test_every_space_is_understood_as_itk_does(tmp_path, space):
    volume = agrees(nrrd(tmp_path / "a.nrrd", NRRD.replace("RAS", space)))
    assert bool(volume.notes) == (space in SPACES[4:])


def test_axes_may_run_in_any_order(tmp_path):
    head = NRRD.replace("(1,0,0) (0,2,0) (0,0,3)", "(0,0,1) (2,0,0) (0,-3,0)")
    agrees(nrrd(tmp_path / "a.nrrd", head))


def test_without_an_orientation_the_note_says_so(tmp_path):
    bare = "type: short\ndimension: 3\nsizes: 3 4 5\nendian: little\n"
    for n, more in enumerate(("", "spacings: 1 2 3\n")):
        volume = agrees(nrrd(tmp_path / f"{n}.nrrd", bare + more))
        assert volume.notes == (
            f"{n}.nrrd: no orientation in the header; its axes taken to run left, posterior and "
            "superior",
        )
    assert (
        "no orientation"
        in agrees(meta(tmp_path / "a.mha", META.replace("TransformMatrix", "Foo"))).notes[0]
    )


@pytest.mark.parametrize(
    ("encoding", "data"),
    [
        ("gzip", gzip.compress(VOXELS.tobytes("F"))),
        ("gz", gzip.compress(VOXELS.tobytes("F")[:50]) + gzip.compress(VOXELS.tobytes("F")[50:])),
        ("hex", VOXELS.tobytes("F").hex().encode()),
        ("ascii", " ".join(map(str, VOXELS.ravel("F"))).encode()),
        ("raw", VOXELS.tobytes("F")),
    ],
)
def test_every_encoding_of_itk(tmp_path, encoding, data):
    agrees(nrrd(tmp_path / "a.nrrd", data=data, encoding=encoding))


def test_the_other_byte_order_and_bytes_before_the_voxels(tmp_path):
    big = VOXELS.astype(">i2").tobytes("F")
    agrees(nrrd(tmp_path / "a.nrrd", NRRD.replace("little", "big"), big))
    agrees(nrrd(tmp_path / "b.nrrd", NRRD + "byte skip: 3\n", b"abc" + VOXELS.tobytes("F")))
    agrees(nrrd(tmp_path / "c.nrrd", NRRD + "byte skip: -1\n", b"abc" + VOXELS.tobytes("F")))
    agrees(meta(tmp_path / "a.mha", META + "BinaryDataByteOrderMSB = True\n", big))


@pytest.mark.parametrize(
    "head",
    [
        META.replace("TransformMatrix = 1 0 0 0 1 0", "Orientation = 0 1 0 1 0 0"),
        META + "Position = 1 2 3\n",
        META.replace("ElementSpacing", "ElementSize"),
        META + "ElementSize = 9 9 9\nComment = \nModality = MET_MOD_CT\n",
        META.replace(" = ", ": "),
        META.replace("\n", "\r\n"),
    ],
)
def test_the_words_of_a_metaimage(tmp_path, head):
    agrees(meta(tmp_path / "a.mha", head))


def test_sheared_axes_are_kept_and_told(tmp_path):
    volume = agrees(nrrd(tmp_path / "a.nrrd", NRRD.replace("(0,2,0)", "(0.5,2,0)")))
    assert "right angles" in volume.notes[0]


# ------------------------------------------------------------------------- pictures, colours, time


def test_two_axes_are_a_picture(tmp_path):
    image = sitk.GetImageFromArray(np.arange(12, dtype=np.uint16).reshape(3, 4))
    image.SetSpacing((0.2, 0.4))
    for name in ("a.mha", "a.nrrd"):
        sitk.WriteImage(image, str(tmp_path / name))
        volume = itk.read(tmp_path / name, PLAIN)
        assert (volume.flat, volume.spacing) == (True, (0.2, 0.4, 1.0))
        assert volume.data[:, 1, 0].tolist() == [4, 5, 6, 7]  # x to the right, y down
        assert np.array_equal(volume.affine, np.eye(4))
        assert itk.measure(tmp_path / name, PLAIN).shape == (4, 3, 1)


@pytest.mark.parametrize("channels", [3, 4])
@pytest.mark.parametrize("name", ["a.mha", "a.nrrd"])
def test_colours(tmp_path, name, channels):
    values = np.arange(2 * 3 * 4 * channels, dtype=np.uint8).reshape(2, 3, 4, channels)
    sitk.WriteImage(sitk.GetImageFromArray(values, isVector=True), str(tmp_path / name))
    volume = itk.read(tmp_path / name, PLAIN)
    assert np.array_equal(volume.data, values.transpose(2, 1, 0, 3)[..., :3])
    assert ("transparency" in "".join(volume.notes)) == (channels == 4)
    with pytest.raises(SourceError, match="in colour"):
        itk.read(tmp_path / name, LABELS)
    flat = sitk.GetImageFromArray(values[0], isVector=True)
    sitk.WriteImage(flat, str(tmp_path / name))
    assert itk.read(tmp_path / name, PLAIN).data.shape == (4, 3, 1, 3)


@pytest.mark.parametrize(
    ("size", "kinds", "turn"),
    [
        ("3 4 5 2", "domain domain domain time", "(1,0,0) (0,2,0) (0,0,3) none"),
        ("3 4 5 2", "domain domain domain list", "(1,0,0) (0,2,0) (0,0,3) none"),
        ("2 3 4 5", "list domain domain domain", "none (1,0,0) (0,2,0) (0,0,3)"),
    ],
)
def test_of_several_volumes_a_part_is_chosen(tmp_path, size, kinds, turn):
    head = NRRD.replace("3 4 5", size).replace("dimension: 3", "dimension: 4")
    head = head.replace("(1,0,0) (0,2,0) (0,0,3)", turn) + f"kinds: {kinds}\n"
    both = np.stack([VOXELS, VOXELS + 100], axis=0 if size[0] == "2" else 3)
    path = nrrd(tmp_path / "a.nrrd", head, both.tobytes("F"))
    assert np.array_equal(itk.read(path, Wanted(part=1)).data, VOXELS + 100)
    assert itk.measure(path, Wanted(part=1)).shape == (3, 4, 5)
    for function in (itk.read, itk.measure):
        with pytest.raises(SourceError, match=r"holds 2 volumes .* parts in the recipe's layout"):
            function(path, PLAIN)
    with pytest.raises(SourceError, match="has no part 2"):
        itk.read(path, Wanted(part=2))


def test_a_fourth_axis_in_metaimages(tmp_path):
    head = META.replace("NDims = 3", "NDims = 4").replace("3 4 5", "3 4 5 {}")
    head = head.replace("1 2 3", "1 2 3 1").replace(
        "1 0 0 0 1 0 0 0 1", "1 0 0 0 0 1 0 0 0 0 1 0 0 0 0 1"
    )
    one = meta(tmp_path / "a.mha", head.format(1))
    assert np.array_equal(itk.read(one, PLAIN).data, VOXELS)
    two = meta(tmp_path / "b.mha", head.format(2), VOXELS.tobytes("F") + bytes(120))
    assert np.array_equal(itk.read(two, Wanted(part=0)).data, VOXELS)
    assert np.allclose(itk.read(two, Wanted(part=0)).affine, np.diag([-1, -2, 3, 1]))
    assert np.array_equal(itks(two)[0][..., 0], VOXELS)


# ------------------------------------------------------------------------------- Slicer's segments


def seg(path, layers, segments):
    """`layers`: (n, 3, 4, 5) uint8; `segments`: the keys of each."""
    head = NRRD.replace("short", "uchar").replace("dimension: 3", "dimension: 4")
    head = head.replace("sizes:", f"sizes: {len(layers)}")
    head = head.replace("directions:", "directions: none") + "kinds: list domain domain domain\n"
    for n, keys in enumerate(segments):
        head += "".join(f"Segment{n}_{key}:={value}\n" for key, value in keys.items())
    return nrrd(path, head, np.asarray(layers, np.uint8).tobytes("F"))


def layers(count):
    out = np.zeros((count, 3, 4, 5), np.uint8)
    for n in range(count):
        out[n, n, :2] = 1
    return out


def test_segments_of_one_layer_keep_their_values(tmp_path):
    drawn = layers(1)
    drawn[0, 2] = 7
    path = seg(tmp_path / "a.nrrd", drawn, [{"ID": "s", "Name": "x", "Layer": 0, "LabelValue": 7}])
    volume = itk.read(path, LABELS)
    assert (volume.names, volume.data.shape, volume.notes) == ({"x": 7}, (3, 4, 5), ())
    assert set(np.unique(volume.data)) == {0, 1, 7}  # 1 belongs to no segment, and stays
    assert itk.measure(path, LABELS).shape == (3, 4, 5)
    for function in (itk.read, itk.measure):
        with pytest.raises(SourceError, match="a segmentation of 3D Slicer, not a picture"):
            function(path, PLAIN)


def test_layers_without_a_clash_are_left_alone(tmp_path):
    drawn = layers(2)
    drawn[1] *= 5
    named = [{"Name": "a", "LabelValue": 1, "Layer": 0}, {"Name": "b", "LabelValue": 5, "Layer": 1}]
    volume = itk.read(seg(tmp_path / "a.nrrd", drawn, named), LABELS)
    assert (volume.names, volume.notes) == ({"a": 1, "b": 5}, ())
    assert np.array_equal(volume.data, np.moveaxis(drawn, 0, -1))


def test_values_of_no_segment_are_kept_apart_when_renumbering(tmp_path):
    drawn = layers(2)
    drawn[0, 2] = 2  # no segment; 2 is what the second segment becomes
    drawn[1, 2] = 9
    named = [{"Name": n, "LabelValue": 1, "Layer": layer} for layer, n in enumerate("ab")]
    volume = itk.read(seg(tmp_path / "a.nrrd", drawn, named), LABELS)
    assert volume.names == {"a": 1, "b": 2}
    assert set(np.unique(volume.data[..., 0])) == {0, 1, 3}
    assert set(np.unique(volume.data[..., 1])) == {0, 2, 9}
    assert "2 values of no segment kept" in volume.notes[1]


def test_segments_of_slicer_4_10_have_neither_layer_nor_value(tmp_path):
    named = [{"ID": "s1", "Name": "a"}, {"ID": "s2", "Name": "b"}]
    volume = itk.read(seg(tmp_path / "a.nrrd", layers(2), named), LABELS)
    assert volume.names == {"a": 1, "b": 2}
    assert np.array_equal(volume.data[..., 1] == 2, layers(2)[1] == 1)


def test_a_name_of_two_segments_names_neither(tmp_path):
    named = [{"Name": n, "LabelValue": v, "Layer": 0} for v, n in enumerate(("a", "b", "a"), 1)]
    volume = itk.read(seg(tmp_path / "a.nrrd", layers(1), named), LABELS)
    assert volume.names == {"b": 2}
    assert "1 names stand for two segments" in volume.notes[0]


@pytest.mark.parametrize(
    ("keys", "word"),
    [
        ([{"ID": "a", "Layer": 3}], "lies on layer 3 of 2"),
        ([{"ID": "a", "LabelValue": "x"}], "no usable"),
        ([{"ID": "a", "Layer": 0}, {"ID": "b", "Layer": 0}], "claim the same voxels"),
    ],
)
def test_segments_that_cannot_be_meant(tmp_path, keys, word):
    with pytest.raises(SourceError, match=word):
        itk.read(seg(tmp_path / "a.nrrd", layers(2), keys), LABELS)


# --------------------------------------------------------------------------- detached data, hostile


def test_lists_of_data_files(tmp_path):
    for n in range(5):
        (tmp_path / f"s{n}.raw").write_bytes(VOXELS[..., n].tobytes("F"))
    names = "".join(f"s{n}.raw\n" for n in range(5)).encode()
    agrees(meta(tmp_path / "a.mhd", data=names, where="LIST"))
    head = f"NRRD0005\n{NRRD}encoding: raw\ndata file: LIST\n".encode()
    (tmp_path / "a.nhdr").write_bytes(head + names)
    agrees(tmp_path / "a.nhdr")
    assert [p.name for p in itk.files(tmp_path / "a.nhdr")][1:] == names.decode().split()


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("/etc/passwd", "own folder"),
        ("../a.raw", "own folder"),
        ("sub/../a.raw", "own folder"),
        ("C:\\a.raw", "own folder"),
        ("away.raw", "own folder"),
        ("gone.raw", "is missing"),
        ("a{suffix}", "names itself"),
        ("s%d.raw 0 5 1", "pattern"),
    ],
)
@pytest.mark.parametrize("suffix", [".nhdr", ".mhd"])
def test_data_files_stay_in_the_folder(tmp_path, suffix, name, word):
    home = tmp_path / "home"
    (home / "sub").mkdir(parents=True)
    (tmp_path / "a.raw").write_bytes(bytes(120))
    (home / "away.raw").symlink_to(tmp_path / "a.raw")
    path, name = home / f"a{suffix}", name.format(suffix=suffix)
    if suffix == ".mhd":
        meta(path, data=b"", where=name)
    else:
        path.write_bytes(f"NRRD0005\n{NRRD}encoding: raw\ndata file: {name}\n".encode())
    for function in (itk.files, lambda path: itk.read(path, PLAIN)):
        with pytest.raises(SourceError, match=word):
            function(path)


@pytest.mark.parametrize(
    ("size", "word"),
    [
        ("64 64 64", "truncated: the header declares 64x64x64"),
        ("2147483648 1 1", "truncated"),
        ("2147483648 2147483648 4", "not believed"),
        ("-3 4 5", "numbers above 0"),
        ("3 4 0", "numbers above 0"),
        ("3 four 5", "numbers above 0"),
        ("3 4", "declares 3 axes, but sizes of 2"),
        ("9" * 900 + " 1 1", "numbers above 0"),
    ],
)
@pytest.mark.parametrize("packing", ["raw", "gzip"])
def test_sizes_are_held_against_the_file(tmp_path, size, word, packing, capfd):
    data = b"abc" if packing == "raw" else gzip.compress(b"abc")
    more = "CompressedData = True\n" if packing == "gzip" else ""
    for path in (
        nrrd(tmp_path / "a.nrrd", NRRD.replace("3 4 5", size), data, packing),
        meta(tmp_path / "a.mha", META.replace("3 4 5", size) + more, data),
    ):
        for function in (itk.read, itk.measure):
            with pytest.raises(SourceError, match=f"^{re.escape(str(path))}: .*{word}"):
                function(path, PLAIN)
    assert capfd.readouterr() == ("", "")


def test_damaged_streams_are_refused_where_itk_returns_chance_voxels(tmp_path):
    packed = zlib.compress(VOXELS.tobytes("F"))
    head = META + "CompressedData = True\n"
    assert np.array_equal(itk.read(meta(tmp_path / "a.mha", head, packed), PLAIN).data, VOXELS)
    zipped = gzip.compress(VOXELS.tobytes("F"))
    for n in range(3, len(packed)):
        broken = bytearray(packed)
        broken[n] ^= 0x55
        with pytest.raises(SourceError):
            itk.read(meta(tmp_path / "a.mha", head, bytes(broken)), PLAIN)
        with pytest.raises(SourceError):
            itk.read(meta(tmp_path / "a.mha", head, packed[:n]), PLAIN)
    for cut in (-1, -9, len(zipped) // 2):
        with pytest.raises(SourceError, match="fetch it again"):
            itk.read(nrrd(tmp_path / "a.nrrd", data=zipped[:cut], encoding="gzip"), PLAIN)
    longer = gzip.compress(VOXELS.tobytes("F") + b"1")
    with pytest.raises(SourceError, match="more voxels than"):
        itk.read(nrrd(tmp_path / "a.nrrd", data=longer, encoding="gzip"), PLAIN)


def test_bytes_after_raw_voxels_are_told(tmp_path):
    path = nrrd(tmp_path / "a.nrrd", data=VOXELS.tobytes("F") + b"1")
    assert "bytes follow" in itk.read(path, PLAIN).notes[0]


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("(0,2,0)", "(1,0,0)", "singular"),
        ("(0,2,0)", "(0,0,0)", "singular"),
        ("(0,2,0)", "(0,nan,0)", "believable numbers"),
        ("(0,2,0)", "(0,1e300,0)", "believable numbers"),
        ("(0,2,0)", "(0,2)", "not 3 believable"),
        ("(0,2,0)", "", "not 3 vectors"),
        ("RAS", "moon", "'moon' is not known"),
        ("RAS", "RAS\nspace: LPS", "twice"),
        ("short", "block", "not read"),
        ("endian: little\n", "", "byte order"),
        ("type: short\n", "", "no 'type'"),
        ("(0,2,0)", "(0,2,0" + " 1" * 5000 + ")", "vectors"),  # ITK dies of such a line
    ],
)
def test_headers_that_cannot_be_meant(tmp_path, old, new, word):
    with pytest.raises(SourceError, match=word):
        itk.read(nrrd(tmp_path / "a.nrrd", NRRD.replace(old, new, 1)), PLAIN)


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("1 0 0 0 1 0 0 0 1", "1 0 0 1 0 0 0 0 1", "singular"),
        ("1 0 0 0 1 0 0 0 1", "1 0 0 nan 0 0 0 0 1", "believable numbers"),
        ("ElementSpacing = 1 2 3", "ElementSpacing = 1 -2 3", "not all above 0"),
        ("ElementSpacing", "Offset = 1 2 3\nOrigin = 3 2 1\nElementSpacing", "differ"),
        ("ElementSpacing", "NDims = 3\nElementSpacing", "twice"),
        ("MET_SHORT", "MET_OTHER", "not read"),
        ("DimSize", "DimSie", "'DimSize' is missing"),
        ("ElementSpacing", "HeaderSize = x\nElementSpacing", "no whole number"),
    ],
)
def test_metaimages_that_cannot_be_meant(tmp_path, old, new, word):
    with pytest.raises(SourceError, match=word):
        itk.read(meta(tmp_path / "a.mha", META.replace(old, new, 1)), PLAIN)


def test_what_is_no_such_file_at_all(tmp_path):
    for name in ("a.nrrd", "a.nhdr", "a.mha", "a.mhd"):
        for content in (b"", b"NRRD", b"<html>not found</html>", bytes(500)):
            (tmp_path / name).write_bytes(content)
            with pytest.raises(SourceError):
                itk.read(tmp_path / name, PLAIN)


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    folder = tmp_path_factory.mktemp("valid")
    made = [
        nrrd(folder / "a.nrrd", data=gzip.compress(VOXELS.tobytes("F")), encoding="gzip"),
        meta(
            folder / "a.mha", META + "CompressedData = True\n", zlib.compress(VOXELS.tobytes("F"))
        ),
        seg(folder / "b.nrrd", layers(2), [{"ID": "s1", "Name": "a"}, {"ID": "s2", "Name": "b"}]),
    ]
    return folder, [(path.suffix, path.read_bytes()) for path in made]


@settings(max_examples=150, deadline=None)
@given(
    which=st.integers(0, 2),
    cut=st.integers(0, 700),
    place=st.integers(0, 400),
    put=st.binary(max_size=12)
    | st.sampled_from([b"99999999999 ", b"-1", b"\n\n", b"LIST", b"1e9"]),
    over=st.booleans(),
    labels=st.booleans(),
)
def test_only_source_errors_come_out(valid, which, cut, place, put, over, labels):
    folder, files = valid
    suffix, raw = files[which]
    raw = raw[:place] + put + raw[place + (len(put) if over else 0) :]
    path = folder / f"mutated{suffix}"
    path.write_bytes(raw[: len(raw) - cut % len(raw)] if cut < 350 else raw)
    for function in (itk.files, itk.measure, itk.read):
        try:
            function(*(path, Wanted(labels=labels))[: 1 if function is itk.files else 2])
        except SourceError as error:
            assert str(error).startswith(str(path))  # noqa: PT017  another error fails the test
