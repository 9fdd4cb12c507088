"""Render the kept results of studies and benchmarks into the README and the documentation.

    python scripts/render_studies.py           # rewrites README.md, tables in docs, docs/figures
    python scripts/render_studies.py --check   # exit code 1 where they differ from the results

What is rendered stands between two comments, the second being ``<!-- end -->``:

- ``<!-- studies: separation -->``: all studies of a family, from ``results/<family>.json``, which
  ``lawscope study run`` writes and ``lawscope study judge`` judges again;
- ``<!-- counts -->``: how many claims of each document have which verdict;
- ``<!-- failing -->``: those that do not hold, and where;
- ``<!-- headline -->``: the table of the README;
- ``<!-- document: He & Su 2023 -->``: every figure and table of a document, with ours beside it;
- ``<!-- bench -->``: ``results/bench.json``, which ``make bench`` writes;
- ``<!-- coverage: d = 20 -->`` or ``<!-- coverage -->``: ``results/coverage.json``, which
  ``make coverage`` writes.
"""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from documents import DOCUMENTS, document_table, readme_table

from lawscope.report.markdown import render_part
from lawscope.studies.result import StudyResult, load_results
from lawscope.studies.study import FAILS, NETWORK, count_verdicts

ROOT = Path(__file__).parent.parent
STUDIES = ROOT / "docs" / "studies"
# A family of studies is a file of results and a page; it is about one document.
FAMILIES = {
    document: list(dict.fromkeys(row.study.partition("/")[0] for row in rows))
    for document, rows in DOCUMENTS.items()
}
PAGES = [ROOT / "README.md", ROOT / "docs/benchmarks.md", ROOT / "docs/intervals.md"]
PLACE = re.compile(r"(<!-- (\w+)(?:: ([^>]+?))? -->\n).*?(<!-- end -->)", re.DOTALL)
# Coverage over all trials, the share of trials (of stations, for D̂) that give an interval (with two
# ends, for D̂), and coverage of those.
COVERED = {
    "D̂": ("D", "D_closed", "D_of_closed"),
    "ρ": ("rho", "rho_given", "rho_of_given"),
    "r": ("pearson", "pearson_given", "pearson_of_given"),
}
FEW = 20  # intervals in a cell that are too few for a coverage


@cache
def results_of(family: str) -> list[StudyResult]:
    """Return the kept results of a family."""
    return load_results(ROOT / "results" / f"{family}.json")


def rendered(text: str) -> str:
    """Return the page with what stands between comments made from the results."""

    def fill(found: re.Match[str]) -> str:
        begin, kind, which, end = found.groups()
        return f"{begin}\n{RENDERERS[kind](which)}\n\n{end}"

    return PLACE.sub(fill, text)


def _studies(family: str) -> str:
    """Every study of a family: its figure, claims, questions and checks."""
    parts = []
    for result in results_of(family):
        name = result.name.partition("/")[2]
        picture = f"../figures/{family}/{name}.png" if result.numbers else ""
        parts.append(render_part(result, "###", picture))
    return "\n".join(parts).rstrip()


def _counts(_: str | None) -> str:
    """How many claims of each document have which verdict, one line for each."""
    lines = []
    for document, families in FAMILIES.items():
        results = [result for family in families for result in results_of(family)]
        claims = [claim for result in results for claim in result.claims]
        counts = count_verdicts([claim.column for claim in claims])
        if any(claim.column is not claim.columns.get(NETWORK) for claim in claims):
            own = count_verdicts([claim.columns[NETWORK] for claim in claims])
            counts += f", as the authors measured; of the network itself {own.partition(': ')[2]}"
        lines.append(f"- {document}, {counts}")
    return "\n".join(lines)


def _failing(_: str | None) -> str:
    """Every claim that does not hold, with the panels in which it does not."""
    return "\n".join(
        f"- {document}, {_link(result)}: {claim.text}" + (where and f" ({where})")
        for document, families in FAMILIES.items()
        for result in (result for family in families for result in results_of(family))
        for claim in result.claims
        if claim.column.verdict == FAILS
        for where in [claim.column.why]
    )


def _headline(_: str | None) -> str:
    """The best known numbers of the documents, and ours beside them."""
    return _markdown(readme_table(_result_of))


def _document(name: str) -> str:
    """Every figure and table of a document; every study of its families stands in some row."""
    kept = {result.name for family in FAMILIES[name] for result in results_of(family)}
    if missing := kept - {row.study for row in DOCUMENTS[name]}:
        sys.exit(f"scripts/documents.py has no row of {', '.join(sorted(missing))}")
    return _markdown(document_table(name, _result_of, _link))


def _link(result: StudyResult) -> str:
    """A link from one page of the studies to the study on its own."""
    family, _, study = result.name.partition("/")
    heading = re.sub(r"[^\w\- ]", "", result.section().title.lower()).replace(" ", "-")
    return f"[{study}]({family}.md#{heading})"


def _result_of(study: str) -> StudyResult:
    (found,) = [r for r in results_of(study.partition("/")[0]) if r.name == study]
    return found


