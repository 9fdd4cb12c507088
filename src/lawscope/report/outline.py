"""What every renderer shows of a result, in the same order: one section, or those of a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from lawscope.formatting import as_sentence, describe_settings, typeset
from lawscope.laws.base import LawResult
from lawscope.laws.registry import all_laws
from lawscope.laws.report import Report
from lawscope.papers import PAPERS
from lawscope.result import Result
from lawscope.section import Section

Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Outline:
    """A result as people read it."""

    name: str
    sections: Sequence[Section]  # one per law
    facts: Sequence[str] = ()  # of all sections, each once: accuracy, samples, …
    skipped: dict[str, str] = field(default_factory=dict)  # titles of laws not measured, and why
    settings: Sequence[tuple[str, Pairs]] = ()  # how it was measured, with which versions

    @property
    def citations(self) -> list[str]:
        """The papers behind the sections, each once."""
        names = dict.fromkeys(name for section in self.sections for name in section.papers)
        return [PAPERS.get(name, name) for name in names]


def outline_of(result: Result) -> Outline:
    """Return what to show of a result; of a report, all its laws."""
    settings: list[tuple[str, Pairs]] = []
    if isinstance(result, Report):
        sections = [_typeset(section) for section in result.sections().values()]
        name, inputs = result.name, result.settings.get("inputs")
        facts = list(dict.fromkeys(fact for section in sections for fact in section.facts))
        facts += [inputs] if isinstance(inputs, str) else []
        titles = {law.name: law.title for law in all_laws().values()}
        skipped = {titles.get(law, law): typeset(why) for law, why in result.skipped.items()}
        settings.append(("Scan", describe_settings(result.settings)))
        settings += [(section.title, section.settings) for section in sections]
    else:
        section = _typeset(result.section())
        name, sections, facts, skipped = section.title, [section], list(section.facts), {}
        settings.append(("How it was measured", section.settings))
    if isinstance(result, Report | LawResult):
        known = {field: value for field, value in asdict(result.provenance).items() if value}
        versions = known.pop("versions", {})
        settings.append(("Made of", describe_settings(known)))
        settings.append(("Versions", describe_settings(versions)))
    return Outline(name, sections, facts, skipped, [each for each in settings if each[1]])


def _typeset(section: Section) -> Section:
    """Return the section with the same signs and capitals in all its sentences."""
    lists: dict[str, Any] = {
        name: [typeset(each) for each in getattr(section, name)]
        for name in ("about", "advice", "findings", "warnings")
    }
    headline = as_sentence(typeset(section.headline))
    return replace(section, headline=headline, rule=typeset(section.rule), **lists)
