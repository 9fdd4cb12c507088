"""What symmetries cost a network: units that died or became the same, ranks that were lost.

Ziyin 2024, "Symmetry induces structure and constraint of learning".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from lawscope.capture.restore import Mode
from lawscope.capture.session import Loss
from lawscope.checks import is_list
from lawscope.errors import LawscopeError
from lawscope.laws.base import DISTRIBUTED, Law, Settings, option, with_settings_of
from lawscope.laws.control import Control
from lawscope.laws.registry import register
from lawscope.laws.scan import measure_one
from lawscope.laws.symmetry.mirror import check_decay
from lawscope.laws.symmetry.observer import SymmetryObserver
from lawscope.laws.symmetry.result import Symmetry
from lawscope.statistics.memory import parse_memory


def _check_layers(layers: Any) -> str | list[str] | None:
    if layers is None or isinstance(layers, str):
        return layers
    if not is_list(layers) or not all(isinstance(name, str) for name in layers):
        raise LawscopeError(
            f"layers={layers!r} is not known; give a glob or a list of names of stations, as "
            "lawscope.stations shows them, or None for all hidden layers."
        )
    return list(layers)


def _check_share(name: str, value: Any) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1:
        raise LawscopeError(f"{name}={value!r} is not a number from 0 to below 1.")
    return float(value)


@dataclass(frozen=True)
class SymmetrySettings(Settings):
    """The settings of :func:`symmetry`."""

    layers: str | Sequence[str] | None = option(
        None,
        "which layers: a glob, or a list of names of stations; without it every hidden layer that "
        "ends in an activation, or all where none does.",
        convert=_check_layers,
    )
    threshold: float = option(
        0.99,
        "two active units are the same where their outputs correlate by more, up to sign.",
        convert=lambda value: _check_share("threshold", value),
    )
    dead: float = option(
        1e-3,
        "a unit is dead where the standard deviation of its output is at most this share of the "
        "largest in its layer.",
        convert=lambda value: _check_share("dead", value),
    )
    units: int = option(
        512,
        "units of a layer, evenly spaced, of which ranks and correlations are measured; all are "
        "looked at for being dead.",
        least=2,
    )
    memory: str | int = option(
        "512MB",
        "budget for the covariances; fewer units are measured where they do not fit.",
        convert=parse_memory,
    )
    mirror_samples: int = option(
        128,
        "samples, the first ones, on which a loss is measured across the mirror of each layer.",
        least=1,
    )
    decay: float = option(
        0.0,
        "PyTorch's weight_decay in training, which is part of the loss across a mirror.",
        convert=check_decay,
    )
    distributed: bool | None = option(None, DISTRIBUTED)


@with_settings_of(SymmetrySettings)
def symmetry(
    model: nn.Module,
    loader: Any,
    *,
    loss: Loss | None = None,
    control: Control = None,
    mode: Mode = "eval",
    progress: bool | None = None,
    **settings: Any,
) -> Symmetry:
    """Find hidden units that are dead or the same, and the ranks of weights and activations.

    Exchanging two hidden units, flipping or rescaling one, leaves the function of a network as it
    is. Weight decay and gradient noise pull a network towards the points that such a symmetry
    leaves in place, where units are zero or equal and ranks are low (Ziyin 2024).

    Per layer, with σ the singular values of the weight matrix, or of the centred activations:
    effective rank exp(H(σ/Σσ)), stable rank Σσ²/σ_max², participation ratio (Σσ²)²/Σσ⁴. Of a
    convolution every position counts as a row; directions of activations below 0.001 σ_max are
    left out as rounding. Before an activation, maps of more than 16 positions are read at every
    other row and column. One pass, without labels.

    With a loss every layer has a mirror too: of its two most alike units, exchanged, the loss along
    the line to the network's image is c₀s² + c₁s⁴, and where c₀ > 0 they would stay merged; see
    :func:`lawscope.mirror`. Layers that several others read have none.

    Args:
        model: any module; run without gradients, in eval mode by default, and left as found.
        loader: batches, with or without labels; see :func:`lawscope.separation`.
        **settings: the settings below.
        loss: of outputs and labels, the mean over a batch; for mirrors.
        control: the same network untrained; see :func:`lawscope.separation`.
        mode: see :func:`lawscope.separation`.
        progress: show a bar; by default when it takes long and a terminal is there.

    Returns:
        Dead units, groups of identical ones and ranks per layer, verdict and advice.

    Raises:
        LawscopeError: no hidden layer, or activations that are not finite numbers.

    Example:
        >>> import torch
        >>> _ = torch.manual_seed(0)
        >>> net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
        >>> _ = net[0].weight.data[1].copy_(2 * net[0].weight.data[0])
        >>> _ = net[0].bias.data[1].copy_(2 * net[0].bias.data[0])
        >>> _ = net[0].bias.data[3].fill_(-100)
        >>> found = symmetry(net, [torch.randn(50, 3)]).layers[0]
        >>> found.dead.tolist(), [group.tolist() for group in found.groups]
        ([3], [[0, 1]])
    """
    how = {"loss": loss, "mode": mode, "progress": progress}
    return measure_one(SYMMETRY, model, loader, settings, control, **how)


SYMMETRY = register(
    Law(
        name="symmetry",
        title="Symmetry and collapse of units",
        papers=("symmetry",),
        needs=frozenset(),
        settings=SymmetrySettings,
        observe=SymmetryObserver,
        result=Symmetry,
    )
)
