import re
from collections import Counter
from string import Formatter

import numpy as np
import pytest

from medsg_build.errors import RecipeError, UnknownName
from medsg_build.identity import rng_for
from medsg_build.model import FULL, TASKS, Box
from medsg_build.questions import (
    ORDINALS,
    ask,
    box_words,
    name_words,
    ordinal,
    placeholders,
    wordings,
)
from medsg_build.vocabulary import structures

REQUIRED = {
    "rdg": {"target"},
    "nrdg": {"target"},
    "mv": {"reference", "box", "target"},
    "ot": {"reference", "box", "target"},
    "vcg": {"reference", "target"},
    "vpg": {"reference", "target"},
    "cmg": {"reference", "box", "target"},
    "rg": {"name"},
}
OPTIONAL = {"ot": {"count"}, "rg": {"count"}}

WORDS = {
    "reference": "first",
    "target": "second",
    "box": box_words(Box(10, 20, 30, 40)),
    "name": name_words("right kidney"),
    "count": 3,
}

every_task = pytest.mark.parametrize("task", TASKS)


def drawn(task, key="a", **words):
    return ask(task, rng_for(0, task, key), **{**WORDS, **words})


@every_task
def test_ten_distinct_wordings(task):
    plain = {re.sub(r"\W+", " ", wording).casefold() for wording in wordings(task)}
    assert len(wordings(task)) == len(plain) == 10


def test_no_two_tasks_share_a_wording():
    every = [wording for task in TASKS for wording in wordings(task)]
    assert max(Counter(every).values()) == 1


@every_task
def test_each_wording_has_each_placeholder_once(task):
    for wording in wordings(task):
        named = Counter(name for _, name, _, _ in Formatter().parse(wording) if name is not None)
        assert set(named.values()) == {1}, wording
        assert set(named) - OPTIONAL.get(task, set()) == REQUIRED[task], wording
    assert placeholders(task) == REQUIRED[task] | OPTIONAL.get(task, set())


@every_task
def test_each_wording_fills_without_braces(task):
    for wording in wordings(task):
        assert not set(wording.format(**WORDS)) & set("{}")


@every_task
def test_each_wording_asks_for_a_bounding_box_in_a_named_image(task):
    for wording in wordings(task):
        assert "bounding box" in wording
        for place in REQUIRED[task] & {"reference", "target"}:
            assert f"the {{{place}}} image" in wording.lower(), wording


@every_task
def test_no_wording_names_an_ordinal_of_its_own(task):
    # A check reads the target's ordinal from the question; another would mislead it, and the model.
    for wording in wordings(task):
        assert not re.search(rf"\b({'|'.join(ORDINALS)}|last)\b", wording, re.IGNORECASE), wording


@every_task
def test_no_wording_leaks(task):
    leaks = (
        r"\b(ab)?normal\b|\bhealthy\b|\boriginal\b|synthetic|(altered|changed) image|ground truth"
    )
    for wording in wordings(task):
        assert not re.search(leaks, wording, re.IGNORECASE), wording


@every_task
def test_wordings_are_plain_sentences(task):
    for wording in wordings(task):
        assert wording.isascii()
        assert wording[0].isupper() or wording[0] == "{"
        assert wording[-1] in ".?"
        assert "  " not in wording
        assert "\n" not in wording
        assert len(wording) < 260, wording


@every_task
def test_wordings_vary_in_syntax_and_length(task):
    lengths = [len(wording) for wording in wordings(task)]
    assert max(lengths) > 1.3 * min(lengths)
    openings = Counter(tuple(wording.split()[:2]) for wording in wordings(task))
    assert max(openings.values()) <= 2
    assert any("?" in wording for wording in wordings(task))


def test_every_nrdg_wording_sets_the_shift_aside():
    shift = r"shift|displace|offset|moved|translation"
    aside = r"ignor(e|ing)|disregard|not what is sought|not count|not the answer|not the"
    aside += r"|of no interest|leave out"
    for wording in wordings("nrdg"):
        assert re.search(shift, wording), wording
        assert re.search(aside, wording, re.IGNORECASE), wording
    for wording in wordings("rdg"):
        assert not re.search(shift, wording), wording


@pytest.mark.parametrize("task", ["mv", "cmg"])
def test_a_drawn_rectangle_is_spoken_of(task):
    assert all("red rectangle" in wording for wording in wordings(task))


@pytest.mark.parametrize("task", ["rdg", "nrdg", "ot", "vcg", "vpg", "rg"])
def test_no_rectangle_is_spoken_of_where_none_is_promised(task):
    assert not any(re.search(r"\bred\b|rectangle", wording) for wording in wordings(task))


def test_an_expression_follows_an_article_and_is_not_referred_to_by_number():
    for wording in wordings("rg"):
        assert re.search(r"\b(the|expression) \{name\}", wording), wording
        # "costal cartilages" as well as "liver": no verb after the name, no pronoun for it.
        assert not re.search(r"\{name\} (is|are|has|have|lies|lie)\b", wording), wording


def test_every_structure_can_be_asked_for():
    for one in structures():
        question = drawn("rg", key=one.name, name=name_words(one.say))
        assert f"<|object_ref_start|>{one.say}<|object_ref_end|>" in question


@every_task
def test_a_question_depends_on_its_generator_alone(task):
    once = [drawn(task, key=str(key)) for key in range(200)]
    again = [drawn(task, key=str(key)) for key in reversed(range(200))]
    assert once == again[::-1]
    assert len(set(once)) == 10, "every wording comes up"


def test_ask_draws_once_from_the_generator():
    one, other = np.random.Generator(np.random.PCG64(5)), np.random.Generator(np.random.PCG64(5))
    ask("rdg", one, target="first")
    other.integers(10)
    assert one.integers(1 << 30) == other.integers(1 << 30)


def test_the_words_stand_in_the_question():
    question = drawn("mv", reference="third", target="first")
    assert "the third image" in question.lower()
    assert "the first image" in question.lower()
    assert "<|box_start|>(10,20),(29,39)<|box_end|>" in question


@pytest.mark.parametrize("word", ["reference", "box", "target", "count"])
def test_a_missing_word_is_told_whichever_wording_is_drawn(word):
    words = {name: value for name, value in WORDS.items() if name != word}
    for key in range(30):
        with pytest.raises(RecipeError, match=rf"ot\.yaml: a wording has \{{{word}\}}"):
            ask("ot", rng_for(0, "ot", str(key)), **words)


def test_an_unknown_task_is_told_the_others():
    with pytest.raises(UnknownName, match=r"'rgd'.*rdg, nrdg"):
        ask("rgd", rng_for(0, "rgd", "a"), target="first")


def test_ordinals():
    assert [ordinal(place) for place in range(6)] == list(ORDINALS)
    for place in (-1, 6):
        with pytest.raises(RecipeError, match=f"position {place}"):
            ordinal(place)


def test_box_words_include_the_last_pixel():
    assert box_words(Box(0, 5, 1, 7)) == "<|box_start|>(0,5),(0,6)<|box_end|>"
    assert box_words(FULL) == "<|box_start|>(0,0),(335,335)<|box_end|>"
