"""The whole road on the real images that come with the package."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from medsg_build.build import Release, build, planned
from medsg_build.errors import ReleaseError
from medsg_build.explain import explained
from medsg_build.model import TASKS


def digests(out: Path) -> dict[str, str]:
    """Every released file and its digest; the work folder is not part of a release."""
    return {
        path.relative_to(out).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(out.rglob("*"))
        if path.is_file() and "work" not in path.relative_to(out).parts
    }


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("build") / "serial"


@pytest.fixture(scope="module")
def release(out: Path) -> Release:
    return build(planned(count=5, seed=11), out)


def rows(out: Path, task: str) -> list[dict]:
    return json.loads((out / f"Task{TASKS[task][0]}.json").read_text())


def provenance(out: Path) -> list[dict]:
    return [json.loads(line) for line in (out / "provenance.jsonl").read_text().splitlines()]


def test_every_task_fills_its_quota_from_the_sample(release):
    assert release.made == dict.fromkeys(TASKS, 5)
    assert not release.short
    assert not release.failures


@pytest.mark.parametrize("task", TASKS)
def test_a_record_has_the_published_keys(release, out, task):
    published = {"task", "images", "question", "answer", "additional_info", "need_format"}
    ours = {"id", "answer_image"} | ({"size"} if task == "mv" else set())
    for record in rows(out, task):
        assert record.keys() == published | ours
        assert record["task"] == TASKS[task][1]
        assert all((out / name).is_file() for name in record["images"])
        assert max(record["answer"]) <= 335
    assert release.out == out


def test_three_or_more_modalities_and_no_patient_of_two_splits(release, out):
    held = provenance(out)
    assert {frame["modality"] for row in held for frame in row["frames"]} >= {"CT", "MRI", "CTA"}
    assert {row["split"] for row in held} == {"test"}
    assert all(row["licences"] for row in held)
    assert release.cases == 6


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workers", "reverse"), [("serial", True), ("threads:2", False), ("processes:2", False)]
)
def test_workers_and_order_change_no_byte(release, out, tmp_path, monkeypatch, workers, reverse):
    monkeypatch.setenv("MEDSG_CACHE", str(tmp_path / "cache"))  # surveyed anew
    build(planned(count=5, seed=11), tmp_path / "again", workers, reverse=reverse)
    assert digests(tmp_path / "again") == digests(out)
    assert release.out == out


def test_a_second_run_changes_nothing(release, out):
    before = digests(out)
    build(planned(count=5, seed=11), out)
    assert digests(out) == before
    assert release.out == out


def test_another_seed_asks_other_questions(release, out, tmp_path):
    build(planned(tasks=["ot"], count=5, seed=12), tmp_path / "o")
    ids = {record["id"] for record in rows(tmp_path / "o", "ot")}
    assert not ids & {record["id"] for record in rows(out, "ot")}
    assert release.out == out


def test_fewer_samples_are_the_first_of_more(release, out, tmp_path):
    build(planned(tasks=["rg"], count=3, seed=11), tmp_path / "o")
    assert rows(tmp_path / "o", "rg") == rows(out, "rg")[:3]
    assert release.out == out


def test_a_quota_beyond_what_exists_is_reported_not_padded(tmp_path):
    short = build(planned(tasks=["mv"], count=5000), tmp_path / "o")
    made = rows(tmp_path / "o", "mv")
    assert len(made) == short.made["mv"] < 5000
    assert len({record["id"] for record in made}) == len(made)
    assert short.short["mv"]
    told = json.loads((tmp_path / "o" / "report" / "build.json").read_text())
    assert told["tasks"]["mv"] == {"asked": 5000, "made": len(made), "short": short.short["mv"]}


def test_explain_rebuilds_a_sample_of_every_task(release, out):
    for task in TASKS:
        told = explained(out, rows(out, task)[0]["id"])
        assert told.differences == ()
        assert told.provenance["task"] == task
    assert release.out == out


def test_explain_tells_what_differs(release, tmp_path, out):
    held = provenance(out)
    held[0]["images"][0]["pixels"] = "0" * 64
    held[0]["answer"]["box"] = [0, 0, 5, 5]
    (tmp_path / "recipe.yaml").write_bytes((out / "recipe.yaml").read_bytes())
    shutil.copytree(out / "report", tmp_path / "report")
    (tmp_path / "provenance.jsonl").write_text("\n".join(json.dumps(row) for row in held))
    told = explained(tmp_path, held[0]["id"])
    assert [line.split(" ")[-1] for line in told.differences] == ["pixels", "5]"]
    with pytest.raises(ReleaseError, match="no sample 'none'"):
        explained(tmp_path, "none")
    assert release.out == out


def test_the_frame_boxes_were_promised_before_pixels_were_seen(release, out):
    """The survey's boxes are final: what the plan says is what is released."""
    plan = [json.loads(line) for line in (out / "work" / "plan.jsonl").read_text().splitlines()]
    by_key = {row["key"]: row for row in plan}
    for row in provenance(out):
        if row["task"] in ("mv", "ot", "vcg", "cmg", "rg"):
            draft = by_key[row["key"]]
            assert row["answer"]["box"] == draft["boxes"][draft["target"]]
    assert release.out == out


def test_a_changed_source_is_developed_anew(tmp_path):
    """A frame of the old file must never stand beside the digest of the new one."""
    import nibabel as nib
    import numpy as np

    from tests import toys

    picture, labels = toys.volume(1)
    toys.write(tmp_path / "data" / "a.nii.gz", picture)
    toys.write(tmp_path / "data" / "masks" / "a.nii.gz", labels)
    (tmp_path / "mine.yaml").write_text(
        "name: mine\nmodality: CT\nlabels: {Liver: 1, Spleen: 2}\n"
        'layout: {image: "{case}.nii.gz", mask: "masks/{case}.nii.gz"}\n'
        "entry: {title: M, licence: {name: CC0, redistribution: 'yes'}, citation: me}\n"
    )
    recipe = tmp_path / "bench.yaml"
    recipe.write_text("name: b\ntitle: B\ndatasets: [mine]\ntasks: {ot: {quota: 3}}\n")

    def made() -> list[dict]:
        plan = planned(str(recipe), sources={"mine": tmp_path / "data"})
        build(plan, tmp_path / "o")
        return provenance(tmp_path / "o")

    before = made()
    brighter = np.where(picture > -500, picture + 100, picture).astype(np.int16)
    nib.save(nib.Nifti1Image(brighter, np.diag([3.0, 3, 3, 1])), tmp_path / "data" / "a.nii.gz")
    after = made()
    assert [row["id"] for row in after] == [row["id"] for row in before]
    for old, new in zip(before, after, strict=True):
        assert old["frames"][0]["sha256"] != new["frames"][0]["sha256"]
        assert old["frames"][0]["pixels"] != new["frames"][0]["pixels"]
    labels[labels == 2] = 0
    toys.write(tmp_path / "data" / "masks" / "a.nii.gz", labels)
    gone = {row["id"] for row in after} - {row["id"] for row in made()}
    assert gone
    left = {path.name.split("_")[2] for path in (tmp_path / "o" / "images").rglob("*.png")}
    assert not left & gone
