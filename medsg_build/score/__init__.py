"""A model's answers to figures: reads a release and predictions, and opens no picture."""

from .metrics import Corners, Outcome, Summary, by_task, iou, macro, summary
from .official import official_boxes
from .parsers import DIALECTS, PIXELS, Dialect, Reading, read
from .predictions import Predictions, predicted
from .release import Gold, gold
from .report import Report, Row, as_json, report_on, score, table

__all__ = [
    "DIALECTS",
    "PIXELS",
    "Corners",
    "Dialect",
    "Gold",
    "Outcome",
    "Predictions",
    "Reading",
    "Report",
    "Row",
    "Summary",
    "as_json",
    "by_task",
    "gold",
    "iou",
    "macro",
    "official_boxes",
    "predicted",
    "read",
    "report_on",
    "score",
    "summary",
    "table",
]
