"""Do the bottom layers of a transferred network do as much as its top?

In transfer learning the bottom layers come from an upstream task and the top is trained on the task
at hand. A sensible balance of the two training times is where both improve the separation about
equally (003, "Training").
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from lawscope.errors import LawscopeError
from lawscope.laws.line import log_or_nan
from lawscope.laws.separation_result import Separation, finite
from lawscope.whole_number import is_whole

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from torch import nn

FloatArray = NDArray[np.float64]
Balance = Literal["balanced", "bottom ahead", "top ahead", "cannot be told"]
TOLERANCE = 0.25
NUMBERS = ("bottom", "top", "difference", "balance")


@dataclass(frozen=True, eq=False)
class TransferBalance:
    """Improvement per layer below and above a cut of the network.

    Attributes:
        bottom: (log D_0 − log D_s)/s, the mean improvement of a layer below the cut s.
        top: (log D_s − log D_L)/(L − s), that of a layer above it.
        difference: ``bottom − top``.
        balance: the difference over the mean improvement of a layer, (log D_0 − log D_L)/L: zero
            when bottom and top improve equally, positive when the bottom is ahead. NaN where the
            network does not lower D.
        interval: 95 % interval of each number above by its name, empty without uncertainty.
        split: index s of the station that ends the bottom.
        tolerance: size of ``balance`` that still counts as equal.
        verdict: by :data:`RULE`.
        advice: what to do about it, a sentence.
        separation: the measurement it was read off.
    """

    bottom: float
    top: float
    difference: float
    balance: float
    interval: dict[str, tuple[float, float]]
    split: int
    tolerance: float
    verdict: Balance
    advice: str
    separation: Separation

    def table(self) -> pd.DataFrame:
        """Bottom and top: their stations, improvement per layer, factor on D per layer."""
        import pandas as pd

        names, last = self.separation.stations, len(self.separation.stations) - 1
        ends = [self.interval.get(part, (math.nan, math.nan)) for part in ("bottom", "top")]
        return pd.DataFrame(
            {
                "part": ["bottom", "top"],
                "from": [names[0], names[self.split]],
                "to": [names[self.split], names[last]],
                "layers": [self.split, last - self.split],
                "improvement": [self.bottom, self.top],
                "low": [low for low, _ in ends],
                "high": [high for _, high in ends],
                "factor": [math.exp(-self.bottom), math.exp(-self.top)],
            }
        )

    def plot(self, ax: Axes | None = None) -> Axes:
        """The curve of D with one line through the ends of the bottom and one of the top."""
        ax = self.separation.plot(ax)
        for first, last, label in (
            (0, self.split, f"bottom: D × {math.exp(-self.bottom):.2f} a layer"),
            (self.split, len(self.separation.values) - 1, f"top: × {math.exp(-self.top):.2f}"),
        ):
            ends = [first, last]
            ax.plot(ends, self.separation.values[ends], "--", linewidth=2, label=label)
        ax.legend()
        return ax

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON-ready values."""
        document: dict[str, Any] = finite(
            {
                **{name: getattr(self, name) for name in NUMBERS},
                "interval": {name: list(ends) for name, ends in self.interval.items()},
                "split": self.split,
                "station": self.separation.stations[self.split],
                "tolerance": self.tolerance,
                "verdict": self.verdict,
                "advice": self.advice,
                "separation": self.separation.to_dict(),
            }
        )
        return document

    def __str__(self) -> str:
        return f"{self.verdict}: {self.advice}"


RULE = (
    "Balanced when the whole interval of the balance lies within the tolerance around zero; bottom "
    "ahead or top ahead when it lies on one side of zero and is not balanced; otherwise, without "
    "an interval, or when the network does not surely lower D, it cannot be told."
)


def transfer_balance(
    model: nn.Module,
    loader: Any,
    split: int | str | None = None,
    *,
    tolerance: float = TOLERANCE,
    **settings: Any,
) -> TransferBalance:
    """Compare what bottom and top layers do for the task at hand (003, "Training").

    Args:
        model: the network, with its bottom from the upstream task and its top trained downstream.
        loader: data of the downstream task, see :func:`lawscope.separation`.
        split: how many layers make the bottom, or the station that ends it; by default half.
        tolerance: size of the balance that still counts as equal.
        settings: of :func:`lawscope.separation`.

    Returns:
        Both improvements with their intervals, the verdict, and a sentence of advice.

    Raises:
        LawscopeError: there is no such station, or it leaves one of the parts empty.

    Example:
        >>> import torch
        >>> from lawscope.zoo.networks import feedforward
        >>> _ = torch.manual_seed(0)
        >>> y = torch.arange(80) % 4
        >>> x = torch.randn(80, 100) + torch.randn(4, 100)[y]
        >>> transfer_balance(feedforward(6, classes=4), (x, y), split=2).split
        2
    """
    from lawscope.laws.separation import separation

    return balance_of(separation(model, loader, **settings), split, tolerance)


