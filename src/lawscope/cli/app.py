"""The commands. Torch is imported inside them, so that ``--help`` answers at once."""

from __future__ import annotations

import sys
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Annotated, Any

import typer

from lawscope import __version__
from lawscope.cli import language_options as lm
from lawscope.cli.depth import depth as depth_command
from lawscope.cli.peel import peel as peel_command
from lawscope.cli.stopping import StoppedError
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

Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="Folder for report.html and run.json.", show_default=False),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on stdout and nothing else.")
]
Threads = Annotated[
    int | None, typer.Option(help="CPU threads torch may use.", min=1, show_default=False)
]
WhichMode = Annotated[
    str,
    typer.Option(help="eval, or train: BatchNorm uses each batch, as the paper's authors measure."),
]
DEFAULT_OUT = Path("lawscope-report")


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
    target: Annotated[
        str,
        typer.Argument(
            help="A .py file that defines 'model' and 'data' (values or functions), or "
            "package.module:callable that returns the model or (model, data). With --text: a "
            "Hugging Face folder or name, or a .py file with 'model' and 'tokenizer'.",
            show_default=False,
        ),
    ],
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Weights: .safetensors, or .pt loaded as weights only."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="fashion-mnist-10x10, fashion-mnist, mnist, cifar10, an .npz with x and y, or a "
            "folder of images by class. Without it: 'data' of the target.",
        ),
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="Where data sets lie (or set LAWSCOPE_DATA).")
    ] = None,
    size: Annotated[str | None, typer.Option(help="Resize images, e.g. 32x32.")] = None,
    split: Annotated[str, typer.Option(help="train or test.")] = "train",
    samples: Annotated[
        int | None,
        typer.Option(help="How many: evenly over classes with --data, else the first.", min=2),
    ] = None,
    stations: Annotated[
        str,
        typer.Option(help="layers, blocks, auto, a glob like 'blocks.*', or names with commas."),
    ] = "layers",
    pooling: Annotated[
        str, typer.Option(help="Of token sequences: mean, first, last or flatten.")
    ] = "mean",
    head: Annotated[
        str | None, typer.Option(help="The head to measure, where the network has several.")
    ] = None,
    mode: WhichMode = "eval",
    uncertainty: Annotated[
        str, typer.Option(help="Interval by jackknife, bootstrap, or none.")
    ] = "jackknife",
    memory: Annotated[str, typer.Option(help="Budget for the statistics.")] = "512MB",
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
    seed: Annotated[int, typer.Option(help="For drawing samples.", min=0)] = 0,
    threads: Threads = None,
    text: lm.Text = None,
    tokens: lm.Tokens = None,
    window: lm.Window = None,
    dtype: lm.Dtype = None,
    gguf: lm.Gguf = None,
    targets: lm.Targets = None,
    task: lm.Task = None,
    precision: lm.Precision = None,
    normalization: lm.Normalization = None,
    folds: lm.Folds = None,
    every: lm.Every = None,
    resume: lm.Resume = False,
    trust_remote_code: lm.TrustRemoteCode = False,
    json_: AsJson = False,
    out: Out = None,
) -> None:
    """Point lawscope at a network: D per layer, the law, a verdict, advice, a page.

    [bold]Examples[/bold]

    lawscope scan net.py

    lawscope scan my_project.nets:build --checkpoint w.safetensors --data fashion-mnist

    lawscope scan ./my-gpt2 --text corpus.txt
    """
    language = {
        "tokens": tokens,
        "window": window,
        "dtype": dtype,
        "gguf": gguf,
        "targets": None if targets is None else tuple(t.strip() for t in targets.split(",")),
        "task": task,
        "precision": precision,
        "normalization": normalization,
        "folds": folds,
        "every": every,
        "resume": resume,
        "trust_remote_code": trust_remote_code,
    }
    if text:
        lm.about_data(
            {"data": data, "data_dir": data_dir, "size": size, "samples": samples, "head": head}
        )
        common = {
            "checkpoint": checkpoint,
            "batch_size": batch_size,
            "device": device,
            "control": control,
            "memory": memory,
            "seed": seed,
            "threads": threads,
        }
        _scan_text(target, text, {**common, **language}, json_=json_, out=out)
        return
    lm.about_text(language)
    from lawscope.cli.scan import scan_target

    # Whatever the user's code prints must not end up in the JSON.
    with redirect_stdout(sys.stderr) if json_ else nullcontext():
        report = scan_target(
            target,
            checkpoint=checkpoint,
            data=data,
            data_dir=data_dir,
            size=size,
            split=split,
            samples=samples,
            stations=stations,
            pooling=pooling,
            head=head,
            mode=mode,
            uncertainty=uncertainty,
            memory=memory,
            batch_size=batch_size or 256,
            device=device,
            control=control,
            seed=seed,
            threads=threads,
        )
    deliver(report, json_=json_, out=out)


