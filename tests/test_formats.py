"""Each reader: what it returns, and one clear error for a file that lies."""

import gzip
import struct
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from PIL import Image

from medsg_build import formats
from medsg_build.errors import SourceError
from medsg_build.regions import whole

DATA = np.arange(4 * 5 * 6, dtype=np.int16).reshape(4, 5, 6)
AFFINE = np.array([[-2.0, 0, 0, 9], [0, 3, 0, -4], [0, 0, 4, 5], [0, 0, 0, 1]])


def saved(path: Path, data: np.ndarray = DATA, kind=nib.Nifti1Image) -> Path:
    nib.save(kind(data, AFFINE), path)
    return path


@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz", "Upper.NII.GZ"])
@pytest.mark.parametrize("kind", [nib.Nifti1Image, nib.Nifti2Image])
def test_nifti(tmp_path, name, kind):
    path = tmp_path / name
    path.write_bytes(
        gzip.compress(kind(DATA, AFFINE).to_bytes())
        if name.lower().endswith("gz")
        else kind(DATA, AFFINE).to_bytes()
    )
    held = formats.read(path)
    assert np.array_equal(held.data, DATA)
    assert held.data.dtype == np.int16
    assert np.array_equal(held.affine, AFFINE)
    assert held.spacing == (2, 3, 4)
    shape, affine = formats.measure(path)
    assert shape == (4, 5, 6)
    assert np.array_equal(affine, AFFINE)


@pytest.mark.parametrize(
    ("slope", "inter", "expected"),
    [(1, -1024, DATA - 1024), (2, 3, DATA * 2 + 3), (0.5, 1, DATA * 0.5 + 1), (0, 7, DATA),
     (float("nan"), 0, DATA), (1000, -5, DATA.astype(int) * 1000 - 5)],
)  # fmt: skip
def test_scaling(tmp_path, slope, inter, expected):
    raw = bytearray(nib.Nifti1Image(DATA, AFFINE).to_bytes())
    struct.pack_into("<ff", raw, 112, slope, inter)
    (tmp_path / "a.nii").write_bytes(raw)
    assert np.array_equal(formats.read(tmp_path / "a.nii").data, expected)


def test_big_endian(tmp_path):
    header = nib.Nifti1Header(endianness=">")
    header.set_data_dtype(np.dtype(">i2"))
    nib.save(nib.Nifti1Image(DATA.astype(">i2"), AFFINE, header), tmp_path / "a.nii")
    held = formats.read(tmp_path / "a.nii")
    assert np.array_equal(held.data, DATA)
    assert held.data.dtype.isnative


def test_gzip_of_several_members(tmp_path):
    raw = nib.Nifti1Image(DATA, AFFINE).to_bytes()
    parts = [raw[:100], raw[100:400], raw[400:]]
    (tmp_path / "a.nii.gz").write_bytes(b"".join(gzip.compress(part) for part in parts))
    assert np.array_equal(formats.read(tmp_path / "a.nii.gz").data, DATA)


def test_a_trailing_axis_of_one_is_dropped(tmp_path):
    assert formats.read(saved(tmp_path / "a.nii.gz", DATA[..., None])).data.shape == (4, 5, 6)


def lying(raw: bytes) -> bytes:
    out = bytearray(raw[:352])
    struct.pack_into("<8h", out, 40, 3, 32767, 32767, 32767, 1, 1, 1, 1)
    return bytes(out) + b"abc"


WHOLE = nib.Nifti1Image(DATA, AFFINE).to_bytes()
BROKEN = {
    "empty": (b"", "not a NIfTI file"),
    "pointer": (b"version https://git-lfs.github.com/spec/v1\n", "not a NIfTI file"),
    "header only": (WHOLE[:352], r"truncated: 352 of 592 bytes"),
    "cut": (WHOLE[:500], "truncated: 500 of 592"),
    "lies": (lying(WHOLE), "32767x32767x32767 voxels, .* not believed"),
    "4D": (nib.Nifti1Image(np.zeros((2, 2, 2, 3), np.int16), AFFINE).to_bytes(), "2x2x2x3"),
    "cut gzip": (gzip.compress(WHOLE)[:60], "not a NIfTI file|truncated|gzip"),
    "bad gzip": (b"\x1f\x8b" + b"nonsense" * 9, "gzip"),
}


