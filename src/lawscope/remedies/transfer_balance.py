"""Do the bottom layers of a transferred network do as much as its top?

In transfer learning the bottom layers come from an upstream task and the top is trained on the task
at hand. A sensible balance of the two training times is where both improve the separation about
equally (He & Su 2023).
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np
from torch import nn

from lawscope.arrays import FloatArray
from lawscope.checks import checked
from lawscope.errors import LawscopeError
from lawscope.formatting import number
from lawscope.laws.line import log_or_nan
from lawscope.laws.separation.result import Separation
from lawscope.lazy import pd
from lawscope.result import Result
from lawscope.section import Curve, Section, Table
from lawscope.whole_number import is_whole

Balance = Literal["balanced", "bottom ahead", "top ahead", "cannot be told"]
TOLERANCE = 0.25
NUMBERS = ("bottom", "top", "difference", "balance")


@dataclass(frozen=True, eq=False, repr=False)
class TransferBalance(Result):
    """Improvement per layer below and above a cut of the network.

    Attributes:
        bottom: (log D_0 − log D_s)/s, the mean improvement of a layer below the cut s.
        top: (log D_s − log D_L)/(L − s), that of a layer above it.
        difference: ``bottom − top``.
        balance: the difference over the mean improvement of a layer, (log D_0 − log D_L)/L: zero
            when bottom and top improve equally, positive when the bottom is ahead. NaN where the
            network does not lower D.
        interval: 95 % interval in the population of each number above by its name, NaN where D has
            no upper end, empty without uncertainty. The numbers themselves are of the samples.
        split: index s of the station that ends the bottom.
        tolerance: size of ``balance`` that still counts as equal.
        verdict: by :data:`RULE`.
        advice: what to do about it, a sentence.
        separation: the measurement it was read off.
    """

    schema: ClassVar[str] = "lawscope.transfer_balance/1"
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
        """Return bottom and top: stations, improvement and factor on D per layer, population."""
        names, last = self.separation.shown, len(self.separation.stations) - 1
        parts = ["bottom", "top"]
        low, high = zip(*(self.interval.get(p, (math.nan,) * 2) for p in parts), strict=True)
        return pd.DataFrame(
            {
                "part": parts,
                "from": [names[0], names[self.split]],
                "to": [names[self.split], names[last]],
                "layers": [self.split, last - self.split],
                "improvement": [self.bottom, self.top],
                "factor": [math.exp(-self.bottom), math.exp(-self.top)],
                "population": np.add(low, high) / 2,
                "low": low,
                "high": high,
            }
        )

    def section(self) -> Section:
        """Return D with one line through the ends of the bottom and one of the top."""
        measured, gains = self.separation, (("bottom", self.bottom), ("top", self.top))
        logs, index = log_or_nan(measured.values), np.arange(len(measured.values))
        ends = [0, self.split, len(index) - 1]
        line = np.exp(np.interp(index, ends, logs[ends]))
        curve = measured.shown, measured.values, None, None, line
        rows = [[name, number(gain), number(math.exp(-gain))] for name, gain in gains]
        return Section(
            title="Balance of transfer learning",
            verdict=self.verdict,
            headline=self.advice,
            charts=[Curve("Bottom and top", "D", "separation fuzziness D", "layer", *curve)],
            tables=[Table("Parts", ["part", "improvement", "D × per layer"], rows)],
            rule=RULE,
            papers=("separation",),
        )

    def __str__(self) -> str:
        return f"{self.verdict}: {self.advice}"


RULE = (
    "Balanced when the whole interval of the balance lies within the tolerance around zero; bottom "
    "ahead or top ahead when it lies on one side of zero and is not balanced; otherwise, without "
    "an interval, or when the network does not surely lower D, it cannot be told."
)


@checked
def transfer_balance(
    model: nn.Module,
    loader: Any,
    split: int | str | None = None,
    *,
    tolerance: float = TOLERANCE,
    **settings: Any,
) -> TransferBalance:
    """Compare what bottom and top layers do for the task at hand (He & Su 2023).

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
        >>> from lawscope.zoo.networks.feedforward import feedforward
        >>> _ = torch.manual_seed(0)
        >>> y = torch.arange(80) % 4
        >>> x = torch.randn(80, 100) + torch.randn(4, 100)[y]
        >>> transfer_balance(feedforward(6, classes=4), (x, y), split=2).split
        2
    """
    from lawscope.laws.separation.law import separation

    return compute_balance(separation(model, loader, **settings), split, tolerance)


def compute_balance(
    measured: Separation, split: int | str | None = None, tolerance: float = TOLERANCE
) -> TransferBalance:
    """Compute the balance of a measured network; arguments as in :func:`transfer_balance`."""
    given: Any = tolerance
    if not isinstance(given, Real) or not float(given) > 0:
        raise LawscopeError(f"tolerance={given!r} leaves nothing balanced; give one above 0.")
    cut, tolerance = _find_cut(measured.stations, split), float(given)
    curve, again = log_or_nan(measured.values), measured.population
    bottom, top, difference, balance = _compute_numbers(curve, cut).tolist()
    interval: dict[str, tuple[float, float]] = {}
    if again is not None:
        ends = zip(*again.interval_of(lambda c: _compute_numbers(c, cut)), strict=True)
        interval = {n: (float(a), float(b)) for n, (a, b) in zip(NUMBERS, ends, strict=True)}
    low, high = interval.get("balance", (math.nan, math.nan))
    verdict: Balance = "cannot be told"
    if -tolerance <= low <= high <= tolerance:
        verdict = "balanced"
    elif low > 0 or high < 0:
        verdict = "bottom ahead" if low > 0 else "top ahead"
    advice = _advise(verdict, bottom, top, balance, again is not None)
    numbers = bottom, top, difference, balance, interval
    return TransferBalance(*numbers, cut, tolerance, verdict, advice, measured)


def _compute_numbers(curve: FloatArray, cut: int) -> FloatArray:
    """Return bottom, top, difference and balance of a curve of log D."""
    last = len(curve) - 1
    bottom, top = (curve[0] - curve[cut]) / cut, (curve[cut] - curve[last]) / (last - cut)
    mean = (curve[0] - curve[last]) / last
    balance = (bottom - top) / mean if mean > 0 else math.nan
    return np.array([bottom, top, bottom - top, balance])


def _find_cut(stations: Sequence[str], split: int | str | None) -> int:
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
    wrong = ""
    if not is_whole(split):
        wrong = f"split={split!r} is neither a number of layers nor a station"
    elif not 0 < split < last:
        wrong = f"split={split} leaves the bottom or the top empty"
    if wrong:
        raise LawscopeError(f"{wrong}; choose 1 to {last - 1} of the {last} layers.")
    return int(split)


def _advise(verdict: Balance, bottom: float, top: float, balance: float, known: bool) -> str:
    said = f"bottom layers multiply D by {math.exp(-bottom):.2f} each, top layers by "
    said += f"{math.exp(-top):.2f}"
    if verdict == "cannot be told":
        if not known:
            return f"Without an interval nothing is certain ({said}); measure with uncertainty on."
        if math.isnan(balance):
            return f"The network does not lower D ({said}); train it before asking for a balance."
        return f"The interval is too wide to tell ({said}); measure with more samples per class."
    return {
        "balanced": f"Upstream and downstream training are in balance: {said}.",
        "bottom ahead": f"The bottom is ahead: {said}; train the top longer on the task at hand.",
        "top ahead": f"The top is ahead: {said}; train the bottom longer upstream, transfer fewer "
        "layers, or unfreeze some of them.",
    }[verdict]
