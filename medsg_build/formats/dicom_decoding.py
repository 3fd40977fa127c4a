"""Stored values of DICOM pixels, through pydicom's decoders; nothing is decoded on trust."""

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SourceError
from . import library
from .dicom_gdcm import SYNTAXES, Apart
from .dicom_headers import Head, declared

RLE = "1.2.840.10008.1.2.5"
"""The compressed transfer syntax that declares no size of its own; it inflates 64 times at most."""

PLAIN = ("1.2.840.10008.1.2", "1.2.840.10008.1.2.1")
"""Transfer syntaxes, implicit and explicit, of a file that names none."""

PLUGINS = ("pydicom", "pylibjpeg", "pyjpegls", "pillow", "gdcm")
"""Decoders in the order of trust: damaged streams have brought down the process in GDCM."""


def decoded(
    head: Head, source: Any, wished: Sequence[int], apart: Apart
) -> Iterator[tuple[NDArray[Any], str]]:
    """Stored values of frames, YBR turned to RGB, and the colour space they are in then.

    To be gone through inside `guarded`, and only after the declared size was checked.
    """
    path, size = head.path, (head.rows, head.columns)
    if not any(name in source for name in ("PixelData", "FloatPixelData", "DoubleFloatPixelData")):
        raise SourceError(f"{path}: holds no pixels; fetch it again")
    decoder = _decoder(path, source)
    if not all(0 <= number < head.frames for number in wished):
        raise SourceError(f"{path}: has {head.frames} frames, from 0, and not all asked for")
    held = len(source.get("PixelData") or b"") or head.size
    if not decoder.is_encapsulated and held < declared(head):
        raise SourceError(f"{path}: its pixels are truncated; fetch it again")
    if head.allocated == 1 and not decoder.is_encapsulated:
        for number in wished:
            yield _bits(head, source.PixelData, number), "MONOCHROME2"
        return
    if decoder.is_encapsulated and head.syntax != RLE:
        for frame in _streams(head, source):
            _check_stream(head, frame)
    # Without positions pydicom takes all frames in one pass, but fails where it corrects bits.
    all_plain = head.frames > 1 and head.allocated == head.stored == 8 and not head.signed
    some = None if all_plain and list(wished) == list(range(head.frames)) else list(wished)
    if head.syntax in SYNTAXES:
        yield from _lossless(head, source, wished, apart)
        return
    count = 0
    plugin = next((name for name in PLUGINS if name in decoder.available_plugins), "")
    frames = decoder.iter_array(source, indices=some, decoding_plugin=plugin)
    for data, told in islice(frames, len(wished)):
        if data.shape[:2] != size:
            raise SourceError(f"{path}: its pixels are not of the size its header declares")
        yield data, str(told["photometric_interpretation"])
        count += 1
    if count < len(wished):
        raise SourceError(f"{path}: only {count} of {len(wished)} frames are there")


def _decoder(path: Path, source: Any) -> Any:
    """The decoder of the file. Raises `SourceError` that names the transfer syntax."""
    uid = source.file_meta.get("TransferSyntaxUID")
    if not uid:
        implicit = source.original_encoding[0]
        source.file_meta.TransferSyntaxUID = PLAIN[0 if implicit else 1]
        uid = source.file_meta.TransferSyntaxUID
    try:
        decoder = library("pydicom.pixels", "dicom", path).get_decoder(uid)
        there = decoder.is_available
    except NotImplementedError:
        there = False
    if not there:
        raise SourceError(
            f"{path}: no decoder for its transfer syntax, {spelled(uid)}: pip install "
            "'medsg-build[dicom]', or decompress the file with dcmdjpeg or gdcmconv --raw"
        )
    return decoder


def spelled(syntax: str) -> str:
    """The standard's name of a transfer syntax; a name that the file invents is not repeated."""
    known = library("pydicom.uid", "dicom", Path()).UID_dictionary.get(syntax)
    return str(known[0]) if known else "one that is not known"


