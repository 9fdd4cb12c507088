"""The runner: each training once, studies measured when they can be, and nothing lost."""

import json
from dataclasses import replace

import numpy as np
import pytest
from tests.studies.benches import Bench, undertaking

import lawscope as ls
from lawscope.errors import LawscopeError, LawscopeWarning
from lawscope.studies import runner
from lawscope.studies.campaign import run, run_many
from lawscope.studies.crew import Lost
from lawscope.studies.display import Display
from lawscope.studies.execute import cost
from lawscope.studies.jobs import Measure, Train
from lawscope.studies.registry import find
from lawscope.studies.saved import load
from lawscope.studies.store import FullDiskError, Store
from lawscope.studies.undertaking import Failure
from lawscope.zoo.fetch import NetworkError


def test_what_two_studies_share_is_trained_once_and_starts_come_first(bench):
    first, second = undertaking("toy/quick"), undertaking("toy/two-words")
    outcomes = bench.run(first, second)
    assert len(outcomes["toy/quick"].numbers["loss"]) == 3
    assert sorted(bench.trained) == sorted({*first.needed, *second.needed})
    (child,) = [t for t in first.needed.values() if t.start is not None]
    assert bench.trained.index(child.start.key) < bench.trained.index(child.key)


def test_a_second_run_trains_nothing(bench):
    bench.run(undertaking("toy/quick"))
    bench.crew.jobs.clear()
    outcomes = bench.run(undertaking("toy/quick"))
    assert bench.trained == []
    assert len(outcomes["toy/quick"].claims) == 3


def looking_at(study, epochs):
    return replace(study, needed={key: t.keeping(epochs) for key, t in study.needed.items()})


def test_studies_that_look_at_other_epochs_share_their_networks(bench):
    study = undertaking("toy/quick")
    early, late = looking_at(undertaking("toy/two-words"), [0]), looking_at(study, [1])
    bench.run(early, late)
    assert sorted(bench.trained) == sorted({*early.needed, *late.needed})
    assert all(bench.store.sound(t) for t in [*early.needed.values(), *late.needed.values()])


def test_epochs_that_were_not_kept_are_trained_again_and_those_that_were_stay(bench):
    study = undertaking("toy/quick")
    early, late = looking_at(study, [0]), looking_at(study, [1])
    bench.run(early)
    before = len(bench.trained)
    bench.run(late)
    assert len(bench.trained) == before + len([t for t in late.needed.values() if max(t.kept) > 1])
    assert all(bench.store.sound(t) for t in [*early.needed.values(), *late.needed.values()])
    before = len(bench.trained)
    bench.run(early)
    bench.run(study)
    assert len(bench.trained) == before


@pytest.mark.parametrize("file", ["*.safetensors", "run.json"])
def test_damage_is_mended_with_the_epochs_of_all_studies(bench, monkeypatch, file):
    study = undertaking("toy/quick")
    early, late = looking_at(study, [0]), looking_at(undertaking("toy/two-words"), [1])
    events, done = bench.crew.events, []

    def damaging(timeout):
        if len(bench.crew.queue) == 2 and not done and not bench.training:
            done.append(True)
            damage(bench.store, *study.needed, file=file)
        return events(timeout)

    monkeypatch.setattr(bench.crew, "events", damaging)
    with pytest.warns(LawscopeWarning, match="trained again"):
        outcomes = bench.run(early, late)
    assert done
    assert not any(isinstance(outcome, Failure) for outcome in outcomes.values())
    assert len(bench.trained) == len(early.needed | late.needed) + len(study.needed)
    assert all(bench.store.sound(t) for t in [*early.needed.values(), *late.needed.values()])


def test_a_study_that_has_its_epochs_does_not_fail_with_one_that_wants_others(bench, monkeypatch):
    study, more = undertaking("toy/quick"), looking_at(undertaking("toy/two-words"), [0])
    bench.run(study)
    events = bench.crew.events

    def losing(timeout):
        return [Lost(e.ticket, "killed") if bench.was_training(e) else e for e in events(timeout)]

    monkeypatch.setattr(bench.crew, "events", losing)
    outcomes = bench.run(study, more)
    assert "killed" in outcomes["toy/two-words"].why
    assert outcomes["toy/quick"].numbers["loss"]


def test_epochs_of_a_damaged_entry_are_kept_again(bench):
    study = undertaking("toy/quick")
    early = looking_at(study, [0])
    bench.run(early)
    damage(bench.store, *study.needed)
    with pytest.warns(LawscopeWarning, match="trained again"):
        bench.run(study)
    assert all(bench.store.sound(t) for t in early.needed.values())


