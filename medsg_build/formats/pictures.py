"""Plain pictures (PNG, JPEG, BMP, TIFF, GIF), through Pillow.

A picture is a flat volume: data (x, y, frames[, 3]), shown as stored, upright by its EXIF tag.
Several pages of a TIFF, or the pictures of a GIF, are the frames of a sequence. A mask in colour
gives one label a colour; one saved as JPEG is cut at half grey where it was plainly black and
white, else refused.
"""

import struct
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SourceError
from ..model import Grid, Volume, Wanted

suffixes = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff", ".gif")

LARGEST = 300_000_000
"""Pixels, over all frames, beyond which a header is not believed."""

COLOURS = 64
"""Colours beyond which a mask is taken to be a lossy or smoothed picture."""


def measure(path: Path, wanted: Wanted) -> Grid:
    """Shape (x, y, frames) and the identity: pictures carry no geometry."""
    with _opened(path) as opened:
        count = len(_pages(path, opened, wanted.part))
        try:
            turned = opened.getexif().get(0x0112, 1) in (5, 6, 7, 8)  # by a quarter
            # Pillow has swapped the size of a TIFF by now, of a JPEG not.
            width, height = _upright(opened).size if turned else opened.size
        except _BROKEN as error:
            raise SourceError(f"{path}: cannot be decoded ({error}); fetch it again") from error
        return Grid((width, height, count), np.eye(4), True)


def read(path: Path, wanted: Wanted) -> Volume:
    """The picture: (x, y, frames) for grey, (x, y, frames, 3) for colour, the file's own depth.

    With `wanted.labels`: palette positions as they are, grey values, or one value a colour, which
    `names` tells; where a file is transparent nothing is labelled. `wanted.part` picks a frame.
    Raises `SourceError` for a broken file or a mask that cannot be trusted.
    """
    with _opened(path) as opened:
        pages = _pages(path, opened, wanted.part)
        wished = range(len(pages)) if wanted.only is None else wanted.only
        held, names, notes = [], {}, []
        try:
            for number in wished:
                opened.seek(pages[number])
                data, called, said = _decoded(path, opened, wanted.labels)
                held.append(data)
                names.update(called)
                notes += [note for note in said if note not in notes]
        except _BROKEN as error:
            raise SourceError(f"{path}: cannot be decoded ({error}); fetch it again") from error
    if len({data.shape[:2] for data in held}) > 1:
        raise SourceError(f"{path}: its pages differ in size; say which under layout.parts")
    if len({data.ndim for data in held}) > 1:
        held = [data if data.ndim == 3 else np.dstack([data] * 3) for data in held]
    if len(held) > 1 and names:
        raise SourceError(f"{path}: a mask of several pages in colour; save label values instead")
    # (frames, rows, columns[, 3]) as decoded, seen as (x, y, frames[, 3]).
    whole = held[0][None] if len(held) == 1 else np.stack(held)
    return Volume(
        whole.transpose(2, 1, 0, *range(3, whole.ndim)),
        np.eye(4),
        (1.0, 1.0, 1.0),
        np.eye(4),
        True,
        tuple(notes),
        names,
        wanted.only,
    )


def _pages(path: Path, opened: Any, part: int | str | None) -> list[int]:
    """Positions of the pages that are frames: those as large as the first (others are previews)."""
    try:
        count = int(getattr(opened, "n_frames", 1))
    except _BROKEN as error:
        raise SourceError(f"{path}: its pages cannot be counted ({error})") from error
    if part is not None:
        if not isinstance(part, int) or not 0 <= part < count:
            raise SourceError(f"{path}: has no part {part!r}; it has {count} pages, from 0")
        return [part]
    if count * opened.size[0] * opened.size[1] > LARGEST:
        raise SourceError(
            f"{path}: declares {count} pages of {opened.size[0]}x{opened.size[1]} pixels; "
            "not believed"
        )
    return list(range(count))


def _decoded(
    path: Path, opened: Any, labels: bool
) -> tuple[NDArray[Any], dict[str, int], list[str]]:
    """One page (rows, columns[, 3]), what its label values are called, and what was chosen."""
    lossy = labels and opened.format == "JPEG"
    picture = _upright(opened)
    grey = picture.mode in ("1", "L", "I", "F") or picture.mode.startswith("I;16")
    if labels and picture.mode == "P":
        # Pillow may unfold a palette while it turns a picture, never while it loads one.
        return np.array(picture), _palette(picture), []
    if not grey and not labels:
        return np.array(picture.convert("RGB")), {}, []
    if not grey:
        return _coloured(path, picture, lossy)
    data: NDArray[Any] = np.array(picture)
    if data.dtype == np.bool_:
        data = data.astype(np.uint8) * (1 if labels else 255)
    if not data.dtype.isnative:
        data = data.astype(data.dtype.newbyteorder("="))
    if lossy:
        return _cleared(path, data), {}, [f"{path.name}: lossy mask cut at half grey"]
    return data, {}, []


