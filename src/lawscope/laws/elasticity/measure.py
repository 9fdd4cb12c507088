"""All that is measured on probes: effects of steps, the kernel, and a linear classifier beside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from lawscope.arrays import FloatArray, IntArray
from lawscope.capture.functional import WeightFunction
from lawscope.capture.session import Loss
from lawscope.data.batches import Batch
from lawscope.errors import NotApplicableError
from lawscope.laws.elasticity.effects import measure_limit, measure_steps
from lawscope.laws.elasticity.kernel import multiply_gradients, normalise
from lawscope.progress import Advance
from lawscope.statistics.class_pairs import PairGap, compute_class_pairs, compute_pair_gap


@dataclass(frozen=True, eq=False)
class Measured:
    """Pairs of probes of the same and of other classes.

    Attributes:
        relative: of |Δf(x′)|/|Δf(x)|.
        signed: of ⟨Δf(x′), Δf(x)⟩/|Δf(x)|².
        kernel: of K(x, x′)/√(K(x, x) K(x′, x′)).
        linear: of the relative similarity of a linear classifier, or None.
        excess: of the relative similarity less that of the linear classifier, or None.
        classwise: mean relative similarity of x of class k (row), x′ of class l, shape (K, K).
        classes: positions of the classes that are left, shape (K,).
        probes: used of each of these.
        still: probes without a gradient, which were left out.
        nonlinearity: of the steps.
        one_by_one: why gradients of single samples were not computed together, or empty.
    """

    relative: PairGap
    signed: PairGap
    kernel: PairGap
    linear: PairGap | None
    excess: PairGap | None
    classwise: FloatArray
    classes: IntArray
    probes: IntArray
    still: int
    nonlinearity: float
    one_by_one: str


def measure_probes(
    model: nn.Module,
    samples: Sequence[Batch],
    classes: IntArray,
    loss: Loss,
    *,
    labels: Sequence[int] = (),
    rate: float | None = None,
    memory: int = 10**9,
    advance: Advance = lambda steps: None,
) -> Measured:
    """Take a step on every probe and compare pairs.

    Args:
        model: left as it is found.
        samples: the probes, batches of one sample each.
        classes: of the probes, numbered from 0.
        loss: of one sample.
        labels: of the classes, as numbers, for a loss that takes no others; they tell the logits
            that the kernel sums over, which are all without them.
        rate: see :func:`~lawscope.laws.elasticity.effects.measure_steps`.
        memory: bytes of gradients held at a time.
        advance: told of every probe done.
    """
    function = WeightFunction(model, samples, loss)
    first = [int(np.flatnonzero(classes == k)[0]) for k in range(int(classes.max()) + 1)]
    with function.running():
        width = function.check().shape[1]
        if labels:
            function.fit_labels([int(labels[k]) for k in classes])
        known = bool(labels) and all(0 <= label < width for label in labels)
        columns = list(labels) if known else list(range(width))
        # The gradients of a logit cost about three steps.
        if rate is None and 3 * (width - len(columns)) <= len(samples):
            products = multiply_gradients(function, columns, memory, width, advance)
            effects = measure_limit(function, products.changes, first)
        else:
            effects = measure_steps(function, rate, memory, first, advance)
            products = multiply_gradients(function, columns, memory)
        kernel = normalise(products.kernel)
    moved = np.isfinite(effects.relative).all(axis=1) & np.isfinite(np.diag(kernel))
    left, number, counts = np.unique(classes[moved], return_inverse=True, return_counts=True)
    enough = np.flatnonzero(counts >= 2)
    if len(enough) < 2:
        raise NotApplicableError(
            f"The loss has no gradient at {(~moved).sum()} of {len(moved)} probes, so that fewer "
            "than two classes are left with two probes each; a step there moves nothing."
        )
    used = np.flatnonzero(moved)[np.isin(number, enough)]
    classes = np.searchsorted(left[enough], classes[used])
    pick = np.ix_(used, used)
    line = compare_linear(samples)
    relative = effects.relative[pick]
    return Measured(
        relative=compute_pair_gap(relative, classes),
        signed=compute_pair_gap(effects.signed[pick], classes),
        kernel=compute_pair_gap(kernel[pick], classes),
        linear=None if line is None else compute_pair_gap(line[pick], classes),
        excess=None if line is None else compute_pair_gap(relative - line[pick], classes),
        classwise=compute_class_pairs(relative, classes),
        classes=left[enough],
        probes=counts[enough],
        still=int((~moved).sum()),
        nonlinearity=effects.nonlinearity,
        one_by_one=function.one_by_one,
    )


def compare_linear(samples: Sequence[Batch]) -> FloatArray | None:
    """Return |x·x′ + 1| / (x·x + 1): the relative similarity of a linear classifier, (n, n).

    Of f(x) = Wx + b a step on x changes f(x′) by −η(x·x′ + 1) ∂ℓ/∂f, whatever W, b and the loss
    are. None where inputs are not numbers, or of different shapes.
    """
    inputs = [sample.main for sample in samples]
    if len({each.shape for each in inputs}) > 1 or not inputs[0].is_floating_point():
        return None
    rows = torch.cat([each.reshape(1, -1) for each in inputs]).double()
    gram = rows @ rows.T + 1
    return np.asarray((gram / gram.diagonal()[:, None]).abs().cpu())