def test_a_study_is_measured_before_the_trainings_of_others_are_done(bench):
    bench.crew.size = 1
    bench.run(undertaking("toy/quick"), undertaking("toy/slow", epochs=2))
    kinds = [type(job) for job in bench.crew.jobs]
    first = kinds.index(Measure)
    assert Train in kinds[first:]


def test_a_training_that_raises_fails_its_study_and_no_other(bench):
    outcomes = bench.run(undertaking("toy/mistaken"), undertaking("toy/quick"))
    assert isinstance(outcomes["toy/mistaken"], Failure)
    assert "depth 1" in outcomes["toy/mistaken"].why
    assert "Traceback" in outcomes["toy/mistaken"].trace
    assert outcomes["toy/quick"].numbers["loss"]


def test_a_network_that_cannot_be_built_stops_nobody_where_its_cost_is_asked_for(bench):
    outcomes = bench.run(undertaking("toy/mistaken"), undertaking("toy/quick"), cost=cost)
    assert "depth 1" in outcomes["toy/mistaken"].why
    assert outcomes["toy/quick"].numbers["loss"]


def test_of_a_stack_that_raises_only_the_culprit_fails(bench, monkeypatch):
    study = undertaking("toy/quick", rates=[1e-3, 1e-2, 3e-3])
    culprit = next(t for t in study.needed.values() if t.recipe.lr == 1e-2)
    submit = bench.crew.submit

    def sabotage(ticket, job):
        if isinstance(job, Train) and culprit in job.trainings:
            submit(ticket, _raise)
            bench.crew.jobs[-1] = job
        else:
            submit(ticket, job)

    monkeypatch.setattr(bench.crew, "submit", sabotage)
    outcome = bench.run(study)["toy/quick"]
    assert "lr 0.01" in outcome.why
    assert set(bench.store.entries()) == study.needed.keys() - {culprit.key}


def _raise(tell):
    raise ValueError("sabotage")


def test_a_lost_start_fails_what_begins_from_it(bench, monkeypatch):
    study = undertaking("toy/quick")
    start = next(t.start for t in study.needed.values() if t.start is not None)
    events = bench.crew.events

    def lose(timeout):
        lost = {
            ticket for ticket, job in bench.crew.queue
            if isinstance(job, Train) and start in job.trainings
        }  # fmt: skip
        found = events(timeout)
        return [Lost(e.ticket, "killed twice") if e.ticket in lost else e for e in found]

    monkeypatch.setattr(bench.crew, "events", lose)
    outcome = bench.run(study)["toy/quick"]
    assert "killed twice" in outcome.why


def damage(store, *keys, file="*.safetensors"):
    for key in keys:
        (path,) = store.place(key).glob(file)
        path.write_bytes(b"rubbish")


def test_a_damaged_entry_is_reported_and_trained_again(bench):
    study = undertaking("toy/quick")
    bench.run(study)
    key = next(iter(study.needed))
    before = bench.store.run(study.needed[key]).loss
    damage(bench.store, key)
    bench.crew.jobs.clear()
    with pytest.warns(LawscopeWarning, match=key):
        bench.run(undertaking("toy/quick"))
    assert bench.trained == [key]
    assert bench.store.run(study.needed[key]).loss == before


def test_damage_between_training_and_measuring_is_mended(bench, monkeypatch):
    study = undertaking("toy/quick")
    key = next(iter(study.needed))
    submit, damaged = bench.crew.submit, []

    def damage(ticket, job):
        if isinstance(job, Measure) and not damaged:
            damaged.append(key)
            (bench.store.place(key) / "run.json").write_text("{}")
        submit(ticket, job)

    monkeypatch.setattr(bench.crew, "submit", damage)
    with pytest.warns(LawscopeWarning, match=key):
        outcome = bench.run(study)["toy/quick"]
    assert outcome.numbers["loss"]
    assert bench.trained.count(key) == 2


def test_what_another_process_trains_is_waited_for_and_not_trained(bench, monkeypatch):
    monkeypatch.setattr(runner, "POLL_SECONDS", 0.01)
    study = undertaking("toy/quick")
    other = Bench(Store(bench.store.folder), type(bench.crew)())
    key = next(iter(study.needed))
    claim = other.store.claim(key)
    waits = []

    class Watch(Display):
        def waiting(self, networks):
            waits.append(networks)
            if networks and len(waits) > 3 and claim._lock.is_locked:
                (packed,) = Train((study.needed[key],))(lambda news: None)
                other.store.write(packed)
                claim.release()

    bench.run(study, display=Watch(show=False))
    assert max(waits) == 1
    assert waits[-1] == 0
    assert key not in bench.trained
    assert bench.outcomes["toy/quick"].numbers["loss"]


def test_a_full_disk_ends_the_run_with_all_claims_free(bench, monkeypatch):
    study = undertaking("toy/quick")

    def no_room(packed):
        raise FullDiskError("The disk is full.")

    monkeypatch.setattr(bench.store, "write", no_room)
    with pytest.raises(FullDiskError):
        bench.run(study)
    assert bench.store.held() == []


