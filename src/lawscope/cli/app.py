"""The commands. Torch is imported inside them, so that ``--help`` answers at once."""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from lawscope._version import __version__
from lawscope.cli.depth import depth
from lawscope.cli.init import init
from lawscope.cli.peel import peel
from lawscope.cli.processes import speaks
from lawscope.cli.study import app as study_app
from lawscope.errors import LawscopeError
from lawscope.files import exists

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

DEFAULT_OUT = Path("lawscope-report")
PAGE, NUMBERS = "report.html", "run.lawscope.json"
# Options by what they are about; others have no use for them.
OF_TEXT = "tokens window dtype gguf task targets precision normalization folds every resume"
OF_TEXT += " trust_remote_code"
OF_SAMPLES = (
    "data data_dir size split samples scale mean std stations pooling head uncertainty mode"
)
OF_DATA = "data_dir size split scale mean std"
# What parameters in sentences of the library are on the command line.
SPELLED = {
    r"\bdata_dir\b": "--data-dir",
    r"\bhead='([^']*)'": r"--head \1",
    r"\btask='([\w-]+)'": r"--task \1",
    r"\bdtype=torch\.(\w+)": r"--dtype \1",
    r"\bdevice=None\b": "--device auto",
    r"\btrust_remote_code=True\b": "--trust-remote-code",
    r"the same call goes on from it": "--resume continues",
}

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
Weights = Annotated[
    Path | None, typer.Option(help="Weights: .safetensors, or .pt loaded as weights only.")
]


def _text_option(text: str, *names: str, **more: Any) -> Any:
    panel = "Language models (with --text)"
    return typer.Option(*names, help=text, rich_help_panel=panel, show_default=False, **more)


def _data_option(text: str, **more: Any) -> Any:
    return typer.Option(help=text, rich_help_panel="Data sets (with --data)", **more)


