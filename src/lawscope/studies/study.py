"""What a study is, and how it judges.

A study lives in one file, ``studies/<family>/<name>.py``, and registers by existing: the module
defines ``STUDY``. The file reads top to bottom: command, seeds, settings, plan, measurement,
figure, and at the end the paper's numbers, times and claims.

Three kinds of sentence: a :class:`Claim` is what a document says and gets a verdict, a
:class:`Question` is ours and gets an answer, a :class:`Check` is an identity, a certificate or a
running time by which the study tests itself. Each is evaluated under every protocol of the study:
``authors`` measures as the paper's authors did (BatchNorm by batch, batches of 100 in the order in
which samples were drawn), ``network`` measures what the network itself does (eval mode).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lawscope.errors import LawscopeError
from lawscope.formatting import many
from lawscope.lazy import Axes as Axes
from lawscope.lazy import Figure as Figure
from lawscope.studies.plan import Training

if TYPE_CHECKING:
    from lawscope.studies.lab import Lab as Lab
else:
    # Studies name it in annotations alone: a listing must not wait for torch.
    Lab = Any

PRESETS = ("smoke", "cpu", "paper")
AUTHORS, NETWORK = "authors", "network"
PROTOCOLS = {AUTHORS: "as the authors measured", NETWORK: "the network itself"}
Numbers = dict[str, Any]
HOLDS, FAILS, OPEN, NOT_TRIED = "holds", "does not hold", "open", "not tried"
VERDICTS = (HOLDS, FAILS, OPEN, NOT_TRIED)
PASSES, BROKEN = "passes", "fails"
# Of a study as a whole; also NOT_TRIED.
DONE, FAILED, FAILED_CHECK = "done", "failed", "failed check"
SMOKE_SHOWS_NOTHING = "smoke runs show only that the study works"
# Why a miss of a preset that departs from the paper is open.
MISSED = "missed, at settings that depart from the paper's"
# Panels that a sentence names one by one; of more it says how many.
MOST_NAMED = 6


class NotTried(LawscopeError):  # noqa: N818 - it is not an error, it is a verdict with its reason
    """Raised by a claim that these numbers cannot judge: a panel or enough seeds are missing."""


class JudgingError(LawscopeError):
    """The evaluation of a claim, question or check raised: the study is at fault."""


@dataclass(frozen=True)
class Claim:
    """A sentence of the document as a predicate on measured numbers.

    Attributes:
        text: what is claimed, with its bar: ``"r ≤ −0.99 in every panel"``.
        paper: the document's own number or words.
        value: the measured value: a plain value, or panels, ``{label: [one number per seed]}``.
        holds: a predicate on one number of a panel, or on the plain value.
        figure: where the document says so, if it is not the figure of the study.
        exact: it is about formulas, in which no preset departs from the document.
        median: the bar is on the median over seeds of each panel, of which none may be missing.
        each: what the numbers of a panel are of.
    """

    text: str
    paper: str
    value: Callable[[Numbers], Any]
    holds: Callable[[Any], bool]
    figure: str = ""
    exact: bool = False
    median: bool = False
    each: str = "seeds"

    def judge(self, numbers: Numbers, preset: str = "paper", departure: str = "") -> Column:
        """Return the verdict on the numbers of one protocol; smoke runs judge nothing.

        A panel holds when every seed passes and fails when none does; otherwise the bar lies inside
        the spread over seeds, and the panel is open. The claim holds when all panels hold, fails
        when one fails, and is open otherwise. None and NaN do not pass. A miss of a preset that
        departs from the paper is open.
        """
        column = _evaluate(self, numbers, self._verdict)
        if preset == "smoke" and column.verdict != NOT_TRIED:
            return Column(column.measured, NOT_TRIED, SMOKE_SHOWS_NOTHING)
        if column.verdict == FAILS and departure and not self.exact:
            detail = f" ({column.why})" if column.why else ""
            return Column(column.measured, OPEN, f"{MISSED}{detail}")
        return column

    def _verdict(self, measured: Any) -> tuple[str, str]:
        if not isinstance(measured, Mapping):
            return (HOLDS if self.holds(measured) else FAILS), ""
        passing = which_pass(medians_of(measured) if self.median else measured, self.holds)
        if not passing or not all(passing.values()):
            raise ValueError("there are no panels to judge, or one has no seeds")
        if all(all(each) for each in passing.values()):
            return HOLDS, ""
        several = len(measured) > 1
        if failing := [label for label, each in passing.items() if not any(each)]:
            return FAILS, f"in {name_panels(failing, len(measured))}" if several else ""
        return OPEN, "; ".join(
            f"{sum(each)} of {len(each)} {self.each} pass" + (f" in {label}" if several else "")
            for label, each in passing.items()
            if not all(each)
        )


@dataclass(frozen=True)
class Question:
    """A question of ours: an open one of a paper, or a variant. It gets an answer, no verdict."""

    text: str
    value: Callable[[Numbers], Any]
    answer: Callable[[Any], str]

    def judge(self, numbers: Numbers) -> Column:
        return _evaluate(self, numbers, lambda measured: (self.answer(measured), ""))


@dataclass(frozen=True)
class Check:
    """An identity, a certificate or a running time: how the study tests itself."""

    text: str
    value: Callable[[Numbers], Any]
    holds: Callable[[Any], bool]

    def judge(self, numbers: Numbers) -> Column:
        """Return whether it passes; of panels, whether every number does."""

        def passes(measured: Any) -> bool:
            if not isinstance(measured, Mapping):
                return self.holds(measured)
            values = [v for panel in which_pass(measured, self.holds).values() for v in panel]
            return bool(values) and all(values)

        return _evaluate(self, numbers, lambda m: (PASSES if passes(m) else BROKEN, ""))


@dataclass(frozen=True)
class Column:
    """What one protocol says: the measured value, the verdict (or answer), and why."""

    measured: Any
    verdict: str
    why: str = ""


@dataclass(frozen=True)
class Judged:
    """A claim, question or check with what each protocol says; of a claim, what the paper says."""

    text: str
    columns: Mapping[str, Column]
    paper: str = ""
    figure: str = ""

    @property
    def column(self) -> Column:
        """The column that decides: the authors' where there is one."""
        return self.columns[AUTHORS if AUTHORS in self.columns else NETWORK]

    @property
    def verdict(self) -> str:
        return self.column.verdict


@dataclass(frozen=True)
class Judgement:
    """All sentences of a study, judged."""

    claims: tuple[Judged, ...] = ()
    questions: tuple[Judged, ...] = ()
    checks: tuple[Judged, ...] = ()

    @property
    def broken(self) -> tuple[str, ...]:
        """The checks that failed, under any protocol."""
        broken = [c for c in self.checks if BROKEN in {o.verdict for o in c.columns.values()}]
        return tuple(check.text for check in broken)


@dataclass(frozen=True, kw_only=True)
class Study:
    """One row of the catalogue.

    Attributes:
        title: one line for ``lawscope study list``.
        source: author, year and figure: ``"He & Su 2023, figure 1"``.
        paper: the paper's numbers in a sentence, printed beside ours.
        minutes: what each preset takes on two cores.
        settings: per preset, whatever ``plan`` and ``measure`` need; JSON values only.
            ``settings["seeds"]`` is the number of seeds, which ``seeds=`` of a run overrides; 0
            where nothing is drawn from them.
        plan: settings → the trainings needed; by default none.
        measure: a laboratory that has them → numbers (JSON values only); called once per protocol.
        claims: what the document says.
        figure: the numbers of one protocol → the figure, drawn like the paper's.
        questions: what we ask.
        checks: how the study tests itself.
        table: the numbers of one protocol → the paper's table, its first row the titles.
        departures: preset → what it does otherwise than the paper, ``"150 of 600 epochs"``. Such a
            preset can support a claim, not refute it.
        protocols: how networks are measured; the first one decides and is drawn.
    """

    title: str
    source: str
    paper: str
    minutes: Mapping[str, float]
    settings: Mapping[str, Mapping[str, Any]]
    plan: Callable[[Mapping[str, Any]], Sequence[Training]] = lambda settings: ()
    measure: Callable[[Lab], Numbers]
    claims: Sequence[Claim] = ()
    figure: Callable[[Numbers], Figure]
    questions: Sequence[Question] = ()
    checks: Sequence[Check] = ()
    table: Callable[[Numbers], list[list[str]]] | None = None
    departures: Mapping[str, str] = field(default_factory=dict)
    protocols: tuple[str, ...] = (NETWORK,)

    def judge(
        self, numbers: Mapping[str, Numbers], preset: str = "paper", departure: str | None = None
    ) -> Judgement:
        """Return every sentence with its verdict.

        ``departure`` is that of the preset as it is today, unless said: of numbers from before.
        """
        if departure is None:
            departure = self.departures.get(preset, "")

        def columns(sentence: Claim | Question | Check, *how: str) -> dict[str, Column]:
            return {protocol: sentence.judge(each, *how) for protocol, each in numbers.items()}

        return Judgement(
            tuple(Judged(c.text, columns(c, preset, departure), c.paper, c.figure)
                  for c in self.claims),
            tuple(Judged(question.text, columns(question)) for question in self.questions),
            tuple(Judged(check.text, columns(check)) for check in self.checks),
        )  # fmt: skip


