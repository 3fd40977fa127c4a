"""DICOM as devices write it: compressed, coloured, big endian; damaged, lying about its size."""

import contextlib
import struct
import zlib
from pathlib import Path

import numpy as np
import pydicom
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydicom.data import get_testdata_file
from pydicom.encaps import encapsulate, generate_frames

from medsg_build.errors import SourceError
from medsg_build.formats import dicom
from medsg_build.model import Wanted
from tests.dicom_files import PIXELS, ULTRASOUND, ct, item, made, put_pixels, save, segmentation
from tests.test_format_dicom import CASES, enhanced, read, refused

J2K = "1.2.840.10008.1.2.4.90"
JPEG = "1.2.840.10008.1.2.4.50"


def bundled(name):
    """A file that comes with pydicom."""
    return Path(get_testdata_file(name, download=False))


# Real files


@pytest.mark.parametrize(
    "name",
    [
        "MR_small_RLE", "MR_small_jp2klossless", "MR_small_jpeg_ls_lossless", "MR_small_bigendian",
        "MR_small_implicit", "MR_small_expb", "MR_small_padded",
    ],
)  # fmt: skip
def test_one_picture_in_many_transfer_syntaxes(name):
    plain, other = read(bundled("MR_small.dcm")), read(bundled(f"{name}.dcm"))
    np.testing.assert_array_equal(plain.data, other.data)
    np.testing.assert_array_equal(plain.affine, other.affine)


def test_a_real_ct_slice_in_hounsfield_units():
    volume = read(bundled("CT_small.dcm"))
    assert volume.data.shape == (128, 128, 1)
    assert volume.data.min() == -896  # stored 128 less 1024
    assert volume.affine[:3, 3] == pytest.approx([158.135803, 179.035797, -75.699997])


def test_signed_values_in_an_unsigned_stream():
    volume = read(bundled("J2K_pixelrep_mismatch.dcm"))
    assert volume.data.min() == -2000


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("examples_ybr_color", (320, 240, 30, 3)),
        ("examples_jpeg2k", (640, 480, 1, 3)),
        ("examples_palette", (800, 350, 1, 3)),
        ("SC_rgb_rle_16bit_2frame", (100, 100, 2, 3)),
        ("SC_ybr_full_422_uncompressed", (100, 100, 1, 3)),
        ("SC_rgb_small_odd_big_endian", (3, 3, 1, 3)),
    ],
)
def test_real_colour(name, shape):
    volume = read(bundled(f"{name}.dcm"))
    assert volume.flat
    assert volume.data.shape == shape
    assert volume.data.dtype == np.uint8


@pytest.mark.parametrize("name", ["SC_rgb_jpeg_dcmtk", "SC_rgb_rle", "SC_rgb_dcmtk_+eb+cy+np"])
def test_the_same_bars_in_every_coding_of_colour(name):
    bars = read(bundled(f"{name}.dcm")).data[50, 5::10, 0].astype(int)
    expected = [
        (255, 0, 0), (255, 128, 128), (0, 255, 0), (128, 255, 128), (0, 0, 255), (128, 128, 255),
        (0, 0, 0), (64, 64, 64), (192, 192, 192), (255, 255, 255),
    ]  # fmt: skip
    assert np.abs(bars - expected).max() <= 6  # JPEG is lossy


def test_frames_of_a_compressed_sequence():
    path = bundled("examples_ybr_color.dcm")
    whole, some = read(path), read(path, only=(29, 0))
    np.testing.assert_array_equal(some.data, whole.data[:, :, [29, 0]])


def test_palette_labels_stay_positions():
    volume = read(bundled("examples_palette.dcm"), labels=True)
    assert volume.data.ndim == 3
    assert volume.data.max() <= 255


def test_a_deflated_file():
    assert read(bundled("image_dfl.dcm")).data.shape == (512, 512, 1)


# Missing and failing decoders


def test_a_missing_decoder_names_the_transfer_syntax(tmp_path, monkeypatch):
    from pydicom.pixels.decoders.base import Decoder

    path = CASES / "DI6_series"
    monkeypatch.setattr(Decoder, "is_available", False)
    with pytest.raises(SourceError, match=r"transfer syntax, .*medsg-build\[dicom\]"):
        dicom.read(path, Wanted())
    monkeypatch.undo()
    ds = ct(0)
    ds.file_meta.TransferSyntaxUID = "1.2.840.10008.1.2.4.100"  # MPEG-2
    ds.PixelData = encapsulate([b"\0\0\1\xb3"])
    ds["PixelData"].is_undefined_length = True
    refused(save(ds, tmp_path / "video.dcm"), "transfer syntax", "MPEG2")
    ds.file_meta.TransferSyntaxUID = "2.25.77.1"
    raw = bytearray(save(ct(0), tmp_path / "x.dcm").read_bytes())
    (tmp_path / "y.dcm").write_bytes(
        raw.replace(b"1.2.840.10008.1.2.1\0", b"9.9.9.9.99999.9.9.9\0")
    )
    refused(tmp_path / "y.dcm", "transfer syntax", "one that is not known")


