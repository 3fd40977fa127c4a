"""Folders and patterns of frames: which file is which frame, and which mask lies on it."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from medsg_build.errors import SourceError
from medsg_build.formats import frames, video
from medsg_build.model import Grid, Wanted

CASES = Path(__file__).parents[2] / "shared" / "cases" / "video"


def saved(path: Path, value: int | tuple[int, ...] | np.ndarray, size=(6, 4)) -> Path:
    """A picture of `size` (x, y), all of one grey or colour, or the array itself."""
    path.parent.mkdir(exist_ok=True)
    if not isinstance(value, np.ndarray):
        value = np.full((*size[::-1], *((3,) if isinstance(value, tuple) else ())), value, np.uint8)
    Image.fromarray(value).save(path)
    return path


def folder(path: Path, names: list[str]) -> Path:
    """A folder of grey pictures, the first of value 1, the second of 2, ..."""
    for value, name in enumerate(names, 1):
        saved(path / name, value)
    return path


def values(volume) -> list[int]:
    """The value of each frame."""
    return [int(volume.data[0, 0, at].max()) for at in range(volume.data.shape[2])]


def masks_on(picture: Path, count: int, **more) -> Wanted:
    return Wanted(labels=True, onto=Grid((6, 4, count), np.eye(4), True), picture=picture, **more)


# --- pictures


def test_pictures_count_from_0_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    path = folder(tmp_path / "clip", ["f2.png", "f10.png", "f1.png"])
    (path / "NUMBERING.txt").write_text("passed over")
    (path / ".hidden9.png").write_bytes(b"passed over")
    volume = frames.read(path, Wanted())
    assert values(volume) == [3, 1, 2]
    assert volume.data.shape == (6, 4, 3)
    assert volume.flat
    assert volume.numbers is None
    assert volume.notes == ()
    assert frames.measure(path, Wanted()).shape == (6, 4, 3)
    assert [file.name for file in frames.files(path)] == ["f1.png", "f2.png", "f10.png"]
    held = [(n, int(frame[0, 0]), frame.shape) for n, frame in frames.sequence(path, Wanted())]
    assert held == [(0, 3, (6, 4)), (1, 1, (6, 4)), (2, 2, (6, 4))]


def test_a_pattern_takes_only_the_names_that_fit(tmp_path: Path) -> None:
    folder(tmp_path, ["a_9.png", "a_9_mask.png", "b_1.png", "a_x.png", "a_10.png"])
    path = tmp_path / "a_{frame}.png"
    assert frames.takes(path)
    assert values(frames.read(path, Wanted())) == [1, 5]
    with pytest.raises(SourceError, match="no frames found"):
        frames.read(tmp_path / "c_{frame}.png", Wanted())
    with pytest.raises(SourceError, match="more than once"):
        frames.read(tmp_path / "{frame}_{frame}.png", Wanted())
    with pytest.raises(SourceError, match="cannot be listed"):
        frames.read(tmp_path / "absent" / "{frame}.png", Wanted())


def test_names_without_any_digits_go_in_their_order(tmp_path: Path) -> None:
    path = folder(tmp_path / "clip", ["b.png", "a.png", "c.bmp"])
    assert values(frames.read(path, Wanted())) == [2, 1, 3]


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (["1.png", "cover.png"], "cover.png: no number in its name"),
        (["1.png", "01.png"], "1.png: has the number of 01.png"),
        (["case1_a.png", "case1_b.png"], "has the number of case1_a.png"),
    ],
)
def test_a_frame_that_cannot_be_numbered_is_refused(tmp_path: Path, names, why) -> None:
    with pytest.raises(SourceError, match=why):
        frames.read(folder(tmp_path / "clip", names), Wanted())


def test_what_is_taken(tmp_path: Path) -> None:
    assert frames.takes(folder(tmp_path / "clip", ["1.PNG"]))
    assert not frames.takes(tmp_path)  # holds a folder, no pictures
    (tmp_path / "clip" / "1.dcm").touch()
    assert not frames.takes(tmp_path / "clip")  # previews of a DICOM series
    assert not frames.takes(tmp_path / "absent")
    assert frames.takes(CASES / "VI2_masks")


def test_a_picture_that_cannot_be_read_leaves_a_gap(tmp_path: Path) -> None:
    path = folder(tmp_path / "clip", ["1.png", "2.png", "3.png"])
    (path / "1.png").write_bytes(b"damaged")
    volume = frames.read(path, Wanted())
    assert volume.numbers == (1, 2)
    assert values(volume) == [2, 3]
    assert volume.notes == ("clip: frame 0 cannot be read; the others keep their numbers",)
    assert frames.measure(path, Wanted()).shape == (6, 4, 3)
    with pytest.raises(SourceError, match=r"1\.png: cannot be opened"):
        frames.read(path, Wanted(labels=True))
    for name in ("2.png", "3.png"):
        (path / name).write_bytes(b"damaged")
    for function in (frames.read, frames.measure):
        with pytest.raises(SourceError, match="none of"):
            function(path, Wanted())


def test_frames_of_one_size_grey_or_colour(tmp_path: Path) -> None:
    path = folder(tmp_path / "clip", ["1.png", "2.png"])
    saved(path / "3.png", (9, 8, 7))
    volume = frames.read(path, Wanted())
    assert volume.data.shape == (6, 4, 3, 3)
    assert volume.data[0, 0].tolist() == [[1, 1, 1], [2, 2, 2], [9, 8, 7]]
    saved(path / "4.png", 4, size=(5, 4))
    with pytest.raises(SourceError, match=r"4\.png: 5x4x1 pixels, where the first .* 6x4x1"):
        frames.read(path, Wanted())
    saved(path / "4.png", np.full((4, 6), 300, np.uint16))
    with pytest.raises(SourceError, match="several depths"):
        frames.read(path, Wanted())


def test_a_file_of_several_pages_is_no_frame(tmp_path: Path) -> None:
    page = Image.new("L", (6, 4))
    (tmp_path / "clip").mkdir()
    page.save(tmp_path / "clip" / "1.tif", save_all=True, append_images=[page])
    with pytest.raises(SourceError, match="6x4x2 pixels"):
        frames.read(tmp_path / "clip", Wanted())


def test_only_the_frames_asked_for(tmp_path: Path, monkeypatch) -> None:
    path = folder(tmp_path / "clip", [f"{n}.png" for n in range(5)])
    volume = frames.read(path, Wanted(only=(3, 1)))
    assert volume.numbers == (1, 3)
    assert values(volume) == [2, 4]
    assert [n for n, _ in frames.sequence(path, Wanted(only=(4,)))] == [4]
    monkeypatch.setattr(frames, "LARGEST", 3 * 24)
    assert frames.read(path, Wanted(only=(0, 1, 2))).data.shape[2] == 3
    with pytest.raises(SourceError, match="choose fewer frames"):
        frames.read(path, Wanted())


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    outside = saved(tmp_path / "outside.png", 9)
    path = folder(tmp_path / "clip", ["1.png"])
    (path / "2.png").symlink_to(path / "1.png")
    assert values(frames.read(path, Wanted())) == [1, 1]
    (path / "3.png").symlink_to(outside)
    for function in (frames.read, frames.measure):
        with pytest.raises(SourceError, match="leads out of its folder"):
            function(path, Wanted())


# --- masks


def test_masks_of_a_video_count_from_1_and_a_note_says_so() -> None:
    film = CASES / "good.avi"
    wanted = Wanted(labels=True, onto=video.measure(film, Wanted()), picture=film)
    volume = frames.read(CASES / "VI2_masks", wanted)
    assert volume.numbers == (0, 3, 6, 9, 12, 15, 18, 21)
    assert volume.notes == ("VI2_masks: mask numbers count from 1 (frame_0001.png is frame 0)",)
    picture = video.read(film, Wanted(only=volume.numbers))
    for at in range(8):  # the mask lies on the bright square of its frame
        assert picture.data[:, :, at, 0][volume.data[:, :, at] > 0].mean() > 200


@pytest.mark.parametrize(
    ("names", "first", "numbers", "note"),
    [
        (["m1.png", "m3.png"], None, (0, 2), "count from 1 (m1.png is frame 0)"),
        (["m0.png", "m3.png"], None, (0, 3), "count from 0 (m0.png is frame 0)"),
        (["m2.png", "m3.png"], 0, (2, 3), "count from 0 (m2.png is frame 2)"),
        (["m100.png", "m104.png"], 100, (0, 4), "count from 100 (m100.png is frame 0)"),
    ],
)
def test_the_number_of_the_first_mask(tmp_path: Path, names, first, numbers, note) -> None:
    wanted = masks_on(tmp_path / "film.mp4", 5, first=first)
    volume = frames.read(folder(tmp_path / "masks", names), wanted)
    assert volume.numbers == numbers
    assert volume.notes == (f"masks: mask numbers {note}",)
    assert frames.remarks(tmp_path / "masks", wanted) == volume.notes


def test_masks_beyond_the_video_are_left_out_and_told(tmp_path: Path) -> None:
    path = folder(tmp_path / "masks", ["m1.png", "m2.png", "m3.png", "m4.png"])
    film = tmp_path / "film.mp4"
    volume = frames.read(path, masks_on(film, 3))
    assert volume.numbers is None  # every frame has its mask
    assert volume.data.shape == (6, 4, 3)
    assert volume.notes[1] == "masks: mask m4.png has no frame in the video; left out"
    several = frames.read(path, masks_on(film, 2))
    assert several.notes[1] == (
        "masks: mask m3.png and 1 more masks have no frame in the video; left out"
    )
    with pytest.raises(SourceError, match="none has a frame among the 3"):
        frames.read(folder(tmp_path / "far", ["m700.png"]), masks_on(film, 3))
    with pytest.raises(SourceError, match="below that of the first frame, 2"):
        frames.read(path, masks_on(film, 3, first=2))
    with pytest.raises(SourceError, match="no number in its name"):
        frames.read(folder(tmp_path / "nameless", ["a.png"]), masks_on(film, 3))


def test_a_mask_belongs_to_the_picture_of_its_number(tmp_path: Path) -> None:
    clip = folder(tmp_path / "clip", ["img_10.png", "img_30.png", "img_20.png"])
    masks = folder(tmp_path / "masks", ["seg_30.png", "seg_20.png"])
    volume = frames.read(masks, masks_on(clip, 3))
    assert volume.numbers == (1, 2)
    assert values(volume) == [2, 1]
    assert volume.notes == ()
    pattern = tmp_path / "masks" / "seg_{frame}.png"
    assert frames.read(pattern, masks_on(clip / "img_{frame}.png", 3)).numbers == (1, 2)
    assert frames.read(masks, masks_on(clip, 3, only=(2,))).numbers == (2,)
    nothing = frames.read(masks, masks_on(clip, 3, only=(0,)))
    assert nothing.numbers == ()
    assert nothing.data.shape == (6, 4, 0)
    saved(masks / "seg_21.png", 1)
    with pytest.raises(SourceError, match=r"seg_21\.png: no frame of .*clip has this number"):
        frames.read(masks, masks_on(clip, 3))


def test_names_without_digits_belong_together_by_name(tmp_path: Path) -> None:
    clip = folder(tmp_path / "clip", ["a.png", "b.png", "c.png"])
    masks = folder(tmp_path / "masks", ["b.png"])
    assert frames.read(masks, masks_on(clip, 3)).numbers == (1,)
    with pytest.raises(SourceError, match=r"d\.png: no frame"):
        frames.read(folder(masks, ["d.png"]), masks_on(clip, 3))


RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)


def coloured(path: Path, *colours: tuple[int, int, int]) -> Path:
    """A mask (6, 4) on black, a column for each colour."""
    picture = np.zeros((4, 6, 3), np.uint8)
    for column, colour in enumerate(colours):
        picture[:, column] = colour
    return saved(path, picture)


def test_a_colour_has_one_value_in_all_frames(tmp_path: Path) -> None:
    masks = tmp_path / "masks"
    coloured(masks / "1.png", RED, BLUE)
    coloured(masks / "2.png", GREEN, RED)  # alone, each file counts its own colours
    coloured(masks / "3.png")
    coloured(masks / "4.png", BLUE)
    volume = frames.read(masks, Wanted(labels=True))
    red, green, blue = (volume.names[name] for name in ("#ff0000", "#00ff00", "#0000ff"))
    assert len({0, red, green, blue}) == 4
    assert volume.data[:3, 0].T.tolist() == [
        [red, blue, 0],
        [green, red, 0],
        [0, 0, 0],
        [blue, 0, 0],
    ]


def test_colours_among_plain_label_values_are_refused(tmp_path: Path) -> None:
    for order in ((1, 2), (2, 1)):
        masks = tmp_path / f"masks{order[0]}"
        coloured(masks / f"{order[0]}.png", RED)
        saved(masks / f"{order[1]}.png", 1)
        with pytest.raises(SourceError, match=f"{order[1]}.png: label values without names"):
            frames.read(masks, Wanted(labels=True))


def test_what_is_said_of_single_frames_is_said_once(tmp_path: Path) -> None:
    masks = tmp_path / "masks"
    for number in range(3):
        saved(masks / f"{number}.jpg", 255, size=(16, 16))
    assert frames.read(masks, Wanted(labels=True)).notes == (
        "masks: lossy mask cut at half grey (3 frames)",
    )


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_whatever_the_files_only_a_source_error_comes_out(tmp_path, data) -> None:
    path = tmp_path / "clip"
    raw = bytearray(saved(tmp_path / "sound.png", 3).read_bytes())
    path.mkdir(exist_ok=True)
    for old in path.iterdir():
        old.unlink()
    stems = st.text("0123٣ab.-_{}", min_size=1, max_size=6)
    for stem in data.draw(st.lists(stems, max_size=4)):
        changed = bytearray(raw)
        for place in data.draw(st.lists(st.integers(0, len(raw) - 1), max_size=3)):
            changed[place] = data.draw(st.integers(0, 255))
        cut = data.draw(st.one_of(st.none(), st.integers(0, len(raw))))
        (path / f"{stem}.png").write_bytes(changed[:cut])
    labels = data.draw(st.booleans())
    picture = data.draw(st.sampled_from([None, path, tmp_path / "film.mp4"]))
    wanted = Wanted(labels, picture=picture, onto=Grid((6, 4, 3), np.eye(4), True))
    for function in (frames.read, frames.measure, lambda *a: list(frames.sequence(*a))):
        try:
            made = function(path, wanted)
        except SourceError:
            continue
        if function is frames.read and made.numbers is not None:
            assert len(made.numbers) == made.data.shape[2]
