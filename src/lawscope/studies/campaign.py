"""Running studies: from a name to results on disk."""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lawscope.errors import LawscopeError
from lawscope.studies.crew import Crew
from lawscope.studies.display import Display
from lawscope.studies.entry import today
from lawscope.studies.jobs import Measured
from lawscope.studies.on_ray import RayCrew, check_place
from lawscope.studies.plan import Training
from lawscope.studies.pool import Pool, usable_cores
from lawscope.studies.presence import absent
from lawscope.studies.registry import check_mode, check_preset, choose, find
from lawscope.studies.result import FAILED, StudyResult, without_numbers
from lawscope.studies.runner import Runner
from lawscope.studies.saved import DEFAULT_OUT, label, result_file, save, save_family
from lawscope.studies.stacks import with_starts
from lawscope.studies.store import Store
from lawscope.studies.study import NOT_TRIED
from lawscope.studies.undertaking import Failure, Undertaking, core_seconds
from lawscope.studies.uses import note_use


def run(
    name: str,
    *,
    preset: str = "cpu",
    seeds: int | None = None,
    jobs: int | None = None,
    on: str = "local",
    out: str | Path = DEFAULT_OUT,
    store: str | Path | None = None,
    mode: str = "eval",
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
        mode: in which networks are measured; "train" in batches of 100, as the authors of 003 did.
        show: force or forbid the progress bars.

    Returns:
        The result; ``not tried`` where a dataset is absent.

    Raises:
        LawscopeError: something asked for does not exist, or the study failed.
    """
    find(name)
    options = {"preset": preset, "seeds": seeds, "jobs": jobs, "on": on, "mode": mode}
    (result,) = run_many(name, out=out, store=store, show=show, **options)  # type: ignore[arg-type]
    if result.status == FAILED:
        raise LawscopeError(f"{name} failed: {result.why}")
    return result


def run_many(
    target: str = "all",
    *,
    preset: str = "cpu",
    seeds: int | None = None,
    jobs: int | None = None,
    on: str = "local",
    out: str | Path = DEFAULT_OUT,
    store: str | Path | None = None,
    mode: str = "eval",
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
    seeds, jobs = _count("seeds", seeds), _count("jobs", jobs)
    check_mode(mode)
    campaign = Campaign(Store.default(store), _writable(Path(out)), preset, seeds, mode)
    undertakings = campaign.undertake(chosen)
    if undertakings:
        campaign.carry_out(undertakings, jobs, on, show)
    results = [campaign.results[name] for name in chosen]
    if target not in chosen:
        for family in dict.fromkeys(name.partition("/")[0] for name in chosen):
            save_family([r for r in results if r.name.startswith(f"{family}/")], Path(out))
    return results


@dataclass
class Campaign:
    """Studies that are run together."""

    store: Store
    out: Path
    preset: str
    seeds: int | None
    mode: str = "eval"
    results: dict[str, StudyResult] = field(default_factory=dict)

    def undertake(self, names: list[str]) -> list[Undertaking]:
        """What is to be done for each study; those that cannot be tried have a result already."""
        planned = {name: self._planned(name) for name in names}
        missing = absent(
            {training.data.name for needed in planned.values() for training in needed.values()}
        )
        undertakings = []
        for name, needed in planned.items():
            if name in self.results:
                continue
            settings = self._settings(name)
            datasets = {training.data.name for training in needed.values()}
            if why := " ".join(missing[dataset] for dataset in missing if dataset in datasets):
                self._without(name, settings, NOT_TRIED, why)
                continue
            note_use(self.store, name, self.preset, self._file(name), needed)
            undertakings.append(Undertaking(name, settings, needed))
        return undertakings

    def _planned(self, name: str) -> dict[str, Training]:
        """The trainings a study needs, by key; one whose plan raises has failed."""
        settings: dict[str, Any] = {}
        try:
            settings = self._settings(name)
            return with_starts(find(name).plan(settings))
        except Exception as error:  # one study's mistake must not stop the others
            self._without(name, settings, FAILED, f"plan: {type(error).__name__}: {error}")
            return {}

    def carry_out(
        self, undertakings: list[Undertaking], jobs: int | None, on: str, show: bool | None
    ) -> None:
        """Train and measure, here or on Ray."""
        from lawscope.studies.execute import cost

        pool = Pool(jobs or usable_cores())
        trainers: Crew = pool if on == "local" else RayCrew(on, jobs)
        try:
            # Ray tells of lost workers on standard output, where a caller may print JSON.
            with redirect_stdout(sys.stderr), Display(show) as display:
                Runner(self.store, trainers, pool, display, self._finish, cost).run(undertakings)
        finally:
            pool.close()
            trainers.close()

    def _finish(self, study: Undertaking, outcome: Measured | Failure) -> None:
        if isinstance(outcome, Failure):
            self._without(study.name, study.settings, FAILED, outcome.why, outcome.trace)
            return
        result = StudyResult(
            study.name,
            self.preset,
            study.settings,
            outcome.numbers,
            outcome.claims,
            core_seconds(self.store, study) + outcome.seconds,
            today(),
            why=f"its figure could not be drawn: {outcome.why}" if outcome.why else "",
        )
        save(result, self.out, outcome.picture)
        self.results[study.name] = result

    def _without(
        self, name: str, settings: Mapping[str, Any], status: str, why: str, trace: str = ""
    ) -> None:
        self.results[name] = without_numbers(
            find(name), name=name, preset=self.preset, settings=settings, status=status, why=why,
            date=today(), trace=trace,
        )  # fmt: skip

    def _settings(self, name: str) -> dict[str, Any]:
        own = {} if self.seeds is None else {"seeds": self.seeds}
        return {**find(name).settings[self.preset], **own, "mode": self.mode}

    def _file(self, name: str) -> Path:
        return result_file(self.out, name, label(self.preset, self.mode))


def _count(option: str, asked: int | None) -> int | None:
    """How many were asked for: a whole number, or None for as many as usual."""
    if asked is None:
        return None
    try:
        number = operator.index(asked)
    except TypeError as error:
        raise LawscopeError(f"--{option} must be a whole number, got {asked!r}.") from error
    if number < 1:
        raise LawscopeError(f"--{option} must be at least 1, got {number}.")
    return number


def _writable(out: Path) -> Path:
    """The folder of results; found out before hours of training, not after."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        writable = os.access(out, os.W_OK | os.X_OK)
    except OSError:
        writable = False
    if not writable:
        raise LawscopeError(f"--out {out} cannot be written; choose another folder.")
    return out
