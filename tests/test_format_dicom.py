"""DICOM pictures: how slices become a volume, and what is refused rather than guessed."""

import json
import pickle
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from pydicom.data import get_testdata_file

from medsg_build.errors import SourceError
from medsg_build.formats import dicom
from medsg_build.model import Wanted
from tests.dicom_files import (
    ENHANCED_CT,
    PIXELS,
    ULTRASOUND,
    ct,
    frame_at,
    item,
    made,
    put_pixels,
    save,
    sequence,
    shared,
)

CASES = Path(__file__).parents[2] / "shared" / "cases" / "dicom"
EXPECTED = {case["id"]: case for case in json.loads((CASES / "expected.json").read_text())["cases"]}


def read(path, **wanted):
    """What the file holds, after a look that the header alone tells the same."""
    volume = dicom.read(path, Wanted(**wanted))
    grid = dicom.measure(path, Wanted(**wanted))
    if wanted.get("only") is None:
        assert grid.shape == volume.data.shape[:3]
    np.testing.assert_array_equal(grid.affine, volume.affine)
    assert grid.flat == volume.flat
    if not volume.flat:
        np.testing.assert_allclose(volume.spacing, np.linalg.norm(volume.affine[:3, :3], axis=0))
    return volume


def refused(path, *words, **wanted):
    """The message of the refusal: the same from header and pixels, with all `words`, no names."""
    with pytest.raises(SourceError) as caught:
        dicom.read(path, Wanted(**wanted))
    message = str(caught.value)
    for word in (path.name, *words):
        assert word in message
    for secret in ("Doe", "SECRET", "2.25."):
        assert secret not in message
    assert str(pickle.loads(pickle.dumps(caught.value))) == message
    return message


def series(folder, slices):
    for number, ds in enumerate(slices):
        save(ds, folder / f"{number:03d}.dcm")
    return folder


def ras(volume):
    """The voxels in the order R, A, S, as nibabel turns them."""
    return nib.as_closest_canonical(nib.Nifti1Image(volume.data, volume.affine)).get_fdata()


# The shared cases


@pytest.mark.parametrize("name", ["DI1", "DI3", "DI6"])
def test_series_of_the_shared_cases(name):
    volume = read(CASES / f"{name}_series")
    assert volume.data.dtype == np.int16  # whole slopes and intercepts stay exact
    turned = ras(volume)
    checks = EXPECTED[name].get("checks") or EXPECTED[name]["any_of"][0]
    for check in checks:
        if check["type"] == "voxel":
            assert turned[tuple(check["ras_index"])] == check["value"]
        if check["type"] == "volume_shape_ras":
            assert turned.shape == tuple(check["shape"])
            assert volume.spacing == tuple(check["spacing_mm"])


@pytest.mark.parametrize(
    ("name", "mask"), [("DI1", "mask_for_series"), ("DI6", "DI6_mask"), ("DI3", "mask_for_series")]
)
def test_the_masks_of_the_shared_cases_lie_on_their_series(name, mask):
    volume = read(CASES / f"{name}_series")
    image = nib.as_closest_canonical(nib.load(CASES / f"{mask}.nii.gz"))
    turned = nib.as_closest_canonical(nib.Nifti1Image(volume.data, volume.affine))
    np.testing.assert_allclose(turned.affine, image.affine, atol=1e-6)
    assert turned.get_fdata()[image.get_fdata() > 0].min() > turned.get_fdata().min()


def test_monochrome1_is_inverted_and_says_so():
    volume = read(CASES / "DI2_mono1.dcm")
    mask = np.zeros((112, 112), bool)
    mask[20:50, 30:60] = True
    assert volume.flat
    assert volume.data[mask].min() > volume.data[~mask].max()  # the block is the brightest part
    assert volume.data.max() == 65535 - 200
    assert volume.notes == ("DI2_mono1.dcm: MONOCHROME1 (the smallest value is white): inverted",)
    assert read(CASES / "DI2_mono1.dcm", labels=True).data.min() == 200  # labels are left alone


def test_a_missing_slice_is_refused_with_its_place():
    message = refused(CASES / "DI4_series", "missing slice", "gap", "between 10 and 14 mm")
    with pytest.raises(SourceError) as caught:
        dicom.measure(CASES / "DI4_series", Wanted())
    assert str(caught.value) == message


