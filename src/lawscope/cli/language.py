"""``lawscope scan TARGET --text FILE``: a language model and a text to the law."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from lawscope.capture.windows import Windows
from lawscope.cli.language_request import Request
from lawscope.cli.language_target import Loaded, load
from lawscope.cli.language_text import Text, check_length, unknown_ids
from lawscope.cli.processes import Processes, joined
from lawscope.cli.saved_moments import SavedMoments, settings_text, weights_digest
from lawscope.cli.stopping import StoppedError, Stopping
from lawscope.cli.text import check_files, marked
from lawscope.errors import LawscopeError, LawscopeWarning
from lawscope.laws.language_report import LanguageReport
from lawscope.laws.next_token_control import untrained
from lawscope.laws.next_token_observer import NextTokenObserver
from lawscope.laws.scan import versions
from lawscope.progress import progress


@dataclass(frozen=True, eq=False)
class Bench:
    """What is measured, and with what."""

    request: Request
    loaded: Loaded
    windows: Windows
    observers: dict[str, NextTokenObserver]
    doubts: tuple[str, ...]  # about the text and the tokenizer


def scan_language(request: Request) -> LanguageReport | None:
    """Load, measure and merge; None in a process that has nothing to say.

    Raises:
        LawscopeError: anything that cannot be loaded or measured, as one sentence.
        StoppedError: by the user; its words say how to go on.
    """
    if request.threads is not None:
        torch.set_num_threads(request.threads)
    with joined() as who, ExitStack() as stack, warnings.catch_warnings():
        warnings.simplefilter("ignore", LawscopeWarning)  # the summary shows them
        bench, saved = who.agree(lambda: _measured(request, who, stack))
        if who.world > 1:
            for observer in bench.observers.values():
                observer.all_merge()
        report = _report(bench, who) if who.speaks else None
        if saved is not None:
            saved.remove()
        return report


def _measured(
    request: Request, who: Processes, stack: ExitStack
) -> tuple[Bench, SavedMoments | None]:
    """All of the work that one process does on its own."""
    check_files(request.text)
    bench = _opened(request, load(request, who), stack)
    saved = None
    if request.folder is not None:
        saved = SavedMoments(request.folder, _fingerprint(bench), who)
    _measure(bench, saved, who)
    return bench, saved


def _opened(request: Request, loaded: Loaded, stack: ExitStack) -> Bench:
    """The windows to measure, and an observer for the model and for its untrained twin."""
    text = Text(request.text, loaded, request.window)
    first = text.windows(text.step)
    observer = _observer(loaded.model, request, loaded, first, stack)
    if request.tokens is None:
        windows = text.windows(text.needed(observer.found.blocks.width))
    else:
        windows = text.windows(request.most_tokens, asked=True)
    check_length(windows, loaded, observer, request.most_tokens)
    observers = {"trained": observer}
    twin = untrained(observer.model) if request.control else None
    if twin is not None:
        observers["control"] = _observer(twin, request, loaded, first, stack)
    doubts = unknown_ids(loaded), marked(request.text)  # now: the text may be gone afterwards
    return Bench(request, loaded, windows, observers, tuple(filter(None, doubts)))


def _observer(
    model: nn.Module, request: Request, loaded: Loaded, first: Windows, stack: ExitStack
) -> NextTokenObserver:
    observer = NextTokenObserver(
        model,
        loaded.batch(first.ids),
        targets=request.targets,
        normalization=request.normalization,  # type: ignore[arg-type]
        folds=request.folds,
        precision=request.precision,  # type: ignore[arg-type]
        task=request.task,
        memory=request.memory,
        mask_token=loaded.mask_token,
        special_tokens=loaded.special_tokens,
        seed=request.seed,
        every=request.every,
    )
    if first.frame.before and request.task == "causal":
        observer.bos = first.frame.before[0]
    with _in_own_words():
        return stack.enter_context(observer)


def _measure(bench: Bench, saved: SavedMoments | None, who: Processes) -> None:
    """Send this process's batches through the observers, saving now and then."""
    done = _resumed(bench, saved)
    batches = list(bench.windows.batches(bench.request.batch_size, who.rank, who.world))
    sizes = [ids.numel() for _, ids in batches]
    bar = progress(
        "measuring",
        sum(sizes),
        None if who.speaks else False,
        unit="tokens",
        done=sum(sizes[:done]),
    )
    with Stopping() as stopping, bar as advance:
        for index, (start, ids) in enumerate(batches[done:], start=done + 1):
            with _in_own_words():
                for observer in bench.observers.values():
                    observer.update(bench.loaded.batch(ids), first=start)
            advance(ids.numel())
            if saved is not None and (saved.due or stopping.asked):
                saved.save(bench.observers, index)
            if stopping.asked:
                _stop(f"Stopped after {index} of {len(batches)} batches", saved, who)


def _resumed(bench: Bench, saved: SavedMoments | None) -> int:
    """Batches that were measured before."""
    if saved is None:
        return 0
    if bench.request.resume:
        if saved.exists:
            return saved.load(bench.observers)
        sys.stderr.write(f"lawscope: nothing to resume in {saved.folder}; beginning anew.\n")
    elif saved.path.is_file():
        sys.stderr.write(
            f"lawscope: {saved.path} is of an interrupted scan, which --resume would continue; "
            "beginning anew.\n"
        )
    return 0


def _stop(said: str, saved: SavedMoments | None, who: Processes) -> None:
    if not who.speaks:
        sys.exit(130)
    if saved is None:
        raise StoppedError(f"{said}; give --out to be able to continue.")
    raise StoppedError(
        f"{said}; the moments are in {saved.path}. The same command with --resume continues."
    )


def _report(bench: Bench, who: Processes) -> LanguageReport:
    observers, request, windows = bench.observers, bench.request, bench.windows
    control = observers["control"].result() if "control" in observers else None
    result = observers["trained"].result(control)
    result = replace(result, warnings=(*result.warnings, *bench.doubts))
    return LanguageReport(
        name=bench.loaded.name,
        next_token=result,
        settings={
            "text": [str(path) for path in request.text],
            "text_tokens": windows.text_tokens,
            "windows": len(windows.ids),
            "window": int(windows.ids.shape[1]),
            "frame": {"before": windows.frame.before, "after": windows.frame.after},
            "batch_size": request.batch_size,
            "dtype": request.dtype,
            "device": request.device,
            "processes": who.world,
            "control": "none" if control is None else "untrained",
        },
        versions=versions(),
    )


def _fingerprint(bench: Bench) -> dict[str, str]:
    model = bench.loaded.model
    return {
        "model": f"{bench.loaded.name} {type(model).__name__} {_written(model)}",
        "weights": weights_digest(model),
        "text": bench.windows.digest,
        "settings": settings_text(bench.request.that_matter),
    }


def _written(model: nn.Module) -> str:
    """A model's configuration as text, without where it was read from."""
    config: Any = getattr(model, "config", None)
    if not hasattr(config, "to_dict"):
        return str(config)
    return settings_text({k: v for k, v in config.to_dict().items() if not k.startswith("_")})


@contextmanager
def _in_own_words() -> Iterator[None]:
    """Whatever the user's network raises becomes a sentence with its own words."""
    try:
        yield
    except LawscopeError:
        raise
    except SystemExit as leaving:
        said = f"The model ended the program (SystemExit: {leaving.code})"
        raise LawscopeError(f"{said}; take that call out of it. --debug shows where.") from leaving
    except Exception as error:
        said = f"The model raised {type(error).__name__}: {error}."
        raise LawscopeError(f"{said} --debug shows where.") from error
