"""MATLAB files: as MATLAB shows them, held against SciPy; nothing followed, nothing believed."""

import struct
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.io
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from medsg_build.errors import SourceError
from medsg_build.formats import matlab
from medsg_build.model import Wanted

AN4 = Path(__file__).parents[2] / "shared" / "cases" / "annotations" / "AN4_v73.mat"
PLAIN = Wanted()
PICTURE = np.array([[1, 2, 3], [4, 5, 6]], np.int16)  # two rows, three columns
HELD = {
    "image": PICTURE,
    "volume": np.arange(24.0).reshape(2, 3, 4),
    "colour": np.arange(18, dtype=np.uint8).reshape(2, 3, 3),
    "s": {"deep": {"er": PICTURE / 2, "text": "abc"}, "mask": PICTURE > 3, "one": 5.0},
    "cells": np.array([PICTURE * 2, "abc"], dtype=object),
    "imaginary": PICTURE * 1j,
    "sparse": scipy.sparse.csc_array(PICTURE),
}


def v5(path, held=HELD, packed=True):
    scipy.io.savemat(path, held, do_compression=packed)
    return path


def v73(path, build):
    """An HDF5 file behind MATLAB's 512 bytes; HDF5 holds the axes of MATLAB backwards."""
    with h5py.File(path, "w", userblock_size=512) as file:
        build(file)
    raw = bytearray(path.read_bytes())
    raw[:128] = b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM"
    path.write_bytes(raw)
    return path


def test_an4_the_picture_is_not_transposed():
    image = matlab.read(AN4, Wanted(part="cjdata.image"))
    mask = matlab.read(AN4, Wanted(part="cjdata.tumorMask", labels=True))
    x, y = np.nonzero(mask.data[:, :, 0])
    assert (x.min(), y.min(), x.max() + 1, y.max() + 1) == (8, 12, 26, 40)
    assert (image.data[mask.data == 1] == 1500).all()
    assert image.flat
    assert matlab.measure(AN4, Wanted(part="cjdata.image")).shape == (56, 56, 1)
    with pytest.raises(SourceError, match=r"cjdata.image 56x56, cjdata.tumorMask 56x56\); parts"):
        matlab.read(AN4, PLAIN)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("part", "data"),
    [
        ("image", PICTURE.T[:, :, None]),
        ("volume", HELD["volume"].swapaxes(0, 1)),
        ("colour", HELD["colour"].swapaxes(0, 1)[:, :, None]),
        ("s.deep.er", (PICTURE / 2).T[:, :, None]),
        ("s.mask", (PICTURE > 3).T[:, :, None].astype(np.uint8)),
        ("cells.0", (PICTURE * 2).T[:, :, None]),
    ],
)
def test_version_5(tmp_path, packed, part, data):
    path = v5(tmp_path / "a.mat", packed=packed)
    volume = matlab.read(path, Wanted(part=part))
    assert np.array_equal(volume.data, data)
    assert volume.data.dtype == data.dtype
    assert matlab.measure(path, Wanted(part=part)).shape == data.shape[:3]


@pytest.mark.parametrize("packed", [False, True])
def test_every_type_of_version_5(tmp_path, packed):
    for kind in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", ">i2"):
        path = v5(tmp_path / "a.mat", {"x": PICTURE.astype(kind)}, packed)
        data = matlab.read(path, PLAIN).data
        assert data[:, :, 0].tolist() == PICTURE.T.tolist()
        assert data.dtype == np.dtype(kind).newbyteorder("=")


def test_numbers_that_matlab_stores_smaller_than_they_are(tmp_path):
    """MATLAB writes doubles that are small whole numbers as bytes; SciPy does not."""
    flags = struct.pack("<IIII", 6, 8, 6, 0)
    axes, name = struct.pack("<IIii", 5, 8, 2, 3), struct.pack("<HH4s", 1, 1, b"x")
    body = flags + axes + name + struct.pack("<II8s", 2, 6, bytes([1, 4, 2, 5, 3, 6]))
    head = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H2s", 0x100, b"IM")
    element = struct.pack("<II", 14, len(body)) + body
    packed = zlib.compress(element)
    for n, raw in enumerate((element, struct.pack("<II", 15, len(packed)) + packed)):
        path = tmp_path / f"{n}.mat"
        path.write_bytes(head + raw)
        assert np.array_equal(scipy.io.loadmat(path)["x"], PICTURE)
        data = matlab.read(path, PLAIN).data
        assert (data.dtype, data[:, :, 0].tolist()) == (np.float64, PICTURE.T.tolist())


