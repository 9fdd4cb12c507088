"""The scheduler: each training once, studies measured when they can be, nothing lost or held."""

from dataclasses import replace

import pytest
from tests.studies.benches import Bench, planned

from lawscope.errors import LawscopeWarning
from lawscope.studies import scheduler
from lawscope.studies.display import Display
from lawscope.studies.entry import Packed
from lawscope.studies.execute import estimate_seconds
from lawscope.studies.pool import Done, Failed
from lawscope.studies.result import load
from lawscope.studies.runner import Runner
from lawscope.studies.scheduler import Failure, Measure, Train
from lawscope.studies.store import FullDiskError, Store


def test_what_two_studies_share_is_trained_once_and_starts_come_first(bench):
    first, second = planned("toy/quick"), planned("toy/two-words")
    outcomes = bench.run(first, second)
    assert len(outcomes["toy/quick"].numbers["network"]["loss"]) == 3
    assert sorted(bench.trained) == sorted({*first.needed, *second.needed})
    (child,) = [t for t in first.needed.values() if t.start is not None]
    assert bench.trained.index(child.start.key) < bench.trained.index(child.key)


def test_a_second_run_trains_nothing(bench):
    bench.run(planned("toy/quick"))
    bench.workers.jobs.clear()
    outcomes = bench.run(planned("toy/quick"))
    assert bench.trained == []
    assert outcomes["toy/quick"].picture.startswith(b"\x89PNG")


def looking_at(study, epochs):
    return replace(study, needed={key: t.keeping(epochs) for key, t in study.needed.items()})


def test_studies_that_look_at_other_epochs_share_their_networks(bench):
    study = planned("toy/quick")
    early, late = looking_at(planned("toy/two-words"), [0]), looking_at(study, [1])
    bench.run(early, late)
    assert sorted(bench.trained) == sorted({*early.needed, *late.needed})
    assert all(bench.store.has(t) for t in [*early.needed.values(), *late.needed.values()])


def test_epochs_that_were_not_kept_are_trained_again_and_those_that_were_stay(bench):
    study = planned("toy/quick")
    early, late = looking_at(study, [0]), looking_at(study, [1])
    bench.run(early)
    before = len(bench.trained)
    bench.run(late)
    assert len(bench.trained) == before + len([t for t in late.needed.values() if max(t.kept) > 1])
    assert all(bench.store.has(t) for t in [*early.needed.values(), *late.needed.values()])
    before = len(bench.trained)
    bench.run(early)
    bench.run(study)
    assert len(bench.trained) == before


@pytest.mark.parametrize("file", ["*.safetensors", "run.json"])
def test_damage_is_mended_with_the_epochs_of_all_studies(bench, monkeypatch, file):
    study = planned("toy/quick")
    early, late = looking_at(study, [0]), looking_at(planned("toy/two-words"), [1])
    events, done = bench.workers.events, []

    def damaging(timeout):
        if len(bench.workers.queue) == 2 and not done and not bench.training:
            done.append(True)
            damage(bench.store, *study.needed, file=file)
        return events(timeout)

    monkeypatch.setattr(bench.workers, "events", damaging)
    with pytest.warns(LawscopeWarning, match="trained again"):
        outcomes = bench.run(early, late)
    assert done
    assert not any(isinstance(outcome, Failure) for outcome in outcomes.values())
    assert len(bench.trained) == len(early.needed | late.needed) + len(study.needed)
    assert all(bench.store.has(t) for t in [*early.needed.values(), *late.needed.values()])


def test_a_study_that_has_its_epochs_does_not_fail_with_one_that_wants_others(bench, monkeypatch):
    study, more = planned("toy/quick"), looking_at(planned("toy/two-words"), [0])
    bench.run(study)
    events = bench.workers.events

    def losing(timeout):
        return [Failed(e.job_id, "killed") if bench.was_training(e) else e for e in events(timeout)]

    monkeypatch.setattr(bench.workers, "events", losing)
    outcomes = bench.run(study, more)
    assert "killed" in outcomes["toy/two-words"].why
    assert outcomes["toy/quick"].numbers["network"]["loss"]


def test_epochs_of_a_damaged_entry_are_kept_again(bench):
    study = planned("toy/quick")
    early = looking_at(study, [0])
    bench.run(early)
    damage(bench.store, *study.needed)
    with pytest.warns(LawscopeWarning, match="trained again"):
        bench.run(study)
    assert all(bench.store.has(t) for t in early.needed.values())


def test_a_study_is_measured_before_the_trainings_of_others_are_done(bench):
    bench.workers.size = 1
    bench.run(planned("toy/quick"), planned("toy/slow", epochs=2))
    kinds = [type(job) for job in bench.workers.jobs]
    first = kinds.index(Measure)
    assert Train in kinds[first:]


def test_a_training_that_raises_fails_its_study_and_no_other(bench):
    outcomes = bench.run(planned("toy/mistaken"), planned("toy/quick"))
    assert isinstance(outcomes["toy/mistaken"], Failure)
    assert "depth 1" in outcomes["toy/mistaken"].why
    assert "Traceback" in outcomes["toy/mistaken"].trace
    assert outcomes["toy/quick"].numbers["network"]["loss"]


