"""Render the kept results of studies and benchmarks into the README and the documentation.

    python scripts/render_studies.py           # rewrites README.md, tables in docs, docs/figures
    python scripts/render_studies.py --check   # exit code 1 where they differ from the results

The tables stand between two comments: ``<!-- claims: separation -->``, ``<!-- questions: … -->`` or
``<!-- checks: … -->``, for a table of the paper ``<!-- table: collapse/oversampling -->``, for the
intervals ``<!-- coverage: d = 20 -->`` or ``<!-- coverage -->``, or ``<!-- bench -->``, and
``<!-- end -->``. The bench comes from ``results/bench.json``, which ``make bench`` writes, coverage
from ``results/coverage.json``, which ``make coverage`` writes, everything else from
``results/<family>.json``, which ``lawscope study run`` writes and ``lawscope study judge`` judges
again.
"""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path
from typing import Any

from lawscope.studies.registry import find
from lawscope.studies.result import StudyResult, load_results, measured_text
from lawscope.studies.study import AUTHORS, NETWORK, VERDICTS, Judged

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "docs/studies.md", "docs/benchmarks.md", "docs/intervals.md")
FAMILIES = (
    "separation",
    "peeled",
    "collapse",
    "next-token",
    "elasticity",
    "symmetry",
    "conservation",
)
TABLE = re.compile(r"(<!-- table: ([\w-]+)/([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
BENCH = re.compile(r"(<!-- bench -->\n).*?(<!-- end -->)", re.DOTALL)
COVERAGE = re.compile(r"(<!-- coverage(?:: ([^>]+?))? -->\n).*?(<!-- end -->)", re.DOTALL)
# Coverage over all trials, the share of trials (of stations, for D̂) that give an interval (with two
# ends, for D̂), and coverage of those.
COVERED = {
    "D̂": ("D", "D_closed", "D_of_closed"),
    "ρ": ("rho", "rho_given", "rho_of_given"),
    "r": ("pearson", "pearson_given", "pearson_of_given"),
}
FEW = 20  # intervals in a cell that are too few for a coverage
# Every list of sentences, and the title of what is said of them.
LISTS = {"claims": "verdict", "questions": "answer", "checks": ""}
PROTOCOLS = {AUTHORS: "measured as the authors did", NETWORK: "the network itself"}
PLACE = re.compile(r"(<!-- (claims|questions|checks): ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
COUNTS = re.compile(r"(<!-- counts -->\n).*?(<!-- end -->)", re.DOTALL)


def results_of(family: str) -> list[StudyResult]:
    """Return the kept results of a family."""
    return load_results(ROOT / "results" / f"{family}.json")


def rendered(text: str) -> str:
    """Return the page with its tables made from the results."""

    def table(found: re.Match[str]) -> str:
        return f"{found[1]}\n{_sentence_table(results_of(found[3]), found[2])}\n\n{found[4]}"

    text = COVERAGE.sub(_coverage_table, COUNTS.sub(_count_table, text))
    return BENCH.sub(_bench_table, TABLE.sub(_paper_table, PLACE.sub(table, text)))


def _sentence_table(results: list[StudyResult], which: str) -> str:
    """One row per claim, question or check, with what each protocol measured and its verdict."""
    pairs = [(r.name, each) for r in results for each in getattr(r, which)]
    if not pairs:
        return "None."
    protocols = [p for p in PROTOCOLS if any(p in each.columns for _, each in pairs)]
    paper = ["paper"] if which == "claims" else []
    titles = (title for p in protocols for title in (PROTOCOLS[p], LISTS[which]))
    rows = [["study", which.removesuffix("s"), *paper, *titles]]
    for name, each in pairs:
        cells = [f"`{name}`", each.text, *([_paper_of(each)] if paper else [])]
        for column in map(each.columns.get, protocols):
            cells += [measured_text(column), f"**{column.verdict}**"] if column else ["", ""]
        rows.append(cells)
    return _markdown(rows)


def _count_table(found: re.Match[str]) -> str:
    """How many claims of each family have which verdict, under the authors' protocol."""
    rows = [["claims", *VERDICTS]]
    for family in FAMILIES:
        claims = [claim for result in results_of(family) for claim in result.claims]
        verdicts = [claim.verdict for claim in claims]
        rows.append([family, *(str(verdicts.count(verdict)) for verdict in VERDICTS)])
    return f"{found[1]}\n{_markdown(rows)}\n\n{found[2]}"


def _paper_of(claim: Judged) -> str:
    return f"{claim.paper} ({claim.figure})" if claim.figure else claim.paper


def _markdown(rows: list[list[str]]) -> str:
    """A table whose first row has the titles."""
    titles, *rest = ([cell.replace("|", "\\|") for cell in row] for row in rows)
    lines = (titles, ["---"] * len(titles), *rest)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _bench_table(found: re.Match[str]) -> str:
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
    return f"{found[1]}\n" + "\n".join(lines) + f"\n\n{found[2]}"


def _coverage_table(found: re.Match[str]) -> str:
    """One row per cell of a table, or all cells counted by their coverage."""
    rows = json.loads((ROOT / "results" / "coverage.json").read_text(encoding="utf-8"))
    make = _count_coverage if found[2] is None else _list_coverage
    table = make([row for row in rows if found[2] in (None, row["table"])])
    return f"{found[1]}\n{_markdown(table)}\n\n{found[3]}"


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


def _paper_table(found: re.Match[str]) -> str:
    """The table of one study from its kept numbers."""
    name = f"{found[2]}/{found[3]}"
    (result,) = (result for result in results_of(found[2]) if result.name == name)
    make = find(name).table
    if make is None:
        sys.exit(f"{name} has no table")
    return f"{found[1]}\n{_markdown(make(dict(result.main_numbers())))}\n\n{found[4]}"


def draw_figures(family: str) -> None:
    """Every figure of the family, from the kept numbers."""
    from PIL import Image

    from lawscope.studies.figures import draw

    folder = ROOT / "docs" / "figures" / family
    folder.mkdir(parents=True, exist_ok=True)
    for result in results_of(family):
        if result.numbers:
            name = result.name.partition("/")[2]
            picture = Image.open(io.BytesIO(draw(result.plot(), "png")))
            # Few colours are a quarter of the size, and a repository keeps every version.
            picture.convert("RGB").quantize(64).save(folder / f"{name}.png", optimize=True)


def main() -> None:
    """Render or check."""
    check = "--check" in sys.argv
    for name in PAGES:
        path = ROOT / name
        old = path.read_text(encoding="utf-8")
        new = rendered(old)
        if check and new != old:
            sys.exit(f"{name} is not what the results say; run scripts/render_studies.py")
        if new != old:
            path.write_text(new, encoding="utf-8")
    if not check:
        for path in (ROOT / "results").glob("*.json"):
            if "family" in json.loads(path.read_text(encoding="utf-8")) and "." not in path.stem:
                draw_figures(path.stem)


if __name__ == "__main__":
    main()
