"""NIfTI and pictures as they come: well made, odd, damaged, and lying about their size."""

import gzip
import warnings
import zlib
from itertools import pairwise

import nibabel as nib
import numpy as np
import pytest
from PIL import Image

from medsg_build import formats
from medsg_build.errors import SourceError
from medsg_build.model import Wanted

DATA = np.arange(24, dtype=np.int16).reshape(2, 3, 4)


def nifti(data=DATA, affine=None, **header) -> bytearray:
    """A NIfTI-1 file; `header` overrides its fields afterwards, whatever they then say."""
    image = nib.Nifti1Image(data, np.diag([2.0, 3, 4, 1]) if affine is None else affine)
    raw = bytearray(image.to_bytes())
    fields = np.frombuffer(raw, nib.nifti1.header_dtype, 1)
    for name, value in header.items():
        fields[name] = value
    return raw


@pytest.fixture
def saved(tmp_path):
    def save(raw, name="a.nii"):
        path = tmp_path / name
        path.write_bytes(bytes(raw))
        return path

    return save


def same(path, data=DATA):
    volume = formats.read(path)
    np.testing.assert_array_equal(volume.data, data)
    grid = formats.measure(path)
    shape, affine = grid.shape, grid.affine
    assert shape == volume.data.shape[:3]
    np.testing.assert_array_equal(affine, volume.affine)
    return volume


# Containers


def test_plain_and_compressed(saved):
    raw = bytes(nifti())
    same(saved(raw))
    same(saved(gzip.compress(raw), "a.nii.gz"))


def test_the_content_decides_not_the_suffix(saved):
    raw = bytes(nifti())
    same(saved(gzip.compress(raw)))
    same(saved(raw, "a.nii.gz"))
    same(saved(gzip.compress(raw), "UPPER.NII.GZ"))


def test_gzip_of_many_members(saved):
    raw = bytes(nifti(np.zeros((64, 64, 64), np.int16)))
    cuts = [0, 100, 352, 70_000, len(raw)]
    members = [gzip.compress(raw[a:b]) for a, b in pairwise(cuts)]
    same(saved(b"".join(members), "a.nii.gz"), np.zeros((64, 64, 64)))


def test_what_follows_the_voxels_is_left_alone(saved):
    raw = bytes(nifti())
    same(saved(raw + b"more"))
    same(saved(gzip.compress(raw) + bytes(512), "padded.nii.gz"))
    same(saved(gzip.compress(raw + b"more"), "a.nii.gz"))


def test_nifti_2_and_big_endian(saved, tmp_path):
    nib.save(nib.Nifti2Image(DATA, np.eye(4)), tmp_path / "two.nii")
    same(tmp_path / "two.nii")
    header = nib.Nifti1Header(endianness=">")
    header.set_data_dtype(">i2")
    big = nib.Nifti1Image(DATA, np.eye(4), header)
    volume = same(saved(big.to_bytes()))
    assert volume.data.dtype.isnative


NOISE = np.random.default_rng(0).integers(0, 999, (30, 30, 30)).astype(np.int16)


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (b"", "not a NIfTI file"),
        (b"version https://git-lfs.github.com/spec/v1\n", "not a NIfTI file .*begins with b'vers'"),
        (bytes(nifti())[:348], r"truncated: 348 of 400 bytes"),
        (bytes(nifti())[:-1], r"truncated: 399 of 400 bytes"),
        (gzip.compress(bytes(nifti(NOISE)))[:9000], "truncated"),
        (gzip.compress(bytes(nifti()))[:20], "not a NIfTI file"),
        (gzip.compress(bytes(nifti(NOISE)))[:-6], "stream has no end"),
        (b"\x1f\x8b\x08\x00" + b"garbage!" * 20, "cannot be read as gzip"),
        (gzip.compress(bytes(nifti(NOISE)))[:-8] + b"\0" * 8, "cannot be read as gzip"),
    ],
    ids=[
        "empty",
        "pointer",
        "header",
        "short",
        "cut",
        "cut early",
        "no end",
        "garbage",
        "checksum",
    ],
)
def test_damaged_files_are_named(saved, raw, told):
    path = saved(raw, "broken.nii.gz")
    with pytest.raises(SourceError, match=rf"broken\.nii\.gz: .*{told}"):
        formats.read(path)


