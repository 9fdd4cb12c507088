"""The data of a measurement as a source, on one rank or on several, of which some have none."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from lawscope.capture.restore import unwrap
from lawscope.capture.session import Session
from lawscope.data.batches import Batch, as_batch
from lawscope.data.source import Source
from lawscope.data.tokens import are_tokens, are_unlabelled_tokens
from lawscope.errors import LawscopeError, NoDataError
from lawscope.laws.base import Law, Settings
from lawscope.statistics.distributed import agree, gathered

Wanted = Mapping[str, tuple[Law[Any], Settings]]
OWN = ("memory",)  # settings that may differ from rank to rank
ADDRESS = re.compile(r" at 0x[0-9a-f]+")  # of a function in a process


def open_source(model: nn.Module, loader: Any, laws: Wanted) -> Source:
    """Return the data as a source: of token ids where a law reads tokens and the data is such.

    Laws that take a loss and no labels of their own have the next tokens as labels, where a text
    has none.
    """
    if isinstance(loader, Source):
        return loader
    readers = [settings for law, settings in laws.values() if "tokens" in law.needs]
    sure, is_text = len(readers) == len(laws), are_tokens
    learners = [settings for _, settings in laws.values() if settings.takes_targets]
    if len(learners) == len(laws):
        readers, is_text = learners, are_unlabelled_tokens
    if not sure:
        first: Batch | None = None
        if readers and isinstance(loader, Iterator):
            raw = list(itertools.islice(loader, 1))
            first = as_batch(raw[0]) if raw else None
            loader = itertools.chain(raw, loader)
        elif readers and isinstance(loader, Tensor | Mapping):
            first = as_batch(loader)
        if first is None or not is_text(first):
            source = Source(loader)
            if not readers or not is_text(source.peek()):
                return source
    return readers[0].open_tokens(loader, getattr(unwrap(model), "config", None))


def open_share(model: nn.Module, loader: Any, laws: Wanted) -> Source:
    """Return this rank's data as a source; every rank must call it.

    A rank without data shows the first batch of another, so that the network can be looked at, and
    hands out none: it merges nothing into what the others measure, and has their result. Classes
    are counted over all ranks: what depends on their number must be the same on each.
    """
    source = _open_or_borrow(model, loader, laws)
    shares = gathered((source.labels,))
    known = [labels for (labels,) in shares if labels is not None]
    source.classes = len(torch.cat(known).unique()) if len(known) == len(shares) else None
    return source


def _open_or_borrow(model: nn.Module, loader: Any, laws: Wanted) -> Source:

    def attempt() -> Source | NoDataError:
        try:
            return open_source(model, loader, laws)
        except NoDataError as error:
            return error

    own = agree(attempt, True)
    having = gathered(isinstance(own, Source))
    if isinstance(own, NoDataError) and not any(having):
        raise own
    if isinstance(own, Source) and all(having):
        return own
    shown: dict[str, Any] | None = None
    if isinstance(own, Source) and dist.get_rank() == having.index(True):
        shown = own.describe()
    (borrowed,) = gathered(shown)

    def borrow() -> Source:
        assert borrowed is not None
        first = borrowed.pop("first")
        return open_source(model, [first], laws).only_show(**borrowed)

    return agree(lambda: own if isinstance(own, Source) else borrow(), True)


def check_same_call(session: Session, laws: Wanted) -> None:
    """Refuse ranks that measure other networks or with other settings; every rank must call it.

    Sums of other targets, tasks or layers would merge into numbers that mean nothing.
    """
    settings = {
        f"{law}.{name}": ADDRESS.sub("", str(value))
        for law, (_, given) in laws.items()
        for name, value in vars(given).items()
        if name not in OWN
    }
    shapes = {name: tuple(p.shape) for name, p in session.model.named_parameters()}
    first, *others = gathered((settings, shapes))
    for rank, other in enumerate(others, start=1):
        for name in {**first[0], **other[0]}:
            ours, theirs = first[0].get(name), other[0].get(name)
            if ours != theirs:
                raise LawscopeError(
                    f"Rank {rank} has {name}={theirs} and rank 0 {ours}; make the same call on "
                    "every rank."
                )
        if first[1] != other[1]:
            raise LawscopeError(
                f"The network of rank {rank} has other parameters than that of rank 0; measure the "
                "same network on every rank."
            )
