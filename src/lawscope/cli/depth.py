"""``lawscope depth``: how deep a network a dataset asks for. Torch is imported inside."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lawscope.errors import LawscopeError

if TYPE_CHECKING:
    from lawscope.remedies.depth import DepthAdvice

FORMS = ("pdf", "png", "svg")


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
    data_dir: Annotated[
        Path | None, typer.Option(help="Where data sets lie (or set LAWSCOPE_DATA).")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(help="CPU threads torch may use.", min=1, show_default=False)
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option("--figure", "-o", help="Draw D over depth into a .pdf, .png or .svg file."),
    ] = None,
    json_: Annotated[
        bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else.")
    ] = False,
) -> None:
    """Train several depths on the data and report which separates best.

    [bold]Examples[/bold]

    lawscope depth --data fashion-mnist-10x10

    lawscope depth --data cifar10 --size 10x10 --depths 4-16 --seeds 5 -o depth.pdf
    """
    form = "" if figure is None else figure.suffix.lstrip(".").lower()
    if figure is not None and form not in FORMS:
        raise LawscopeError(f"-o {figure} must end in .{', .'.join(FORMS[:-1])} or .{FORMS[-1]}.")
    tried = parse_depths(depths)

    from lawscope.cli.data import parse_size
    from lawscope.cli.scan import set_threads
    from lawscope.remedies.depth import advise_depth

    # Layers of a hundred units are too small to share: a second thread only waits.
    set_threads(threads or 1)
    advice = advise_depth(
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
    if json_:
        sys.stdout.write(json.dumps(advice.to_dict(), allow_nan=False) + "\n")
    else:
        from rich.console import Console

        Console().print(advice)
    if figure is not None:
        _draw(advice, figure, form)


def parse_depths(depths: str) -> list[int]:
    """Return the numbers of ``--depths``, written ``2,4,8`` or ``2-6`` or both.

    Example:
        >>> parse_depths("2-4,8")
        [2, 3, 4, 8]
    """
    found: list[int] = []
    for part in depths.split(","):
        first, _, last = part.strip().partition("-")
        if not first.isdecimal() or not (last or first).isdecimal():
            raise LawscopeError(
                f"--depths {depths} is not a list of depths; write it like 2,4,8 or 2-8."
            )
        found += range(int(first), int(last or first) + 1)
    return found


def _draw(advice: DepthAdvice, path: Path, form: str) -> None:
    import matplotlib as mpl

    mpl.use("agg")
    from lawscope.files import write_whole
    from lawscope.studies.figures import draw

    write_whole(draw(advice.plot().figure, form), path)
    sys.stderr.write(f"figure: {path}\n")
