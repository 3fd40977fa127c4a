"""Documents: every fault is told with its file, line, place and cure, all at once."""

import pytest

from medsg_build import config
from medsg_build.errors import RecipeError, UnknownName
from medsg_build.vocabulary import structure

DATASET = """\
name: mine
modality: CT
layout: {image: "{case}.nii.gz", mask: "{case}_seg.nii.gz"}
labels: {Liver: 1}
"""
BENCH = """\
name: bench
title: A bench
datasets: [mine]
tasks:
  rdg: {quota: 3}
"""


def fault(tmp_path, text: str, kind) -> str:
    path = tmp_path / "doc.yaml"
    path.write_text(text)
    with pytest.raises(RecipeError) as error:
        config.load(path, kind)
    return str(error.value).replace(str(path), "doc.yaml")


FAULTS = [
    (BENCH.replace("quota", "qota"), ":5: tasks.rdg.qota: unknown key; did you mean 'quota'"),
    (BENCH.replace("rdg", "rgd"), "doc.yaml:4: tasks: unknown task 'rgd'"),
    (BENCH.replace("3}", "0}"), "doc.yaml:5: tasks.rdg.quota: input should be greater"),
    (BENCH + "seeds: 1\n", "doc.yaml:6: seeds: unknown key; did you mean 'seed'"),
    (BENCH + "fit: squash\n", "doc.yaml:6: fit: input should be 'stretch' or 'pad' (not 'squash')"),
    (BENCH + "splits: {a: 0.5, b: 0.4}\n", "doc.yaml:6: splits: shares must"),
    (BENCH + "title: Again\n", "doc.yaml:6: title: stands twice"),
    (BENCH.replace("[mine]", "[]"), "doc.yaml:3: datasets: list should have at least 1"),
    ("", "a mapping of keys is expected"),
    ("a: [1, 2", "doc.yaml:1: not YAML"),
    ("a: !!python/object:os.system {}", "not YAML"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "told"), FAULTS, ids=[f[1][:40] for f in FAULTS])
def test_faults_of_a_benchmark_recipe(tmp_path, text, told):
    assert told in fault(tmp_path, text, config.BenchmarkRecipe)


DATASET_FAULTS = [
    (DATASET.replace("CT", "C T"), "doc.yaml:2: modality: input should be 'CT'"),
    (DATASET + "window: sotf_tissue\n", "doc.yaml:5: window: unknown window 'sotf_tissue'"),
    (DATASET.replace("{case}.nii", "../{case}.nii"), "must be a relative path inside"),
    (DATASET.replace("{case}.nii", "{kase}.nii"), "only {case}, {patient} and {frame}"),
    (DATASET.replace("Liver: 1", "Liver: 0"), "label values run from 1 to 65535, not 0"),
    (DATASET.replace("labels: {Liver: 1}", ""), "labels: name the structures"),
    (DATASET + "viewz: [axial]\n", "viewz: unknown key; did you mean 'views'"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "told"), DATASET_FAULTS, ids=[f[1][-25:] for f in DATASET_FAULTS])
def test_faults_of_a_dataset_recipe(tmp_path, text, told):
    assert told in fault(tmp_path, text, config.DatasetRecipe)


def test_all_faults_are_told_at_once(tmp_path):
    text = BENCH.replace("quota", "qota") + "seeds: 1\nfit: squash\n"
    assert len(fault(tmp_path, text, config.BenchmarkRecipe).splitlines()) == 4  # and no quota


def test_the_digest_does_not_depend_on_spelling(tmp_path):
    one, other = tmp_path / "a.yaml", tmp_path / "b.yaml"
    one.write_text(BENCH)
    other.write_text("# a remark\n" + BENCH.replace("{quota: 3}", "\n    quota: 3") + "seed: 0\n")
    digests = {config.digest_of(config.load(p, config.BenchmarkRecipe)) for p in (one, other)}
    assert len(digests) == 1


def test_a_dumped_recipe_is_the_recipe(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text(BENCH)
    recipe = config.load(path, config.BenchmarkRecipe)
    path.write_text(config.dumped(recipe))
    assert config.load(path, config.BenchmarkRecipe) == recipe


@pytest.mark.parametrize("name", config.shipped("datasets"))
def test_shipped_dataset_recipes(name):
    recipe = config.dataset(name)
    assert recipe.entry is not None
    masks = recipe.layout.mask if isinstance(recipe.layout.mask, dict) else {}
    for label in [*recipe.labels, *masks]:
        assert structure(label).name == label  # canonical names only


@pytest.mark.parametrize("name", config.shipped("benchmarks"))
def test_shipped_benchmark_recipes(name):
    recipe = config.load(config.recipe_path("benchmarks", name), config.BenchmarkRecipe)
    assert recipe.name == name
    assert all(dataset in config.shipped("datasets") for dataset in recipe.datasets)


def test_a_near_name_is_offered():
    with pytest.raises(UnknownName, match="did you mean 'sample'"):
        config.recipe_path("benchmarks", "sampel")


def test_an_own_dataset_needs_an_entry(tmp_path):
    (tmp_path / "mine.yaml").write_text(DATASET)
    with pytest.raises(RecipeError, match=r"mine\.yaml: entry: missing"):
        config.dataset("mine", tmp_path)
    entry = "entry: {title: T, licence: {name: CC0, redistribution: 'yes'}, citation: C}\n"
    (tmp_path / "mine.yaml").write_text(DATASET + entry)
    assert config.dataset("mine", tmp_path).entry.title == "T"