def test_a_damaged_stream_is_never_believed(saved):
    raw = bytearray(gzip.compress(bytes(nifti(NOISE))))
    for place in range(10, len(raw), 997):
        damaged = raw.copy()
        damaged[place] ^= 0xFF
        path = saved(damaged, f"{place}.nii.gz")
        with pytest.raises(SourceError, match=rf"{place}\.nii\.gz"):
            formats.read(path)


def test_unknown_and_absent_files(tmp_path):
    (tmp_path / "a.bnp").write_bytes(b"?")
    with pytest.raises(SourceError, match=r"a\.bnp: no installed format .* did you mean \.b?[mn]p"):
        formats.read(tmp_path / "a.bnp")
    with pytest.raises(SourceError, match=r"a\.xyz: not found"):
        formats.read(tmp_path / "a.xyz")
    with pytest.raises(SourceError, match=r"a\.nii: not found"):
        formats.read(tmp_path / "a.nii")


# Headers


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("dim", [[3, 2000, 2000, 2000], [3, 32767, 32767, 32767]])
def test_a_lying_header_takes_no_memory(saved, dim, compressed):
    resource = pytest.importorskip("resource")
    raw = bytes(nifti(dim=[*dim, 1, 1, 1, 1]))
    path = saved(gzip.compress(raw) if compressed else raw, "lie.nii.gz")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    limit = resource.getrlimit(resource.RLIMIT_AS)
    # 4 GiB more than is in use: the 15 GiB of the first header cannot even be reserved.
    with open("/proc/self/statm") as file:  # noqa: PTH123
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + 2**32, limit[1]))
    try:
        with pytest.raises(SourceError, match=r"lie\.nii\.gz: .*(truncated|not believed)"):
            formats.read(path)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limit)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**16  # KiB


@pytest.mark.parametrize(
    ("header", "told"),
    [
        ({"dim": [3, -2, 3, 4, 1, 1, 1, 1]}, "array of -2x3x4"),
        ({"dim": [3, 0, 3, 4, 1, 1, 1, 1]}, "array of 0x3x4"),
        ({"dim": [0] * 8}, "one 3D volume"),
        ({"dim": [3, -1, 1, 1, 1, 1, 1, 1]}, "broken NIfTI header"),
        ({"datatype": 1}, "broken NIfTI header"),
        ({"datatype": 9999}, "broken NIfTI header"),
        ({"datatype": 32, "bitpix": 64}, "complex64"),
        ({"magic": b"ni1"}, r"\.hdr/\.img"),
        ({"magic": b"abc"}, "broken NIfTI header"),
        ({"vox_offset": np.nan}, "vox_offset"),
        ({"vox_offset": -400}, "broken NIfTI header"),
        ({"vox_offset": 1e30}, "vox_offset"),
        ({"scl_slope": 2, "scl_inter": np.nan}, "scaling"),
    ],
    ids=str,
)
def test_headers_that_cannot_be_meant(saved, header, told):
    with pytest.raises(SourceError, match=rf"a\.nii: .*{told}"):
        formats.read(saved(nifti(**header)))


def test_an_offset_of_0_is_after_the_header(saved):
    same(saved(nifti(vox_offset=0)))


@pytest.mark.parametrize(("slope", "inter"), [(0, 0), (0, 7), (np.nan, 0), (np.nan, np.nan)])
def test_no_slope_is_no_scaling(saved, slope, inter):
    assert same(saved(nifti(scl_slope=slope, scl_inter=inter))).data.dtype == np.int16


@pytest.mark.parametrize(
    ("slope", "inter", "kind"),
    [(1, -1024, np.int16), (2, 5, np.int16), (3000, 0, np.int32), (0.5, -1024, np.float32)],
)
def test_scaling(saved, slope, inter, kind):
    volume = same(
        saved(nifti(scl_slope=slope, scl_inter=inter)), DATA.astype(float) * slope + inter
    )
    assert volume.data.dtype == kind


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.int16, np.uint32])
def test_scaling_does_not_wrap(saved, kind):
    data = np.array([0, np.iinfo(kind).max], kind).reshape(2, 1, 1)
    volume = formats.read(saved(nifti(data, scl_slope=1, scl_inter=-1000)))
    expected = data.astype(np.float64) - 1000
    np.testing.assert_allclose(volume.data, expected, rtol=1e-7)


