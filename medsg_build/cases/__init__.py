"""The only opener of source pixels: once to survey what a case holds, once to develop frames.

A survey opens the masks (the picture's header only, for its grid); where a case has none it opens
the picture, to learn which slices show the body. Developing opens the picture, and the masks
whose structures a task asked for.
"""

from .develop import DevelopJob, develop_case, frame_file, frame_of, frames_of, load_frame, orders
from .findings import nowhere
from .opening import file_digest, grid_of, rate_of
from .survey import SurveyJob, survey_case

__all__ = [
    "DevelopJob",
    "SurveyJob",
    "develop_case",
    "file_digest",
    "frame_file",
    "frame_of",
    "frames_of",
    "grid_of",
    "load_frame",
    "nowhere",
    "orders",
    "rate_of",
    "survey_case",
]
