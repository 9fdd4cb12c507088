"""What was measured on one language model."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lawscope.laws.next_token_result import NextToken
from lawscope.laws.separation_result import finite


@dataclass(frozen=True, eq=False)
class LanguageReport:
    """The laws of a language model, as the page and the command show them.

    Attributes:
        name: what was measured, for titles.
        next_token: the law of next-token prediction; its control is the same network untrained.
        settings: how the scan was run.
        versions: of lawscope, torch, numpy and Python.
    """

    name: str
    next_token: NextToken
    settings: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def advice(self) -> tuple[str, ...]:
        """The advice of every law."""
        return self.next_token.advice

    @property
    def warnings(self) -> tuple[str, ...]:
        """What deserves a look, over all laws."""
        return self.next_token.warnings

    def to_dict(self) -> dict[str, Any]:
        """Everything as one JSON-ready document."""
        return {
            "name": self.name,
            "next_token": self.next_token.to_dict(),
            "advice": list(self.advice),
            "settings": finite(self.settings),
            "versions": dict(self.versions),
        }

    def save(self, path: str | Path) -> Path:
        """Write the page as one self-contained HTML file and return its path."""
        from lawscope.report.next_token_page import save_next_token_page

        return save_next_token_page(self, path)
