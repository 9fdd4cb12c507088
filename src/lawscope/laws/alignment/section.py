"""What a measurement of alignment shows people."""

from __future__ import annotations

from lawscope.laws.alignment.result import Alignment
from lawscope.laws.alignment.verdict import RULE, find_facts
from lawscope.section import Section


def section_of(result: Alignment) -> Section:
    """Return the section of a result."""
    return result._section(
        title="Alignment of representations", findings=find_facts(result), rule=RULE,
        papers=("representation",),
    )
