"""All laws that were measured on one network in one capture."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lawscope.laws.collapse_result import Collapse
from lawscope.laws.separation_result import Separation, finite

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Report:
    """What ``ls.scan`` found.

    Attributes:
        name: what was measured, for titles.
        separation: the law of data separation.
        control: the same law on the same network untrained, where that was measured.
        collapse: neural and minority collapse at the head, or None where it does not apply.
        skipped: laws that do not apply, and a control that could not be measured, each with the
            reason.
        settings: how the scan was run.
        versions: of lawscope, torch, numpy and Python.
    """

    name: str
    separation: Separation
    control: Separation | None = None
    collapse: Collapse | None = None
    skipped: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def advice(self) -> tuple[str, ...]:
        """The advice of every law, most important first within a law."""
        return self.separation.advice + (() if self.collapse is None else self.collapse.advice)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What deserves a look, over all laws."""
        return self.separation.warnings + (() if self.collapse is None else self.collapse.warnings)

    def table(self) -> pd.DataFrame:
        """The station table of the separation law."""
        return self.separation.table()

    def to_dict(self) -> dict[str, Any]:
        """Everything as one JSON-ready document."""
        return {
            "name": self.name,
            "separation": self.separation.to_dict(),
            "control": None if self.control is None else self.control.to_dict(),
            "collapse": None if self.collapse is None else self.collapse.to_dict(),
            "skipped": dict(self.skipped),
            "advice": list(self.advice),
            "settings": finite(self.settings),
            "versions": dict(self.versions),
        }

    def save(self, path: str | Path) -> Path:
        """Write the page as one self-contained HTML file and return its path."""
        from lawscope.report.page import save_page

        return save_page(self, path)
