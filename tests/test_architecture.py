"""The architecture of the design, as a test: imports run downwards, and five nevers."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1] / "medsg_build"
FLOORS = [
    {"model", "errors", "identity", "workers"},
    {"config", "store", "seams", "formats", "standardise", "regions", "perturb", "vocabulary",
     "questions", "columns"},
    {"fetch", "layouts", "cases", "tasks", "export", "score"},
    {"assemble", "audit", "view"},
    {"build", "explain", "catalogue", "slices"},
    {"cli"},
]  # fmt: skip
FLOOR = {name: number for number, floor in enumerate(FLOORS) for name in floor}
PATHS = sorted(ROOT.rglob("*.py"))
HEAVY = {"dask", "pyarrow", "matplotlib", "jinja2", "pydicom", "SimpleITK", "cv2", "scipy",
         "skimage", "cc3d", "nibabel", "PIL", "isal"}  # fmt: skip
NETWORK = {"pooch", "requests", "urllib", "http", "socket", "httpx", "aiohttp", "ftplib"}


def place(path: Path) -> str:
    """The module or folder of the package's top level that a file belongs to."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def imports(path: Path) -> set[tuple[str, bool]]:
    """(dotted name, at the top of the file) of all it imports; ours begin with a dot."""
    tree = ast.parse(path.read_text())
    top = {id(node) for node in tree.body}
    folder = path.parent.relative_to(ROOT).parts
    out = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            out |= {(alias.name, id(node) in top) for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level:
            base = folder[: len(folder) - node.level + 1]
            for alias in node.names:
                dotted = [*base, *([node.module] if node.module else []), alias.name]
                out.add(("." + ".".join(dotted), id(node) in top))
        elif isinstance(node, ast.ImportFrom):
            out.add((node.module or "", id(node) in top))
    return out


def ours(path: Path) -> set[str]:
    return {name[1:].split(".")[0] for name, _ in imports(path) if name.startswith(".")}


def names(path: Path) -> set[str]:
    return {name.split(".")[0] for name, _ in imports(path) if not name.startswith(".")}


def ids(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def test_every_module_has_a_floor():
    assert {place(p) for p in PATHS} - {"__init__", "sample"} <= FLOOR.keys()


@pytest.mark.parametrize("path", PATHS, ids=ids)
def test_imports_run_downwards(path):
    here = place(path)
    if here == "__init__":
        return
    for there in ours(path) & FLOOR.keys():
        beside = there == here or FLOOR[there] == FLOOR[here] <= 1
        assert FLOOR[there] < FLOOR[here] or beside, f"{ids(path)} must not import {there}"


def test_no_circle_beside_each_other():
    for floor in FLOORS:
        edges = {n: set() for n in floor}
        for path in PATHS:
            if place(path) in floor:
                edges[place(path)] |= (ours(path) & floor) - {place(path)}
        done: set[str] = set()
        while edges.keys() - done:
            free = {n for n in edges.keys() - done if edges[n] <= done}
            assert free, f"a circle among {sorted(edges.keys() - done)}"
            done |= free


@pytest.mark.parametrize("path", [p for p in PATHS if place(p) == "tasks"], ids=ids)
def test_a_task_knows_no_disk(path):
    assert not ours(path) & {"formats", "cases", "fetch", "config", "store"}


@pytest.mark.parametrize(
    "path", [p for p in PATHS if place(p) in ("score", "audit", "view")], ids=ids
)
def test_what_follows_the_build_reads_the_release_only(path):
    assert ours(path) <= {"model", "errors", "identity", "score", "audit", "view", "store"}


@pytest.mark.parametrize("path", PATHS, ids=ids)
def test_one_place_for_each_power(path):
    here, used = place(path), names(path)
    if here not in ("cases", "formats"):
        assert "formats" not in ours(path)
    if here != "fetch":
        assert not used & NETWORK
    if here != "cli":
        assert not used & {"typer", "rich"}
    if here != "config":
        assert "pydantic" not in used
    top = {name.split(".")[0] for name, at_top in imports(path) if at_top}
    assert not top & HEAVY
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree) is not None
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        word = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if here != "cli":
            assert word not in ("print", "exit")
        if here != "store":
            assert word not in ("write_text", "write_bytes", "mkstemp")
            modes = [getattr(a, "value", "") for a in node.args]
            assert not (word == "open" and any(m in ("w", "wb", "a", "x") for m in modes))


def test_names_say_one_job():
    banned = {"utils", "helpers", "base", "core", "common", "manager"}
    assert not {p.stem for p in PATHS} & banned
    assert max(len(p.read_text().splitlines()) for p in PATHS) <= 430


def test_help_loads_nothing_heavy():
    program = (
        "import sys\nfrom medsg_build.cli import app\n"
        "try:\n    app(['--help'])\nexcept SystemExit:\n    pass\n"
        "print(sorted({'numpy', 'cv2', 'nibabel', 'pydantic', 'yaml', 'PIL'} & sys.modules.keys()))"
    )
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert out.stdout.splitlines()[-1] == "[]"