def test_what_is_chosen_and_what_must_be_named(tmp_path):
    path = v5(tmp_path / "a.mat")
    with pytest.raises(SourceError, match=r"several arrays \(image 2x3, volume 2x3x4, .*parts in"):
        matlab.read(path, PLAIN)
    with pytest.raises(SourceError, match=r"no array 's'; it has s.deep.er 2x3, s.mask 2x3"):
        matlab.read(path, Wanted(part="s"))
    for part, word in (("imaginary", "is complex"), ("sparse", "is sparse")):
        with pytest.raises(SourceError, match=word):
            matlab.measure(path, Wanted(part=part))
    # Single numbers, vectors and texts beside it are no pictures.
    beside = {"image": PICTURE, "n": 5.0, "row": np.arange(9.0), "t": "abc", "e": np.zeros((0, 4))}
    assert matlab.read(v5(path, beside), PLAIN).data.shape == (3, 2, 1)
    with pytest.raises(SourceError, match="holds no picture; it has n 1x1"):
        matlab.read(v5(path, {"n": 5.0}), PLAIN)
    with pytest.raises(SourceError, match="2x2x2x2"):
        matlab.read(v5(path, {"n": np.zeros((2, 2, 2, 2))}), PLAIN)
    with pytest.raises(SourceError, match="empty"):
        matlab.read(v5(path, beside), Wanted(part="e"))


def test_label_values_are_never_colours(tmp_path):
    path = v5(tmp_path / "a.mat", {"x": HELD["colour"]})
    assert matlab.read(path, Wanted(labels=True)).data.shape == (3, 2, 3)
    some = matlab.read(path, Wanted(labels=True, only=(2,)))
    assert (some.data[:, 0, 0].tolist(), some.numbers) == ([2, 5, 8], (2,))
    film = np.zeros((2, 3, 3, 5), np.uint8)
    assert matlab.read(v5(path, {"x": film}), PLAIN).data.shape == (3, 2, 5, 3)


def test_version_73(tmp_path):
    def build(file):
        group = file.create_group("s")
        group.create_dataset("volume", data=HELD["volume"].T, compression="gzip", chunks=(2, 2, 2))
        mask = group.create_dataset("mask", data=(PICTURE > 3).T.astype(np.uint8))
        mask.attrs["MATLAB_class"] = np.bytes_("logical")
        text = group.create_dataset("text", data=np.zeros((4, 4), np.uint16))
        text.attrs["MATLAB_class"] = np.bytes_("char")
        pairs = np.zeros((3, 2), [("real", "f8"), ("imag", "f8")])
        group.create_dataset("imaginary", data=pairs)
        group.create_group("sparse").attrs["MATLAB_sparse"] = 2
        group["loop"] = group  # a struct within itself

    path = v73(tmp_path / "a.mat", build)
    with pytest.raises(SourceError, match="without end"):
        matlab.read(path, PLAIN)

    def plain(file):
        build(file)
        del file["s/loop"]

    path = v73(tmp_path / "b.mat", plain)
    volume = matlab.read(path, Wanted(part="s.volume"))
    assert np.array_equal(volume.data, HELD["volume"].swapaxes(0, 1))
    assert matlab.read(path, Wanted(part="s.mask")).data[:, 1, 0].tolist() == [1, 1, 1]
    for part, word in (("s.imaginary", "complex"), ("s.sparse", "sparse"), ("s.text", "no array")):
        with pytest.raises(SourceError, match=word):
            matlab.read(path, Wanted(part=part))


def test_nothing_outside_a_version_73_file_is_followed(tmp_path):
    other = tmp_path / "other.h5"
    with h5py.File(other, "w") as file:
        file["x"] = PICTURE
    (tmp_path / "raw").write_bytes(PICTURE.tobytes())

    def build(file):
        file["away"] = h5py.ExternalLink(str(other), "x")
        file["soft"] = h5py.SoftLink("/elsewhere")
        outside = [(str(tmp_path / "raw"), 0, 12)]
        file.create_dataset("raw", (2, 3), "i2", external=outside)
        layout = h5py.VirtualLayout((2, 3), "i2")
        layout[:] = h5py.VirtualSource(str(other), "x", (2, 3))
        file.create_virtual_dataset("virtual", layout)

    path = v73(tmp_path / "a.mat", build)
    for part, word in (("away", "no array"), ("soft", "no array"), ("raw", "other files"),
                       ("virtual", "other files")):  # fmt: skip
        with pytest.raises(SourceError, match=word):
            matlab.read(path, Wanted(part=part))


