"""The commands as a person gives them, the hurried and the hostile one too."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from typer.testing import CliRunner

from medsg_build.cli import app
from tests import toys

README = (Path(__file__).parents[1] / "README.md").read_text()
COMMANDS = ["generate", "slice", "check", "score", "sheet", "explain", "list"]


def run(*words: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, [str(w) for w in words])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "a folder with blanks é"
    code, said, _ = run("generate", "--task", "rdg", "--task", "ot", "-n", 3, "--out", folder)
    assert code == 0
    assert "6 samples (rdg 3, ot 3)" in said
    return folder


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_an_example_that_parses(name):
    code, said, _ = run(name, "--help")
    assert code == 0
    example = re.search(rf"medsg-build {name} [^\n]+", said)
    assert example
    options = re.findall(r"--[a-z]+", example[0])
    assert all(option in said.replace(example[0], "") for option in options)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_readme_names_every_command(name):
    assert f"medsg-build {name}" in README


def test_every_command_of_the_readme_exists():
    assert set(re.findall(r"medsg-build ([a-z]+)", README)) == set(COMMANDS)


def test_check_and_score_prove_a_release(out, tmp_path):
    assert run("check", out)[:2] == (0, "0 findings in 15 checks\n")
    golds = {
        record["id"]: record["answer"]
        for task in (1, 4)
        for record in json.loads((out / f"Task{task}.json").read_text())
    }
    answers = tmp_path / "answers.jsonl"
    answers.write_text(
        "".join(
            json.dumps({"id": name, "text": f"It is {box}."}) + "\n" for name, box in golds.items()
        )
    )
    code, said, _ = run("score", out, answers, "--json")
    told = json.loads(said)
    assert code == 0
    figures = {"mean_iou", "acc_0.3", "acc_0.5", "acc_0.7", "n", "parsed"}
    for part in (told["micro"], told["macro"], told["tasks"]["rdg"], told["tasks"]["ot"]):
        assert figures <= part.keys()
        assert part["mean_iou"] == part["acc_0.7"] == 1.0
    assert told["micro"]["n"] == 6


def test_a_finding_is_exit_code_1(out, tmp_path):
    import shutil

    broken = tmp_path / "broken"
    shutil.copytree(out, broken)
    next((broken / "images" / "Task1").iterdir()).unlink()
    code, said, _ = run("check", broken, "--json")
    assert code == 1
    told = json.loads(said)
    assert told["findings"][0]["check"] == "pictures"
    assert "is missing" in told["findings"][0]["message"]


def test_running_twice_changes_nothing(out):
    before = {p: p.read_bytes() for p in out.rglob("Task*.json")}
    assert run("generate", "--task", "rdg", "--task", "ot", "-n", 3, "--out", out)[0] == 0
    assert {p: p.read_bytes() for p in out.rglob("Task*.json")} == before


def test_json_is_one_object_on_standard_output(tmp_path):
    code, said, _ = run("generate", "--task", "rg", "-n", 2, "--out", tmp_path / "o", "--json")
    assert code == 0
    assert json.loads(said)["made"] == {"rg": 2}


def test_explain_and_sheet_and_list(out, tmp_path):
    name = json.loads((out / "Task1.json").read_text())[0]["id"]
    code, said, told = run("explain", out, name)
    assert code == 0
    assert json.loads(said)["id"] == name
    assert "the same pixels" in told
    assert run("sheet", out, "-n", 2, "--to", tmp_path / "s.png")[0] == 0
    from PIL import Image

    with Image.open(tmp_path / "s.png") as picture:
        assert picture.size[0] > 600
    assert "sample-body-ct" in run("list", "datasets")[1]
    assert [t["name"] for t in json.loads(run("list", "tasks", "--json")[1])][:2] == ["rdg", "nrdg"]


BAD = [
    (["generate", "--task", "rdgg"], 2, "unknown task 'rdgg'; did you mean 'rdg'"),
    (["generate", "--recipe", "sampel"], 2, "did you mean 'sample'"),
    (["generate", "--recipe", "none.yaml"], 2, "none.yaml: cannot be read"),
    (["generate", "--workers", "lots"], 2, "--workers 'lots'"),
    (["generate", "--source", "x=y"], 2, "expected NAME=FOLDER with a dataset of the recipe"),
    (["generate", "--source", "sample-fundus=/nowhere"], 3, "no such folder"),
    (["generate", "-n", "0"], 2, ""),
    (["generate", "--seed", "-1"], 2, ""),
    (["generate", "--seed", str(2**63)], 2, "seed"),
    (["generate", "--out", "/proc/none"], 2, "/proc/none"),
    (["generate", "--out", "/dev/null/x"], 2, "/dev/null"),
    (["check", "/nowhere"], 2, "/nowhere: holds no Task1.json"),
    (["score", "/nowhere", "/nowhere"], 2, "/nowhere"),
    (["explain", "/nowhere", "x"], 2, "cannot be read"),
    (["sheet", "/nowhere"], 2, "nothing to draw"),
]


@pytest.mark.parametrize(("words", "code", "told"), BAD, ids=[" ".join(b[0])[:40] for b in BAD])
def test_bad_words_get_one_clear_line(words, code, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    got, said, complaint = run(*words)
    assert got == code
    assert told in complaint
    assert said == ""
    assert not list(tmp_path.rglob("*"))  # nothing half-written


def test_a_folder_with_another_build_is_refused(out):
    code, _, told = run(
        "generate", "--task", "rdg", "--task", "ot", "-n", 3, "--seed", 9, "--out", out
    )
    assert code == 2
    assert "holds another build (recipe differ" in told


def test_a_folder_with_other_files_is_refused(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    code, _, told = run("generate", "--out", tmp_path)
    assert code == 2
    assert "no build of medsg-build" in told
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.txt"]


def test_more_than_exists_is_written_reported_and_exit_code_1(tmp_path):
    code, said, told = run("generate", "--task", "mv", "-n", 3000, "--out", tmp_path / "o")
    assert code == 1
    assert re.search(r"mv: \d+ of 3000 samples; lost: .*not one object in all views \(\d+\)", told)
    assert "samples (mv" in said
    assert run("check", tmp_path / "o")[0] == 0


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A person's own dataset: three cases, one of them bad, and two recipes beside each other."""
    for name, seed in (("a", 1), ("b", 2), ("c", 3)):
        picture, labels = toys.volume(seed)
        toys.write(tmp_path / "data" / f"{name}.nii.gz", picture)
        toys.write(tmp_path / "data" / f"{name}_seg.nii.gz", labels[:-1] if name == "c" else labels)
    (tmp_path / "mine.yaml").write_text(
        "name: mine\nmodality: CT\nregions: [abdomen]\n"
        'layout: {image: "{case}.nii.gz", mask: "{case}_seg.nii.gz"}\n'
        "labels: {Liver: 1, Spleen: 2, LeftKidney: 3}\n"
        "entry: {title: Mine, licence: {name: CC0, redistribution: 'yes'}, citation: me}\n"
    )
    (tmp_path / "bench.yaml").write_text(
        "name: bench\ntitle: Mine\ndatasets: [mine]\ntasks: {ot: {quota: 4}, vcg: {quota: 4}}\n"
    )
    return tmp_path


