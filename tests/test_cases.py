"""Trouble cases from public bug reports, each through the product and against its right answer.

The cases lie beside the repository (`MEDSG_CASES=DIR` points at another folder of the same schema).
Each is sliced by a recipe written for it, under both fits; tables and pictures are then held
against `expected.json`. Where a case allows several conventions, ours is asserted: radiological
display, anterior on the left, x1 and y1 included in the table. A refusal passes only where refusing
is our stated rule, never for a format that is read.
"""

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from PIL import Image

from medsg_build import cases, config, layouts
from medsg_build.cases import opening
from medsg_build.errors import MedsgError, ReleaseError, SourceError
from medsg_build.formats import read
from medsg_build.model import Case, FrameRef, Wanted
from medsg_build.score.predictions import predicted
from medsg_build.score.release import Gold
from medsg_build.score.report import report_on
from medsg_build.slices import Choices, sliced

FOLDER = Path(os.environ.get("MEDSG_CASES") or Path(__file__).parents[2] / "shared" / "cases")
REFUSED = {
    "PA2": "a mask on another grid is not resampled",
    "IM7": "a mask of another size is not scaled",
    "DI4": "a series with a gap is not filled",
    "DI5": "of several phases one has to be chosen under parts",
}
"""Cases that may be refused, and our rule behind it."""

UNSUPPORTED = re.compile(r"support|decoder|v7\.3|layer|transfer syntax|RTSTRUCT|segmentation", re.I)
"""Reasons that would mean that a format is not read."""

SHOWN = {"axial": "radiological", "coronal": "radiological", "sagittal": "anterior_left"}
RESIZED = {"pad": "keep_mm_aspect_pad_centered", "stretch": "stretch_to_square"}
NUMBER = ("slice_index_from_inferior", "slice_index_from_posterior", "slice_index_from_left",
          "frame_index")  # fmt: skip


def collected() -> Iterator[Any]:
    for file in sorted(FOLDER.rglob("expected.json")):
        told = json.loads(file.read_text("utf-8"))
        for case in told["cases"]:
            yield pytest.param(file.parent, case, id=f"{told['family']}-{case['id']}")


def test_there_are_cases():
    assert any(collected()), f"no expected.json under {FOLDER}"


@pytest.mark.parametrize(("folder", "case"), list(collected()))
def test_case(folder: Path, case: dict[str, Any], tmp_path: Path):
    ways = [case["checks"]] if "checks" in case else case["any_of"]
    bench = Scored(folder, case) if "gold" in case["inputs"] else Bench(folder, case, tmp_path)
    faults = []
    for way in ways:
        if len(ways) > 1 and not_ours(case["id"], way):
            continue
        faults.append([fault for check in way for fault in bench.faults(check)])
        if not faults[-1]:
            return
    raise AssertionError("; or ".join(", ".join(found) for found in faults))


def not_ours(name: str, way: list[dict[str, Any]]) -> bool:
    """Whether a way out is a refusal of something that we read."""
    if any(check["type"] != "must_error_with" for check in way) or name in REFUSED:
        return False
    return any(UNSUPPORTED.search(word) for check in way for word in check["reason_any_of"])


@dataclass
class Made:
    """One pair, sliced: its rows, what was said, and the case as the layout found it."""

    case: Case | None
    boxes: list[dict[str, Any]]
    images: list[dict[str, Any]]
    told: list[str]
    failed: bool
    out: Path


def kind_of(key: str) -> str:
    if key.startswith("mask") or key.endswith(("_mask", "_seg")):
        return "mask"
    if key in ("csv", "coco", "yolo", "voc", "rle", "boxes", "annotations"):
        return "marks"
    return {"meta": "sizes", "sizes": "sizes", "colour_map": "colours"}.get(key, "image")