def test_two_phases_need_a_choice():
    folder = CASES / "DI5_series"
    refused(folder, "duplicate positions", "phase", "acquisition", "AcquisitionNumber")
    refused(folder, "no 2", part=2)
    first, second = read(folder, part=0), read(folder, part=1)
    assert first.data.shape == (28, 28, 14)
    np.testing.assert_array_equal(first.data + 500, second.data)
    np.testing.assert_array_equal(first.data, read(CASES / "DI1_series").data)
    assert first.notes == ("DI5_series: phase 0 of 2, told apart by AcquisitionNumber",)


# Geometry


def test_index_to_ras_is_worked_out_by_hand(tmp_path):
    volume = read(series(tmp_path / "s", [ct(0), ct(1), ct(2)]))
    # LPS (-10, -20, 0) is RAS (10, 20, 0); a column runs to the left, a row to the back.
    expected = [[-0.25, 0, 0, 10], [0, -0.5, 0, 20], [0, 0, 2, 0], [0, 0, 0, 1]]
    np.testing.assert_allclose(volume.affine, expected)
    assert volume.spacing == (0.25, 0.5, 2.0)
    assert volume.data.shape == (4, 3, 3)  # columns, rows, slices
    np.testing.assert_array_equal(volume.data[:, :, 1], PIXELS.T)
    np.testing.assert_array_equal(volume.stored, np.eye(4))


def test_order_is_by_position_whatever_names_and_numbers_say(tmp_path):
    for name, number in (("a", 2), ("b", 0), ("c", 1)):
        save(ct(number, PIXELS + number, InstanceNumber=9 - number), tmp_path / f"{name}.dcm")
    assert read(tmp_path).data[0, 0].tolist() == [100, 101, 102]


@pytest.mark.parametrize(
    ("turned", "normal"),
    [
        ([1, 0, 0, 0, 1, 0], [0, 0, 1]),  # axial
        ([1, 0, 0, 0, 0, -1], [0, 1, 0]),  # coronal
        ([0, 1, 0, 0, 0, -1], [-1, 0, 0]),  # sagittal
        ([-1, 0, 0, 0, 1, 0], [0, 0, -1]),  # turned over
        ([0.8, 0.6, 0, 0, 0, -1], [-0.6, 0.8, 0]),  # oblique
    ],
)
def test_slices_rise_along_their_normal(tmp_path, turned, normal):
    slices = [
        ct(n, PIXELS + n, ImageOrientationPatient=turned,
           ImagePositionPatient=(np.array(normal) * 3.0 * n).tolist())
        for n in (2, 0, 1)
    ]  # fmt: skip
    volume = read(series(tmp_path / "s", slices))
    assert volume.data[0, 0].tolist() == [100, 101, 102]
    lps = np.diag([-1, -1, 1, 1]) @ volume.affine
    np.testing.assert_allclose(lps[:3, 2], np.array(normal) * 3.0)
    np.testing.assert_allclose(lps[:3, 0], np.array(turned[:3]) * 0.25)
    np.testing.assert_allclose(lps[:3, 1], np.array(turned[3:]) * 0.5)


def test_gantry_tilt_shears_the_affine_and_is_told(tmp_path):
    slices = [ct(n, ImagePositionPatient=[-10, -20 + 0.5 * n, 2 * n]) for n in range(4)]
    volume = read(series(tmp_path / "s", slices))
    np.testing.assert_allclose(volume.affine[:3, 2], [0, -0.5, 2])
    assert volume.notes == ("s: gantry tilt 14.0 degrees; slices sheared, not resampled",)


def test_rounding_of_positions_is_no_gap(tmp_path):
    slices = [ct(n, ImagePositionPatient=[-10, -20, round(1.0 / 3 * n, 2)]) for n in range(9)]
    assert read(series(tmp_path / "s", slices)).data.shape == (4, 3, 9)


def test_steps_that_change_and_stations_are_refused(tmp_path):
    heights = [0, 2, 4, 7, 10]
    slices = [ct(n, ImagePositionPatient=[-10, -20, z]) for n, z in enumerate(heights)]
    refused(series(tmp_path / "steps", slices), "gap", "3 mm between 4 and 7 mm")
    slices = [ct(n, ImagePositionPatient=[-10 + 40 * (n > 2), -20, 2 * n]) for n in range(6)]
    refused(series(tmp_path / "stations", slices), "beside an even stack")
    drifting = np.cumsum([0, *[1.0] * 100, *[1.009] * 100])  # no step is off by more than 1 %
    slices = [ct(n, ImagePositionPatient=[0, 0, z]) for n, z in enumerate(drifting)]
    refused(series(tmp_path / "drift", slices), "beside an even stack")


