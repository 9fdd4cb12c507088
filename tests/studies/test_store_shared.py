"""The store while others use it: full disks, two at once, folders that may not be read."""

import errno
import json
import shutil
import tempfile
from pathlib import Path

import pytest
import torch

from lawscope.errors import LawscopeError, LawscopeWarning
from lawscope.studies import entry
from lawscope.studies import store as store_module
from lawscope.studies.entry import Run
from lawscope.studies.plan import Network, Training
from lawscope.studies.store import FullDiskError, Removed, Store

TRAINING = Training(Network.of("feedforward", depth=3))


def packed(value=0.0, kept=(600,)):
    weights = {epoch: {"w": torch.full((2,), value)} for epoch in kept}
    return entry.pack(Run(TRAINING, weights, 0.0, 1.0, 1.0, 0.5))


@pytest.fixture
def store(tmp_path):
    """A store that has one training, which no result needs."""
    store = Store(tmp_path / "store")
    store.write(packed())
    return store


def failing(code, words):
    def fail(*arguments, **options):
        raise OSError(code, words)

    return fail


NO_ROOM = failing(errno.ENOSPC, "No space left on device")
DENIED = failing(errno.EACCES, "Permission denied")


def test_gc_frees_room_on_a_full_disk(store, monkeypatch):
    monkeypatch.setattr(tempfile, "mkdtemp", NO_ROOM)
    size = store.size(TRAINING.key)
    assert store.collect_garbage() == Removed(1, 0, size)
    assert store.entries() == []


def test_a_damaged_entry_goes_on_a_full_disk_too(store, monkeypatch):
    (store.place(TRAINING.key) / "run.json").write_text("{}")
    monkeypatch.setattr(tempfile, "mkdtemp", NO_ROOM)
    with pytest.warns(LawscopeWarning, match="trained again"):
        store.remove_damaged(TRAINING)
    assert store.entries() == []
    with pytest.raises(FullDiskError, match="0 trainings are saved"):
        store.write(packed())


def test_what_cannot_be_removed_is_a_sentence(store, monkeypatch):
    monkeypatch.setattr(tempfile, "mkdtemp", DENIED)
    with pytest.raises(LawscopeError, match=r"cannot be written \(Permission denied\)"):
        store.collect_garbage()
    assert store.has(TRAINING)


def before(monkeypatch, place, name, happens):
    """Something happens just before a function is called."""
    function = getattr(place, name)

    def late(*arguments, **options):
        happens()
        return function(*arguments, **options)

    monkeypatch.setattr(place, name, late)


@pytest.mark.parametrize("moment", ["size", "lock", "remove"])
def test_an_entry_that_another_gc_removes_meanwhile_is_not_counted(store, monkeypatch, moment):
    other = Store(store.folder)
    before(monkeypatch, store, moment, lambda: other.remove(TRAINING.key))
    assert store.collect_garbage() == Removed(0, 0, 0)


def test_leftovers_that_another_gc_removes_meanwhile(store, monkeypatch):
    store.remove(TRAINING.key)
    dead = store.folder / "unfinished" / "0123-abc"
    (dead / "entry").mkdir(parents=True)
    remove = shutil.rmtree
    before(monkeypatch, shutil, "rmtree", lambda: remove(dead, ignore_errors=True))
    store.collect_garbage()
    assert not dead.exists()


def test_what_is_being_written_is_no_leftover_even_if_it_was_begun_a_moment_ago(store, monkeypatch):
    locks, written = [], store.folder / "unfinished" / "0123-abc"

    def begin():
        locks.append(Store(store.folder).lock("0123"))
        written.mkdir()

    held = store.locked
    monkeypatch.setattr(store, "locked", lambda: (held(), begin())[0])
    store.collect_garbage()
    assert written.exists()
    locks[0].release()


def test_a_note_that_vanishes_while_notes_are_read(store, tmp_path, monkeypatch):
    store.note_use("toy/quick", "smoke", tmp_path / "result.json", {TRAINING.key: TRAINING})
    (noted,) = (store.folder / "uses").iterdir()
    before(monkeypatch, Path, "read_bytes", lambda: noted.unlink(missing_ok=True))
    assert store.uses() == []


def test_a_note_that_may_not_be_read_keeps_gc_from_removing(store, tmp_path, monkeypatch):
    store.note_use("toy/quick", "smoke", tmp_path / "result.json", {TRAINING.key: TRAINING})
    monkeypatch.setattr(Path, "read_bytes", DENIED)
    with pytest.raises(LawscopeError, match=r"cannot be read \(Permission denied\)"):
        store.collect_garbage()
    monkeypatch.undo()
    assert store.has(TRAINING)


def test_an_entry_written_twice_is_kept_once_and_said(store):
    with pytest.warns(LawscopeWarning, match=f"{TRAINING.key} was trained twice"):
        store.write(packed(1.0))
    assert store.run(TRAINING).weights[600]["w"].tolist() == [0.0, 0.0]
    assert list((store.folder / "unfinished").iterdir()) == []


