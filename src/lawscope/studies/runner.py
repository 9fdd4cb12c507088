"""Running studies: from a name to results on disk."""

from __future__ import annotations

import os
import sys
import warnings
from contextlib import redirect_stdout
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lawscope.checks import checked
from lawscope.errors import LawscopeError, LawscopeWarning
from lawscope.formatting import many, time_text
from lawscope.studies import result as saved
from lawscope.studies.datasets import find_absent
from lawscope.studies.display import Display
from lawscope.studies.entry import today
from lawscope.studies.plan import with_starts
from lawscope.studies.pool import Pool, Workers, usable_cores
from lawscope.studies.ray import RayWorkers, check_place
from lawscope.studies.registry import check_preset, choose, find
from lawscope.studies.result import DEFAULT_OUT, StudyResult
from lawscope.studies.scheduler import Failure, Measured, PlannedStudy, Scheduler
from lawscope.studies.store import Store
from lawscope.studies.study import FAILED, NOT_TRIED
from lawscope.whole_number import whole_number


@checked
def run(
    name: str,
    *,
    preset: str = "cpu",
    seeds: int | None = None,
    jobs: int | None = None,
    on: str = "local",
    out: str | Path = DEFAULT_OUT,
    store: str | Path | None = None,
    show: bool | None = None,
) -> StudyResult:
    """Run one study: train what the store does not have, measure, judge, write the result.

    Args:
        name: ``family/name``.
        preset: ``"smoke"`` (seconds), ``"cpu"`` (minutes) or ``"paper"`` (the paper's settings).
        seeds: how many, instead of what the preset says.
        jobs: worker processes; by default one for each usable core.
        on: ``"local"``, ``"ray"`` for a Ray of its own, or ``"ray://host:port"``.
        out: folder for the result and its figure.
        store: folder of finished trainings; by default ``LAWSCOPE_STORE`` or the user's cache.
        show: force or forbid the progress bars.

    Returns:
        The result; ``not tried`` where a dataset is absent.

    Raises:
        LawscopeError: something asked for does not exist, or the study failed.
    """
    find(name)
    (result,) = run_many(
        name, preset=preset, seeds=seeds, jobs=jobs, on=on, out=out, store=store, show=show
    )
    if result.status == FAILED:
        raise LawscopeError(f"{name} failed: {result.why}")
    return result


@checked
def run_many(
    target: str = "all",
    *,
    preset: str = "cpu",
    seeds: int | None = None,
    jobs: int | None = None,
    on: str = "local",
    out: str | Path = DEFAULT_OUT,
    store: str | Path | None = None,
    show: bool | None = None,
) -> list[StudyResult]:
    """Run a study, a family or all of them; arguments as in :func:`run`.

    All trainings are planned together, so that workers stay busy. Each study is measured and its
    result written as soon as its trainings are there. A study that fails does not stop the others.

    Returns:
        The results in the order of the catalogue, also of studies that failed or were not tried.
    """
    chosen = choose(target)
    check_preset(preset)
    check_place(on)
    seeds = seeds if seeds is None else whole_number("seeds", seeds, 1, "trains nothing")
    if seeds is not None and target in chosen and not find(target).settings[preset]["seeds"]:
        raise LawscopeError(f"{target} has no seeds to choose; leave out seeds={seeds}.")
    jobs = jobs if jobs is None else whole_number("jobs", jobs, 1, "trains nothing")
    runner = Runner(Store(store), _check_writable(Path(out)), preset, seeds)
    for name in chosen:
        _check_writable(saved.result_file(out, name, preset).parent)
        if target not in chosen:
            # Results go into it: one that is damaged is said now, not after hours of training.
            saved.load_results(saved.summary_file(out, name, preset))
    studies = runner.plan(chosen)
    if studies:
        runner.run(studies, jobs, on, show)
    results = [runner.results[name] for name in chosen]
    if target not in chosen:
        saved.keep(results, out)
    return results


