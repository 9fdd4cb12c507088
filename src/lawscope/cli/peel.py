"""``lawscope peel``: will minority classes collapse, from which ratio, what oversampling."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lawscope.errors import LawscopeError

if TYPE_CHECKING:
    from lawscope.theory.layer_peeled.local import LocalPeeled
    from lawscope.theory.layer_peeled.peeled import Peeled
    from lawscope.theory.layer_peeled.phases import PeeledGroup
    from lawscope.theory.layer_peeled.sweep import PeelSweep

ROWS = 9  # of a sweep that are printed
GROUPS = 24  # that are printed one by one


def peel(
    counts: Annotated[
        str | None,
        typer.Option(help="Samples per class: 5000,5000,50 or 5000x5,50x5.", show_default=False),
    ] = None,
    labels: Annotated[
        Path | None,
        typer.Option(help="Labels: a .npy, an .npz with y, or text, one per line."),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="Take the training labels of a dataset, e.g. cifar10.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Where data sets lie (or set LAWSCOPE_DATA).")
    ] = None,
    classes: Annotated[int | None, typer.Option(help="K, with --majority and --ratio.")] = None,
    majority: Annotated[int | None, typer.Option(help="K_A, classes of the large size.")] = None,
    ratio: Annotated[float | None, typer.Option(help="R, large over small class size.")] = None,
    weight_energy: Annotated[float, typer.Option(help="E_W, mean ‖w‖² of the classifiers.")] = 1.0,
    feature_energy: Annotated[float, typer.Option(help="E_H, mean ‖h‖² of the features.")] = 5.0,
    loss: Annotated[
        str,
        typer.Option(help="cross_entropy, class_weighted, logit_adjusted, label_smoothed or mse."),
    ] = "cross_entropy",
    oversampling: Annotated[
        float | None, typer.Option(help="Rate of the smallest classes.", show_default=False)
    ] = None,
    sweep: Annotated[
        bool, typer.Option("--sweep", help="All ratios from 1 to 10⁴, with --classes, --majority.")
    ] = False,
    q: Annotated[
        float | None,
        typer.Option(help="Bound features in the q-norm; not certified.", show_default=False),
    ] = None,
    json_: Annotated[
        bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else.")
    ] = False,
) -> None:
    """Predict which classes collapse under these class sizes, with a certificate.

    [bold]Examples[/bold]

    lawscope peel --counts 5000x5,50x5

    lawscope peel --classes 10 --majority 5 --ratio 100 --oversampling 10

    lawscope peel --classes 10 --majority 5 --sweep
    """
    from lawscope.theory.layer_peeled.peel import peel as solve
    from lawscope.theory.layer_peeled.q_norm import peel_q_norm

    split = (classes, majority, ratio)
    given = [counts is not None, labels is not None, data is not None, split != (None,) * 3]
    if sum(given) != 1:
        raise LawscopeError(
            "Give the class sizes in one way: --counts 5000x5,50x5, --labels y.npy, --data "
            "cifar10, or --classes 10 --majority 5 --ratio 100."
        )
    if sweep + (q is not None) + (oversampling is not None) > 1:
        raise LawscopeError("Of --sweep, --q and --oversampling choose one.")
    if sweep:
        answer(sweep_ratios(split, (weight_energy, feature_energy), loss), json_)
        return
    if counts is not None:
        sizes = parse_counts(counts)
    elif labels is not None:
        sizes = count_file(labels)
    elif data is not None:
        sizes = _count_dataset(data, data_dir)
    else:
        sizes = _two_groups(*split)
    if q is None:
        answer(solve(sizes, weight_energy, feature_energy, loss, oversampling), json_)
    elif loss != "cross_entropy":
        raise LawscopeError(f"--q goes with the loss cross_entropy, not with {loss}.")
    else:
        answer(peel_q_norm(sizes, q, weight_energy, feature_energy), json_)


def answer(found: Peeled | PeelSweep | LocalPeeled, json_: bool) -> None:
    """One JSON document, or tables and sentences."""
    from lawscope.theory.layer_peeled.local import LocalPeeled
    from lawscope.theory.layer_peeled.peeled import Peeled

    if json_:
        sys.stdout.write(json.dumps(found.to_dict(), allow_nan=False) + "\n")
    elif isinstance(found, Peeled):
        print_peeled(found)
    elif isinstance(found, LocalPeeled):
        typer.echo(f"A {found}.")
    else:
        print_sweep(found)


def sweep_ratios(
    split: tuple[int | None, int | None, float | None], energies: tuple[float, float], loss: str
) -> PeelSweep:
    """Predictions for ratios from 1 to 10⁴."""
    import numpy as np

    from lawscope.theory.layer_peeled.sweep import peel_sweep

    classes, majority, ratio = split
    if classes is None or majority is None or ratio is not None:
        raise LawscopeError("--sweep takes --classes and --majority and no --ratio, e.g. 10 and 5.")
    return peel_sweep(np.logspace(0, 4, 41), classes, majority, *energies, loss)


def parse_counts(counts: str) -> list[float]:
    """The numbers of ``--counts``, written ``5000,50`` or ``5000x5,50x5``.

    Example:
        >>> parse_counts("5000x2,50")
        [5000.0, 5000.0, 50.0]
    """
    found: list[float] = []
    for part in counts.lower().replace("×", "x").split(","):
        number, _, times = part.strip().partition("x")
        try:
            often = int(times) if times else 1
            if often < 1:
                raise ValueError
            found += [float(number)] * often
        except ValueError:
            raise LawscopeError(
                f"--counts {counts} is no list of class sizes; write it like 5000x5,50x5."
            ) from None
    return found


def count_file(path: Path) -> list[float]:
    """Samples per class in a file of labels."""
    import numpy as np

    if not path.is_file():
        raise LawscopeError(f"There is no file {path}; --labels takes a .npy, .npz or text file.")
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                labels = arrays["y"]
        elif path.suffix == ".npy":
            labels = np.load(path, allow_pickle=False)
        else:
            labels = np.array(_lines(path))
    except (OSError, ValueError, KeyError, EOFError) as error:
        raise LawscopeError(f"{path} cannot be read as labels ({error}).") from None
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise LawscopeError(f"{path} has labels that are NaN; leave these samples out.")
    if labels.ndim != 1 or labels.size == 0:
        raise LawscopeError(f"{path} has shape {labels.shape}; labels are one value per sample.")
    return [float(c) for c in np.unique(labels, return_counts=True)[1]]


def _lines(path: Path) -> list[str]:
    """The labels of a text file, which may have spaces in them; blank lines are none."""
    lines = [line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines()]
    found = [line for line in lines if line]
    if len(found) > 1 and not _is_number(found[0]) and all(map(_is_number, found[1:])):
        raise LawscopeError(
            f"{path} begins with '{found[0]}' and goes on with numbers: leave the heading out, "
            "or it would be a class."
        )
    return found


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _count_dataset(data: str, data_dir: Path | None) -> list[float]:
    import numpy as np

    from lawscope.zoo.find import find_data

    labels = find_data(data, data_dir=data_dir).y_train
    return [float(c) for c in np.unique(labels, return_counts=True)[1]]


def _two_groups(classes: int | None, majority: int | None, ratio: float | None) -> list[float]:
    from lawscope.theory.layer_peeled.sweep import check_split, two_group_counts

    if classes is None or majority is None or ratio is None:
        raise LawscopeError("--classes, --majority and --ratio go together, e.g. 10, 5 and 100.")
    check_split(classes, majority)
    return [float(c) for c in two_group_counts(classes, majority, ratio)]


def print_peeled(found: Peeled) -> None:
    """The groups as a table, and what follows as sentences."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("count", "classes", "cosine", "phase"):
        table.add_column(title, justify="left" if title == "phase" else "right")
    for group in found.groups if len(found.groups) <= GROUPS else _ends(found.groups):
        if group is None:
            table.add_row("…")
            continue
        cosine = "–" if group.cosine != group.cosine else f"{group.cosine:.6f}"
        table.add_row(f"{group.count:g}", str(group.classes), cosine, group.phase)
    console = Console()
    console.print(table)
    console.print(f"loss {found.loss:.9g}, certified to {found.gap:.1e}")
    for sentence in sentences(found):
        console.print(sentence)


