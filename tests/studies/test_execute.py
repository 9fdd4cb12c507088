"""A training is what its description says."""

import sys
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch

from lawscope.errors import LawscopeError
from lawscope.studies import plan
from lawscope.studies.collapse._networks import SIMPLEX
from lawscope.studies.datasets import ImageData, TextData, samples_of
from lawscope.studies.entry import pack, unpack
from lawscope.studies.execute import execute
from lawscope.studies.plan import LanguageModelling, Network, Training
from lawscope.training.optimizers import OPTIMIZERS
from lawscope.training.recipe import Recipe
from lawscope.training.recorders import Recorder
from lawscope.zoo.images.arrays import as_inputs
from lawscope.zoo.images.catalogue import load

RECIPE = Recipe(epochs=2, lr=1e-2)
BEGUN = Training(
    Network.of("feedforward", depth=5), RECIPE, ImageData(per_class=10), checkpoints=(0, 1)
)


def layers(run, epoch=None):
    return [child.state_dict() for child in run.network(epoch).children()]


def same(a, b):
    return all(torch.equal(a[name], b[name]) for name in a if "running" not in name)


@pytest.fixture(scope="module")
def begun():
    return execute([BEGUN], {})[0]


def test_kept_epochs_are_those_asked_for_and_the_last(begun):
    assert sorted(begun.weights) == [0, 1, 2]
    assert not same(layers(begun, 0)[0], layers(begun, 1)[0])
    assert not same(layers(begun, 1)[0], layers(begun, 2)[0])


def test_only_the_layers_named_learn(begun):
    training = Training(BEGUN.network, RECIPE, BEGUN.data, start=BEGUN, trained=(1, 3))
    run = execute([training], {BEGUN.key: begun})[0]
    kept = [same(a, b) for a, b in zip(layers(begun), layers(run), strict=True)]
    assert kept == [True, False, False, True, True]


def test_only_the_first_layers_are_copied(begun):
    training = Training(
        Network.of("feedforward", depth=4), RECIPE, BEGUN.data, seed=1, checkpoints=(0,),
        start=BEGUN, copied=2,
    )  # fmt: skip
    run = execute([training], {BEGUN.key: begun})[0]
    old, new = layers(begun), layers(run, 0)
    assert [same(old[i], new[i]) for i in range(3)] == [True, True, False]


def test_a_start_of_other_shapes_is_a_sentence(begun):
    training = Training(Network.of("feedforward", depth=5, width=7), RECIPE, start=BEGUN)
    with pytest.raises(LawscopeError, match="same shapes"):
        execute([training], {BEGUN.key: begun})


def test_classes_are_renumbered_in_the_order_given():
    samples = samples_of(ImageData(per_class=(4, 2), classes=(7, 3)))
    whole = load("fashion-mnist-10x10")
    assert np.bincount(samples.y).tolist() == [4, 2]
    assert samples.class_names == (whole.class_names[7], whole.class_names[3])
    sevens = {tuple(row) for row in as_inputs(whole.x_train[whole.y_train == 7]).tolist()}
    assert all(tuple(row) in sevens for row in samples.x[samples.y == 0].tolist())
    assert not any(tuple(row) in sevens for row in samples.x[samples.y == 1].tolist())


def test_a_class_that_is_not_there_is_a_sentence():
    with pytest.raises(LawscopeError, match="has no class 10"):
        samples_of(ImageData(classes=(0, 10)))


def test_repeated_samples_are_the_same_samples_again():
    counts, rates = (6, 2), (1, 3)
    once = samples_of(ImageData(per_class=counts, classes=(0, 1)))
    more = samples_of(ImageData(per_class=counts, classes=(0, 1), repeats=rates))
    assert np.bincount(more.y).tolist() == list(ImageData(per_class=counts, repeats=rates).sizes())
    for label, times in enumerate(rates):
        drawn = [tuple(row) for row in once.x[once.y == label].tolist()]
        repeated = [tuple(row) for row in more.x[more.y == label].tolist()]
        assert sorted(repeated) == sorted(drawn * times)
    assert torch.equal(once.x_test, more.x_test)


@pytest.mark.parametrize("repeats", [(2,), (1, 0)])
def test_repeats_that_do_not_fit_the_classes_are_a_sentence(repeats):
    with pytest.raises(LawscopeError, match="do not fit 2 classes"):
        samples_of(ImageData(per_class=4, classes=(0, 1), repeats=repeats))


def test_a_simplex_is_there_from_the_start_and_stays():
    training = replace(BEGUN, prepare=SIMPLEX)
    run = execute([training], {})[0]
    heads = [run.network(epoch).head for epoch in (0, 2)]
    assert torch.equal(heads[0].weight, heads[1].weight)
    assert not heads[1].bias.any()
    rows = torch.nn.functional.normalize(heads[0].weight.detach().double())
    apart = (rows @ rows.T)[~torch.eye(10, dtype=bool)]
    assert torch.allclose(apart, torch.full_like(apart, -1 / 9), atol=1e-6)
    assert not same(layers(run, 0)[0], layers(run, 2)[0])


def test_only_a_new_revision_gives_settings_another_key(monkeypatch):
    """A field that comes later must leave the settings that do not use it alone."""
    monkeypatch.setattr(plan, "REVISION", 4)
    plain = Training(Network.of("feedforward", depth=4))
    assert plain.key == "3ee57d24be266eca57657285"
    assert replace(plain, start=plain, trained=(0, 2)).key == "84741768e6d59ad43cf70ff5"
    others = [
        replace(plain, prepare=SIMPLEX),
        replace(plain, data=ImageData(repeats=(1,) * 10)),
        replace(plain, data=TextData()),
        replace(plain, task=LanguageModelling()),
        replace(plain, recorders=(ProgressRecorder(),)),
    ]
    assert len({each.key for each in (plain, *others)}) == 6
    assert len({each.shape for each in (plain, *others)}) == 6


