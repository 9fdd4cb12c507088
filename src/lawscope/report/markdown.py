"""A result as Markdown, for model cards, issues and logs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lawscope.report.outline import outline_of
from lawscope.result import Result
from lawscope.section import Section, Table, used_columns

TITLES = {"symbol": "number", "interval": "95 %", "control": "untrained"}
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#~])")


def render_markdown(result: Result) -> str:
    """Return a document in GitHub's Markdown: verdicts, key numbers, tables, sentences, papers."""
    outline = outline_of(result)
    lines = [f"# {_plain(outline.name)}", ""]
    if outline.facts:
        lines += [_plain(", ".join(outline.facts)), ""]
    for section in outline.sections:
        lines += _section(section, titled=section.title != outline.name)
    lines += _list("Not measured", [f"{law}: {why}" for law, why in outline.skipped.items()], "-")
    for caption, pairs in outline.settings:
        lines += _table(Table(caption, ["name", "value"], pairs, words=2))
    return "\n".join([*lines, *_list("Papers", outline.citations, "-")]).rstrip() + "\n"


def _section(section: Section, titled: bool) -> list[str]:
    lines = [f"## {_plain(section.title)}", ""] if titled else []
    verdict = f"**{_plain(section.verdict)}**: " if section.verdict else ""
    lines += [f"{verdict}{_plain(section.headline)}", ""]
    if used := used_columns(section.numbers):
        titles = [TITLES.get(name, name) for name in used]
        cells = [[getattr(each, name) for name in used] for each in section.numbers]
        lines += _table(Table("", titles, cells))
    lines += _list("Advice", section.advice, "1.")
    lines += _list("Findings", section.findings, "-")
    lines += _list("Warnings", section.warnings, "-")
    for table in section.tables:
        lines += _table(table)
    return [*lines, f"Rule: {_plain(section.rule)}", ""] if section.rule else lines


def _list(title: str, sentences: Sequence[str], mark: str) -> list[str]:
    if not sentences:
        return []
    return [f"### {title}", "", *(f"{mark} {_plain(each)}" for each in sentences), ""]


def _table(table: Table) -> list[str]:
    rules = [":--" if i < table.words else "--:" for i in range(len(table.columns))]
    rows = [table.columns, rules, *table.rows]
    head = [f"### {_plain(table.caption)}", ""] if table.caption else []
    body = ["| " + " | ".join(c if row is rules else _plain(c) for c in row) + " |" for row in rows]
    return [*head, *body, ""]


def _plain(words: str) -> str:
    """Return words in which nothing is markup."""
    return _SPECIAL.sub(r"\\\1", " ".join(words.split()))
