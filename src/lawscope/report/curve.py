"""What a chart of a law draws: a curve, and what its values are called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from lawscope.laws.line import LineFit
from lawscope.laws.separation_result import FloatArray


class Curve(Protocol):
    """What is drawn: a value at every station, its interval, and a line."""

    @property
    def stations(self) -> tuple[str, ...]:
        """Their names."""

    @property
    def values(self) -> FloatArray:
        """Shape (L,)."""

    @property
    def interval(self) -> FloatArray | None:
        """Shape (L, 2)."""

    @property
    def fit(self) -> LineFit:
        """The line, by station index."""

    @property
    def granularity(self) -> str:
        """What a station stands for."""


@dataclass(frozen=True)
class Quantity:
    """What the values are.

    Attributes:
        symbol: in labels.
        name: on the axis and in the description.
        first: index of the first station that belongs to the line.
        digits: significant digits in labels.
        least_pad: factor beyond the values that the axis shows at least.
        least_reach: of the axis of residuals.
    """

    symbol: str = "D"
    name: str = "separation fuzziness D"
    first: int = 0
    digits: int = 3
    least_pad: float = 1.1
    least_reach: float = 0.05


FUZZINESS = Quantity()
