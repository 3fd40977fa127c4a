"""Plain pictures (PNG, JPEG, BMP, TIFF), through Pillow.

A picture is a volume of one slice: data (x, y, 1[, 3]), shown as stored, upright by its EXIF tag.
A mask saved as JPEG is cut at half grey where it was plainly black and white, else refused.
"""

import struct
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SourceError
from ..model import Floats, Volume

suffixes = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff")

flat = True
"""A picture has no geometry; it is shown as it is."""

LARGEST = 300_000_000
"""Pixels beyond which a header is not believed."""


def measure(path: Path) -> tuple[tuple[int, ...], Floats]:
    """Shape (x, y, 1) and the identity: pictures carry no geometry."""
    with _opened(path) as opened:
        try:
            turned = opened.getexif().get(0x0112, 1) in (5, 6, 7, 8)  # by a quarter
            # Pillow has swapped the size of a TIFF by now, of a JPEG not.
            width, height = _upright(opened).size if turned else opened.size
        except _BROKEN as error:
            raise SourceError(f"{path}: cannot be decoded ({error}); fetch it again") from error
        return (width, height, 1), np.eye(4)


def read(path: Path, labels: bool = False) -> Volume:
    """The picture: (x, y, 1) for grey, (x, y, 1, 3) for colour, the file's own depth.

    `labels` keeps palette indices as they are and takes a grey or palette picture only.
    Raises `SourceError` for a broken file, one of several pages or, with `labels`, a coloured one.
    """
    with _opened(path) as opened:
        if opened.format == "TIFF" and opened.n_frames > 1:
            raise SourceError(f"{path}: holds {opened.n_frames} pages; one picture is expected")
        try:
            picture = _upright(opened)
            grey = picture.mode in ("1", "L", "I", "F") or picture.mode.startswith("I;16")
            if labels and not grey and picture.mode != "P":
                raise SourceError(
                    f"{path}: a mask in colour (mode {picture.mode}); label values are expected, "
                    "one grey value a structure"
                )
            if not labels and not grey:
                picture = picture.convert("RGB")
            data: NDArray[Any] = np.array(picture)
        except _BROKEN as error:
            raise SourceError(f"{path}: cannot be decoded ({error}); fetch it again") from error
        lossy = labels and opened.format == "JPEG"
    if data.dtype == np.bool_:
        data = data.astype(np.uint8) * (1 if labels else 255)
    if not data.dtype.isnative:
        data = data.astype(data.dtype.newbyteorder("="))
    if lossy:
        data = _cleared(path, data)
    data = data.swapaxes(0, 1)[:, :, None]
    notes = ("lossy mask cut at half grey",) if lossy else ()
    return Volume(data, np.eye(4), (1.0, 1.0, 1.0), np.eye(4), True, notes)


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
