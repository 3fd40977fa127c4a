"""The whole road from a recipe to a release, each stage one call. Read `build` first.

No stage calls the next: `build` calls each in turn, and each returns.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from . import cases, config
from .assemble import (
    ComposeJob,
    Composer,
    FrameFacts,
    as_row,
    choose,
    common_split,
    frame_orders,
)
from .errors import RecipeError, SourceError
from .export.records import records
from .fetch import folder_of
from .identity import digest
from .model import TASKS, Case, CaseSurvey, Draft, FrameRef, Rejected, Sample
from .seams import Options, find, suggestion
from .store import Store, cache_folder, write_json
from .workers import Failure, Pool, each, executor

Tally = Counter[tuple[str, str, str]]
"""(reason, dataset, structure) -> how many a filter dropped."""

Progress = Callable[[str, int, int], None]
"""Told (stage, done, total) as work goes on."""

In = TypeVar("In")
Out = TypeVar("Out")


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be built: the recipe as used, and its datasets' recipes and folders."""

    recipe: config.BenchmarkRecipe
    datasets: tuple[tuple[config.DatasetRecipe, Path], ...]

    @property
    def identity(self) -> dict[str, Any]:
        """What must be equal for a build to be gone on with in the folder where it lies."""
        return {
            "recipe": config.digest_of(self.recipe),
            "datasets": {recipe.name: config.digest_of(recipe) for recipe, _ in self.datasets},
            "folders": {recipe.name: str(root.resolve()) for recipe, root in self.datasets},
            "version": version("medsg-build"),
        }


@dataclass(frozen=True, slots=True)
class Release:
    """What a build made. `short`: task -> reason -> drafts lost, where its quota was not filled.

    `cases` counts all that were found; `excess` is not empty where more of them failed than the
    recipe allows, and says so. `notes`: how often something was repaired or chosen while reading;
    `report/notes.jsonl` has them.
    """

    out: Path
    made: Mapping[str, int]
    asked: Mapping[str, int]
    short: Mapping[str, Mapping[str, int]]
    failures: tuple[Failure, ...]
    cases: int
    excess: str = ""
    notes: int = 0


def planned(
    name: str = "sample",
    tasks: Sequence[str] = (),
    count: int | None = None,
    seed: int | None = None,
    sources: Mapping[str, Path] | None = None,
) -> Plan:
    """The plan of a recipe (a shipped one by name, or a file), some of its settings replaced.

    Recipes of datasets are looked for beside the benchmark's, then among those shipped.
    `tasks`: only these; `count`: samples of each; `sources`: dataset -> folder. No source file is
    opened. Raises `RecipeError` with the faults of a document, `SourceError` for a missing folder.
    """
    path = config.recipe_path("benchmarks", name)
    recipe = config.load(path, config.BenchmarkRecipe)
    changes: dict[str, Any] = {} if seed is None else {"seed": seed}
    wanted = {task: recipe.tasks[task] for task in _known(recipe, tasks)}
    if count is not None:
        wanted = {t: plan.model_copy(update={"quota": count}) for t, plan in wanted.items()}
    for task, plan in wanted.items():
        known = find("tasks", task).options
        for option in plan.options.keys() - known.keys():
            raise RecipeError(
                f"recipe {recipe.name!r}: tasks.{task}.options.{option}: unknown option; "
                + suggestion(option, known)
            )
    recipe = config.changed(recipe, {**changes, "tasks": wanted})
    described = [config.dataset(dataset, path.parent) for dataset in recipe.datasets]
    return Plan(recipe, tuple((one, folder_of(one, sources or {})) for one in described))


def _known(recipe: config.BenchmarkRecipe, tasks: Sequence[str]) -> list[str]:
    for task in tasks:
        if task not in TASKS:
            raise RecipeError(f"unknown task {task!r}; {suggestion(task, [*TASKS, 'all'])}")
        if task not in recipe.tasks:
            raise RecipeError(
                f"recipe {recipe.name!r} has no task {task!r}; it has {', '.join(recipe.tasks)}"
            )
    return [task for task in TASKS if task in (tasks or recipe.tasks)]


