"""Checks of what the records say: ids, counts, boxes, questions, the ordinals in them."""

import re
from collections import Counter
from collections.abc import Iterator

from ..errors import ReleaseError
from ..model import FULL, TASKS
from .finding import Finding, Unchecked
from .release import Release, Sampled

LENGTHS = {
    "rdg": (2, 2),
    "nrdg": (2, 2),
    "mv": (2, 3),
    "ot": (2, 6),
    "vcg": (2, 2),
    "vpg": (2, 6),
    "cmg": (2, 4),
    "rg": (2, 3),
}
"""Fewest and most pictures of a sample."""

ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth")


def check_records(release: Release) -> Iterator[Finding]:
    """Each record has the published keys, its file's task value, and as many pictures as it may."""
    for sample in release.samples():
        record = sample.record
        published = ("task", "images", "question", "answer", "additional_info", "need_format")
        missing = [key for key in published if key not in record]
        if missing:
            yield Finding("records", sample.id, f"{sample.file}: has no {', '.join(missing)}")
        if record.get("task") != TASKS[sample.task][1]:
            yield Finding(
                "records",
                sample.id,
                f"{sample.file}: task is {record.get('task')!r}, not {TASKS[sample.task][1]!r}",
            )
        low, high = LENGTHS[sample.task]
        if not low <= len(sample.images) <= high:
            yield Finding(
                "records", sample.id, f"{len(sample.images)} pictures; {low} to {high} are allowed"
            )
        place = sample.answer_image
        if "answer_image" in record and (place is None or not 0 <= place < len(sample.images)):
            yield Finding(
                "records", sample.id, f"answer_image is {record['answer_image']!r}, no picture"
            )
        if sample.task == "mv" and record.get("size") != [336, 336] and "id" in record:
            yield Finding("records", sample.id, f"size is {record.get('size')!r}, not [336, 336]")


def check_ids(release: Release) -> Iterator[Finding]:
    """No id stands twice, in the records or in the provenance."""
    counts = Counter(sample.id for sample in release.samples())
    for name, count in counts.items():
        if count > 1:
            yield Finding("ids", name, f"stands {count} times in the records")
    for name in release.doubled:
        yield Finding("ids", name, "stands more than once in provenance.jsonl")


def check_counts(release: Release) -> Iterator[Finding]:
    """Records, provenance rows and the build's report agree, sample by sample."""
    if release.provenance is None or release.build is None:
        raise Unchecked("the release has no provenance.jsonl or no report/build.json")
    ids = {sample.id for sample in release.samples()}
    for name in sorted(ids - release.provenance.keys()):
        yield Finding("counts", name, "has no row in provenance.jsonl")
    for name in sorted(release.provenance.keys() - ids):
        yield Finding("counts", name, "has a row in provenance.jsonl, but no record")
    told = release.build.get("tasks", {})
    for task in TASKS:
        made = told.get(task, {}).get("made", 0)
        there = len(release.records.get(task, ()))
        if made != there:
            yield Finding(
                "counts",
                f"Task{TASKS[task][0]}.json",
                f"holds {there} records, report/build.json says {made}",
            )


def check_boxes(release: Release) -> Iterator[Finding]:
    """Every gold box is four whole numbers inside the picture, as large as the recipe wants."""
    least = int((release.recipe or {}).get("least_side", 1))
    for sample in release.samples():
        box = sample.answer
        if box is None:
            yield Finding(
                "boxes", sample.id, f"answer is {sample.record.get('answer')!r}, not four integers"
            )
        elif box.x1 <= box.x0 or box.y1 <= box.y0:
            yield Finding("boxes", sample.id, f"answer {box.published()} covers no pixel")
        elif not FULL.contains(box):
            yield Finding("boxes", sample.id, f"answer {box.published()} leaves the picture")
        elif min(box.width, box.height) < least:
            yield Finding(
                "boxes", sample.id, f"answer {box.published()} has a side under {least} pixels"
            )


def check_questions(release: Release) -> Iterator[Finding]:
    """Every question is words: not empty, no placeholder left; rg names what is asked for."""
    for sample in release.samples():
        if not sample.question.strip():
            yield Finding("questions", sample.id, "has no question")
        elif re.search(r"[{}]", sample.question):
            yield Finding("questions", sample.id, "a placeholder is left in its question")
        named = re.search(r"<\|object_ref_start\|>\s*\S.*?<\|object_ref_end\|>", sample.question)
        if sample.task == "rg" and not named:
            yield Finding("questions", sample.id, "its question names nothing to find")


def check_ordinals(release: Release) -> Iterator[Finding]:
    """The ordinals of a question are those of the asked picture and of the reference, no others.

    rg names no ordinal: which picture fits is part of the question.
    """
    looked = False
    for sample in release.samples():
        if sample.answer_image is None:
            continue
        looked = True
        said = set(re.findall(rf"\b({'|'.join(ORDINALS)})\b", sample.question.lower()))
        wanted = _ordinals(sample)
        if said != wanted:
            yield Finding(
                "ordinals",
                sample.id,
                f"its question says {_told(said)}, but the pictures asked about are "
                f"{_told(wanted)}",
            )
    if not looked:
        raise Unchecked("no record says on which picture its answer lies (answer_image)")


def _ordinals(sample: Sampled) -> set[str]:
    if sample.task == "rg":
        return set()
    places = {sample.answer_image}
    reference = (sample.provenance or {}).get("reference")
    if sample.task == "vcg":
        places.add(0)
    elif reference:
        places.add(reference["image"])
    return {ORDINALS[p] for p in places if p is not None and 0 <= p < len(ORDINALS)}


def _told(ordinals: set[str]) -> str:
    return " and ".join(sorted(ordinals, key=ORDINALS.index)) or "none"


def check_reference_words(release: Release) -> Iterator[Finding]:
    """The box in the words of mv, ot and cmg is the marked box, last pixel included."""
    if release.provenance is None:
        raise Unchecked("the release has no provenance.jsonl")
    for sample in release.samples():
        box = ((sample.provenance or {}).get("reference") or {}).get("box")
        if box is None:
            continue
        wanted = [box[0], box[1], box[2] - 1, box[3] - 1]
        said = re.search(
            r"<\|box_start\|>\((\d+),(\d+)\),\((\d+),(\d+)\)<\|box_end\|>", sample.question
        )
        if said is None:
            yield Finding("reference words", sample.id, "its question holds no reference box")
        elif [int(v) for v in said.groups()] != wanted:
            yield Finding(
                "reference words",
                sample.id,
                f"its question says {said.group(0)}, but {wanted} is marked",
            )


def check_gold(release: Release) -> Iterator[Finding]:
    """The gold boxes, given as a model's answers, score exactly 1.0 each."""
    from ..score import gold, report_on

    try:
        golds = gold(release.path)
    except ReleaseError as error:
        yield Finding("gold scores 1", release.path.name, f"cannot be scored: {error}")
        return
    answers = {
        sample.id: str([int(v) if v.is_integer() else v for v in sample.answer]) for sample in golds
    }
    for row in report_on(golds, answers).rows:
        if row.iou != 1.0:
            yield Finding("gold scores 1", row.id, f"its own gold box scores {row.iou}")
