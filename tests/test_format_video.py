"""Videos: a frame keeps its number whatever happens to its neighbours, and no damage is silent.

Each test frame carries its number in binary along its top, as in the shared cases, so that a test
can read from the pixels which frame it was given.
"""

from collections.abc import Callable, Iterable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from medsg_build.errors import SourceError
from medsg_build.formats import video
from medsg_build.model import Wanted

CASES = Path(__file__).parents[2] / "shared" / "cases" / "video"
WIDTH, HEIGHT, BITS = 96, 64, 6


def drawn(number: int) -> np.ndarray:
    """(64, 96, 3): six blocks along the top give `number` in binary, lowest bit first."""
    picture = np.full((HEIGHT, WIDTH), 40, np.uint8)
    for bit in range(BITS):
        picture[:16, 16 * bit : 16 * bit + 16] = 235 if number >> bit & 1 else 16
    picture[30:50, 2 * number : 2 * number + 20] = 200
    return np.dstack([picture] * 3)


def code(picture: np.ndarray) -> int:
    """The number drawn on a frame (x, y[, 3])."""
    rows = picture[..., 1].T if picture.ndim == 3 else picture.T
    width = rows.shape[1] // (7 if rows.shape[1] == 112 else 6)
    blocks = [rows[4:12, width * bit + 4 : width * bit + 12].mean() for bit in range(BITS)]
    return sum(1 << bit for bit, mean in enumerate(blocks) if mean > 125)


def codes(volume) -> list[int]:
    return [code(volume.data[:, :, at]) for at in range(volume.data.shape[2])]


def filmed(
    path: Path,
    pictures: Iterable[np.ndarray] | None = None,
    codec: str = "libx264",
    form: str = "yuv420p",
    stamps: Callable[[int], int] = lambda number: number,
    reordered: int = 2,
    group: int = 8,
    settle: Callable[[object], None] | None = None,
    options: dict[str, str] | None = None,
) -> Path:
    """A video of 24 numbered frames, or of `pictures`; `reordered` B-frames, a key each `group`."""
    shown = list(map(drawn, range(24)) if pictures is None else pictures)
    with av.open(str(path), "w", options=options or {}) as file:
        stream = file.add_stream(codec, rate=10)
        stream.height, stream.width = shown[0].shape[:2]
        stream.pix_fmt, stream.codec_context.gop_size = form, group
        stream.codec_context.time_base = Fraction(1, 10)
        if codec in ("libx264", "mpeg4", "mpeg2video"):
            stream.codec_context.max_b_frames = reordered
        if settle is not None:
            settle(stream)
        for number, picture in enumerate(shown):
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")
            frame.pts = stamps(number)
            file.mux(stream.encode(frame))
        file.mux(stream.encode(None))
    return path


def packets(path: Path) -> list[tuple[int, int, int, bool]]:
    """Time stamp, place in the file, size and key of each packet, in the order of decoding."""
    with av.open(str(path)) as file:
        return [(p.pts, p.pos, p.size, p.is_keyframe) for p in file.demux(video=0) if p.size]


def damaged(path: Path, which: int) -> Path:
    """The same video, the bytes of packet `which` (in the order of decoding) set to 255."""
    _, place, size, _ = packets(path)[which]
    raw = bytearray(path.read_bytes())
    at = raw.find(_content(path, which), place)
    assert at >= 0
    raw[at : at + size] = b"\xff" * size
    out = path.with_stem(path.stem + "_damaged")
    out.write_bytes(raw)
    return out


def _content(path: Path, which: int) -> bytes:
    with av.open(str(path)) as file:
        return [bytes(p) for p in file.demux(video=0) if p.size][which]


# --- the shared cases


def test_a_frame_count_in_the_header_is_not_believed() -> None:
    path = CASES / "VI1_count31.avi"
    volume = video.read(path, Wanted())
    assert volume.data.shape == (112, 112, 24, 3)
    assert volume.flat
    assert volume.numbers is None
    assert codes(volume) == list(range(24))
    assert video.measure(path, Wanted()).shape == (112, 112, 24)
    assert volume.notes == (
        "VI1_count31.avi: the header promises 31 frames, 24 are there: truncated, or miscounted",
    )
    assert video.remarks(path, Wanted()) == volume.notes


def test_a_damaged_frame_leaves_a_gap_and_the_others_keep_their_numbers() -> None:
    volume = video.read(CASES / "VI3_corrupt10.avi", Wanted())
    assert volume.numbers == (*range(10), *range(11, 24))
    assert codes(volume) == list(volume.numbers)
    assert volume.notes == (
        "VI3_corrupt10.avi: frame 10 cannot be decoded; the others keep their numbers",
    )


