"""All laws that were measured on one network in one capture."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from lawscope.laws.base import LawResult
from lawscope.laws.provenance import Provenance
from lawscope.lazy import pd
from lawscope.result import Result
from lawscope.section import Section

MOST_ADVICE = 3


@dataclass(frozen=True, eq=False, repr=False)
class Report(Result):
    """What ``ls.scan`` found; ``report.separation`` is ``report.results["separation"]``.

    Attributes:
        name: what was measured, for titles.
        results: the results by the name of their law.
        skipped: laws that do not apply, and a control that could not be measured, each with the
            reason.
        settings: how the scan was run.
        provenance: what was measured with what.
    """

    schema: ClassVar[str] = "lawscope.report/1"
    name: str
    results: dict[str, LawResult]
    skipped: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    provenance: Provenance = field(default_factory=Provenance)

    def __getattr__(self, name: str) -> Any:
        """Return the result of a law by its name; None for a law that was not measured."""
        results = self.__dict__.get("results", {})
        if name in results:
            return results[name]
        from lawscope.laws.registry import all_laws

        skipped = self.__dict__.get("skipped", {})
        if name in skipped or (not name.startswith("_") and name in all_laws()):
            return None
        raise AttributeError(f"the report has no law {name!r}; it has {', '.join(results)}")

    @property
    def advice(self) -> tuple[str, ...]:
        """At most three sentences: the first of every law, then the second of every law, …."""
        rounds = itertools.zip_longest(*(result.advice for result in self.results.values()))
        sentences = [sentence for each in rounds for sentence in each if sentence is not None]
        return tuple(sentences[:MOST_ADVICE])

    @property
    def warnings(self) -> tuple[str, ...]:
        """What deserves a look, over all laws."""
        return tuple(sentence for r in self.results.values() for sentence in r.warnings)

    def sections(self) -> dict[str, Section]:
        """Return the section of every law by its name, with what of its advice is ours."""
        sections = {name: result.section() for name, result in self.results.items()}
        return {
            name: replace(section, advice=[said for said in section.advice if said in self.advice])
            for name, section in sections.items()
        }

    def section(self) -> Section:
        """Return the section of the first law."""
        return next(iter(self.sections().values()), Section(title=self.name))

    def table(self) -> pd.DataFrame:
        """Return one row per law: its verdict and the sentence behind it."""
        rows = [(name, r.verdict, r.reason) for name, r in self.results.items()]
        rows += [(name, "not measured", reason) for name, reason in self.skipped.items()]
        return pd.DataFrame(rows, columns=["law", "verdict", "reason"])

    def __str__(self) -> str:
        verdicts = ", ".join(f"{name} {r.verdict}" for name, r in self.results.items())
        return f"{self.name}: {verdicts or 'nothing measured'}"
