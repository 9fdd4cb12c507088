"""``lawscope charges``: symmetries of a network, and what they conserve. Torch comes later."""

from __future__ import annotations

import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import typer

import lawscope as ls
from lawscope.cli.shared import AsJson, DataDir, Threads, print_json, print_result, spell_options


def charges(
    target: Annotated[str, typer.Argument(help="As in scan: net.py or package.module:callable.")],
    checkpoint: Annotated[
        Path | None, typer.Option(help="Weights: .safetensors, or .pt loaded as weights only.")
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="As in scan. Without it: 'data' of the target.")
    ] = None,
    data_dir: DataDir = None,
    size: Annotated[str | None, typer.Option(help="Resize images, e.g. 32x32.")] = None,
    samples: Annotated[
        int | None, typer.Option(help="How many, for the noise equilibrium.", min=2)
    ] = None,
    loss: Annotated[
        str | None,
        typer.Option(
            help="cross-entropy or mse, for the noise equilibrium. Without it: 'loss' of the "
            "target."
        ),
    ] = None,
    mode: Annotated[
        str, typer.Option(help="eval, or train: BatchNorm uses each batch, as training does.")
    ] = "eval",
    threads: Threads = None,
    json_: AsJson = False,
) -> None:
    """Find the symmetries of a network and the charges that training conserves.

    With a loss, also how far each rescaling is from where the noise of SGD drives it. What each
    means: docs/conservation.md.

    [bold]Examples[/bold]

    lawscope charges net.py

    lawscope charges net.py --loss cross-entropy --json
    """
    from lawscope.cli.scan import set_threads

    set_threads(threads)
    asked = {"data": data, "data_dir": data_dir, "size": size, "samples": samples}
    fixed = {"split": "train", "batch_size": None, "seed": 0, "scale": "-1:1", "mean": None}
    with redirect_stdout(sys.stderr) if json_ else nullcontext():
        found = measure(target, checkpoint, loss, mode, SimpleNamespace(**asked, **fixed))
    if json_:
        print_json({name: each and each.to_dict() for name, each in found.items()})
        return
    for result in found.values():
        if result is not None:
            print_result(result, json_=False)


def measure(
    target: str, checkpoint: Path | None, loss: str | None, mode: Any, options: SimpleNamespace
) -> dict[str, Any]:
    """Return symmetries, charges and, with a loss, the noise equilibrium by name."""
    from collections.abc import Iterator

    from lawscope.cli.scan import (
        build_target,
        explain_failures,
        find_loss,
        load_target_data,
        quiet_warnings,
    )
    from lawscope.data.batches import as_raw
    from lawscope.data.source import Source
    from lawscope.laws.conservation.charges import charges as compute_charges

    given, model = build_target(target, checkpoint)
    with quiet_warnings(), explain_failures("The network or its data"):
        loader, _, _ = load_target_data(options, given, model)
        loader = list(loader) if isinstance(loader, Iterator) else loader
        symmetries = ls.find_symmetries(model, as_raw(Source(loader).peek()), mode=mode)
        found: dict[str, Any] = {
            "symmetries": symmetries,
            "charges": compute_charges(model, symmetries=symmetries),
            "noise_equilibrium": None,
        }
        criterion = find_loss(loss, given)
        if criterion is None:
            sys.stderr.write(
                "lawscope: no noise equilibrium without a loss; define 'loss' in the target, or "
                "pass --loss.\n"
            )
            return found
        try:
            found["noise_equilibrium"] = ls.noise_equilibrium(
                model, loader, criterion, symmetries=symmetries
            )
        except ls.LawscopeError as error:
            sys.stderr.write(f"lawscope: no noise equilibrium: {spell_options(str(error))}\n")
    return found
