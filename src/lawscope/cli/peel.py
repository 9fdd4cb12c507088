"""``lawscope peel``: will minority classes collapse, from which ratio, what oversampling."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

import lawscope as ls
from lawscope.cli.shared import (
    AsJson,
    DataDir,
    find_form,
    print_json,
    print_result,
    write_figure,
)
from lawscope.errors import LawscopeError
from lawscope.files import check_file
from lawscope.formatting import count, number
from lawscope.lazy import np

MOST_CLASSES = 1_000_000
UNHEARD_OF = 1e6  # a ratio that no data set has


def peel(
    context: typer.Context,
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
    weight_energy: Annotated[
        float, typer.Option(help="E_W, mean ‖w‖² of the classifiers; lawscope scan prints it.")
    ] = 1.0,
    feature_energy: Annotated[
        float, typer.Option(help="E_H, mean ‖h‖² of the features; lawscope scan prints it.")
    ] = 5.0,
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
    figure: Annotated[
        Path | None,
        typer.Option("--figure", "-o", help="Draw the cosines: .pdf, .png or .svg."),
    ] = None,
    json_: AsJson = False,
) -> None:
    """Predict which classes collapse under these class sizes, with a certificate.

    The energies decide from which ratio on classes collapse: measure those of your network.

    [bold]Examples[/bold]

    lawscope peel --counts 5000x5,50x5

    lawscope peel --classes 10 --majority 5 --ratio 100 --oversampling 10

    lawscope peel --counts 5000x5,50x5 --weight-energy 2.6 --feature-energy 42

    lawscope peel --classes 10 --majority 5 --sweep
    """
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
    if ratio is not None and not ratio >= 1:
        raise LawscopeError(f"--ratio {ratio:g} is of large over small; give 1 or more.")
    if classes is not None and classes > MOST_CLASSES:
        raise LawscopeError(f"--classes {classes} are too many; give at most {MOST_CLASSES}.")
    if figure is not None:
        find_form(figure)  # refused before the calculation, not after it
    energies = weight_energy, feature_energy
    said = [name_energies(context, *energies)]
    result: Any
    if sweep:
        if classes is None or majority is None or ratio is not None:
            raise LawscopeError(
                "--sweep takes --classes and --majority and no --ratio, e.g. 10 and 5."
            )
        result = peel_sweep(np.logspace(0, 4, 41), classes, majority, *energies, loss)
    else:
        if counts is not None:
            sizes: Any = parse_counts(counts)
        elif labels is not None:
            sizes = np.unique(read_labels(labels), return_counts=True)[1]
        elif data is not None:
            from lawscope.zoo.images.catalogue import find_data

            sizes = np.unique(find_data(data, data_dir=data_dir).y_train, return_counts=True)[1]
        elif classes is None or majority is None or ratio is None:
            raise LawscopeError(
                "--classes, --majority and --ratio go together, e.g. 10, 5 and 100."
            )
        else:
            sizes = two_group_counts(*check_split(classes, majority), ratio)
        if q is None:
            result = solve(sizes, *energies, loss, oversampling)
        elif loss != "cross_entropy":
            raise LawscopeError(f"--q goes with the loss cross_entropy, not with {loss}.")
        else:
            result = peel_q_norm(sizes, q, *energies)
    if json_:
        more = ("threshold", "vanishing", "oversampling_needed") if not sweep and q is None else ()
        found = {name: getattr(result, name) if result.quick else None for name in more}
        print_json(result.to_dict() | found)
    else:
        print_result(result, json_)
        if sweep:
            Console().print(render_frame(result.table()))
        elif q is None:
            said += explain(result)
        Console().print("", *said, sep="\n", highlight=False)
    if figure is not None:
        write_figure(result, figure)
        sys.stderr.write(f"figure: {figure}\n")


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


def name_energies(context: typer.Context, weight_energy: float, feature_energy: float) -> str:
    """Say which energies the answer rests on, and how to measure those of a network."""
    said = f"The answer is for the energies E_W = {weight_energy:g} and E_H = {feature_energy:g}"
    guesses = [
        symbol
        for symbol, name in (("E_W", "weight_energy"), ("E_H", "feature_energy"))
        if getattr(context.get_parameter_source(name), "name", "") == "DEFAULT"
    ]
    if not guesses:
        return f"{said}."
    return (
        f"{said} ({' and '.join(guesses)} assumed). They decide from which ratio on classes "
        "collapse: lawscope scan prints those of your network, for --weight-energy and "
        "--feature-energy."
    )


def explain(found: ls.Peeled) -> list[str]:
    """Return what the prediction means for someone who is about to train."""
    if not found.quick:
        return [
            f"With {len(found.groups)} different sizes the threshold takes minutes to find: in "
            "Python, ls.peel(counts).threshold."
        ]
    if found.threshold is None:
        return ["The smallest classes do not collapse at any ratio under this loss."]
    yours = f"yours is {in_digits(found.ratio)}"
    if found.threshold > UNHEARD_OF and found.ratio < found.threshold:
        return [
            f"The smallest classes stay apart at every ratio up to a million and beyond; {yours}."
        ]
    said = [
        f"The smallest classes collapse from a ratio of {in_digits(found.threshold)} on; {yours}."
    ]
    if found.ratio >= found.threshold:
        assert found.oversampling_needed is not None
        times = f"more than {in_digits(found.oversampling_needed)} times"
        if found.settings.get("oversampling") is not None:
            times += " what they are now"
        said.append(f"Oversample them {times} to prevent it.")
    if found.vanishing is not None and min(found.vanishing, UNHEARD_OF) <= found.ratio:
        said.append(f"From a ratio of {in_digits(found.vanishing)} their classifiers vanish.")
    return said


def in_digits(ratio: float) -> str:
    """Return a ratio with three significant digits.

    Example:
        >>> in_digits(12.1924), in_digits(100.0), in_digits(1416.3)
        ('12.2', '100', '1\u202f420')
    """
    rounded = float(f"{ratio:.3g}")
    return number(rounded) if rounded < 1000 else count(int(rounded))