def test_a_network_that_cannot_be_built_stops_nobody_where_its_cost_is_asked_for(bench):
    outcomes = bench.run(planned("toy/mistaken"), planned("toy/quick"), cost=estimate_seconds)
    assert "depth 1" in outcomes["toy/mistaken"].why
    assert outcomes["toy/quick"].numbers["network"]["loss"]


def test_of_a_stack_that_raises_only_the_culprit_fails(bench, monkeypatch):
    study = planned("toy/quick", rates=[1e-3, 1e-2, 3e-3])
    culprit = next(t for t in study.needed.values() if t.recipe.lr == 1e-2)
    submit = bench.workers.submit

    def sabotage(job_id, job):
        if isinstance(job, Train) and culprit in job.trainings:
            submit(job_id, _raise)
            bench.workers.jobs[-1] = job
        else:
            submit(job_id, job)

    monkeypatch.setattr(bench.workers, "submit", sabotage)
    outcome = bench.run(study)["toy/quick"]
    assert "lr 0.01" in outcome.why
    assert set(bench.store.entries()) == study.needed.keys() - {culprit.key}


def _raise(tell):
    raise ValueError("sabotage")


def test_a_lost_start_fails_what_begins_from_it(bench, monkeypatch):
    study = planned("toy/quick")
    start = next(t.start for t in study.needed.values() if t.start is not None)
    events = bench.workers.events

    def lose(timeout):
        lost = {
            job_id for job_id, job in bench.workers.queue
            if isinstance(job, Train) and start in job.trainings
        }  # fmt: skip
        found = events(timeout)
        return [Failed(e.job_id, "killed twice") if e.job_id in lost else e for e in found]

    monkeypatch.setattr(bench.workers, "events", lose)
    outcome = bench.run(study)["toy/quick"]
    assert "killed twice" in outcome.why


def damage(store, *keys, file="*.safetensors"):
    for key in keys:
        (path,) = store.place(key).glob(file)
        path.write_bytes(b"rubbish")


def test_a_damaged_entry_is_reported_and_trained_again(bench):
    study = planned("toy/quick")
    bench.run(study)
    key = next(iter(study.needed))
    before = bench.store.run(study.needed[key]).loss
    damage(bench.store, key)
    bench.workers.jobs.clear()
    with pytest.warns(LawscopeWarning, match=key):
        bench.run(planned("toy/quick"))
    assert bench.trained == [key]
    assert bench.store.run(study.needed[key]).loss == before


def test_damage_between_training_and_measuring_is_mended(bench, monkeypatch):
    study = planned("toy/quick")
    key = next(iter(study.needed))
    submit, damaged = bench.workers.submit, []

    def damage(job_id, job):
        if isinstance(job, Measure) and not damaged:
            damaged.append(key)
            (bench.store.place(key) / "run.json").write_text("{}")
        submit(job_id, job)

    monkeypatch.setattr(bench.workers, "submit", damage)
    with pytest.warns(LawscopeWarning, match=key):
        outcome = bench.run(study)["toy/quick"]
    assert outcome.numbers["network"]["loss"]
    assert bench.trained.count(key) == 2


def test_what_another_process_trains_is_waited_for_and_not_trained(bench, monkeypatch):
    monkeypatch.setattr(scheduler, "POLL_SECONDS", 0.01)
    study = planned("toy/quick")
    other = Bench(Store(bench.store.folder), type(bench.workers)())
    key = next(iter(study.needed))
    lock = other.store.lock(key)
    waits = []

    class Watch(Display):
        def waiting(self, networks):
            waits.append(networks)
            if networks and len(waits) > 3 and lock.is_locked:
                (packed,) = Train((study.needed[key],))(lambda news: None)
                other.store.write(packed)
                lock.release()

    bench.run(study, display=Watch(show=False))
    assert max(waits) == 1
    assert waits[-1] == 0
    assert key not in bench.trained
    assert bench.outcomes["toy/quick"].numbers["network"]["loss"]


def test_a_full_disk_ends_the_run_with_all_locks_free(bench, monkeypatch):
    study = planned("toy/quick")

    def no_room(packed):
        raise FullDiskError("The disk is full.")

    monkeypatch.setattr(bench.store, "write", no_room)
    with pytest.raises(FullDiskError):
        bench.run(study)
    assert bench.store.locked() == []


# Troubles in the middle of a run.


def start_of(study):
    return next(t.start for t in study.needed.values() if t.start is not None)


def damaging(store, key, times):
    """A ``write`` of the store after which the entry ``key`` is damaged, the first few times."""
    write, done = store.write, []

    def damaged(packed):
        write(packed)
        if packed.record["key"] == key and len(done) < times:
            done.append(key)
            (store.place(key) / "run.json").write_text("{}")

    return damaged


