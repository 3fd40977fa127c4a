"""What a survey gathers on its way."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..model import Case


@dataclass(slots=True)
class Found:
    """What a survey has gathered so far; the columns of a `CaseSurvey`.

    `called`: what the files themselves name; `empty_is_told`: an annotation file says that nothing
    is marked, so that a case without objects is in order.
    """

    names: list[str] = field(default_factory=list)
    rows: list[NDArray[np.void]] = field(default_factory=list)
    inside: dict[tuple[str, int], tuple[int, int, int]] = field(default_factory=dict)
    shown: dict[str, NDArray[np.bool_]] = field(default_factory=dict)
    extent: dict[str, tuple[int, ...]] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    called: set[str] = field(default_factory=set)
    boxed: set[str] = field(default_factory=set)
    empty_is_told: bool = False

    def position(self, name: str) -> int:
        """Where `name` stands among the structures; it is added where it is new."""
        if name not in self.names:
            self.names.append(name)
        return self.names.index(name)


def nowhere(cases: Iterable[Case], shown: Mapping[str, Collection[str]]) -> dict[str, list[str]]:
    """Dataset -> a note, where no case shows a structure that the recipe's labels name.

    One case without it is in order; all of them are more often a wrong value in the recipe.
    `shown`: dataset -> structures that some case shows; datasets that are not in it are passed by.
    """
    asked: dict[str, dict[str, None]] = {}
    for case in cases:
        held = asked.setdefault(case.dataset, {})
        for file in (*case.masks, *((case.marks,) if case.marks else ())):
            held.update(dict.fromkeys(file.labels))
    out = {}
    for dataset, there in shown.items():
        missing = [name for name in asked.get(dataset, {}) if name not in there]
        if missing:
            told = ", ".join(missing)
            out[dataset] = [f"shown in no case: {told} (are the recipe's labels right?)"]
    return out
