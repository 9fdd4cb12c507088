"""Conservation laws: what each continuous symmetry conserves, and where gradient noise drives it.

Ziyin et al. 2024, "Parameter symmetry and noise equilibrium of stochastic gradient descent".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn

from lawscope.capture.restore import Mode
from lawscope.capture.session import Loss
from lawscope.laws.base import DISTRIBUTED, Law, Settings, option, with_settings_of
from lawscope.laws.conservation.observer import ConservationObserver
from lawscope.laws.conservation.result import Conservation
from lawscope.laws.control import Control
from lawscope.laws.registry import register
from lawscope.laws.scan import measure_one
from lawscope.statistics.memory import parse_memory


@dataclass(frozen=True)
class ConservationSettings(Settings):
    """The settings of :func:`conservation`."""

    samples: int | None = option(
        None,
        "samples, chosen by a hash of their content, whose gradients are taken one by one; fewer "
        "than 1000 give no interval and no verdict. By default 1000, or none where they would take "
        "minutes.",
        least=2,
        lacks="is too few for a spread",
    )
    memory: str | int = option(
        "1GB",
        "budget for the samples that are kept; fewer are where they do not fit.",
        convert=parse_memory,
    )
    distributed: bool | None = option(None, DISTRIBUTED)


@with_settings_of(ConservationSettings)
def conservation(
    model: nn.Module,
    loader: Any,
    loss: Loss | None = None,
    *,
    control: Control = None,
    mode: Mode = "eval",
    progress: bool | None = None,
    **settings: Any,
) -> Conservation:
    """Measure what training conserves, and how far scales are from where its noise drives them.

    Every continuous symmetry of the network, found and verified by :func:`find_symmetries`, has a
    charge that gradient flow conserves (:func:`charges`). Gradient noise moves the charges of
    rescalings until each unit has the scale at which λ* = ¼ ln(E|g_in|²/E|g_out|²) is 0
    (:func:`noise_equilibrium`); the distance from there is the root mean square of λ* over units.
    Labels are needed only by the loss. Gradients are computed in float64 on copies of the weights,
    in eval mode.

    Args:
        model: any module; left exactly as found.
        loader: batches, with or without labels.
        loss: a function of output and labels, as in training, that makes sense for one sample. Of
            data without labels it gets None for them.
        **settings: the settings below.
        control: the same network untrained; see :func:`lawscope.separation`.
        mode: in which symmetries are looked for; "train" lets BatchNorm use the statistics of each
            batch, as training does.
        progress: show a bar; by default when it takes long and a terminal is there.

    Returns:
        The charge of every symmetry, the distance from noise equilibrium, verdict and advice.

    Raises:
        LawscopeError: the network has no continuous symmetry, or only of frozen parameters; the
            loss cannot be computed.

    Example:
        >>> import torch
        >>> _ = torch.manual_seed(0)
        >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> found = conservation(net, [torch.randn(1000, 4)], lambda out, _: out.square().mean())
        >>> [(one.kind, one.numbers) for one in found.charges], found.distance.units
        ([('rescaling', 8)], 8)
    """
    how = {"loss": loss, "mode": mode, "progress": progress}
    return measure_one(CONSERVATION, model, loader, settings, control, **how)


CONSERVATION = register(
    Law(
        name="conservation",
        title="Conservation laws and noise equilibrium",
        papers=("noise_equilibrium", "neural_mechanics", "conserved"),
        needs=frozenset({"loss"}),
        settings=ConservationSettings,
        observe=ConservationObserver,
        result=Conservation,
    )
)
