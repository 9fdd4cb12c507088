"""The runner: each training once, studies measured when they can be, and nothing lost."""

import json
import os
import re
import signal
import time
from pathlib import Path

import pytest

import lawscope as ls
from lawscope.errors import LawscopeError, LawscopeWarning
from lawscope.studies import registry, runner
from lawscope.studies.campaign import run, run_many
from lawscope.studies.crew import Done, Lost, Raised, Retried
from lawscope.studies.display import Display
from lawscope.studies.jobs import Measure, Train
from lawscope.studies.pool import Pool
from lawscope.studies.runner import Failure, Runner, Undertaking
from lawscope.studies.saved import load
from lawscope.studies.stacks import with_starts
from lawscope.studies.store import FullDiskError, Store
from lawscope.zoo.fetch import NetworkError


def undertaking(name, **changed):
    study = registry.find(name)
    settings = {**study.settings["smoke"], **changed}
    return Undertaking(name, settings, with_starts(study.plan(settings)))


class Bench:
    """A runner whose crew works in this process; ``outcomes`` by study."""

    def __init__(self, store, crew):
        self.store, self.crew, self.outcomes = store, crew, {}

    def run(self, *undertakings):
        engine = Runner(
            self.store, self.crew, self.crew, Display(show=False), self.keep, lambda training: 1.0
        )
        engine.run(undertakings)
        return self.outcomes

    def keep(self, study, outcome):
        self.outcomes[study.name] = outcome

    @property
    def trained(self):
        return [t.key for job in self.crew.jobs if isinstance(job, Train) for t in job.trainings]


@pytest.fixture
def bench(toys, inline):
    return Bench(Store(toys / "store"), inline)


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


def test_a_damaged_entry_is_reported_and_trained_again(bench):
    study = undertaking("toy/quick")
    bench.run(study)
    key = next(iter(study.needed))
    before = bench.store.run(study.needed[key]).loss
    (bench.store.place(key) / "weights.safetensors").write_bytes(b"rubbish")
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

    engine = Runner(
        bench.store, bench.crew, bench.crew, Watch(show=False), bench.keep, lambda training: 1.0
    )
    engine.run([study])
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


class Suicide:
    """Ends its process, for good or only the first time."""

    def __init__(self, mark, always):
        self.mark, self.always = mark, always

    def __call__(self, tell):
        if self.always or not self.mark.exists():
            self.mark.write_text("dead")
            os.kill(os.getpid(), signal.SIGKILL)
        return os.environ["OMP_NUM_THREADS"]


def until_over(pool):
    events = []
    while not (events and isinstance(events[-1], (Done, Raised, Lost))):
        events += pool.events(1.0)
    return events


def test_a_job_whose_process_dies_is_begun_once_more(tmp_path):
    pool = Pool(1)
    try:
        pool.submit(7, Suicide(tmp_path / "mark", always=False))
        assert until_over(pool) == [Retried(7), Done(7, "1")]
        pool.submit(8, Suicide(tmp_path / "mark", always=True))
        again, lost = until_over(pool)
        assert again == Retried(8)
        assert lost.ticket == 8
        assert "out of memory?" in lost.why
        assert pool.free == 1
    finally:
        pool.close()


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
    result = run("toy/quick", preset="smoke", seeds=3, jobs=1, out=toys / "out")
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
    summary = json.loads((toys / "out/toy.json").read_text())
    assert [study["status"] for study in summary["studies"]] == ["failed", "not tried", "done"]
    assert not (toys / "out/toy/far-away.smoke.json").exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"preset": "fast"}, "no preset 'fast'"),
        ({"seeds": 0}, "--seeds must be at least 1, got 0"),
        ({"jobs": 0}, "--jobs must be at least 1, got 0"),
        ({"on": "mars"}, "--on 'mars' is not known"),
        ({"out": "/proc/results"}, "--out /proc/results cannot be written"),
    ],
)
def test_bad_settings_are_sentences(toys, options, sentence):
    with pytest.raises(LawscopeError, match=sentence):
        run("toy/quick", **{"preset": "smoke", "out": toys / "out", **options})


def test_an_unknown_study_is_a_sentence(toys):
    with pytest.raises(LawscopeError, match="did you mean toy/quick"):
        run("toy/quik")


def stored(toys):
    return {path.name for path in (toys / "store/entries").glob("*")}


def wait_for(condition, seconds=90):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.05)


def workers_of(process):
    """Processes begun by this one that are still there, by /proc."""
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            parent = re.search(r"PPid:\s+(\d+)", status.read_text())
        except OSError:
            continue
        if parent and int(parent[1]) == process.pid:
            found.append(int(status.parent.name))
    return found


def alive(pid):
    try:
        return "zombie" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_killed_at_any_moment_it_goes_on_where_it_was(command, toys):
    arguments = ("run", "toy/slow", "--preset", "cpu", "--out", toys / "out", "--jobs", 2)
    killed = command(*arguments)
    wait_for(lambda: len(stored(toys)) >= 2)
    workers = workers_of(killed)
    assert len(workers) >= 2
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    before = stored(toys)
    written = {
        key: (toys / "store/entries" / key / "run.json").stat().st_mtime_ns for key in before
    }
    assert 2 <= len(before) < 12
    wait_for(lambda: not any(alive(pid) for pid in workers), seconds=10)
    again = command(*arguments)
    _, err = again.communicate(timeout=120)
    assert again.returncode == 0, err
    assert len(stored(toys)) == 12
    for key, moment in written.items():
        assert (toys / "store/entries" / key / "run.json").stat().st_mtime_ns == moment
    assert (toys / "out/toy/slow.cpu.json").exists()


def test_two_processes_do_the_work_once(command, toys):
    results = []
    for name in ("a", "b"):
        arguments = ("--preset", "smoke", "--out", toys / name, "--jobs", 1, "--json")
        results.append(command("run", "toy/slow", *arguments))
    documents = []
    for process in results:
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert err == ""
        documents.append(json.loads(out))
    assert documents[0]["numbers"] == documents[1]["numbers"]
    # An entry is renamed into place, which fails where there is one: none was trained twice.
    assert len(stored(toys)) == 12
    assert list((toys / "store/unfinished").iterdir()) == []


def test_ctrl_c_ends_within_seconds_and_says_how_to_go_on(command, toys):
    stopped = command("run", "long/endless", "--out", toys / "out", "--jobs", 2)
    wait_for(lambda: len(stored(toys)) >= 1)
    workers = workers_of(stopped)
    begun = time.monotonic()
    for pid in [stopped.pid, *workers]:  # as a terminal does, to all of them
        os.kill(pid, signal.SIGINT)
    _, err = stopped.communicate(timeout=30)
    assert time.monotonic() - begun < 6
    assert stopped.returncode == 130
    assert "Traceback" not in err
    assert "go on with: lawscope study run long/endless --out" in err
    wait_for(lambda: not any(alive(pid) for pid in workers), seconds=10)
