"""Which symmetries are found in networks of many kinds, and what is said where there are none."""

from collections import Counter

import pytest
import torch
from tests import odd_networks
from tests.laws import networks_with_symmetry as nets
from torch import nn

import lawscope as ls

R, D, S, T, F, P = (
    "rescaling",
    "double rotation",
    "scale invariance",
    "translation",
    "sign flip",
    "permutation",
)
HEAD = {T: 2}  # a softmax head shifts by its weight and by its bias
# Network, example, and by kind how many symmetries are found. The counts were compared with theory
# after they were seen; that each charge is conserved is tested apart, in test_charges.
CASES = {
    "mlp": (nets.mlp, nets.inputs, {R: 1, D: 1, F: 1, P: 2, **HEAD}),
    "vgg": (nets.vgg, nets.images, {R: 2, P: 3, **HEAD}),  # ReLU6 is not homogeneous
    # In the projection block the shifts of two norms are added.
    "resnet": (nets.resnet, nets.images, {R: 4, P: 4, T: 3}),
    "dense": (nets.Dense, nets.images, {R: 3, P: 3, **HEAD}),
    "dense norm": (nets.DenseNorm, nets.images, {R: 2, P: 2, **HEAD}),
    # Rows of the head, and the layer of the features as a whole.
    "cosine": (nets.Cosine, nets.inputs, {S: 2, P: 1}),
    "parallel": (nets.Parallel, nets.inputs, {F: 1, P: 1, T: 3}),
    "powers": (nets.Powers, nets.inputs, {R: 2, P: 3, **HEAD}),
    "low rank": (nets.LowRank, nets.inputs, {D: 1, P: 1, **HEAD}),
    "gated": (nets.Gated, nets.inputs, {R: 1, P: 1, **HEAD}),  # up-down; not gate-down
    "fused gate": (nets.FusedGate, nets.inputs, {R: 2, P: 1, **HEAD}),
    "bare": (nets.Bare, nets.inputs, {R: 2, T: 1}),
    "depthwise": (nets.depthwise, nets.images, {R: 2, D: 1, **HEAD}),
    "tied": (nets.tied, nets.inputs, {R: 1, P: 1, **HEAD}),
    # What writes a unit also reads it, and no scale of it is free; the bias of the output shifts.
    "transpose": (lambda: nets.Autoencoder(torch.relu), nets.inputs, {P: 1, T: 1}),
    "odd transpose": (lambda: nets.Autoencoder(torch.tanh), nets.inputs, {F: 1, P: 1, T: 1}),
    "sine": (nets.Sine, nets.inputs, {F: 1, P: 1, **HEAD}),
    "siamese": (nets.Siamese, nets.inputs, {F: 1, P: 1, **HEAD}),
    "low-rank head": (nets.LowRankHead, nets.inputs, {D: 1, T: 3}),
    # Two heads, Q·K and V·O; ReLU in the middle, norm2 to the head; the bias of keys.
    "encoder": (nets.Encoder, nets.images, {D: 4, R: 2, P: 1, T: 3}),
    # Per block: two norms to their readers, 2 heads × (QK, VO), 4 shifts into norms, the bias of
    # keys; positions, and tokens against positions.
    "gpt2": (nets.gpt2, nets.ids, {R: 4, D: 8, T: 12, P: 2}),
    # Three norms, up-down, two key heads of rotary pairs; V·O of two key heads.
    "llama": (nets.llama, nets.ids, {R: 6, D: 2, T: 1, P: 1}),
    # o_proj and fc2 by weight and bias, the biases of patches and of keys, the head; patches and
    # the class token against positions.
    "vit": (nets.vit, nets.images, {R: 3, D: 4, T: 9, P: 1}),
}


def made(name):
    network, example, expected = CASES[name]
    torch.manual_seed(0)
    return nets.shaken(network()), example(), expected


