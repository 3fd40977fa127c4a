"""What the model is asked: ten wordings a task, in the YAML files beside this one.

A wording has placeholders for what differs from sample to sample: the images by their place in the
sequence (`{reference}`, `{target}`: words from `ordinal`), the marked rectangle (`{box}`: from
`box_words`), the expression (`{name}`: from `name_words`) and how many images there are
(`{count}`). Those of a task are all the placeholders of its wordings, and `ask` wants every one,
whichever wording is drawn. No wording names an ordinal or tells an answer of its own.
"""

from functools import cache
from importlib.resources import files
from string import Formatter

import numpy as np
import yaml

from ..errors import RecipeError, UnknownName
from ..model import TASKS, Box

ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth")
"""What the images of a sequence are called; no task shows more than six."""


@cache
def wordings(task: str) -> tuple[str, ...]:
    """The ten wordings of `task`, by its short name. Raises `UnknownName`."""
    if task not in TASKS:
        raise UnknownName(f"no wordings for a task {task!r}; there are some for {', '.join(TASKS)}")
    text = files(__name__).joinpath(f"{task}.yaml").read_text(encoding="utf-8")
    return tuple(yaml.safe_load(text))


@cache
def placeholders(task: str) -> frozenset[str]:
    """The words that `ask` wants for `task`: every placeholder of every wording."""
    return frozenset(
        name for wording in wordings(task) for _, name, _, _ in Formatter().parse(wording) if name
    )


def ask(task: str, rng: np.random.Generator, **words: str | int) -> str:
    """One wording of `task`, drawn by `rng` and filled with `words`.

    Raises `UnknownName` for the task, `RecipeError` where a word is missing.
    """
    missing = placeholders(task) - words.keys()
    if missing:
        raise RecipeError(
            f"questions/{task}.yaml: a wording has {{{sorted(missing)[0]}}}, and the task gives "
            f"only {', '.join(sorted(words)) or 'nothing'}"
        )
    known = wordings(task)
    return known[int(rng.integers(len(known)))].format(**words)


def ordinal(position: int) -> str:
    """What the image at `position` (0-based, as in a draft) is called. Raises `RecipeError`."""
    if not 0 <= position < len(ORDINALS):
        raise RecipeError(f"an image at position {position}: a sequence has 1 to {len(ORDINALS)}")
    return ORDINALS[position]


def box_words(box: Box) -> str:
    """The box between the published tokens; the last pixel is included."""
    x0, y0, x1, y1 = box.published()
    return f"<|box_start|>({x0},{y0}),({x1},{y1})<|box_end|>"


def name_words(text: str) -> str:
    """An expression between the published tokens."""
    return f"<|object_ref_start|>{text}<|object_ref_end|>"