def _scan_text(
    target: str, text: list[Path], options: dict[str, Any], *, json_: bool, out: Path | None
) -> None:
    """A language model on a text; of several processes one delivers."""
    from lawscope.cli.language import scan_language
    from lawscope.cli.language_request import Request

    writes = out is not None or not json_ or options["resume"]
    given = {name: value for name, value in options.items() if value is not None}
    with redirect_stdout(sys.stderr) if json_ else nullcontext():
        report = scan_language(
            Request(target, text, folder=(out or DEFAULT_OUT) if writes else None, **given)
        )
    if report is not None:
        deliver(report, json_=json_, out=out)


@app.command()
def demo(
    depth: Annotated[int, typer.Option(help="Layers, classifier included.", min=3)] = 8,
    lr: Annotated[float, typer.Option(help="First learning rate.", min=0.0)] = 3e-3,
    optimizer: Annotated[str, typer.Option(help="adam, momentum or sgd.")] = "adam",
    epochs: Annotated[int, typer.Option(help="Passes over the training data.", min=1)] = 600,
    per_class: Annotated[
        int, typer.Option(help="Training samples per class, at most 500.", min=2, max=500)
    ] = 100,
    mode: WhichMode = "eval",
    seed: Annotated[int, typer.Option(help="Of samples, weights and batches.", min=0)] = 0,
    threads: Threads = None,
    json_: AsJson = False,
    out: Out = None,
) -> None:
    """Train the papers' network on embedded Fashion-MNIST and measure it before and after.

    The 20-layer network of the paper's figure 1, measured as its authors do:
    lawscope demo --depth 20 --lr 3e-4 --mode train
    """
    from lawscope.cli.demo import run_demo

    report = run_demo(
        depth=depth,
        lr=lr,
        optimizer=optimizer,
        epochs=epochs,
        per_class=per_class,
        mode=mode,
        seed=seed,
        threads=threads,
    )
    deliver(report, json_=json_, out=out)


app.command("depth")(depth_command)
app.command("peel")(peel_command)


def deliver(report: Any, *, json_: bool, out: Path | None) -> None:
    """Print the summary or the JSON, and write the page."""
    import json

    from lawscope.report.files import write_whole

    document = json.dumps(report.to_dict(), indent=None if json_ else 1, allow_nan=False)
    if json_:
        sys.stdout.write(document + "\n")
    if json_ and out is None:
        return
    folder = out or DEFAULT_OUT
    if not json_:
        from rich.console import Console

        from lawscope.laws.language_report import LanguageReport
        from lawscope.report.next_token_terminal import print_language_summary
        from lawscope.report.terminal import print_summary

        # Before the files: a full disk must not cost the result.
        summary = print_language_summary if isinstance(report, LanguageReport) else print_summary
        summary(report, Console())
    write_whole(document + "\n", folder / "run.json")
    page = report.save(folder / "report.html")
    if not json_:
        typer.echo(f"\nreport: {page}")


def run() -> None:
    """Run the command; a user's mistake is one sentence and exit code 2."""
    debug = "--debug" in sys.argv
    # Accepted anywhere on the line, because that is where people add it.
    sys.argv = [sys.argv[0], *lm.several_files([a for a in sys.argv[1:] if a != "--debug"])]
    if debug:
        sys.argv.insert(1, "--debug")
    try:
        app()
    except LawscopeError as error:
        if debug:
            raise
        _say(str(error))
    except StoppedError as stop:
        _say(str(stop), code=130)
    except KeyboardInterrupt:
        _say("Stopped.", code=130)
    except BrokenPipeError:
        # The reader of our output has gone (as `| head` does): nothing is left to say.
        sys.stderr.close()
        sys.exit(141)
    except MemoryError:
        if debug:
            raise
        _say("Out of memory; lower --batch-size, --samples or --memory.")


def _say(sentence: str, code: int = 2) -> None:
    sys.stderr.write(f"lawscope: {sentence}\n")
    sys.exit(code)
