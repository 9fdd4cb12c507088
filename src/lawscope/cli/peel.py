"""``lawscope peel``: will minority classes collapse, from which ratio, what oversampling."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lawscope.errors import LawscopeError
from lawscope.files import check_file
from lawscope.formatting import number

if TYPE_CHECKING:
    from lawscope.theory.layer_peeled.local_search import LocalPeeled
    from lawscope.theory.layer_peeled.peeled import Peeled
    from lawscope.theory.layer_peeled.sweep import PeelSweep

MOST_CLASSES = 1_000_000


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
    """Print one JSON document, or tables and sentences."""
    from lawscope.theory.layer_peeled.peeled import Peeled
    from lawscope.theory.layer_peeled.sweep import PeelSweep

    if json_:
        document = found.to_dict()
        if isinstance(found, Peeled):
            names = ("threshold", "vanishing", "oversampling_needed")
            document |= {name: getattr(found, name) if found.quick else None for name in names}
        sys.stdout.write(json.dumps(document, allow_nan=False) + "\n")
        return
    from rich.console import Console

    from lawscope.report.terminal import render_frame

    console = Console()
    console.print(found)
    if isinstance(found, Peeled):
        for sentence in explain(found):
            console.print(sentence)
    elif isinstance(found, PeelSweep):
        console.print(render_frame(found.table()))


def sweep_ratios(
    split: tuple[int | None, int | None, float | None], energies: tuple[float, float], loss: str
) -> PeelSweep:
    """Return predictions for ratios from 1 to 10⁴."""
    import numpy as np

    from lawscope.theory.layer_peeled.sweep import peel_sweep

    classes, majority, ratio = split
    if classes is None or majority is None or ratio is not None:
        raise LawscopeError("--sweep takes --classes and --majority and no --ratio, e.g. 10 and 5.")
    return peel_sweep(np.logspace(0, 4, 41), classes, majority, *energies, loss)


def parse_counts(counts: str) -> list[float]:
    """Return the numbers of ``--counts``, written ``5000,50`` or ``5000x5,50x5``.

    Example:
        >>> parse_counts("5000x2,50")
        [5000.0, 5000.0, 50.0]
    """
    found: list[float] = []
    for part in counts.lower().replace("×", "x").split(","):
        size, _, times = part.strip().partition("x")
        try:
            often = int(times) if times else 1
            if not 1 <= often <= MOST_CLASSES:
                raise ValueError
            found += [float(size)] * often
        except (ValueError, OverflowError):
            raise LawscopeError(
                f"--counts {counts} is not a list of class sizes; write it like 5000x5,50x5."
            ) from None
    return found


def count_file(path: Path) -> list[float]:
    """Return the samples per class in a file of labels."""
    import numpy as np

    check_file(path, "--labels takes a .npy, .npz or text file")
    try:
        if path.suffix in (".npy", ".npz"):
            with path.open("rb") as file:
                loaded = np.load(file, allow_pickle=False)
                labels = np.asarray(loaded["y"] if hasattr(loaded, "files") else loaded)
        else:
            labels = np.array(_lines(path))
    except Exception as error:  # whatever a damaged file makes a reader say
        raise LawscopeError(f"{path} cannot be read as labels ({error}).") from None
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise LawscopeError(f"{path} has labels that are NaN; leave these samples out.")
    if labels.ndim != 1 or labels.size == 0:
        raise LawscopeError(f"{path} has shape {labels.shape}; labels are one value per sample.")
    return [float(c) for c in np.unique(labels, return_counts=True)[1]]


def _lines(path: Path) -> list[str]:
    """Return the labels of a text file, which may hold spaces; blank lines are left out."""
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

    from lawscope.zoo.images.catalogue import find_data

    labels = find_data(data, data_dir=data_dir).y_train
    return [float(c) for c in np.unique(labels, return_counts=True)[1]]


def _two_groups(classes: int | None, majority: int | None, ratio: float | None) -> list[float]:
    from lawscope.theory.layer_peeled.sweep import check_split, two_group_counts

    if classes is None or majority is None or ratio is None:
        raise LawscopeError("--classes, --majority and --ratio go together, e.g. 10, 5 and 100.")
    check_split(classes, majority)
    return [float(c) for c in two_group_counts(classes, majority, ratio)]


def explain(found: Peeled) -> list[str]:
    """Return what the prediction means for someone who is about to train."""
    if not found.quick:
        return [
            f"With {len(found.groups)} different sizes the threshold takes minutes to find: in "
            "Python, ls.peel(counts).threshold."
        ]
    if found.threshold is None:
        return ["The smallest classes do not collapse at any ratio under this loss."]
    energies = f"E_W = {found.weight_energy:g}, E_H = {found.feature_energy:g}"
    said = [
        f"At {energies} (assumed; lawscope scan measures them on a network) the smallest classes "
        f"collapse from a ratio of {number(found.threshold, 4)}; yours is {number(found.ratio, 4)}."
    ]
    if found.ratio >= found.threshold:
        assert found.oversampling_needed is not None
        times = f"more than {number(found.oversampling_needed, 4)} times"
        if found.settings.get("oversampling") is not None:
            times += " what they are now"
        said.append(f"Oversample them {times} to prevent it.")
    if found.vanishing is not None:
        said.append(f"From a ratio of {number(found.vanishing, 4)} their classifiers vanish.")
    return said
