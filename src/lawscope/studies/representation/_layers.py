"""Layers of trained networks: the law on them, and what can be read at their outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import lawscope as ls
from lawscope.documents import drop_non_finite
from lawscope.lazy import Tensor, nn, torch
from lawscope.studies.panels import quietly
from lawscope.studies.plan import Training
from lawscope.studies.study import Lab, Numbers

if TYPE_CHECKING:
    from lawscope.laws.alignment.result import LayerAlignment

Split = Literal["train", "test"]
SIDES = {"backward": "a", "forward": "b"}
KINDS = ("RGA", "RWA", "GWA")
RELATIONS = tuple(f"{side} {kind}" for side in SIDES for kind in KINDS)
AT_ONCE = 500
NO_PHASE = "no phase"


def measure_layers(
    lab: Lab, training: Training, names: tuple[str, ...], *, epoch: int | None = None,
    split: Split = "test", **settings: Any,
) -> list[Numbers]:  # fmt: skip
    """Measure the law of representations in layers of a trained network, as JSON values."""
    run = lab.run(training)
    data = run.samples
    x, y = (data.x, data.y) if split == "train" else (data.x_test, data.y_test)
    x, y = x[: lab.settings["images"]], y[: lab.settings["images"]]
    batches = list(zip(x.split(AT_ONCE), y.split(AT_ONCE), strict=True))
    with quietly():
        found = ls.alignment(
            run.network(epoch), batches, nn.CrossEntropyLoss(), layers=list(names), progress=False,
            null=lab.settings["null"], folds=lab.settings["folds"], **settings,
        )  # fmt: skip
    return [numbers_of(found.layer(name)) for name in names]


def numbers_of(layer: LayerAlignment) -> Numbers:
    """Return JSON values of one layer."""
    fit, spectra = layer.exponents, layer.spectra
    cross = layer.cross
    return drop_non_finite(
        {
            "layer": layer.name, "state": layer.state, "rank99": layer.rank_out,
            "raw": dict(layer.raw), "excess": dict(layer.excess),
            "null": {name: null.mean for name, null in layer.null.items()},
            "sd": {name: null.sd for name, null in layer.null.items()},
            "cross": cross.alignment, "cross_null": cross.null.mean, "cross_sd": cross.null.sd,
            "asymmetry": cross.asymmetry,
            "phase": layer.phase.name, "reason": layer.phase.reason,
            "nearest": layer.phase.nearest, "distance": layer.phase.distance,
            "p": fit and fit.p, "q": fit and fit.q, "alpha": fit and fit.alpha,
            "r2_p": fit and fit.r2_p, "r2_q": fit and fit.r2_q,
            "theorem1": max(layer.forward.residual, layer.backward.residual),
            **{
                f"{way}_{name}": spectra and getattr(getattr(spectra, way), name)
                for way in ("sorted", "in_g", "in_h")
                for name in ("exponent", "r2")
            },
        }
    )  # fmt: skip


def name_phase(phase: str | None) -> str:
    """Return a phase of Table 1 in words; most have a number, two have a name."""
    return NO_PHASE if not phase else f"phase {phase}" if phase.isdigit() else phase


def split_network(network: nn.Module, name: str) -> tuple[nn.Sequential, nn.Sequential]:
    """Return what comes up to the output of a layer, and what follows it."""
    block, _, inside = name.partition(".")
    children = dict(network.named_children())
    names = list(children)
    at = names.index(block)
    parts = [[children[n] for n in names[:at]], [children[n] for n in names[at + 1 :]]]
    if inside:
        own = dict(children[block].named_children())
        place = list(own).index(inside)
        layers = list(own.values())
        parts[0] += layers[: place + 1]
        parts[1] = layers[place + 1 :] + parts[1]
    else:
        parts[0].append(children[block])
    return nn.Sequential(*parts[0]), nn.Sequential(*parts[1])


def gradients_at(after: nn.Module, h: Tensor, y: Tensor) -> Tensor:
    """Return ∂ℓ/∂h of the loss of every sample, shape (n, d)."""
    h = h.detach().requires_grad_()
    loss = torch.nn.functional.cross_entropy(after(h), y, reduction="sum")
    return torch.autograd.grad(loss, h)[0]
