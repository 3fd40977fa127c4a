"""What a check says."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """A broken promise: which check, which sample (or file), what is wrong."""

    check: str
    sample: str
    message: str


class Unchecked(Exception):
    """Why a check could not look at this release."""


class Absent(Unchecked):
    """The release does not have the task a check is about: nothing was promised of it."""
