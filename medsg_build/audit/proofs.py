"""Checks that prove boxes by pixels: what differs, what is marked, what the digests say."""

import hashlib
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ..model import SIDE, Box, Pixels
from .finding import Absent, Finding, Unchecked
from .release import Release, Sampled


def check_pixels(release: Release) -> Iterator[Finding]:
    """The pixels of every picture are those that the provenance digested."""
    _needs_provenance(release)
    for sample in release.samples():
        if sample.provenance is None:
            continue
        told = {row["file"]: row["pixels"] for row in sample.provenance["images"]}
        if list(told) != sample.images:
            yield Finding("pixels", sample.id, "record and provenance name other pictures")
        for name in sample.images:
            held = release.picture(name)
            if isinstance(held, str):
                continue
            digest = hashlib.sha256(np.ascontiguousarray(held).tobytes()).hexdigest()
            if name in told and told[name] != digest:
                yield Finding("pixels", sample.id, f"{name}: other pixels than when it was made")


def check_provenance(release: Release) -> Iterator[Finding]:
    """Answer, answer picture, task and split of a record are those of its provenance."""
    _needs_provenance(release)
    for sample in release.samples():
        row = sample.provenance
        if row is None:
            continue
        if row["task"] != sample.task:
            yield Finding("provenance", sample.id, f"provenance says task {row['task']!r}")
        if sample.answer is None or list(sample.answer) != row["answer"]["box"]:
            yield Finding(
                "provenance",
                sample.id,
                f"answer {sample.record.get('answer')} is not the box {row['answer']['box']} "
                "(half-open) of its provenance",
            )
        if sample.answer_image != row["answer"]["image"]:
            yield Finding(
                "provenance",
                sample.id,
                f"answer_image is {sample.answer_image}, not {row['answer']['image']} as when made",
            )
        if not row["licences"] or not row["patients"]:
            yield Finding("provenance", sample.id, "names no licence or no patient")


def check_registered(release: Release) -> Iterator[Finding]:
    """rdg: the answer is the tight box of the pixels that differ; nothing differs outside it."""
    for sample, pictures in _pairs(release, "rdg"):
        different = (pictures[0] != pictures[1]).any(axis=2)
        yield from _told("rdg proof", sample, different, np.ones((SIDE, SIDE), bool), (0, 0))


def check_nonregistered(release: Release) -> Iterator[Finding]:
    """nrdg: the same once both shifts are undone, where both pictures show real pixels."""
    if "nrdg" in release.records:
        _needs_provenance(release)
    for sample, pictures in _pairs(release, "nrdg"):
        shifts = {step["image"]: (step["dx"], step["dy"]) for step in sample.steps("shift")}
        if shifts.keys() != {0, 1} or shifts[0] == shifts[1]:
            yield Finding("nrdg proof", sample.id, f"no two shifts that differ: {shifts}")
            continue
        if max(abs(v) for pair in shifts.values() for v in pair) > 20:
            yield Finding("nrdg proof", sample.id, f"a shift beyond 20 pixels: {shifts}")
        undone, real = [], np.ones((SIDE, SIDE), bool)
        for image, (dx, dy) in sorted(shifts.items()):
            back, there = _undone(pictures[image], dx, dy)
            undone.append(back)
            real &= there
        different = (undone[0] != undone[1]).any(axis=2) & real
        yield from _told("nrdg proof", sample, different, real, shifts[sample.answer_image or 0])


def _undone(picture: Pixels, dx: int, dy: int) -> tuple[Pixels, NDArray[np.bool_]]:
    """The picture moved back by its shift, and where that shows real pixels rather than fill."""
    back = np.roll(picture, (-dy, -dx), (0, 1))
    there = np.zeros((SIDE, SIDE), bool)
    there[max(0, -dy) : SIDE - max(0, dy), max(0, -dx) : SIDE - max(0, dx)] = True
    return back, there


def _told(
    check: str,
    sample: Sampled,
    different: NDArray[np.bool_],
    real: NDArray[np.bool_],
    shift: tuple[int, int],
) -> Iterator[Finding]:
    """Compare the answer with the pixels that differ, both in the frame before the shift."""
    answer = sample.answer
    if answer is None:
        return
    dx, dy = shift
    claimed = Box(answer.x0 - dx, answer.y0 - dy, answer.x1 - dx, answer.y1 - dy)
    outside = different.copy()
    outside[max(0, claimed.y0) : max(0, claimed.y1), max(0, claimed.x0) : max(0, claimed.x1)] = (
        False
    )
    strays = int(np.count_nonzero(outside))
    tight = _bounds(different)
    if tight is None:
        yield Finding(check, sample.id, "the two pictures do not differ")
    elif strays:
        where = np.argwhere(outside)[0]
        yield Finding(
            check,
            sample.id,
            f"{strays} changed pixels outside the answer, the first at "
            f"({where[1] + dx}, {where[0] + dy})",
        )
    elif tight != claimed:
        moved = Box(tight.x0 + dx, tight.y0 + dy, tight.x1 + dx, tight.y1 + dy)
        yield Finding(
            check,
            sample.id,
            f"answer {answer.published()} is not the tight box {moved.published()} of what changed",
        )
    elif not real[claimed.y0 : claimed.y1, claimed.x0 : claimed.x1].all():
        yield Finding(check, sample.id, "the answer reaches into the fill of a shift")


def check_rectangles(release: Release) -> Iterator[Finding]:
    """The red rectangle of mv, ot and cmg stands where the provenance and the words say."""
    _needs_provenance(release)
    for sample in release.samples():
        row = sample.provenance
        if row is None or sample.task not in ("mv", "ot", "cmg"):
            continue
        reference, drawn = row.get("reference"), sample.steps("rectangle")
        if not reference or not drawn:
            yield Finding("marked rectangle", sample.id, "its provenance marks nothing")
            continue
        pictures = release.pixels(sample)
        if pictures is None:
            continue
        box, colour = Box(*reference["box"]), np.array(drawn[0]["colour"], np.uint8)
        if not 0 <= reference["image"] < len(pictures):
            yield Finding("marked rectangle", sample.id, "its provenance marks no picture of it")
            continue
        red = (pictures[reference["image"]] == colour).all(axis=2)
        edge = np.zeros((SIDE, SIDE), bool)
        edge[box.y0 : box.y1, box.x0 : box.x1] = True
        edge[box.y0 + 1 : box.y1 - 1, box.x0 + 1 : box.x1 - 1] = False
        if not red[edge].all():
            yield Finding(
                "marked rectangle",
                sample.id,
                f"{sample.images[reference['image']]}: no red line along {box.published()}",
            )
        if reference["image"] == sample.answer_image:
            yield Finding("marked rectangle", sample.id, "the marked picture is the asked one")


def _bounds(mask: NDArray[np.bool_]) -> Box | None:
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not rows.size:
        return None
    return Box(int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1)


def _pairs(release: Release, task: str) -> Iterator[tuple[Sampled, list[Pixels]]]:
    if task not in release.records:
        raise Absent(f"the release has no task {task}")
    for sample in release.records[task]:
        pictures = release.pixels(sample)
        if pictures is not None and len(pictures) == 2:
            yield sample, pictures


def _needs_provenance(release: Release) -> None:
    if release.provenance is None:
        raise Unchecked("the release has no provenance.jsonl")
