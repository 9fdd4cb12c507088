"""Local elasticity: a step on x moves x′ the more, the more alike they are.

He & Su 2020, "The local elasticity of neural networks".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from lawscope.capture.session import Loss
from lawscope.errors import LawscopeError
from lawscope.laws.base import CLASS_NAMES, DISTRIBUTED, Law, Settings, option, with_settings_of
from lawscope.laws.control import Control
from lawscope.laws.elasticity.observer import ElasticityObserver
from lawscope.laws.elasticity.result import Elasticity
from lawscope.laws.registry import register
from lawscope.laws.scan import measure_one
from lawscope.statistics.memory import parse_memory

MOST_RATE = 1e6


def _check_rate(rate: Any) -> float | None:
    if rate is None:
        return None
    is_number = isinstance(rate, int | float) and not isinstance(rate, bool)
    if not is_number or not 0 < rate < MOST_RATE:
        raise LawscopeError(
            f"rate={rate!r} is not a learning rate; give a positive number or None."
        )
    return float(rate)


@dataclass(frozen=True)
class ElasticitySettings(Settings):
    """The settings of :func:`elasticity`."""

    probes: int | None = option(
        None,
        "samples of a class that steps are taken on, chosen by a hash of their content; by default "
        "8, and down to 4 where their gradients, probes × classes² × weights, exceed 10⁹ numbers.",
        least=2,
        lacks="is too few for a pair",
    )
    classes: int = option(
        10, "most classes that are probed.", least=2, lacks="is too few to compare"
    )
    rate: float | None = option(
        None,
        "learning rate of the step; by default the limit of short steps, where ratios do not "
        "depend on it.",
        convert=_check_rate,
    )
    memory: str | int = option(
        "auto",
        "gradients of single samples are held up to this budget; beyond it they are computed in "
        "blocks, more than once.",
        convert=parse_memory,
    )
    class_names: Sequence[str] | None = option(None, CLASS_NAMES)
    distributed: bool | None = option(None, DISTRIBUTED)


@with_settings_of(ElasticitySettings)
def elasticity(
    model: nn.Module,
    loader: Any,
    loss: Loss | None = None,
    *,
    control: Control = None,
    progress: bool | None = None,
    **settings: Any,
) -> Elasticity:
    """Measure how far a step on one sample moves samples of its own class and of others.

    One step of SGD on a probe x, θ⁺ = θ − η∇ℓ(x), changes the logits of a probe x′ by
    Δf(x′) = f(x′; θ⁺) − f(x′; θ). Over pairs x ≠ x′ of the same class, of other classes, and their
    gap:

    - relative similarity |Δf(x′)|/|Δf(x)| (He & Su 2020);
    - signed similarity ⟨Δf(x′), Δf(x)⟩/|Δf(x)|²: negative where the step moves x′ the other way;
    - kernel K(x, x′)/√(K(x, x)K(x′, x′)), K(x, x′) = Σ_c ⟨∇f_c(x), ∇f_c(x′)⟩ over the logits of the
      classes probed: the limit of small steps, without loss and labels.

    All classes, and all pairs of classes, count alike. Intervals are for the population the probes
    come from, by leaving out one probe at a time: pairs share probes and are not independent.
    Everything is computed in float64 on copies of the weights, in eval mode (BatchNorm with its
    running statistics, no dropout).

    Args:
        model: a classifier; left exactly as found. Only parameters that require gradients move.
        loader: labelled batches, see :func:`lawscope.separation`.
        loss: a function of logits and labels, as in training, that makes sense for one sample. It
            gets the labels of the data, or class numbers if it refuses those.
        **settings: the settings below.
        control: the same network untrained; see :func:`lawscope.separation`.
        progress: show a bar; by default when it takes long and a terminal is there.

    Returns:
        The measurement and its verdict.

    Raises:
        LawscopeError: one class, or fewer than two samples of two classes; NaN; a loss that cannot
            be computed of one sample; fewer logits than classes; no gradient anywhere, or all
            parameters frozen.

    Example:
        >>> import torch
        >>> _ = torch.manual_seed(0)
        >>> y = torch.arange(60) % 3
        >>> x = torch.randn(60, 5) + 3 * torch.eye(5)[y]
        >>> found = elasticity(nn.Linear(5, 3), (x, y), nn.CrossEntropyLoss())
        >>> abs(found.relative.gap - found.linear.gap) < 1e-6, found.verdict
        (True, 'does not hold')
    """
    return measure_one(ELASTICITY, model, loader, settings, control, loss=loss, progress=progress)


ELASTICITY = register(
    Law(
        name="elasticity",
        title="Local elasticity",
        papers=("elasticity",),
        needs=frozenset({"labels", "loss"}),
        settings=ElasticitySettings,
        observe=ElasticityObserver,
        result=Elasticity,
    )
)