def test_the_damaged_piece_at_the_end_of_a_truncated_file_is_not_shown() -> None:
    volume = video.read(CASES / "VI4_truncated.avi", Wanted())
    assert volume.numbers == tuple(range(20)) == tuple(codes(volume))
    assert volume.notes[0] == (
        "VI4_truncated.avi: the header promises 24 frames, 20 are there: truncated"
    )
    assert "frame 20 cannot be decoded" in volume.notes[1]


# --- numbering


@pytest.mark.parametrize(
    ("name", "codec", "form"),
    [
        ("a.mp4", "libx264", "yuv420p"),
        ("a.m4v", "mpeg4", "yuv420p"),
        ("a.mov", "mjpeg", "yuvj444p"),
        ("a.mkv", "libx264", "yuv420p"),
        ("a.avi", "libx264", "yuv420p"),  # AVI has no time stamps for frames out of order
        ("b.avi", "mpeg4", "yuv420p"),
        ("c.avi", "rawvideo", "gray"),
        ("a.webm", "libvpx-vp9", "yuv420p"),
        ("a.wmv", "wmv2", "yuv420p"),
        ("a.mpg", "mpeg2video", "yuv420p"),
    ],
)
def test_frames_are_numbered_as_they_are_shown(
    tmp_path: Path, name: str, codec: str, form: str
) -> None:
    path = filmed(tmp_path / name, codec=codec, form=form)
    volume = video.read(path, Wanted())
    assert codes(volume) == list(range(24))
    assert volume.numbers is None
    assert volume.notes == ()
    assert volume.data.shape == (WIDTH, HEIGHT, 24, 3)
    assert volume.data.dtype == np.uint8
    assert video.measure(path, Wanted()).shape == (WIDTH, HEIGHT, 24)
    assert [(number, code(frame)) for number, frame in video.sequence(path, Wanted())] == [
        (number, number) for number in range(24)
    ]


def test_numbers_do_not_depend_on_the_rate_or_the_first_stamp(tmp_path: Path) -> None:
    uneven = filmed(tmp_path / "uneven.mkv", stamps=lambda n: 30 + n + 5 * (n > 11))
    volume = video.read(uneven, Wanted())
    assert codes(volume) == list(range(24))
    assert volume.notes == ()
    assert video.rate(uneven) == pytest.approx(23 / 2.8, rel=0.01)  # 24 frames lie in 2.8 s
    assert video.rate(filmed(tmp_path / "even.mp4")) == pytest.approx(10)


def test_the_hidden_frames_of_an_edited_mp4_take_no_numbers(tmp_path: Path) -> None:
    # Cut without decoding: the key frame before the cut is kept, but an edit list hides it.
    path = filmed(tmp_path / "cut.mp4", stamps=lambda n: n - 6)
    volume = video.read(path, Wanted())
    assert codes(volume) == list(range(6, 24))
    assert volume.numbers is None
    assert video.measure(path, Wanted()).shape[2] == 18


def test_only_the_frames_asked_for_are_held(tmp_path: Path) -> None:
    path = filmed(tmp_path / "a.mp4")
    volume = video.read(path, Wanted(only=(17, 3, 30)))
    assert volume.numbers == (3, 17) == tuple(codes(volume))
    assert volume.notes == ("a.mp4: frame 30 asked for, but it has 24",)
    assert [number for number, _ in video.sequence(path, Wanted(only=(9, 2)))] == [2, 9]
    with pytest.raises(SourceError, match="none of the 0 frames"):
        video.read(path, Wanted(only=(99,)))
    # Damage after the last frame asked for is not met.
    assert video.read(CASES / "VI3_corrupt10.avi", Wanted(only=(4,))).notes == ()


# --- damage


def test_after_damage_all_frames_to_the_next_key_frame_are_lost(tmp_path: Path) -> None:
    path = filmed(tmp_path / "a.mp4")
    stamps = [stamp for stamp, *_ in packets(path)]
    keys = [place for place, packet in enumerate(packets(path)) if packet[3]]
    assert keys == [0, 8, 16]
    volume = video.read(damaged(path, 10), Wanted())
    ranks = [sorted(stamps).index(stamp) for stamp in stamps]
    lost = sorted(ranks[10:16])
    assert volume.numbers == tuple(n for n in range(24) if n not in lost)
    assert codes(volume) == list(volume.numbers)
    assert volume.notes == (
        f"a_damaged.mp4: {video.spelled(lost)} cannot be decoded; the others keep their numbers",
    )


