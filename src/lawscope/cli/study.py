"""``lawscope study``: the figures and claims of the papers, each by one command."""

from __future__ import annotations

import os
import shlex
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lawscope.cli.shared import AsJson, find_form, print_json, write_figure

if TYPE_CHECKING:
    from lawscope.studies.result import StudyResult

app = typer.Typer(
    name="study",
    help="The figures and claims of the papers, each by one command.",
    no_args_is_help=True,
    rich_markup_mode="rich",
)
DEFAULT_OUT = Path("lawscope-studies")
MOST_LINES = 60

Name = Annotated[str, typer.Argument(help="A study, as 'lawscope study list' names it.")]
Out = Annotated[Path, typer.Option("--out", help="Folder of results.")]
DATA_HELP = "Where data sets and models lie (or set LAWSCOPE_DATA, as on machines of Ray)."
Place = Annotated[
    Path | None,
    typer.Option(
        "--store",
        help="Folder of finished trainings (or set LAWSCOPE_STORE).",
        show_default="in the user's cache",
    ),
]
WhichPreset = Annotated[
    str | None,
    typer.Option("--preset", help="smoke, cpu or paper; by default the latest, smoke runs last."),
]


@app.command("list")
def list_() -> None:
    """Families and studies, with the time of each preset on two cores."""
    from rich.console import Console

    from lawscope.formatting import MISSING, time_text
    from lawscope.report.terminal import render_table
    from lawscope.section import Table
    from lawscope.studies.registry import load_all, names
    from lawscope.studies.study import PRESETS

    rows: dict[str, list[list[str]]] = {}
    for name, study in load_all(names()).items():
        times = [time_text(study.minutes[p]) if p in study.minutes else MISSING for p in PRESETS]
        rows.setdefault(name.partition("/")[0], []).append([name, study.title, *times])
    for family, those in rows.items():
        Console().print(render_table(Table("", [family, "", *PRESETS], those, words=2)))


@app.command()
def run(
    context: typer.Context,
    target: Annotated[str, typer.Argument(metavar="NAME|FAMILY|all", help="What to run.")],
    preset: Annotated[
        str, typer.Option(help="smoke (seconds), cpu (minutes) or paper (as the paper did).")
    ] = "cpu",
    seeds: Annotated[int | None, typer.Option(help="Seeds, if not those of the preset.")] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Worker processes.", show_default="one per core")
    ] = None,
    on: Annotated[str, typer.Option(help="local, ray, ray://auto or ray://host:port.")] = "local",
    data_dir: Annotated[Path | None, typer.Option(help=DATA_HELP)] = None,
    out: Out = DEFAULT_OUT,
    store: Place = None,
    json_: AsJson = False,
) -> None:
    """Train what is missing, measure, judge every claim, and write the result.

    What is trained is kept: a run that was stopped goes on where it was, and studies share
    networks.
    """
    from lawscope.studies.runner import run_many
    from lawscope.zoo.storage import VARIABLE, given_folder

    if data_dir is not None:
        # So that this process, and the workers that inherit from it, find data there.
        os.environ[VARIABLE] = str(given_folder(data_dir, "--data-dir").absolute())
    try:
        with _warnings_as_sentences():
            results = run_many(
                target, preset=preset, seeds=seeds, jobs=jobs, on=on, out=out, store=store
            )
    except KeyboardInterrupt:
        again = shlex.join(["lawscope", *sys.argv[1:]])
        typer.echo(f"\nlawscope: Stopped. What was trained is kept; go on with: {again}", err=True)
        raise typer.Exit(130) from None
    if json_:
        documents = [result.to_dict() for result in results]
        print_json(documents[0] if target == results[0].name else documents)
    else:
        _print_results(results, out)
    _report_failures(results, debug=bool(context.find_root().obj))


@app.command()
def show(
    name: Name,
    preset: WhichPreset = None,
    out: Out = DEFAULT_OUT,
    numbers: Annotated[
        bool, typer.Option("--numbers", help=f"Up to {MOST_LINES} lines of numbers too.")
    ] = False,
    json_: AsJson = False,
) -> None:
    """Show the claims of a study with the paper's number, ours and the verdict, as the docs do."""
    from lawscope.studies.result import load

    result = load(name, out, preset)
    if json_:
        print_json(result.to_dict())
    else:
        _print_results([result], out, numbers=numbers)


@app.command()
def figure(
    name: Name,
    path: Annotated[Path, typer.Option("--output", "-o", help="A .pdf, .png or .svg file.")],
    preset: WhichPreset = None,
    out: Out = DEFAULT_OUT,
) -> None:
    """Draw the figure of a study from its kept numbers."""
    from lawscope.studies.result import load

    find_form(path)
    write_figure(load(name, out, preset), path)
    typer.echo(f"figure: {path}")


@app.command()
def judge(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Results, or summaries of families.")
    ],
) -> None:
    """Judge stored numbers again by today's claims, and save the verdicts; nothing is measured."""
    from lawscope.studies.result import judge_file

    results: list[StudyResult] = []
    for path in files:
        judged = judge_file(path)
        typer.echo(f"{path}:")
        typer.echo(_totals(judged))
        results += judged
    _report_failures(results)


