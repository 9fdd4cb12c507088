"""Render the kept results of studies and benchmarks into the README and the documentation.

    python scripts/render_studies.py           # rewrites README.md, tables in docs, docs/figures
    python scripts/render_studies.py --check   # exit code 1 where they differ from the results

The tables stand between two comments: ``<!-- claims: separation -->`` or, for a table of the paper,
``<!-- table: collapse/oversampling -->``, or ``<!-- bench -->``, and ``<!-- end -->``.
The bench comes from ``results/bench.json``, which ``make bench`` writes. Everything else comes from
``results/<family>.json``, and from ``results/<family>.train.json`` (measured in train mode) where
there is one; ``lawscope study run`` writes them.
"""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

from lawscope.report.study_markdown import claims_markdown, table_markdown
from lawscope.studies.registry import find
from lawscope.studies.result import StudyResult

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "docs/studies.md", "docs/benchmarks.md")
# The README shows the claims of these studies; the documentation shows all.
MAIN = (
    "separation/optimizers", "separation/depth", "separation/frozen", "separation/resnet",
    "peeled/minority-angle", "collapse/minority", "collapse/oversampling",
    "next-token/law", "next-token/architectures",
)  # fmt: skip
TABLE = re.compile(r"(<!-- table: ([\w-]+)/([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
BENCH = re.compile(r"(<!-- bench -->\n).*?(<!-- end -->)", re.DOTALL)
PLACE = re.compile(r"(<!-- claims: ([\w-]+)( main)? -->\n).*?(<!-- end -->)", re.DOTALL)


def results_of(family: str) -> list[StudyResult]:
    """The kept results of a family."""
    document = json.loads((ROOT / "results" / f"{family}.json").read_text(encoding="utf-8"))
    versions = {"versions": document["versions"]}
    return [StudyResult.from_dict({**versions, **study}) for study in document["studies"]]


def rendered(text: str) -> str:
    """The page with its tables made from the results."""

    def table(found: re.Match[str]) -> str:
        results = results_of(found[2])
        if found[3]:
            results = [result for result in results if result.name in MAIN]
        train = f"{found[2]}.train"
        beside = results_of(train) if (ROOT / "results" / f"{train}.json").exists() else None
        return f"{found[1]}\n{claims_markdown(results, beside)}\n\n{found[4]}"

    return BENCH.sub(_bench_table, TABLE.sub(_paper_table, PLACE.sub(table, text)))


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


def _paper_table(found: re.Match[str]) -> str:
    """The table of one study from its kept numbers."""
    name = f"{found[2]}/{found[3]}"
    (result,) = (result for result in results_of(found[2]) if result.name == name)
    make = find(name).table
    if make is None:
        sys.exit(f"{name} has no table")
    return f"{found[1]}\n{table_markdown(make(dict(result.numbers)))}\n\n{found[4]}"


def draw_figures(family: str) -> None:
    """Every figure of the family, from the kept numbers."""
    from PIL import Image

    from lawscope.studies.jobs import draw

    folder = ROOT / "docs" / "figures" / family
    folder.mkdir(parents=True, exist_ok=True)
    for result in results_of(family):
        if result.status == "done":
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