@pytest.mark.parametrize("name", CASES)
def test_symmetries_by_kind_and_the_model_is_left_alone(name):
    model, example, expected = made(name)
    before, state = odd_networks.snapshot(model), torch.get_rng_state()
    found = ls.find_symmetries(model, example)
    assert Counter(one.kind for one in found.found) == expected
    assert max(one.residual for one in found.found) < 1e-6
    assert all(one.trainable for one in found.found)
    assert odd_networks.snapshot(model) == before
    assert torch.equal(state, torch.get_rng_state())
    assert len(found.table()) == len(found)


def test_parameters_are_named_and_reasons_given():
    found = ls.find_symmetries(nets.mlp(), nets.inputs())
    (rescaling,), (rotation,) = found.of(R), found.of(D)
    assert rescaling.parameters == ("0.weight", "0.bias", "2.weight")
    assert rotation.parameters == ("4.weight", "4.bias", "5.weight")
    assert (R, "2 → 4", "tanh is not homogeneous") in [
        (one.kind, one.where, one.why) for one in found.missing
    ]


def test_the_charge_behind_a_power_counts_outgoing_weights_as_often():
    model, example, _ = made("powers")
    found = ls.find_symmetries(model, example)
    square, cube = found.of(R)
    assert [min(leg.sign for leg in one.legs) for one in (square, cube)] == [-2, -3]
    assert "degree 2" in square.condition
    assert not found.rescalings
    a, b, *_ = model.layers
    w, bias, u = (p.detach().double() for p in (a.weight, a.bias, b.weight))
    by_hand = w.square().sum(1) + bias.square() - 2 * u.square().sum(0)
    charge = ls.charges(model, example).charges[0]
    assert charge.values == pytest.approx(by_hand.numpy(), abs=1e-6)
    assert any("power" in one.why for one in found.missing if one.kind == R)


def test_the_group_reaches_all_parameters_it_needs_in_a_concatenation():
    found = ls.find_symmetries(nets.Dense(), nets.images())
    by_place = {one.where: one for one in found.of(R)}
    (reader,) = [leg for leg in by_place["b → c"].legs if leg.sign < 0]
    assert (reader.parameter, reader.axis, reader.start) == ("c.weight", 1, 4)


def test_units_behind_a_concatenation_are_exchanged_with_the_layer_that_makes_them():
    found = ls.find_symmetries(nets.shaken(nets.DenseNorm()), nets.images())
    by_place = {one.where: one for one in found.of(P)}
    (slice_of_norm,) = [leg for leg in by_place["c1 → n2"].legs if leg.parameter == "n2.weight"]
    assert (slice_of_norm.start, by_place["c1 → n2"].units) == (4, 2)
    assert {"c0.weight", "n1.bias", "n2.running_var"} <= set(by_place["n1 → c1"].parameters)


def test_a_bias_in_front_of_batch_norm_is_free_in_training():
    found = ls.find_symmetries(nets.DenseNorm().train(), nets.images(), mode="train")
    assert [one.parameters for one in found.of(T)][:2] == [("c0.bias",), ("c1.bias",)]


def test_as_many_tokens_as_units_are_not_taken_for_them():
    torch.manual_seed(0)
    model = nets.shaken(nets.Patches(units=16))  # of 16 patches
    found = [one.parameters for one in ls.find_symmetries(model, nets.images()).of(T)]
    assert ("patches.bias", "token", "positions") in found


@pytest.mark.parametrize("bias", [True, False])
def test_weights_that_write_and_read_their_units_are_not_scaled(bias):
    model = nets.Autoencoder(torch.relu)
    if not bias:
        model.b = None
    found = ls.find_symmetries(model, nets.inputs())
    assert not found.of(R)
    (place,) = [one for one in found.missing if "the same weights" in one.why]
    assert place.where == ("W and b → c and W" if bias else "W → c and W")


