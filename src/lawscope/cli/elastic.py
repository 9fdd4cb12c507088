"""``lawscope elastic``: strengths of local elasticity, and trainings that they imitate."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

import lawscope as ls
from lawscope.cli.shared import AsJson, find_form, print_result, write_figure
from lawscope.errors import LawscopeError
from lawscope.lazy import np

app = typer.Typer(
    name="elastic",
    help="Local elasticity: estimate its strengths from a training, or simulate with given ones.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
FUNCTIONS = ("sqrt", "log", "exp", "sin", "cos", "tanh", "abs")
RECORDED = 1001  # times of a simulated training that is saved
Figure = Annotated[
    Path | None, typer.Option("--figure", "-o", help="Draw the first chart: .pdf, .png or .svg.")
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out", help="Save: .html for the page, else .lawscope.json.", show_default=False
    ),
]


@app.command()
def fit(
    run: Annotated[
        Path,
        typer.Argument(help="Class means of a training: .lawscope.json, or .npz of steps, means."),
    ],
    model: Annotated[str, typer.Option(help="L (logits) or I.")] = "L",
    t0: Annotated[
        str, typer.Option(help="Step to begin at; auto: from where U keeps its sign.")
    ] = "auto",
    window: Annotated[int, typer.Option(help="Recorded times the filter spans, odd.")] = 151,
    pooling: Annotated[
        str, typer.Option(help="norm, or elements as in the paper (I-model).")
    ] = "norm",
    out: Out = None,
    figure: Figure = None,
    json_: AsJson = False,
) -> None:
    """Estimate α and β of a training, and imitate it with them.

    [bold]Examples[/bold]

    lawscope elastic fit means.lawscope.json

    lawscope elastic fit means.npz --model I --window 51 --out fit.html
    """
    from lawscope.theory.elastic_sde.trajectory import read_trajectory

    _check_figure(figure)
    begin: Any = t0
    if t0 != "auto":
        try:
            begin = float(t0)
        except ValueError:
            raise LawscopeError(f"--t0 {t0} is not a step; give a number or auto.") from None
    kind: Any = model
    pooled: Any = pooling
    found = ls.fit_elastic(read_trajectory(run), kind, begin, window, pooling=pooled)
    _deliver(found, out, figure, json_)


@app.command()
def simulate(
    alpha: Annotated[str, typer.Option(help='α(t), as "1/sqrt(1+t)" or 0.5.')] = "1/sqrt(1+t)",
    beta: Annotated[str, typer.Option(help="β(t), likewise.")] = "0",
    classes: Annotated[int, typer.Option(help="K.")] = 3,
    features: Annotated[
        int | None, typer.Option(help="p, of the I-model; K by default.", show_default=False)
    ] = None,
    model: Annotated[str, typer.Option(help="I or L.")] = "I",
    noise: Annotated[float, typer.Option(help="Σ as a multiple of I.")] = 0.25,
    label_noise: Annotated[
        str, typer.Option(help="Shares of wrong labels; several give a phase diagram: 0,0.3,0.6.")
    ] = "0",
    drift: Annotated[
        str, typer.Option(help="mean: of the class; sample: each by its own features.")
    ] = "mean",
    times: Annotated[str, typer.Option(help="When to look.")] = "10,100,1000,10000",
    start: Annotated[float, typer.Option(help="Time of the start.")] = 0.0,
    samples: Annotated[int, typer.Option(help="Per class.")] = 50,
    repeats: Annotated[int, typer.Option(help="Draws for a probability.")] = 50,
    seed: Annotated[int, typer.Option(help="Of the draws.")] = 0,
    record: Annotated[
        Path | None,
        typer.Option(
            help=f"Save class means of the samples at {RECORDED} times, for fit.",
            show_default=False,
        ),
    ] = None,
    trials: Annotated[int, typer.Option(help="Trainings that are recorded.")] = 5,
    out: Out = None,
    figure: Figure = None,
    json_: AsJson = False,
) -> None:
    """Simulate the LE-SDE: are samples separable, and when?

    [bold]Examples[/bold]

    lawscope elastic simulate --alpha "1/sqrt(1+t)"

    lawscope elastic simulate --alpha "1/sqrt(1+t)" --label-noise 0,0.3,0.6,0.667,0.7,0.9

    lawscope elastic simulate --model L --beta "-0.02" --times 500 --record means.lawscope.json
    """
    from lawscope.whole_number import whole_number

    _check_figure(figure)
    reading: Any = drift
    strengths = parse_rate("--alpha", alpha), parse_rate("--beta", beta)
    sde = ls.ElasticSDE(
        *strengths, classes, features, model, noise=noise, drift=reading, start=start
    )
    moments = parse_numbers("--times", times)
    shares = parse_numbers("--label-noise", label_noise)
    found = ls.elastic_phases(sde, moments, shares, samples, repeats, seed)
    if record is not None:
        sde = sde.replace(label_noise=shares[0])
        grid = np.linspace(start, max(moments), RECORDED)
        amount = whole_number("trials", trials, 1, "is too few")
        runs = [sde.sample(grid, samples, [seed, trial]).mean(axis=1) for trial in range(amount)]
        ls.ElasticTrajectory(grid, np.stack(runs)).save(record)
        sys.stderr.write(f"record: {record}\n")
    _deliver(found, out, figure, json_)


def parse_rate(option: str, text: str) -> Callable[[Any], Any]:
    """Return a function of t from its formula; numbers, t, + − * / ** and a few functions.

    Example:
        >>> float(parse_rate("--alpha", "2 * sqrt(t)")(9.0))
        6.0
    """
    allowed = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.Call, ast.Name, ast.Constant)
    marks = (ast.operator, ast.unaryop, ast.expr_context)
    known = {"t", *FUNCTIONS}
    try:
        tree = ast.parse(text.strip().replace("^", "**").replace("−", "-"), mode="eval")
        for node in ast.walk(tree):
            good = isinstance(node, (*allowed, *marks))
            good &= not isinstance(node, ast.Name) or node.id in known
            good &= not isinstance(node, ast.Constant) or type(node.value) in (int, float)
            good &= not isinstance(node, ast.Call) or isinstance(node.func, ast.Name)
            if not good:
                raise ValueError
            if isinstance(node, ast.Constant) and isinstance(node.value, int):
                node.value = float(node.value)  # powers of whole numbers would have no end
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
        raise LawscopeError(
            f"{option} {text} is not a formula of t; write it like 1/sqrt(1+t), with t, numbers "
            f"and {', '.join(FUNCTIONS)}."
        ) from None
    code = compile(tree, option, "eval")
    names = {name: getattr(np, name) for name in FUNCTIONS}
    # Only what was looked at above can run: no names but these, no attributes, no calls of others.
    return lambda t: eval(code, {"__builtins__": {}}, {**names, "t": t})


def parse_numbers(option: str, text: str) -> list[float]:
    """Return the numbers of a list with commas."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise LawscopeError(f"{option} {text} is not a list of numbers, like 10,100.") from None


def _check_figure(figure: Path | None) -> None:
    if figure is not None:
        find_form(figure)  # refused before the calculation, not after it


def _deliver(result: Any, out: Path | None, figure: Path | None, json_: bool) -> None:
    """Save, draw and print."""
    if out is not None:
        result.save(out)
        sys.stderr.write(f"saved: {out}\n")
    print_result(result, json_)
    if figure is not None:
        write_figure(result, figure)
        sys.stderr.write(f"figure: {figure}\n")