def test_which_epochs_are_kept_is_not_part_of_what_a_network_is():
    looked_at = BEGUN.keeping([1, 0])
    assert looked_at.key == replace(BEGUN, checkpoints=()).key
    assert looked_at.shape == replace(BEGUN, checkpoints=()).shape
    later, same_later = (Training(BEGUN.network, RECIPE, start=t) for t in (BEGUN, looked_at))
    assert later.key == same_later.key


def test_networks_of_one_stack_keep_the_epochs_that_each_is_asked_for():
    seeds = [replace(BEGUN, seed=seed, checkpoints=()) for seed in range(3)]
    wanted = [seeds[0], seeds[1].keeping([1]), seeds[2].keeping([0])]
    plainly = execute([t.keeping([0, 1]) for t in seeds], {})
    last = RECIPE.epochs
    for run, all_of_them, epochs in zip(
        execute(wanted, {}), plainly, ([last], [1, last], [0, last]), strict=True
    ):
        assert sorted(run.weights) == epochs
        for epoch in epochs:
            assert run.weights[epoch].keys() == all_of_them.weights[epoch].keys()
            for name, tensor in run.weights[epoch].items():
                assert torch.equal(tensor, all_of_them.weights[epoch][name])


@dataclass(frozen=True)
class ProgressRecorder(Recorder):
    """Loss, accuracy and norm of the gradient on the batches of training."""

    kind: ClassVar[str] = "progress"

    def record(self, step, model, batch, loss):
        norms = [p.grad.double().norm() for p in model.parameters() if p.grad is not None]
        (x, y), mode = batch, model.training
        with torch.no_grad():
            right = (model.eval()(x).argmax(dim=-1) == y).double().mean()
        model.train(mode)
        norm = float(torch.stack(norms).norm())
        return {"loss": float(loss), "accuracy": float(right), "gradient_norm": norm}


@dataclass(frozen=True)
class Norms(Recorder):
    """Norm of the first layer, and which samples a step saw."""

    kind = "norms"

    def record(self, step, model, batch, loss):
        return {"norm": float(next(model.parameters()).detach().norm()), "samples": len(batch[1])}


def test_recorders_write_down_numbers_every_so_many_steps(begun):
    recorders = (ProgressRecorder(), Norms(every=3))
    training = replace(BEGUN, recipe=replace(RECIPE, batch_size=30), recorders=recorders)
    run = execute([training], {})[0]
    assert run.records.keys() == {"progress(every=1)", "norms(every=3)"}
    progress, norms = (run.records[recorder.name] for recorder in recorders)
    # 100 samples in batches of 30 are 4 steps an epoch.
    assert progress["step"].tolist() == list(range(8))
    assert norms["step"].tolist() == [0, 3, 6]
    assert norms["samples"].tolist() == [30, 10, 30]
    first = next(run.network(0).parameters())
    assert norms["norm"][0] == pytest.approx(float(first.detach().norm()), rel=1e-6)
    assert progress["loss"][-1] < progress["loss"][0]
    assert (progress["gradient_norm"] > 0).all()
    assert all(0 <= share <= 1 for share in progress["accuracy"])


def test_recorders_leave_the_training_as_it_is():
    plain = replace(BEGUN, network=Network.of("resnet", blocks=(2,), copies=2, size=10),
                    data=ImageData(per_class=4, flatten=False), checkpoints=())  # fmt: skip
    watched = replace(plain, recorders=(ProgressRecorder(),))
    weights = [execute([each], {})[0].weights[2] for each in (plain, watched)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_records_are_stored_with_the_entry():
    training = replace(BEGUN, recorders=(ProgressRecorder(every=2),))
    run = execute([training], {})[0]
    read = unpack(pack(run), training)
    for name, numbers in run.records.items():
        assert numbers.keys() == read.records[name].keys()
        assert all(torch.equal(numbers[n], read.records[name][n]) for n in numbers)


def test_a_recorder_that_never_records_is_a_sentence():
    with pytest.raises(LawscopeError, match="every=0 is not a number of steps"):
        ProgressRecorder(every=0)


@pytest.mark.usefixtures("toys")
def test_a_family_registers_networks_in_files_of_its_own():
    training = Training(Network.of("toy-linear"), RECIPE, ImageData(per_class=5))
    assert [type(m).__name__ for m in execute([training], {})[0].network()] == ["Linear"]
    with pytest.raises(LawscopeError, match=r"no network 'toy-liner': choose toy-linear"):
        execute([Training(Network.of("toy-liner"))], {})


@pytest.mark.usefixtures("toys")
def test_a_family_registers_optimizers_in_files_of_its_own(monkeypatch):
    import toy_studies.toy._optimizers as own

    training = Training(Network.of("feedforward", depth=3), replace(RECIPE, optimizer="toy-unit"))
    training = replace(training, data=ImageData(per_class=5))
    pair = [training, replace(training, seed=1)]
    assert not training.task.stacks(training)
    # As in a worker, which has not seen the family.
    monkeypatch.delitem(OPTIMIZERS, "toy-unit")
    monkeypatch.delitem(sys.modules, own.__name__)
    together, alone = execute(pair, {}), execute(pair[1:], {})
    assert "toy-unit" in OPTIMIZERS
    assert same(together[1].network().state_dict(), alone[0].network().state_dict())
    assert training.to_dict()["recipe"]["optimizer"] == "toy-unit"
