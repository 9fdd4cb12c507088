"""What a study is: settings in, claims out.

A study lives in one file, ``studies/<family>/<name>.py``, and registers by existing: the module
defines ``STUDY``. The file reads top to bottom: command, time, seeds, the paper's numbers,
settings, plan, measurement, claims, figure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from lawscope.errors import LawscopeError
from lawscope.studies.plan import Training

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lawscope.studies.lab import Lab

Preset = Literal["smoke", "cpu", "paper"]
PRESETS: tuple[Preset, ...] = ("smoke", "cpu", "paper")
MODES = ("eval", "train")
Numbers = dict[str, Any]
SHOWN, NOT_SHOWN, NOT_TRIED = "shown", "not shown", "not tried"


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper as a predicate on measured numbers.

    Attributes:
        text: what is claimed, with its bar: ``"every r ≤ −0.99 after the choice of lr"``.
        paper: the paper's own number or words.
        value: the measured number (or a short text, or a list of numbers) behind the verdict.
        holds: whether that value shows the claim; None: cannot be told from these numbers.
    """

    text: str
    paper: str
    value: Callable[[Numbers], Any]
    holds: Callable[[Any], bool | None]

    def judge(self, numbers: Numbers) -> Judged:
        """The verdict on measured numbers.

        Example:
            >>> claim = Claim("r ≤ −0.9", "−0.99", lambda n: n["r"], lambda r: r <= -0.9)
            >>> claim.judge({"r": -0.95}).verdict, claim.judge({"r": -0.5}).verdict
            ('shown', 'not shown')
        """
        try:
            measured = self.value(numbers)
        except LawscopeError as error:
            return Judged(self.text, self.paper, None, NOT_TRIED, str(error))
        except (KeyError, IndexError, ValueError, TypeError, ZeroDivisionError) as error:
            return Judged(self.text, self.paper, None, NOT_TRIED, f"not measured ({error!r})")
        held = self.holds(measured)
        if held is None:
            return Judged(self.text, self.paper, measured, NOT_TRIED, "cannot be told")
        return Judged(self.text, self.paper, measured, SHOWN if held else NOT_SHOWN, "")


@dataclass(frozen=True)
class Judged:
    """A claim, what was measured, and the verdict: shown, not shown, or not tried and why."""

    text: str
    paper: str
    measured: Any
    verdict: str
    why: str


@dataclass(frozen=True)
class Study:
    """One row of the catalogue.

    Attributes:
        title: one line for ``lawscope study list``.
        source: document and figure, ``"003, figure 1"``.
        paper: the paper's numbers in a sentence, printed beside ours.
        minutes: what each preset takes on two cores.
        settings: per preset, whatever ``plan`` and ``measure`` need; JSON values only.
            ``settings["seeds"]`` is the number of seeds, which ``--seeds`` overrides.
        plan: settings → the trainings needed.
        measure: a laboratory that has them → numbers (JSON values only).
        claims: predicates on those numbers.
        figure: numbers → the figure, drawn like the paper's.
        table: numbers → the paper's table, its first row the titles; None where there is none.
    """

    title: str
    source: str
    paper: str
    minutes: Mapping[str, float]
    settings: Mapping[str, Mapping[str, Any]]
    plan: Callable[[Mapping[str, Any]], Sequence[Training]]
    measure: Callable[[Lab], Numbers]
    claims: Sequence[Claim]
    figure: Callable[[Numbers], Figure]
    table: Callable[[Numbers], list[list[str]]] | None = None

    def judge(self, numbers: Numbers) -> list[Judged]:
        """Every claim with its verdict."""
        return [claim.judge(numbers) for claim in self.claims]