def test_a_start_damaged_after_the_plan_is_trained_again(bench, monkeypatch):
    study = planned("toy/quick")
    start = start_of(study)
    monkeypatch.setattr(bench.store, "write", damaging(bench.store, start.key, 1))
    with pytest.warns(LawscopeWarning, match=f"{start.key}.*trained again"):
        outcome = bench.run(study)["toy/quick"]
    assert outcome.numbers["network"]["loss"]
    assert bench.trained.count(start.key) == 2
    assert bench.store.locked() == []


def test_a_start_that_is_always_damaged_fails_its_study_and_no_other(bench, monkeypatch):
    study = planned("toy/quick")
    start = start_of(study)
    monkeypatch.setattr(bench.store, "write", damaging(bench.store, start.key, 99))
    with pytest.warns(LawscopeWarning, match=start.key):
        outcomes = bench.run(study, planned("toy/slow", epochs=1))
    assert f"{start.key}/run.json" in outcomes["toy/quick"].why
    assert outcomes["toy/slow"].numbers["network"]["loss"]
    assert bench.store.locked() == []


def test_an_entry_that_was_away_only_while_it_was_measured_is_measured_once_more(
    bench, monkeypatch
):
    study = planned("toy/quick")
    place = bench.store.place(next(iter(study.needed)))
    events, blinked = bench.workers.events, []

    def blink(timeout):
        if not (bench.workers.queue and isinstance(bench.workers.queue[0][1], Measure)) or blinked:
            return events(timeout)
        blinked.append(place.rename(place.with_name("away")))
        try:
            return events(timeout)
        finally:
            blinked[0].rename(place)

    monkeypatch.setattr(bench.workers, "events", blink)
    assert bench.run(study)["toy/quick"].numbers["network"]["loss"]
    assert blinked
    assert len(bench.trained) == len(study.needed)


def test_numbers_are_kept_where_the_time_of_a_training_cannot_be_read(bench, toys):
    study = planned("toy/quick")
    key = next(iter(study.needed))
    runner = Runner(bench.store, toys / "out", "smoke")

    def finish(study, outcome):
        (bench.store.place(key) / "run.json").write_text("{}")
        runner.finish(study, outcome)

    bench.keep = finish
    with pytest.warns(LawscopeWarning, match=f"{key}.*core-seconds of toy/quick"):
        bench.run(study)
    result = load("toy/quick", toys / "out")
    assert result.numbers["network"]["loss"]
    assert result.seconds > 0


def test_a_worker_with_another_version_fails_the_study_with_a_sentence(bench, monkeypatch):
    events = bench.workers.events

    def renamed(packed):
        return Packed({**packed.record, "key": packed.record["key"][::-1]}, packed.weights)

    def of_another_version(timeout):
        return [
            Done(event.job_id, [renamed(packed) for packed in event.value])
            if isinstance(event.value, list)
            else event
            for event in events(timeout)
        ]

    monkeypatch.setattr(bench.workers, "events", of_another_version)
    outcome = bench.run(planned("toy/two-words"))["toy/two-words"]
    assert isinstance(outcome, Failure)
    assert "the worker has another version of lawscope" in outcome.why
    assert bench.store.entries() == bench.store.locked() == []


def lose(workers, is_lost):
    """``events`` of a worker pool whose workers die of certain trainings."""
    events = workers.events

    def lossy(timeout):
        lost = {t for t, job in workers.queue if isinstance(job, Train) and is_lost(job.trainings)}
        return [
            Failed(e.job_id, "killed twice") if e.job_id in lost else e for e in events(timeout)
        ]

    return lossy


def test_a_stack_too_large_for_its_worker_is_trained_one_by_one(bench, monkeypatch):
    study = planned("toy/slow", epochs=1)
    monkeypatch.setattr(bench.workers, "events", lose(bench.workers, lambda stack: len(stack) > 1))
    assert len(bench.run(study)["toy/slow"].numbers["network"]["loss"]) == 12
    assert set(bench.store.entries()) == study.needed.keys()


def test_of_a_stack_that_is_lost_the_culprit_is_tried_once_more_and_named(bench, monkeypatch):
    study = planned("toy/slow", epochs=1)
    fellow, culprit, *_ = study.needed.values()
    monkeypatch.setattr(
        bench.workers, "events", lose(bench.workers, lambda stack: culprit in stack)
    )
    assert bench.run(study)["toy/slow"].why == f"{culprit.describe()}: killed twice"
    assert bench.trained.count(culprit.key) == 2
    assert bench.store.has(fellow)


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
@pytest.mark.parametrize("moment", ["submit", "remove_damaged"])
def test_no_lock_is_held_after_what_interrupts_the_beginning_of_a_training(
    bench, monkeypatch, error, moment
):
    def interrupt(*arguments):
        raise error

    monkeypatch.setattr(bench.workers if moment == "submit" else bench.store, moment, interrupt)
    with pytest.raises(error) as kept:  # its traceback keeps what was locked from being forgotten
        bench.run(planned("toy/quick"))
    assert bench.store.locked() == []
    assert kept.tb
