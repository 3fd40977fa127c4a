"""The packets of a video stream: what they tell without decoding, and the frames they decode to.

A frame is known by the packet it came from, never by how many came before it; only AVI with
reordered frames, which has no time stamps, is counted in the order in which the decoder shows it.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from ..errors import SourceError
from ..model import Wanted
from . import library

PIXELS = 300_000_000
"""Pixels of one frame beyond which a header is not believed."""

PACKETS = 20_000_000
"""Packets beyond which an index is not believed (four days at 50 frames a second)."""

CONTAINERS = "mov,mp4,avi,matroska,webm,asf,mpeg,mpegts,mpegvideo,m4v"
"""What may lie in the file. Playlists are left out: they make FFmpeg open other files and hosts."""

UNREADABLE = "cannot be decoded"
RESIZED = "in another size than the first"
UNNUMBERED = "cannot be numbered: AVI with reordered frames, after damage"

Frames = Generator[tuple[int, Any], None, None]


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """What a walk over the packets tells, in the order of decoding.

    `numbers`: each packet's frame, -1 for packets that show none. `counted`: the stamps do not give
    the order of presentation, so the decoder's own order has to.
    """

    numbers: tuple[int, ...]
    keys: frozenset[int]
    counted: bool
    count: int
    rate: float
    notes: tuple[str, ...]


def indexed(path: Path, wanted: Wanted) -> Index:
    """The stream's frames, found by walking over its packets. Raises `SourceError` if none."""
    if wanted.part not in (None, 0):
        raise SourceError(f"{path}: a video has no part {wanted.part!r}; choose frames instead")
    most = min(PACKETS, path.stat().st_size) if path.is_file() else 0
    stamps: list[int | None] = []
    shows: list[int] = []
    keys: set[int] = set()
    faults: list[str] = []
    cut = False
    with opened(path) as stream:
        for place, packet in enumerate(_packets(stream, faults)):
            if place > most:
                raise SourceError(f"{path}: lists more frames than it can hold; fetch it again")
            stamps.append(packet.pts)
            cut = packet.is_corrupt
            if packet.is_keyframe:
                keys.add(place)
            if not (packet.is_discard or _hidden(stream, packet)):
                shows.append(place)
        times = [stamp for stamp in (stamps[place] for place in shows) if stamp is not None]
        timed = len(set(times)) == len(shows)
        # AVI stores no time stamps: FFmpeg guesses them, wrongly for packed or reordered frames.
        untold = not timed or "avi" in stream.container.format.name
        frames_a_second = float(stream.average_rate or stream.guessed_rate or 0)
        if timed and len(times) > 1:
            frames_a_second = (len(times) - 1) / float((max(times) - min(times)) * stream.time_base)
        notes = _told(stream, len(stamps), frames_a_second, sorted(times), cut, faults)
        counted = untold and bool(stream.codec_context.has_b_frames)
    if not shows:
        raise SourceError(f"{path}: holds no frames; fetch it again")
    numbers = [-1] * len(stamps)
    for number, place in enumerate(sorted(shows, key=lambda n: stamps[n] or 0) if timed else shows):
        numbers[place] = number
    return Index(
        tuple(numbers), frozenset(keys), counted, len(shows), frames_a_second, tuple(notes)
    )


