"""A CT as large as a clinical one: 512 x 512 x 200 int16, 15 labelled organs, realistic noise."""

import gzip
from pathlib import Path

import nibabel as nib
import numpy as np
from scipy.ndimage import gaussian_filter

SHAPE = (512, 512, 200)
SPACING = (0.78, 0.78, 2.0)
ORGANS = 15


def make(root: Path) -> tuple[Path, Path]:
    """Write the picture and its labels under `root`, once; their paths."""
    paths = root / "ct.nii.gz", root / "labels.nii.gz"
    if all(path.is_file() for path in paths):
        return paths
    root.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(7)
    x, y, z = np.meshgrid(
        *[np.linspace(-1, 1, n, dtype=np.float32) for n in SHAPE], indexing="ij", sparse=True
    )
    body = ((x / 0.8) ** 2 + (y / 0.6) ** 2 + 0 * z) < 1
    picture = np.where(body, np.float32(40), np.float32(-1000))
    labels = np.zeros(SHAPE, np.uint8)
    for value in range(1, ORGANS + 1):
        centre = rng.uniform(-0.4, 0.4, 3) * (1, 0.75, 1.6)
        radius = rng.uniform(0.07, 0.22, 3) * (1, 1, 2)
        inside = sum(((a - c) / r) ** 2 for a, c, r in zip((x, y, z), centre, radius, strict=True))
        organ = (inside < 1) & body
        labels[organ] = value
        picture[organ] = rng.uniform(-40, 250)
    noise = gaussian_filter(rng.standard_normal(SHAPE, dtype=np.float32), (0.8, 0.8, 0))
    picture += noise * (14 / noise.std())
    picture[(x**2 + y**2 + 0 * z) > 0.995] = -1024
    picture = np.clip(np.rint(picture), -1024, 3071)
    for path, array in zip(paths, (picture.astype(np.int16), labels), strict=True):
        image = nib.Nifti1Image(np.asfortranarray(array), np.diag([*SPACING, 1.0]))
        with gzip.GzipFile(path, "wb", compresslevel=6, mtime=0) as file:
            file.write(image.to_bytes())
    return paths
