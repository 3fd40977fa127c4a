"""The same work as a researcher's script does it, one process: the baseline of the ratios.

nibabel get_fdata, skimage resize, PIL save, skimage regionprops; every axial slice with foreground.
"""

from pathlib import Path

import nibabel as nib
import numpy as np
from PIL import Image
from skimage.measure import regionprops
from skimage.transform import resize


def run(picture: Path, labels: Path, out: Path) -> int:
    """Write the slices as PNG into `out` and find their boxes; how many slices."""
    out.mkdir(parents=True, exist_ok=True)
    voxels = nib.load(picture).get_fdata()
    values = nib.load(labels).get_fdata()
    low, high = -160.0, 240.0
    voxels = (np.clip(voxels, low, high) - low) / (high - low) * 255
    boxes = {}
    for k in range(voxels.shape[2]):
        mask = values[:, :, k].T
        if not mask.max():
            continue
        mask = resize(mask, (336, 336), order=0, preserve_range=True, anti_aliasing=False)
        grey = resize(voxels[:, :, k].T, (336, 336), preserve_range=True, anti_aliasing=True)
        Image.fromarray(np.stack([grey.astype(np.uint8)] * 3, -1)).save(out / f"{k:03d}.png")
        boxes[k] = [region.bbox for region in regionprops(mask.astype(np.uint8))]
    return len(boxes)