def test_avi_with_reordered_frames_is_not_numbered_after_damage(tmp_path: Path) -> None:
    volume = video.read(damaged(filmed(tmp_path / "a.avi", codec="mpeg4"), 9), Wanted())
    assert volume.numbers == tuple(range(len(volume.numbers))) == tuple(codes(volume))
    assert len(volume.numbers) < 10
    assert "-23 cannot be numbered" in volume.notes[-1]


def test_a_damaged_vp8_packet_keeps_its_number(tmp_path: Path) -> None:
    # Its first bytes also tell whether it is shown at all: zeros must not pass for "hidden".
    path = filmed(tmp_path / "a.webm", codec="libvpx")
    content = _content(path, 10)
    path.write_bytes(path.read_bytes().replace(content, bytes(len(content))))
    volume = video.read(path, Wanted())
    assert volume.numbers == (*range(10), *range(16, 24))
    assert codes(volume) == list(volume.numbers)


def test_a_jump_in_a_programme_stream_is_told(tmp_path: Path) -> None:
    path = filmed(tmp_path / "a.mpg", codec="mpeg2video", stamps=lambda n: n + 2 * (n > 6))
    (note,) = video.remarks(path, Wanted())
    assert note.startswith("a.mpg: time stamps jump after frame ")
    # In other containers a rate that varies is nothing out of the ordinary.
    assert (
        video.remarks(filmed(tmp_path / "a.mp4", stamps=lambda n: n + 2 * (n > 6)), Wanted()) == ()
    )


@pytest.mark.parametrize("name", ["a.mp4", "a.mkv"])
def test_a_video_cut_off_in_the_middle_says_so(tmp_path: Path, name: str) -> None:
    options = {"movflags": "faststart"} if name == "a.mp4" else {}
    path = filmed(tmp_path / name, reordered=0, options=options)
    raw = path.read_bytes()
    _, place, *_ = packets(path)[15]
    path.write_bytes(raw[: place + 10])
    volume = video.read(path, Wanted())
    held = volume.data.shape[2]
    assert 10 <= held <= 15
    assert codes(volume) == list(range(held))
    assert any("truncated" in note for note in volume.notes)


def test_a_file_without_its_index_or_without_a_video_is_refused(tmp_path: Path) -> None:
    path = filmed(tmp_path / "a.mp4")  # the index of a plain MP4 stands at its end
    path.write_bytes(path.read_bytes()[:2000])
    empty, text = tmp_path / "empty.avi", tmp_path / "text.mkv"
    empty.write_bytes(b"")
    text.write_bytes(b"not a video" * 100)
    for broken in (path, empty, text, tmp_path / "absent.mp4"):
        for function in (video.read, video.measure):
            with pytest.raises(SourceError, match=str(broken)):
                function(broken, Wanted())
        with pytest.raises(SourceError):
            video.rate(broken)


def test_a_playlist_in_the_clothes_of_a_video_opens_nothing(tmp_path: Path) -> None:
    filmed(tmp_path / "private.mp4")
    playlist = tmp_path / "a.mp4"
    playlist.write_text(
        "#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nprivate.mp4\n#EXT-X-ENDLIST\n"
    )
    with pytest.raises(SourceError, match="cannot be read as a video"):
        video.read(playlist, Wanted())


def test_many_lost_frames_are_told_in_few_words() -> None:
    assert video.spelled([10]) == "frame 10"
    assert video.spelled([3, 7, 8, 9]) == "frames 3, 7-9"
    assert video.spelled(range(0, 40, 2)) == "frames 0, 2, 4, 6, 8, 10, 12, 14, ... (20 in all)"


def test_frames_that_would_not_fit_are_refused_before_they_are_held(tmp_path, monkeypatch) -> None:
    path = filmed(tmp_path / "a.mp4")
    monkeypatch.setattr(video, "LARGEST", 24 * WIDTH * HEIGHT * 3 - 1)
    with pytest.raises(SourceError, match="choose fewer frames"):
        video.read(path, Wanted())
    assert video.read(path, Wanted(only=(1, 2))).data.shape[2] == 2


# --- how a frame is shown


