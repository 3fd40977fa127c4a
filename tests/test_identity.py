"""Golden values: if one of these changes, every benchmark built before comes out differently."""

import numpy as np
import pytest

from medsg_build.identity import digest, rng_for, sample_id, unit

GOLDEN = {
    "digest": "37e70d220a9cc789",
    "id": "3e3580a2888c381c",
    "unit": 0.5607503276867847,
    "integers": [308, 812, 706, 313],
    "permutation": [0, 5, 1, 3, 2, 4],
}


def test_golden_values():
    assert digest("a", 1, 0.5, None, True).hex()[:16] == GOLDEN["digest"]
    assert sample_id("ot|frames|Liver#1|seed=0") == GOLDEN["id"]
    assert unit(7, "quota", "key") == pytest.approx(GOLDEN["unit"], abs=1e-12)
    rng = rng_for(7, "rdg", "key")
    assert rng.integers(0, 1000, 4).tolist() == GOLDEN["integers"]
    assert rng.permutation(6).tolist() == GOLDEN["permutation"]


def test_parts_are_framed_and_typed():
    assert digest("ab", "c") != digest("a", "bc")
    assert digest(1) != digest("1") != digest(1.0)


def test_units_are_spread_evenly():
    values = np.array([unit(1, "p", str(n)) for n in range(4000)])
    counts = np.histogram(values, 10, (0, 1))[0]
    assert counts.min() > 330


def test_every_name_has_its_own_stream():
    streams = {tuple(rng_for(1, "rdg", str(n)).integers(0, 2**32, 2)) for n in range(500)}
    assert len(streams) == 500
