"""``lawscope peel``: will minority classes collapse, from which ratio, what oversampling."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lawscope.cli.shared import AsJson, DataDir, print_json, print_result
from lawscope.errors import LawscopeError
from lawscope.files import check_file
from lawscope.formatting import number

if TYPE_CHECKING:
    from lawscope.theory.layer_peeled.peeled import Peeled

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
    data_dir: DataDir = None,
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
    json_: AsJson = False,
) -> None:
    """Predict which classes collapse under these class sizes, with a certificate.

    [bold]Examples[/bold]

    lawscope peel --counts 5000x5,50x5

    lawscope peel --classes 10 --majority 5 --ratio 100 --oversampling 10

    lawscope peel --classes 10 --majority 5 --sweep
    """
    import numpy as np
    from rich.console import Console

    from lawscope.report.terminal import render_frame
    from lawscope.theory.layer_peeled.peel import peel as solve
    from lawscope.theory.layer_peeled.q_norm import peel_q_norm
    from lawscope.theory.layer_peeled.sweep import check_split, peel_sweep, two_group_counts

    split = (classes, majority, ratio) != (None, None, None)
    if sum([counts is not None, labels is not None, data is not None, split]) != 1:
        raise LawscopeError(
            "Give the class sizes in one way: --counts 5000x5,50x5, --labels y.npy, --data "
            "cifar10, or --classes 10 --majority 5 --ratio 100."
        )
    if sweep + (q is not None) + (oversampling is not None) > 1:
        raise LawscopeError("Of --sweep, --q and --oversampling choose one.")
    energies = weight_energy, feature_energy
    if sweep:
        if classes is None or majority is None or ratio is not None:
            raise LawscopeError(
                "--sweep takes --classes and --majority and no --ratio, e.g. 10 and 5."
            )
        swept = peel_sweep(np.logspace(0, 4, 41), classes, majority, *energies, loss)
        print_result(swept, json_)
        if not json_:
            Console().print(render_frame(swept.table()))
        return
    if counts is not None:
        sizes: Any = parse_counts(counts)
    elif labels is not None:
        sizes = np.unique(read_labels(labels), return_counts=True)[1]
    elif data is not None:
        from lawscope.zoo.images.catalogue import find_data

        sizes = np.unique(find_data(data, data_dir=data_dir).y_train, return_counts=True)[1]
    elif classes is None or majority is None or ratio is None:
        raise LawscopeError("--classes, --majority and --ratio go together, e.g. 10, 5 and 100.")
    else:
        sizes = two_group_counts(*check_split(classes, majority), ratio)
    if q is None:
        found = solve(sizes, *energies, loss, oversampling)
        if json_:
            names = ("threshold", "vanishing", "oversampling_needed")
            more = {name: getattr(found, name) if found.quick else None for name in names}
            print_json(found.to_dict() | more)
        else:
            print_result(found, json_)
            for sentence in explain(found):
                Console().print(sentence)
    elif loss != "cross_entropy":
        raise LawscopeError(f"--q goes with the loss cross_entropy, not with {loss}.")
    else:
        print_result(peel_q_norm(sizes, q, *energies), json_)


def parse_counts(counts: str) -> list[float]:
    """Return the numbers of ``--counts``, written ``5000,50`` or ``5000x5,50x5``."""
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


def read_labels(path: Path) -> Any:
    """Return the labels in a file, one value per sample."""
    import numpy as np

    check_file(path, "--labels takes a .npy, .npz or text file")
    try:
        if path.suffix in (".npy", ".npz"):
            with path.open("rb") as file:
                loaded = np.load(file, allow_pickle=False)
                labels = np.asarray(loaded["y"] if hasattr(loaded, "files") else loaded)
        else:
            lines = map(str.strip, path.read_text(encoding="utf-8-sig").splitlines())
            labels = np.array([line for line in lines if line])
    except Exception as error:  # whatever a damaged file makes a reader say
        raise LawscopeError(f"{path} cannot be read as labels ({error}).") from None
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise LawscopeError(f"{path} has labels that are NaN; leave these samples out.")
    if labels.ndim != 1 or labels.size == 0:
        raise LawscopeError(f"{path} has shape {labels.shape}; labels are one value per sample.")
    if labels.size > 1 and not _are_numbers(labels[:1]) and _are_numbers(labels[1:]):
        raise LawscopeError(
            f"{path} begins with '{labels[0]}' and goes on with numbers: leave the heading out, "
            "or it would be a class."
        )
    return labels


def _are_numbers(labels: Any) -> bool:
    try:
        labels.astype(float)
    except (TypeError, ValueError):
        return False
    return True


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
