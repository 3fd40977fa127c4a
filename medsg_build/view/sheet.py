"""A contact sheet: samples as rows of numbered pictures, gold boxes in green, words below."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import ReleaseError
from ..model import SIDE, TASKS
from ..store import writing

GOLD = (0, 255, 0)
GAP = 6
LINES = 3
LINE = 18


def contact_sheet(out: Path, path: Path, tasks: Sequence[str], count: int) -> int:
    """Draw the first `count` samples of each task of the release `out` into `path`; how many.

    `path`: PNG, or JPEG or PDF by its suffix. `tasks`: short names; none means all that are there.
    Raises `ReleaseError` where a task or a picture is missing.
    """
    from PIL import Image

    rows = []
    for task, (number, _) in TASKS.items():
        records = out / f"Task{number}.json"
        if (tasks and task not in tasks) or (not tasks and not records.is_file()):
            continue
        try:
            held = json.loads(records.read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise ReleaseError(f"{records}: cannot be read ({error})") from error
        rows += [_row(out, task, record) for record in held[:count]]
    unknown = set(tasks) - TASKS.keys()
    if unknown or not rows:
        raise ReleaseError(
            f"{out}: nothing to draw"
            + (
                f"; unknown task {sorted(unknown)[0]!r}"
                if unknown
                else "; no TaskN.json with samples"
            )
        )
    width = max(row.width for row in rows)
    sheet = Image.new("RGB", (width, sum(row.height for row in rows)), "white")
    top = 0
    for row in rows:
        sheet.paste(row, (0, top))
        top += row.height
    kind = {".jpg": "JPEG", ".jpeg": "JPEG", ".pdf": "PDF"}.get(path.suffix.lower(), "PNG")
    with writing(path, "wb") as file:
        sheet.save(file, kind)
    return len(rows)


def _row(out: Path, task: str, record: dict[str, Any]) -> Any:
    from PIL import Image, ImageDraw, ImageFont

    images = record["images"]
    wide = max(len(images), 2) * (SIDE + GAP) + GAP
    row = Image.new("RGB", (wide, SIDE + 2 * GAP + LINES * LINE), "white")
    pen, font = ImageDraw.Draw(row), ImageFont.load_default(13)
    for place, name in enumerate(images):
        left = GAP + place * (SIDE + GAP)
        try:
            with Image.open(out / name) as picture:
                row.paste(picture.convert("RGB"), (left, GAP))
        except OSError as error:
            raise ReleaseError(f"{out / name}: cannot be opened ({error})") from error
        if place == record.get("answer_image", 0):
            x0, y0, x1, y1 = record["answer"]
            pen.rectangle((left + x0 - 1, GAP + y0 - 1, left + x1 + 1, GAP + y1 + 1), outline=GOLD)
        pen.text((left + 4, GAP + 2), str(place + 1), fill="yellow", font=font)
    words = f"{task} {record.get('id', '')}: {record['question']}"
    for line, text in enumerate(_wrapped(words, wide - 2 * GAP, font)[:LINES]):
        pen.text((GAP, SIDE + 2 * GAP + line * LINE), text, fill="black", font=font)
    return row


def _wrapped(words: str, width: int, font: Any) -> list[str]:
    lines = [""]
    for word in words.split():
        longer = f"{lines[-1]} {word}".strip()
        if font.getlength(longer) > width and lines[-1]:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines
