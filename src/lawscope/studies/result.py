"""What a study found: numbers, and its claims with their verdicts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from lawscope.errors import LawscopeError
from lawscope.studies.entry import versions
from lawscope.studies.registry import find
from lawscope.studies.study import NOT_TRIED, Judged, Study

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

DONE, FAILED = "done", "failed"
DIGITS = 6
_NAMES_OF_FLOATS = ("nan", "inf", "-inf")


@dataclass(frozen=True)
class StudyResult:
    """The outcome of one study at one preset.

    Attributes:
        name: ``family/name``.
        preset: smoke, cpu or paper.
        settings: of the preset, with ``seeds`` as asked for.
        numbers: what was measured.
        claims: each with the measured value and its verdict.
        seconds: core-seconds of its trainings, also of those found in the store, and of measuring.
        date: when it was measured, UTC.
        versions: of lawscope, torch, numpy and Python.
        status: ``"done"``; ``"not tried"`` where a dataset is absent; ``"failed"``.
        why: of a study that is not done, one sentence.
        trace: of a failed one, where; not kept in files.
    """

    name: str
    preset: str
    settings: Mapping[str, Any]
    numbers: Mapping[str, Any]
    claims: tuple[Judged, ...]
    seconds: float
    date: str
    versions: Mapping[str, str] = field(default_factory=versions)
    status: str = DONE
    why: str = ""
    trace: str = field(default="", compare=False)

    @property
    def mode(self) -> str:
        """In which mode the networks were measured, eval or train."""
        return str(self.settings.get("mode", "eval"))

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict of every claim: shown, not shown or not tried."""
        return {claim.text: claim.verdict for claim in self.claims}

    def table(self) -> pd.DataFrame:
        """One row per claim: the paper's number, ours, the verdict."""
        import pandas as pd

        columns = {"text": "claim", "paper": "paper", "measured": "measured",
                   "verdict": "verdict", "why": "why"}  # fmt: skip
        rows = [asdict(claim) for claim in self.claims]
        return pd.DataFrame(rows, columns=list(columns)).rename(columns=columns)

    def plot(self) -> Figure:
        """The study's figure, drawn from the numbers.

        Raises:
            LawscopeError: nothing was measured.
        """
        if self.status != DONE:
            raise LawscopeError(f"{self.name} has no figure: {self.why}")
        return find(self.name).figure(dict(self.numbers))

    def to_dict(self, digits: int | None = None) -> dict[str, Any]:
        """All of it as JSON values; NaN and infinities by their names.

        Args:
            digits: significant digits of numbers; None keeps all.
        """
        document = {
            "name": self.name,
            "preset": self.preset,
            "status": self.status,
            **({"why": self.why} if self.why else {}),
            "seconds": round(self.seconds, 1),
            "date": self.date,
            "versions": dict(self.versions),
            "settings": dict(self.settings),
            "claims": [asdict(claim) for claim in self.claims],
            "numbers": dict(self.numbers),
        }
        written: dict[str, Any] = to_json(document, digits)
        return written

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> StudyResult:
        """What :meth:`to_dict` wrote."""
        known = {k: document[k] for k in ("name", "preset", "date")}
        return cls(
            **known,
            settings=dict(document["settings"]),
            seconds=float(document["seconds"]),
            numbers=from_json(document["numbers"]),
            claims=tuple(Judged(**from_json(claim)) for claim in document["claims"]),
            versions=dict(document["versions"]),
            status=document["status"],
            why=document.get("why", ""),
        )


def without_numbers(
    study: Study, *, name: str, preset: str, settings: Mapping[str, Any], status: str, why: str,
    date: str, trace: str = "",
) -> StudyResult:  # fmt: skip
    """The result of a study that could not be measured: every claim is not tried, and why."""
    claims = tuple(Judged(c.text, c.paper, None, NOT_TRIED, why) for c in study.claims)
    return StudyResult(
        name, preset, settings, {}, claims, 0.0, date, status=status, why=why, trace=trace
    )


def to_json(value: Any, digits: int | None = None) -> Any:
    """Plain JSON values: numpy and torch scalars as numbers, arrays as lists, NaN by its name.

    Example:
        >>> to_json({"r": (1.23456789, float("nan"))}, digits=4)
        {'r': [1.235, 'nan']}
    """
    if isinstance(value, Mapping):
        return {str(key): to_json(inside, digits) for key, inside in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(inside, digits) for inside in value]
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return _float_to_json(float(value), digits)
    if hasattr(value, "tolist"):
        return to_json(value.tolist(), digits)
    raise LawscopeError(
        f"A study measured a {type(value).__name__}; its numbers must be JSON values (numbers, "
        "texts, lists, dictionaries)."
    )


def from_json(value: Any) -> Any:
    """The inverse of :func:`to_json`.

    Example:
        >>> from_json({"r": [1.0, "inf"]})
        {'r': [1.0, inf]}
    """
    if isinstance(value, dict):
        return {key: from_json(inside) for key, inside in value.items()}
    if isinstance(value, list):
        return [from_json(inside) for inside in value]
    if isinstance(value, str) and value in _NAMES_OF_FLOATS:
        return float(value)
    return value


def _float_to_json(value: float, digits: int | None) -> float | str:
    if not math.isfinite(value):
        return str(value)
    return value if digits is None else float(f"{value:.{digits}g}")
