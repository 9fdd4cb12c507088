"""What the studies of separation compute and train by themselves."""

import copy
import importlib
import math

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from tests import oracles
from tests.studies import stand_ins
from tests.studies.examples.separation import EXAMPLES
from tests.studies.memory import Memory

from lawscope.laws.separation.law import separation
from lawscope.studies import datasets, registry
from lawscope.studies.datasets import CIFAR, ImageData, StandardisedImages
from lawscope.studies.lab import Lab
from lawscope.studies.panels import rank_correlation
from lawscope.studies.plan import with_starts
from lawscope.studies.separation import (
    classwise,
    decay_factors,
    depth,
    emergence,
    frozen,
    layer_rates,
    pca,
    performance,
    pretraining,
    resnet,
    robustness,
    transfer,
)
from lawscope.studies.separation._family import near_taken
from lawscope.studies.study import AUTHORS, HOLDS, NETWORK, NOT_TRIED
from lawscope.zoo.networks.catalogue import build

NAMES = registry.choose("separation")


def smoke(name, **changed):
    return {**registry.find(f"separation/{name}").settings["smoke"], **changed}


def unfitted(numbers):
    """The same numbers of networks that do not fit their training set."""
    if isinstance(numbers, dict):
        changed = {k: unfitted(v) for k, v in numbers.items()}
        return {**changed, "fits": False, "accuracy": 0.5} if "fits" in numbers else changed
    return [unfitted(v) for v in numbers] if isinstance(numbers, list) else numbers


@pytest.mark.parametrize("name", NAMES)
def test_no_claim_about_fitting_networks_holds_for_others(name):
    judged = registry.find(name).judge({"network": unfitted(EXAMPLES[name][0])}).claims
    about = [c for c in judged if " fit" in c.text and "fitting or not" not in c.text]
    assert [claim.text for claim in about if claim.verdict == HOLDS] == []


def keys(name, preset="cpu"):
    study = registry.find(f"separation/{name}")
    return set(with_starts(study.plan(study.settings[preset])))


@pytest.mark.parametrize(
    ("name", "other", "preset", "shared"),
    [
        ("classwise", "optimizers", "cpu", 15),
        ("pca", "optimizers", "cpu", 15),
        ("imbalance", "optimizers", "cpu", 45),
        ("sample-size", "optimizers", "cpu", 9),
        ("width", "optimizers", "paper", 15),
        ("depth", "optimizers", "cpu", 45),
        ("depth", "datasets", "cpu", 39),
        ("emergence", "optimizers", "cpu", 9),
        ("layer-rates", "datasets", "cpu", 9),
        ("pretraining", "optimizers", "cpu", 9),
        ("frozen", "depth", "cpu", 15),
        ("robustness", "frozen", "cpu", 45),
        ("robustness", "emergence", "cpu", 9),
        ("reactivation", "frozen", "cpu", 21),
        ("performance", "optimizers", "cpu", 171),
        ("performance", "frozen", "cpu", 15),
        ("decay-factors", "optimizers", "cpu", 42),
    ],
)
def test_studies_share_their_trainings(name, other, preset, shared):
    assert len(keys(name, preset) & keys(other, preset)) == shared


def test_the_time_of_a_study_stands_in_one_place():
    """``minutes``, which ``lawscope study list`` prints; docstrings that repeat it go stale."""
    for name in NAMES:
        module = f"lawscope.studies.{name.replace('/', '.').replace('-', '_')}"
        assert "minute" not in importlib.import_module(module).__doc__, name


# Formulas.


def test_plane_agrees_with_scikit_learn_up_to_signs():
    features = np.random.default_rng(1).normal(size=(50, 6)) @ np.diag([5, 3, 2, 1, 1, 1])
    theirs = PCA(n_components=2).fit_transform(features)
    ours = pca.plane(torch.from_numpy(features)).abs().numpy()
    assert ours == pytest.approx(np.abs(theirs), rel=1e-6)