def test_one_bad_case_is_named_and_the_run_goes_on(mine):
    words = ["generate", "--recipe", mine / "bench.yaml", "--source", f"mine={mine / 'data'}"]
    code, said, told = run(*words, "--out", mine / "o")
    assert code == 0
    assert "8 samples (ot 4, vcg 4)" in said
    assert "skipped mine/c: " in told
    assert "72x64x56 voxels" in told
    assert "71x64x56 voxels" in told
    rows = (mine / "o" / "work" / "failures.jsonl").read_text().splitlines()
    assert [json.loads(row)["item"] for row in rows] == ["mine/c"]
    assert run("check", mine / "o")[0] == 0
    name = json.loads((mine / "o" / "Task5.json").read_text())[0]["id"]
    assert run("explain", mine / "o", name, "--source", f"mine={mine / 'data'}")[0] == 0
    strict = run(*words, "--out", mine / "s", "--strict")
    assert strict[0] == 3
    assert "error: mine/c: " in strict[2]
    assert not (mine / "s").exists()


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda d: (d / "b_seg.nii.gz").unlink(), "skipped mine/b: .*no file for mask"),
        (lambda d: (d / "b.nii.gz").write_bytes(b"oops"), r"skipped mine/b: .*b\.nii\.gz: not a"),
        (
            lambda d: toys.write(d / "b_seg.nii.gz", np.zeros(toys.SHAPE, np.uint8)),
            "skipped mine/b: .*no labelled object",
        ),
    ],
    ids=["no mask", "no picture", "no label"],
)
def test_a_case_that_cannot_be_used_is_named(mine, spoil, told):
    spoil(mine / "data")
    code, _, complaint = run(
        "generate", "--recipe", mine / "bench.yaml", "--source", f"mine={mine / 'data'}",
        "--out", mine / "o",
    )  # fmt: skip
    assert re.search(told, complaint)
    assert code == 4  # two of three cases failed
    assert "2 of 3 cases failed" in complaint


def test_no_usable_case_leaves_nothing(mine):
    for path in (mine / "data").glob("*_seg.nii.gz"):
        nib.save(nib.Nifti1Image(np.zeros(toys.SHAPE, np.uint8), np.eye(4)), path)
    code, _, told = run(
        "generate", "--recipe", mine / "bench.yaml", "--source", f"mine={mine / 'data'}",
        "--out", mine / "o",
    )  # fmt: skip
    assert code == 3
    assert "none of 3 cases could be read" in told
    assert not (mine / "o").exists()
    (mine / "mine own").mkdir()
    again = run("generate", "--recipe", mine / "bench.yaml", "--source", f"mine={mine / 'data'}",
                "--out", mine / "mine own")  # fmt: skip
    assert again[0] == 3
    assert list((mine / "mine own").iterdir()) == []  # emptied, but not taken away


@pytest.mark.slow
@pytest.mark.parametrize("after", [0.8, 1.6, 2.4])
def test_a_killed_build_goes_on_to_the_same_result(tmp_path, after):
    words = [sys.executable, "-m", "medsg_build.cli", "generate", "--task", "all", "-n", "8"]
    environment = {**os.environ, "MEDSG_CACHE": str(tmp_path / "cache")}
    process = subprocess.Popen([*words, "--out", str(tmp_path / "o")], env=environment, stdout=-1)
    time.sleep(after)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    for folder in ("o", "whole"):
        line = [*words, "--out", str(tmp_path / folder)]
        subprocess.run(line, env=environment, check=True, capture_output=True)
    held = [
        {
            path.relative_to(tmp_path / folder): path.read_bytes()
            for path in sorted((tmp_path / folder).rglob("*"))
            if path.is_file() and "work" not in path.parts
        }
        for folder in ("o", "whole")
    ]
    assert held[0] == held[1]
    assert not list((tmp_path / "o").rglob(".*.part")) or (tmp_path / "o" / "work").is_dir()