@dataclass(eq=False)
class Runner:
    """Runs studies together; ``results`` by name."""

    store: Store
    out: Path
    preset: str
    seeds: int | None = None
    results: dict[str, StudyResult] = field(default_factory=dict)

    def plan(self, names: list[str]) -> list[PlannedStudy]:
        """Plan studies; one whose plan raises has failed, one without its data is not tried."""
        planned = []
        for name in names:
            settings: dict[str, Any] = {}
            try:
                settings = dict(find(name).settings[self.preset])
                if self.seeds is not None and settings["seeds"]:
                    settings["seeds"] = self.seeds
                needed = with_starts(find(name).plan(settings))
                planned.append(PlannedStudy(name, settings, needed))
            except Exception as error:  # one study's mistake must not stop the others
                why = f"plan: {type(error).__name__}: {error}"
                self.results[name] = saved.without_numbers(name, self.preset, settings, FAILED, why)
        absent = find_absent({t.data for study in planned for t in study.needed.values()})
        studies = []
        for study in planned:
            name, sources = study.name, {t.data.source for t in study.needed.values()}
            if why := " ".join(absent[source] for source in absent if source in sources):
                named = (name, self.preset, study.settings)
                self.results[name] = saved.without_numbers(*named, NOT_TRIED, why)
                continue
            result = saved.result_file(self.out, name, self.preset)
            self.store.note_use(name, self.preset, result, study.needed)
            studies.append(study)
        return studies

    def run(
        self, studies: list[PlannedStudy], jobs: int | None, on: str, show: bool | None
    ) -> None:
        from lawscope.studies.execute import estimate_seconds

        pool, display = Pool(jobs or usable_cores()), Display(show, len(studies))
        trainers: Workers = pool if on == "local" else RayWorkers(on, jobs)

        def finish(study: PlannedStudy, outcome: Measured | Failure) -> None:
            self.finish(study, outcome)
            display.end_study(str(self.results[study.name]))

        try:
            # Ray reports lost workers on standard output, where a caller may print JSON.
            with redirect_stdout(sys.stderr), display.bars:
                display.say(self._expected_time(studies))
                workers = trainers, pool
                Scheduler(self.store, *workers, display, finish, estimate_seconds).run(studies)
        finally:
            pool.close()
            trainers.close()

    def _expected_time(self, studies: list[PlannedStudy]) -> str:
        def minutes_of(study: PlannedStudy) -> float:
            usual: int = find(study.name).settings[self.preset]["seeds"]
            times = study.settings["seeds"] / usual if usual else 1
            return find(study.name).minutes[self.preset] * times

        minutes = sum(map(minutes_of, studies))
        return (
            f"{many(len(studies), 'study')} at {self.preset}: about {time_text(minutes)} on two "
            "cores with an empty store."
        )

    def finish(self, study: PlannedStudy, outcome: Measured | Failure) -> None:
        named = (study.name, self.preset, study.settings)
        if isinstance(outcome, Failure):
            result = saved.without_numbers(*named, FAILED, outcome.why, outcome.trace)
        else:
            seconds = round(self._core_seconds(study) + outcome.seconds, 1)
            result = StudyResult(*named, outcome.numbers, seconds, today())
            result = saved.judge(result)
            if outcome.why and not result.why:
                result = replace(result, why=f"its figure could not be drawn: {outcome.why}")
            saved.save(result, self.out, outcome.picture)
        self.results[study.name] = result

    def _core_seconds(self, study: PlannedStudy) -> float:
        """Add up what its trainings took, also those found in the store; without damaged ones."""
        total = 0.0
        for key in study.needed:
            if (seconds := self.store.record(key).get("seconds")) is not None:
                total += float(seconds)
                continue
            words = f"{self.store.place(key)} is damaged: the core-seconds of {study.name} lack it."
            warnings.warn(words, LawscopeWarning, stacklevel=2)
        return total


def _check_writable(out: Path) -> Path:
    """Make the folder of results, before hours of training and not after."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        writable = os.access(out, os.W_OK | os.X_OK)
    except OSError:
        writable = False
    if not writable:
        raise LawscopeError(f"out={out} cannot be written; choose another folder.")
    return out
