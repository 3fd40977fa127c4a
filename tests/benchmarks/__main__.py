"""Times survey, develop and compose on one large CT, beside a plain script in the same run.

Each measurement runs in a process of its own, in turn with the others, so that its peak memory is
its own and a drift of the machine meets all alike. Printed: medians, and ratios to the script.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks import phantom

STAGES = ("plain", "survey", "develop", "compose")
"""In the order they are run."""


def stage(name: str, root: Path, scratch: Path) -> dict[str, float]:
    """Run one stage here; seconds, slices (pictures for compose) and peak memory in MiB."""
    from medsg_build import cases
    from medsg_build.assemble import ComposeJob, Composer, FrameFacts
    from medsg_build.model import Case, Draft, FrameRef, MaskFile, Order, Reading
    from tests.benchmarks import plain

    picture, labels = phantom.make(root)
    if name == "make":
        return {}
    values = {f"Organ{n}": (n,) for n in range(1, phantom.ORGANS + 1)}
    case = Case(
        dataset="big", name="big/ct", patient="big/ct", modality="CT", root=root,
        files={"image": picture}, masks=(MaskFile(labels, values),), reading=Reading(),
        licence="CC0-1.0",
    )  # fmt: skip
    job = cases.SurveyJob(case, "stretch", scratch / "cache")
    frames = scratch / "frames"
    if name in ("develop", "compose"):  # not timed: what the stage starts from
        numbers = cases.survey_case(job).frames["axial"]
        refs = [FrameRef(case.name, "image", "axial", n) for n in numbers]
        develop = cases.DevelopJob(case, tuple(map(Order, refs)), "stretch", frames)
    if name == "compose":
        cases.develop_case(develop)
        composer = Composer(scratch / "out", frames, 1, "", "")
        facts = FrameFacts("big", "CT", "CC0-1.0", "ct.nii.gz", "")
        from medsg_build.tasks.registered_difference import options

        drafts = [
            Draft("rdg", f"key {r.number}", "s", "big", ("p",), (r,), (None,), -1, options=options)
            for r in refs
        ]
    start = time.perf_counter()
    if name == "plain":
        count = plain.run(picture, labels, scratch / "plain")
    elif name == "survey":
        count = len(cases.survey_case(job).frames["axial"])
    elif name == "develop":
        count = cases.develop_case(develop)
    else:
        made = [composer(ComposeJob(draft, (facts,), "test")) for draft in drafts]
        count = 2 * len(made)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "count": count, "peak_mib": peak}


def main() -> None:
    """Measure every stage `--runs` times and print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", type=Path, help="also write the figures here")
    parser.add_argument("--data", type=Path, help="keep the CT here  [default: a temporary folder]")
    parser.add_argument("--stage", choices=("make", *STAGES), help=argparse.SUPPRESS)
    said = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = said.data or Path(folder) / "data"
        if said.stage:
            with tempfile.TemporaryDirectory() as scratch:
                print(json.dumps(stage(said.stage, root, Path(scratch))))
            return
        # In a process of its own too: a child's peak memory starts at its parent's.
        measured("make", root)
        runs: dict[str, list[dict[str, float]]] = {name: [] for name in STAGES}
        for _ in range(said.runs):
            for name in STAGES:
                runs[name].append(measured(name, root))
    told = {name: median(held) for name, held in runs.items()}
    base = told["plain"]["ms_each"]
    print(f"{'stage':<10}{'ms each':>9}{'count':>7}{'peak MiB':>10}{'plain / it':>12}")
    for name, figures in told.items():
        figures["plain_over_it"] = base / figures["ms_each"]
        print(
            f"{name:<10}{figures['ms_each']:>9.2f}{figures['count']:>7.0f}"
            f"{figures['peak_mib']:>10.0f}{figures['plain_over_it']:>11.1f}x"
        )
    road = told["survey"]["ms_each"] + told["develop"]["ms_each"] + told["compose"]["ms_each"]
    print(f"survey + develop + compose: {road:.2f} ms a slice, the plain script {base / road:.1f}x")
    if said.json:
        said.json.write_text(json.dumps({**told, "road": {"plain_over_it": base / road}}, indent=1))


def measured(name: str, root: Path) -> dict[str, float]:
    """One stage in a process of its own."""
    line = [sys.executable, "-m", "tests.benchmarks", "--stage", name, "--data", str(root)]
    figures: dict[str, float] = json.loads(subprocess.run(line, check=True, stdout=-1).stdout)
    return figures


def median(held: list[dict[str, float]]) -> dict[str, float]:
    """The median time for one slice or picture, and the largest peak."""
    return {
        "ms_each": statistics.median(1000 * run["seconds"] / run["count"] for run in held),
        "count": held[0]["count"],
        "peak_mib": max(run["peak_mib"] for run in held),
    }


if __name__ == "__main__":
    main()
