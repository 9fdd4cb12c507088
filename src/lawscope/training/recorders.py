"""What is written down during training, every so many steps.

A recorder is a frozen dataclass: two of equal settings write down the same. It is called after the
gradients of a step are there and before the weights move, so that step 0 is the untrained network.
It must leave the model as it finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from lawscope.errors import LawscopeError
from lawscope.lazy import Tensor, nn, torch
from lawscope.whole_number import whole_number

Batch = tuple[Tensor, Tensor]
Record = dict[str, Tensor]
Note = Callable[["nn.Module", Batch, Tensor], None]


@dataclass(frozen=True)
class Recorder:
    """Write down numbers every ``every`` steps; subclasses say which."""

    every: int = 1
    kind: ClassVar[str] = ""

    def __post_init__(self) -> None:
        whole_number("every", self.every, 1, "is not a number of steps")

    @property
    def name(self) -> str:
        """What its records are stored under."""
        settings = ", ".join(f"{name}={value}" for name, value in asdict(self).items())
        return f"{self.kind}({settings})"

    def choose(self, x: Tensor, y: Tensor) -> Batch | None:
        """Return the samples of the training data to look at; None: those of each step."""
        return None

    def record(
        self, step: int, model: nn.Module, batch: Batch, loss: Tensor
    ) -> Mapping[str, float | Tensor]:
        """Return the numbers, or tensors, of one step, of a model that has its gradients.

        ``batch`` is that of the step, or what the recorder chose before the first.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class LogitMeans(Recorder):
    """Mean logits of each class over fixed samples in eval mode, ``means`` of shape (K, p).

    Of networks in lock-step, whose logits have shape (trials, n, p), it is (trials, K, p). Beside
    them stands ``rounding``, the relative precision of the logits.

    Attributes:
        per_class: how many samples of each class, the first ones of the training data.
    """

    per_class: int = 60
    kind: ClassVar[str] = "logit-means"

    def __post_init__(self) -> None:
        super().__post_init__()
        whole_number("per_class", self.per_class, 1, "is too few")

    def choose(self, x: Tensor, y: Tensor) -> Batch:
        if y.dim() != 1 or y.is_floating_point():
            raise LawscopeError(
                f"Mean logits are recorded with one class number per sample as labels, and y is "
                f"{y.dtype} of shape {tuple(y.shape)}; pass y.long(), or y.argmax(1) of one-hot "
                "labels."
            )
        if len(y.unique()) < 2:
            raise LawscopeError("Mean logits are recorded of two classes at least.")
        rows = [(y == label).nonzero()[: self.per_class, 0] for label in y.unique()]
        return x[torch.cat(rows)], y[torch.cat(rows)]

    def record(
        self, step: int, model: nn.Module, batch: Batch, loss: Tensor
    ) -> Mapping[str, float | Tensor]:
        from lawscope.capture.outputs import find_logits

        modes = [(module, module.training) for module in model.modules()]
        try:
            with torch.no_grad():
                logits = find_logits(model.eval()(batch[0]))
        finally:
            for module, training in modes:
                module.training = training
        if logits is None:
            raise LawscopeError("The network returns no tensor, so there are no logits to record.")
        rounding = torch.finfo(logits.dtype).eps
        return {"means": average_classes(logits, batch[1]), "rounding": rounding}


def average_classes(logits: Tensor, y: Tensor) -> Tensor:
    """Return the means of logits (…, n, p) over the classes of labels (n,), (…, K, p), float64."""
    rows = [logits[..., y == label, :].double().mean(dim=-2) for label in y.unique()]
    return torch.stack(rows, dim=-2)


def stack_means(records: Sequence[Record]) -> dict[str, Any]:
    """Return steps (T,), means (trials, T, K, p) and rounding of records of :class:`LogitMeans`.

    One record of networks in lock-step, or one of each network; all at the same steps. They are the
    arguments of :class:`lawscope.ElasticTrajectory`.
    """
    if not records:
        raise LawscopeError("There are no records; give that of one training at least.")
    for record in records:
        if not torch.equal(record["step"], records[0]["step"]):
            raise LawscopeError("the trainings were recorded at different steps; use one every=.")
    means = [r["means"].movedim(0, -3).reshape(-1, len(r["step"]), *r["means"].shape[-2:])
             for r in records]  # fmt: skip
    rounding = max(float(record["rounding"].max()) for record in records)
    return {"steps": records[0]["step"], "means": torch.cat(means), "rounding": rounding}


class Records:
    """The records of one training on samples ``x`` and labels ``y``, gathered step by step."""

    def __init__(self, recorders: Sequence[Recorder], x: Tensor, y: Tensor) -> None:
        for recorder in recorders if isinstance(recorders, list | tuple) else [recorders]:
            if not isinstance(recorder, Recorder):
                raise LawscopeError(f"{recorder!r} is not a recorder; give a list of recorders.")
        if not (isinstance(x, torch.Tensor) and isinstance(y, torch.Tensor)):
            raise LawscopeError("x and y are not tensors of the samples and their labels.")
        if len(x) != len(y):
            raise LawscopeError(
                f"There are {len(x)} samples and {len(y)} labels; one label per sample is needed."
            )
        self._recorders = recorders
        self._chosen = {recorder.name: recorder.choose(x, y) for recorder in recorders}
        self._rows: dict[str, list[dict[str, float | Tensor]]] = {r.name: [] for r in recorders}
        self._step = 0

    def note(self, model: nn.Module, batch: Batch, loss: Tensor) -> None:
        """Let every recorder that is due write down its numbers; call it once a step."""
        for recorder in self._recorders:
            if self._step % recorder.every == 0:
                seen = self._chosen[recorder.name] or batch
                numbers = recorder.record(self._step, model, seen, loss)
                self._rows[recorder.name].append({"step": self._step, **numbers})
        self._step += 1

    def tensors(self) -> dict[str, Record]:
        """Return, by the name of the recorder, each number and ``step`` as float64, (T, …)."""

        def stack(values: Sequence[float | Tensor]) -> Tensor:
            return torch.stack([torch.as_tensor(v, dtype=torch.float64).cpu() for v in values])

        return {
            name: {
                number: stack([row[number] for row in rows]) for number in (rows[0] if rows else ())
            }
            for name, rows in self._rows.items()
        }
