"""The YAML documents: manifest, dataset recipes, benchmark recipes. pydantic stays in this folder."""

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
