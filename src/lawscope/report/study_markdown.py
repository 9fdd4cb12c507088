"""The claims of studies as a Markdown table, for READMEs and documentation."""

from __future__ import annotations

from collections.abc import Sequence

from lawscope.report.study_text import brief
from lawscope.studies.result import StudyResult


def claims_markdown(results: Sequence[StudyResult]) -> str:
    """One row per claim: study, claim, the paper's number, ours, the verdict.

    Example:
        >>> from lawscope.studies.study import Judged
        >>> claim = Judged("r ≤ −0.99", "−0.999", -0.9951, "shown", "")
        >>> print(claims_markdown([StudyResult("f/law", "cpu", {}, {}, (claim,), 1.0, "today")]))
        | study | claim | paper | ours | verdict |
        | --- | --- | --- | --- | --- |
        | `f/law` | r ≤ −0.99 | −0.999 | −0.995 | **shown** |
    """
    lines = ["| study | claim | paper | ours | verdict |", "| --- | --- | --- | --- | --- |"]
    for result in results:
        for claim in result.claims:
            cells = [
                f"`{result.name}`",
                claim.text,
                claim.paper,
                claim.why or brief(claim.measured),
                f"**{claim.verdict}**",
            ]
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)