# With real processes.


def test_run_from_python_with_two_processes(toys):
    result = ls.studies.run("toy/quick", preset="smoke", jobs=2, out=toys / "out")
    assert result.verdicts == {
        "the loss is positive": "shown",
        "the loss is negative": "not shown",
        "unicorns exist": "not tried",
    }
    assert (toys / "out/toy/quick.smoke.json").exists()
    assert (toys / "out/toy/quick.smoke.png").read_bytes().startswith(b"\x89PNG")
    assert result.seconds > 0
    assert len(result.numbers["D"]) == 3
    assert len(Store.default().entries()) == 3


def test_train_mode_is_another_measurement_of_the_same_networks(toys):
    options = {"preset": "smoke", "jobs": 1, "out": toys / "out"}
    usual = run("toy/quick", **options)
    result = run("toy/quick", mode="train", **options)
    assert result.numbers["loss"] == usual.numbers["loss"]
    assert result.numbers["D"][0] == pytest.approx(usual.numbers["D"][0], rel=1e-12)  # the input
    assert result.numbers["D"][1] != pytest.approx(usual.numbers["D"][1], rel=1e-6)
    assert load("toy/quick", toys / "out", mode="eval").numbers["D"] == usual.numbers["D"]
    assert load("toy/quick", toys / "out", mode="train").numbers["D"] == result.numbers["D"]
    with pytest.raises(LawscopeError, match="--mode test is not known; choose eval or train"):
        run("toy/quick", mode="test", **options)


def test_seeds_are_what_was_asked_for(toys):
    result = run("toy/quick", preset="smoke", seeds=np.int64(3), jobs=1, out=toys / "out")
    assert result.settings["seeds"] == 3
    assert len(result.numbers["loss"]) == 2 * 3 + 1


def test_an_absent_dataset_is_not_tried_and_one_that_fails_stops_nobody(toys, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(toys / "cache"))
    monkeypatch.delenv("LAWSCOPE_DATA", raising=False)

    def offline(*arguments):
        raise NetworkError("its address is silent")

    monkeypatch.setattr("lawscope.zoo.mnist.fetch", offline)
    chosen = ["toy/broken", "toy/far-away", "toy/quick"]
    monkeypatch.setattr("lawscope.studies.campaign.choose", lambda target: chosen)
    broken, far, quick = run_many("toy", preset="smoke", jobs=1, out=toys / "out")
    assert broken.status == "failed"
    assert broken.why == "ZeroDivisionError: nothing to divide by"
    assert far.status == "not tried"
    assert "put its four idx files" in far.why
    assert set(far.verdicts.values()) == {"not tried"}
    assert quick.status == "done"
    summary = json.loads((toys / "out/toy.smoke.json").read_text())
    assert [study["status"] for study in summary["studies"]] == ["failed", "not tried", "done"]
    assert not (toys / "out/toy/far-away.smoke.json").exists()


def test_a_study_without_the_preset_fails_and_stops_nobody(toys, monkeypatch):
    lacking = replace(find("toy/quick"), settings={"cpu": {}})
    monkeypatch.setattr("toy_studies.toy.broken.STUDY", lacking)
    chosen = ["toy/broken", "toy/quick"]
    monkeypatch.setattr("lawscope.studies.campaign.choose", lambda target: chosen)
    broken, quick = run_many("toy", preset="smoke", jobs=1, out=toys / "out")
    assert broken.status == "failed"
    assert broken.why == "plan: KeyError: 'smoke'"
    assert quick.status == "done"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"preset": "fast"}, "no preset 'fast'"),
        ({"seeds": 0}, "--seeds must be at least 1, got 0"),
        ({"jobs": 0}, "--jobs must be at least 1, got 0"),
        ({"seeds": "3"}, "--seeds must be a whole number, got '3'"),
        ({"seeds": 2.5}, "--seeds must be a whole number, got 2.5"),
        ({"jobs": 1.5}, "--jobs must be a whole number, got 1.5"),
        ({"preset": None}, "no preset None; choose smoke, cpu, paper"),
        ({"on": "mars"}, "--on 'mars' is not known"),
        ({"on": None}, "--on None is not known"),
        ({"out": "/proc/results"}, "--out /proc/results cannot be written"),
    ],
)
def test_bad_settings_are_sentences(toys, options, sentence):
    with pytest.raises(LawscopeError, match=sentence):
        run("toy/quick", **{"preset": "smoke", "out": toys / "out", **options})


def test_an_unknown_study_is_a_sentence(toys):
    with pytest.raises(LawscopeError, match="did you mean toy/quick"):
        run("toy/quik")
