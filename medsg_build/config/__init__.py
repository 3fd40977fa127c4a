"""The YAML documents: manifest, recipes of datasets and benchmarks. pydantic stays in here."""

from .documents import (
    Access,
    BenchmarkRecipe,
    DatasetEntry,
    DatasetRecipe,
    Document,
    Entry,
    Layout,
    Licence,
    Manifest,
    MarkingPlan,
    TaskPlan,
)
from .loading import changed, digest_of, dumped, load
from .places import dataset, manifest, recipe_path, shipped

__all__ = [
    "Access",
    "BenchmarkRecipe",
    "DatasetEntry",
    "DatasetRecipe",
    "Document",
    "Entry",
    "Layout",
    "Licence",
    "Manifest",
    "MarkingPlan",
    "TaskPlan",
    "changed",
    "dataset",
    "digest_of",
    "dumped",
    "load",
    "manifest",
    "recipe_path",
    "shipped",
]