def test_a_localizer_among_the_slices_is_refused(tmp_path):
    localizer = ct(9, ImageOrientationPatient=[1, 0, 0, 0, 0, -1])
    refused(series(tmp_path / "a", [ct(0), ct(1), localizer]), "orientation", "localizer")
    refused(series(tmp_path / "b", [ct(0), ct(1, PIXELS[:2])]), "Rows and Columns", "localizer")
    refused(series(tmp_path / "c", [ct(0), ct(1, PixelSpacing=[1, 1])]), "PixelSpacing")
    mixed = ct(1, PhotometricInterpretation="MONOCHROME1")
    refused(series(tmp_path / "d", [ct(0), mixed]), "PhotometricInterpretation")


@pytest.mark.parametrize(
    ("elements", "words"),
    [
        ({"ImageOrientationPatient": [1, 0, 0, 1, 0, 0]}, "right angles"),
        ({"ImageOrientationPatient": [0, 0, 0, 0, 0, 0]}, "unit vectors"),
        ({"PixelSpacing": [0, 1]}, "pixel spacing cannot be"),
        ({"RescaleSlope": 0, "RescaleIntercept": 0}, "RescaleSlope is 0"),
        ({"Rows": 5000, "Columns": 5000}, "truncated"),
        ({"BitsStored": 40}, "bits"),
        ({"PhotometricInterpretation": "CMYK"}, "colour space"),
    ],
)
def test_headers_that_cannot_be(tmp_path, elements, words):
    refused(save(ct(0, **elements), tmp_path / "a.dcm"), words)


# What is in a folder


def test_a_copy_of_a_slice_is_left_out_once(tmp_path):
    folder = series(tmp_path / "s", [ct(0), ct(1), ct(2), ct(1)])
    volume = read(folder)
    assert volume.data.shape == (4, 3, 3)
    assert volume.notes == ("s: 1 repeated files left out",)
    save(ct(2, SOPInstanceUID="2.25.10"), folder / "z.dcm")  # the name of slice 0
    refused(folder, "same SOPInstanceUID")


def test_other_files_are_counted_and_hidden_ones_not_seen(tmp_path):
    folder = series(tmp_path / "s", [ct(0), ct(1)])
    for name in ("readme.txt", "DICOMDIR", ".hidden.dcm"):
        (folder / name).write_bytes(b"no picture")
    (folder / "inner").mkdir()
    save(made("1.2.840.10008.5.1.4.1.1.11.1", "PR", SeriesInstanceUID="2.25.9"), folder / "p.dcm")
    assert [file.name for file in dicom.files(folder)] == [
        "000.dcm", "001.dcm", "p.dcm", "readme.txt"
    ]  # fmt: skip
    assert read(folder).notes == (
        "s: 1 files that are not DICOM left out",
        "s: 1 files of DICOM of another kind left out",
    )
    (folder / "empty.dcm").touch()  # a slice that did not arrive
    with pytest.raises(SourceError, match=r"empty\.dcm: not a DICOM file"):
        dicom.read(folder, Wanted())


