"""The number of conserved functions is that of theory, for every block of the table."""

import itertools

import pytest
import torch
from tests import odd_networks
from tests.laws import networks_with_symmetry as nets
from torch import nn
from torch.func import grad, jvp

import lawscope as ls
from lawscope.laws.conservation.completeness import _NormsWrittenOut


def chain(*widths, act=None, bias=False):
    layers = []
    for before, after in itertools.pairwise(widths):
        layers += [nn.Linear(before, after, bias=bias), *([act()] if act else [])]
    return nn.Sequential(*(layers[:-1] if act else layers))


@pytest.mark.parametrize("seed", range(4))
def test_units_in_depth_are_neither_dead_nor_always_on(seed):
    torch.manual_seed(seed)
    block = chain(3, 4, 3, 3, 2, act=nn.ReLU, bias=True)
    found = ls.completeness(block, torch.randn(5, 3), seed=seed)
    # a rescaling for every unit; sums of the head's columns and of its bias
    assert (found.conserved, found.explained) == (14, 14)


class Attention(nn.Module):
    """One head of softmax attention, d wide, h in the head."""

    def __init__(self, d, h):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(d, h, bias=False) for _ in range(3))
        self.o, self.h = nn.Linear(h, d, bias=False), h

    def forward(self, x):
        scores = self.q(x) @ self.k(x).mT / self.h**0.5
        return self.o(scores.softmax(-1) @ self.v(x))


# Block, width of inputs, loss, D, conserved (by formula), explained.
BLOCKS = {
    # r(r + 1)/2 for UW with r ≤ n + m, and k(2r + 1 − k)/2 with k = n + m below
    "UW 4-2-3": (lambda: chain(4, 2, 3), 4, "mse", 14, 3, 3),
    "UW 2-3-2": (lambda: chain(2, 3, 2), 2, "mse", 12, 6, 6),
    "UW 1-3-1": (lambda: chain(1, 3, 1), 1, "mse", 6, 5, 5),
    "linear 4-3-2-3": (lambda: chain(4, 3, 2, 3), 4, "mse", 24, 9, 9),
    # one field only: D − 1, more than the charges
    "linear 1-3-3-1": (lambda: chain(1, 3, 3, 1), 1, "mse", 15, 14, 12),
    "ReLU 3-4-2": (lambda: chain(3, 4, 2, act=nn.ReLU, bias=True), 3, "mse", 26, 4, 4),
    # at the first random point of each a unit is dead, and its parameters are conserved too
    "ReLU 1-3-1": (lambda: chain(1, 3, 1, act=nn.ReLU, bias=True), 1, "mse", 10, 3, 3),
    "ReLU 3-4-3-2": (lambda: chain(3, 4, 3, 2, act=nn.ReLU), 3, "mse", 30, 7, 7),
    "GELU 3-4-2": (lambda: chain(3, 4, 2, act=nn.GELU), 3, "mse", 20, 0, 0),
    "softmax head": (lambda: nn.Linear(3, 4), 3, "cross-entropy", 16, 4, 4),
    "attention": (lambda: Attention(3, 2), (3, 3), "mse", 24, 6, 6),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_the_count_is_that_of_theory(name):
    make, width, loss, parameters, conserved, explained = BLOCKS[name]
    torch.manual_seed(0)
    block = make()
    example = torch.randn(5, *(width if isinstance(width, tuple) else (width,)))
    before = odd_networks.snapshot(block)
    found = ls.completeness(block, example, loss=loss)
    assert (found.parameters, found.conserved) == (parameters, conserved)
    assert found.explained == explained
    assert found.complete == (conserved == explained)
    assert odd_networks.snapshot(block) == before


def test_the_charges_of_a_whole_gpt2_are_all():
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = {"vocab_size": 5, "n_positions": 4, "n_embd": 4, "n_layer": 1, "n_head": 2}
    ends = {"n_inner": 4, "bos_token_id": 0, "eos_token_id": 0}
    torch.manual_seed(0)
    model = nets.shaken(GPT2LMHeadModel(GPT2Config(**sizes, **ends)))
    found = ls.completeness(model, torch.randint(0, 5, (6, 4)))
    assert (found.parameters, found.conserved, found.unexplained) == (180, 42, 0)


NORMS = {
    "layer norm": lambda h, g, b: nn.functional.layer_norm(h, (2, 3), g, b),
    "batch norm": lambda h, g, b: nn.functional.batch_norm(h, None, None, g[:, 0], b[:, 0], True),
    "instance norm": lambda h, g, b: nn.functional.instance_norm(h, weight=g[:, 0], bias=b[:, 0]),
}


@pytest.mark.parametrize("name", NORMS)
def test_third_derivatives_of_norms_are_right(name):
    """Torch's own are not: the fused norms fail this."""
    generator = torch.Generator().manual_seed(0)

    def draw(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    x, weights = draw(4, 2, 3), draw(4, 2, 3)
    theta, u, v = draw(3, 2, 3).unbind()[0], draw(2, 3), draw(2, 3)
    gain, shift = draw(2, 3), draw(2, 3)

    def value(at):
        return (NORMS[name](torch.tanh(x * at), gain, shift) ** 3 * weights).sum()

    def second(at):
        return jvp(grad(value), (at,), (u,))[1]

    with _NormsWrittenOut():
        third = jvp(second, (theta,), (v,))[1]
        step = 1e-5
        measured = (second(theta + step * v) - second(theta - step * v)) / (2 * step)
        written = NORMS[name](x, gain, shift)
    assert torch.allclose(third, measured, rtol=1e-6, atol=1e-6)
    assert torch.allclose(written, NORMS[name](x, gain, shift), rtol=1e-12)


def test_it_says_all_or_how_many_more(tmp_path):
    found = ls.completeness(chain(1, 3, 3, 1), torch.randn(5, 1), loss="mse")
    assert "2 more are not explained" in str(found)
    assert ls.load(found.save(tmp_path / "c.json")) == found
    assert found.plot() is not None


def test_a_large_block_and_an_unknown_loss_end_in_sentences():
    with pytest.raises(ls.LawscopeError, match="fewer units"):
        ls.completeness(nn.Linear(100, 100), torch.randn(5, 100))
    with pytest.raises(ls.LawscopeError, match="mse"):
        ls.completeness(nets.mlp(), nets.inputs(), loss="hinge")