def _markdown(rows: list[list[str]]) -> str:
    """A table whose first row has the titles."""
    titles, *rest = ([cell.replace("|", "\\|") for cell in row] for row in rows)
    lines = (titles, ["---"] * len(titles), *rest)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _bench(_: str | None) -> str:
    """Every row of the last benchmarks."""
    rows = json.loads((ROOT / "results" / "bench.json").read_text(encoding="utf-8"))
    lines = ["| what | ours | against | | ratio | bar | holds | note |", "| --- " * 8 + "|"]
    for row in rows:
        cells = (
            row["name"],
            f"{row['ours_s']:.3g} {row['unit']}",
            row["reference"],
            f"{row['reference_s']:.3g} {row['unit']}",
            f"{row['ratio']:.4g}",
            row["bar"],
            "yes" if row["holds"] else "**no**",
            row.get("note", ""),
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _coverage(which: str | None) -> str:
    """One row per cell of a table, or all cells counted by their coverage."""
    rows = json.loads((ROOT / "results" / "coverage.json").read_text(encoding="utf-8"))
    make = _count_coverage if which is None else _list_coverage
    return _markdown(make([row for row in rows if which in (None, row["table"])]))


def _list_coverage(rows: list[dict[str, Any]]) -> list[list[str]]:
    titles = ["world", "n", "trials", "D̂", "worst station", "two ends", "of those"]
    titles += ["ρ", "given", "of those", "r", "given", "of those"]
    table = [[*titles, "says holds / does not / cannot tell", "truth"]]
    for row in rows:
        cells = [row["world"], str(row["samples"]), str(row["trials"])]
        for name, (all_, share, of_share) in COVERED.items():
            worst = [_covered(row["D_worst"])] if name == "D̂" else []
            given = _covered(row[of_share], many=row["trials"] * row[share] >= FEW)
            cells += [_covered(row[all_]), *worst, f"{row[share]:.0%}", given]
        said = (row[verdict] for verdict in ("holds", "does not hold", "cannot be told"))
        table.append([*cells, " / ".join(f"{100 * share:.0f}" for share in said), row["truth"]])
    return table


def _covered(share: float | None, many: bool = True) -> str:
    if share is None:
        return "–"
    text = f"{share:.1%}" if many else f"({share:.0%})"
    return f"**{text}**" if many and share < 0.9 else text


def _count_coverage(rows: list[dict[str, Any]]) -> list[list[str]]:
    table = [["interval", "cells", "under 85 %", "85–90 %", "90–99 %", "over 99 %", "all trials"]]
    for name, (all_, share, of_share) in COVERED.items():
        for column, said in ((all_, ""), (of_share, " with two ends" if name == "D̂" else " given")):
            many = [r for r in rows if column == all_ or r["trials"] * r[share] >= FEW]
            weights = [r["trials"] * (r[share] if said else 1) for r in many]
            pooled = sum(w * r[column] for w, r in zip(weights, many, strict=True)) / sum(weights)
            bands = [0, 0, 0, 0]
            for row in many:
                bands[sum(row[column] >= end for end in (0.85, 0.9)) + (row[column] > 0.99)] += 1
            table.append([name + said, str(len(many)), *map(str, bands), f"{pooled:.1%}"])
    return table


RENDERERS: dict[str, Callable[[Any], str]] = {
    "studies": _studies,
    "counts": _counts,
    "failing": _failing,
    "headline": _headline,
    "document": _document,
    "bench": _bench,
    "coverage": _coverage,
}


def small_png(picture: bytes) -> bytes:
    """The PNG in at most 256 colours: a repository keeps every version."""
    from PIL import Image

    # Median cut, the default, gives lines the mean colour of their surroundings; an octree keeps
    # every colour to within a dozen steps of 256.
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    buffer = io.BytesIO()
    image.quantize(method=Image.Quantize.FASTOCTREE).save(buffer, "png", optimize=True)
    return buffer.getvalue()


def draw_figures(family: str) -> None:
    """Every figure of the family, from the kept numbers."""
    from lawscope.studies.figures import draw

    folder = ROOT / "docs" / "figures" / family
    folder.mkdir(parents=True, exist_ok=True)
    for result in results_of(family):
        if result.numbers:
            name = result.name.partition("/")[2]
            (folder / f"{name}.png").write_bytes(small_png(draw(result.plot(), "png")))


def main() -> None:
    """Render or check."""
    check = "--check" in sys.argv
    for page in [*PAGES, *sorted(STUDIES.glob("*.md"))]:
        old = page.read_text(encoding="utf-8")
        new = rendered(old)
        if check and new != old:
            name = page.relative_to(ROOT)
            sys.exit(f"{name} is not what the results say; run scripts/render_studies.py")
        if new != old:
            page.write_text(new, encoding="utf-8")
    if not check:
        for family in (family for families in FAMILIES.values() for family in families):
            draw_figures(family)


if __name__ == "__main__":
    main()