def balance_of(
    measured: Separation, split: int | str | None = None, tolerance: float = TOLERANCE
) -> TransferBalance:
    """The balance of a network that has been measured; arguments as in :func:`transfer_balance`."""
    cut = _cut(measured.stations, split)
    _check_tolerance(tolerance)
    curve = log_or_nan(measured.values)
    bottom, top, difference, balance = (float(v) for v in _numbers(curve, cut))
    interval: dict[str, tuple[float, float]] = {}
    if measured.replicates is not None:
        low, high = measured.replicates.interval(lambda c: _numbers(c, cut), curve)
        interval = {n: (float(a), float(b)) for n, a, b in zip(NUMBERS, low, high, strict=True)}
    verdict = _judge(interval.get("balance", (math.nan, math.nan)), tolerance)
    return TransferBalance(
        bottom=bottom,
        top=top,
        difference=difference,
        balance=balance,
        interval=interval,
        split=cut,
        tolerance=tolerance,
        verdict=verdict,
        advice=_advice(verdict, bottom, top, balance, measured.replicates is not None),
        separation=measured,
    )


def _numbers(curve: FloatArray, cut: int) -> FloatArray:
    """Bottom, top, difference and balance of a curve of log D."""
    last = len(curve) - 1
    bottom, top = (curve[0] - curve[cut]) / cut, (curve[cut] - curve[last]) / (last - cut)
    mean = (curve[0] - curve[last]) / last
    balance = (bottom - top) / mean if mean > 0 else math.nan
    return np.array([bottom, top, bottom - top, balance])


def _cut(stations: Sequence[str], split: int | str | None) -> int:
    last = len(stations) - 1
    if last < 2:
        raise LawscopeError(
            f"{len(stations)} stations have no bottom and top to compare; measure at least 3."
        )
    if split is None:
        return last // 2
    if isinstance(split, str):
        if split not in stations:
            near = difflib.get_close_matches(split, stations, n=3, cutoff=0.3) or stations[1:last]
            raise LawscopeError(f"There is no station '{split}'; did you mean {' or '.join(near)}?")
        split = stations.index(split)
    if not is_whole(split):
        raise LawscopeError(
            f"split={split!r} is neither a number of layers nor a station; choose 1 to {last - 1}."
        )
    if not 0 < split < last:
        raise LawscopeError(
            f"split={split} leaves the bottom or the top empty; choose 1 to {last - 1} of the "
            f"{last} layers."
        )
    return int(split)


def _check_tolerance(tolerance: Any) -> None:
    try:
        if tolerance > 0:
            return
    except TypeError:
        pass
    raise LawscopeError(f"tolerance={tolerance!r} leaves nothing balanced; give one above 0.")


def _judge(interval: tuple[float, float], tolerance: float) -> Balance:
    low, high = interval
    if -tolerance <= low <= high <= tolerance:
        return "balanced"
    if low > 0:
        return "bottom ahead"
    return "top ahead" if high < 0 else "cannot be told"


def _advice(verdict: Balance, bottom: float, top: float, balance: float, known: bool) -> str:
    said = f"bottom layers multiply D by {math.exp(-bottom):.2f} each, top layers by "
    said += f"{math.exp(-top):.2f}"
    if verdict == "balanced":
        return f"Upstream and downstream training are in balance: {said}."
    if verdict == "bottom ahead":
        return f"The bottom is ahead: {said}; train the top longer on the task at hand."
    if verdict == "top ahead":
        return (
            f"The top is ahead: {said}; train the bottom longer upstream, transfer fewer layers, "
            "or unfreeze some of them."
        )
    if not known:
        return f"Without an interval nothing is certain ({said}); measure with uncertainty on."
    if math.isnan(balance):
        return f"The network does not lower D ({said}); train it before asking for a balance."
    return f"The interval is too wide to tell ({said}); measure with more samples per class."