class Bench:
    """One case: its inputs sliced pair by pair, when a check first asks for them."""

    def __init__(self, folder: Path, case: dict[str, Any], work: Path) -> None:
        self.folder, self.case, self.work = folder, case, work
        self.inputs: dict[str, str] = case["inputs"]
        self.keys = {kind: [k for k in self.inputs if kind_of(k) == kind]
                     for kind in ("image", "mask", "marks", "sizes", "colours")}  # fmt: skip
        self.made = cache(self._made)

    def faults(self, check: dict[str, Any]) -> list[str]:
        """What is wrong with one check; every pair it speaks of is looked at."""
        return [
            f"{check['type']} {pair} {fit}: {fault}"
            for pair in self.pairs(check)
            for fit in ("pad", "stretch")
            if (fault := self.fault(check, pair, fit))
        ]

    def fault(self, check: dict[str, Any], pair: tuple[str, str], fit: str) -> str:
        try:
            return getattr(self, check["type"])(check, pair, fit)
        except MedsgError as error:
            return f"was refused: {error}"

    def pairs(self, check: dict[str, Any]) -> list[tuple[str, str]]:
        """(image, mask or marks) by their keys; '' for none."""
        if "pairs" in check:
            return [tuple(pair) for pair in check["pairs"]]
        if "file_name" in check:
            named = [k for k, name in self.inputs.items() if Path(name).name == check["file_name"]]
            return [self.pair(key) for key in named]
        if "image" in check:
            named = [k for k in self.keys["image"] if Path(self.inputs[k]).stem == check["image"]]
            return [self.pair(key) for key in named]
        if "files" in check:
            return [self.pair(key) for key in check["files"]]
        images = [k for k in self.keys["image"] if k != "image_empty"]
        several = len(images) > 1 and check["type"] in ("picture_contrast", "voxel")
        return [self.pair(key) for key in (images if several else images[:1])]

    def pair(self, key: str) -> tuple[str, str]:
        if kind_of(key) in ("mask", "marks"):
            return self.keys["image"][0], key
        own = [k for k in self.keys["mask"] if k == f"{key}_mask"]
        return key, next(iter([*own, *self.keys["mask"], *self.keys["marks"]]), "")

    # What the product makes of a pair

    def _made(self, pair: tuple[str, str], fit: str) -> Made:
        out = self.work / "-".join(filter(None, (*pair, fit)))
        recipe = self.recipe(pair)
        options = Choices(fit=fit, least_side=1, everything=self.case["id"].startswith("VI"))
        found = layouts.paired(recipe, self.folder, 1)
        case = found.cases[0] if found.cases else None
        try:
            done = sliced(recipe, self.folder, out, options)
        except SourceError as error:
            return Made(case, [], [], [str(error)], True, out)
        told = [note for notes in done.notes.values() for note in notes]
        told += [failure.message for failure in done.failures]
        rows = json.loads(next((out / "work" / "cases").glob("*.json")).read_text("utf-8"))
        boxes = [{**image, **box} for image in rows["images"] for box in image["boxes"]]
        return Made(case, boxes, rows["images"], told, False, out)

    def recipe(self, pair: tuple[str, str]) -> config.DatasetRecipe:
        """A dataset recipe as a user would write it for these two files."""
        image, mask = pair
        told: dict[str, Any] = {
            "name": "case", "modality": "MRI", "dust": 0,
            "layout": {"image": self.pattern(image)},
            "entry": {"title": "a case", "licence": {"name": "CC0-1.0", "redistribution": "yes"},
                      "citation": "none"},
        }  # fmt: skip
        if mask and kind_of(mask) == "mask":
            told["layout"]["mask"] = self.pattern(mask)
        elif mask:
            told["layout"]["marks"] = self.pattern(mask)
            told["marking"] = self.marking(mask)
        elif Path(self.inputs[image]).suffix == ".mat":
            told["layout"]["mask"] = self.pattern(image)
            told["layout"]["parts"] = self.matlab_parts(image)
        if "mask" in told["layout"] or mask:
            told["labels"] = self.labels()
        path = self.work / "case.yaml"
        path.write_text(yaml.safe_dump(told, allow_unicode=True), "utf-8")
        return config.dataset("case", self.work)

    def pattern(self, key: str) -> str:
        name = self.inputs[key]
        return f"{name}/" if (self.folder / name).is_dir() else name

    def marking(self, key: str) -> dict[str, Any]:
        path = self.folder / self.inputs[key]
        told: dict[str, Any] = {"kind": key}
        if path.suffix == ".csv":
            head = path.read_text("utf-8").splitlines()[0].lower()
            told["kind"] = "runs" if "encoded" in head or "rle" in head else "boxes"
            if told["kind"] == "runs":
                words = f"{self.case['fault']} {self.case['right']} {self.case['naive']}".lower()
                order = "rows" if "row-major" in self.case["fault"].lower() else "columns"
                start = "relative" if "relative" in self.case["fault"].lower() else "absolute"
                told["runs"] = f"{order}-{start}" + ("-0" if "0-based" in words else "")
            if self.keys["sizes"]:
                told["sizes"] = self.inputs[self.keys["sizes"][0]]
            told["skip"] = ["No finding"]
        if key == "yolo":
            told["classes"] = [str(label) for label in self.asked()]
        return told

    def matlab_parts(self, key: str) -> dict[str, str]:
        """Which variable is the picture and which the mask, from the reader's own list of them."""
        with pytest.raises(SourceError) as several:
            read(self.folder / self.inputs[key], Wanted())
        names = re.findall(r"([A-Za-z_][\w.]*) \d+x\d+", str(several.value))
        mask = next(n for n in names if re.search("mask|seg|label|tumor", n.split(".")[-1], re.I))
        return {"image": next(n for n in names if n != mask), "mask": mask}

    def labels(self) -> dict[str, Any]:
        asked = self.asked()
        if self.keys["colours"]:
            table = json.loads((self.folder / self.inputs[self.keys["colours"][0]]).read_text())
            return {f"L{n}": "#{:02x}{:02x}{:02x}".format(*rgb) for n, rgb in table.items()}
        if asked in ([1], []) or (self.keys["marks"] and asked == [1]):
            return {"L1": "any"}  # one object, whatever number or name it has
        return {f"L{label}": label for label in asked}

    def asked(self) -> list[Any]:
        """The labels that any check speaks of."""
        ways = [self.case["checks"]] if "checks" in self.case else self.case["any_of"]
        out: dict[Any, None] = {}
        for check in (check for way in ways for check in way):
            if "label" in check:
                out[check["label"]] = None
            out.update(dict.fromkeys(check.get("labels", ())))
        return list(out)

    def rows(self, check: dict[str, Any], made: Made) -> list[dict[str, Any]]:
        """The boxes of the label, view and slice that a check speaks of."""
        view = {"2d": "picture", "video": "picture"}.get(check.get("view", ""), check.get("view"))
        number = next((check[key] for key in NUMBER if key in check), None)
        return [
            row
            for row in made.boxes
            if (view is None or row["view"] == view)
            and (number is None or row["number"] == number)
            and ("label" not in check or row["structure"] == f"L{check['label']}")
        ]

    def picture(self, check: dict[str, Any], made: Made) -> np.ndarray:
        view = {"2d": "picture", "video": "picture"}.get(check.get("view", "2d"), check.get("view"))
        number = next((check[key] for key in NUMBER if key in check), 0)
        row = next(r for r in made.images if (r["view"], r["number"]) == (view, number))
        with Image.open(made.out / row["image"]) as opened:
            assert opened.size == (336, 336)
            return np.array(opened.convert("L")).astype(float)

    # The checks; each gives '' or what is wrong

    def box(self, check: dict[str, Any], pair: tuple[str, str], fit: str) -> str:
        made = self.made(pair, fit)
        display = SHOWN.get(check["view"], "as stored")
        accepted = [
            one["box_xyxy_336"]
            for one in check["accept"]
            if one["display"] == display and one["resize"] in ("any", RESIZED[fit])
            and "voc" not in one  # VOC is read as 1-based and inclusive
        ]  # fmt: skip
        if not accepted:
            return "no accepted box for our convention"
        found = [[r["x0"], r["y0"], r["x1"] + 1, r["y1"] + 1] for r in self.rows(check, made)]
        near = [
            b for b in found if np.abs(np.subtract(b, accepted[0])).max() <= check["tolerance_px"]
        ]
        inside = all(0 <= b[0] < b[2] <= 336 and 0 <= b[1] < b[3] <= 336 for b in found)
        return "" if near and inside else f"{found or made.told} for {accepted[0]}"

    def no_box(self, check: dict[str, Any], pair: tuple[str, str], fit: str) -> str:
        made = self.made(pair, fit)
        rows = self.rows(check, made)
        if "slice_indices" in check:
            rows = [row for row in rows if row["number"] in check["slice_indices"]]
        return f"{len(rows)} boxes" if rows or made.failed else ""

    def object_count(self, check: dict[str, Any], pair: tuple[str, str], fit: str) -> str:
        count = len(self.rows(check, self.made(pair, fit)))
        return "" if count == check["count"] else f"{count} objects"

    def numbers(self, check: dict[str, Any], pair: tuple[str, str], fit: str) -> str:
        found = sorted({row["number"] for row in self.rows(check, self.made(pair, fit))})
        return "" if found == check["indices"] else f"slices {found}"

    slices_with_label = frames_with_label = numbers

    def labels_present(self, check: dict[str, Any], pair: tuple[str, str], fit: str) -> str:
        found = {row["structure"] for row in self.made(pair, fit).boxes}
        return "" if found == {f"L{label}" for label in check["labels"]} else f"labels {found}"

    def volume(self, pair: tuple[str, str]) -> Any:
        case = layouts.paired(self.recipe((pair[0], "")), self.folder, 1).cases[0]
        return opening.picture(case, "image")

    def voxel(self, check: dict[str, Any], pair: tuple[str, str], fit: str) -> str:
        value = float(self.volume(pair).data[tuple(check["ras_index"])])
        return "" if abs(value - check["value"]) <= check["tolerance"] else f"{value}"

    def volume_shape_ras(self, check: dict[str, Any], pair: tuple[str, str], fit: str) -> str:
        volume = self.volume(pair)
        same = list(volume.data.shape) == check["shape"]
        near = np.allclose(volume.spacing, check["spacing_mm"], atol=1e-3)
        return "" if same and near else f"{volume.data.shape} of {volume.spacing}"

    def volume_count(self, check: dict[str, Any], pair: tuple[str, str], fit: str) -> str:
        return "a choice is asked for" if self.made(pair, fit).failed else ""

    def mask_area_px(self, check: dict[str, Any], pair: tuple[str, str], fit: str) -> str:
        case = self.made(pair, fit).case
        volume = opening.mask(case, case.masks[0])
        axis = ("sagittal", "coronal", "axial").index(check["view"])
        number = next(check[key] for key in NUMBER if key in check)
        area = int((np.take(volume.data, number, axis) == check["label"]).sum())
        near = abs(area - check["native_pixels"]) <= check["tolerance_px"]
        return "" if near else f"{area} pixels"

    def picture_contrast(self, check: dict[str, Any], pair: tuple[str, str], fit: str) -> str:
        made = self.made(pair, fit)
        picture = self.picture(check, made)
        view = {"2d": "picture"}.get(check["view"], check["view"])
        number = next((check[key] for key in NUMBER if key in check), 0)
        ref = FrameRef(made.case.name, "image", view, number)
        frame = cases.frame_of(made.case, ref, fit, f"L{check['label']}")
        inside = frame.mask.astype(bool)
        gap = picture[inside].mean() - picture[~inside].mean()
        least = float(re.search(r">= (\d+)", check["rule"])[1])
        greys = re.search(r"at least (\d+) distinct", check["rule"])
        white = re.search(r"fewer than (\d+) percent", check["rule"])
        if gap < least:
            return f"contrast {gap:.1f}"
        if greys and len(np.unique(picture)) < int(greys[1]):
            return f"{len(np.unique(picture))} grey values"
        if white and (picture == 255).mean() * 100 >= int(white[1]):
            return "too white"
        return ""

    def picture_uniform(self, check: dict[str, Any], pair: tuple[str, str], fit: str) -> str:
        return "" if np.ptp(self.picture(check, self.made(pair, fit))) == 0 else "not uniform"

    def output_exists(self, check: dict[str, Any], pair: tuple[str, str], fit: str) -> str:
        made = self.made(pair, fit)
        names = [row["image"] for row in made.images]
        found = [name for name in names if (made.out / name).is_file() and name.isascii()]
        return "" if len(found) == 1 else f"{names}"

    def frame_count(self, check: dict[str, Any], pair: tuple[str, str], fit: str) -> str:
        count = len(self.made((pair[0], ""), fit).images)
        return "" if count in check.get("count_any_of", [check.get("count")]) else f"{count} frames"

    def frame_code(self, check: dict[str, Any], pair: tuple[str, str], fit: str) -> str:
        picture = self.picture(check, self.made((pair[0], ""), fit))
        code = sum(
            1 << bit
            for bit in range(6)
            if picture[12:36, 48 * bit + 12 : 48 * bit + 36].mean() > 125
        )
        return "" if code == check["code"] else f"code {code}"

    def no_picture(self, check: dict[str, Any], pair: tuple[str, str], fit: str) -> str:
        numbers = {row["number"] for row in self.made(pair, fit).images}
        return f"frame {check['frame_index']}" if check["frame_index"] in numbers else ""

    def box_on_bright_square(self, check: dict[str, Any], pair: tuple[str, str], fit: str) -> str:
        made = self.made(pair, fit)
        for row in made.boxes:
            picture = self.picture({"view": "video", "frame_index": row["number"]}, made)
            mean = picture[row["y0"] : row["y1"] + 1, row["x0"] : row["x1"] + 1].mean()
            if mean < 200:
                return f"mean {mean:.0f} on frame {row['number']}"
        return "" if made.boxes else "no box"

    def must_error_with(self, check: dict[str, Any], pair: tuple[str, str], fit: str) -> str:
        made = self.made(pair, fit)
        if not made.failed:
            return "was not refused"
        return self.said(check, made) or (
            "a picture was made" if list(made.out.rglob("*.png")) else ""
        )

    def must_warn_with(self, check: dict[str, Any], pair: tuple[str, str], fit: str) -> str:
        return self.said(check, self.made(pair, fit))

    def said(self, check: dict[str, Any], made: Made) -> str:
        for line in made.told:
            if check["file_name"] in line and any(
                reason.lower() in line.lower() for reason in check["reason_any_of"]
            ):
                return ""
        return f"was told {made.told}"