def build(
    plan: Plan,
    out: Path,
    workers: str = "serial",
    strict: bool = False,
    progress: Progress = lambda _stage, _done, _total: None,
    reverse: bool = False,
) -> Release:
    """Build `plan` into `out`, or go on with a build of the same plan that lies there.

    `workers`: as `workers.executor`. `strict`: the first bad case stops the build. `reverse` takes
    the cases the other way round, which changes nothing in the result: a test proves it.
    Raises `RecipeError` (`out` is taken or cannot be written), `SourceError` (strict; or no case
    could be read).
    """
    store = Store(out)
    with executor(workers) as pool:
        run = _Run(plan, store, pool, progress, strict)
        found = run.laid_out()
        lost = len(run.failures)
        store.claim(plan.identity)
        try:
            surveyed = run.surveyed(found[::-1] if reverse else found)
            chosen = run.chosen(surveyed)
        except BaseException:
            store.abandon()
            raise
        store.based_on(surveyed.digest)
        run.develop([draft for held in chosen.values() for draft in held.planned], surveyed)
        samples = {task: run.composed(held, surveyed) for task, held in chosen.items()}
    return run.released(samples, chosen, len(found) + lost)


@dataclass(frozen=True, slots=True)
class _Surveyed:
    """The cases that could be surveyed: their jobs, and each case with its files' digests."""

    jobs: tuple[cases.SurveyJob, ...]
    held: Mapping[str, tuple[Case, Mapping[str, str]]]

    @property
    def digest(self) -> str:
        """Changes with every source file's content."""
        told = sorted((name, *sorted(files.values())) for name, (_, files) in self.held.items())
        return digest("sources", *(word for case in told for word in case)).hex()

    def surveys(self) -> Iterator[CaseSurvey]:
        """Each survey anew from the cache, so that memory does not grow with their number."""
        return map(cases.survey_case, self.jobs)

    def facts(self, ref: FrameRef) -> FrameFacts:
        """What the provenance says of a frame's source."""
        case, digests = self.held[ref.case]
        path = case.files[ref.series]
        return FrameFacts(
            case.dataset,
            case.modality_of(ref.series),
            case.licence,
            path.relative_to(case.root).as_posix(),
            digests[str(path)],
        )


@dataclass(frozen=True, slots=True)
class _Chosen:
    """One task's drafts in the order they fill its quota. The plan covers quota and reserve."""

    task: str
    quota: int
    drafts: tuple[tuple[Draft, str], ...]
    tally: Tally

    @property
    def reserve(self) -> int:
        """How many drafts are developed at once: some will be rejected when pixels are seen."""
        return self.quota + self.quota // 4 + 8

    @property
    def planned(self) -> list[Draft]:
        """The drafts developed in the first opening of the sources."""
        return [draft for draft, _ in self.drafts[: self.reserve]]


