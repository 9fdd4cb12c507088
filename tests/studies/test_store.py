"""The store: what is read is what was written, by whichever process, after whatever happened."""

import errno
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from lawscope.errors import LawscopeError, LawscopeWarning
from lawscope.studies import entry
from lawscope.studies import store as store_module
from lawscope.studies.datasets import ImageData
from lawscope.studies.entry import Run
from lawscope.studies.plan import Network, Training
from lawscope.studies.store import FullDiskError, Store
from lawscope.training.recipe import Recipe
from lawscope.zoo.networks.catalogue import build

TRAINING = Training(
    Network.of("feedforward", depth=3), Recipe(epochs=2), ImageData(per_class=10), checkpoints=(0,)
)


def run_of(training=TRAINING, loss=0.25):
    torch.manual_seed(training.seed)
    weights = {
        epoch: build(training.network.kind, **training.network.settings).state_dict()
        for epoch in (0, 2)
    }
    return Run(training, weights, loss, 0.5, float("nan"), 1.5)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store")


@pytest.fixture
def full(store):
    """A store that has the training."""
    store.write(entry.pack(run_of()))
    return store


def test_a_run_comes_back_as_it_was(full):
    written, read = run_of(), full.run(TRAINING)
    assert full.entries() == [TRAINING.key]
    assert set(read.weights) == {0, 2}
    for epoch, weights in written.weights.items():
        assert set(weights) == set(read.weights[epoch])
        for name, tensor in weights.items():
            assert torch.equal(tensor, read.weights[epoch][name])
            assert tensor.dtype == read.weights[epoch][name].dtype
    assert (read.loss, read.accuracy, read.seconds) == (0.25, 0.5, 1.5)
    assert read.test_accuracy != read.test_accuracy
    assert read.network()(torch.zeros(1, 100)).shape == (1, 10)


def test_networks_that_share_storage_are_kept_apart(store):
    stack = torch.arange(8.0).reshape(2, 4)
    for seed in (0, 1):
        training = replace(TRAINING, seed=seed)
        weights = {epoch: {"w": stack[seed]} for epoch in (0, 2)}
        store.write(entry.pack(Run(training, weights, 0.0, 1.0, 1.0, 0.0)))
    kept = store.run(replace(TRAINING, seed=1)).weights[2]["w"]
    assert torch.equal(kept, torch.arange(4.0, 8.0))
    assert store.size(TRAINING.key) < 3000


def test_a_diverged_run_is_kept_and_its_record_is_json(store):
    store.write(entry.pack(run_of(loss=float("nan"))))
    text = (store.place(TRAINING.key) / "run.json").read_text()
    json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert store.run(TRAINING).loss != store.run(TRAINING).loss


def weights_of(place):
    (path,) = place.glob("*.safetensors")
    return path


def flip_a_weight(place):
    path = weights_of(place)
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)


def cut_the_record(place):
    path = place / "run.json"
    path.write_text(path.read_text()[:-40])


def change_the_loss(place):
    path = place / "run.json"
    path.write_text(path.read_text().replace('"loss": 0.25', '"loss": 0.05'))


def lose_the_weights(place):
    weights_of(place).unlink()


def exchange_it(place):
    other = entry.pack(run_of(replace(TRAINING, seed=1)))
    entry.write(other, place)


@pytest.mark.parametrize(
    "damage", [flip_a_weight, cut_the_record, change_the_loss, lose_the_weights, exchange_it]
)
def test_damage_is_seen_reported_and_removed(full, damage):
    damage(full.place(TRAINING.key))
    assert not full.has(TRAINING)
    with pytest.raises(entry.DamagedEntryError, match=TRAINING.key):
        full.run(TRAINING)
    with pytest.warns(LawscopeWarning, match=f"{TRAINING.key}.*trained again"):
        full.remove_damaged(TRAINING)
    assert full.entries() == []
    full.write(entry.pack(run_of()))
    assert full.has(TRAINING)


def test_a_sound_entry_is_not_discarded(full):
    full.remove_damaged(TRAINING)
    assert full.has(TRAINING)