def test_what_no_decoder_can_is_one_line():
    refused(bundled("JPGExtended.dcm"), "JPEG Extended", "cannot be decoded")
    refused(bundled("MR_truncated.dcm"), "truncated")
    refused(bundled("badVR.dcm"), "not DICOM as the standard has it")
    refused(bundled("no_meta.dcm"), "not a DICOM file")


def lossless(tmp_path, change=None):
    """JPEG Lossless in colour, as GDCM wrote it; `change` may spoil its stream."""
    ds = pydicom.dcmread(bundled("SC_rgb_jpeg_gdcm.dcm"))
    if change is not None:
        stream = next(generate_frames(ds.PixelData, number_of_frames=1))
        ds.PixelData = encapsulate([change(stream)])
    return save(ds, tmp_path / "a.dcm")


def test_jpeg_lossless_is_decoded_exactly(tmp_path):
    bars = read(lossless(tmp_path)).data
    np.testing.assert_array_equal(bars, read(bundled("SC_rgb_rle.dcm")).data)


def test_a_stream_that_brings_the_decoder_down_costs_one_file(tmp_path):
    def spoiled(stream):
        at = stream.index(b"Adobe") + 11
        return stream[:at] + b"\x0d" + stream[at + 1 :]  # a colour transform that does not exist

    path = lossless(tmp_path, spoiled)
    refused(path, "cannot be decoded", "JPEG Lossless")
    refused(lossless(tmp_path, lambda stream: stream[:200]), "cannot be decoded")
    assert read(lossless(tmp_path)).data.shape == (100, 100, 1, 3)  # and no other


def test_a_decoder_that_never_ends_is_ended(tmp_path, monkeypatch):
    from medsg_build.formats import dicom_gdcm

    path = lossless(tmp_path)
    monkeypatch.setattr(dicom_gdcm, "PATIENCE", 0.0)
    refused(path, "cannot be decoded")


# Files that lie about their size


def test_declared_sizes_are_held_against_the_file(tmp_path):
    refused(save(ct(0, NumberOfFrames=10**6, Modality="XA"), tmp_path / "a.dcm"), "truncated")
    ds = put_pixels(made(ULTRASOUND, "US"), PIXELS)
    ds.compress("1.2.840.10008.1.2.5", generate_instance_uid=False)
    ds.Rows = ds.Columns = 30_000
    refused(save(ds, tmp_path / "b.dcm"), "not believed")
    ds.NumberOfFrames = 2**31 - 1
    refused(save(ds, tmp_path / "c.dcm"), "not believed")
    with pytest.raises(SourceError, match="not believed"):
        dicom.measure(tmp_path / "c.dcm", Wanted())


def test_a_stream_that_declares_another_size_is_not_decoded(tmp_path):
    ds = ct(0, np.zeros((64, 64), np.uint16))
    ds.compress(J2K, generate_instance_uid=False)
    stream = ds.PixelData
    at = stream.index(b"\xff\x4f\xff\x51") + 8
    ds.PixelData = stream[:at] + struct.pack(">II", 60_000, 60_000) + stream[at + 8 :]
    refused(save(ds, tmp_path / "a.dcm"), "compressed frame is not of the 64x64")
    sof = b"\xff\xd8\xff\xc0\0\x0b\x08" + struct.pack(">HH", 60_000, 60_000) + b"\1\1\x11\0"
    ds = put_pixels(made(ULTRASOUND, "US"), np.zeros((64, 64), np.uint8))
    ds.file_meta.TransferSyntaxUID = JPEG
    ds.PixelData = encapsulate([sof])
    ds["PixelData"].is_undefined_length = True
    refused(save(ds, tmp_path / "b.dcm"), "compressed frame is not of the 64x64")
    ds.PixelData = encapsulate([b"\xff\xd8\xff\xd9"])
    refused(save(ds, tmp_path / "c.dcm"), "compressed frame is not of the 64x64")