def _ends(groups: tuple[PeeledGroup, ...]) -> tuple[PeeledGroup | None, ...]:
    """The largest and the smallest groups, None between them."""
    return (*groups[: GROUPS // 2], None, *groups[-GROUPS // 2 :])


def print_sweep(found: PeelSweep) -> None:
    """Some of the ratios as a table, and the threshold."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("ratio", "minority cosine", "phase"):
        table.add_column(title, justify="left" if title == "phase" else "right")
    for i in range(0, len(found.ratios), (len(found.ratios) - 1) // (ROWS - 1)):
        cosine = "–" if found.cosines[i] != found.cosines[i] else f"{found.cosines[i]:.6f}"
        table.add_row(f"{found.ratios[i]:g}", cosine, found.phases[i])
    console = Console()
    console.print(table)
    if found.threshold is None:
        console.print("The smallest classes do not collapse at any ratio under this loss.")
    else:
        console.print(f"The smallest classes collapse from a ratio of {found.threshold:.6g}.")


def sentences(found: Peeled) -> list[str]:
    """What the prediction means for someone who is about to train."""
    if not found.quick:
        return [
            f"With {len(found.groups)} different sizes the threshold takes minutes to find: in "
            "Python, ls.peel(counts).threshold."
        ]
    if found.threshold is None:
        return ["The smallest classes do not collapse at any ratio under this loss."]
    told = [
        f"The smallest classes collapse from a ratio of {found.threshold:.6g}; "
        f"yours is {found.ratio:.6g}."
    ]
    if found.ratio >= found.threshold:
        times = f"more than {found.oversampling_needed:.6g} times"
        if found.settings.get("oversampling") is not None:
            times += " what they are now"
        told.append(f"Oversample them {times} to prevent it.")
    if found.vanishing is not None:
        told.append(f"From a ratio of {found.vanishing:.6g} their classifiers vanish.")
    return told