def _law_option(text: str, *names: str) -> Any:
    return typer.Option(*names, help=text, rich_help_panel="Laws and their settings")


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
        _data_option(
            "fashion-mnist-10x10, fashion-mnist, mnist, cifar10, an .npz with x and y, or a "
            "folder of images by class. Without it: 'data' of the target.",
        ),
    ] = None,
    data_dir: Annotated[
        Path | None, _data_option("Where data sets lie (or set LAWSCOPE_DATA).")
    ] = None,
    size: Annotated[str | None, _data_option("Resize images, e.g. 32x32.")] = None,
    split: Annotated[str, _data_option("train or test.")] = "train",
    samples: Annotated[
        int | None,
        _data_option("How many: evenly over classes with --data, else the first.", min=2),
    ] = None,
    scale: Annotated[
        str, _data_option("Range that pixels are scaled to: -1:1, 0:1 or none (0 to 255).")
    ] = "-1:1",
    mean: Annotated[
        str | None, _data_option("Taken off pixels in [0, 1]; one number, or one per channel.")
    ] = None,
    std: Annotated[str | None, _data_option("Divides them after that.")] = None,
    laws: Annotated[
        str | None, _law_option("Only these, with commas; by default all that apply.")
    ] = None,
    loss: Annotated[
        str | None, _law_option("cross-entropy or mse, for laws that need gradients.")
    ] = None,
    stations: Annotated[
        str, _law_option("layers, blocks, auto, a glob like 'blocks.*', or names with commas.")
    ] = "layers",
    pooling: Annotated[
        str, _law_option("Of token sequences: mean, first, last or flatten.")
    ] = "mean",
    head: Annotated[
        str | None, _law_option("The head to measure, where the network has several.")
    ] = None,
    uncertainty: Annotated[
        str, _law_option("Interval by jackknife, bootstrap, or none.")
    ] = "jackknife",
    memory: Annotated[str, _law_option("Budget for the statistics.")] = "512MB",
    set_: Annotated[
        list[str] | None,
        _law_option("A setting of one law, as next_token.folds=4; may be repeated.", "--set"),
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
        _text_option("UTF-8 text to measure a language model on; several are joined.", "--text"),
    ] = None,
    tokens: Annotated[
        str | None,
        _text_option("Tokens of text to measure, or 'all'; by default 100 per feature."),
    ] = None,
    window: Annotated[
        int | None, _text_option("Tokens of a window; 512, or the model's context.", min=2)
    ] = None,
    dtype: Annotated[
        str | None, _text_option("Of the weights: float32 (default), bfloat16, float16.")
    ] = None,
    gguf: Annotated[Path | None, _text_option("A GGUF file, here or inside TARGET.")] = None,
    task: Annotated[str | None, _text_option("causal (default), masked, encoder-decoder.")] = None,
    targets: Annotated[
        str | None,
        _text_option("With commas: next (default), next-next, current, previous."),
    ] = None,
    precision: Annotated[str | None, _text_option("float64 (default) or fast.")] = None,
    normalization: Annotated[
        str | None,
        _text_option("final-norm (the model's own, default), none, layer-norm, rms-norm."),
    ] = None,
    folds: Annotated[int | None, _text_option("Of windows, for the interval; 5.", min=1)] = None,
    every: Annotated[int | None, _text_option("Measure every so many-th block; 1.", min=1)] = None,
    resume: Annotated[
        bool, _text_option("Go on with an interrupted scan of the same --out.", "--resume")
    ] = False,
    trust_remote_code: Annotated[
        bool, _text_option("Run code that comes with the model.", "--trust-remote-code")
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
    """
    if text:
        _refuse(context, OF_SAMPLES, "is about labelled data and has no meaning with --text.")
    else:
        _refuse(context, OF_TEXT, "is about a language model; add --text FILE.")
    if data is None:
        _refuse(context, OF_DATA, "is about --data; the target's own data is taken as it is.")

    from lawscope.cli.scan import Request, read_request, scan_target, set_threads

    set_threads(threads)
    # Whatever the user's code prints must not end up in the JSON.
    with redirect_stdout(sys.stderr) if json_ else nullcontext():
        if text:
            from lawscope.cli.text import TextRequest, scan_text

            folder = out or (None if json_ and not resume else DEFAULT_OUT)
            report = scan_text(read_request(TextRequest, {**context.params, "folder": folder}))
        else:
            report = scan_target(read_request(Request, context.params))
    if speaks():
        deliver(report, out, json_=json_)


@app.command("stations")
def list_stations(
    target: Annotated[str, typer.Argument(help="As of scan: net.py or package.module:callable.")],
    checkpoint: Weights = None,
) -> None:
    """List the places of a network where laws can be measured, and what selects them."""
    from rich.console import Console

    from lawscope.cli.scan import find_target_stations
    from lawscope.report.terminal import render_frame

    Console().print(render_frame(find_target_stations(target, checkpoint).table()))


@app.command()
def show(
    file: Annotated[Path, typer.Argument(help="A saved .lawscope.json or page (.html).")],
    json_: AsJson = False,
) -> None:
    """Print a result that was saved."""
    from lawscope.result import load

    _print(load(file), json_)


@app.command()
def demo(
    context: typer.Context,
    depth: Annotated[int, typer.Option(help="Layers, classifier included.", min=3)] = 8,
    lr: Annotated[float, typer.Option(help="First learning rate.", min=0.0)] = 3e-3,
    optimizer: Annotated[str, typer.Option(help="adam, momentum or sgd.")] = "adam",
    epochs: Annotated[int, typer.Option(help="Passes over the training data.", min=1)] = 600,
    per_class: Annotated[
        int, typer.Option(help="Training samples per class, at most 500.", min=2, max=500)
    ] = 100,
    mode: WhichMode = "eval",
    seed: Annotated[
        int, typer.Option(help="Of samples, weights and batches.", min=0, max=2**32 - 1)
    ] = 0,
    threads: Threads = None,
    json_: AsJson = False,
    out: Out = None,
) -> None:
    """Train the papers' network on embedded Fashion-MNIST and measure it before and after.

    The 20-layer network of He & Su (2023), figure 1, measured as they did:
    lawscope demo --depth 20 --lr 3e-4 --mode train
    """
    from lawscope.cli.demo import run_demo

    options = {k: v for k, v in context.params.items() if k not in ("json_", "out")}
    deliver(run_demo(**options), out, json_=json_)


app.command()(depth)
app.command()(peel)
app.command()(init)


def deliver(report: Any, out: Path | None, *, json_: bool) -> None:
    """Write the page and the numbers, then print: a closed pipe must not cost the files.

    Where the files cannot be written the result is printed all the same, and the error after it.
    """
    skipped = {law: _spell_options(why) for law, why in report.skipped.items()}
    report = dataclasses.replace(report, skipped=skipped)
    folder = None if json_ and out is None else _choose_folder(out)
    failure: LawscopeError | None = None
    if folder is not None:
        try:
            report.save(folder / NUMBERS)
            report.save(folder / PAGE)
        except LawscopeError as error:
            failure = error
    _print(report, json_)
    if failure is not None:
        raise failure
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


def _print(result: Any, json_: bool) -> None:
    if json_:
        sys.stdout.write(json.dumps(result.to_dict(), allow_nan=False) + "\n")
    else:
        from rich.console import Console

        Console().print(result)


def _refuse(context: typer.Context, names: str, why: str) -> None:
    """Refuse options that were given and have no meaning here."""
    for name in names.split():
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise LawscopeError(f"--{name.replace('_', '-')} {why}")


def _spell_options(sentence: str) -> str:
    """Return the sentence with options of the command for parameters of the library.

    Example:
        >>> _spell_options("bert looks ahead; choose task='masked'.")
        'bert looks ahead; choose --task masked.'
    """
    for parameter, option in SPELLED.items():
        sentence = re.sub(parameter, option, sentence)
    return sentence


def _spread_texts(arguments: Sequence[str]) -> list[str]:
    """Return ``--text a b`` as ``--text a --text b``, as shells spread ``*.txt``.

    Example:
        >>> _spread_texts(["scan", "gpt2", "--text", "a", "b", "--json"])
        ['scan', 'gpt2', '--text', 'a', '--text', 'b', '--json']
    """
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
    debug = "--debug" in sys.argv
    # Accepted anywhere on the line, because that is where people add it.
    sys.argv = [sys.argv[0], *_spread_texts([a for a in sys.argv[1:] if a != "--debug"])]
    if debug:
        sys.argv.insert(1, "--debug")
    try:
        app()
    except LawscopeError as error:
        if debug:
            raise
        _leave(str(error))
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
    except MemoryError:
        if debug:
            raise
        _leave("Out of memory; lower --batch-size, --samples or --memory.")


def _leave(sentence: str, code: int = 2) -> None:
    if speaks():
        sys.stderr.write(f"lawscope: {_spell_options(sentence)}\n")
    sys.exit(code)