@app.command()
def keep(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Results of studies.")],
    out: Out = DEFAULT_OUT,
) -> None:
    """Put results of single studies into the summaries of their families.

    A study that is there already is replaced; the others stay, each with its own date.
    """
    from lawscope.errors import LawscopeError
    from lawscope.studies import result as saved

    results: list[StudyResult] = []
    for path in files:
        found = saved.load_results(path)
        if not found:
            raise LawscopeError(f"There are no results in {path}.")
        results += found
    for path in saved.keep(results, out):
        typer.echo(f"summary: {path}")


@app.command()
def status(store: Place = None) -> None:
    """Show what is stored, what is being trained now, and how large it is."""
    from lawscope.formatting import size_text
    from lawscope.studies.store import Store

    place = Store(_existing(store))
    keys, held = set(place.entries()), place.locked()
    typer.echo(f"store: {place.folder}")
    size = size_text(sum(place.size(key) for key in keys))
    typer.echo(f"{len(keys)} trainings, {size}; {len(held)} are being trained now")
    for use in place.uses():
        trained = sum(set(epochs) <= place.kept(key) for key, epochs in use.entries.items())
        end = use.result if use.finished else "no result yet"
        typer.echo(f"{use.study} ({use.preset}): {trained} of {len(use.entries)} trained; {end}")


@app.command()
def gc(
    store: Place = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
) -> None:
    """Remove trainings that no kept result needs.

    A result counts where 'lawscope study run' wrote it: one that was deleted or moved is not kept,
    and a summary of a family keeps no trainings. A study that was stopped within the last
    30 days keeps its trainings.
    """
    from lawscope.formatting import size_text
    from lawscope.studies.store import Store

    gone = Store(_existing(store)).collect_garbage(dry_run=dry_run)
    what = f"{gone.entries} trainings and {gone.leftovers} leftovers"
    verb = "would be removed" if dry_run else "removed"
    typer.echo(f"{what} {verb}: {size_text(gone.bytes)}")


def _print_results(results: list[StudyResult], out: Path, *, numbers: bool = False) -> None:
    from rich.console import Console

    from lawscope.report.terminal import render_terminal
    from lawscope.studies.result import load_results, result_file, summary_file

    console = Console()
    for result in results:
        console.print(render_terminal(result))
        if numbers:
            lines = list(_lines(result.numbers))
            left = len(lines) - MOST_LINES
            more = f"… {left} more lines: 'lawscope study show {result.name} --json' has all"
            lines[MOST_LINES:] = [more] if left > 0 else []
            typer.echo("\n".join(lines))
        picture = result_file(out, result.name, result.preset, "png")
        if picture.exists() and result.numbers:
            typer.echo(f"figure: {picture}")
        typer.echo()
    if len(results) > 1:
        typer.echo(_totals(results))
        for summary in sorted({summary_file(out, r.name, r.preset) for r in results}):
            typer.echo(f"summary: {summary}")
            for kept in load_results(summary) if summary.exists() else ():
                if kept.numbers and any(kept.name == r.name and not r.numbers for r in results):
                    typer.echo(f"  with {kept.name} of {kept.date}, as it was")


@contextmanager
def _warnings_as_sentences() -> Iterator[None]:
    """Show warnings of ours as the other sentences of the command."""
    from lawscope.errors import LawscopeWarning

    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, LawscopeWarning):
                typer.echo(f"lawscope: {message}", err=True)
            else:
                usual(message, category, *place, **more)

        warnings.showwarning = show
        yield


def _existing(store: Path | None) -> Path | None:
    """Return the store given, which must be there: to look at one must not make it."""
    from lawscope.errors import LawscopeError

    if store is not None and not store.expanduser().exists():
        raise LawscopeError(f"There is no store in {store}.")
    return store


def _lines(value: Any, depth: int = 0) -> Iterator[str]:
    """Nested numbers as lines: a name, and a short value or the lines below it."""
    from lawscope.studies.panels import brief

    for name, inside in value.items() if isinstance(value, Mapping) else enumerate(value):
        deep = isinstance(inside, list) and any(isinstance(v, list | Mapping) for v in inside)
        nested = deep or isinstance(inside, Mapping)
        yield f"{'  ' * depth}{name}: {'' if nested else brief(inside)}"
        if nested:
            yield from _lines(inside, depth + 1)


def _totals(results: list[StudyResult]) -> str:
    """One line for many results."""
    from lawscope.formatting import many
    from lawscope.studies.study import DONE, NOT_TRIED, count_verdicts

    failed = sum(result.status not in (DONE, NOT_TRIED) for result in results)
    claims = [claim for result in results for claim in result.claims]
    line = f"{many(len(results), 'study')}, {count_verdicts(claims)}"
    return f"{line}; {many(failed, 'study')} failed" if failed else line


def _report_failures(results: list[StudyResult], *, debug: bool = False) -> None:
    """Say on standard error what failed, and end with exit code 1 if anything did."""
    failed = [result for result in results if result.status in ("failed", "failed check")]
    for result in failed:
        typer.echo(f"lawscope: {result.name}: {result.status}: {result.why}", err=True)
        if debug and result.trace:
            typer.echo(result.trace, err=True)
    if failed:
        raise typer.Exit(1)
