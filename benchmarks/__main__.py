"""Run all benchmarks, print the table, write results/bench.json."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from benchmarks import definition, memory, overhead, stacks
from benchmarks.row import Row

RESULTS = Path("results/bench.json")


def main() -> None:
    torch.set_num_threads(os.cpu_count() or 1)
    rows: list[Row] = []
    for bench in (overhead, definition, memory, stacks):
        for row in bench.rows():
            print(f"{row.name}: {row.ratio:.4g} ({row.bar})", file=sys.stderr, flush=True)
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
    RESULTS.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    sys.exit(0 if all(row.holds for row in rows) else 1)


if __name__ == "__main__":
    main()