def test_a_deflated_bomb_is_not_inflated(tmp_path, monkeypatch):
    from medsg_build.formats import dicom_open

    monkeypatch.setattr(dicom_open, "INFLATED", 2**20)
    raw = save(ct(0), tmp_path / "a.dcm").read_bytes()
    uid, deflated = b"1.2.840.10008.1.2.1\0", b"1.2.840.10008.1.2.1.99\0\0"[:22]
    start = raw.index(b"\2\0\x10\0UI") + 6
    head = raw[:start] + struct.pack("<H", 22) + deflated + raw[start + 2 + len(uid) :]
    length = struct.unpack("<I", head[140:144])[0] + 2
    head = head[:140] + struct.pack("<I", length) + head[144:]
    body = head[144 + length :]
    head = head[: 144 + length]

    def packed(data):
        squeezer = zlib.compressobj(9, wbits=-15)
        return squeezer.compress(data) + squeezer.flush()

    good, bomb = tmp_path / "good.dcm", tmp_path / "bomb.dcm"
    good.write_bytes(head + packed(body))
    assert read(good).data.shape == (4, 3, 1)
    bomb.write_bytes(head + packed(body + bytes(2**22)))
    refused(bomb, "not believed")


def test_an_element_that_claims_four_gigabytes(tmp_path):
    raw = save(ct(0), tmp_path / "a.dcm").read_bytes()
    at = raw.index(b"\xe0\x7f\x10\0OW\0\0") + 8
    lying = tmp_path / "b.dcm"
    lying.write_bytes(raw[:at] + struct.pack("<I", 0xFFFFFFF0) + raw[at + 4 :])
    with contextlib.suppress(SourceError):
        dicom.read(lying, Wanted())


def test_nested_elements_do_not_reach_the_user(tmp_path):
    ds = ct(0, RequestAttributesSequence=[item(PatientComments="x")])
    raw = save(ds, tmp_path / "a.dcm").read_bytes()
    at = raw.index(struct.pack("<HH", 0x0040, 0x0275))
    opened = struct.pack("<HH2sHI", 0x0040, 0x0275, b"SQ", 0, 0xFFFFFFFF)
    opened += struct.pack("<HHI", 0xFFFE, 0xE000, 0xFFFFFFFF)
    for depth in (100, 20_000):
        (tmp_path / "b.dcm").write_bytes(raw[:at] + opened * depth)
        refused(tmp_path / "b.dcm", "not DICOM as the standard has it")


# Any damage


def _seeds(tmp_path_factory):
    folder = tmp_path_factory.mktemp("seeds")
    rle = ct(0)
    rle.compress("1.2.840.10008.1.2.5", generate_instance_uid=False)
    j2k = ct(0, np.arange(1024, dtype=np.uint16).reshape(32, 32))
    j2k.compress(J2K, generate_instance_uid=False)
    rgb = put_pixels(made(ULTRASOUND, "US"), np.zeros((2, 3, 4, 3), np.uint8), "RGB")
    made_here = {"ct": ct(0), "rle": rle, "j2k": j2k, "rgb": rgb, "enhanced": enhanced()}
    raw = [save(ds, folder / name).read_bytes() for name, ds in made_here.items()]
    return raw + [bundled(name).read_bytes() for name in ("SC_rgb_small_odd_jpeg.dcm",)]


@pytest.fixture(scope="session")
def seeds(tmp_path_factory):
    return _seeds(tmp_path_factory)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_damaged_files_raise_nothing_but_source_errors(seeds, tmp_path, data):
    raw = bytearray(data.draw(st.sampled_from(seeds)))
    for at in data.draw(st.lists(st.integers(128, len(raw) - 1), max_size=8)):
        raw[at] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del raw[data.draw(st.integers(132, len(raw))) :]
    path = tmp_path / "a.dcm"
    path.write_bytes(raw)
    for call in (dicom.measure, dicom.read):
        for wanted in (Wanted(), Wanted(labels=True)):
            with contextlib.suppress(SourceError):
                call(path, wanted)


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(garbage=st.binary(max_size=400))
@example(garbage=b"")
def test_garbage_behind_the_magic(tmp_path, garbage):
    path = tmp_path / "a.dcm"
    path.write_bytes(bytes(128) + b"DICM" + garbage)
    with pytest.raises(SourceError, match=r"a\.dcm"):
        dicom.read(path, Wanted())


def test_segmentation_is_no_picture(tmp_path):
    refused(bundled("liver_1frame.dcm"), "is a segmentation, not a picture")
    refused(CASES / "DI8_rtstruct.dcm", "is a segmentation, not a picture")
    ds = segmentation(np.zeros((1, 3, 4)), [item()])
    refused(save(ds, tmp_path / "a.dcm"), "is a segmentation, not a picture")
