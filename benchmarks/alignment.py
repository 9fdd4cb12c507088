"""Alignment: a training step with the moments of every layer streaming, and its peak memory.

Processor time of one thread, so that neighbours on the machine do not count.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from torch import Tensor, nn

import lawscope as ls
from benchmarks.row import Row, at_most, processor_seconds
from lawscope.capture.attach import Watch
from lawscope.data.source import Source
from lawscope.laws.alignment.law import ALIGNMENT
from lawscope.zoo.networks.language import gpt

REPEATS = 3
EVERY = {1: 1.6, 10: 1.15}
FEW, MANY = 2_000, 40_000
LOSS = nn.functional.cross_entropy


def rows() -> Iterator[Row]:
    """Steps of an MLP and of a transformer, every step and every tenth; memory."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for every, bar in EVERY.items():
            yield mlp_step(every, bar)
        for every, bar in EVERY.items():
            yield transformer_step(every, bar)
    finally:
        torch.set_num_threads(threads)
    yield memory()


def mlp_step(every: int, bar: float) -> Row:
    """SGD on an MLP 784–256–256–10, batches of 128."""
    torch.manual_seed(0)
    model = mlp()
    x, y = torch.randn(128, 784), torch.arange(128) % 10
    return compare("MLP 784-256-256-10, batch 128", model, x, y, LOSS, every, bar, steps=200)


def transformer_step(every: int, bar: float) -> Row:
    """AdamW on six blocks of width 256, batches of 8 × 128 tokens."""
    torch.manual_seed(0)
    model = gpt(vocabulary=256, width=256, depth=6, heads=4, context=128)
    x = torch.randint(0, 256, (8, 128))

    def loss(logits: Tensor, labels: Tensor | None) -> Tensor:
        assert labels is not None
        return LOSS(logits.flatten(0, 1), labels.flatten())

    name = "transformer 6x256, 8x128 tokens"
    return compare(name, model, x, x.roll(-1, 1), loss, every, bar, steps=10)


def compare(
    name: str,
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    loss: Callable[[Tensor, Tensor | None], Tensor],
    every: int,
    bar: float,
    steps: int,
) -> Row:
    """Steps with an observer attached against the same steps without."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    session = ls.Session(model, Source([(x, y)]), loss=loss)
    settings = ALIGNMENT.settings(every=every)

    def train(watch: Watch | None = None) -> float:
        def step() -> None:
            if watch is not None:
                watch.labels(y)
            optimizer.zero_grad()
            loss(model(x), y).backward()
            optimizer.step()

        step()
        return processor_seconds(lambda: [step() for _ in range(steps)])

    def watched() -> float:
        with session.attach([ALIGNMENT.observe(session, settings)]) as watch:
            return train(watch)

    pairs = [(watched(), train()) for _ in range(REPEATS)]
    ours, theirs = (min(times) for times in zip(*pairs, strict=True))
    when = "every step" if every == 1 else f"every {every}th step"
    return at_most(f"alignment {when}, {name}", ours, f"{steps} plain steps", theirs, bar)


def memory() -> Row:
    """Peak memory of a measurement on many samples against that on few."""
    few, many = peak(FEW), peak(MANY)
    name = f"alignment, peak memory, {MANY} against {FEW} samples"
    return at_most(name, many, f"{FEW} samples", few, 1.1, unit="MB")


def peak(samples: int) -> float:
    """Return the peak megabytes of a process that measures so many samples, made as they go."""
    script = "from benchmarks.alignment import measure; measure(int(__import__('sys').argv[1]))"
    run = [sys.executable, "-c", script, str(samples)]
    return float(subprocess.run(run, check=True, capture_output=True, text=True).stdout)


def measure(samples: int) -> None:
    """Measure an MLP on samples of a generator; print the peak memory of this process."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    batches = ((torch.randn(250, 784), torch.arange(250) % 10) for _ in range(samples // 250))
    ls.alignment(mlp(), batches, LOSS, memory="512MB", progress=False)
    # What resource counts begins with the memory of the process that started this one.
    status = Path("/proc/self/status").read_text()
    print(next(int(line.split()[1]) for line in status.splitlines() if "VmHWM" in line) / 1000)


def mlp() -> nn.Module:
    """784–256–256–10 with ReLU."""
    layers = [nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)]
    return nn.Sequential(*layers)
