"""Run benchmarks, print the table, write results/bench.json.

    python -m benchmarks            # all
    python -m benchmarks stacks     # some; rows of the others are kept

Both numbers of a row come from one run.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from benchmarks import (
    alignment,
    conservation,
    definition,
    elastic,
    kernel,
    lockstep,
    memory,
    next_token,
    overhead,
    peeled,
    stacks,
    symmetry,
    vision,
)
from benchmarks.row import Row

RESULTS = Path("results/bench.json")
BENCHES = {
    "overhead": overhead,
    "definition": definition,
    "lockstep": lockstep,
    "elastic": elastic,
    "kernel": kernel,
    "memory": memory,
    "next-token": next_token,
    "peeled": peeled,
    "stacks": stacks,
    "symmetry": symmetry,
    "conservation": conservation,
    "alignment": alignment,
    "vision": vision,
}


def main() -> None:
    torch.set_num_threads(os.cpu_count() or 1)
    rows: list[Row] = []
    names = sys.argv[1:] or list(BENCHES)
    for bench in (BENCHES[name] for name in names):
        for row in bench.rows():
            note = f"; {row.note}" if row.note else ""
            print(f"{row.name}: {row.ratio:.4g} ({row.bar}){note}", file=sys.stderr, flush=True)
            rows.append(row)
    table = Table("name", "ours", "reference", "", "ratio", "bar", "holds")
    for row in rows:
        table.add_row(
            row.name,
            f"{row.ours_s:.4g} {row.unit}",
            row.reference,
            f"{row.reference_s:.4g} {row.unit}",
            f"{row.ratio:.4g}",
            row.bar,
            "yes" if row.holds else "NO",
        )
    Console(width=140).print(table)
    RESULTS.parent.mkdir(exist_ok=True)
    measured = {row.name for row in rows}
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() and sys.argv[1:] else []
    written = [row for row in kept if row["name"] not in measured] + [asdict(row) for row in rows]
    RESULTS.write_text(json.dumps(written, indent=1) + "\n")
    sys.exit(0 if all(row.holds for row in rows) else 1)


if __name__ == "__main__":
    main()
