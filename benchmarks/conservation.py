"""Conservation laws: the ledger beside training, noise of single samples, completeness, GPT-2.

Processor time of one thread, so that neighbours on the machine do not count.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

import numpy as np
import torch
from torch import Tensor, nn

import lawscope as ls
from benchmarks.kernel import lenet, mlp
from benchmarks.row import Row, at_least, at_most, interleaved, processor_seconds
from lawscope.arrays import FloatArray

REPEATS, STEPS, BATCH = 5, 100, 128
SAMPLES = 1000  # the fewest of which intervals are given
LOSS = nn.functional.cross_entropy


def rows() -> Iterator[Row]:
    """Ledger, noise traces, completeness, symmetries of GPT-2 small."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield ledger()
        for name, model, shape in (("MLP", mlp(), (100,)), ("LeNet", lenet(), (1, 28, 28))):
            yield noise(name, model, shape)
        yield completeness()
        yield gpt2()
    finally:
        torch.set_num_threads(threads)


def ledger() -> Row:
    """SGD on an MLP 784–256–256–10 with and without a ledger that measures every 10th step."""
    torch.manual_seed(0)
    layers = [nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)]
    model = nn.Sequential(*layers)
    x, y = torch.randn(BATCH, 784), torch.arange(BATCH) % 10
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    found = ls.find_symmetries(model, x)

    def train(watched: bool) -> None:
        watch = ls.ChargeLedger(model, optimizer, symmetries=found, every=10)
        if not watched:
            watch.close()
        with watch if watched else nullcontext():
            for _ in range(STEPS):
                optimizer.zero_grad()
                LOSS(model(x), y).backward()
                optimizer.step()

    train(True)
    pair = interleaved(lambda: train(True), lambda: train(False), REPEATS, processor_seconds)
    name = "charge ledger, MLP 784-256-256-10, SGD, C every 10th step"
    return at_most(name, pair[0], f"{STEPS} plain steps of SGD", pair[1], 1.35)


def noise(name: str, model: nn.Module, shape: tuple[int, ...]) -> Row:
    """Noise of rescalings from gradients of single samples, together and in a loop, in float64."""
    model = model.double().eval()
    x = torch.randn(SAMPLES, *shape, generator=torch.Generator().manual_seed(0)).double()
    y = torch.arange(SAMPLES) % 10
    found = ls.find_symmetries(model, x[:8])

    def ours() -> FloatArray:
        measured = ls.noise_equilibrium(model, (x, y), LOSS, symmetries=found)
        return np.concatenate([place.scale for place in measured.places])

    def theirs() -> FloatArray:
        return loop(model, x, y, found)

    assert np.allclose(ours(), theirs(), rtol=1e-9, equal_nan=True)
    pair = interleaved(ours, theirs, REPEATS, processor_seconds)
    title = f"noise equilibrium, {name}, {SAMPLES} samples, float64"
    return at_least(title, pair[0], "loop over samples", pair[1], 5.0)


def loop(model: nn.Module, x: Tensor, y: Tensor, found: ls.Symmetries) -> FloatArray:
    """A backward pass for every sample, and ¼ ln of the two sides of every unit."""
    names, weights = zip(*model.named_parameters(), strict=True)
    known = found.of("rescaling")
    sums = [torch.zeros(2, one.units, dtype=torch.float64) for one in known]
    for sample, label in zip(x.split(1), y.split(1), strict=True):
        slopes = torch.autograd.grad(LOSS(model(sample), label), weights)
        squares = {name: slope.square() for name, slope in zip(names, slopes, strict=True)}
        for total, one in zip(sums, known, strict=True):
            for leg in one.legs:
                sides = leg.view(squares[leg.parameter], one.units).sum(1)
                total[int(leg.sign < 0)] += sides
    scales = torch.cat([0.25 * (total[0] / total[1]).log() for total in sums])
    return np.where(np.isfinite(scales), scales, np.nan)


def completeness() -> Row:
    """20–25–20 with a ReLU between: a thousand parameters."""
    torch.manual_seed(0)
    block = nn.Sequential(nn.Linear(20, 25, bias=False), nn.ReLU(), nn.Linear(25, 20, bias=False))
    x = torch.randn(8, 20)
    taken = processor_seconds(lambda: ls.completeness(block, x, loss="mse"))
    return at_most("completeness, a ReLU block of 1000 parameters", taken, "one second", 1.0, 5.0)


def gpt2() -> Row:
    """GPT-2 small, untrained, on 2 × 16 tokens."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config()).eval()
    ids = torch.randint(0, 50257, (2, 16))
    taken = processor_seconds(lambda: ls.find_symmetries(model, ids))
    return at_most("find_symmetries, GPT-2 small, 2x16 tokens", taken, "one second", 1.0, 20.0)