class Scored:
    """A case of the scorer: gold boxes and answers."""

    def __init__(self, folder: Path, case: dict[str, Any]) -> None:
        self.case = case
        self.gold = folder / case["inputs"]["gold"]
        self.pred = folder / case["inputs"]["pred"]

    def faults(self, check: dict[str, Any]) -> list[str]:
        try:
            report = self.report()
        except ReleaseError as error:
            if check["type"] != "must_error_with":
                return [str(error)]
            reasons = [r for r in check["reason_any_of"] if r.lower() in str(error).lower()]
            return [] if reasons and check["file_name"] in str(error) else [str(error)]
        if check["type"] == "must_error_with":
            return ["was not refused"]
        found = {row.id: row.iou for row in report.rows}
        wanted = check.get("iou_any_of") or {k: [v] for k, v in check["iou"].items()}
        out = []
        for name, values in wanted.items():
            if name not in found:
                out += [] if None in values else [f"{name} is missing"]
            elif not any(v is not None and abs(found[name] - v) < 1e-3 for v in values):
                out.append(f"{name}: {found[name]}")
        for key, figure in (("mean_iou", "mean_iou"), ("acc_at_0_5", "acc_0.5")):
            mean = report.micro[figure]
            if key in check and abs(mean - check[key]) > check["tolerance"]:
                out.append(f"{key} {mean}")
        return out

    def report(self) -> Any:
        rows = [json.loads(line) for line in self.gold.read_text().splitlines()]
        held = [
            Gold(row["id"], "rdg", tuple(row["box"]))
            for row in rows
            if row["box"][2] > row["box"][0] and row["box"][3] > row["box"][1]
        ]
        return report_on(held, predicted(self.pred).answers)
