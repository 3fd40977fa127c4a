"""Plain pictures (PNG, JPEG, BMP, TIFF), through Pillow.

A picture is a volume of one slice: data (x, y, 1[, 3]), shown as stored, upright by its EXIF tag.
"""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SourceError
from ..model import Floats, Volume

suffixes = (".png", ".jpg", ".jpeg", ".bmp", ".tif", ".tiff")

LARGEST = 300_000_000
"""Pixels beyond which a header is not believed."""


def measure(path: Path) -> tuple[tuple[int, ...], Floats]:
    """Shape (x, y, 1) and the identity: pictures carry no geometry."""
    with _opened(path) as picture:
        width, height = picture.size
        if picture.getexif().get(0x0112, 1) >= 5:  # turned by a quarter
            width, height = height, width
        return (width, height, 1), np.eye(4)


def read(path: Path, labels: bool = False) -> Volume:
    """The picture: (x, y, 1) for grey, (x, y, 1, 3) for colour, the file's own depth.

    `labels` keeps palette indices as they are and takes a grey or palette picture only.
    Raises `SourceError` for a broken file or, with `labels`, a coloured one.
    """
    from PIL import ImageOps, UnidentifiedImageError

    with _opened(path) as opened:
        try:
            picture = ImageOps.exif_transpose(opened)
            if labels and picture.mode not in ("1", "L", "P", "I;16", "I", "F"):
                raise SourceError(
                    f"{path}: a mask in colour (mode {picture.mode}); label values are expected, "
                    "one grey value a structure"
                )
            if not labels and picture.mode not in ("1", "L", "I;16", "I", "F"):
                picture = picture.convert("RGB")
            data: NDArray[Any] = np.array(picture)
        except (OSError, ValueError, SyntaxError, UnidentifiedImageError) as error:
            raise SourceError(f"{path}: cannot be decoded ({error}); fetch it again") from error
    if data.dtype == np.bool_:
        data = data.astype(np.uint8) * (1 if labels else 255)
    data = data.swapaxes(0, 1)[:, :, None]
    return Volume(data, np.eye(4), (1.0, 1.0, 1.0), np.eye(4), True, ())


def _opened(path: Path) -> Any:
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # our own limit rules
            picture = Image.open(path)
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError, ValueError) as error:
        raise SourceError(f"{path}: cannot be opened as a picture ({error})") from error
    if picture.size[0] * picture.size[1] > LARGEST:
        picture.close()
        raise SourceError(
            f"{path}: declares {picture.size[0]}x{picture.size[1]} pixels; not believed"
        )
    return picture
