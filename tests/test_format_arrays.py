"""Arrays of NumPy: which axis is what, and that no header is believed."""

import io
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medsg_build.errors import SourceError
from medsg_build.formats import arrays
from medsg_build.model import Wanted

PLAIN, LABELS = Wanted(), Wanted(labels=True)
PICTURE = np.array([[1, 2, 3], [4, 5, 6]], np.int16)  # two rows, three columns


def saved(path, values):
    np.save(path, values)
    return path


def header(shape, descr="<i2"):
    """The header of a .npy, whatever follows it."""
    out = io.BytesIO()
    told = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_2_0(out, told)
    return out.getvalue()


def test_rows_run_down_and_columns_to_the_right(tmp_path):
    for values in (PICTURE, np.asfortranarray(PICTURE), PICTURE[:, :, None], PICTURE.astype(">i2")):
        volume = arrays.read(saved(tmp_path / "a.npy", values), PLAIN)
        assert volume.data[:, :, 0].tolist() == [[1, 4], [2, 5], [3, 6]]  # data[x, y]
        assert (volume.flat, volume.notes, volume.data.dtype.isnative) == (True, (), True)
        assert arrays.measure(tmp_path / "a.npy", PLAIN).shape == (3, 2, 1)


def test_three_axes_are_frames_rows_columns(tmp_path):
    path = saved(tmp_path / "a.npy", np.stack([PICTURE, PICTURE + 10, PICTURE + 20, PICTURE]))
    volume = arrays.read(path, PLAIN)
    assert volume.data.shape == arrays.measure(path, PLAIN).shape == (3, 2, 4)
    assert volume.data[2, 0, 1] == 13
    assert volume.notes == ("a.npy: its first axis taken as frames",)
    some = arrays.read(path, Wanted(only=(2, 0)))
    assert (some.data[0, 0].tolist(), some.numbers) == ([21, 1], (2, 0))
    with pytest.raises(SourceError, match="has 4 frames"):
        arrays.read(path, Wanted(only=(4,)))


def test_a_last_axis_of_three_bytes_is_colour(tmp_path):
    values = np.arange(2 * 4 * 3, dtype=np.uint8).reshape(2, 4, 3)
    volume = arrays.read(saved(tmp_path / "a.npy", values), PLAIN)
    assert np.array_equal(volume.data[:, :, 0], values.swapaxes(0, 1))
    assert arrays.measure(tmp_path / "a.npy", PLAIN).shape == (4, 2, 1)
    with pytest.raises(SourceError, match="in colour"):
        arrays.read(tmp_path / "a.npy", LABELS)
    film = arrays.read(saved(tmp_path / "b.npy", values[None].repeat(5, 0)), PLAIN)
    assert film.data.shape == (4, 2, 5, 3)
    # Three columns of other numbers are no colour.
    grey = arrays.read(saved(tmp_path / "c.npy", values.astype(np.int16)), PLAIN)
    assert grey.data.shape == (3, 4, 2)


@pytest.mark.parametrize(("kind", "out"), [("?", "u1"), ("f2", "f4"), ("f8", "f8"), ("u8", "u8")])
def test_types(tmp_path, kind, out):
    assert arrays.read(saved(tmp_path / "a.npy", PICTURE.astype(kind)), PLAIN).data.dtype == out


def test_a_large_array_is_mapped_not_read(tmp_path):
    path = tmp_path / "a.npy"
    path.write_bytes(header((4000, 100_000)))
    with path.open("r+b") as file:
        file.truncate(len(header((4000, 100_000))) + 2 * 4000 * 100_000)  # holes, no blocks
    data = arrays.read(path, PLAIN).data
    while data.base is not None and not isinstance(data, np.memmap):
        data = data.base
    assert isinstance(data, np.memmap)


def test_members_of_an_npz_are_named(tmp_path):
    path = tmp_path / "a.npz"
    for save in (np.savez, np.savez_compressed):
        save(path, image=PICTURE, mask=PICTURE > 3)
        assert arrays.read(path, Wanted(part="image")).data[2, 1, 0] == 6
        assert arrays.read(path, Wanted(part="mask.npy")).data[:, 1, 0].tolist() == [1, 1, 1]
        assert arrays.measure(path, Wanted(part="mask")).shape == (3, 2, 1)
        for part in (None, "other", 0):
            with pytest.raises(SourceError, match=r"2 arrays \(image, mask\); parts in"):
                arrays.read(path, Wanted(part=part))
    np.savez(path, PICTURE)
    assert arrays.read(path, PLAIN).data.shape == (3, 2, 1)


@pytest.mark.parametrize(
    ("shape", "kind", "word"),
    [
        ((64, 64), "<i2", "truncated"),
        ((2**31, 2**31), "<i2", "not believed"),
        ((2**31, 4), "<i2", "truncated"),
        ((0, 3), "<i2", "not believed"),
        ((-2, -1), "<i2", "not believed"),
        ((1, 1), "|O", "plain numbers"),
        ((1, 1), "<c8", "plain numbers"),
        ((1, 1), "<f16", "plain numbers"),
        ((1, 1), "<U4", "plain numbers"),
    ],
)
def test_headers_that_are_not_believed(tmp_path, shape, kind, word):
    path, packed = tmp_path / "a.npy", tmp_path / "a.npz"
    path.write_bytes(header(shape, kind) + b"abc")
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", path.read_bytes())
    for function in (arrays.read, arrays.measure):
        for there in (path, packed):
            with pytest.raises(SourceError, match=word):
                function(there, PLAIN)


def test_what_is_no_picture(tmp_path):
    for values in (np.zeros(3), np.zeros((2, 2, 2, 2)), np.array(1), np.array([[{}]])):
        path = saved(tmp_path / "a.npy", values)
        with pytest.raises(SourceError, match="expected"):
            arrays.read(path, PLAIN)
    with pytest.raises(SourceError, match=r"parts are for \.npz"):
        arrays.read(saved(tmp_path / "a.npy", PICTURE), Wanted(part=0))


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    folder = tmp_path_factory.mktemp("valid")
    np.save(folder / "a.npy", PICTURE)
    np.savez(folder / "a.npz", PICTURE)
    np.savez_compressed(folder / "b.npz", PICTURE)
    return folder, [(p.suffix, p.read_bytes()) for p in sorted(folder.iterdir())]


@settings(max_examples=150, deadline=None)
@given(
    which=st.integers(0, 2),
    place=st.integers(0, 400),
    put=st.binary(max_size=8) | st.sampled_from([b"99999999999", b"\x00\x00", b"((((", b"|O"]),
    over=st.booleans(),
    keep=st.integers(1, 1000),
)
def test_only_source_errors_come_out(valid, which, place, put, over, keep):
    folder, files = valid
    suffix, raw = files[which]
    path = folder / f"mutated{suffix}"
    raw = raw[:place] + put + raw[place + (len(put) if over else 0) :]
    path.write_bytes(raw[:keep] if keep < 600 else raw)
    for function in (arrays.measure, arrays.read):
        try:
            function(path, PLAIN)
        except SourceError as error:
            assert str(error).startswith(str(path))  # noqa: PT017  another error fails the test
