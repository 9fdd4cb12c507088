"""``lawscope depth``: how deep a network a dataset asks for. Torch is imported inside."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

import lawscope as ls
from lawscope.cli.shared import AsJson, DataDir, Threads, find_form, print_result, write_figure
from lawscope.errors import LawscopeError


def depth(
    data: Annotated[
        str,
        typer.Option(
            help="fashion-mnist-10x10, fashion-mnist, mnist, cifar10, an .npz with x and y, or a "
            "folder of images by class.",
            show_default=False,
        ),
    ],
    depths: Annotated[
        str, typer.Option(help="Layers to try, classifier included: 2,4,8 or 2-8.")
    ] = "2,4,6,8,10,12,16,20",
    seeds: Annotated[int, typer.Option(help="Networks per depth.")] = 3,
    per_class: Annotated[int, typer.Option(help="Training samples per class, at most.")] = 100,
    size: Annotated[
        str | None, typer.Option(help="Resize images; the paper uses 10x10.", show_default=False)
    ] = None,
    width: Annotated[int, typer.Option(help="Of every hidden layer.")] = 100,
    lr: Annotated[float, typer.Option(help="First learning rate of Adam.")] = 1e-3,
    epochs: Annotated[int, typer.Option(help="Passes over the training data.")] = 300,
    data_dir: DataDir = None,
    threads: Threads = None,
    figure: Annotated[
        Path | None,
        typer.Option("--figure", "-o", help="Draw D and held-out accuracy: .pdf, .png or .svg."),
    ] = None,
    json_: AsJson = False,
) -> None:
    """Train several depths on the data and report how deep is enough.

    The advised depth is the shallowest whose accuracy on held-out samples is not surely below the
    best over the seeds; D of the training samples stands beside it. Held out is the test split, or
    a fifth of each class where there is none. Two to three minutes on one core with the defaults.

    [bold]Examples[/bold]

    lawscope depth --data fashion-mnist-10x10

    lawscope depth --data cifar10 --size 10x10 --depths 4-16 --seeds 5 -o depth.pdf
    """
    if figure is not None:
        find_form(figure)  # refused before the training, not after it
    tried = parse_depths(depths)

    from lawscope.cli.data import parse_size
    from lawscope.cli.scan import set_threads

    # Layers of a hundred units are too small to share: a second thread only waits.
    set_threads(threads or 1)
    advice = ls.advise_depth(
        data,
        depths=tried,
        seeds=seeds,
        per_class=per_class,
        size=None if size is None else parse_size(size),
        width=width,
        lr=lr,
        epochs=epochs,
        data_dir=data_dir,
    )
    print_result(advice, json_)
    if figure is not None:
        write_figure(advice, figure)
        sys.stderr.write(f"figure: {figure}\n")


def parse_depths(depths: str) -> list[int]:
    """Return the numbers of ``--depths``, written ``2,4,8`` or ``2-6`` or both."""
    found: list[int] = []
    for part in depths.split(","):
        first, _, last = part.strip().partition("-")
        if not first.isdecimal() or not (last or first).isdecimal():
            raise LawscopeError(
                f"--depths {depths} is not a list of depths; write it like 2,4,8 or 2-8."
            )
        found += range(int(first), int(last or first) + 1)
    return found