def test_lowest_takes_fitting_candidates_first():
    runs = [
        {"seed": 0, "fits": True, "last": 2.0},
        {"seed": 0, "fits": True, "last": 3.0},
        {"seed": 0, "fits": False, "last": 1.0},
        {"seed": 1, "fits": False, "last": 4.0},
        {"seed": 1, "fits": False, "last": None},
    ]
    assert depth.lowest({"chosen": [{"seed": 0}, {"seed": 1}], "runs": runs}) == [2.0, 4.0]


def test_the_best_depth_is_the_smallest_within_one_standard_error():
    panels = [
        {"depth": 2, "D": [9.0, 9.0]},
        {"depth": 4, "D": [3.0, 3.0]},
        {"depth": 6, "D": [1.0, math.e**2]},
    ]
    compared = depth.compare_depths(panels, lambda each: each["D"])
    assert compared["mean"] == pytest.approx([9.0, 3.0, math.e])
    assert compared["error"] == pytest.approx([0.0, 0.0, 1.0])
    assert compared["depth"] == 6
    assert depth.best_depth(compared) == 4
    one_seed = depth.compare_depths(panels, lambda each: each["D"][:1])
    assert depth.best_depth(one_seed) == 6


def test_depths_without_every_seed_are_left_out():
    panels = [
        {"depth": 2, "D": [4.0, 4.0]},
        {"depth": 4, "D": [1.0, 2.0]},
        {"depth": 6, "D": [2.0, 1.5]},
        {"depth": 8, "D": [0.1, None]},
    ]
    found = depth.compare_depths(panels, lambda panel: panel["D"])
    assert (found["depth"], found["per_seed"], found["depths"]) == (4, [4, 6], [2, 4, 6])


def test_small_formulas():
    rows = zip([0, 10, 50], [0.9, -0.99, -0.99], [9.0, 0.5, 0.08], strict=True)
    history = [{"epoch": epoch, "r": r, "nc1": nc1} for epoch, r, nc1 in rows]
    assert emergence.lead({"history": history}) == 40
    assert emergence.lead({"history": history[:2]}) == 0
    assert emergence.lead({"history": history[:1]}) is None
    curves = [[8.0, 4.0, 4.0], [8.0, 2.0, 1.0]]
    assert layer_rates.ratios(curves) == [[0.5, 0.25], [1.0, 0.5]]
    shares = [{"balance": -0.1, "test_accuracy": 0.5}, {"balance": 0.5, "test_accuracy": 0.75}]
    assert transfer.loss_of_balance(shares) == 0.25
    mixed = {"D": [16.0, 8.0, 4.0, 3.6, 3.24]}
    assert resnet.fit_part(mixed, "2-layer") == pytest.approx((-1.0, 0.9))


def test_minority_cosine_by_hand():
    network = build("feedforward", depth=3)
    with torch.no_grad():
        network.head.weight[5:] = torch.eye(100)[0] + torch.eye(100)[1:6]
    assert emergence.minority_cosine(network) == pytest.approx(0.5)


def test_a_minority_that_does_not_merge_tries_nothing():
    numbers = copy.deepcopy(EXAMPLES["separation/emergence"][0])
    for row in numbers["imbalanced"][0]["history"]:
        row["cosine"] = 0.3
    *_, claim = emergence.STUDY.judge({"network": numbers}).claims
    assert (claim.verdict, claim.column.why[:27]) == (NOT_TRIED, "the minority merges in none")


def test_the_interval_of_a_rank_correlation_covers():
    rng, covered, count = np.random.default_rng(0), 0, 20
    # Spearman's correlation of normal pairs with Pearson's 0.6.
    truth = 6 / math.pi * math.asin(0.3)
    for _ in range(400):
        x = rng.standard_normal(count)
        y = 0.6 * x + 0.8 * rng.standard_normal(count)
        low, high = performance.interval(rank_correlation(x.tolist(), y.tolist()), count)
        covered += low <= truth <= high
    assert 0.91 <= covered / 400 <= 0.98