def _palette(picture: Any) -> dict[str, int]:
    """Colours of a palette -> their positions, those that stand there once."""
    table = (picture.getpalette("RGB") or [])[: 3 * 256]
    colours = [tuple(table[n : n + 3]) for n in range(0, len(table), 3)]
    return {
        "#{:02x}{:02x}{:02x}".format(*colour): position
        for position, colour in enumerate(colours)
        if position and colours.count(colour) == 1
    }


def _coloured(
    path: Path, picture: Any, lossy: bool
) -> tuple[NDArray[Any], dict[str, int], list[str]]:
    """A mask in colour: grey where all channels are equal, else a label for each colour."""
    clear = None
    if picture.mode in ("LA", "PA", "RGBA", "La", "RGBa"):
        clear = np.array(picture.convert("RGBA"))[:, :, 3] == 0
    if picture.mode in ("LA", "La"):
        picture = picture.convert("L").convert("RGB")
    colours = np.array(picture.convert("RGB"))
    if clear is not None:
        if not clear.all() and clear.any() and not np.ptp(colours[~clear], axis=0).any():
            note = f"{path.name}: one colour on a transparent ground; what is not clear is labelled"
            return (~clear).astype(np.uint8), {}, [note]
        colours[clear] = 0
    spread = int((colours.max(axis=2) - colours.min(axis=2)).max(initial=0))
    if spread <= (16 if lossy else 0):
        grey = colours[:, :, 1]
        if lossy:
            return _cleared(path, grey), {}, [f"{path.name}: lossy mask cut at half grey"]
        return grey, {}, []
    codes = colours.astype(np.uint32) @ np.array([1 << 16, 1 << 8, 1], np.uint32)
    found = [int(code) for code in np.unique(codes) if code]
    if lossy or len(found) > COLOURS:
        raise SourceError(
            f"{path}: a mask of {len(found)} colours"
            + (", saved as JPEG, which is lossy" if lossy else "")
            + "; label values or a few plain colours are expected, one a structure: save it as PNG "
            "without smoothing"
        )
    # From 256 up: no number that a recipe gives can mean a colour by chance.
    labels = np.zeros(codes.shape, np.uint16)
    for value, code in enumerate(found, 256):
        labels[codes == code] = value
    names = {f"#{code:06x}": value for value, code in enumerate(found, 256)}
    return labels, names, [f"{path.name}: labels by colour: {', '.join(names)}"]


def _cleared(path: Path, data: NDArray[Any]) -> NDArray[Any]:
    """A JPEG mask without the ringing at its edges: 255 from half grey up, else 0."""
    between = float(((data > 64) & (data < 192)).mean())
    if between > 0.05:
        raise SourceError(
            f"{path}: a JPEG mask with {between:.0%} of its values between black and white; JPEG "
            "is lossy, so several label values cannot be told apart: save the mask as PNG"
        )
    return (data >= 128).astype(np.uint8) * np.uint8(255)


_BROKEN = (OSError, EOFError, ValueError, TypeError, SyntaxError, LookupError, struct.error)
"""What Pillow raises for a damaged file."""


def _upright(picture: Any) -> Any:
    from PIL import ImageOps

    # Pillow 13 maps the bytes of an uncompressed TIFF by its turned size, which scrambles it; a
    # picture without a file name is read instead.
    picture.filename = ""
    picture.load()  # a TIFF is turned here already, and must not be turned twice
    return ImageOps.exif_transpose(picture)


def _opened(path: Path) -> Any:
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # our own limit rules
            picture = Image.open(path)
    except (*_BROKEN, Image.DecompressionBombError) as error:
        raise SourceError(f"{path}: cannot be opened as a picture ({error})") from error
    if picture.size[0] * picture.size[1] > LARGEST:
        picture.close()
        raise SourceError(
            f"{path}: declares {picture.size[0]}x{picture.size[1]} pixels; not believed"
        )
    return picture
