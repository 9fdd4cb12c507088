"""``lawscope scan`` and ``lawscope stations``: from words on a command line to a measurement."""

from __future__ import annotations

import ast
import dataclasses
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from lawscope.capture.restore import unwrap
from lawscope.capture.session import Loss
from lawscope.cli.data import check_pixels, load_data
from lawscope.cli.shared import find_place
from lawscope.cli.target import Target, build_control, load_checkpoint, load_target
from lawscope.data.batches import as_raw
from lawscope.data.source import Source
from lawscope.errors import LawscopeError, LawscopeWarning
from lawscope.laws.registry import all_laws, find_law
from lawscope.laws.report import Report
from lawscope.laws.scan import check_shared, scan
from lawscope.progress import announce

LOSSES: dict[str, Any] = {
    "cross-entropy": F.cross_entropy,
    "mse": lambda out, y: F.mse_loss(out, F.one_hot(y, out.shape[-1]).to(out.dtype)),
}
MOST_THREADS = 1024
# Our warnings are silent inside: the summary shows them.
quiet_warnings = partial(warnings.catch_warnings, action="ignore", category=LawscopeWarning)


def scan_target(options: SimpleNamespace) -> Report:
    """Load what the options of ``lawscope scan`` name, and scan it."""
    if find_place()[1] > 1:
        raise LawscopeError("Labelled data is scanned in one process; leave torchrun out.")
    laws, settings = split_names(options.laws), read_set_options(options.set_ or ())
    check_pixels(options)
    announce(f"loading {options.target}")
    found, model = build_target(options.target, options.checkpoint)
    name = f"{found.name} · {options.checkpoint.name}" if options.checkpoint else found.name
    where = find_device(options.device)
    stations = split_names(options.stations) or []
    shared = {
        "stations": stations if len(stations) > 1 else options.stations,
        "pooling": options.pooling,
        "uncertainty": None if options.uncertainty == "none" else options.uncertainty,
        "head": options.head,
    } | memory_of(options)
    shared = known_to(laws, shared, options.typed)
    with quiet_warnings(), explain_failures("The network or its data"):
        model.to(where)
        loader, names, said = load_target_data(options, found, model)
        control = None
        if options.control:
            control = build_control(found, model, options.checkpoint, where)
        report = scan(
            model,
            loader,
            loss=find_loss(options.loss, found, where),
            laws=laws,
            control=control,
            name=name,
            mode=options.mode,
            settings=settings,
            **shared,
            **known_to(laws, {"class_names": names}),
        )
    fed_in = {"inputs": said} if said else {}
    return dataclasses.replace(report, settings={**report.settings, **fed_in})


def load_target_data(
    options: SimpleNamespace, found: Target, model: nn.Module
) -> tuple[Any, tuple[str, ...] | None, str]:
    """Return the data of ``--data`` or of the target, class names and what was done to pixels."""
    if options.data is not None:
        return load_data(options, model)
    loader = found.data()
    return loader if options.samples is None else _take(loader, options.samples), None, ""


def build_target(target: str, checkpoint: Path | None) -> tuple[Target, nn.Module]:
    """Return the target and its network, with the weights of the checkpoint."""
    found = load_target(target)
    model = found.build()
    unwrap(model)  # says in a sentence what cannot be moved or measured
    if checkpoint is not None:
        load_checkpoint(model, checkpoint)
    return found, model


def known_to(
    laws: Sequence[str] | None, shared: dict[str, Any], typed: Collection[str] = ()
) -> dict[str, Any]:
    """Return the shared settings that the chosen laws have; a default that none has is left out.

    Raises:
        LawscopeError: one that was typed is known to none of them.
    """
    chosen = all_laws() if laws is None else {name: find_law(name) for name in laws}
    check_shared(chosen, [name for name in shared if name in typed])
    known = {field.name for law in chosen.values() for field in dataclasses.fields(law.settings)}
    return {name: value for name, value in shared.items() if name in known}


def memory_of(options: SimpleNamespace) -> dict[str, str]:
    """Return the budget, where one was given; laws have defaults of their own."""
    return {} if options.memory is None else {"memory": options.memory}


def _take(loader: Any, samples: int) -> list[Any]:
    """Return whole batches up to the first that reaches ``samples``, the last one cut."""
    batches: list[Any] = []
    source = Source(loader)
    for whole in source:
        batch = whole.head(samples - sum(len(b[-1]) for b in batches))
        if batch.labels is None:
            raise LawscopeError("--samples counts labelled samples; the target's data has none.")
        labels: Any = batch.labels
        if source.label_names:
            labels = [source.label_names[number] for number in batch.labels.tolist()]
        batches.append(as_raw(batch, labels))
        if sum(len(b[-1]) for b in batches) >= samples:
            break
    return batches


def split_names(names: str | None) -> list[str] | None:
    """Return names that were given with commas."""
    return None if names is None else [name.strip() for name in names.split(",")]


def read_set_options(options: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return settings of single laws from ``--set law.name=value``.

    Values are Python literals where they are such, lists with commas, and words otherwise; the
    law's own settings check them.
    """
    found: dict[str, dict[str, Any]] = {}
    for option in options:
        where, equals, value = option.partition("=")
        law, dot, name = where.strip().partition(".")
        if not (equals and dot and law and name):
            raise LawscopeError(
                f"--set {option} is not of the form law.setting=value; write, for example, "
                "--set next_token.folds=4."
            )
        find_law(law)
        found.setdefault(law, {})[name] = _read_value(value.strip())
    return found


def _read_value(text: str) -> Any:
    words = {"none": None, "true": True, "false": False}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return tuple(part.strip() for part in text.split(",")) if "," in text else text


def find_loss(
    name: str | None, target: Target | None = None, device: torch.device | None = None
) -> Loss | None:
    """Return the loss that ``--loss`` names, or else that of the target."""
    if name is not None and name not in LOSSES:
        raise LawscopeError(f"--loss {name} is not known; choose {', '.join(LOSSES)}.")
    own = None if target is None else target.loss
    if name is None and isinstance(own, nn.Module) and device is not None:
        own.to(device)  # class weights
    return own if name is None else LOSSES[name]


def find_device(name: str) -> torch.device:
    """Return the device ``--device`` names, which must be there."""
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise LawscopeError(
            f"--device {name} is not available here; use cpu, or a device this torch build has."
        ) from error
    return device


def set_threads(threads: int | None) -> None:
    """Limit torch to so many threads."""
    if threads is None:
        return
    if threads > MOST_THREADS:
        raise LawscopeError(f"--threads {threads} is more than {MOST_THREADS}; give fewer.")
    torch.set_num_threads(threads)


@contextmanager
def explain_failures(whose: str) -> Iterator[None]:
    """Turn what the user's network or loader raises into a sentence, in its own words and ours."""
    try:
        yield
    except (LawscopeError, MemoryError):
        raise
    except (Exception, SystemExit) as error:
        said = f"raised {type(error).__name__}: {error}. Check that the data fits the network"
        if isinstance(error, SystemExit):
            call = f"the program (SystemExit: {error.code}) before the measurement was done"
            said = f"ended {call}; take that call out of it"
        raise LawscopeError(f"{whose} {said}; --debug shows where.") from error