def test_several_series_need_a_choice(tmp_path):
    def slices(series_uid, number, values, count):
        return [
            ct(n, PIXELS + values, SeriesInstanceUID=series_uid, SeriesNumber=number,
               SOPInstanceUID=f"{series_uid}.{n}")
            for n in range(count)
        ]  # fmt: skip

    files = slices("2.25.80", 7, 0, 2) + slices("2.25.90", 3, 50, 3)
    folder = series(tmp_path / "s", files)
    refused(folder, "2 series", "0: 3, 1: 2", "parts")
    assert read(folder, part=0).data.shape == (4, 3, 3)  # number 3 comes before number 7
    assert read(folder, part=0).data[0, 0, 0] == 150
    assert read(folder, part=1).data.shape == (4, 3, 2)
    refused(folder, "no 2", part=2)
    refused(folder, "no 'x'", part="x")
    refused(series(tmp_path / "one", [ct(0)]), "no part 1", part=1)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("EchoTime", (90, 10)),
        ("TemporalPositionIdentifier", (2, 1)),
        ("TriggerTime", (12.5, 3)),
        ("ImageType", (["DERIVED", "SECONDARY", "WATER"], ["DERIVED", "SECONDARY", "FAT"])),
    ],
)
def test_phases_are_told_apart_by_what_splits_them(tmp_path, name, values):
    slices = [
        ct(n, PIXELS + 10 * phase, SOPInstanceUID=f"2.25.{n}.{phase}", **{name: values[phase]},
           AcquisitionTime=f"10{phase:02d}{n:02d}")
        for phase in (0, 1) for n in range(3)
    ]  # fmt: skip
    folder = series(tmp_path / "s", slices)
    refused(folder, "duplicate positions", name)
    assert read(folder, part=0).data[0, 0, 0] == 110  # the lower value, or word, is the first
    assert read(folder, part=1).data[0, 0, 0] == 100


def test_phases_that_nothing_tells_apart_or_that_are_not_whole(tmp_path):
    twice = [ct(n, SOPInstanceUID=f"2.25.{n}.{phase}") for phase in (0, 1) for n in range(3)]
    refused(series(tmp_path / "same", twice), "duplicate positions", "nothing tells", part=0)
    refused(series(tmp_path / "part", twice[:-1]), "duplicate positions", "1 to 2", "4 mm")


def test_two_tags_together_may_tell_phases_apart(tmp_path):
    slices = [
        ct(n, PIXELS + 10 * time + 40 * echo, SOPInstanceUID=f"2.25.{n}.{time}.{echo}",
           AcquisitionNumber=time, EchoTime=echo + 1)
        for time in (0, 1) for echo in (0, 1) for n in range(2)
    ]  # fmt: skip
    folder = series(tmp_path / "s", slices)
    assert [read(folder, part=n).data[0, 0, 0] for n in range(4)] == [100, 140, 110, 150]


def test_images_without_a_position_are_no_stack(tmp_path):
    slices = [ct(n, ImagePositionPatient=None) for n in range(2)]
    refused(series(tmp_path / "s", slices), "no position", "000.dcm")
    refused(series(tmp_path / "empty", []) if (tmp_path / "empty").mkdir() else tmp_path / "empty",
            "no DICOM file")  # fmt: skip


def test_takes_folders_and_files_by_their_content(tmp_path):
    folder = series(tmp_path / "s", [ct(0)])
    bare = tmp_path / "IM0001"
    bare.write_bytes((folder / "000.dcm").read_bytes())
    assert dicom.takes(folder)
    assert dicom.takes(bare)
    assert read(bare).data.shape == (4, 3, 1)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "a.png").write_bytes(b"\x89PNG")
    assert not dicom.takes(tmp_path / "other")
    assert not dicom.takes(tmp_path / "other" / "a.png")
    assert not dicom.takes(tmp_path / "frame_{frame}")
    assert dicom.files(bare) == (bare,)


# Values


def test_each_slice_has_its_own_rescaling(tmp_path):
    slices = [
        ct(0, RescaleSlope=1, RescaleIntercept=-1024),
        ct(1, RescaleSlope=3, RescaleIntercept=0),
    ]
    volume = read(series(tmp_path / "a", slices))
    assert volume.data.dtype == np.int16
    assert volume.data[0, 0].tolist() == [100 - 1024, 300]
    slices[1].RescaleSlope = 3000
    volume = read(series(tmp_path / "b", slices))
    assert volume.data.dtype == np.int32
    assert volume.data[0, 0].tolist() == [100 - 1024, 300_000]
    slices[1].RescaleSlope = 0.5
    volume = read(series(tmp_path / "c", slices))
    assert volume.data.dtype == np.float32
    assert volume.data[0, 0].tolist() == [100 - 1024, 50]


def test_stored_types_that_do_not_agree_are_joined_without_loss(tmp_path):
    signed, unsigned = PIXELS.astype(np.int16) - 200, PIXELS + 60_000
    volume = read(series(tmp_path / "s", [ct(0, signed), ct(1, unsigned)]))
    assert volume.data[0, 0].tolist() == [-100, 60_100]