def test_axes_of_length_1_are_dropped_and_others_refused(saved):
    same(saved(nifti(DATA[..., None, None])))
    same(saved(nifti(DATA[:, :, :, None, None])))
    same(saved(nifti(DATA[:, :, 0])), DATA[:, :, :1])
    five = np.stack([np.stack([DATA, DATA], axis=3)] * 3, axis=4)
    with pytest.raises(SourceError, match="array of 2x3x4x2x3; one 3D volume, or several"):
        formats.read(saved(nifti(five)))


def test_one_volume_of_several_is_asked_for(saved):
    path = saved(nifti(np.stack([DATA, DATA + 100], axis=3)))
    for part, expected in ((0, DATA), (1, DATA + 100)):
        volume = formats.read(path, Wanted(part=part))
        np.testing.assert_array_equal(volume.data, expected)
        assert formats.measure(path, Wanted(part=part)).shape == DATA.shape
    for function in (formats.read, formats.measure):
        with pytest.raises(SourceError, match=r"holds 2 volumes .* layout\.parts"):
            function(path)
        with pytest.raises(SourceError, match=r"has no part 2; it holds 2, counted from 0"):
            function(path, Wanted(part=2))


@pytest.mark.parametrize("kind", [nib.Nifti1Pair, nib.Nifti2Pair])
def test_a_pair_of_header_and_voxels(tmp_path, kind):
    affine = np.diag([2.0, 3, 4, 1])
    affine[:3, 3] = 5, 6, 7
    nib.save(kind(DATA, affine), tmp_path / "a.img")
    for name in ("a.hdr", "a.img"):
        volume = formats.read(tmp_path / name)
        np.testing.assert_array_equal(volume.data, DATA)
        np.testing.assert_allclose(volume.affine, affine)
        assert formats.files(tmp_path / name) == (tmp_path / "a.hdr", tmp_path / "a.img")
    (tmp_path / "a.img").unlink()
    with pytest.raises(SourceError, match=r"a\.hdr: its \.img is missing"):
        formats.read(tmp_path / "a.hdr")


def test_analyze_is_read_as_nibabel_reads_it(tmp_path):
    nib.save(nib.Spm2AnalyzeImage(DATA, np.diag([-2.0, 3, 4, 1])), tmp_path / "a.img")
    (tmp_path / "a.mat").unlink()  # SPM's own place for an affine, lost by most who pass files on
    volume = formats.read(tmp_path / "a.hdr")
    loaded = nib.load(tmp_path / "a.hdr")
    np.testing.assert_array_equal(volume.data, np.asarray(loaded.dataobj))
    np.testing.assert_allclose(volume.affine, loaded.affine)
    assert "tells no orientation" in volume.notes[0]


def test_the_voxels_of_a_pair_must_all_be_there(tmp_path):
    nib.save(nib.Nifti1Pair(DATA, np.eye(4)), tmp_path / "a.img")
    raw = (tmp_path / "a.img").read_bytes()
    (tmp_path / "a.img").write_bytes(raw[:-1])
    with pytest.raises(SourceError, match=r"a\.img: truncated"):
        formats.read(tmp_path / "a.hdr")


def test_colour(saved):
    data = np.zeros((2, 3, 4), [("R", "u1"), ("G", "u1"), ("B", "u1")])
    data["G"] = 7
    volume = formats.read(saved(nib.Nifti1Image(data, np.eye(4)).to_bytes()))
    assert volume.data.shape == (2, 3, 4, 3)
    assert volume.data[1, 2, 3].tolist() == [0, 7, 0]


# The header's orientations


def test_qform_alone_is_used(saved):
    raw = nifti(sform_code=0, qform_code=1, srow_x=0, srow_y=0, srow_z=0)
    np.testing.assert_allclose(same(saved(raw)).affine, np.diag([2, 3, 4, 1]))


def test_no_code_at_all_means_the_first_axis_runs_left(saved):
    volume = same(saved(nifti(sform_code=0, qform_code=0)))
    assert nib.aff2axcodes(volume.affine) == ("L", "A", "S")
    assert volume.spacing == (2, 3, 4)
    assert volume.notes == (
        "a.nii: no orientation in the header; its first axis taken to run left",
    )


