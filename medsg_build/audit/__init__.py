"""Is a release true to its promises? Reads the released folder only."""

from .finding import Finding
from .release import Release, opened
from .validate import CHECKS, Report, validate

__all__ = ["CHECKS", "Finding", "Release", "Report", "opened", "validate"]
