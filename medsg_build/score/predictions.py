"""A model's answers: JSON lines `{"id": .., "text": ..}`, one a sample.

`text` may also be called `answer`; it is the model's words as they came, or a box as a list, or
null where the model said nothing. An id may be a whole number; it is compared as text. Other keys
are left alone, blank lines skipped.

A line that cannot be read and an id that comes twice with different answers are errors, reported
together with their line numbers: to choose the first or the last would be to choose a score. Twice
with the same answer, as a resumed run may leave it, counts once and is named.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import ReleaseError
from .release import several

KEYS = ("text", "answer")
EXPECTED = '{"id": .., "text": ..}'


@dataclass(frozen=True, slots=True)
class Predictions:
    """`answers`: id -> what the model answered. `repeated`: ids that came again, unchanged."""

    answers: dict[str, Any]
    repeated: tuple[str, ...] = ()


class _Line(NamedTuple):
    id: str
    answer: Any


def predicted(path: Path) -> Predictions:
    """The answers in a file of JSON lines. Raises `ReleaseError` naming the faulty lines."""
    path = Path(path)
    answers: dict[str, Any] = {}
    lines: dict[str, int] = {}
    repeated: dict[str, None] = {}
    faults: list[str] = []
    for number, raw in enumerate(_raw_lines(path), 1):
        if not raw.strip():
            continue
        line = _line(raw)
        if isinstance(line, str):
            faults.append(f"{path}:{number}: {line}")
        elif line.id not in answers:
            answers[line.id], lines[line.id] = line.answer, number
        elif answers[line.id] == line.answer:
            repeated[line.id] = None
        else:
            faults.append(
                f"{path}:{number}: duplicate id {line.id!r}, answered otherwise on line "
                f"{lines[line.id]}; keep one of the two"
            )
    if faults:
        raise ReleaseError(several(faults, joint="\n"))
    if not answers:
        raise ReleaseError(f"{path}: holds no predictions; expected lines {EXPECTED}")
    return Predictions(answers, tuple(repeated))


def _raw_lines(path: Path) -> list[bytes]:
    """The lines, undecoded: one that is not UTF-8 must not hide the others' numbers."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ReleaseError(
            f"{path}: cannot be read ({error.strerror}); give a file of JSON lines {EXPECTED}"
        ) from error
    return raw.removeprefix(b"\xef\xbb\xbf").split(b"\n")


def _line(raw: bytes) -> _Line | str:
    """One prediction, or what is wrong with it."""
    try:
        record = json.loads(raw.decode("utf-8"))
    except UnicodeDecodeError:
        return "is not UTF-8; save the file as UTF-8"
    except (ValueError, RecursionError) as error:
        return f"is not JSON ({error}); expected {EXPECTED} on one line"
    if not isinstance(record, dict):
        return f"is not an object; expected {EXPECTED}, one a line, without a list around them"
    name = record.get("id")
    if isinstance(name, bool) or not isinstance(name, str | int):
        return f"has no id that is a text or a whole number; expected {EXPECTED}"
    given = [key for key in KEYS if key in record]
    if len(given) != 1:
        return f"has {' and '.join(given) or 'no text'} for id {str(name)!r}; expected {EXPECTED}"
    return _Line(str(name), record[given[0]])