def test_effects_are_ranges_of_log_rho():
    found = decay_factors.effects(EXAMPLES["separation/decay-factors"][0])
    assert found["depth"] == pytest.approx([math.log(2)] * 3)
    assert found["optimiser"] == pytest.approx([math.log(1.5)] * 3)


def test_the_authors_rate_and_its_neighbours():
    assert near_taken(4) == [1e-3, 3e-3]
    assert near_taken(8, "sgd") == [0.01, 0.03, 0.1]
    assert near_taken(18, "momentum") == [0.001, 0.003]


def test_pixels_are_standardised_as_in_the_authors_scripts():
    whole = stand_ins.made_up_images("cifar10")
    data = StandardisedImages("cifar10", size=32, flatten=False, per_class=5, moments=CIFAR)
    plain = ImageData("cifar10", size=32, flatten=False, per_class=5)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets, "load_dataset", lambda name: whole)
        ours, theirs = data.load().x, plain.load().x
    mean, deviation = (torch.tensor(each).view(3, 1, 1) for each in CIFAR)
    pixels = (theirs * 127.5 + 127.5) / 255
    torch.testing.assert_close(ours, (pixels - mean) / deviation, rtol=1e-4, atol=1e-5)


def test_convergence_is_for_good():
    epochs = [0, 10, 20, 30, 40]
    assert layer_rates.find_convergence(epochs, [1.0, 0.5, 0.9, 0.52, 0.5]) == 30
    assert layer_rates.find_convergence(epochs, [0.5] * 5) == 0
    assert layer_rates.find_convergence(epochs, [0.5, 0.5, 0.5, 0.5, 0.9]) == 40


# Trained networks.


@pytest.fixture(scope="module")
def memory():
    return Memory()


def same(a, b, children):
    """Whether two state dictionaries agree in the weights of layers, running statistics aside."""
    names = [n for n in a if n.split(".")[0] in children and "running" not in n and "num_" not in n]
    assert names
    return all(torch.equal(a[name], b[name]) for name in names)


def layers(first, last):
    return {f"layer{i}" for i in range(first, last + 1)}


def test_frozen_layers_keep_their_weights_and_the_others_learn(memory):
    training = frozen.frozen(smoke("frozen", seeds=1))[0]
    memory.train([training])
    second, first = (memory.run(t).weights[2] for t in (training, training.start))
    torch.manual_seed(training.seed)
    untrained = build("feedforward", depth=6).state_dict()
    upper = layers(4, 5) | {"head"}
    assert same(first, untrained, upper)
    assert not same(first, untrained, layers(1, 3))
    assert same(second, first, layers(1, 3))
    assert not same(second, first, upper)


def test_pretraining_keeps_ten_layers_and_transfer_the_lower_half(memory):
    new = pretraining.extended(smoke("pretraining", seeds=1, rates=[1e-3]))[0]
    memory.train([new])
    ours, theirs = (memory.run(t).network().state_dict() for t in (new, new.start))
    assert same(ours, theirs, layers(1, 2))
    assert not same(ours, theirs, layers(3, 5))
    settings = smoke("transfer", depth=4)
    down, tuned = (transfer.downstream(settings, arm, 3, seed=0) for arm in ("top", "all"))
    memory.train([down, tuned])
    ours, theirs = (memory.run(t).network().state_dict() for t in (down, down.start))
    assert same(ours, theirs, layers(1, 2))
    assert not same(ours, theirs, {"layer3"})
    assert not same(memory.run(tuned).network().state_dict(), theirs, layers(1, 2))
    assert down.recipe.epochs + down.start.recipe.epochs == settings["epochs"]
    assert not set(down.data.classes) & set(down.start.data.classes)