def test_sform_wins_and_a_disagreement_is_told(saved):
    agreeing = nifti(sform_code=1, qform_code=1)
    assert same(saved(agreeing)).notes == ()
    turned = nifti(sform_code=1, qform_code=1, quatern_d=1)  # half a turn about the long axis
    volume = same(saved(turned))
    np.testing.assert_allclose(volume.affine, np.diag([2, 3, 4, 1]))
    assert volume.notes == ("a.nii: sform and qform disagree, sform used",)
    broken = nifti(sform_code=1, qform_code=1, quatern_b=5)
    assert same(saved(broken)).notes == ("a.nii: qform is broken, sform used",)


# Pictures

GREY = np.array([[0, 50, 100], [150, 200, 250]], np.uint8)  # 2 rows, 3 columns


@pytest.fixture
def drawn(tmp_path):
    def draw(picture, name="a.png", **options):
        if not isinstance(picture, Image.Image):
            picture = Image.fromarray(picture)
        picture.save(tmp_path / name, **options)
        return tmp_path / name

    return draw


def seen(path, labels=False):
    """Rows and columns, as one looks at it."""
    volume = formats.read(path, Wanted(labels=labels))
    assert volume.flat
    assert formats.measure(path).shape == volume.data.shape[:3]
    return volume.data[:, :, 0].swapaxes(0, 1)


@pytest.mark.parametrize("name", ["a.png", "a.bmp", "a.tif"])
def test_grey_keeps_its_values(drawn, name):
    np.testing.assert_array_equal(seen(drawn(GREY, name)), GREY)


@pytest.mark.parametrize("kind", ["<u2", ">u2"])
@pytest.mark.parametrize("labels", [False, True])
def test_16_bits_keep_their_values(drawn, kind, labels):
    data = (GREY.astype(np.uint16) * 200).astype(kind)
    for name in ("a.tif",) if kind == ">u2" else ("a.tif", "a.png"):
        found = seen(drawn(data, name), labels)
        np.testing.assert_array_equal(found, data)
        assert found.dtype.isnative


