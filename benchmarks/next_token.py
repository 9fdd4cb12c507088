"""The law of next-token prediction: overhead, and against stored features with scikit-learn.

Overhead is everything ``ls.next_token`` does (finding blocks, moments, one-hot residual, solving,
interval, cross-validation) over the plain forward pass ``model(ids)`` without gradients. Ours asks
for the logits of the last position only; a note gives the ratio to a forward pass that does so too,
the strictest reference. Models are GPT-2 from ``transformers.GPT2Config`` with random weights and a
vocabulary of 5000, a tenth of GPT-2's own, so that the logits which we leave out weigh little.
There are 78 and 52 tokens per feature, as many as a verdict needs.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.memory import ALLOCATOR, high_water_mb
from benchmarks.row import Row, at_least, at_most, interleaved, seconds

VOCABULARY, WINDOW = 5000, 250
BARS = {"float64": 1.35, "fast": 1.25}
# Width, depth, heads, tokens, repeats.
CASES = [(256, 6, 4, 20_000, 5), (768, 12, 12, 40_000, 1)]
STORED_WIDTH, STORED_TOKENS = 768, 100_000
REPEATS = 3
AGREEMENT = 1e-6


def gpt2(width: int, depth: int, heads: int) -> nn.Module:
    """A GPT-2 with random weights."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=VOCABULARY, n_embd=width, n_layer=depth, n_head=heads, n_positions=WINDOW,
        bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    return GPT2LMHeadModel(config).eval()


def token_batches(tokens: int, size: int = 8) -> list[Tensor]:
    """Windows of random ids, a few frequent and most rare, as in a language."""
    generator = torch.Generator().manual_seed(0)
    share = torch.rand(tokens // WINDOW, WINDOW, generator=generator)
    return list((VOCABULARY**share).long().sub(1).split(size))


def overhead() -> Iterator[Row]:
    """Measuring all blocks against running the model."""
    import lawscope as ls

    for width, depth, heads, tokens, repeats in CASES:
        model, batches = gpt2(width, depth, heads), token_batches(tokens)

        def forward(
            model: nn.Module = model, batches: list[Tensor] = batches, logits: int = 0
        ) -> None:
            with torch.no_grad():
                for batch in batches:
                    model(batch, use_cache=False, logits_to_keep=logits)

        for precision, bar in BARS.items():

            def measure(
                model: nn.Module = model, batches: Any = batches, precision: Any = precision
            ) -> None:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ls.LawscopeWarning)
                    ls.next_token(model, batches, precision=precision, control=None)

            forward()
            ours, theirs = interleaved(measure, forward, repeats)
            least = min(seconds(partial(forward, logits=1)) for _ in range(repeats))
            row = at_most(
                f"next-token, GPT-2 {depth}x{width}, {tokens} tokens, {precision}",
                ours,
                "plain no-grad forward pass",
                theirs,
                bar,
            )
            yield replace(row, note=f"{ours / least:.3f} to one with the last logits only")


def features(chunk: int, rows: int) -> tuple[Tensor, Tensor]:
    """A chunk of features with a mean and unequal axes, and token ids that depend on them."""
    generator = torch.Generator().manual_seed(chunk)
    x = torch.randn(rows, STORED_WIDTH, generator=generator)
    x = x * torch.linspace(0.2, 2.0, STORED_WIDTH) + 3.0
    signal = (x[:, :32].sum(dim=1) - 96) * 60 + torch.randn(rows, generator=generator) * 900
    return x, (signal + 2500).clamp(0, VOCABULARY - 1).long()


def one_layer(way: str, tokens: int) -> dict[str, float]:
    """1 − R² of one layer, streamed or stored: seconds, growth of the peak in MB, and the value.

    Making the features is not counted in the seconds of either.
    """
    import numpy as np

    chunk, spent, before = 2000, 0.0, 0.0
    clock = time.perf_counter
    if way == "stored":
        from sklearn.linear_model import LinearRegression

        features(0, chunk)
        before, stored = high_water_mb(), []
        for i in range(tokens // chunk):
            x, y = features(i, chunk)
            begun = clock()
            stored.append((x.numpy().copy(), y.numpy().copy()))
            spent += clock() - begun
        begun = clock()
        rows, targets = (np.concatenate(part) for part in zip(*stored, strict=True))
        stored.clear()
        value = 1 - LinearRegression().fit(rows, targets).score(rows, targets)
        spent += clock() - begun
    else:
        from lawscope.statistics.prediction_moments import PredictionMoments

        features(0, chunk)
        before = high_water_mb()
        statistic = PredictionMoments(STORED_WIDTH, folds=5, dtype=torch.float32)
        for i in range(tokens // chunk):
            x, y = features(i, chunk)
            begun = clock()
            statistic.update(x, y[:, None], torch.full((chunk,), i % 5))
            spent += clock() - begun
        begun = clock()
        value = float(statistic.compute().pr[0])
        spent += clock() - begun
    return {"seconds": spent, "mb": high_water_mb() - before, "value": value}


def _children(cases: list[tuple[str, int]]) -> dict[tuple[str, int], dict[str, float]]:
    """Median of processes of their own, taken in turns."""
    found: dict[tuple[str, int], list[dict[str, float]]] = {case: [] for case in cases}
    for _ in range(REPEATS):
        for way, tokens in cases:
            command = [sys.executable, "-m", "benchmarks.next_token", way, str(tokens)]
            done = subprocess.run(
                command, check=True, capture_output=True, text=True, env=os.environ | ALLOCATOR
            )
            found[way, tokens].append(json.loads(done.stdout))
    return {
        case: {name: statistics.median(run[name] for run in runs) for name in runs[0]}
        for case, runs in found.items()
    }


def against_stored() -> Iterator[Row]:
    """One layer of d = 768, and that twice the tokens take no more memory."""
    half = STORED_TOKENS // 2
    found = _children([("streamed", STORED_TOKENS), ("stored", STORED_TOKENS), ("streamed", half)])
    ours, theirs = found["streamed", STORED_TOKENS], found["stored", STORED_TOKENS]
    name = f"one layer, d = {STORED_WIDTH}, {STORED_TOKENS} tokens"
    peer = "stored features, scikit-learn LinearRegression"
    apart = abs(ours["value"] / theirs["value"] - 1)
    fast = at_least(f"next-token, {name}, time", ours["seconds"], peer, theirs["seconds"], 1.0)
    yield replace(fast, holds=fast.holds and apart < AGREEMENT, note=f"values differ {apart:.1e}")
    small = at_least(f"next-token, {name}, peak memory", ours["mb"], peer, theirs["mb"], 5.0)
    yield replace(small, unit="MB")
    yield at_most(
        f"next-token, peak memory, {STORED_TOKENS} tokens against {half}",
        ours["mb"],
        f"the same with {half}",
        found["streamed", half]["mb"],
        1.1,
        unit="MB",
    )


def rows() -> Iterator[Row]:
    """All rows."""
    yield from overhead()
    yield from against_stored()


if __name__ == "__main__":
    torch.set_num_threads(os.cpu_count() or 1)
    print(json.dumps(one_layer(sys.argv[1], int(sys.argv[2]))))
