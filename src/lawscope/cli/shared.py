"""What commands share: options, what they print and draw, and the processes of torchrun."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from lawscope.errors import LawscopeError
from lawscope.files import exists, write_whole

DEFAULT_OUT = Path("lawscope-report")
PAGE, NUMBERS = "report.html", "run.lawscope.json"

Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", help=f"Folder for {PAGE} and {NUMBERS}.", show_default=False),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else.")
]
Threads = Annotated[
    int | None, typer.Option(help="CPU threads torch may use.", min=1, show_default=False)
]
WhichMode = Annotated[
    str,
    typer.Option(help="eval, or train: BatchNorm uses each batch, as He & Su (2023) measured."),
]
DataDir = Annotated[Path | None, typer.Option(help="Where data sets lie (or set LAWSCOPE_DATA).")]
# What parameters in sentences of the library are on the command line.
SPELLED = {
    r"\bdata_dir\b": "--data-dir",
    r"\b(head|task)='([^']*)'": r"--\1 \2",
    r"\b(seeds|jobs|on|out|window|start)=(?=[ ,.;])": r"--\1",
    r"\b(seeds|jobs|on|out|window|start)='?([^ ';]*)'?": r"--\1 \2",
    r"\bhas a setting (\w+)=": r"has the option --\1",
    r"\bdtype=torch\.(\w+)": r"--dtype \1",
    r"\bpass loss=, a function of output and labels, as in training": (
        "define 'loss' in the target, or pass --loss cross-entropy"
    ),
    r"\bdevice=None\b": "--device auto",
    r"\btrust_remote_code=True\b": "--trust-remote-code",
    r"the same call goes on from it": "--resume continues",
}
TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
PATIENCE = timedelta(days=1)  # a process on a slower device may take that much longer


def spell_options(sentence: str) -> str:
    """Return the sentence with options of the command for parameters of the library."""
    for parameter, option in SPELLED.items():
        sentence = re.sub(parameter, option, sentence)
    return sentence


def print_json(document: Any) -> None:
    """Print one JSON document."""
    sys.stdout.write(json.dumps(document, allow_nan=False) + "\n")


def print_result(result: Any, json_: bool) -> None:
    """Print a result as JSON or as people read it."""
    if json_:
        print_json(result.to_dict())
    else:
        from rich.console import Console

        Console().print(result)


def deliver(report: Any, out: Path | None, *, json_: bool) -> None:
    """Write the page and the numbers, then print: a closed pipe must not cost the files.

    Where the files cannot be written the result is printed all the same, and the error after it.
    """
    if hasattr(report, "skipped"):
        skipped = {law: spell_options(why) for law, why in report.skipped.items()}
        report = dataclasses.replace(report, skipped=skipped)
    folder = None if json_ and out is None else _choose_folder(out)
    try:
        if folder is not None:
            report.save(folder / NUMBERS)
            report.save(folder / PAGE)
    finally:
        print_result(report, json_)
    if folder is not None and not json_:
        typer.echo(f"\nreport: {folder / PAGE}")


def _choose_folder(out: Path | None) -> Path:
    """Return the folder of the report; an earlier one is kept, or said to be replaced."""
    folder, number = out or DEFAULT_OUT, 1
    if not exists(folder / PAGE):
        return folder
    if out is not None:
        written = datetime.fromtimestamp((out / PAGE).stat().st_mtime)
        sys.stderr.write(f"lawscope: this replaces the report of {written:%d %B %Y, %H:%M}.\n")
        return out
    while exists(folder / PAGE):
        number += 1
        folder = DEFAULT_OUT.with_name(f"{DEFAULT_OUT.name}-{number}")
    sys.stderr.write(f"lawscope: {DEFAULT_OUT} holds an earlier report; this one is {folder}.\n")
    return folder


def find_form(path: Path) -> str:
    """Return what a figure's file is to hold, by the end of its name."""
    form = path.suffix.lstrip(".").lower()
    if form not in ("pdf", "png", "svg"):
        raise LawscopeError(f"-o {path} must end in .pdf, .png or .svg.")
    return form


def write_figure(result: Any, path: Path) -> None:
    """Write what a result plots, in the form that the name of the file says."""
    import matplotlib as mpl

    mpl.use("agg")
    from lawscope.studies.figures import draw

    write_whole(draw(result.plot().figure, find_form(path)), path)


def find_place() -> tuple[int, int, int]:
    """Return rank, number of processes and rank on this machine; (0, 1, 0) without torchrun."""
    if any(name not in os.environ for name in TORCHRUN):
        return 0, 1, 0
    rank, world, local = (int(os.environ[name]) for name in TORCHRUN[:3])
    return rank, world, local


def speaks() -> bool:
    """Return whether this process prints and writes: of several, rank 0 gives the one answer."""
    return find_place()[0] == 0


@contextmanager
def join_processes() -> Iterator[None]:
    """Join the group of all processes under torchrun; nothing without it.

    Moments are gathered through main memory, so that gloo serves on every device.
    """
    rank, world, _ = find_place()
    if world == 1:
        yield
        return
    import torch.distributed as dist

    dist.init_process_group("gloo", rank=rank, world_size=world, timeout=PATIENCE)
    try:
        yield
    finally:
        dist.destroy_process_group()