def test_a_tied_matrix_is_not_flipped_where_the_activation_is_not_odd():
    model = nets.Autoencoder(nn.functional.gelu)
    model.b = None
    assert not ls.find_symmetries(model, nets.inputs()).of(F)


@pytest.mark.parametrize("scale", [0.0, 1e-6, 1.0])
def test_a_branch_that_is_faint_at_the_start_is_not_more_symmetric(scale):
    torch.manual_seed(0)
    found = ls.find_symmetries(nets.Faint(scale).eval(), nets.inputs())
    # Two norms and the layer scale; no rotation of the latter, and GELU is not odd.
    assert [len(found.of(kind)) for kind in (R, D, F)] == [3, 0, 0]


def test_biases_that_are_zero_at_the_start_do_not_add_symmetries():
    torch.manual_seed(0)
    # The tied embedding would shift in front of norms as long as the last norm has no bias.
    found = ls.find_symmetries(nets.gpt2().eval(), nets.ids())
    assert len(found.of(T)) == CASES["gpt2"][2][T]


def test_low_rank_additions_turn_at_their_start_too():
    model = nets.LowRank()
    nn.init.zeros_(model.B.weight)
    assert len(ls.find_symmetries(model, nets.inputs()).of(D)) == 1


def test_weight_norm_and_similarity_functions_are_seen():
    normed = nn.utils.parametrizations.weight_norm(nn.Linear(6, 5))
    (one,) = ls.find_symmetries(nn.Sequential(normed, nn.Tanh()), nets.inputs()).of(S)
    assert one.parameters == ("0.parametrizations.weight.original1",)


def test_batch_norm_in_training_makes_weights_scale_invariant_up_to_epsilon():
    model = nets.resnet().train()
    before = odd_networks.snapshot(model)
    found = ls.find_symmetries(model, nets.images(), mode="train")
    assert [one.where for one in found.of(S)][:2] == ["0 → 1", "3.c1 → 3.n1"]
    assert len(found.of(S)) == 6
    assert all(1e-9 < one.residual < 1e-2 and "epsilon" in one.condition for one in found.of(S))
    assert odd_networks.snapshot(model) == before
    found = ls.find_symmetries(model, nets.images())
    assert not found.of(S)
    refused = [one for one in found.missing if one.kind == S]
    assert len(refused) == 6
    assert {one.why for one in refused} == {"the norm keeps its running statistics"}


def test_a_network_without_symmetries_says_what_was_looked_for():
    found = ls.find_symmetries(nn.Sequential(nn.Linear(6, 1), nn.Tanh()), nets.inputs())
    assert not len(found)
    assert str(found).startswith("no symmetry found (looked for rescalings, double rotations")
    assert found.missing


def test_frozen_parameters_are_said():
    model = nets.mlp()
    model[2].requires_grad_(False)
    found = ls.find_symmetries(model, nets.inputs())
    assert [one.trainable for one in found.of(R)] == [False]
    assert "frozen" in " ".join(found.section().findings)


class Noisy(nn.Module):
    """Draws from a generator of its own, which nobody can reset."""

    def __init__(self):
        super().__init__()
        self.inner, self.generator = nets.mlp(), torch.Generator()

    def forward(self, x):
        return self.inner(x) + torch.randn(len(x), 3, generator=self.generator)


def test_a_pass_that_is_not_deterministic_ends_in_a_sentence():
    with pytest.raises(ls.LawscopeError, match="deterministic"):
        ls.find_symmetries(Noisy(), nets.inputs())


def test_dropout_keeps_its_mask():
    assert len(ls.find_symmetries(nets.vgg().train(), nets.images(), mode="train").of(R)) == 2


def test_results_come_back(tmp_path):
    found = ls.find_symmetries(nets.mlp(), nets.inputs())
    assert ls.load(found.save(tmp_path / "s.json")) == found
    assert found.plot() is not None
    assert found.save(tmp_path / "s.html").exists()