def count_verdicts(claims: Sequence[Judged | Column]) -> str:
    """Return how many claims have which verdict: "3 claims: 2 hold, 1 open"."""
    verdicts = [claim.verdict for claim in claims]
    counts = []
    for verdict in VERDICTS:
        if amount := verdicts.count(verdict):
            plural = {HOLDS: "hold", FAILS: "do not hold"}.get(verdict, verdict)
            counts.append(f"{amount} {verdict if amount == 1 else plural}")
    return f"{many(len(claims), 'claim')}: {', '.join(counts)}" if claims else "no claims"


def per_seed(values: Any) -> Sequence[Any]:
    """Return the numbers of a panel, one per seed; a lone number is that of one seed."""
    return values if isinstance(values, (list, tuple)) else [values]


def which_pass(panels: Mapping[str, Any], test: Callable[[Any], bool]) -> dict[str, list[bool]]:
    """Return whether each number passes, one per seed, by panel; None and NaN do not."""
    return {
        label: [is_number(value) and bool(test(value)) for value in per_seed(values)]
        for label, values in panels.items()
    }


def name_panels(labels: Sequence[str], total: int) -> str:
    """Return the panels in which something is so, by name, or how many of them."""
    if len(labels) == total:
        return "every panel"
    # Labels have commas of their own.
    return " · ".join(labels) if len(labels) <= MOST_NAMED else f"{len(labels)} of {total} panels"


def medians_of(panels: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the median over seeds by panel, None where a number is missing."""
    found = {label: per_seed(values) for label, values in panels.items()}
    return {
        label: [statistics.median(values) if all(map(is_number, values)) else None]
        for label, values in found.items()
        if values
    }


def is_number(value: Any) -> bool:
    """Return whether it is neither None nor NaN."""
    return value is not None and not (isinstance(value, float) and math.isnan(value))


def _evaluate(
    sentence: Claim | Question | Check, numbers: Numbers, verdict: Callable[[Any], tuple[str, str]]
) -> Column:
    """Measure and judge one sentence; what it raises is a mistake of the study."""
    try:
        measured = sentence.value(numbers)
        return Column(measured, *verdict(measured))
    except NotTried as error:
        return Column(None, NOT_TRIED, str(error))
    except Exception as error:
        kind = type(sentence).__name__.lower()
        raise JudgingError(
            f"the {kind} {sentence.text!r} could not be judged: {type(error).__name__}: {error}"
        ) from error
