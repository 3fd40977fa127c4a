"""Quotas, splits and names: fixed numbers of names, never of order or of luck."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from medsg_build.assemble import (
    as_row,
    choose,
    common_split,
    draft_of,
    image_names,
    pixel_digest,
    split_of,
)
from medsg_build.model import Box, Composed, Draft, FrameRef


def draft(key: str, stratum: str = "s", patients: tuple[str, ...] = ("p",)) -> Draft:
    return Draft(
        task="ot", key=key, stratum=stratum, dataset="d", patients=patients,
        frames=(FrameRef("d/c", "image", "axial", 3), FrameRef("d/c", "image", "axial", 5)),
        boxes=(Box(1, 2, 30, 40), None), target=0, reference=1, structure="Liver", component=1,
        modality="CT", options={"step": 2},
    )  # fmt: skip


DRAFTS = [draft(f"{stratum}{n}", stratum) for stratum in "abc" for n in range(20)]


def test_strata_take_turns():
    chosen = choose(DRAFTS, 0, 6)
    assert Counter(d.stratum for d in chosen[:6]) == {"a": 2, "b": 2, "c": 2}


def test_order_of_proposals_changes_nothing():
    assert choose(DRAFTS, 0, 10) == choose(DRAFTS[::-1], 0, 10)


def test_a_smaller_quota_is_the_beginning_of_a_larger_one():
    assert choose(DRAFTS, 0, 50)[:12] == choose(DRAFTS, 0, 12)[:12]


def test_a_new_dataset_displaces_single_drafts():
    before = choose(DRAFTS, 0, 9)[:9]
    after = choose([*DRAFTS, *(draft(f"n{n}", "new") for n in range(20))], 0, 9)[:9]
    kept = [d for d in after if d.stratum != "new"]
    assert kept == [d for d in before if d in kept]  # the same drafts, in the same order
    assert len(kept) >= 6


def test_the_same_draft_counts_once():
    assert len(choose([draft("x"), draft("x")], 0, 5)) == 1


def test_only_a_bounded_number_a_stratum_is_held():
    many = (draft(str(n)) for n in range(1000))
    assert len(choose(many, 0, 4)) == 2 * 4 + 32


def test_splits_have_the_shares_asked_for():
    shares = {"train": 0.8, "test": 0.2}
    names = Counter(split_of(f"family/{n}", shares, 3) for n in range(5000))
    assert abs(names["test"] / 5000 - 0.2) < 0.02


def test_a_draft_of_two_splits_is_dropped_and_counted():
    shares = {"train": 0.5, "test": 0.5}
    by_split = {split_of(f"f/{n}", shares, 3): f"f/{n}" for n in range(20)}
    tally: Counter[tuple[str, str, str]] = Counter()
    mixed = draft("m", patients=tuple(by_split.values()))
    assert common_split(mixed, shares, 3, tally) is None
    assert tally["patients of two splits", "d", "Liver"] == 1
    same = replace(mixed, patients=(by_split["test"],))
    assert common_split(same, shares, 3, tally) == "test"


def test_a_plan_row_reads_back():
    assert draft_of(as_row(draft("x"))) == draft("x")


def test_grey_is_digested_as_released():
    grey = np.arange(336 * 336, dtype=np.uint8).reshape(336, 336)
    assert pixel_digest(grey) == pixel_digest(np.stack([grey] * 3, axis=2))


@pytest.mark.parametrize("modality", ["CT", "X-ray"])
def test_names_say_task_modality_and_place(modality):
    from medsg_build.assemble import FrameFacts

    facts = (FrameFacts("d", modality, "CC0", "a.nii", "0" * 64),) * 2
    image = np.zeros((336, 336), np.uint8)
    made = Composed((image, image), (0, 1), "?", Box(0, 0, 9, 9), 0)
    names = image_names(draft("x"), facts, made, "0123456789abcdef")
    assert names == [
        f"images/Task4/ot_{modality}_0123456789abcdef_1.png",
        f"images/Task4/ot_{modality}_0123456789abcdef_2.png",
    ]