def test_datasets_larger_than_their_file_are_refused(tmp_path):
    def build(file):
        file.create_dataset("empty", (40_000, 40_000), "f8")
        file.create_dataset("chunked", (40_000, 40_000), "u1", chunks=(1000, 1000))
        file["chunked"][:10, :10] = 1
        packed = file.create_dataset("packed", (40_000, 40_000), "u1", compression="gzip")
        packed[:10, :10] = 1
        file.create_dataset("lzf", data=np.zeros((50, 50)), compression="lzf")

    path = v73(tmp_path / "a.mat", build)
    for part, word in (("empty", "never written"), ("chunked", "is declared"),
                       ("packed", "is declared"), ("lzf", "filter")):  # fmt: skip
        for function in (matlab.read, matlab.measure):
            with pytest.raises(SourceError, match=word):
                function(path, Wanted(part=part))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("shape", "size"), [((2**20, 2**20), 12), ((2**31 - 1, 1), 12), ((2, 3), 2**31), ((-2, 3), 12)]
)
def test_arrays_of_version_5_larger_than_their_file_are_refused(tmp_path, packed, shape, size):
    body = struct.pack("<IIII", 6, 8, 10, 0) + struct.pack("<IIii", 5, 8, *shape)
    body += struct.pack("<HH4s", 1, 1, b"x") + struct.pack("<II", 3, size) + bytes(16)
    element = struct.pack("<II", 14, len(body) if size == 12 else size + 48) + body
    if packed:
        element = zlib.compress(element)
        element = struct.pack("<II", 15, len(element)) + element
    path = tmp_path / "a.mat"
    path.write_bytes(b"MATLAB 5.0".ljust(124) + struct.pack("<H2s", 0x100, b"IM") + element)
    with pytest.raises(SourceError, match=r"cannot be read as a MATLAB file"):
        matlab.read(path, Wanted(part="x"))


def test_structs_within_structs_end(tmp_path):
    """A cell within a cell within a cell ...: SciPy follows them until the stack ends."""
    body = b""
    for _ in range(2000):
        head = struct.pack("<IIII", 6, 8, 1, 0) + struct.pack("<IIii", 5, 8, 1, 1)
        body = head + struct.pack("<II", 1, 0) + body
        body = struct.pack("<II", 14, len(body)) + body
    path = tmp_path / "a.mat"
    path.write_bytes(b"MATLAB 5.0".ljust(124) + struct.pack("<H2s", 0x100, b"IM") + body)
    with pytest.raises(SourceError, match="without end"):
        matlab.read(path, PLAIN)


def test_damage_is_noticed(tmp_path):
    raw = v5(tmp_path / "a.mat", {"x": np.arange(5000.0).reshape(50, 100)}).read_bytes()
    for place in range(200, len(raw), 97):
        broken = bytearray(raw)
        broken[place] ^= 0x55
        (tmp_path / "a.mat").write_bytes(broken)
        with pytest.raises(SourceError):
            matlab.read(tmp_path / "a.mat", PLAIN)


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    folder = tmp_path_factory.mktemp("valid")
    made = [
        v5(folder / "a.mat", packed=False),
        v5(folder / "b.mat"),
        v5(folder / "c.mat", {"image": PICTURE}),
        v73(
            folder / "d.mat", lambda f: f.create_dataset("image", data=PICTURE, compression="gzip")
        ),
    ]
    return folder / "mutated.mat", [path.read_bytes() for path in made]


@settings(max_examples=150, deadline=None)
@given(
    which=st.integers(0, 3),
    place=st.integers(0, 3000),
    put=st.binary(max_size=8) | st.sampled_from([b"\xff" * 4, b"\xff\xff\xff\x7f", bytes(8)]),
    over=st.booleans(),
    keep=st.integers(1, 6000),
    part=st.sampled_from([None, "image", "s.deep.er", "cells.0"]),
)
def test_only_source_errors_come_out(valid, which, place, put, over, keep, part):
    path, files = valid
    raw = files[which]
    place = place % len(raw)
    raw = raw[:place] + put + raw[place + (len(put) if over else 0) :]
    path.write_bytes(raw[:keep] if keep < 3000 else raw)
    for function in (matlab.measure, matlab.read):
        try:
            function(path, Wanted(part=part))
        except SourceError as error:
            assert str(error).startswith(str(path))  # noqa: PT017  another error fails the test