def test_the_part_of_pretraining_is_fitted_to_the_new_layers_alone(memory):
    settings = smoke("pretraining", seeds=1, rates=[1e-3])
    memory.train(pretraining.extended(settings))
    row = pretraining.measure_part(Lab(settings, memory), pretraining.extended(settings)[0])
    logs = np.log(row["D"][2:])
    slope = np.polyfit(np.arange(len(logs)), logs, 1)[0]
    assert row["part"]["rho"] == pytest.approx(math.exp(slope))
    assert row["part"]["r"] == pytest.approx(np.corrcoef(np.arange(len(logs)), logs)[0, 1])


def test_class_values_are_those_of_the_definition(memory):
    """D^k of a class: SSw of that class alone against SSb of all, summed to D by n_k/n."""
    settings = smoke("classwise")
    training = registry.find("separation/classwise").plan(settings)[0]
    memory.train([training])
    lab = Lab(settings, memory)
    run = lab.run(training)
    numbers = classwise.measure_classes(lab, training)
    with torch.no_grad():
        features = next(iter(run.network().children()))(run.samples.x)
    whole = oracles.fuzziness(features, run.samples.y)
    assert np.mean([each["D"][1] for each in numbers["classes"]]) == pytest.approx(whole, rel=1e-6)
    assert numbers["sum_error"] < 1e-9
    for each in numbers["classes"]:
        logs, index = np.log(each["D"]), np.arange(len(each["D"]))
        assert each["r"] == pytest.approx(np.corrcoef(index, logs)[0, 1])
        assert each["rho"] == pytest.approx(math.exp(np.polyfit(index, logs, 1)[0]))


def test_noise_on_weights_by_hand(memory):
    """One draw repeated with plain tensors: D before and after, R, and the sum of the formula."""
    settings = smoke("robustness", draws=1)
    training = frozen.standard(settings)[0]
    memory.train([training])
    lab = Lab(settings, memory)
    law = lab.separation(training, uncertainty=None)
    trial = robustness.try_noise(lab, training, law, 0.01)
    run = memory.run(training)
    data = (run.samples.x, run.samples.y)
    noisy, generator = run.network(), torch.Generator().manual_seed(training.seed)
    state = noisy.state_dict()
    for name, weight in state.items():
        if weight.dim() > 1:
            noise = torch.randn(weight.shape, generator=generator)
            state[name] = weight + 0.01 * weight.norm() / math.sqrt(weight.numel()) * noise
    noisy.load_state_dict(state)
    before, after = (separation(m, data, uncertainty=None) for m in (run.network(), noisy))
    a, b = before.values, after.values
    assert trial["moved"] == pytest.approx([(b[-1] / b[0]) / (a[-1] / a[0]) - 1], rel=1e-3)
    formula = sum(
        (a[i] / a[i + 1]) * (b[i + 1] / b[i] - a[i + 1] / a[i]) for i in range(len(a) - 1)
    )
    assert trial["predicted"] == pytest.approx([formula], rel=1e-3)
    assert trial["predicted"] == pytest.approx(trial["moved"], rel=0.05)
    excess = before.sensitivity / before.least_sensitivity
    assert robustness.excess_sensitivity(a.tolist()) == pytest.approx(excess)


@pytest.mark.parametrize("protocol", [AUTHORS, NETWORK])
def test_all_principal_components_give_d_of_all_features(memory, monkeypatch, protocol):
    settings = smoke("resnet", blocks={"mixed": [3, 2]}, rates=[1e-3])
    (training,) = resnet.candidates(settings, "mixed")
    memory.train([training])
    lab = Lab(settings, memory, protocol=protocol)
    monkeypatch.setattr(resnet, "COMPONENTS", 10_000)
    for stations in ("layers", "blocks"):
        ours = resnet.component_curve(lab, training, stations, 0)
        whole = lab.separation(training, stations=stations).values
        assert ours == pytest.approx(whole, rel=1e-4)
    features = torch.randn(30, 8, dtype=torch.float64)
    theirs = PCA(n_components=3, svd_solver="full").fit_transform(features.numpy())
    assert resnet.components(features, 3).abs().numpy() == pytest.approx(np.abs(theirs))
