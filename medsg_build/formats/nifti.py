"""NIfTI-1 and NIfTI-2 (.nii, .nii.gz, .hdr with .img) and Analyze 7.5, header through nibabel.

The voxels are viewed in place in the inflated bytes: `isal` inflates 2.2 times as fast as zlib, and
no second copy of the volume is made. The header says how many bytes may come; not one more is
inflated, so a file cannot grow beyond what it declares.
"""

import math
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SourceError
from ..model import Floats, Grid, Volume, Wanted

suffixes = (".nii", ".nii.gz", ".hdr", ".img", ".hdr.gz", ".img.gz")

LARGEST = 16 * 2**30
"""Bytes of voxels beyond which a header is not believed."""

HEAD = 544
"""Bytes of the longer header, that of NIfTI-2, with its extension flag."""

_MAGIC = (b"ni1", b"ni2", b"n+1", b"n+2")

FARTHEST = 2**26
"""Bytes of header and extensions before the voxels beyond which a header is not believed."""


def files(path: Path) -> tuple[Path, ...]:
    """The file, or header and voxels of a pair. Raises `SourceError` where one is missing."""
    pair = _pair(path)
    return tuple(dict.fromkeys(pair))


def measure(path: Path, wanted: Wanted) -> Grid:
    """Shape and place of the voxels, from the header alone. Raises `SourceError`."""
    head, _ = _pair(path)
    header = _header(head, _inflated(head, HEAD))
    shape = _shape(path, header)
    _chosen(path, shape, wanted.part)
    return Grid((shape[0], shape[1], shape[2]), _affine(path, header))


