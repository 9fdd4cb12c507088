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
        if section.title != outline.name:
            lines += [f"## {_plain(section.title)}", ""]
        lines += _section(section, "###")
    lines += _list(
        "### Not measured", [f"{law}: {why}" for law, why in outline.skipped.items()], "-"
    )
    for caption, pairs in outline.settings:
        lines += _table(Table(caption, ["name", "value"], pairs, words=2), "###")
    return "\n".join([*lines, *_list("### Papers", outline.citations, "-")]).rstrip() + "\n"


def render_part(result: Result, heading: str, picture: str = "") -> str:
    """Return a result as part of a longer document, below a heading; a picture comes first.

    Args:
        result: with one section, as that of a study.
        heading: the marks of its heading, as in ``"##"``.
        picture: the address of a picture.
    """
    outline = outline_of(result)
    (section,) = outline.sections
    lines = [f"{heading} {_plain(section.title)}", ""]
    lines += [f"![{_plain(section.title)}]({picture})", ""] if picture else []
    lines += _section(section, f"{heading}#")
    return "\n".join([*lines, _plain(f"Run: {', '.join(outline.facts)}.")]).rstrip() + "\n"


def _section(section: Section, heading: str) -> list[str]:
    """Return the lines of a section; its lists and tables have headings with these marks."""
    verdict = f"**{_plain(section.verdict)}**: " if section.verdict else ""
    lines = [f"{verdict}{_plain(section.headline)}", ""]
    if used := used_columns(section.numbers):
        titles = [TITLES.get(name, name) for name in used]
        cells = [[getattr(each, name) for name in used] for each in section.numbers]
        lines += _table(Table("", titles, cells), heading)
    lines += _list(f"{heading} Advice", section.advice, "1.")
    lines += _list(f"{heading} Findings", section.findings, "-")
    lines += _list(f"{heading} Warnings", section.warnings, "-")
    for table in section.tables:
        lines += _table(table, heading)
    return [*lines, f"Rule: {_plain(section.rule)}", ""] if section.rule else lines


def _list(title: str, sentences: Sequence[str], mark: str) -> list[str]:
    if not sentences:
        return []
    return [title, "", *(f"{mark} {_plain(each)}" for each in sentences), ""]


def _table(table: Table, heading: str) -> list[str]:
    def cell(words: str) -> str:
        return f"**{_plain(words)}**" if words in table.tones else _plain(words)

    rules = [":--" if i < table.words else "--:" for i in range(len(table.columns))]
    head = [f"{heading} {_plain(table.caption)}", ""] if table.caption else []
    rows = [list(map(_plain, table.columns)), rules, *(list(map(cell, r)) for r in table.rows)]
    return [*head, *(f"| {' | '.join(row)} |" for row in rows), ""]


def _plain(words: str) -> str:
    """Return words in which nothing is markup."""
    return _SPECIAL.sub(r"\\\1", " ".join(words.split()))
