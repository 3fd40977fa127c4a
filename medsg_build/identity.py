"""Names, and all chance drawn from them.

No generator is shared and none is seeded by a position in a queue, so neither the number of
workers nor the order of files can change a result (design: "Chance").
"""

import hashlib

import numpy as np

Part = str | int | float | bool | None


def digest(*parts: Part) -> bytes:
    """SHA-256 over the length-framed, typed parts, so that ("ab", "c") and ("a", "bc") differ."""
    total = hashlib.sha256()
    for part in parts:
        kind = type(part).__name__
        text = repr(part) if isinstance(part, float) else str(part)
        for word in (kind, text):
            raw = word.encode()
            total.update(len(raw).to_bytes(8, "big") + raw)
    return total.digest()


def rng_for(seed: int, task: str, key: str) -> np.random.Generator:
    """The generator of one sample: a function of its name, not of when or where it runs.

    Callers use `integers`, `random` and `permutation` only: numpy promises their streams.
    """
    entropy = int.from_bytes(digest("rng", seed, task, key), "big")
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))


def unit(seed: int, purpose: str, key: str) -> float:
    """A fixed number in [0, 1) for `key`; quotas and splits rank by it and use no generator."""
    return int.from_bytes(digest("unit", seed, purpose, key)[:7], "big") / 2**56


def sample_id(key: str) -> str:
    """The public name of the draft that `key` spells: 16 hexadecimal digits."""
    return digest("sample", key).hex()[:16]
