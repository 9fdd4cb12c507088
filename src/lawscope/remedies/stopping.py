"""Watch a training for the moment the law of data separation comes into effect.

To be robust, a network should be trained at least until then (He & Su 2023).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from torch import nn

from lawscope.capture.restore import Mode
from lawscope.capture.session import Session
from lawscope.checks import checked
from lawscope.data.source import Source
from lawscope.errors import LawscopeError, NoDataError
from lawscope.laws.control import check_control
from lawscope.laws.separation.law import SEPARATION, SeparationSettings, separation
from lawscope.laws.separation.result import Separation
from lawscope.laws.separation.verdict import STRAIGHT
from lawscope.lazy import Axes, pd
from lawscope.section import Curve
from lawscope.statistics.distributed import agree, merges_ranks
from lawscope.whole_number import whole_number

RULE = (
    "The law has come into effect when it holds, by the rule of the verdict on the samples that "
    f"were given, at each of the last `window` measurements: r is then at most {STRAIGHT} at all."
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
            of the training data are enough. It is read again for each measurement.
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
        LawscopeError: a setting that is not known or out of range, or a network or a first batch
            that cannot be measured: at once, not in the middle of the training.

    Example:
        >>> import torch
        >>> y = torch.arange(60) % 3
        >>> x = torch.randn(60, 5) + 3 * torch.eye(5)[y]
        >>> net = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
        >>> stop = StopWhenLawHolds(net, (x, y), every=5)
        >>> [stop(epoch) for epoch in (4, 5, 10, 15)], list(stop.history)
        ([False, False, False, False], [5, 10, 15])
    """

    @checked
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
        self.every = whole_number("every", every, 1, "epochs would never come round")
        self.window = whole_number("window", window, 1, "measurements are none")
        self.first = whole_number("first", first, 0, "is before the training")
        if report is not None and not callable(report):
            raise LawscopeError(f"report={report!r} cannot be called; give print, say.")
        if isinstance(loader, Iterator):
            raise LawscopeError("A generator is used up by the first measurement; pass a list.")
        check_control(settings.get("control"))
        # What ls.separation would refuse is refused now, as far as the first batch tells.
        own = {k: v for k, v in settings.items() if k not in ("control", "mode", "progress")}
        read = SeparationSettings.read("separation", own)
        agree(
            lambda: _look(model, loader, read, settings.get("mode", "eval")),
            merges_ranks(read.distributed),
        )
        self.model, self.loader, self.settings = model, loader, settings
        self.stop, self.report = stop, report
        self.history: dict[int, Separation] = {}
        self.epoch: int | None = None

    def __call__(self, epoch: int) -> bool:
        """Take note that ``epoch`` epochs are done; True when training should stop."""
        epoch = whole_number("epoch", epoch, 0, "is before the training")
        if epoch >= self.first and epoch % self.every == 0:
            # On all that was given: no statement beyond it is asked for.
            settings = {"uncertainty": None, **self.settings}
            self.history[epoch] = separation(self.model, self.loader, **settings)
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
    def sentence(self) -> str:
        """Where the training stands, in words."""
        if not self.history:
            return "The law has not been measured yet."
        epoch, now = next(reversed(self.history.items()))
        said = f"Epoch {epoch}: r = {now.fit.pearson:.3f}, ρ = {now.fit.rho:.3f}; "
        if len(self.last) < self.window:
            return f"{said}{len(self.last)} of {self.window} measurements so far."
        seen = [m.fit.pearson for m in self.last]
        said += f"r over the last {self.window} is {min(seen):.3f} to {max(seen):.3f}"
        if self.in_effect:
            return f"{said}: the law is in effect, first at epoch {self.epoch}."
        held = sum(m.verdict == "holds" for m in self.last)
        return f"{said}, and the law holds at {held} of them: not in effect yet."

    def __str__(self) -> str:
        return self.sentence

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self}>"

    def table(self) -> pd.DataFrame:
        """Return one row per measurement: epoch, r, ρ, last D, verdict."""
        rows = [
            (epoch, m.fit.pearson, m.fit.rho, m.values[-1], m.verdict)
            for epoch, m in self.history.items()
        ]
        return pd.DataFrame(rows, columns=["epoch", "r", "rho", "D", "verdict"])

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw r against epochs; the title names the epoch of the effect."""
        from lawscope.report.charts.figures import draw

        rows, name = self.table(), "Pearson r of log D"
        title = "the law" if self.epoch is None else f"the law, in effect from epoch {self.epoch}"
        data = list(map(str, rows["epoch"])), rows["r"].to_numpy()
        return draw(Curve(title, "r", name, "epoch", *data, log=False), ax)


def _look(model: nn.Module, loader: Any, settings: SeparationSettings, mode: Mode) -> None:
    """Refuse a network, settings or a first batch that cannot be measured."""
    try:
        source = Source(loader)
    except NoDataError:
        if merges_ranks(settings.distributed):
            return  # other ranks may have data
        raise
    session = Session(model, source, mode=mode)
    observer = SEPARATION.observe(session, settings)
    observer.begin_batch(source.peek())
    source.restore()
    if source.classes == 1 and not merges_ranks(settings.distributed):
        raise LawscopeError("The data has one class; the law needs two or more.")
