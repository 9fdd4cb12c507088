"""The loss along the line between a network and its mirror image.

A mirror R exchanges two hidden units, or flips one. With θ_sym = (θ + Rθ)/2 and n ∝ θ − Rθ the loss
is even in s along θ_sym + s·n, and ℓ(s) − ℓ(0) ≈ c₀s² + c₁s⁴ (Ziyin 2024): where c₀ > 0 the
symmetric point, units merged or zero, is stable; where c₀ < 0 units part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from lawscope.arrays import FloatArray
from lawscope.capture.chains import Chain, find_chains
from lawscope.capture.outputs import find_logits
from lawscope.capture.restore import turn, unwrap
from lawscope.capture.session import Loss, Session
from lawscope.capture.taps import OnePass, Tap
from lawscope.capture.trace import join_name
from lawscope.checks import checked, is_list
from lawscope.data.batches import Batch
from lawscope.data.source import Source
from lawscope.errors import LawscopeError
from lawscope.formatting import name_some, number
from lawscope.result import Result
from lawscope.section import KeyNumber, Lines, Section
from lawscope.whole_number import is_whole

STEPS = np.array([0.25, 0.5, 0.75, 1.0])  # of the way to the network, on each side
ODD = 0.01  # oddness above which the mirror is none
AWAY = 0.1  # of the size of the units, how far to look where they are the same already


@dataclass(frozen=True, eq=False, repr=False)
class Mirror(Result):
    """The loss across a mirror.

    Attributes:
        layer: module path of the layer.
        units: two that are exchanged, or one that is flipped.
        c0: coefficient of s²; positive where the symmetric point is stable.
        c1: coefficient of s⁴.
        oddness: largest |ℓ(s) − ℓ(−s)| as a share of the largest |ℓ(s) − ℓ(0)|; 0 of an exact
            mirror.
        place: s of the network itself; 0 where its units are merged already.
        s: where the loss was measured.
        losses: ℓ(s) − ℓ(0), decay included, shape of ``s``.
    """

    schema: ClassVar[str] = "lawscope.mirror/1"
    layer: str
    units: tuple[int, ...]
    c0: float
    c1: float
    oddness: float
    place: float
    s: FloatArray
    losses: FloatArray

    def section(self) -> Section:
        """Return the loss across the mirror, and its fit."""
        fitted = self.c0 * self.s**2 + self.c1 * self.s**4
        return Section(
            title="Loss across a mirror",
            headline=str(self),
            numbers=[
                KeyNumber("c₀", number(self.c0), "of s²; positive where merging is stable"),
                KeyNumber("c₁", number(self.c1), "of s⁴"),
                KeyNumber("oddness", number(self.oddness), "0 of an exact mirror"),
            ],
            charts=[
                Lines(
                    title="Loss across the mirror",
                    names=["measured", "c₀s² + c₁s⁴"],
                    values=np.stack([self.losses, fitted]),
                    x=self.s,
                    x_label="s",
                    y_label="ℓ(s) − ℓ(0)",
                )
            ],
            papers=("symmetry",),
        )

    def __str__(self) -> str:
        what = "exchanged" if len(self.units) == 2 else "flipped"
        those = " and ".join(map(str, self.units))
        measured = (
            f"units {those} of '{self.layer}' {what}: c₀ = {number(self.c0)}, "
            f"c₁ = {number(self.c1)}, oddness {number(self.oddness)}"
        )
        if self.oddness > ODD:
            return f"{measured}; the loss is not the same on both sides, so this is not a mirror"
        stable = "stable" if self.c0 > 0 else "not stable"
        return f"{measured}; the symmetric point is {stable}"


@checked
def mirror(
    model: nn.Module,
    loader: Any,
    loss: Loss,
    layer: str,
    units: int | Sequence[int],
    *,
    decay: float = 0.0,
) -> Mirror:
    """Measure the loss between a network and its image with two units exchanged, or one flipped.

    Args:
        model: the network; run in eval mode and left as found.
        loader: batches that can be read several times.
        loss: a function of output and labels that gives the mean over a batch.
        layer: module path of a layer whose units only one other layer reads.
        units: two units to exchange, or one whose incoming and outgoing weights change their sign.
            Exchange is a symmetry of every network, the flip of those with odd activations (tanh):
            ``oddness`` says.
        decay: PyTorch's ``weight_decay`` λ in training: (λ/2)‖θ‖² is part of the loss.

    Returns:
        c₀, c₁ and oddness of the full loss.

    Raises:
        LawscopeError: no such layer or unit, or a unit that has no weights.

    Example:
        >>> _ = torch.manual_seed(0)
        >>> net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        >>> x = torch.randn(40, 3)
        >>> found = mirror(net, [(x, x[:, :1])], nn.functional.mse_loss, "0", (1, 2))
        >>> found.oddness < 1e-3
        True
    """
    if not callable(loss):
        raise LawscopeError(f"loss={loss!r} cannot be called; give a function of output, labels.")
    check_decay(decay)
    source = Source(loader).read_several_times()
    with turn:
        session = Session(unwrap(model), source)
        chain = _choose_chain(session, layer)
        chosen = _check_units(units, chain)
        tensors = _tensors_of(session.model, chain)

        def measure() -> float:
            found = MeanLoss(session, loss)
            session.run([found])
            return found.total / found.samples + _penalty(session.model, decay)

        return _fit(tensors, chosen, chain, measure)


def check_decay(decay: Any) -> float:
    """Refuse what is not a weight decay."""
    if not isinstance(decay, int | float) or isinstance(decay, bool) or not 0 <= decay < 1e6:
        raise LawscopeError(f"decay={decay!r} is not a number from 0.")
    return float(decay)


def _fit(tensors: list[Tensor], units: tuple[int, ...], chain: Chain, measure: Any) -> Mirror:
    """Move the units along the line, measure, and put them back."""
    kept = [tensor.detach().clone() for tensor in tensors]
    images = [_reflect(tensor, units) for tensor in kept]
    middle = [(a + b) / 2 for a, b in zip(kept, images, strict=True)]
    away = [a - m for a, m in zip(kept, middle, strict=True)]
    place = _norm(away)
    reach = place
    if place == 0:
        # The units are the same: any direction that the mirror reverses will do.
        generator = torch.Generator().manual_seed(0)
        drawn = [torch.randn(t.shape, generator=generator).to(t) for t in kept]
        away = [(d - _reflect(d, units)) / 2 for d in drawn]
        reach = AWAY * (_norm([t[:, units] for t in kept]) or 1.0)
    length = _norm(away)
    if not length:
        raise LawscopeError("These units have no weights to move.")
    s = reach * np.concatenate([-STEPS[::-1], [0.0], STEPS])
    losses = []
    try:
        for step in s:
            with torch.no_grad():
                for tensor, m, a in zip(tensors, middle, away, strict=True):
                    tensor.copy_(m + float(step) / length * a)
            losses.append(measure())
    finally:
        with torch.no_grad():
            for tensor, old in zip(tensors, kept, strict=True):
                tensor.copy_(old)
    if not np.isfinite(losses).all():
        raise LawscopeError("The loss is NaN or infinite across the mirror; look at the weights.")
    values = np.array(losses) - losses[len(STEPS)]
    powers = np.stack([(s / reach) ** 2, (s / reach) ** 4], axis=1)
    c0, c1 = np.linalg.lstsq(powers, values, rcond=None)[0] / [reach**2, reach**4]
    largest = float(np.abs(values).max())
    odd = float(np.abs(values - values[::-1]).max())
    oddness = odd / largest if largest else 0.0
    name = join_name(chain.first)
    return Mirror(name, units, float(c0), float(c1), oddness, place, s, values)


def _choose_chain(session: Session, layer: str) -> Chain:
    chains, refused = find_chains(session)
    for chain in chains:
        if layer == join_name(chain.first):
            return chain
    why = refused.get(layer, "") if isinstance(layer, str) else ""
    names = [join_name(chain.first) for chain in chains]
    raise LawscopeError(
        f"layer={layer!r} has no mirror that could be measured{f': {why}' if why else '.'} There "
        f"are {name_some(names, 8) or 'none'}."
    )


def _check_units(units: Any, chain: Chain) -> tuple[int, ...]:
    given = (units,) if is_whole(units) else units
    if not is_list(given) or len(given) not in (1, 2) or not all(map(is_whole, given)):
        raise LawscopeError(f"units={units!r} is not a unit to flip, nor a pair to exchange.")
    chosen = tuple(int(unit) for unit in given)
    if len(set(chosen)) < len(chosen) or not all(0 <= unit < chain.units for unit in chosen):
        raise LawscopeError(
            f"units={units!r} are not different units of '{chain.first}', which has {chain.units}."
        )
    return chosen


def _tensors_of(model: nn.Module, chain: Chain) -> list[Tensor]:
    """Return views (…, units, …) of all that belongs to each unit: outgoing weights come first."""
    second: Any = model.get_submodule(chain.second)
    weight = second.weight.detach()
    views = [weight.view(weight.shape[0], chain.units, -1)]
    for path in (chain.first, *chain.between):
        module = model.get_submodule(path)
        for tensor in (*module._parameters.values(), *module._buffers.values()):
            if tensor is not None and tensor.dim() and len(tensor) == chain.units:
                views.append(tensor.detach().view(1, chain.units, -1))
    return views


def _reflect(tensor: Tensor, units: tuple[int, ...]) -> Tensor:
    """Return the image: two units exchanged, or one with its sign changed."""
    image = tensor.clone()
    if len(units) == 2:
        image[:, list(units)] = tensor[:, list(units[::-1])]
    else:
        image[:, units[0]] = -tensor[:, units[0]]
    return image


def _norm(tensors: Sequence[Tensor]) -> float:
    return float(sum(float(t.double().square().sum()) for t in tensors) ** 0.5)


def measure_mirrors(
    session: Session,
    batches: Sequence[Batch],
    loss: Loss,
    pairs: Mapping[str, tuple[int, ...]],
    decay: float = 0.0,
) -> dict[str, Mirror]:
    """Return the mirrors of several layers, on a few batches.

    Args:
        session: the network; left as found.
        batches: samples to measure the loss on.
        loss: a function of output and labels that gives the mean over a batch.
        pairs: module paths of layers, and their units to exchange or to flip. Layers that several
            others read have no mirror, and are left out.
        decay: PyTorch's ``weight_decay`` in training.
    """
    measure = partial(_mean_loss, session, batches, loss, decay)
    return {
        chain.first: _fit(_tensors_of(session.model, chain), pairs[chain.first], chain, measure)
        for chain in find_chains(session)[0]
        if chain.first in pairs and max(pairs[chain.first]) < chain.units
    }


def _mean_loss(session: Session, batches: Sequence[Batch], loss: Loss, decay: float) -> float:
    total = 0.0
    for batch in batches:
        output = session.look(
            lambda model, given: model(*given.args, **given.kwargs),
            session.fit(batch.head(batch.size), all_logits=True),
        )
        total += _loss_of(loss, output, batch) * batch.size
    return total / sum(batch.size for batch in batches) + _penalty(session.model, decay)


def _penalty(model: nn.Module, decay: float) -> float:
    """Return (λ/2)‖θ‖²."""
    parameters = [p for p in model.parameters() if p.is_floating_point()]
    return decay / 2 * sum(float(p.detach().double().square().sum()) for p in parameters)


def _loss_of(loss: Loss, output: Any, batch: Batch) -> float:
    logits = find_logits(output)
    if logits is None:
        raise LawscopeError("The network returns no tensor to compute a loss of.")
    labels = None if batch.labels is None else batch.labels.to(logits.device)
    try:
        with torch.no_grad():
            return float(loss(logits, labels))
    except Exception as error:
        raise LawscopeError(f"The loss raised {type(error).__name__}: {error}.") from error


class MeanLoss(OnePass):
    """The mean loss over all samples."""

    def __init__(self, session: Session, loss: Loss) -> None:
        self.wanted, self.loss = [Tap(session.stations.all[0], rows="raw")], loss
        self.total, self.samples = 0.0, 0
        self.batch: Batch

    def begin_batch(self, batch: Batch) -> None:
        self.batch = batch

    def see_output(self, output: Any) -> None:
        value = _loss_of(self.loss, output, self.batch)
        self.total += value * self.batch.size
        self.samples += self.batch.size
