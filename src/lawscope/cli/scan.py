"""``lawscope scan``: from words on a command line to a network and its data."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from lawscope.capture.source import Source
from lawscope.capture.untouched import unwrapped
from lawscope.cli.checkpoint import load_checkpoint
from lawscope.cli.control import untrained_of
from lawscope.cli.data import load_data
from lawscope.cli.target import Target, load_target
from lawscope.errors import LawscopeError, LawscopeWarning
from lawscope.laws.report import Report
from lawscope.laws.scan import scan


def scan_target(
    target: str,
    *,
    checkpoint: Path | None,
    data: str | None,
    data_dir: Path | None,
    size: str | None,
    split: str,
    samples: int | None,
    stations: str,
    pooling: str,
    head: str | None,
    mode: str,
    uncertainty: str,
    memory: str,
    batch_size: int,
    device: str,
    control: bool,
    seed: int,
    threads: int | None,
) -> Report:
    """Load what the options name and scan it; settings as in ``lawscope scan --help``.

    Raises:
        LawscopeError: anything that cannot be loaded or measured, as one sentence.
    """
    if threads is not None:
        torch.set_num_threads(threads)
    found = load_target(target)
    model = found.build()
    unwrapped(model)  # says in a sentence what cannot be moved or measured
    if checkpoint is not None:
        load_checkpoint(model, checkpoint)
    where = find_device(device)
    with warnings.catch_warnings(), _in_a_sentence():
        warnings.simplefilter("ignore", LawscopeWarning)  # the summary shows them
        model.to(where)
        names: tuple[str, ...] | None = None
        if data is not None:
            loader, names = load_data(
                data,
                model=model,
                data_dir=data_dir,
                size=size,
                split=split,
                samples=samples,
                batch_size=batch_size,
                seed=seed,
            )
        else:
            if size is not None or data_dir is not None or split != "train":
                raise LawscopeError(
                    "--size, --split and --data-dir are about --data; the target's own data is "
                    "taken as it is."
                )
            loader = _own_data(found, samples)
        return scan(
            model,
            loader,
            control=untrained_of(found, model, checkpoint, where) if control else None,
            name=found.name if checkpoint is None else f"{found.name} · {checkpoint.name}",
            stations=[s.strip() for s in stations.split(",")] if "," in stations else stations,
            uncertainty=None if uncertainty == "none" else uncertainty,  # type: ignore[arg-type]
            memory=memory,
            pooling=pooling,  # type: ignore[arg-type]
            head=head,
            class_names=names,
            mode=mode,  # type: ignore[arg-type]
        )


def find_device(name: str) -> torch.device:
    """The device ``--device`` names.

    Raises:
        LawscopeError: it is not there.
    """
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise LawscopeError(
            f"--device {name} is not available here; use cpu, or a device this torch build has."
        ) from error
    return device


@contextmanager
def _in_a_sentence() -> Iterator[None]:
    """What the user's network or loader raises, in its own words and ours."""
    try:
        yield
    except (LawscopeError, MemoryError):
        raise
    except SystemExit as leaving:
        raise LawscopeError(
            f"The network or its data ended the program (SystemExit: {leaving.code}) before the "
            "measurement was done; take that call out of it. --debug shows where."
        ) from leaving
    except Exception as error:
        raise LawscopeError(
            f"The network or its data raised {type(error).__name__}: {error}. "
            "Check that the data fits the network; --debug shows where."
        ) from error


def _own_data(found: Target, samples: int | None) -> Any:
    """The data that came with the target, all or the first samples of it."""
    loader = found.data()
    if loader is None:
        raise LawscopeError(
            f"{found.name} gives no data; define 'data' in it, or pass --data with a data set, an "
            ".npz or a folder of images."
        )
    return loader if samples is None else _first_samples(loader, samples)


def _first_samples(loader: Any, samples: int) -> Any:
    """Whole batches up to the first that reaches ``samples``, the last one cut."""
    batches, left = [], samples
    for whole in Source(loader):
        batch = whole.head(left)
        batches.append(
            {**batch.kwargs, "labels": batch.labels}
            if batch.kwargs
            else (*batch.args, batch.labels)
        )
        left -= batch.size
        if left <= 0:
            break
    return batches