def test_colour_and_transparency(drawn):
    colour = np.dstack([GREY, GREY // 2, GREY // 3])
    np.testing.assert_array_equal(seen(drawn(colour)), colour)
    np.testing.assert_array_equal(seen(drawn(np.dstack([colour, GREY]))), colour)


def palette():
    picture = Image.fromarray(np.array([[0, 1, 2], [3, 1, 0]], np.uint8), "P")
    picture.putpalette([0, 0, 0, 90, 90, 90, 90, 90, 90, 255, 0, 0])  # 1 and 2 look alike
    return picture


def test_a_palette_is_colour_for_a_picture_and_labels_for_a_mask(drawn):
    path = drawn(palette())
    assert seen(path, labels=True).tolist() == [[0, 1, 2], [3, 1, 0]]
    assert seen(path)[1, 0].tolist() == [255, 0, 0]


def test_two_levels(drawn):
    path = drawn(Image.fromarray(GREY > 100))
    assert seen(path, labels=True).tolist() == [[0, 0, 0], [1, 1, 1]]
    assert seen(path).tolist() == [[0, 0, 0], [255, 255, 255]]


def test_a_mask_in_colour_has_a_label_for_each_colour(drawn):
    colours = np.zeros((2, 3, 3), np.uint8)
    colours[0, 0], colours[0, 1:], colours[1, 2] = (255, 0, 0), (0, 130, 0), (0, 0, 255)
    volume = formats.read(drawn(colours), Wanted(labels=True))
    assert set(volume.names) == {"#ff0000", "#008200", "#0000ff"}  # the first two are equally grey
    found = volume.data[:, :, 0].T
    assert (found == volume.names["#ff0000"]).tolist() == [[True, False, False], [False] * 3]
    assert (found == volume.names["#008200"]).sum() == 2
    assert min(volume.names.values()) > 255  # no number of a recipe means a colour by chance
    assert "#ff0000" in volume.notes[0]


def test_grey_saved_in_three_channels_stays_grey(drawn):
    assert seen(drawn(np.dstack([GREY] * 3)), labels=True).tolist() == GREY.tolist()


def test_what_is_not_clear_is_labelled(drawn):
    picture = np.zeros((2, 2, 4), np.uint8)
    picture[..., 0] = 200
    picture[0, 0, 3] = 255
    volume = formats.read(drawn(picture), Wanted(labels=True))
    assert volume.data[:, :, 0].tolist() == [[1, 0], [0, 0]]
    assert "transparent" in volume.notes[0]


def test_a_smoothed_mask_in_colour_is_refused(drawn):
    rng = np.random.default_rng(0)
    with pytest.raises(SourceError, match=r"a\.png: a mask of \d+ colours; .* save it as PNG"):
        formats.read(drawn(rng.integers(0, 255, (30, 30, 3)).astype(np.uint8)), Wanted(labels=True))


@pytest.mark.parametrize("name", ["a.jpg", "a.tif", "a.png"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_turns_the_picture_once(drawn, orientation, name):
    upright = np.full((48, 32), 20, np.uint8)
    upright[:16, :16] = 220  # top left
    stored = {
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.T,
        6: np.rot90(upright),
        7: np.rot90(upright.T, 2),
        8: np.rot90(upright, -1),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"tiffinfo": {0x0112: orientation}} if name == "a.tif" else {"exif": exif}
    found = seen(drawn(np.ascontiguousarray(stored), name, **options))
    np.testing.assert_allclose(found, upright, atol=6)


def test_a_jpeg_mask_is_cut_at_half_or_refused(drawn):
    mask = np.zeros((40, 40), np.uint8)
    mask[10:30, 5:33] = 255
    path = drawn(mask, "m.jpg", quality=60)
    np.testing.assert_array_equal(seen(path, labels=True), mask)
    assert formats.read(path, Wanted(labels=True)).notes == ("m.jpg: lossy mask cut at half grey",)
    mask[:10] = 120
    with pytest.raises(SourceError, match=r"several\.jpg: a JPEG mask .* lossy"):
        formats.read(drawn(mask, "several.jpg"), Wanted(labels=True))


@pytest.mark.parametrize("name", ["a.tif", "a.gif"])
def test_pages_are_frames(drawn, name):
    pages = [Image.fromarray(GREY), Image.fromarray(GREY[::-1].copy())]
    path = drawn(pages[0], name, save_all=True, append_images=pages[1:])
    volume = formats.read(path)
    assert formats.measure(path).shape == volume.data.shape[:3] == (3, 2, 2)
    for wanted in (Wanted(part=1), Wanted(only=(1,))):
        found = formats.read(path, wanted).data[:, :, 0].swapaxes(0, 1)
        np.testing.assert_array_equal(found if found.ndim == 2 else found[..., 0], GREY[::-1])
    with pytest.raises(SourceError, match=f"{name}: has no part 2"):
        formats.read(path, Wanted(part=2))


@pytest.mark.parametrize("name", ["a.png", "a.jpg", "a.tif", "a.bmp"])
def test_damaged_pictures_are_named(drawn, name):
    path = drawn(np.random.default_rng(0).integers(0, 255, (40, 40)).astype(np.uint8), name)
    raw = path.read_bytes()
    for damaged in (b"", b"not a picture", raw[: len(raw) // 2], raw[:20]):
        path.write_bytes(damaged)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns before it fails
            with pytest.raises(SourceError, match=rf"{path.name}: cannot be"):
                formats.read(path)


def test_a_picture_that_declares_too_much_is_refused(saved):
    header = (
        b"\x89PNG\r\n\x1a\n" + b"\0\0\0\rIHDR" + (60000).to_bytes(4, "big") * 2 + b"\x08\0\0\0\0"
    )
    path = saved(header + zlib.crc32(header[12:]).to_bytes(4, "big") + b"\0" * 8, "huge.png")
    with pytest.raises(SourceError, match=r"huge\.png"):
        formats.read(path)


def test_odd_names(tmp_path):
    path = tmp_path / "IM6 données 患者" / "coupe é 第1.png"
    path.parent.mkdir()
    Image.fromarray(GREY).save(path)
    np.testing.assert_array_equal(seen(path), GREY)
