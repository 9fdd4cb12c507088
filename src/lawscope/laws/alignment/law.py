"""The canonical representation hypothesis: representations, gradients and weights align.

Ziyin et al. 2024, "Formation of representations in neural networks".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn

from lawscope.capture.restore import Mode
from lawscope.capture.session import Loss
from lawscope.checks import is_list
from lawscope.errors import LawscopeError
from lawscope.laws.alignment.observer import AlignmentObserver
from lawscope.laws.alignment.result import Alignment
from lawscope.laws.base import DISTRIBUTED, Law, Settings, option, with_settings_of
from lawscope.laws.control import Control
from lawscope.laws.registry import register
from lawscope.laws.scan import measure_one
from lawscope.statistics.memory import parse_memory
from lawscope.whole_number import MOST_FOLDS


def _check_layers(layers: Any) -> str | list[str] | None:
    if layers is None or isinstance(layers, str):
        return layers
    if not is_list(layers) or not len(layers) or not all(isinstance(name, str) for name in layers):
        raise LawscopeError(
            f"layers={layers!r} is not known; give a glob or a list of names of layers with a "
            "weight matrix, or None for all but embeddings and the head."
        )
    return list(layers)


def _check_initial(given: Any) -> Any:
    if given is None or isinstance(given, nn.Module | Mapping):
        return given
    raise LawscopeError(
        f"subtract_initial={given!r} is not a network; pass the one before training, or its "
        "state_dict()."
    )


def _check_kappa(kappa: Any) -> float | None:
    if kappa is None:
        return None
    is_number = isinstance(kappa, int | float) and not isinstance(kappa, bool)
    if not is_number or not 0 <= kappa <= 1:
        raise LawscopeError(
            f"kappa={kappa!r} is not a number from 0 to 1; give the product of 1 − ηλ over all "
            "steps, 1 without weight decay."
        )
    return float(kappa)


@dataclass(frozen=True)
class AlignmentSettings(Settings):
    """The settings of :func:`alignment`."""

    moments: Literal["raw", "centred", "unit"] = option(
        "raw",
        "of h and g: E[h hᵀ] as in the paper, the covariance, or the covariance of rows brought to "
        "length 1.",
    )
    measure: Literal["pearson", "cosine"] = option(
        "pearson",
        "of two matrices: the correlation of their entries, as in the paper, or their cosine.",
    )
    gradient: Literal["loss", "output"] = option(
        "loss",
        "whose gradients g is: of the loss of each sample, or of the outputs, G = E[JᵀJ], as in "
        "the neural feature ansatz.",
    )
    subtract_initial: Any = option(
        None,
        "the network before training, or its state dict: W − κ·W₀ is compared instead of W.",
        convert=_check_initial,
    )
    kappa: float | None = option(
        None,
        "what weight decay has left of W₀, the product of 1 − ηλ over all steps; 1 without decay.",
        convert=_check_kappa,
    )
    null: int = option(
        20,
        "random rotations behind each null; layers wider than 128 get fewer, at least 4.",
        least=2,
        lacks="gives no spread",
    )
    layers: str | Sequence[str] | None = option(
        None,
        "which layers: a glob or a list of their names; without it all but embeddings and the "
        "head.",
        convert=_check_layers,
    )
    heads: bool | None = option(
        None,
        "measure each head of attention by itself; by default where there are at most 48 in all.",
    )
    positions: int = option(
        16,
        "tokens, or positions of a map, that are read of each sample, evenly spread.",
        least=1,
    )
    folds: int = option(
        8,
        "parts of the data that intervals are computed from; fewer where memory= is short.",
        least=3,
        lacks="are too few for an interval",
        most=MOST_FOLDS,
    )
    every: int = option(
        1, "of a training loop that is watched, every how many batches are read.", least=1
    )
    width: int = option(
        4096,
        "most units of either side of a layer; wider ones are measured in the leading directions "
        "of their weight, and a warning says what these hold.",
        least=4,
        lacks="is too narrow",
    )
    samples: int = option(
        16,
        "of a training loop that is watched, how many samples of each batch are read, evenly "
        "spaced.",
        least=1,
    )
    keep: bool = option(
        False, "keep H, G and W of every layer in the result, as matrices; they are not saved."
    )
    memory: str | int = option(
        "auto",
        "budget for the moments: 8 bytes × folds × (d_a² + d_b² + d_a·d_b) a layer.",
        convert=parse_memory,
    )
    distributed: bool | None = option(None, DISTRIBUTED)

    @property
    def takes_targets(self) -> bool:
        return self.gradient == "loss"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.subtract_initial is not None and self.kappa is None:
            raise LawscopeError(
                "subtract_initial= needs kappa=: weight decay shrinks W₀ by κ, the product of "
                "1 − ηλ over all steps (learning rate η, PyTorch's weight_decay λ); give 1 where "
                "there was none."
            )
        if self.subtract_initial is None and self.kappa is not None:
            raise LawscopeError("kappa= is of subtract_initial=, which is not given; give both.")


@with_settings_of(AlignmentSettings)
def alignment(
    model: nn.Module,
    loader: Any,
    loss: Loss | None = None,
    *,
    control: Control = None,
    mode: Mode = "eval",
    progress: bool | None = None,
    **settings: Any,
) -> Alignment:
    """Compare what a layer reads (H), the gradients it gets (G) and its weight (Z).

    Of a layer h_b = W·h_a, with g the gradient of each sample's loss::

        H = E[h hᵀ],   G = E[g gᵀ],   Z_a = WᵀW,   Z_b = WWᵀ

    The canonical representation hypothesis (Ziyin et al. 2024) says that they are proportional on
    both sides: backward (a) and forward (b) H ∝ G (RGA), H ∝ Z (RWA), G ∝ Z (GWA). Each alignment
    stands beside what random rotations leave of it. In the singular basis of W, with z its squared
    singular values, H_a ~ z^p and G_b ~ z^q: the exponents tell the phase of a layer where the
    hypothesis is broken.

    Args:
        model: any module; left as found, in eval mode by default.
        loader: batches; labels are needed only if the loss needs them. Of a text without
            labels the loss gets the logits (n, V) and the next tokens (n,).
        loss: of outputs and labels, as in training; a mean or a sum over samples or tokens, which
            is found by evaluating it. Not needed with ``gradient="output"``.
        **settings: the settings below.
        control: the same network untrained; see :func:`lawscope.separation`.
        mode: see :func:`lawscope.separation`.
        progress: show a bar; by default when it takes long and a terminal is there.

    Returns:
        Alignments with null, excess and interval, exponents and phase per layer; verdict, advice.

    Raises:
        LawscopeError: no loss, no layer with a weight, or a loss that joins its samples otherwise.

    Example:
        >>> import torch
        >>> _ = torch.manual_seed(0)
        >>> net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
        >>> x, y = torch.randn(200, 5), torch.arange(200) % 3
        >>> found = alignment(net, (x, y), nn.CrossEntropyLoss())
        >>> found.layers[0].name, found.layers[0].rows
        ('0', 200)
    """
    if loss is None and settings.get("gradient") == "output":
        loss = sum_outputs
    how = {"loss": loss, "mode": mode, "progress": progress}
    return measure_one(ALIGNMENT, model, loader, settings, control, **how)


def sum_outputs(output: Tensor, _: Tensor | None) -> Tensor:
    """Return a number: gradients of the outputs do not ask for a loss."""
    return output.sum()


ALIGNMENT = register(
    Law(
        name="alignment",
        title="Alignment of representations",
        papers=("representation",),
        needs=frozenset({"loss"}),
        settings=AlignmentSettings,
        observe=AlignmentObserver,
        result=Alignment,
    )
)
