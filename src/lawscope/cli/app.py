"""The commands. Torch is imported inside them, so that ``--help`` answers at once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import typer

import lawscope as ls
from lawscope._version import __version__
from lawscope.cli.charges import charges
from lawscope.cli.demo import demo, demo_imbalanced, init
from lawscope.cli.depth import depth
from lawscope.cli.elastic import app as elastic_app
from lawscope.cli.peel import peel
from lawscope.cli.shared import (
    DEFAULT_OUT,
    AsJson,
    DataDir,
    Out,
    Threads,
    WhichMode,
    deliver,
    print_result,
    speaks,
    spell_options,
)
from lawscope.cli.study import app as study_app
from lawscope.errors import LawscopeError

app = typer.Typer(
    name="lawscope",
    help="Measure the laws of deep learning on your own networks.",
    epilog="Start with: lawscope demo",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.add_typer(study_app)
app.add_typer(elastic_app)

# Options by what they are about; others have no use for them.
OF_NEXT_TOKEN = "precision normalization folds every"
OF_TEXT = f"tokens window dtype gguf task targets {OF_NEXT_TOKEN} resume trust_remote_code"
OF_DATA = "data_dir size split scale mean std"
OF_SAMPLES = f"{OF_DATA} data samples stations pooling head uncertainty mode"
Weights = Annotated[
    Path | None, typer.Option(help="Weights: .safetensors, or .pt loaded as weights only.")
]


def _panel(title: str, **common: Any) -> Callable[..., Any]:
    """Return how to make an option of this part of the help, from its help and its names."""

    def option(words: str, *names: str, **more: Any) -> Any:
        return typer.Option(*names, help=words, rich_help_panel=title, **(common | more))

    return option


_data = _panel("Data sets (with --data)")
_laws = _panel("Laws and their settings")
_text = _panel("Language models (with --text)", show_default=False)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
) -> None:
    """Measure the laws of deep learning on your own networks."""
    if version:
        typer.echo(f"lawscope {__version__}")
        raise typer.Exit
    context.obj = debug


@app.command()
def scan(
    context: typer.Context,
    target: Annotated[
        str,
        typer.Argument(
            help="A .py file that defines 'model' and 'data' (values or functions), or "
            "package.module:callable that returns the model or (model, data). With --text: a "
            "Hugging Face folder or name, or a .py file with 'model' and 'tokenizer'.",
            show_default=False,
        ),
    ],
    checkpoint: Weights = None,
    data: Annotated[
        str | None,
        _data(
            "fashion-mnist-10x10, fashion-mnist, mnist, cifar10, an .npz with x and y, or a "
            "folder of images by class. Without it: 'data' of the target."
        ),
    ] = None,
    data_dir: Annotated[Path | None, _data("Where data sets lie (or set LAWSCOPE_DATA).")] = None,
    size: Annotated[str | None, _data("Resize images, e.g. 32x32.")] = None,
    split: Annotated[str, _data("train or test.")] = "train",
    samples: Annotated[
        int | None, _data("How many: evenly over classes with --data, else the first.", min=2)
    ] = None,
    scale: Annotated[
        str, _data("Range that pixels are scaled to: -1:1, 0:1 or none (0 to 255).")
    ] = "-1:1",
    mean: Annotated[
        str | None, _data("Taken off pixels in [0, 1]; one number, or one per channel.")
    ] = None,
    std: Annotated[str | None, _data("Divides them after that.")] = None,
    laws: Annotated[
        str | None, _laws("Only these, with commas; by default all that apply.")
    ] = None,
    loss: Annotated[
        str | None,
        _laws(
            "cross-entropy or mse, for laws that need gradients. Without it: 'loss' of the target."
        ),
    ] = None,
    stations: Annotated[
        str,
        _laws(
            "auto (blocks of a residual network, else layers), layers, blocks, a glob like "
            "'blocks.*', or names with commas."
        ),
    ] = "auto",
    pooling: Annotated[
        str, _laws("Of sequences: mean, max, first, last, ends, flatten; of maps: mean, 4x4.")
    ] = "auto",
    head: Annotated[
        str | None, _laws("The head to measure, where the network has several.")
    ] = None,
    uncertainty: Annotated[str, _laws("Interval by jackknife, or none.")] = "jackknife",
    memory: Annotated[
        str | None, _laws("Budget for the statistics; by default a quarter of what is free.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        _laws("A setting of one law, as next_token.folds=4; may be repeated.", "--set"),
    ] = None,
    mode: WhichMode = "eval",
    batch_size: Annotated[
        int | None,
        typer.Option(
            help="Samples (256) or windows of text (8) per forward pass.", min=1, show_default=False
        ),
    ] = None,
    device: Annotated[
        str, typer.Option(help="cpu, cuda, cuda:1, mps …; auto: a language model over all.")
    ] = "cpu",
    control: Annotated[bool, typer.Option(help="Also measure the same network untrained.")] = True,
    seed: Annotated[int, typer.Option(help="For drawing samples.", min=0, max=2**63 - 1)] = 0,
    threads: Threads = None,
    text: Annotated[
        list[Path] | None,
        _text("UTF-8 text to measure a language model on; several are joined.", "--text"),
    ] = None,
    tokens: Annotated[
        str | None, _text("Tokens of text to measure, or 'all'; by default 100 per feature.")
    ] = None,
    window: Annotated[
        int | None, _text("Tokens of a window; 512, or the model's context.", min=2)
    ] = None,
    dtype: Annotated[
        str, _text("Of the weights: float32 (default), bfloat16, float16.")
    ] = "float32",
    gguf: Annotated[Path | None, _text("A GGUF file, here or inside TARGET.")] = None,
    task: Annotated[str, _text("causal (default), masked, encoder-decoder.")] = "causal",
    targets: Annotated[
        str, _text("With commas: next (default), next-next, current, previous.")
    ] = "next",
    precision: Annotated[str, _text("float64 (default) or fast.")] = "float64",
    normalization: Annotated[
        str, _text("final-norm (the model's own, default), none, layer-norm, rms-norm.")
    ] = "final-norm",
    folds: Annotated[int, _text("Of windows, for the interval; 5.", min=1)] = 5,
    every: Annotated[int, _text("Measure every so many-th block; 1.", min=1)] = 1,
    resume: Annotated[
        bool, _text("Go on with an interrupted scan of the same --out.", "--resume")
    ] = False,
    trust_remote_code: Annotated[
        bool, _text("Run code that comes with the model.", "--trust-remote-code")
    ] = False,
    json_: AsJson = False,
    out: Out = None,
) -> None:
    """Point lawscope at a network: every law that applies, a verdict, advice, a page.

    [bold]Examples[/bold]

    lawscope scan net.py

    lawscope scan my_project.nets:build --checkpoint w.safetensors --data fashion-mnist

    lawscope scan ./my-gpt2 --text corpus.txt

    [bold]A net.py[/bold] (lawscope init writes one)

    model = torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.ReLU(), torch.nn.Linear(64, 3))

    data = [(x, y)]  # batches of inputs and labels, or a DataLoader

    loss = torch.nn.functional.cross_entropy  # may be left out
    """
    typed = _find_typed(context)
    if text:
        _refuse(typed, OF_SAMPLES, "is about labelled data and has no meaning with --text.")
    else:
        _refuse(typed, OF_TEXT, "is about a language model; add --text FILE.")
    if data is None:
        _refuse(typed, OF_DATA, "is about --data; the target's own data is taken as it is.")

    from lawscope.cli.scan import scan_target, set_threads, split_names

    if "next_token" not in (split_names(laws) or ["next_token"]):
        _refuse(typed, OF_NEXT_TOKEN, "is about next_token, which is not among --laws.")
    set_threads(threads)
    options = SimpleNamespace(**context.params, typed=typed)
    # Whatever the user's code prints must not end up in the JSON.
    with redirect_stdout(sys.stderr) if json_ else nullcontext():
        if text:
            from lawscope.cli.text import scan_text

            options.folder = out or (None if json_ and not resume else DEFAULT_OUT)
            report = scan_text(options)
        else:
            report = scan_target(options)
    if speaks():
        deliver(report, out, json_=json_)


@app.command("stations")
def list_stations(
    target: Annotated[str, typer.Argument(help="As in scan: net.py or package.module:callable.")],
    checkpoint: Weights = None,
    data: Annotated[
        str | None, typer.Option(help="As in scan. Without it: 'data' of the target.")
    ] = None,
    data_dir: DataDir = None,
    size: Annotated[str | None, typer.Option(help="Resize images, e.g. 32x32.")] = None,
) -> None:
    """List the places of a network where laws can be measured, and what selects them."""
    from rich.console import Console

    from lawscope.cli.data import load_data
    from lawscope.cli.scan import build_target, explain_failures, quiet_warnings
    from lawscope.report.terminal import render_frame

    found, model = build_target(target, checkpoint)
    few = {"split": "train", "samples": 64, "batch_size": None, "seed": 0}
    asked = {"data": data, "data_dir": data_dir, "size": size, "scale": "-1:1", "mean": None}
    with quiet_warnings(), explain_failures("The network or its data"):
        given = load_data(SimpleNamespace(**few, **asked), model)[0] if data else found.data()
        listed = ls.stations(model, given)
    Console().print(render_frame(listed.table()), *listed.remarks, sep="\n", markup=False)


@app.command()
def show(
    file: Annotated[Path, typer.Argument(help="A saved .lawscope.json or page (.html).")],
    json_: AsJson = False,
) -> None:
    """Print a result that was saved."""
    print_result(ls.load(file), json_)


for command in (charges, demo, demo_imbalanced, depth, peel, init):
    app.command()(command)


def _find_typed(context: typer.Context) -> set[str]:
    """Return the parameters that were given on the command line."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return {name for name, source in sources.items() if source and source.name == "COMMANDLINE"}