@pytest.mark.parametrize(("raw", "told"), BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("name", ["a.nii", "a.nii.gz"])
def test_a_broken_nifti_is_one_clear_error(tmp_path, raw, told, name):
    (tmp_path / name).write_bytes(raw)
    with pytest.raises(SourceError, match=told) as error:
        formats.read(tmp_path / name)
    assert name in str(error.value)
    assert "\n" not in str(error.value)


def test_what_no_format_reads_and_what_is_missing(tmp_path):
    (tmp_path / "a.xyz").write_bytes(b"")
    with pytest.raises(SourceError, match="no installed format"):
        formats.read(tmp_path / "a.xyz")
    with pytest.raises(SourceError, match="not found"):
        formats.read(tmp_path / "b.nii")


def test_pictures_are_volumes_of_one_slice(tmp_path):
    grey = np.arange(12, dtype=np.uint8).reshape(3, 4)
    Image.fromarray(grey).save(tmp_path / "g.png")
    held = formats.read(tmp_path / "g.png")
    assert held.flat
    assert np.array_equal(held.data[:, :, 0], grey.T)  # (x, y, 1)
    Image.fromarray(np.stack([grey] * 3, -1)).save(tmp_path / "c.png")
    assert formats.read(tmp_path / "c.png").data.shape == (4, 3, 1, 3)


def test_sixteen_bits_and_transparency(tmp_path):
    deep = (np.arange(12).reshape(3, 4) * 5000).astype(np.uint16)
    Image.fromarray(deep).save(tmp_path / "d.png")
    assert formats.read(tmp_path / "d.png").data.max() == 55000
    Image.new("RGBA", (4, 3), (10, 20, 30, 40)).save(tmp_path / "t.png")
    assert formats.read(tmp_path / "t.png").data.shape == (4, 3, 1, 3)


def test_a_palette_mask_gives_its_indices(tmp_path):
    indices = np.array([[0, 1, 2], [2, 1, 0]], np.uint8)
    picture = Image.fromarray(indices)
    picture.putpalette([0, 0, 0, 255, 0, 0, 0, 255, 0])
    picture.save(tmp_path / "p.png")
    assert np.array_equal(formats.read(tmp_path / "p.png", labels=True).data[:, :, 0], indices.T)


def test_a_coloured_mask_is_refused(tmp_path):
    Image.new("RGB", (4, 3), (255, 0, 0)).save(tmp_path / "m.png")
    with pytest.raises(SourceError, match=r"m\.png: a mask in colour"):
        formats.read(tmp_path / "m.png", labels=True)


def test_exif_turns_reading_and_measuring_alike(tmp_path):
    picture = Image.new("RGB", (8, 4))
    exif = picture.getexif()
    exif[0x0112] = 6
    picture.save(tmp_path / "e.jpg", exif=exif)
    assert formats.read(tmp_path / "e.jpg").data.shape[:2] == (4, 8)
    assert formats.measure(tmp_path / "e.jpg")[0] == (4, 8, 1)


@pytest.mark.parametrize("raw", [b"", b"GIF87a", b"\x89PNG\r\n\x1a\n" + b"x" * 40])
def test_a_broken_picture_is_one_clear_error(tmp_path, raw):
    (tmp_path / "b.png").write_bytes(raw)
    with pytest.raises(SourceError, match=r"b\.png"):
        formats.read(tmp_path / "b.png")


@pytest.mark.parametrize(
    ("values", "told"),
    [([0.5], "not whole numbers"), ([-1.0], "from -1 to"), ([70000.0], "to 70000"),
     ([np.nan], "NaN")],
)  # fmt: skip
def test_what_is_no_label_map_is_refused(values, told):
    with pytest.raises(SourceError, match=told):
        whole(np.array(values).reshape(1, 1, 1), "m.nii")


def test_label_values_are_kept_apart():
    data = np.array([0.9999, 256, 257, 300]).reshape(2, 2, 1)
    assert whole(data, "m").ravel().tolist() == [1, 256, 257, 300]