def test_modality_lut_and_inversion_after_it(tmp_path):
    table = item(ModalityLUTType="US")
    table.add_new("LUTDescriptor", "US", [12, 100, 16])
    table.add_new("LUTData", "US", [7 * n for n in range(12)])
    ds = ct(0, RescaleSlope=None, RescaleIntercept=None)
    ds.ModalityLUTSequence = [table]
    assert read(save(ds, tmp_path / "a.dcm")).data[:, 0, 0].tolist() == [0, 7, 14, 21]
    ds.PhotometricInterpretation = "MONOCHROME1"
    assert read(save(ds, tmp_path / "b.dcm")).data[1, 0, 0] == 65535 - 7


def test_signed_monochrome1(tmp_path):
    ds = ct(0, np.array([[-2048, 2047]], np.int16), PhotometricInterpretation="MONOCHROME1",
            BitsStored=12, HighBit=11)  # fmt: skip
    assert read(save(ds, tmp_path / "a.dcm")).data.ravel().tolist() == [2047, -2048]


def test_label_values_stay_whole(tmp_path):
    path = save(ct(0, RescaleSlope=1, RescaleIntercept=-100), tmp_path / "a.dcm")
    volume = read(path, labels=True)
    assert volume.data.dtype == np.int16
    assert volume.data.ravel(order="F").tolist() == list(range(12))
    refused(save(ct(0, RescaleSlope=0.3), tmp_path / "b.dcm"), "no labels", labels=True)


# One file


def test_a_single_slice_has_a_place_and_a_thickness(tmp_path):
    volume = read(save(ct(4), tmp_path / "a.dcm"))
    assert volume.spacing == (0.25, 0.5, 3.0)  # SliceThickness
    assert volume.affine[:3, 3].tolist() == [10, 20, 8]
    assert read(save(ct(4, SpacingBetweenSlices=-2.5), tmp_path / "b.dcm")).spacing[2] == 2.5
    assert read(save(ct(4, SliceThickness=None), tmp_path / "c.dcm")).spacing[2] == 1


def test_projections_are_flat_even_with_a_position(tmp_path):
    volume = read(save(ct(0, Modality="XA"), tmp_path / "a.dcm"))
    assert volume.flat
    assert volume.spacing == (0.25, 0.5, 1.0)
    np.testing.assert_array_equal(volume.affine, np.eye(4))
    plain = ct(0, ImagePositionPatient=None, PixelSpacing=None, PixelAspectRatio=[3, 2])
    assert read(save(plain, tmp_path / "b.dcm")).spacing == (1, 1.5, 1)


def cine(frames, **elements):
    return put_pixels(made(ULTRASOUND, "US", **elements), frames)


def test_cine_frames_that_are_asked_for(tmp_path):
    frames = np.arange(5 * 12, dtype=np.uint8).reshape(5, 3, 4)
    path = save(cine(frames), tmp_path / "a.dcm")
    volume = read(path)
    assert volume.flat
    np.testing.assert_array_equal(volume.data, frames.transpose(2, 1, 0))
    some = read(path, only=(3, 1))
    assert some.numbers == (3, 1)
    np.testing.assert_array_equal(some.data, frames[[3, 1]].transpose(2, 1, 0))
    one = read(path, part=4)
    np.testing.assert_array_equal(one.data[:, :, 0], frames[4].T)
    refused(path, "5 frames", only=(5,))
    refused(path, "no part 5", part=5)


def test_only_the_frames_asked_for_are_decoded(tmp_path, monkeypatch):
    from pydicom.pixels.decoders.base import DecodeRunner

    calls, whole = [], DecodeRunner._decode_frame
    monkeypatch.setattr(
        DecodeRunner, "_decode_frame", lambda *args: calls.append(1) or whole(*args)
    )
    ds = cine(np.arange(6 * 12, dtype=np.uint8).reshape(6, 3, 4))
    ds.compress("1.2.840.10008.1.2.5", generate_instance_uid=False)
    volume = read(save(ds, tmp_path / "a.dcm"), only=(4,))
    assert volume.data[0, 0, 0] == 48
    assert len(calls) == 1