@dataclass(slots=True)
class _Run:
    """What the stages of one build share: where they work and what went wrong so far."""

    plan: Plan
    store: Store
    pool: Pool
    progress: Progress
    strict: bool
    failures: list[Failure] = field(default_factory=list)
    dropped: Tally = field(default_factory=Counter)
    notes: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def each(
        self,
        stage: str,
        function: Callable[[In], Out],
        items: Sequence[In],
        name: Callable[[In], str],
    ) -> Iterator[tuple[In, Out]]:
        """The items that could be done, in order, with their results; the others are recorded."""
        self.progress(stage, 0, len(items))
        results = each(function, items, self.pool, name)
        for done, (item, result) in enumerate(zip(items, results, strict=True), 1):
            if isinstance(result, Failure):
                self.failed(result)
            else:
                yield item, result
            self.progress(stage, done, len(items))

    def failed(self, failure: Failure) -> None:
        """Record a failure; with `strict`, raise it."""
        self.failures.append(failure)
        if self.strict:
            raise SourceError(f"{failure.item}: {failure.message}")

    def laid_out(self) -> list[Case]:
        """The cases of all datasets, by name."""
        out: list[Case] = []
        for recipe, root in self.plan.datasets:
            found = find("layouts", recipe.layout.kind)(recipe, root, self.plan.recipe.least_side)
            out += found.cases
            for failure in found.failures:
                self.failed(failure)
            for name in found.ignored:
                self.dropped["ignored by the recipe", recipe.name, name] += 1
        return sorted(out, key=lambda case: case.name)

    def surveyed(self, found: Sequence[Case]) -> _Surveyed:
        """First opening: what each case holds. Raises `SourceError` where none could be read."""
        jobs = [cases.SurveyJob(case, self.plan.recipe.fit, cache_folder()) for case in found]
        good, held = [], {}
        shown: dict[str, set[str]] = {}
        for job, survey in self.each("survey", cases.survey_case, jobs, lambda j: j.case.name):
            good.append(job)
            held[job.case.name] = (job.case, survey.sources)
            shown.setdefault(job.case.dataset, set()).update(survey.structures)
            if survey.notes:
                self.notes[job.case.name] = survey.notes
            for reason, count in survey.dropped.items():
                self.dropped[reason, job.case.dataset, ""] += count
        if not good:
            first = self.failures[0] if self.failures else Failure("-", "-", "there is none")
            raise SourceError(
                f"none of {len(self.failures)} cases could be read; the first: "
                f"{first.item}: {first.message}"
            )
        for dataset, told in cases.nowhere(found, shown).items():
            self.notes[dataset] = tuple(told)
        return _Surveyed(tuple(good), held)

    def chosen(self, surveyed: _Surveyed) -> dict[str, _Chosen]:
        """The plan: which drafts, in which order. Written down before any picture is."""
        recipe = self.plan.recipe
        out = {}
        for number, (task, wanted) in enumerate(recipe.tasks.items()):
            self.progress("plan", number, len(recipe.tasks))
            member = find("tasks", task)
            values = {**member.options, **wanted.options}
            options = Options(recipe.seed, wanted.quota, recipe.least_side, values)
            feeding = self._feeding(task, surveyed.surveys())
            ranked = choose(member.propose(feeding, options), recipe.seed, wanted.quota)
            kept = []
            for draft in ranked:
                split = common_split(draft, recipe.splits, recipe.seed, options.tally)
                if split is not None:
                    kept.append((draft, split))
            out[task] = _Chosen(task, wanted.quota, tuple(kept), options.tally)
        self.progress("plan", len(recipe.tasks), len(recipe.tasks))
        rows = (as_row(draft) for held in out.values() for draft in held.planned)
        write_json(self.store.work / "plan.jsonl", rows, lines=True)
        return out

    def _feeding(self, task: str, surveys: Iterable[CaseSurvey]) -> Iterator[CaseSurvey]:
        """The surveys of the datasets whose recipes feed `task`."""
        barred = {r.name for r, _ in self.plan.datasets if r.tasks and task not in r.tasks}
        return (survey for survey in surveys if survey.case.dataset not in barred)

    def develop(self, drafts: Iterable[Draft], surveyed: _Surveyed) -> None:
        """Second opening: write the frames that `drafts` need, a case at a time."""
        jobs = cases.orders(
            [order for draft in drafts for order in frame_orders(draft)],
            lambda name: surveyed.held[name][0],
            self.plan.recipe.fit,
            self.store.work / "frames",
        )
        for _ in self.each("develop", cases.develop_case, jobs, lambda job: job.case.name):
            pass

    def composed(self, chosen: _Chosen, surveyed: _Surveyed) -> list[Sample]:
        """The samples of one task: drafts in order until the quota is full or none is left."""
        identity = self.plan.identity
        composer = Composer(
            self.store.out,
            self.store.work / "frames",
            self.plan.recipe.seed,
            identity["recipe"],
            identity["version"],
        )
        made: list[Sample] = []
        at = 0
        while len(made) < chosen.quota and at < len(chosen.drafts):
            batch = chosen.drafts[at : at + chosen.quota - len(made)]
            if at + len(batch) > chosen.reserve:  # beyond the plan: these cases are opened again
                self.develop((draft for draft, _ in batch), surveyed)
            at += len(batch)
            jobs = [
                ComposeJob(draft, tuple(surveyed.facts(ref) for ref in draft.frames), split)
                for draft, split in batch
            ]
            stage = f"compose {chosen.task}"
            for job, result in self.each(stage, composer, jobs, lambda job: job.draft.key):
                if isinstance(result, Rejected):
                    where = (result.reason, job.draft.dataset, job.draft.structure)
                    chosen.tally[where] += 1
                else:
                    made.append(result)
        return made

    def released(
        self, samples: Mapping[str, Sequence[Sample]], chosen: Mapping[str, _Chosen], found: int
    ) -> Release:
        """Write the release and say what it is."""
        recipe = self.plan.recipe
        short = {
            task: _reasons(held.tally) or {"no further candidate": 0}
            for task, held in chosen.items()
            if len(samples[task]) < held.quota
        }
        made = {task: len(held) for task, held in samples.items()}
        asked = {task: held.quota for task, held in chosen.items()}
        build = {
            "name": recipe.name,
            "version": version("medsg-build"),
            "seed": recipe.seed,
            "recipe": self.plan.identity["recipe"],
            "datasets": self.plan.identity["datasets"],
            "fit": recipe.fit,
            "box": "[x0, y0, x1, y1] in pixels of a 336 x 336 picture, last pixel included",
            "tasks": {
                task: {"asked": asked[task], "made": made[task], "short": short.get(task, {})}
                for task in chosen
            },
            "dropped": _rows(self.dropped, "survey")
            + [row for task, held in chosen.items() for row in _rows(held.tally, task)],
            "failures": len(self.failures),
        }
        rows = (
            {"item": f.item, "kind": f.kind, "message": f.message, "expected": f.expected}
            for f in self.failures
        )
        write_json(self.store.work / "failures.jsonl", rows, lines=True)
        said = [
            {"case": case, "note": note} for case in sorted(self.notes) for note in self.notes[case]
        ]
        write_json(self.store.out / "report" / "notes.jsonl", said, lines=True)
        every = [sample for held in samples.values() for sample in held]
        self.store.sweep({name for sample in every for name in sample.record["images"]})
        described = {one.name: config.dumped(one) for one, _ in self.plan.datasets}
        records(self.store.out, samples, config.dumped(recipe), described, build)
        failed = len({failure.item for failure in self.failures})
        excess = ""
        if failed > recipe.max_failed * found:
            excess = (
                f"{self.store.out}: written, but {failed} of {found} cases failed (the recipe "
                f"allows {recipe.max_failed:.0%}); see {self.store.work / 'failures.jsonl'}"
            )
        failures = tuple(self.failures)
        return Release(self.store.out, made, asked, short, failures, found, excess, len(said))


def _reasons(tally: Tally) -> dict[str, int]:
    """Reason -> drafts lost, the most frequent first."""
    total: Counter[str] = Counter()
    for (reason, _, _), count in tally.items():
        total[reason] += count
    return dict(total.most_common())


def _rows(tally: Tally, stage: str) -> list[dict[str, Any]]:
    return [
        {"stage": stage, "reason": reason, "dataset": dataset, "structure": structure, "count": n}
        for (reason, dataset, structure), n in sorted(tally.items())
    ]
