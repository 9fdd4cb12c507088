"""Features of language models by block, for what the streaming measurement does not do."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from lawscope.capture.final_norm import RowNorm
from lawscope.capture.keep import Keep
from lawscope.capture.session import Session
from lawscope.capture.stations import select
from lawscope.capture.taps import Tap
from lawscope.data.source import Source
from lawscope.data.tokens import TokenSource
from lawscope.studies.lab import WINDOWS_AT_ONCE, Lab
from lawscope.studies.plan import Training


def read_text(lab: Lab, training: Training) -> tuple[Tensor, list[Tensor]]:
    """Return the next tokens of held-out text, (n,), and the features before them."""
    run = lab.run(training)
    windows = run.samples.x_test[: lab.settings["tokens"] // lab.settings["window"]]
    return windows[:, 1:].flatten(), features_of(run.network(), windows)


def features_of(model: Any, windows: Tensor) -> list[Tensor]:
    """Return what enters and leaves the blocks at all tokens but the last of a window, (n, d).

    They are normalised as the final norm does: LayerNorm without gain and shift, in float64.
    """
    session = Session(model, Source(list(windows.split(WINDOWS_AT_ONCE))), show=False)
    names = [f"blocks.{i}" for i in range(len(model.blocks))]
    blocks = select(session.stations, names, session.module_names)
    entrance = Tap(blocks[0], what="input", rows="positions")
    keep = Keep([entrance, *(Tap(block, rows="positions") for block in blocks)])
    session.run([keep])
    norm = RowNorm("LayerNorm", model.norm.eps)
    features = (torch.cat(parts).view(*windows.shape, -1) for parts in keep.kept.values())
    rows = (x[:, :-1].flatten(0, 1) for x in features)
    return [norm(x, x.new_zeros(x.shape[1]), torch.float64) for x in rows]


def features_of_pretrained(model: Any, windows: Tensor) -> list[Tensor]:
    """Return the same of a causal model of transformers whose windows begin with its own token.

    Rows are those of all tokens but the first and the last of a window.
    """
    source = TokenSource(list(windows.split(WINDOWS_AT_ONCE)), model.config)
    session = Session(model, source, show=False)
    keep = Keep([Tap(station, rows="positions") for station in session.blocks])
    session.run([keep])
    features = (torch.cat(parts).view(*windows.shape, -1) for parts in keep.kept.values())
    rows = (x[:, 1:-1].flatten(0, 1) for x in features)
    return [session.final_norm(x, x.new_zeros(x.shape[1]), torch.float64) for x in rows]


def residuals_of(features: Tensor, targets: Tensor) -> Tensor:
    """PR of many targets at once: 1 − R² of least squares with intercept."""
    x = (features - features.mean(dim=0)).double()
    y = (targets - targets.double().mean(dim=0)).double()
    basis, sizes, _ = torch.linalg.svd(x, full_matrices=False)
    basis = basis[:, sizes > sizes[0] * 1e-10]  # LayerNorm takes one direction away
    unexplained = y - basis @ (basis.T @ y)
    left: Tensor = unexplained.square().sum(dim=0) / y.square().sum(dim=0)
    return left.round(decimals=14)