def test_a_full_disk_says_what_is_saved_and_leaves_nothing_half_written(full, monkeypatch):
    def no_room(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_room)
    other = replace(TRAINING, seed=1)
    with pytest.raises(FullDiskError, match=r"is full; 1 trainings are saved.*same command again"):
        full.write(entry.pack(run_of(other)))
    monkeypatch.undo()
    assert full.entries() == [TRAINING.key]
    assert list((full.folder / "unfinished").iterdir()) == []
    full.write(entry.pack(run_of(other)))
    assert full.has(other)


def test_a_store_of_another_version_is_a_sentence(full):
    (full.folder / "lawscope-store.json").write_text('{"format": 99}')
    with pytest.raises(LawscopeError, match=r"another version of lawscope \(format 99"):
        Store(full.folder)


def test_a_folder_of_other_things_is_no_store(tmp_path):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(LawscopeError, match="is not a store of lawscope"):
        Store(tmp_path)
    with pytest.raises(LawscopeError, match="is a file"):
        Store(tmp_path / "thesis.tex")


def test_a_place_that_cannot_be_written_is_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LawscopeError, match="cannot be written"):
        Store(tmp_path / "file" / "store")


def test_where_it_is_by_default(tmp_path, monkeypatch):
    monkeypatch.setenv("LAWSCOPE_STORE", str(tmp_path / "mine"))
    assert Store().folder == tmp_path / "mine"
    assert Store(tmp_path / "asked").folder == tmp_path / "asked"
    monkeypatch.delenv("LAWSCOPE_STORE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert Store().folder == tmp_path / "cache" / "lawscope" / "studies"


HOLDER = """
import sys, time
from lawscope.studies.store import Store
claim = Store(sys.argv[1]).lock("abc")
print("held" if claim else "busy", flush=True)
time.sleep(60)
"""


def test_a_claim_is_exclusive_between_processes_and_vanishes_when_one_is_killed(store):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(store.folder)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout.readline() == "held\n"
        assert store.lock("abc") is None
        assert store.locked() == ["abc"]
        store.lock("other").release()
    finally:
        holder.kill()
        holder.communicate()
    claim = store.lock("abc")
    assert claim is not None
    claim.release()
    assert store.locked() == []


def note(store, tmp_path, training, name="result.json"):
    store.note_use("toy/quick", "smoke", tmp_path / name, {training.key: training})
    return tmp_path / name


def test_gc_keeps_what_a_result_needs(full, tmp_path):
    other = replace(TRAINING, seed=1)
    full.write(entry.pack(run_of(other)))
    note(full, tmp_path, TRAINING).write_text("{}")
    asked = full.collect_garbage(dry_run=True)
    assert asked.entries == 1
    assert asked.bytes == full.size(other.key) > 0
    assert len(full.entries()) == 2
    assert full.collect_garbage() == asked
    assert full.entries() == [TRAINING.key]


def test_gc_keeps_an_unfinished_study_for_a_month(full, tmp_path, monkeypatch):
    note(full, tmp_path, TRAINING)
    assert full.collect_garbage().entries == 0
    later = time.time() + 31 * 86400
    monkeypatch.setattr(time, "time", lambda: later)
    assert full.collect_garbage().entries == 1
    assert full.uses() == []


def test_gc_removes_what_a_past_revision_trained(full, tmp_path, monkeypatch):
    note(full, tmp_path, TRAINING).write_text("{}")
    monkeypatch.setattr(store_module, "REVISION", store_module.REVISION + 1)
    assert full.collect_garbage().entries == 1


def test_gc_leaves_alone_what_is_being_trained_and_clears_leftovers(full):
    claim = full.lock(TRAINING.key)
    busy = full.folder / "unfinished" / f"{TRAINING.key}-abc"
    dead = full.folder / "unfinished" / "0123-abc"
    for folder in (busy, dead):
        folder.mkdir()
        (folder / "weights.safetensors").write_bytes(b"12345")
    cleared = full.collect_garbage()
    claim.release()
    assert (cleared.entries, cleared.leftovers, cleared.bytes) == (0, 1, 5)
    assert busy.exists()
    assert not dead.exists()
    assert full.has(TRAINING)


def test_an_unreadable_note_protects_nothing(full, tmp_path):
    note(full, tmp_path, TRAINING).write_text("{}")
    (noted,) = (full.folder / "uses").iterdir()
    Path(noted).write_text("{")
    assert full.uses() == []
