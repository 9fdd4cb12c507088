"""What a result shows people, as data: no HTML, no ANSI, no matplotlib.

A result turns itself into a :class:`Section`; ``lawscope.report`` has one renderer each for the
page, the terminal, a notebook and Markdown, and draws every kind of chart once for all of them.
Every chart has a ``title``, and a ``note`` of a sentence or two to stand under it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lawscope.arrays import FloatArray


@dataclass(frozen=True)
class KeyNumber:
    """A number worth a large font; all but ``symbol`` and ``meaning`` are numbers as text."""

    symbol: str  # as in "ρ"
    value: str  # see lawscope.formatting
    meaning: str  # in a few words
    interval: str = ""  # 95 %
    control: str = ""  # of the untrained network
    predicted: str = ""  # by theory, for this network


def used_columns(numbers: Sequence[KeyNumber]) -> list[str]:
    """Return the columns of a table of key numbers; those that none of them has are left out."""
    names = ("symbol", "value", "interval", "predicted", "control", "meaning")
    return [name for name in names if any(getattr(each, name) for each in numbers)]


@dataclass(frozen=True)
class Table:
    """A table of texts; the first ``words`` columns are words, the others numbers."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1
    main: bool = False  # whether the terminal shows it too
    tones: Mapping[str, str] = field(default_factory=dict)  # of words, as in a section


@dataclass(frozen=True, eq=False)
class Curve:
    """A quantity over stations, with intervals and its fitted line."""

    title: str
    symbol: str  # of the quantity, as in "D"
    quantity: str  # its name for the axis
    unit: str  # what one station is: "layer", "block", "station"
    stations: Sequence[str]  # names, in the order the data meets them, shape (L,)
    values: FloatArray  # shape (L,)
    interval: FloatArray | None = None  # 95 %, shape (L, 2), NaN where there is none
    estimate: FloatArray | None = None  # for the population; the interval is then of this
    fitted: FloatArray | None = None  # the line, NaN at stations that it leaves out
    control: FloatArray | None = None  # the same quantity of the untrained network
    control_fitted: FloatArray | None = None
    log: bool = True
    digits: int = 3  # significant digits that tell values apart
    note: str = ""


@dataclass(frozen=True, eq=False)
class Lines:
    """Several lines over the same stations or steps."""

    title: str
    names: Sequence[str]  # one per line
    values: FloatArray  # shape (lines, points)
    x: FloatArray  # shape (points,)
    x_label: str
    y_label: str
    ticks: Sequence[str] = ()  # names of the positions where they are stations
    log: bool = False  # of the vertical axis
    log_x: bool = False
    small: bool = False  # one of several panels that stand side by side
    note: str = ""


@dataclass(frozen=True, eq=False)
class Bars:
    """One bar per label."""

    title: str
    labels: Sequence[str]
    values: FloatArray  # signed lengths, shape (n,); NaN draws none
    notes: Sequence[str] = ()  # a few words at each bar
    details: Sequence[str] = ()  # a few words beside each label
    reference: float | None = None  # where a dashed line stands for comparison
    reference_label: str = ""
    note: str = ""


@dataclass(frozen=True, eq=False)
class HeatMap:
    """A matrix as colours."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: FloatArray  # shape (rows, columns); NaN is left blank
    low: float  # value at one end of the scale
    high: float
    scale_label: str = ""  # what the colours mean
    note: str = ""


@dataclass(frozen=True, eq=False)
class Region:
    """A named part of a plane."""

    name: str
    outline: FloatArray  # corners, shape (corners, 2)


@dataclass(frozen=True, eq=False)
class Plane:
    """Points in a plane with regions, as of phases."""

    title: str
    names: Sequence[str]  # one per point
    values: FloatArray  # where the points are, shape (n, 2); NaN draws none
    x_label: str
    y_label: str
    regions: Sequence[Region] = ()
    interval: FloatArray | None = None  # 95 %, of x and of y, shape (n, 2, 2), NaN without
    details: Sequence[str] = ()  # a few words about each point
    note: str = ""


Chart = Curve | Lines | Bars | HeatMap | Plane


@dataclass(frozen=True, eq=False)
class Section:
    """One result as people read it; of charts and tables the most important comes first."""

    title: str  # of the law or of the calculation
    verdict: str = ""  # in a few words: "the law holds"; empty where there is nothing to judge
    tone: str = "open"  # "good", "bad" or "open": how the verdict is coloured
    headline: str = ""  # the sentence behind the verdict
    numbers: Sequence[KeyNumber] = ()  # the most important first
    facts: Sequence[str] = ()  # how much was measured, in a few words each ("1 000 samples")
    charts: Sequence[Chart] = ()  # the first is also what ``.plot()`` draws
    tables: Sequence[Table] = ()
    advice: Sequence[str] = ()  # what to do, in sentences
    findings: Sequence[str] = ()  # what was seen, in sentences
    warnings: Sequence[str] = ()  # what deserves a look, in sentences
    rule: str = ""  # how the verdict is reached
    settings: Sequence[tuple[str, str]] = ()  # how it was measured, as name and value
    papers: Sequence[str] = ()  # as in lawscope.Law: references, or names of known ones
    about: Sequence[str] = ()  # what the law says and what its symbols mean, in sentences
