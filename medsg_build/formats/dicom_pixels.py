"""What the stored values of DICOM pixels mean: rescaled values, or RGB."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SourceError
from . import library
from .dicom_decoding import decoded, spelled
from .dicom_gdcm import Apart
from .dicom_headers import Head, believable
from .dicom_open import dataset, guarded

WHOLE = (np.int16, np.int32)
"""Types for rescaled values that are whole numbers; float32 where these do not fit."""


def frames_of(
    head: Head, wished: Sequence[int], labels: bool, apart: Apart
) -> tuple[list[NDArray[Any]], tuple[str, ...]]:
    """The frames asked for, (rows, columns) or, in colour, (rows, columns, 3) uint8; and notes.

    Grey frames are rescaled by their own slope and intercept; those of MONOCHROME1 are inverted
    first, unless they are `labels`. Labels in palette colour stay positions in the palette. The
    notes lack the file's name. Raises `SourceError` where a decoder is missing, or the pixels are
    not what the header tells.
    """
    believable(head)
    what = f"its pixels cannot be decoded (transfer syntax {spelled(head.syntax)})"
    with guarded(head.path, what):
        source = dataset(head.path, True)
        made: list[NDArray[Any]] = []
        notes: dict[str, None] = {}
        for number, (data, colours) in zip(
            wished, decoded(head, source, wished, apart), strict=True
        ):
            if colours == "PALETTE COLOR" and not labels:
                data, colours = _unfolded(head, source, data), "RGB"
            if data.ndim == 3:
                made.append(_coloured(head, data, colours, labels, notes))
            else:
                rescale = head.rescale[number if len(head.rescale) > 1 else 0]
                made.append(_grey(head, source, data, rescale, labels, notes))
        return made, tuple(notes)


def _unfolded(head: Head, source: Any, data: NDArray[Any]) -> NDArray[Any]:
    """RGB of positions in the file's palette (PS3.3, section C.7.6.3.1.5)."""
    unfold = library("pydicom.pixels", "dicom", head.path).apply_color_lut
    colours: NDArray[Any] = np.asarray(unfold(data, source))[:, :, :3]
    return colours


def _coloured(
    head: Head, data: NDArray[Any], colours: str, labels: bool, notes: dict[str, None]
) -> NDArray[Any]:
    """(rows, columns, 3) uint8."""
    if labels:
        raise SourceError(
            f"{head.path}: a mask in RGB, whose label values nothing tells; save label values"
        )
    if colours != "RGB" or data.shape[2] != 3 or data.dtype.kind != "u":
        raise SourceError(f"{head.path}: its colour space is not read; convert it to RGB")
    if data.dtype.itemsize == 1:
        return data
    # A palette stores the upper byte where its entries have 8 bits, too (C.7.6.3.1.6).
    depth = 8 * data.dtype.itemsize if head.samples == 1 else head.stored
    notes["colour of more than 8 bits cut to 8"] = None
    cut: NDArray[Any] = np.minimum(data >> max(0, depth - 8), 255).astype(np.uint8)
    return cut


def _grey(
    head: Head,
    source: Any,
    data: NDArray[Any],
    rescale: tuple[float, float],
    labels: bool,
    notes: dict[str, None],
) -> NDArray[Any]:
    """(rows, columns): stored values, inverted where the smallest is white, and rescaled."""
    if head.photometric not in ("MONOCHROME1", "MONOCHROME2", "PALETTE COLOR"):
        raise SourceError(f"{head.path}: its colour space is not read; convert it to RGB")
    depth, signed = head.stored or head.allocated, head.signed
    if source.get("ModalityLUTSequence"):
        apply = library("pydicom.pixels", "dicom", head.path).apply_modality_lut
        looked_up: NDArray[Any] = apply(data, source)
        data, rescale = looked_up, (1.0, 0.0)
        depth, signed = int(source.ModalityLUTSequence[0].LUTDescriptor[2]), False
    if head.photometric == "MONOCHROME1" and not labels:
        notes["MONOCHROME1 (the smallest value is white): inverted"] = None
        if data.dtype.kind == "f":
            data = -data
        else:
            ends = (-1 << (depth - 1), (1 << (depth - 1)) - 1) if signed else (0, (1 << depth) - 1)
            data = (sum(ends) - data.astype(np.int64)).astype(data.dtype)
    data = rescaled(head.path, data, *rescale)
    if labels and data.dtype.kind == "f":
        whole: NDArray[Any] = np.rint(data).astype(np.int32)
        if not np.array_equal(whole, data):
            raise SourceError(f"{head.path}: its values are no whole numbers, so no labels")
        return whole
    return data


def rescaled(path: Path, data: NDArray[Any], slope: float, intercept: float) -> NDArray[Any]:
    """Values times slope plus intercept: whole numbers exact, in int16 or int32 if they fit.

    Raises `SourceError` where the result leaves float32.
    """
    if data.dtype == np.float64:
        data = data.astype(np.float32)
    if (slope, intercept) == (1.0, 0.0):
        return data if data.dtype.isnative else data.astype(data.dtype.newbyteorder("="))
    ends = [float(data.min()), float(data.max())]
    reached = [v * slope for v in ends] + [v * slope + intercept for v in ends]
    if data.dtype.kind in "ui" and slope.is_integer() and intercept.is_integer():
        for whole in WHOLE:
            limits = np.iinfo(whole)
            if limits.min <= min(reached) and max(reached) <= limits.max:
                return (data.astype(np.int64) * int(slope) + int(intercept)).astype(whole)
    if max(map(abs, reached)) > float(np.finfo(np.float32).max):
        raise SourceError(f"{path}: its RescaleSlope leads beyond all numbers; fetch it again")
    return (data.astype(np.float64) * slope + intercept).astype(np.float32)
