"""The promises of a release, one small function each.

A check yields its findings, or says that it cannot look (`Unchecked`): one that has nothing to look
at is never counted as passed.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from . import names, proofs, records
from .finding import Absent, Finding, Unchecked
from .release import Release, opened

Check = Callable[[Release], Iterator[Finding]]

CHECKS: Mapping[str, Check] = {
    "records": records.check_records,
    "ids": records.check_ids,
    "counts": records.check_counts,
    "boxes": records.check_boxes,
    "questions": records.check_questions,
    "ordinals": records.check_ordinals,
    "reference words": records.check_reference_words,
    "names": names.check_names,
    "strays": names.check_strays,
    "pictures": names.check_pictures,
    "pixels": proofs.check_pixels,
    "provenance": proofs.check_provenance,
    "rdg proof": proofs.check_registered,
    "nrdg proof": proofs.check_nonregistered,
    "marked rectangle": proofs.check_rectangles,
    "gold scores 1": records.check_gold,
}
"""In the order they run. Adding a check: one function, one line here, one breaking test."""


@dataclass(frozen=True, slots=True)
class Report:
    """`checked`: check -> findings it made; `skipped`: check -> why it could not look."""

    findings: tuple[Finding, ...]
    checked: Mapping[str, int]
    skipped: Mapping[str, str]


def validate(
    path: Path,
    only: Iterable[str] | None = None,
    progress: Callable[[str, int, int], None] = lambda _stage, _done, _total: None,
) -> Report:
    """Run the checks, or `only` those named, on the release at `path`.

    Raises `ReleaseError` where the folder is no release or a file of it cannot be parsed.
    """
    release = opened(path)
    names_wanted = list(CHECKS) if only is None else list(only)
    findings: list[Finding] = []
    checked: dict[str, int] = {}
    skipped: dict[str, str] = {}
    for done, name in enumerate(names_wanted):
        progress("check", done, len(names_wanted))
        try:
            found = list(CHECKS[name](release))
        except Absent:
            continue
        except Unchecked as reason:
            skipped[name] = str(reason)
            continue
        checked[name] = len(found)
        findings += found
    progress("check", len(names_wanted), len(names_wanted))
    return Report(tuple(findings), checked, skipped)