def _bits(head: Head, raw: bytes, number: int) -> NDArray[Any]:
    """One frame of single bits (PS3.5, section 8.1.1): frames need not begin at a whole byte."""
    size = head.rows * head.columns
    start = number * size
    part = np.frombuffer(raw[start // 8 : -(-(start + size) // 8)], np.uint8)
    bits = np.unpackbits(part, bitorder="little")[start % 8 : start % 8 + size]
    return bits.reshape(head.rows, head.columns)


def _streams(head: Head, source: Any) -> Iterator[bytes]:
    """The compressed frames, one after the other."""
    generate = library("pydicom.encaps", "dicom", head.path).generate_frames
    tables = (source.get("ExtendedOffsetTable"), source.get("ExtendedOffsetTableLengths"))
    offsets = None if None in tables else tables
    frames: Iterator[bytes] = generate(
        source.PixelData, number_of_frames=head.frames, extended_offsets=offsets
    )
    return islice(frames, head.frames)


def _check_stream(head: Head, frame: bytes) -> None:
    """Raises `SourceError` where a compressed frame declares another size than the header.

    A decoder takes the memory that the stream asks for, before anybody sees that it is wrong.
    """
    sizes = _stream_sizes(frame)
    if not sizes or any(size != (head.rows, head.columns, head.samples) for size in sizes):
        raise SourceError(
            f"{head.path}: a compressed frame is not of the {head.columns}x{head.rows} pixels of "
            f"{head.samples} sample(s) that the header declares; fetch it again"
        )


def _lossless(
    head: Head, source: Any, wished: Sequence[int], apart: Apart
) -> Iterator[tuple[NDArray[Any], str]]:
    """Frames of JPEG Lossless, decoded where they can do no harm."""
    planar = int(source.get("PlanarConfiguration") or 0) if head.samples > 1 else 0
    told = {
        "syntax": head.syntax, "photometric": head.photometric, "rows": head.rows,
        "columns": head.columns, "samples": head.samples, "planar": planar,
        "allocated": head.allocated, "stored": head.stored, "signed": int(head.signed),
    }  # fmt: skip
    if head.allocated not in (8, 16):
        raise SourceError(f"{head.path}: JPEG Lossless of {head.allocated} bits; not read")
    kind = np.dtype(f"{'i' if head.signed else 'u'}{head.allocated // 8}")
    streams = dict(enumerate(_streams(head, source)))
    for number in wished:
        raw = apart.decoded(streams[number], told)
        if len(raw) != head.rows * head.columns * head.samples * kind.itemsize:
            raise SourceError(
                f"{head.path}: its pixels cannot be decoded (transfer syntax {spelled(head.syntax)}"
                "); fetch it again"
            )
        data = np.frombuffer(raw, kind)
        unused = head.allocated - head.stored  # PS3.5, section 8.1.1: what these hold is undefined
        data = (data << unused) >> unused
        if head.samples == 1:
            yield data.reshape(head.rows, head.columns), head.photometric
            continue
        shape = (head.rows, head.columns, head.samples)
        if planar:
            data = data.reshape(shape[2], *shape[:2]).transpose(1, 2, 0)
        colours = head.photometric
        if colours in ("YBR_FULL", "YBR_FULL_422"):
            convert = library("pydicom.pixels", "dicom", head.path).convert_color_space
            data, colours = convert(data.reshape(shape), "YBR_FULL", "RGB"), "RGB"
        yield data.reshape(shape), colours


def _stream_sizes(frame: bytes) -> list[tuple[int, int, int]]:
    """Rows, columns and samples as a JPEG, JPEG-LS or JPEG 2000 stream declares them, each time."""

    def number(at: int, length: int) -> int:
        return int.from_bytes(frame[at : at + length], "big")

    sizes = []
    if frame[:2] != b"\xff\xd8":  # ISO 15444-1, A.5.1: SOC and SIZ, bare or in the boxes of a JP2
        at = frame.find(b"\xff\x4f\xff\x51")
        while at >= 0:
            width, height, left, top = (number(at + 8 + 4 * n, 4) for n in range(4))
            sizes.append((height - top, width - left, number(at + 40, 2)))
            at = frame.find(b"\xff\x4f\xff\x51", at + 4)
        return sizes
    at = 2
    while at + 10 <= len(frame) and frame[at] == 0xFF:  # ISO 10918-1, B.1.1: marker segments
        marker = frame[at + 1]
        if marker == 0xFF:  # fill
            at += 1
        elif marker in (0x01, *range(0xD0, 0xD9)):  # without length
            at += 2
        elif marker in (0xD9, 0xDA):  # end, or the scan itself
            break
        else:
            if marker == 0xF7 or (0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC)):
                sizes.append((number(at + 5, 2), number(at + 7, 2), number(at + 9, 1)))
            at += 2 + number(at + 2, 2)
    return sizes
