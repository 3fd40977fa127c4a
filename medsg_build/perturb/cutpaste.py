"""CutPaste: a patch of the picture, its brightness jittered, is laid over another place.

After Li et al., "CutPaste" (arXiv 2104.04015): patch area in percent of the picture, aspect ratio
0.3 to 3.3, jitter 0.1. Ours differs in three things that the published form gets wrong on medical
pictures: patch and place lie inside `allowed` (the body), so that no patch of air is pasted on air;
the rim is feathered, so that a straight edge does not give the place away; and the smaller default
area (0.3 to 6 %) is nearer to the one published sample that is known (16 x 22 px).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..model import SIDE, Pixels

DEFAULTS: Mapping[str, Any] = {
    "area": (0.003, 0.06),
    "aspect": (0.3, 3.3),
    "jitter": 0.1,
    "feather": 2,
}


def cutpaste(
    image: Pixels,
    allowed: NDArray[np.bool_],
    rng: np.random.Generator,
    options: Mapping[str, Any],
) -> tuple[Pixels, Mapping[str, Any]] | None:
    """`image` (h, w[, 3]) with one patch pasted inside `allowed`, and its parameters.

    Options: `area` (least, most share of the picture), `aspect` (least, most width / height),
    `jitter` (largest relative change of brightness and contrast), `feather` (rim in pixels). None
    where no patch of the size drawn lies inside `allowed` in two places.
    """
    said = {**DEFAULTS, **options}
    height, width = image.shape[:2]  # larger than the picture where a margin goes with it
    low, high = said["area"]
    # Log-uniform: as many small patches as large ones.
    area = SIDE * SIDE * low * (high / low) ** rng.random()
    aspect = said["aspect"][0] * (said["aspect"][1] / said["aspect"][0]) ** rng.random()
    tall = min(height, max(4, round((area / aspect) ** 0.5)))
    wide = min(width, max(4, round((area * aspect) ** 0.5)))
    places = np.argwhere(_fits(allowed, tall, wide))
    if len(places) < 2:
        return None
    y, x = (int(v) for v in places[rng.integers(len(places))])
    apart = np.abs(places - (y, x))
    far = places[(apart[:, 0] >= tall // 2) | (apart[:, 1] >= wide // 2)]
    if not len(far):
        return None
    from_y, from_x = (int(v) for v in far[rng.integers(len(far))])
    jitter = float(said["jitter"])
    contrast, brightness = (1 + jitter * (2 * rng.random() - 1) for _ in range(2))
    patch = image[from_y : from_y + tall, from_x : from_x + wide].astype(np.float32)
    mean = patch.mean()
    patch = ((patch - mean) * contrast + mean) * brightness
    alpha = _rim(tall, wide, int(said["feather"]))
    if image.ndim == 3:
        alpha = alpha[:, :, None]
    out = image.copy()
    under = out[y : y + tall, x : x + wide].astype(np.float32)
    mixed = under + alpha * (patch - under)
    out[y : y + tall, x : x + wide] = np.clip(np.rint(mixed), 0, 255).astype(np.uint8)
    return out, {
        "step": "cutpaste",
        "from": [from_x, from_y],
        "to": [x, y],
        "size": [wide, tall],
        "contrast": round(contrast, 6),
        "brightness": round(brightness, 6),
        "feather": int(said["feather"]),
    }


def _fits(allowed: NDArray[np.bool_], tall: int, wide: int) -> NDArray[np.bool_]:
    """Top left corners at which a rectangle lies wholly inside `allowed`."""
    import cv2

    total = cv2.integral(allowed.view(np.uint8))
    inside = (
        total[tall:, wide:] - total[:-tall, wide:] - total[tall:, :-wide] + total[:-tall, :-wide]
    )
    return np.asarray(inside == tall * wide)


def _rim(tall: int, wide: int, feather: int) -> NDArray[np.float32]:
    """Opacity (tall, wide): 1 inside, falling linearly over `feather` pixels towards the rim."""
    down = np.minimum(np.arange(tall) + 1, tall - np.arange(tall))
    across = np.minimum(np.arange(wide) + 1, wide - np.arange(wide))
    depth = np.minimum(down[:, None], across[None, :])
    return np.minimum(depth / (feather + 1), 1).astype(np.float32)
