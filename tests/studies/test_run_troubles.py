"""Troubles in the middle of a run: damage, other versions, interrupts. Nothing is lost or held."""

import pytest
from tests.studies.benches import undertaking

from lawscope.errors import LawscopeWarning
from lawscope.studies.campaign import Campaign
from lawscope.studies.crew import Done, Lost
from lawscope.studies.entry import Packed
from lawscope.studies.jobs import Measure, Train
from lawscope.studies.saved import load
from lawscope.studies.undertaking import Failure


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
    study = undertaking("toy/quick")
    start = start_of(study)
    monkeypatch.setattr(bench.store, "write", damaging(bench.store, start.key, 1))
    with pytest.warns(LawscopeWarning, match=f"{start.key}.*trained again"):
        outcome = bench.run(study)["toy/quick"]
    assert outcome.numbers["loss"]
    assert bench.trained.count(start.key) == 2
    assert bench.store.held() == []


def test_a_start_that_is_always_damaged_fails_its_study_and_no_other(bench, monkeypatch):
    study = undertaking("toy/quick")
    start = start_of(study)
    monkeypatch.setattr(bench.store, "write", damaging(bench.store, start.key, 99))
    with pytest.warns(LawscopeWarning, match=start.key):
        outcomes = bench.run(study, undertaking("toy/slow", epochs=1))
    assert f"{start.key}/run.json" in outcomes["toy/quick"].why
    assert outcomes["toy/slow"].numbers["loss"]
    assert bench.store.held() == []


def test_an_entry_that_was_away_only_while_it_was_measured_is_measured_once_more(
    bench, monkeypatch
):
    study = undertaking("toy/quick")
    place = bench.store.place(next(iter(study.needed)))
    events, blinked = bench.crew.events, []

    def blink(timeout):
        if not (bench.crew.queue and isinstance(bench.crew.queue[0][1], Measure)) or blinked:
            return events(timeout)
        blinked.append(place.rename(place.with_name("away")))
        try:
            return events(timeout)
        finally:
            blinked[0].rename(place)

    monkeypatch.setattr(bench.crew, "events", blink)
    assert bench.run(study)["toy/quick"].numbers["loss"]
    assert blinked
    assert len(bench.trained) == len(study.needed)


def test_numbers_are_kept_where_the_time_of_a_training_cannot_be_read(bench, toys):
    study = undertaking("toy/quick")
    key = next(iter(study.needed))
    campaign = Campaign(bench.store, toys / "out", "smoke", None)

    def finish(study, outcome):
        (bench.store.place(key) / "run.json").write_text("{}")
        campaign._finish(study, outcome)

    bench.keep = finish
    with pytest.warns(LawscopeWarning, match=f"{key}.*core-seconds of toy/quick"):
        bench.run(study)
    result = load("toy/quick", toys / "out")
    assert result.numbers["loss"]
    assert result.seconds > 0


def test_a_worker_with_another_version_fails_the_study_with_a_sentence(bench, monkeypatch):
    events = bench.crew.events

    def renamed(packed):
        return Packed({**packed.record, "key": packed.record["key"][::-1]}, packed.weights)

    def of_another_version(timeout):
        return [
            Done(event.ticket, [renamed(packed) for packed in event.value])
            if isinstance(event.value, list)
            else event
            for event in events(timeout)
        ]

    monkeypatch.setattr(bench.crew, "events", of_another_version)
    outcome = bench.run(undertaking("toy/two-words"))["toy/two-words"]
    assert isinstance(outcome, Failure)
    assert "the worker has another version of lawscope" in outcome.why
    assert bench.store.entries() == bench.store.held() == []


def lose(crew, is_lost):
    """``events`` of a crew whose workers die of certain trainings."""
    events = crew.events

    def lossy(timeout):
        lost = {t for t, job in crew.queue if isinstance(job, Train) and is_lost(job.trainings)}
        return [Lost(e.ticket, "killed twice") if e.ticket in lost else e for e in events(timeout)]

    return lossy


def test_a_stack_too_large_for_its_worker_is_trained_one_by_one(bench, monkeypatch):
    study = undertaking("toy/slow", epochs=1)
    monkeypatch.setattr(bench.crew, "events", lose(bench.crew, lambda stack: len(stack) > 1))
    assert len(bench.run(study)["toy/slow"].numbers["loss"]) == 12
    assert set(bench.store.entries()) == study.needed.keys()


def test_of_a_stack_that_is_lost_the_culprit_is_tried_once_more_and_named(bench, monkeypatch):
    study = undertaking("toy/slow", epochs=1)
    fellow, culprit, *_ = study.needed.values()
    monkeypatch.setattr(bench.crew, "events", lose(bench.crew, lambda stack: culprit in stack))
    assert bench.run(study)["toy/slow"].why == f"{culprit.describe()}: killed twice"
    assert bench.trained.count(culprit.key) == 2
    assert bench.store.sound(fellow)


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
@pytest.mark.parametrize("moment", ["submit", "discard_damaged"])
def test_no_claim_is_held_after_what_interrupts_the_beginning_of_a_training(
    bench, monkeypatch, error, moment
):
    def interrupt(*arguments):
        raise error

    monkeypatch.setattr(bench.crew if moment == "submit" else bench.store, moment, interrupt)
    with pytest.raises(error) as kept:  # its traceback keeps what was claimed from being forgotten
        bench.run(undertaking("toy/quick"))
    assert bench.store.held() == []
    assert kept.tb