def _refuse(typed: set[str], names: str, why: str) -> None:
    """Refuse options that were given and have no meaning here."""
    for name in names.split():
        if name in typed:
            raise LawscopeError(f"--{name.replace('_', '-')} {why}")


def _spread_texts(arguments: Sequence[str]) -> list[str]:
    """Return ``--text a b`` as ``--text a --text b``, as shells spread ``*.txt``."""
    if arguments[:1] != ["scan"] or arguments[1:2] == [] or arguments[1].startswith("-"):
        return list(arguments)
    spread: list[str] = []
    texts = False
    for before, argument in zip(["", *arguments], arguments, strict=False):
        if argument.startswith("-"):
            texts = argument == "--text"
        elif texts and before != "--text":
            spread.append("--text")
        spread.append(argument)
    return spread


def run() -> None:
    """Run the command; a user's mistake is one sentence and exit code 2."""
    # --debug is accepted anywhere on the line, because that is where people add it.
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    debug = ["--debug"] if "--debug" in sys.argv else []
    try:
        app([*debug, *_spread_texts(arguments)])
    except (LawscopeError, MemoryError) as error:
        if debug:
            raise
        memory = "Out of memory; lower --batch-size, --samples or --memory."
        _leave(memory if isinstance(error, MemoryError) else str(error))
    except SystemExit as leaving:
        # The command-line library turns ctrl-C into an exit without a word.
        stop = leaving.__context__ and leaving.__context__.__cause__
        if not isinstance(stop, KeyboardInterrupt):
            raise
        _leave(str(stop) or "Stopped.", code=130)
    except BrokenPipeError:
        # The reader of our output has gone (as `| head` does): nothing is left to say.
        sys.stderr.close()
        sys.exit(141)
    except OSError as error:  # of a file somewhere inside what was named
        if debug:
            raise
        where = f"{error.filename}: " if error.filename else ""
        _leave(f"{where}{error.strerror or error}.")


def _leave(sentence: str, code: int = 2) -> None:
    if speaks():
        sys.stderr.write(f"lawscope: {spell_options(sentence)}\n")
    sys.exit(code)
