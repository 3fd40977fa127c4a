"""The released folder, as any user would read it: questions and gold boxes, no pictures.

Takes our releases and the authors' files alike. Boxes are kept as they stand: the release names
the last pixel, and the official arithmetic uses its numbers as continuous coordinates.
"""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ReleaseError
from ..model import SIDE, TASKS
from .metrics import Corners

SHORT = {value: short for short, (_, value) in TASKS.items()}
"""Published `task` value -> short name."""


@dataclass(frozen=True, slots=True)
class Gold:
    """One question and its answer, `x1, y1, x2, y2` in pixels of a picture of `size` (w, h).

    `answer_image` (0-based) and `structure` are None and '' where the record does not tell.
    """

    id: str
    task: str
    answer: Corners
    size: tuple[float, float] = (SIDE, SIDE)
    question: str = ""
    answer_image: int | None = None
    structure: str = ""


def gold(path: Path) -> list[Gold]:
    """The samples of a folder with any of Task1.json .. Task8.json, or of one such file, in order.

    A record without an `id` is called `TaskN:<position>`, counted from 0; N is the file's, or the
    task's where the file has another name. Raises `ReleaseError` at the first fault.
    """
    path = Path(path)
    files = [path]
    if path.is_dir():
        files = [at for number in range(1, 9) if (at := path / f"Task{number}.json").is_file()]
        if not files:
            raise ReleaseError(
                f"{path}: holds no Task1.json .. Task8.json; give the folder that `generate` "
                "wrote, or one TaskN.json"
            )
    samples: list[Gold] = []
    places: dict[str, str] = {}
    again: list[str] = []
    for file in files:
        for position, record in enumerate(_records(file)):
            sample = _sample(file, position, record)
            place = f"{file.name} record {position}"
            if sample.id in places:
                again.append(f"{sample.id!r} ({places[sample.id]}, {place})")
            places.setdefault(sample.id, place)
            samples.append(sample)
    if again:
        raise ReleaseError(
            f"{path}: ids must be unique, but twice there: {several(again)}; give each record its "
            "own id, or none"
        )
    if not samples:
        raise ReleaseError(f"{path}: holds no records; nothing can be scored against it")
    return samples


def several(words: Sequence[str], most: int = 5, joint: str = ", ") -> str:
    """The first few of `words`, and how many more there are."""
    more = len(words) - most
    return joint.join([*words[:most], *([f"and {more} more"] if more > 0 else [])])


def _records(file: Path) -> list[Any]:
    try:
        records = json.loads(file.read_text("utf-8-sig"))
    except OSError as error:
        raise ReleaseError(
            f"{file}: cannot be read ({error.strerror}); give a release folder or one TaskN.json"
        ) from error
    except (ValueError, RecursionError) as error:
        raise ReleaseError(
            f"{file}: is not JSON ({error}); expected a list of records, as `generate` writes"
        ) from error
    if not isinstance(records, list):
        raise ReleaseError(
            f"{file}: holds {_shown(records)}; expected a list of records, as `generate` writes"
        )
    return records


def _sample(file: Path, position: int, record: Any) -> Gold:
    where = f"{file}: record {position}"
    if not isinstance(record, dict):
        raise ReleaseError(f"{where}: is {_shown(record)}; expected an object with task and answer")
    value = record.get("task")
    task = SHORT.get(value) if isinstance(value, str) else None
    if task is None:
        raise ReleaseError(f"{where}: task is {_shown(value)}; expected one of {', '.join(SHORT)}")
    if "answer" not in record:
        raise ReleaseError(f"{where}: has no answer; a release to score against needs gold boxes")
    one, two, three, four = _numbers(where, "answer", record["answer"], "[x1, y1, x2, y2]")
    width, height = _numbers(where, "size", record.get("size", [SIDE, SIDE]), "[width, height]")
    image = record.get("answer_image")
    return Gold(
        _id(where, file, position, record, task),
        task,
        (one, two, three, four),
        (width, height),
        str(record.get("question", "")),
        image if isinstance(image, int) else None,
        str(record.get("structure", "")),
    )


def _id(where: str, file: Path, position: int, record: dict[str, Any], task: str) -> str:
    name = record.get("id")
    if name is None:
        named = re.fullmatch(r"Task([1-8])\.json", file.name)
        return f"Task{named[1] if named else TASKS[task][0]}:{position}"
    if isinstance(name, bool) or not isinstance(name, str | int) or name == "":
        raise ReleaseError(f"{where}: id is {_shown(name)}; expected a text, or no id at all")
    return str(name)


def _numbers(where: str, key: str, value: Any, form: str) -> list[float]:
    count = form.count(",") + 1
    if (
        not isinstance(value, list)
        or len(value) != count
        or any(isinstance(one, bool) or not isinstance(one, int | float) for one in value)
        or not all(abs(one) < 1e9 and math.isfinite(one) for one in value)
    ):
        words = {2: "two", 4: "four"}[count]
        raise ReleaseError(
            f"{where}: {key} is {_shown(value)}; expected {words} numbers {form} in pixels"
        )
    return [float(one) for one in value]


def _shown(value: Any) -> str:
    """`value` as JSON would have it, short enough for a message."""
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= 60 else f"{text[:57]}..."