def read(path: Path, wanted: Wanted) -> Volume:
    """The volume (i, j, k) in the file's order, scaled by scl_slope and scl_inter where set.

    Of a series in time, or of several contrasts, `wanted.part` picks the volume (fourth axis).
    Raises `SourceError` for a broken, truncated or unbelievable file.
    """
    head, voxels = _pair(path)
    header = _header(head, _inflated(head, HEAD))
    shape = _shape(path, header)
    part = _chosen(path, shape, wanted.part)
    kind = header.get_data_dtype()
    # Some writers leave the offset at 0; no voxel can lie inside the header.
    start = int(header["vox_offset"])
    if head == voxels:
        start = max(start, header.single_vox_offset)
    size = math.prod(shape) * kind.itemsize
    if size > LARGEST:
        raise SourceError(
            f"{path}: the header declares {'x'.join(map(str, shape))} voxels, "
            f"{size / 2**30:.0f} GiB; not believed"
        )
    raw = _inflated(voxels, start + size)
    if len(raw) < start + size:
        raise SourceError(
            f"{voxels}: truncated: {len(raw)} of {start + size} bytes are there; fetch it again"
        )
    data: NDArray[Any] = np.frombuffer(raw, kind, size // kind.itemsize, start)
    data = data.reshape(shape, order="F")
    if part is not None:
        data = data[..., part]
    if data.dtype.fields and wanted.labels:
        raise SourceError(f"{path}: a label map needs one value a voxel, but this is in colour")
    if data.dtype.fields:  # RGB and RGBA triplets
        data = np.stack([data[name] for name in list(data.dtype.fields)[:3]], axis=-1)
    else:
        data = _scaled(data, *_scaling(path, header))
    affine = _affine(path, header)
    spacing = tuple(float(s) for s in np.linalg.norm(affine[:3, :3], axis=0))
    return Volume(
        data,
        affine,
        (spacing[0], spacing[1], spacing[2]),
        np.eye(4),
        False,
        _notes(path, header, shape[:3], affine),
    )


def _pair(path: Path) -> tuple[Path, Path]:
    """The files of header and voxels; the same file twice unless they are a pair."""
    name = path.name
    packed = name.lower().endswith(".gz")
    stem, suffix = path.stem if packed else name, ".gz" if packed else ""
    kind = Path(stem).suffix.lower()
    if kind not in (".hdr", ".img"):
        return path, path
    other = ".img" if kind == ".hdr" else ".hdr"
    if Path(stem).suffix.isupper():
        other = other.upper()
    found = [
        there
        for end in dict.fromkeys((suffix, "", ".gz"))
        if (there := path.with_name(Path(stem).stem + other + end)).is_file()
    ]
    if not found:
        raise SourceError(
            f"{path}: its {other} is missing; header and voxels of a pair lie side by side"
        )
    return (path, found[0]) if kind == ".hdr" else (found[0], path)


def _chosen(path: Path, shape: tuple[int, ...], part: int | str | None) -> int | None:
    """The position on the fourth axis; None where there is no such axis."""
    count = shape[3] if len(shape) > 3 else 1
    if part is None and count > 1:
        raise SourceError(
            f"{path}: holds {count} volumes ({'x'.join(map(str, shape))}); say which under "
            "layout.parts of the recipe, counted from 0"
        )
    if part is not None and (not isinstance(part, int) or not 0 <= part < count):
        raise SourceError(f"{path}: has no part {part!r}; it holds {count}, counted from 0")
    return part if count > 1 else None


def _notes(path: Path, header: Any, shape: tuple[int, ...], affine: Floats) -> tuple[str, ...]:
    """What was chosen where the header tells two orientations, or none."""
    if "sform_code" not in header:
        return (
            f"{path.name}: an Analyze header tells no orientation; first axis taken to run left",
        )
    if not header["sform_code"] and not header["qform_code"]:
        return (f"{path.name}: no orientation in the header; its first axis taken to run left",)
    if header["sform_code"] and header["qform_code"]:
        try:
            gaps = np.abs(header.get_qform() - affine)[:3] @ (*shape, 1)
        except ValueError:  # nibabel's HeaderDataError is one
            return (f"{path.name}: qform is broken, sform used",)
        if not gaps.max() <= 0.1 * np.linalg.norm(affine[:3, :3], axis=0).min():
            return (f"{path.name}: sform and qform disagree, sform used",)
    return ()


def _scaling(path: Path, header: Any) -> tuple[float | None, float | None]:
    """Slope and intercept; None, None where the slope is 0 or NaN, which means unscaled."""
    from nibabel.spatialimages import HeaderDataError

    if not hasattr(header, "get_slope_inter"):
        return None, None
    try:
        slope, inter = header.get_slope_inter()
    except HeaderDataError as error:
        raise SourceError(f"{path}: the header's scaling cannot be used: {error}") from error
    return slope, inter


def _scaled(data: NDArray[Any], slope: float | None, inter: float | None) -> NDArray[Any]:
    scale, shift = 1.0 if slope is None else slope, 0.0 if inter is None else inter
    if (scale, shift) == (1.0, 0.0):
        return data if data.dtype.isnative else data.astype(data.dtype.newbyteorder("="))
    if data.dtype.kind in "ui" and scale.is_integer() and shift.is_integer():
        factor, offset = int(scale), int(shift)
        ends = [int(data.min()), int(data.max())]
        # A product may leave the narrow type where its sum with the offset would not.
        reached = [factor, offset, *ends]
        reached += [v * factor for v in ends] + [v * factor + offset for v in ends]
        for whole in (np.int16, np.int32):
            if np.iinfo(whole).min <= min(reached) and max(reached) <= np.iinfo(whole).max:
                out: NDArray[Any] = data.astype(whole)
                np.multiply(out, whole(factor), out=out)
                np.add(out, whole(offset), out=out)
                return out
    return data.astype(np.float32) * np.float32(scale) + np.float32(shift)


def _inflated(path: Path, limit: int) -> bytes:
    """The first `limit` bytes of the file, inflated where it is a gzip file; one more may come."""
    from isal.igzip_lib import IsalError

    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            if packed:
                return _unpacked(file, limit)
            # read(n) takes n bytes of memory at once, whatever the file holds.
            return file.read(min(limit, path.stat().st_size))
    except (OSError, EOFError, IsalError) as error:  # type: ignore[misc]  # isal's stub has no class
        raise SourceError(f"{path}: cannot be read as gzip ({error}); fetch it again") from error


def _unpacked(file: IO[bytes], limit: int) -> bytes:
    """The first bytes of a gzip file of any members, checked to its end unless it is a header."""
    from isal import isal_zlib

    head = limit <= HEAD
    # One call for the voxels: their bytes are then allocated once.
    step = 1 << 16 if head else -1
    pieces: list[bytes] = []
    missing = limit + 1  # so that a stream that ends there is followed to its end
    part = isal_zlib.decompressobj(31)
    while missing:
        block = part.unconsumed_tail or part.unused_data or file.read(step)
        if not block:
            break
        if part.eof:
            if not block.startswith(b"\x1f\x8b"):  # padding
                break
            part = isal_zlib.decompressobj(31)
        pieces.append(part.decompress(block, missing))
        missing -= len(pieces[-1])
    # The checksum stands at the end; damage can make what comes before it longer.
    while not head and not part.eof:
        if not part.decompress(part.unconsumed_tail, 1 << 20) and not part.unconsumed_tail:
            break
    if not head and not part.eof and missing <= 1:
        raise EOFError("the compressed stream has no end")
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _header(path: Path, raw: bytes) -> Any:
    from nibabel.imageglobals import LoggingOutputSuppressor
    from nibabel.nifti1 import Nifti1Header
    from nibabel.nifti2 import Nifti2Header
    from nibabel.spatialimages import HeaderDataError
    from nibabel.spm2analyze import Spm2AnalyzeHeader
    from nibabel.wrapstruct import WrapStructError

    words = {int.from_bytes(raw[:4], order) for order in ("little", "big")}
    kind: Any = Nifti2Header if 540 in words else Nifti1Header
    size = 540 if 540 in words else 348
    magic = raw[4:8] if size == 540 else raw[344:348]
    pair = path.name.lower().endswith((".hdr", ".hdr.gz"))
    if pair and magic[:3] not in _MAGIC:
        kind = Spm2AnalyzeHeader  # as nibabel.load takes an Analyze file
    if not words & {348, 540} or len(raw) < size:
        raise SourceError(
            f"{path}: not a NIfTI file (it begins with {raw[:4]!r}); "
            "check that the download is whole and the suffix right"
        )
    try:
        with LoggingOutputSuppressor():  # what nibabel logs of broken headers is no user's business
            header = kind(raw[:size], check=True)
        dtype = header.get_data_dtype()
    except (WrapStructError, HeaderDataError, ValueError, KeyError) as error:
        raise SourceError(f"{path}: broken NIfTI header: {error}") from error
    if kind is not Spm2AnalyzeHeader and magic[:3] not in _MAGIC:
        raise SourceError(f"{path}: not a NIfTI file (its magic is {magic!r})")
    if kind is not Spm2AnalyzeHeader and (magic[1:2] == b"i") != pair:
        raise SourceError(
            f"{path}: by its magic {magic[:3]!r} the header of "
            f"{'a single file' if pair else 'a .hdr/.img pair'}; give it that kind's suffix"
        )
    if dtype.kind not in "uif" and not dtype.fields:
        raise SourceError(f"{path}: holds voxels of type {dtype}; numbers or RGB are expected")
    if not 0 <= float(header["vox_offset"]) <= FARTHEST:
        raise SourceError(f"{path}: broken NIfTI header: vox_offset {header['vox_offset']}")
    return header


def _shape(path: Path, header: Any) -> tuple[int, ...]:
    """(i, j, k), or (i, j, k, volumes); axes of length 1 beyond the third are dropped."""
    from nibabel.spatialimages import HeaderDataError

    try:
        shape = tuple(int(n) for n in header.get_data_shape())
    except HeaderDataError as error:
        raise SourceError(f"{path}: broken NIfTI header: {error}") from error
    if len(shape) == 2:
        shape = (*shape, 1)
    shape = (*shape[:3], *(n for n in shape[3:] if n != 1))
    if len(shape) not in (3, 4) or min(shape, default=0) < 1:
        raise SourceError(
            f"{path}: holds an array of {'x'.join(map(str, shape)) or 'no axes'}; one 3D volume, "
            "or several along a fourth axis, are expected"
        )
    return shape


def _affine(path: Path, header: Any) -> Floats:
    from nibabel.spatialimages import HeaderDataError

    try:
        return np.asarray(header.get_best_affine(), np.float64)
    except (HeaderDataError, ValueError) as error:
        raise SourceError(f"{path}: the header's orientation cannot be read: {error}") from error