def test_an_entry_written_over_a_damaged_one_takes_its_place(store):
    (store.place(TRAINING.key) / "run.json").write_text("{}")
    store.write(packed(1.0))
    assert store.run(TRAINING).weights[600]["w"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("name", ["exists", "read_bytes", "iterdir"])
def test_a_store_that_may_not_be_read_is_not_taken_for_another_version(
    store, tmp_path, monkeypatch, name
):
    if name == "iterdir":
        (store.folder / "lawscope-store.json").unlink()
    monkeypatch.setattr(Path, name, DENIED)
    with pytest.raises(LawscopeError, match=r"store cannot be read \(Permission denied\); choose"):
        Store(store.folder)


def test_entries_that_may_not_be_listed_are_a_sentence(store, monkeypatch):
    monkeypatch.setattr(Path, "iterdir", DENIED)
    with pytest.raises(LawscopeError, match=r"store cannot be read \(Permission denied\)"):
        store.entries()


def test_a_mark_that_is_no_mark_is_another_version(store):
    (store.folder / "lawscope-store.json").write_text(json.dumps([1]))
    with pytest.raises(LawscopeError, match="another version of lawscope"):
        Store(store.folder)


def test_the_size_of_what_vanishes_is_nothing(store, monkeypatch):
    size = store.size(TRAINING.key)
    (weights,) = store.place(TRAINING.key).glob("*.safetensors")
    lost, stat = weights.stat().st_size, Path.stat

    def vanish(path, **options):
        if path == weights:
            weights.unlink(missing_ok=True)
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", vanish)
    assert store.size(TRAINING.key) == size - lost
    assert store.size("gone") == 0


def test_an_entry_gives_way_to_one_that_keeps_more_epochs(store):
    assert not store.has(TRAINING.keeping([0]))
    store.remove_damaged(TRAINING.keeping([0]))
    assert store.has(TRAINING)
    store.write(packed(1.0, kept=(0, 600)))
    assert store.kept(TRAINING.key) == {0, 600}
    assert store.run(TRAINING.keeping([0])).weights[0]["w"][0] == 1.0
    with pytest.warns(LawscopeWarning, match="was trained twice"):
        store.write(packed(2.0))
    assert store.run(TRAINING).weights[600]["w"][0] == 1.0
    with pytest.raises(entry.DamagedEntryError, match="lacks the weights after 10, 30 epochs"):
        store.read(TRAINING.keeping([10, 0, 30]))


def test_of_an_entry_that_is_not_there_nothing_is_kept(tmp_path):
    assert Store(tmp_path / "empty").kept(TRAINING.key) == set()


def killed(*arguments, **options):
    raise KeyboardInterrupt


@pytest.mark.parametrize("moment", ["replace", "unlink"])
def test_a_process_killed_while_an_entry_gives_way_loses_neither(store, monkeypatch, moment):
    monkeypatch.setattr(Path, moment, killed)
    with pytest.raises(KeyboardInterrupt):
        store.write(packed(1.0, kept=(0, 600)))
    monkeypatch.undo()
    assert store.has(TRAINING)
    assert store.kept(TRAINING.key) == ({600} if moment == "replace" else {0, 600})
    store.write(packed(1.0, kept=(0, 10, 600)))
    assert store.has(TRAINING.keeping([0, 10]))
    assert len(list(store.place(TRAINING.key).iterdir())) == 2


def test_who_reads_an_entry_that_gives_way_reads_the_new_one(store, monkeypatch):
    read, once = Path.read_bytes, []

    def late(path):
        if path.suffix == ".safetensors" and not once:
            once.append(path)
            store.write(packed(1.0, kept=(0, 600)))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", late)
    assert store.run(TRAINING).weights[600]["w"][0] == 1.0


def test_gc_judges_an_entry_again_when_nobody_writes_it(store, tmp_path, monkeypatch):
    store.note_use("toy/quick", "smoke", tmp_path / "result.json", {TRAINING.key: TRAINING})
    record = store.place(TRAINING.key) / "run.json"
    text = record.read_text()
    record.write_text("")  # somebody is writing it
    before(monkeypatch, Store, "lock", lambda: record.write_text(text))
    assert store.collect_garbage().entries == 0
    assert store.has(TRAINING)


def test_gc_leaves_what_a_later_version_trained(store, monkeypatch):
    monkeypatch.setattr(store_module, "REVISION", store_module.REVISION - 1)
    assert store.collect_garbage().entries == 0
    assert store.has(TRAINING)


def test_an_entry_counts_where_it_has_the_epochs_and_is_of_today(store, monkeypatch):
    assert store.kept(TRAINING.key) == {600}
    monkeypatch.setattr("lawscope.studies.store.REVISION", 99)
    assert store.kept(TRAINING.key) == set()


def test_only_the_epochs_asked_for_are_given(store):
    store.write(packed(1.0, kept=(0, 10, 600)))
    assert list(store.run(TRAINING).weights) == [600]
    assert sorted(store.run(TRAINING.keeping([10])).weights) == [10, 600]


@pytest.mark.parametrize("epoch", [-1, 601])
def test_epochs_that_never_come_cannot_be_kept(epoch):
    with pytest.raises(LawscopeError, match=f"checkpoints {epoch} .* give epochs from 0 to 600"):
        TRAINING.keeping([epoch])
