"""Are two networks in one valley? The loss on the straight line between them.

With symmetries a network has images all over weight space, and between two that were trained apart
stands a barrier (Frankle et al. 2020); without them it should go. Unlike ranks of weights, this
does not count a random point that was put into them.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from lawscope.arrays import FloatArray
from lawscope.capture.restore import turn, unwrap
from lawscope.capture.session import Loss, Session
from lawscope.checks import checked
from lawscope.data.source import Source
from lawscope.errors import LawscopeError
from lawscope.formatting import number
from lawscope.laws.symmetry.mirror import MeanLoss
from lawscope.lazy import pd
from lawscope.result import Result
from lawscope.section import KeyNumber, Lines, Section
from lawscope.whole_number import whole_number


@dataclass(frozen=True, eq=False, repr=False)
class ModeConnectivity(Result):
    """The loss on the line between two networks.

    Attributes:
        alpha: shares of the second network, from 0 to 1.
        losses: at each of these, shape of ``alpha``.
        renewed: norms whose running statistics were measured anew at every point.
    """

    schema: ClassVar[str] = "lawscope.mode_connectivity/1"
    alpha: FloatArray
    losses: FloatArray
    renewed: int = 0

    @property
    def excess(self) -> FloatArray:
        """The loss above the straight line between its values at both ends."""
        ends = (1 - self.alpha) * self.losses[0] + self.alpha * self.losses[-1]
        return np.asarray(self.losses - ends)

    @property
    def barrier(self) -> float:
        """The largest excess; 0 where the loss never rises above the line."""
        return float(self.excess.max())

    def table(self) -> pd.DataFrame:
        """Return the loss along the line."""
        return pd.DataFrame({"alpha": self.alpha, "loss": self.losses, "excess": self.excess})

    def section(self) -> Section:
        chart = Lines(
            title="Loss between two networks",
            names=["loss", "line between its ends"],
            values=np.stack([self.losses, self.losses - self.excess]),
            x=self.alpha,
            x_label="share of the second network",
            y_label="loss",
        )
        renewed = f"Running statistics of {self.renewed} norms measured anew at every point."
        return Section(
            title="Linear mode connectivity",
            headline=str(self),
            numbers=[KeyNumber("barrier", number(self.barrier), "loss above the line")],
            charts=[chart],
            findings=[renewed] if self.renewed else [],
            about=[
                "Barrier: the largest of L((1 − α)θ_a + αθ_b) − (1 − α)L(θ_a) − αL(θ_b) over the "
                "points measured (Frankle, Dziugaite, Roy & Carbin 2020)."
            ],
        )

    def __str__(self) -> str:
        where = float(self.alpha[int(self.excess.argmax())])
        first, last = number(float(self.losses[0])), number(float(self.losses[-1]))
        return (
            f"barrier {number(self.barrier)} at α = {where:g} between two networks of loss {first} "
            f"and {last}"
        )


@checked
def mode_connectivity(
    model_a: nn.Module, model_b: nn.Module, loader: Any, loss: Loss, *, points: int = 11
) -> ModeConnectivity:
    """Measure the loss on the straight line between two networks.

    Permuted, flipped or rescaled, a network is another point of weight space with the same
    function, and a line between two such points climbs. :func:`remove_symmetry` takes these images
    away; whether it did is seen here, on networks trained from different initialisations.

    Args:
        model_a: a network; run in eval mode, and left as found, as is the other.
        model_b: another of the same shapes.
        loader: batches that can be read several times.
        loss: a function of output and labels that gives the mean over a batch.
        points: on the line, both ends included. Running statistics of BatchNorm mean nothing
            between two networks, so that they are measured anew on the data at every point.

    Raises:
        LawscopeError: the networks differ in their parameters' names or shapes, or in buffers
            other than those of BatchNorm; or the data can be read only once.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> x = torch.randn(30, 3)
        >>> one, other = nn.Linear(3, 1), nn.Linear(3, 1)
        >>> found = mode_connectivity(one, other, [(x, x[:, :1])], nn.functional.mse_loss)
        >>> found.barrier  # a linear network has one valley
        0.0
    """
    if not callable(loss):
        raise LawscopeError(f"loss={loss!r} cannot be called; give a function of output, labels.")
    points = whole_number("points", points, 3, "leaves nothing between the networks")
    source = Source(loader).read_several_times()
    first, second = unwrap(model_a), unwrap(model_b)
    _check_alike(first, second)
    ends = [{n: p.detach() for n, p in each.named_parameters()} for each in (first, second)]
    alpha = np.linspace(0, 1, points)
    losses = []
    with turn:
        between = copy.deepcopy(first).eval()
        norms = [m for m in between.modules() if isinstance(m, _BatchNorm) and _keeps(m)]
        session = Session(between, source)
        for share in alpha:
            with torch.no_grad():
                for name, parameter in between.named_parameters():
                    parameter.copy_(torch.lerp(*_at(name, ends, parameter), float(share)))
            if norms:
                _renew(between, norms, session, source)
            found = MeanLoss(session, loss)
            session.run([found])
            losses.append(found.total / found.samples)
    if not np.isfinite(losses).all():
        raise LawscopeError(
            "The loss is NaN or infinite between the networks; look at their weights."
        )
    return ModeConnectivity(alpha, np.array(losses), len(norms))


def _at(name: str, ends: list[dict[str, Tensor]], like: Tensor) -> tuple[Tensor, Tensor]:
    first, second = (end[name].to(like.device, torch.float64) for end in ends)
    return first, second


def _keeps(norm: _BatchNorm) -> bool:
    return norm.running_mean is not None


def _renew(model: nn.Module, norms: list[_BatchNorm], session: Session, source: Source) -> None:
    """Measure the running statistics of norms on all data; all else stays in eval mode."""
    kept = [norm.momentum for norm in norms]
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean over batches
        norm.train()
    try:
        with torch.no_grad():
            for batch in source:
                given = session.fit(batch.head(batch.size))
                model(*given.args, **given.kwargs)
    finally:
        for norm, momentum in zip(norms, kept, strict=True):
            norm.momentum = momentum
            norm.eval()


def _check_alike(first: nn.Module, second: nn.Module) -> None:
    """Refuse two networks between which there is no line."""
    shapes = [{n: p.shape for n, p in each.named_parameters()} for each in (first, second)]
    for name in [*shapes[0], *shapes[1]]:
        one, other = (tuple(own[name]) if name in own else "no such parameter" for own in shapes)
        if one != other:
            raise LawscopeError(
                f"The networks differ in {name}: {one} and {other}; give two of the same shapes."
            )
    statistics = {
        f"{path}.{name}" if path else name
        for path, module in first.named_modules()
        if isinstance(module, _BatchNorm)
        for name, _ in module.named_buffers(recurse=False)
    }
    others = dict(second.named_buffers())
    for name, buffer in first.named_buffers():
        twin = others.get(name)
        same = twin is not None and torch.equal(buffer.cpu(), twin.cpu())
        if name not in statistics and not same:
            raise LawscopeError(
                f"The buffer {name} differs between the networks, and what lies between is not "
                "known; give both the same."
            )
