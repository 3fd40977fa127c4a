"""A contact sheet of slices: pictures of a `slice` folder with all their boxes and names."""

import colorsys
import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import ReleaseError
from ..identity import unit
from ..model import SIDE
from ..store import writing

GAP = 6
LINE = 16
ACROSS = 4


def is_sliced(out: Path) -> bool:
    """Whether `out` is what `medsg-build slice` writes."""
    return (out / "images.csv").is_file() and (out / "boxes.csv").is_file()


def slice_sheet(out: Path, path: Path, count: int) -> int:
    """Draw `count` of the pictures of `out`, taken evenly, into `path`; how many.

    `path`: PNG, or JPEG or PDF by its suffix. Raises `ReleaseError` where a table or a picture
    cannot be read.
    """
    from PIL import Image

    try:
        with (out / "images.csv").open(encoding="utf-8", newline="") as file:
            images = list(csv.DictReader(file))
        with (out / "boxes.csv").open(encoding="utf-8", newline="") as file:
            boxes: dict[str, list[dict[str, str]]] = {}
            for row in csv.DictReader(file):
                boxes.setdefault(row["image"], []).append(row)
    except (OSError, ValueError, KeyError, csv.Error) as error:
        raise ReleaseError(f"{out}: its tables cannot be read ({error})") from error
    step = max(1, len(images) // count)
    shown = images[step // 2 :: step][:count]
    if not shown:
        raise ReleaseError(f"{out}: images.csv names no picture")
    side = SIDE + GAP
    rows = -(-len(shown) // ACROSS)
    size = (min(ACROSS, len(shown)) * side + GAP, rows * (side + LINE) + GAP)
    sheet = Image.new("RGB", size, "white")
    for place, image in enumerate(shown):
        corner = (GAP + place % ACROSS * side, GAP + place // ACROSS * (side + LINE))
        sheet.paste(_drawn(out, image, boxes.get(image["image"], ())), corner)
    kind = {".jpg": "JPEG", ".jpeg": "JPEG", ".pdf": "PDF"}.get(path.suffix.lower(), "PNG")
    with writing(path, "wb") as file:
        sheet.save(file, kind)
    return len(shown)


def _drawn(out: Path, image: Mapping[str, str], boxes: Sequence[Mapping[str, str]]) -> Any:
    """One picture, its boxes in a colour a structure, and below it what it is."""
    from PIL import Image, ImageDraw, ImageFont

    tile = Image.new("RGB", (SIDE, SIDE + LINE), "white")
    pen, font = ImageDraw.Draw(tile), ImageFont.load_default(11)
    try:
        with Image.open(out / image["image"]) as picture:
            tile.paste(picture.convert("RGB"), (0, 0))
    except OSError as error:
        raise ReleaseError(f"{out / image['image']}: cannot be opened ({error})") from error
    for box in boxes:
        x0, y0, x1, y1 = (int(box[name]) for name in ("x0", "y0", "x1", "y1"))
        hue = colorsys.hsv_to_rgb(unit(0, "colour", box["structure"]), 0.8, 1.0)
        colour = tuple(int(255 * part) for part in hue)
        pen.rectangle((x0 - 1, y0 - 1, x1 + 1, y1 + 1), outline=colour)
        pen.text((max(0, x0), max(0, y0 - 13)), box["structure"], fill=colour, font=font)
    told = f"{image['case'].split('/', 1)[-1]} {image['series']} {image['view']} {image['number']}"
    pen.text((2, SIDE + 1), told, fill="black", font=font)
    return tile