def _told(
    stream: Any, there: int, rate: float, times: list[int], cut: bool, faults: Sequence[str]
) -> list[str]:
    """What the header says that the packets do not bear out, and what else is to be known."""
    notes = []
    if stream.frames > there - cut:
        why = "truncated" if cut or faults else "truncated, or miscounted"
        notes.append(f"the header promises {stream.frames} frames, {there - cut} are there: {why}")
    elif cut or faults:
        notes.append(f"ends amid frame {there - 1 if cut else there}: truncated")
    container = stream.container
    if "matroska" in container.format.name and len(container.streams) == 1 and rate:
        # Matroska counts no frames, but tells its length in seconds.
        promised, found = (
            (container.duration or 0) / 1e6,
            float(max(times, default=0) * stream.time_base),
        )
        if promised > found + 2 / rate:
            notes.append(
                f"the header promises {promised:.1f} s, {found:.1f} s are there: truncated"
            )
    steps = [after - before for before, after in pairwise(times)]
    usual = sorted(steps)[len(steps) // 2] if steps else 0
    if container.format.name.startswith("mpeg") and usual and max(steps) > 1.5 * usual:
        # Of constant rate by its standard, and a damaged frame may not even be found in it.
        at = next(number for number, step in enumerate(steps) if step > 1.5 * usual)
        notes.append(f"time stamps jump after frame {at}: frames lost, later numbers may lag")
    ratio = stream.sample_aspect_ratio
    if ratio and ratio != 1:
        notes.append(f"pixels of {ratio.numerator}:{ratio.denominator}; shown as stored")
    return notes


def _hidden(stream: Any, packet: Any) -> bool:
    """Whether a VP8 packet only serves as a reference: not a key, show_frame 0 (RFC 6386, 9.1).

    Its first part has to fit too, or a damaged packet would lose its number.
    """
    if stream.codec_context.name != "vp8" or packet.size < 3:
        return False
    tag = int.from_bytes(memoryview(packet)[:3], "little")
    return tag & 0x11 == 1 and 0 < tag >> 5 < packet.size


def _packets(stream: Any, faults: list[str]) -> Iterator[Any]:
    """The packets that hold something, to the end or to where the container is broken."""
    try:
        # Empty packets would be taken for the end of the stream; they repeat a frame.
        yield from (packet for packet in stream.container.demux(stream) if packet.size)
    except _faults() as error:
        faults.append(type(error).__name__)


def _faults() -> tuple[type[Exception], ...]:
    """What PyAV raises for a damaged file; its own errors are kin of the built-in ones in part."""
    from av.error import FFmpegError

    builtin = (OSError, EOFError, ValueError, MemoryError, ArithmeticError, LookupError)
    return (FFmpegError, *builtin, RuntimeError, TypeError, AttributeError)


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """The first video stream of the file, FFmpeg kept silent. Raises `SourceError`."""
    av = library("av", "video", path)
    level = av.logging.get_level()
    av.logging.set_level(None)
    options = {"format_whitelist": CONTAINERS, "protocol_whitelist": "file"}
    limit = {"max_pixels": str(PIXELS)}
    try:
        with av.open(f"file:{path}", options=options | limit, metadata_errors="ignore") as file:
            covers = av.stream.Disposition.attached_pic
            streams = [one for one in file.streams.video if not one.disposition & covers]
            if not streams:
                raise SourceError(f"{path}: holds no video; check the recipe's layout")
            yield streams[0]
    except _faults() as error:
        told = getattr(error, "strerror", None) or type(error).__name__
        raise SourceError(f"{path}: cannot be read as a video ({told}); fetch it again") from error
    finally:
        av.logging.set_level(level)


def decoded(stream: Any, index: Index, lost: dict[int, str]) -> Frames:
    """Number and frame of what decoded without fault; what did not goes to `lost`.

    After a damaged packet every frame that may build on it is lost: all up to the next key frame,
    and those that follow the key frame but are shown before it.
    """
    context = stream.codec_context
    context.thread_type = "NONE"  # threads report a fault with a later packet
    context.thread_count = 1
    context.copy_opaque = True  # tells from which packet a frame came
    context.options = {"err_detect": "explode", "max_pixels": str(PIXELS)}
    bad: set[int] = set()
    damaged = bool(index.keys) and 0 not in index.keys  # begins amid a group of frames
    lead, counter = -1, 0
    packets = enumerate(_packets(stream, []))
    while True:
        place, packet = next(packets, (len(index.numbers), None))
        if packet is not None and place in index.keys:
            lead = index.numbers[place] if damaged else lead
            damaged = False
        frames = []
        try:
            if packet is None:
                frames = context.decode(None)
            elif packet.is_corrupt:
                damaged = True
            else:
                packet.opaque = [place]  # PyAV keys it by identity: whole numbers would collide
                frames = context.decode(packet)
        except _faults():
            damaged = True
        if index.counted and damaged:
            lost.update(dict.fromkeys(range(counter, index.count), UNNUMBERED))
            return
        if packet is not None and (damaged or -1 < index.numbers[place] < lead):
            bad.add(place)
            lost[index.numbers[place]] = UNREADABLE
        for frame in frames:
            if frame.opaque is None:
                continue  # a decoder that does not tell; its frames have no number
            (origin,) = frame.opaque
            if frame.is_corrupt:
                damaged = packet is not None
                bad.update(range(origin, place + 1))
                lost.update(dict.fromkeys(index.numbers[origin : place + 1], UNREADABLE))
            elif origin not in bad:
                yield (counter if index.counted else index.numbers[origin]), frame
            counter += 1
        if packet is None:
            return
