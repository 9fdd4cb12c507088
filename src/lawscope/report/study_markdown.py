"""The claims of studies as a Markdown table, for READMEs and documentation."""

from __future__ import annotations

from collections.abc import Sequence

from lawscope.report.study_text import brief
from lawscope.studies.result import StudyResult
from lawscope.studies.study import Judged

TITLES = ("study", "claim", "paper", "ours", "verdict")
BESIDE = ("in train mode", "verdict")


def claims_markdown(
    results: Sequence[StudyResult], beside: Sequence[StudyResult] | None = None
) -> str:
    """One row per claim: study, claim, the paper's number, ours, the verdict.

    Args:
        results: measured in eval mode.
        beside: the same studies measured in train mode, in two more columns.

    Example:
        >>> claim = Judged("r ≤ −0.99", "−0.999", -0.9951, "shown", "")
        >>> print(claims_markdown([StudyResult("f/law", "cpu", {}, {}, (claim,), 1.0, "today")]))
        | study | claim | paper | ours | verdict |
        | --- | --- | --- | --- | --- |
        | `f/law` | r ≤ −0.99 | −0.999 | −0.995 | **shown** |
    """
    titles = TITLES if beside is None else TITLES + BESIDE
    others = {(r.name, c.text): c for r in beside or () for c in r.claims}
    lines = [_line(titles), _line(["---"] * len(titles))]
    for result in results:
        for claim in result.claims:
            cells = [f"`{result.name}`", claim.text, claim.paper, *_found(claim)]
            if beside is not None:
                cells += _found(others.get((result.name, claim.text)))
            lines.append(_line(cells))
    return "\n".join(lines)


def table_markdown(rows: Sequence[Sequence[str]]) -> str:
    """A table whose first row has the titles.

    Example:
        >>> print(table_markdown([["R", "cosine"], ["10", "0.5"]]))
        | R | cosine |
        | --- | --- |
        | 10 | 0.5 |
    """
    titles, *rest = rows
    return "\n".join(_line(row) for row in (titles, ["---"] * len(titles), *rest))


def _found(claim: Judged | None) -> list[str]:
    if claim is None:
        return ["", ""]
    return [claim.why or brief(claim.measured), f"**{claim.verdict}**"]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
