"""Local elasticity along a training, measured on copies of the weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor, nn
from torch.nn import functional as F

from lawscope.capture.functional import join, split
from lawscope.data.batches import Batch
from lawscope.errors import LawscopeError
from lawscope.laws.elasticity.measure import measure_probes
from lawscope.laws.probes import Probes
from lawscope.training.recorders import Recorder
from lawscope.whole_number import whole_number

KINDS, NUMBERS = ("relative", "signed", "kernel"), ("same", "other", "gap")


def _cross_entropy(logits: Tensor, labels: Tensor | None) -> Tensor:
    assert labels is not None
    return F.cross_entropy(logits, labels)


@dataclass(frozen=True)
class ElasticityRecorder(Recorder):
    """Write down the similarities of :func:`lawscope.elasticity` under cross-entropy.

    For each kind ("relative", "signed", "kernel") the numbers "same", "other" and "gap", as in
    ``relative_gap``, and the ends of the gap's interval, ``relative_gap_low`` and ``…_high``. What
    cannot be measured before the first step is an error; later it is NaN, as in a training that
    diverged.

    Attributes:
        probes: samples of a class, chosen once from the training data by their content.
        classes: most classes that are probed.
    """

    probes: int = 8
    classes: int = 10
    kind: ClassVar[str] = "elasticity"

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("probes", self.probes, 2, "is too few for a pair")
        whole_number("classes", self.classes, 2, "is too few to compare")

    def choose(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        if y.is_floating_point():
            raise LawscopeError(
                "elasticity is recorded with class numbers as labels; pass y.long()."
            )
        chosen = Probes(self.probes, self.classes)
        chosen.update(Batch((x,), {}, y), y)
        found = {label: those for label, those in chosen.found().items() if len(those) > 1}
        if len(found) < 2:
            raise LawscopeError("elasticity is recorded with two samples of two classes at least.")
        both = join([sample for those in found.values() for sample in those])
        assert both.labels is not None
        return both.main, both.labels

    def record(
        self, step: int, model: nn.Module, batch: tuple[Tensor, Tensor], loss: Tensor
    ) -> Mapping[str, float]:
        samples = split(Batch((batch[0],), {}, batch[1]))
        labels, classes = np.unique(batch[1].cpu().numpy(), return_inverse=True)
        names = [f"{kind}_{name}" for kind in KINDS for name in (*NUMBERS, "gap_low", "gap_high")]
        try:
            found = measure_probes(model, samples, classes, _cross_entropy, labels=labels.tolist())
        except LawscopeError:
            if step == 0:
                raise
            return dict.fromkeys(names, math.nan)
        values = []
        for gap in (found.relative, found.signed, found.kernel):
            values += [gap.same, gap.other, gap.gap]
            values += gap.interval.get("gap", (math.nan, math.nan))
        return dict(zip(names, values, strict=True))