@pytest.mark.parametrize("turn", [0, 90, 180, 270])
@pytest.mark.parametrize("mirrored", [False, True])
def test_phone_videos_are_turned_upright(tmp_path: Path, turn: int, mirrored: bool) -> None:
    corner = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    corner[:20, :30] = 255, 0, 0
    path = filmed(
        tmp_path / "a.mp4",
        [corner] * 3,
        form="yuv444p",
        settle=lambda stream: stream.set_display_rotation(turn, hflip=mirrored),
    )
    right = np.rot90(corner, turn // 90)  # anticlockwise, then mirrored
    right = right[:, ::-1] if mirrored else right
    volume = video.read(path, Wanted())
    shown = volume.data[:, :, 0].swapaxes(0, 1)
    assert shown.shape == right.shape
    assert np.abs(shown.astype(int) - right).max() < 60
    assert video.measure(path, Wanted()).shape == (*right.shape[1::-1], 3)


def test_pixels_that_are_not_square_are_told(tmp_path: Path) -> None:
    path = filmed(
        tmp_path / "a.mp4",
        settle=lambda stream: setattr(
            stream.codec_context, "sample_aspect_ratio", Fraction(16, 15)
        ),
    )
    assert video.read(path, Wanted()).notes == ("a.mp4: pixels of 16:15; shown as stored",)


# --- masks


def squares(value: int, ground: int = 0) -> list[np.ndarray]:
    pictures = [np.full((HEIGHT, WIDTH, 3), ground, np.uint8) for _ in range(6)]
    for number, picture in enumerate(pictures):
        picture[16:48, 16 + number : 48 + number] = value
    return pictures


def test_a_black_and_white_video_is_a_mask_cut_at_half_grey(tmp_path: Path) -> None:
    path = filmed(tmp_path / "a.mp4", squares(255))
    volume = video.read(path, Wanted(labels=True))
    right = np.stack([p[..., 0].T for p in squares(255)], axis=2)
    assert volume.data.shape == (WIDTH, HEIGHT, 6)
    assert set(np.unique(volume.data)) == {0, 255}
    assert (volume.data != right).mean() < 0.01
    assert volume.notes == ("a.mp4: a mask in a compressed video, cut at half grey",)


def test_label_values_in_a_video_are_refused(tmp_path: Path) -> None:
    coloured = squares(0)
    for picture in coloured:
        picture[16:48, 16:48, 0] = 255
    for name, pictures, why in (
        ("grey.mp4", squares(120), "between black and white"),
        ("dark.mp4", squares(40), "never reaches half grey"),
        ("colour.mp4", coloured, "is in colour"),
    ):
        with pytest.raises(SourceError, match=why):
            video.read(filmed(tmp_path / name, pictures), Wanted(labels=True))


# --- manners


def test_ffmpeg_says_nothing_and_its_log_level_is_given_back(capfd) -> None:
    before = av.logging.get_level()
    video.read(CASES / "VI3_corrupt10.avi", Wanted())
    with pytest.raises(SourceError):
        video.read(CASES / "README.md", Wanted())
    assert capfd.readouterr() == ("", "")
    assert av.logging.get_level() == before


def test_a_part_is_refused() -> None:
    with pytest.raises(SourceError, match="no part"):
        video.read(CASES / "good.avi", Wanted(part="left"))


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("sound")
    made = [filmed(folder / "a.mp4"), filmed(folder / "a.avi", codec="mpeg4"), CASES / "good.avi"]
    made += [filmed(folder / "a.mkv"), filmed(folder / "a.mpg", codec="mpeg2video")]
    return {f"{n}{path.suffix}": path.read_bytes() for n, path in enumerate(made)}


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_whatever_the_bytes_only_a_source_error_comes_out(sound, tmp_path, data) -> None:
    name = data.draw(st.sampled_from(sorted(sound)))
    raw = bytearray(sound[name])
    kind = data.draw(st.sampled_from(["changed", "changed head", "cut", "garbage"]))
    if kind == "garbage":
        raw = bytearray(data.draw(st.binary(max_size=300)))
    elif kind == "cut":
        raw = raw[: data.draw(st.integers(0, len(raw)))]
    else:
        end = len(raw) - 1 if kind == "changed" else 400
        for place in data.draw(st.lists(st.integers(0, end), min_size=1, max_size=12)):
            raw[place] = data.draw(st.integers(0, 255))
    path = tmp_path / name
    path.write_bytes(raw)
    for function in (video.measure, video.read):
        try:
            made = function(path, Wanted())
        except SourceError:
            continue
        if function is video.read and made.numbers is not None:
            assert len(made.numbers) == made.data.shape[2]
            assert list(made.numbers) == sorted(set(made.numbers))
            assert made.notes
