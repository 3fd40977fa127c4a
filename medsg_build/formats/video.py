"""Videos (MP4, AVI, MOV, MKV, WebM, WMV, MPEG), through PyAV, decoded from the first frame on.

A frame's number is its place in the order of presentation, from 0: the rank of its time stamp
among those of all packets of the stream, found without decoding. So a frame that cannot be decoded
leaves a gap and the others keep their numbers.

Rejected: the frame count of the header (often wrong); seeking by frame (lands elsewhere where the
rate varies); counting decoded pictures (every damaged one moves the rest up); cv2.VideoCapture,
which passes over damaged frames, or fills them in, without a word.
"""

import heapq
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SourceError
from ..model import Grid, Pixels, Volume, Wanted
from .video_packets import (
    PIXELS,
    RESIZED,
    UNNUMBERED,
    UNREADABLE,
    Frames,
    Index,
    decoded,
    indexed,
    opened,
)

suffixes = (".mp4", ".m4v", ".avi", ".mov", ".mkv", ".webm", ".wmv", ".mpg", ".mpeg")

LARGEST = 16 * 2**30
"""Bytes of decoded frames beyond which they are not held at once."""

AHEAD = 16
"""Frames that may be held until an earlier one comes: the deepest reordering that H.264 allows."""


def measure(path: Path, wanted: Wanted) -> Grid:
    """Shape (x, y, frames), upright; one frame is decoded, for the way it is to be turned."""
    index = indexed(path, wanted)
    with closing(_shown(path, index, set(range(index.count)), {})) as shown:
        for _, picture in shown:
            return Grid((picture.shape[1], picture.shape[0], index.count), np.eye(4), True)
    raise SourceError(f"{path}: no frame can be decoded; fetch it again")


def rate(path: Path) -> float:
    """Frames a second, on average over the stream. Raises `SourceError` where it is not told."""
    index = indexed(path, Wanted())
    if not 0 < index.rate < float("inf"):
        raise SourceError(f"{path}: tells no frame rate; choose frames by their numbers instead")
    return index.rate


def remarks(path: Path, wanted: Wanted) -> tuple[str, ...]:
    """What is to be said of the file as a whole, found without decoding."""
    return tuple(f"{path.name}: {note}" for note in indexed(path, wanted).notes)


def sequence(path: Path, wanted: Wanted) -> Iterator[tuple[int, NDArray[Any]]]:
    """Each readable frame that is wanted, with its number, in order; one at a time in memory.

    (x, y, 3) uint8 RGB; with `wanted.labels` (x, y) of 0 and 255. Raises `SourceError`.
    """
    index = indexed(path, wanted)
    yield from _ordered(path, index, wanted, {})


def read(path: Path, wanted: Wanted) -> Volume:
    """The frames as (x, y, frames, 3) uint8 RGB; `numbers` where these are not all of them.

    With `wanted.labels`: (x, y, frames), 255 from half grey up, else 0; only black and white videos
    are taken, for compression blurs label values. `notes` tell what is damaged or absent. Raises
    `SourceError` where nothing wanted can be decoded.
    """
    index = indexed(path, wanted)
    asked = _asked(index, wanted)
    lost: dict[int, str] = {}
    held: list[int] = []
    data: NDArray[Any] | None = None
    with closing(_ordered(path, index, wanted, lost)) as frames:
        for number, frame in frames:
            if data is None:
                if frame.shape[0] * frame.shape[1] * 3 * len(asked) > LARGEST:
                    raise SourceError(
                        f"{path}: {len(asked)} frames of {frame.shape[0]}x{frame.shape[1]} pixels "
                        "are more than 16 GiB; choose fewer frames"
                    )
                data = np.empty((len(asked), *frame.shape), np.uint8)
            data[len(held)] = frame
            held.append(number)
    if data is None:
        raise SourceError(
            f"{path}: none of the {len(asked)} frames asked for can be decoded; fetch it again"
        )
    whole = wanted.only is None and len(held) == index.count
    return Volume(
        np.moveaxis(data[: len(held)], 0, 2),
        np.eye(4),
        (1.0, 1.0, 1.0),
        np.eye(4),
        flat=True,
        notes=_notes(path, index, wanted, sorted(asked - set(held)), lost),
        numbers=None if whole else tuple(held),
    )


def _asked(index: Index, wanted: Wanted) -> set[int]:
    every = range(index.count)
    return set(every if wanted.only is None else (n for n in wanted.only if n in every))


