"""Watch a training for the moment the law of data separation comes into effect.

To be robust, a network should be trained at least until then (003, "Training").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from torch import nn

from lawscope.axes import given_or_new
from lawscope.errors import LawscopeError
from lawscope.laws.separation import separation
from lawscope.laws.separation_result import Separation
from lawscope.laws.verdict import STRAIGHT
from lawscope.whole_number import whole_number

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

RULE = (
    "The law has come into effect when it holds, by the rule of the verdict, at each of the last "
    "`window` measurements. The interval of r over them is the smallest that covers all of their "
    f"95 % intervals; it then lies below {STRAIGHT} as a whole, whatever samples or epochs do to r."
)


class StopWhenLawHolds:
    """Measures the law every few epochs, and says when to stop; the rule is :data:`RULE`.

    Call it after each epoch. It measures in eval mode and leaves the network as it found it, so
    that training goes on as if nothing had happened.

    In a loop of your own::

        stop = StopWhenLawHolds(model, (x, y), every=10)
        for epoch in range(1, 601):
            ...  # one epoch of training
            if stop(epoch):
                break

    With lawscope's own: ``train(model, x, y, recipe, after_epoch=stop)``.

    Args:
        model: the network in training.
        loader: data to measure on, see :func:`lawscope.separation`; a few hundred samples a class
            of the training data are enough. It is read anew for each measurement.
        every: epochs from one measurement to the next.
        window: measurements in a row at which the law must hold.
        first: no measurement before this epoch.
        stop: whether to stop then; otherwise training goes on and :attr:`epoch` remembers.
        report: given a sentence at each measurement, ``print`` for instance.
        settings: of :func:`lawscope.separation`, such as ``stations="blocks"``.

    Attributes:
        history: the measurements so far, by epoch.
        epoch: the epoch at which the law had first come into effect, or None so far.

    Raises:
        LawscopeError: a setting out of range.

    Example:
        >>> import torch
        >>> y = torch.arange(60) % 3
        >>> x = torch.randn(60, 5) + 3 * torch.eye(5)[y]
        >>> net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
        >>> stop = StopWhenLawHolds(net, (x, y), every=5)
        >>> [stop(epoch) for epoch in (4, 5, 10, 15)], list(stop.history)
        ([False, False, False, False], [5, 10, 15])
    """

    def __init__(
        self,
        model: nn.Module,
        loader: Any,
        *,
        every: int = 10,
        window: int = 3,
        first: int = 1,
        stop: bool = True,
        report: Callable[[str], None] | None = None,
        **settings: Any,
    ) -> None:
        every = whole_number("every", every, 1, "epochs would never come round")
        window = whole_number("window", window, 1, "is no measurement")
        first = whole_number("first", first, 0, "is before the training")
        if report is not None and not callable(report):
            raise LawscopeError(f"report={report!r} cannot be called; give print, say.")
        if settings.get("uncertainty", "jackknife") is None:
            raise LawscopeError("The rule needs an interval; leave uncertainty='jackknife'.")
        if isinstance(loader, Iterator):
            raise LawscopeError("A generator is used up by the first measurement; pass a list.")
        self.model, self.loader, self.settings = model, loader, settings
        self.every, self.window, self.first = every, window, first
        self.stop, self.report = stop, report
        self.history: dict[int, Separation] = {}
        self.epoch: int | None = None

    def __call__(self, epoch: int) -> bool:
        """Tell it that ``epoch`` epochs are done; True when training should stop."""
        if epoch >= self.first and epoch % self.every == 0:
            self.history[epoch] = separation(self.model, self.loader, **self.settings)
            if self.epoch is None and self.in_effect:
                self.epoch = epoch
            if self.report is not None:
                self.report(self.sentence)
        return self.stop and self.epoch is not None

    @property
    def last(self) -> list[Separation]:
        """The last measurements, ``window`` of them or fewer."""
        return list(self.history.values())[-self.window :]

    @property
    def in_effect(self) -> bool:
        """Whether the law is in effect now, by :data:`RULE`."""
        return len(self.last) == self.window and all(m.verdict == "holds" for m in self.last)

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval of r over the last measurements, or None before there are enough."""
        if len(self.last) < self.window:
            return None
        ends = [m.fit.interval["pearson"] for m in self.last]
        return min(low for low, _ in ends), max(high for _, high in ends)

    @property
    def sentence(self) -> str:
        """Where the training stands, in words."""
        if not self.history:
            return "The law has not been measured yet."
        epoch, now = next(reversed(self.history.items()))
        said = f"Epoch {epoch}: r = {now.fit.pearson:.3f}, ρ = {now.fit.rho:.3f}; "
        if self.interval is None:
            return f"{said}{len(self.last)} of {self.window} measurements so far."
        between = f"r over the last {self.window} lies in [{self.interval[0]:.3f}, "
        between += f"{self.interval[1]:.3f}]"
        if self.in_effect:
            return f"{said}{between}: the law is in effect, first at epoch {self.epoch}."
        held = sum(m.verdict == "holds" for m in self.last)
        return f"{said}{between}, and the law holds at {held} of them: not in effect yet."

    def table(self) -> pd.DataFrame:
        """One row per measurement: epoch, r with its interval, ρ, last D, verdict."""
        import pandas as pd

        rows = [
            (epoch, m.fit.pearson, *m.fit.interval["pearson"], m.fit.rho, m.values[-1], m.verdict)
            for epoch, m in self.history.items()
        ]
        return pd.DataFrame(rows, columns=["epoch", "r", "low", "high", "rho", "D", "verdict"])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw r with its interval against epochs, and the epoch the law came into effect."""
        ax = given_or_new(ax)
        rows = self.table()
        ax.plot(rows["epoch"], rows["r"], "o-", label="r")
        ax.vlines(rows["epoch"], rows["low"], rows["high"], alpha=0.6)
        ax.axhline(STRAIGHT, linestyle=":", color="grey", label=f"{STRAIGHT}")
        if self.epoch is not None:
            ax.axvline(self.epoch, linestyle="--", color="grey", label=f"epoch {self.epoch}")
        ax.set_xlabel("epoch")
        ax.set_ylabel("Pearson r of log D")
        ax.legend()
        return ax
