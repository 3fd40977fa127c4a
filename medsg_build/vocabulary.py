"""The structures a benchmark can ask for: names, place in the body, what a person calls them.

The list is data (`vocabulary.yaml`); this module reads it once and answers questions about it.

Whether two pictures are unrelated is decided by body region, not by labels: a dataset labels only
part of what its pictures show, so an organ without a label still has to count as present. A region
says what a picture shows, and two regions are neighbours when one picture can show parts of both.
Rejected: a list of organs seen in each dataset, which nobody can complete; and one region for the
whole trunk, which would forbid pairing a chest film with a pelvis.
"""

import difflib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from .errors import UnknownName

SEQUENCES = frozenset({
    "t1", "t2", "t1w", "t2w", "t1ce", "t1c", "t1gd", "flair", "pd", "stir",
    "dwi", "adc", "swi", "tof", "lge", "dce", "bssfp", "cine",
})  # fmt: skip
"""What MRI sequences are called. The published benchmark asks for four of these as if they were
things to find; here none is a structure, so the vertebrae T1 and T2 go by their full names only."""


@dataclass(frozen=True, slots=True)
class Structure:
    """One thing that a question can ask for.

    `name` is canonical, ASCII and CamelCase; `say` is what a person calls it, without an article.
    `regions` are all body regions it can be seen in, its home first. `side` is left, right or none:
    it is given to the parts of the body that come in pairs, so the left ventricle has none.
    `parent` is the structure it is part of, or lies in; '' where the list has none. `modalities`
    are those in which a known source labels it; it may be visible in others. `synonyms` are the
    spellings of TotalSegmentator, of the published benchmark and of the datasets.
    """

    name: str
    say: str
    regions: tuple[str, ...]
    side: str = "none"
    parent: str = ""
    modalities: tuple[str, ...] = ()
    synonyms: tuple[str, ...] = ()


def structures() -> tuple[Structure, ...]:
    """Every structure, in the order of the file: by home region, then by name."""
    return tuple(_by_name().values())


def structure(name: str) -> Structure:
    """The structure that `name` means: its canonical name, its words, or a synonym.

    Case, blanks, hyphens, slashes and underscores do not matter. Raises `UnknownName`, with the
    nearest names, and for the name of an MRI sequence, which is never a structure.
    """
    key = _key(name)
    index = _index()
    if key in index:
        return index[key]
    if key in SEQUENCES:
        raise UnknownName(
            f"{name!r} names an MRI sequence, not a structure; name what is to be found in it "
            f"(a vertebra is written VertebraT1)"
        )
    near = difflib.get_close_matches(key, index, n=6, cutoff=0.6)
    names = list(dict.fromkeys(index[found].name for found in near))
    hint = f"did you mean {' or '.join(names[:3])}?" if names else "none has a name like it;"
    raise UnknownName(
        f"no structure is called {name!r}; {hint} `medsg-build list structures` shows all"
    )


def related(a: str, b: str) -> bool:
    """Whether two names mean the same structure, parts of one whole, or a left and right pair.

    Parts of one whole: one lies in the other, or both lie in a third, at whatever depth.
    Raises `UnknownName`.
    """
    one, other = structure(a), structure(b)
    return _twin(one) == other.name or not _lineage(one).isdisjoint(_lineage(other))


def regions() -> tuple[str, ...]:
    """The closed list of body regions."""
    return tuple(_neighbours())


def neighbours(region: str) -> frozenset[str]:
    """The other regions of which a picture of `region` can show a part. Raises `UnknownName`."""
    table = _neighbours()
    if region not in table:
        raise UnknownName(f"no body region is called {region!r}; there are: {', '.join(table)}")
    return table[region]


def unrelated(regions_a: Collection[str], regions_b: Collection[str]) -> bool:
    """Whether nothing seen in `regions_a` can be seen in `regions_b`.

    True where no region of one is, or neighbours, a region of the other. Where either is empty
    nothing is known, and the answer is False. Raises `UnknownName`.
    """
    reach_a, reach_b = _reach(regions_a), _reach(regions_b)
    return (
        bool(reach_a and reach_b)
        and reach_a.isdisjoint(regions_b)
        and reach_b.isdisjoint(regions_a)
    )


def _reach(given: Collection[str]) -> set[str]:
    return {near for region in given for near in (region, *neighbours(region))}


def _key(name: str) -> str:
    return re.sub(r"[\s_/-]", "", name).casefold()


def _twin(one: Structure) -> str:
    """The name of the same part on the other side of the body; '' for what has no side."""
    if one.side == "left":
        return one.name.replace("Left", "Right", 1)
    return one.name.replace("Right", "Left", 1) if one.side == "right" else ""


def _lineage(one: Structure) -> set[str]:
    """The names of a structure and of all that it lies in."""
    names = {one.name}
    while one.parent:
        one = _by_name()[one.parent]
        names.add(one.name)
    return names


@cache
def _document() -> Mapping[str, Any]:
    # The C loader where PyYAML has it (10 ms instead of 90); both give the same document.
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    text = files("medsg_build").joinpath("vocabulary.yaml").read_text(encoding="utf-8")
    document: Mapping[str, Any] = yaml.load(text, loader)
    return document


@cache
def _neighbours() -> Mapping[str, frozenset[str]]:
    return {region: frozenset(others) for region, others in _document()["regions"].items()}


@cache
def _by_name() -> Mapping[str, Structure]:
    found: dict[str, Structure] = {}
    for entry in _document()["structures"]:
        lists = {key: tuple(entry.get(key, ())) for key in ("regions", "modalities", "synonyms")}
        found[entry["name"]] = Structure(**(entry | lists))
    return found


@cache
def _index() -> Mapping[str, Structure]:
    return {_key(word): one for one in structures() for word in (one.name, one.say, *one.synonyms)}
