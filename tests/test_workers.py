"""One function over many items: ordered, bounded, failures as rows, on every kind of pool."""

import os

import pytest

from medsg_build.errors import RecipeError, SourceError
from medsg_build.workers import Failure, each, executor

KINDS = ["serial", "threads:2", "processes:2"]


def halved(item: int) -> float:
    if item == 3:
        raise SourceError("three.nii: cannot be read")
    if item == 5:
        return 1 / 0
    if item == 99:
        os._exit(9)
    return item / 2


@pytest.mark.parametrize("kind", KINDS)
def test_results_keep_the_order_and_failures_are_rows(kind):
    with executor(kind) as pool:
        found = list(each(halved, range(8), pool, lambda n: f"item {n}"))
    assert [f for f in found if not isinstance(f, Failure)] == [0, 0.5, 1, 2, 3, 3.5]
    assert found[3] == Failure("item 3", "SourceError", "three.nii: cannot be read")
    assert (found[5].kind, found[5].expected) == ("ZeroDivisionError", False)
    assert "halved" in found[5].message


@pytest.mark.parametrize("kind", KINDS[1:])
def test_no_more_than_a_few_items_wait(kind):
    drawn = []

    def items():
        for number in range(100):
            drawn.append(number)
            yield 0

    with executor(kind) as pool:
        for done, _ in enumerate(each(halved, items(), pool, str), 1):
            assert len(drawn) - done <= 2 * pool.width
            if done == 20:
                break


def test_a_worker_that_dies_is_a_failure_not_a_hang():
    with executor("processes:1") as pool:
        found = list(each(halved, [99, *[1] * 20], pool, str))
    assert len(found) == 21
    assert isinstance(found[0], Failure)
    assert (found[0].item, found[0].kind) == ("99", "WorkerDied")
    assert found[-1].kind == "WorkerDied"


@pytest.mark.parametrize(
    "word", ["", "many", "threads", "threads:0", "processes:-1", "0", "serial:2"]
)
def test_nonsense_is_refused(word):
    with pytest.raises(RecipeError, match="--workers"), executor(word):
        pass
