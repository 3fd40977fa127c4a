"""JPEG Lossless through GDCM, in a process of its own.

GDCM alone decodes it, and ends the whole process at some damaged streams; so that process is a
child, run as `python dicom_gdcm.py`. It reads, again and again, a line of JSON that tells the frame
and its length, then the frame, and writes 8 bytes of length and the decoded bytes (none: failed).
"""

import json
import struct
import subprocess
import sys
import threading
from importlib import import_module
from types import TracebackType
from typing import Any

SYNTAXES = ("1.2.840.10008.1.2.4.57", "1.2.840.10008.1.2.4.70")
"""JPEG Lossless, process 14, of any or of the first prediction."""

PATIENCE = 60.0
"""Seconds that a frame may take."""


class Apart:
    """The child, begun with the first frame and ended with the block it is used in."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> "Apart":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.communicate()  # closes the pipes and awaits the end

    def decoded(self, frame: bytes, told: dict[str, Any]) -> bytes:
        """The bytes of a decoded frame; none where it is damaged. `told`: see `_decoded`."""
        if self._child is None or self._child.poll() is not None:
            self._child = subprocess.Popen(
                [sys.executable, "-P", __file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        child = self._child
        assert child.stdin is not None
        assert child.stdout is not None
        watch = threading.Timer(PATIENCE, child.kill)
        watch.start()
        try:
            child.stdin.write(json.dumps({**told, "length": len(frame)}).encode() + b"\n" + frame)
            child.stdin.flush()
            head = child.stdout.read(8)
            return child.stdout.read(struct.unpack("<Q", head)[0]) if len(head) == 8 else b""
        except OSError:
            return b""
        finally:
            watch.cancel()


def _decoded(frame: bytes, told: dict[str, Any]) -> bytes:
    """Bytes as pydicom takes them from GDCM; samples of a pixel side by side."""
    gdcm: Any = import_module("gdcm")

    fragment = gdcm.Fragment()
    fragment.SetByteStringValue(frame)
    fragments = gdcm.SequenceOfFragments.New()
    fragments.AddFragment(fragment)
    element = gdcm.DataElement(gdcm.Tag(0x7FE0, 0x0010))
    element.SetValue(fragments.__ref__())
    image = gdcm.Image()
    image.SetNumberOfDimensions(2)
    image.SetDimensions((told["columns"], told["rows"], 1))
    image.SetDataElement(element)
    colours = gdcm.PhotometricInterpretation.GetPIType(told["photometric"])
    image.SetPhotometricInterpretation(gdcm.PhotometricInterpretation(colours))
    if told["samples"] > 1:
        image.SetPlanarConfiguration(told["planar"])
    syntax = gdcm.TransferSyntax.GetTSType(told["syntax"])
    image.SetTransferSyntax(gdcm.TransferSyntax(syntax))
    bits = (told["allocated"], told["stored"], told["stored"] - 1, told["signed"])
    image.SetPixelFormat(gdcm.PixelFormat(told["samples"], *bits))
    whole: str = image.GetBuffer()
    return whole.encode("utf-8", "surrogateescape")


def _serve() -> None:
    while line := sys.stdin.buffer.readline():
        told = json.loads(line)
        try:
            found = _decoded(sys.stdin.buffer.read(told["length"]), told)
        except Exception:  # noqa: BLE001  whatever it was, the frame is not decoded
            found = b""
        sys.stdout.buffer.write(struct.pack("<Q", len(found)) + found)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    _serve()