def _notes(
    path: Path, index: Index, wanted: Wanted, gone: list[int], lost: dict[int, str]
) -> tuple[str, ...]:
    """What was chosen and what is missing, a line each."""
    notes = list(index.notes)
    if wanted.labels:
        notes.append("a mask in a compressed video, cut at half grey")
    beyond = sorted(n for n in set(wanted.only or ()) if not 0 <= n < index.count)
    if beyond:
        notes.append(f"{spelled(beyond)} asked for, but it has {index.count}")
    for reason in (UNREADABLE, RESIZED, UNNUMBERED):
        some = [number for number in gone if lost.get(number, UNREADABLE) == reason]
        if some:
            notes.append(f"{spelled(some)} {reason}; the others keep their numbers")
    return tuple(f"{path.name}: {note}" for note in notes)


def spelled(numbers: Sequence[int]) -> str:
    """`frame 10`, `frames 3, 7-12`: at most eight runs, then how many there are in all."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    words = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs[:8])
    more = f", ... ({len(numbers)} in all)" if len(runs) > 8 else ""
    return f"frame{'s' if len(numbers) > 1 else ''} {words}{more}"


def _ordered(path: Path, index: Index, wanted: Wanted, lost: dict[int, str]) -> Frames:
    """The wanted frames (x, y[, 3]), numbers ascending; a decoder may show a few out of turn."""
    asked = sorted(_asked(index, wanted))
    waiting: list[tuple[int, NDArray[Any]]] = []
    place, last, dark, bright = 0, -1, False, False
    with closing(_shown(path, index, set(asked), lost)) as shown:
        for number, picture in shown:
            frame: NDArray[Any] = picture.swapaxes(0, 1)
            if wanted.labels:
                dark = dark or bool(picture.any())
                frame = _cut(path, number, frame)
                bright = bright or bool(frame.any())
            if number < last:
                raise SourceError(
                    f"{path}: its time stamps contradict the order of its frames; convert it anew"
                )
            heapq.heappush(waiting, (number, frame))
            while waiting:
                while asked[place] in lost and asked[place] < waiting[0][0]:
                    place += 1
                if len(waiting) <= AHEAD and waiting[0][0] > asked[place]:
                    break
                last = waiting[0][0]
                place = min(bisect_right(asked, last), len(asked) - 1)
                yield heapq.heappop(waiting)
    while waiting:
        yield heapq.heappop(waiting)
    if dark and not bright and wanted.only is None:
        raise SourceError(f"{path}: a mask that never reaches half grey; save label values as PNG")


def _cut(path: Path, number: int, frame: Pixels) -> Pixels:
    """255 from half grey up, else 0 (x, y), of a plainly black and white frame (x, y, 3)."""
    grey = frame[:, :, 1]
    coloured = int((frame.max(axis=2) - frame.min(axis=2)).max(initial=0)) > 8
    between = float(((grey > 64) & (grey < 192)).mean())
    if coloured or between > 0.05:
        what = "is in colour" if coloured else f"has {between:.0%} between black and white"
        raise SourceError(
            f"{path}: a mask in a video, whose frame {number} {what}; compression blurs label "
            "values: save the masks as PNG"
        )
    return (grey >= 128).astype(np.uint8) * np.uint8(255)


def _shown(path: Path, index: Index, pending: set[int], lost: dict[int, str]) -> Frames:
    """The frames of `pending`, upright (rows, columns, 3), as decoded, until all have come."""
    size = None
    with opened(path) as stream, closing(decoded(stream, index, lost)) as frames:
        for number, frame in frames:
            size = size or (frame.width, frame.height)
            if frame.width * frame.height > PIXELS:
                raise SourceError(f"{path}: declares {frame.width}x{frame.height}; not believed")
            if size != (frame.width, frame.height):
                lost[number] = RESIZED
            elif number in pending:
                pending.discard(number)
                yield number, _upright(frame)
            if pending <= lost.keys():
                return


def _upright(frame: Any) -> Pixels:
    """RGB (rows, columns, 3), turned and mirrored by quarter turns as its display matrix says.

    The matrix maps (x, y) to (a x + c y, b x + d y) (FFmpeg, libavutil/display.h).
    """
    picture: Pixels = frame.to_ndarray(format="rgb24")
    for data in frame.side_data:
        if data.type.name == "DISPLAYMATRIX":
            a, b, _, c, d = np.frombuffer(bytes(data), np.int32)[:5].tolist()
            swapped = abs(a) + abs(d) < abs(b) + abs(c)
            picture = picture.swapaxes(0, 1) if swapped else picture
            across, down = (c, b) if swapped else (a, d)
            picture = picture[:: -1 if down < 0 else 1, :: -1 if across < 0 else 1]
    return picture