def test_colour_is_rgb_of_eight_bits(tmp_path):
    rgb = np.arange(2 * 3 * 4 * 3, dtype=np.uint8).reshape(2, 3, 4, 3)
    path = save(put_pixels(made(ULTRASOUND, "US"), rgb, "RGB"), tmp_path / "a.dcm")
    np.testing.assert_array_equal(read(path).data, rgb.transpose(2, 1, 0, 3))
    refused(path, "mask in RGB", labels=True)
    ds = put_pixels(made(ULTRASOUND, "US"), np.full((3, 4, 3), 0x1234, np.uint16), "RGB")
    volume = read(save(ds, tmp_path / "b.dcm"))
    assert np.unique(volume.data).tolist() == [0x12]
    assert volume.notes == ("b.dcm: colour of more than 8 bits cut to 8",)


def enhanced(count=4, order=(2, 0, 3, 1), frames=None, **macros):
    """A multi-frame CT whose frame n lies at the height order[n]."""
    ds = made(ENHANCED_CT, "CT")
    if frames is None:
        frames = np.stack([PIXELS + order[n] for n in range(count)])
    put_pixels(ds, frames)
    ds.SharedFunctionalGroupsSequence = shared(**macros)
    ds.PerFrameFunctionalGroupsSequence = [
        frame_at((-10, -20, 2.0 * order[n])) for n in range(count)
    ]
    return ds


def test_enhanced_multiframe_is_sorted_by_each_frames_place(tmp_path):
    volume = read(save(enhanced(), tmp_path / "a.dcm"))
    assert volume.data[0, 0].tolist() == [100, 101, 102, 103]
    assert not volume.flat
    np.testing.assert_allclose(volume.affine[:3, 2], [0, 0, 2])
    by_frame = enhanced()
    for number, group in enumerate(by_frame.PerFrameFunctionalGroupsSequence):
        group.PixelValueTransformationSequence = sequence(
            RescaleSlope=1, RescaleIntercept=10 * number
        )
    assert read(save(by_frame, tmp_path / "b.dcm")).data[0, 0].tolist() == [110, 131, 102, 123]
    whole = enhanced(
        PixelValueTransformationSequence=sequence(RescaleSlope=1, RescaleIntercept=-100)
    )
    assert read(save(whole, tmp_path / "c.dcm")).data[0, 0].tolist() == [0, 1, 2, 3]


def test_enhanced_multiframe_obeys_the_same_rules(tmp_path):
    refused(save(enhanced(order=(0, 1, 4, 3)), tmp_path / "gap.dcm"), "missing slice")
    twice = enhanced(order=(0, 1, 0, 1))
    refused(save(twice, tmp_path / "twice.dcm"), "duplicate positions", "nothing tells")
    for number, group in enumerate(twice.PerFrameFunctionalGroupsSequence):
        group.FrameContentSequence = sequence(TemporalPositionIndex=1 + number // 2)
    path = save(twice, tmp_path / "phases.dcm")
    refused(path, "TemporalPositionIdentifier")
    assert read(path, part=1).data.shape == (4, 3, 2)
    short = enhanced()
    del short.PerFrameFunctionalGroupsSequence[-1]
    refused(save(short, tmp_path / "short.dcm"), "4 frames but describes 3")
    lost = enhanced()
    del lost.PerFrameFunctionalGroupsSequence[1].PlanePositionSequence
    refused(save(lost, tmp_path / "lost.dcm"), "3 of its 4 frames")


def test_groups_without_a_place_make_a_flat_sequence(tmp_path):
    ds = enhanced()
    for group in ds.PerFrameFunctionalGroupsSequence:
        del group.PlanePositionSequence
    volume = read(save(ds, tmp_path / "a.dcm"))
    assert volume.flat
    assert volume.data[0, 0].tolist() == [102, 100, 103, 101]  # as stored
    assert volume.notes == ("a.dcm: no position in its header; read as a flat picture",)


def test_old_multiframe_with_one_position_is_refused(tmp_path):
    ds = ct(0, np.stack([PIXELS] * 3), GridFrameOffsetVector=[0, 2, 4])
    refused(save(ds, tmp_path / "a.dcm"), "dose grid")
    refused(Path(get_testdata_file("rtdose.dcm", download=False)), "dose grid")


def test_files_without_pixels_are_refused(tmp_path):
    refused(save(made("1.2.840.10008.5.1.4.1.1.88.11", "SR"), tmp_path / "a.dcm"), "without pixels")
    bare = ct(0)
    del bare.PixelData
    bare.Rows = bare.Columns = 2
    refused(save(bare, tmp_path / "b.dcm"), "no pixels")
