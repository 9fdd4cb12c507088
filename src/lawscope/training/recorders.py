"""What is written down during training, every so many steps.

A recorder is a frozen dataclass: two of equal settings write down the same. It is called after the
gradients of a step are there and before the weights move, so that step 0 is the untrained network.
It must leave the model as it finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, ClassVar

from lawscope.errors import LawscopeError

if TYPE_CHECKING:
    from torch import Tensor, nn

    Batch = tuple[Tensor, Tensor]
    Record = dict[str, Tensor]
    Note = Callable[[nn.Module, Batch, Tensor], None]


@dataclass(frozen=True)
class Recorder:
    """Write down numbers every ``every`` steps; subclasses say which."""

    every: int = 1
    kind: ClassVar[str] = ""

    def __post_init__(self) -> None:
        if self.every < 1:
            raise LawscopeError(f"a recorder needs every=1 or more, got {self.every}.")

    @property
    def name(self) -> str:
        """What its records are stored under."""
        settings = ", ".join(f"{name}={value}" for name, value in asdict(self).items())
        return f"{self.kind}({settings})"

    def record(
        self, step: int, model: nn.Module, batch: Batch, loss: Tensor
    ) -> Mapping[str, float]:
        """Return the numbers of one step, of a model that has its gradients."""
        raise NotImplementedError


class Records:
    """The records of one training, gathered step by step."""

    def __init__(self, recorders: Sequence[Recorder]) -> None:
        self._recorders = recorders
        self._rows: dict[str, list[dict[str, float]]] = {r.name: [] for r in recorders}
        self._step = 0

    def note(self, model: nn.Module, batch: Batch, loss: Tensor) -> None:
        """Let every recorder that is due write down its numbers; call it once a step."""
        for recorder in self._recorders:
            if self._step % recorder.every == 0:
                numbers = recorder.record(self._step, model, batch, loss)
                self._rows[recorder.name].append({"step": self._step, **numbers})
        self._step += 1

    def tensors(self) -> dict[str, Record]:
        """Return, by the name of the recorder, one float64 vector for each number and ``step``."""
        import torch

        return {
            name: {
                number: torch.tensor([row[number] for row in rows], dtype=torch.float64)
                for number in (rows[0] if rows else ())
            }
            for name, rows in self._rows.items()
        }
