"""What is installed and shipped, as rows to print."""

from typing import Any

from . import config
from .model import TASKS
from .seams import find, installed
from .vocabulary import structures


def rows(kind: str) -> list[dict[str, Any]]:
    """The members of `kind`, each with at least `name` and `about`."""
    if kind == "tasks":
        return [
            {"name": name, "about": _first_line(find("tasks", name)), "number": TASKS[name][0]}
            for name in TASKS
        ]
    if kind == "recipes":
        held = [
            config.load(p, config.BenchmarkRecipe) for p in config.shipped("benchmarks").values()
        ]
        return [
            {"name": r.name, "about": r.title, "tasks": {t: p.quota for t, p in r.tasks.items()}}
            for r in held
        ]
    if kind == "datasets":
        return [
            {
                "name": entry.name,
                "about": f"{entry.title} ({', '.join(entry.modalities)}; {entry.licence.name})",
                **entry.model_dump(mode="json", exclude={"name"}),
            }
            for entry in config.manifest().datasets
        ]
    if kind == "structures":
        return [
            {
                "name": s.name,
                "about": f"{s.say} ({', '.join(s.regions)})",
                "regions": list(s.regions),
            }
            for s in structures()
        ]
    return [{"name": name, "about": _first_line(find(kind, name))} for name in installed(kind)]


def _first_line(member: Any) -> str:
    return (member.__doc__ or "").strip().split("\n", 1)[0]
