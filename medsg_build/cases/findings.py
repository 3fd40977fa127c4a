"""What a survey gathers on its way."""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


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
