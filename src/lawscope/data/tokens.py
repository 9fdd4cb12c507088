"""Text as a source: batches of token ids, and what is to be predicted at which positions."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lawscope.checks import is_list
from lawscope.data.batches import Batch, map_tensors
from lawscope.data.source import Source
from lawscope.errors import LawscopeError
from lawscope.whole_number import is_whole

Task = Literal["causal", "masked", "encoder-decoder"]
TASKS: tuple[Task, ...] = ("causal", "masked", "encoder-decoder")
OFFSETS = {"next": 1, "next-next": 2, "current": 0, "previous": -1}
MASKED_SHARE = 0.15
CONTEXT_NAMES = ("max_position_embeddings", "block_size", "context_length")
# Hardly a number of heads or experts: shapes tell where tokens are.
FEW_SEQUENCES, FEW_TOKENS = 2, 7


@dataclass(frozen=True, eq=False)
class TokenRows:
    """Which tokens of a batch are measured and what is predicted there, all on the CPU."""

    shape: tuple[int, ...]  # (B, T) of the token ids
    rows: Tensor  # positions in the flattened (B·T), those of one sequence together, shape (n,)
    targets: Tensor  # token ids to predict there, shape (n, q)
    indices: range  # global index of each sequence of the batch, B of them
    left_out: int = 0  # how many real tokens are not measured

    def folds(self, count: int) -> Tensor:
        """Return the fold of each row: its sequence's global index modulo ``count``."""
        sequences = self.rows // self.shape[1]
        return (self.indices.start + self.indices.step * sequences) % count


class TokenSource(Source):
    """Batches of token ids as a source, with the tokens to predict.

    The data is token ids (B, T), or dicts with ``input_ids`` and ``attention_mask``: a list, a
    DataLoader or a generator. The model's configuration names special tokens. The other arguments
    are settings of the law of next-token prediction; without ``sharded`` every process is given
    the whole text and takes batches rank, rank + world, … of it.
    """

    kind = "tokens"
    unit = "tokens"
    _empty = "There are no batches with tokens: nothing to measure."

    def __init__(
        self,
        data: Any,
        model_config: Any = None,
        task: Task = "causal",
        targets: Sequence[str] = ("next",),
        mask_token: int | None = None,
        special_tokens: Collection[int] = (),
        seed: int = 0,
        *,
        bos: int | Literal["config"] | None = "config",
        rank: int = 0,
        world: int = 1,
        sharded: bool = True,
    ) -> None:
        self.task, self.targets = task, check_targets(targets, task)
        _check_tokens(task, mask_token, special_tokens, bos)
        self.mask_token = None if mask_token is None else int(mask_token)
        named = {*find_special_tokens(model_config), *map(int, special_tokens)}
        self.special_tokens = named if mask_token is None else named | {mask_token}
        bos = find_first_token(model_config) if bos == "config" else bos
        self.bos = bos if task == "causal" else None
        self.seed, self.rank, self.world, self.sharded = seed, rank, world, sharded
        super().__init__(data)

    def few(self) -> Batch:
        """Return a few tokens of the first batch, taken as real ones, to look at a model with.

        In a causal task they come twice, the second time with another last token. An encoder
        reads another number of tokens than the decoder: shapes then tell the stream of the one
        from that of the other.
        """
        batch = self._few_of
        ids = _choose_windows(batch)
        extra = {k: v[:FEW_SEQUENCES] for k, v in batch.extra.items() if k == "input_ids"}
        extra = {k: v[:, :-1] if v.shape[1] == ids.shape[1] else v for k, v in extra.items()}
        if self.task == "causal":
            changed = ids.clone()
            same = ids[:, 0] == ids[:, -1]
            changed[:, -1] = torch.where(same, (ids[:, 0] - 1).abs(), ids[:, 0])
            ids = torch.cat([ids, changed])
        return self._batch(replace(batch, ids=ids, extra=extra), range(len(ids)))

    def _iterable(self, data: Any) -> Iterable[Any]:
        if isinstance(data, Tensor | Mapping):
            return [data]
        if not isinstance(data, Iterable):
            raise LawscopeError(
                f"The batches are a {type(data).__name__}; pass a list, a DataLoader or a "
                "generator of token ids (B, T)."
            )
        return data

    def units_in(self, batch: Batch) -> int:
        return 0 if batch.tokens is None else math.prod(batch.tokens.shape)

    def _count(self) -> tuple[int | None, int | None, int | None, int | None]:
        if not isinstance(self.data, Sequence):
            return None, None, None, None
        own = self.data if self.sharded else self.data[self.rank :: self.world]
        return None, None, len(own), sum(_count_tokens(raw) for raw in own)

    def _read(self, raws: Iterable[Any]) -> Iterator[Batch]:
        dealt = 0
        first, step = (self.rank, self.world) if self.sharded else (0, 1)
        for dealt, raw in enumerate(filter(_count_tokens, raws), start=1):
            tokens = read_tokens(raw, self.task)
            if dealt == 1:
                self._few_of = tokens
            indices = range(first, first + step * len(tokens.ids), step)
            first = indices.stop
            if self.sharded or (dealt - 1) % self.world == self.rank:
                if self.task == "masked":
                    assert self.mask_token is not None
                    hidden = self.mask_token, self.special_tokens, indices, self.seed
                    ids, *measured = hide_tokens(tokens, *hidden)
                    tokens = replace(tokens, ids=ids)
                else:
                    measured = [*find_targets(tokens, self.targets, self.bos)]
                yield self._batch(tokens, indices, measured)
        if not self.sharded and 0 < dealt <= self.rank:
            # A rank without a share takes part with a batch in which nothing is measured.
            yield self._batch(self._few_of, range(0))

    def _batch(self, tokens: TokenBatch, indices: range, measured: Sequence[Tensor] = ()) -> Batch:
        """Return tokens as a batch; ``measured`` are rows and their targets, if any."""
        none = torch.zeros(0, dtype=torch.int64)
        rows, targets = measured or (none, none[:, None].expand(0, len(self.targets)))
        left_out = int(tokens.real.sum()) - len(rows) if measured else 0
        seen = TokenRows(tuple(tokens.ids.shape), rows, targets, indices, left_out)
        if not tokens.named:
            return Batch((tokens.ids,), {}, None, seen)
        name = "decoder_input_ids" if self.task == "encoder-decoder" else "input_ids"
        return Batch((), {name: tokens.ids, **tokens.extra}, None, seen)


@dataclass(frozen=True, eq=False)
class TokenBatch:
    """One batch of sequences as it was handed over, on the CPU."""

    ids: Tensor  # tokens of the stream that is measured, shape (B, T)
    real: Tensor  # where they are not padding, shape (B, T)
    extra: dict[str, Any]  # other named inputs of the model
    named: bool  # whether the ids came by name


def read_tokens(raw: Any, task: Task = "causal") -> TokenBatch:
    """Read token ids (B, T), alone or in a dict with ``input_ids`` and ``attention_mask``."""
    prefix = "decoder_" if task == "encoder-decoder" else ""
    ids_name, mask_name = f"{prefix}input_ids", f"{prefix}attention_mask"
    extra: dict[str, Any] = {}
    found, mask = _unpack(raw), None
    if isinstance(raw, Mapping):
        if ids_name not in raw:
            raise LawscopeError(
                f"A batch has the entries {', '.join(map(repr, raw))}; {task} models need "
                f"{ids_name!r}, token ids of shape (batch, tokens)."
            )
        extra = {k: v for k, v in raw.items() if k not in ("labels", ids_name)}
        found, mask = raw[ids_name], raw.get(mask_name)
    elif task == "encoder-decoder":
        raise LawscopeError(
            "An encoder–decoder needs batches that are dicts with 'input_ids' and "
            "'decoder_input_ids'."
        )
    ids = _ids(found)
    real = torch.ones_like(ids, dtype=torch.bool)
    if mask is not None:
        real = torch.as_tensor(mask).cpu() != 0
        if real.shape != ids.shape:
            raise LawscopeError(
                f"{mask_name} has shape {tuple(real.shape)}, the token ids {tuple(ids.shape)}."
            )
    return TokenBatch(ids, real, extra, isinstance(raw, Mapping))


def _unpack(raw: Any) -> Any:
    """Return the ids out of a tuple of one, or of a pair with a label per token."""
    if not isinstance(raw, list | tuple) or len(raw) not in (1, 2):
        return raw
    shapes = [tuple(getattr(part, "shape", ())) for part in raw]
    return raw[0] if len(raw) == 1 or (len(shapes[0]) == 2 and shapes[0] == shapes[1]) else raw


def are_tokens(batch: Batch) -> bool:
    """Return whether a batch is token ids (B, T) without class labels; labels per token may be."""
    labels = batch.labels
    if labels is not None and (labels.dim() < 2 or not _holds_integers(labels)):
        return False
    named = [batch.kwargs[k] for k in ("decoder_input_ids", "input_ids") if k in batch.kwargs]
    ids = next(iter([*named, *batch.args]), None)
    return isinstance(ids, Tensor) and ids.dim() == 2 and _holds_integers(ids)


def are_unlabelled_tokens(batch: Batch) -> bool:
    """Return whether a batch is token ids (B, T) without labels of any kind."""
    return batch.labels is None and are_tokens(batch)


def _ids(found: Any) -> Tensor:
    ids = map_tensors(found, lambda t: t)
    if not isinstance(ids, Tensor) or not _holds_integers(ids) or ids.dim() not in (1, 2):
        tensor = isinstance(ids, Tensor)
        kind = f"{ids.dtype} of shape {tuple(ids.shape)}" if tensor else type(found).__name__
        raise LawscopeError(
            f"A batch is {kind}; yield integer token ids of shape (batch, tokens), as "
            "tokenizer(…, return_tensors='pt') gives them."
        )
    ids = (ids if ids.dim() == 2 else ids[None]).to("cpu", torch.int64)
    if ids.shape[1] < 2:
        raise LawscopeError(
            "Sequences of one token or none have no next token; make windows longer."
        )
    return ids


def _holds_integers(ids: Tensor) -> bool:
    return not (ids.is_floating_point() or ids.is_complex() or ids.dtype is torch.bool)


def find_targets(
    batch: TokenBatch, targets: Sequence[str], bos: int | None
) -> tuple[Tensor, Tensor]:
    """Find where every target exists: positions in the flattened (B·T), and the ids there (n, q).

    Those are real tokens whose neighbours asked for are real. The first token of a sequence is
    left out when it is the ``bos`` token, whose features are the same in all sequences.
    """
    kept = batch.real.clone()
    for target in targets:
        kept &= _shifted(batch.real, OFFSETS[target])
    if bos is not None:
        first = batch.real & (batch.real.cumsum(dim=1) == 1)
        kept &= ~(first & (batch.ids == bos))
    rows = torch.nonzero(kept.flatten())[:, 0]
    wanted = [_shifted(batch.ids, OFFSETS[target]).flatten()[rows] for target in targets]
    return rows, torch.stack(wanted, dim=1)


def _shifted(values: Tensor, offset: int) -> Tensor:
    """Shift tokens: entry t is entry t + offset of ``values`` (B, T); zero beyond the ends."""
    return F.pad(values, (-offset, offset))


def hide_tokens(
    batch: TokenBatch, mask_token: int, special: Collection[int], indices: Sequence[int], seed: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Hide 15 % of the tokens of every sequence that are text; they are measured and predicted.

    Which ones depends on the seed and the sequence's global index alone, not on the batch. Returns
    the ids with holes, the hidden positions in the flattened (B·T), and the ids there, (n, 1).
    """
    hidden = torch.zeros_like(batch.real)
    plain = batch.real & ~torch.isin(batch.ids, torch.tensor(sorted(special), dtype=torch.int64))
    for i, index in enumerate(indices):
        eligible = torch.nonzero(plain[i])[:, 0]
        generator = torch.Generator().manual_seed((seed * 1_000_003 + index) % 2**63)
        count = max(1, round(MASKED_SHARE * len(eligible)))
        hidden[i, eligible[torch.randperm(len(eligible), generator=generator)[:count]]] = True
    rows = torch.nonzero(hidden.flatten())[:, 0]
    ids = batch.ids.masked_fill(hidden, mask_token)
    return ids, rows, batch.ids.flatten()[rows][:, None]


def find_first_token(config: Any) -> int | None:
    """Return the beginning-of-sequence token of a configuration, if it has one."""
    return next(iter(_configured(config, "bos")), None)


def find_special_tokens(config: Any) -> set[int]:
    """Return the tokens of a configuration that are not text."""
    names = ("bos", "eos", "pad", "cls", "sep")
    return {token for name in names for token in _configured(config, name)}


def _configured(config: Any, name: str) -> list[int]:
    """Return the ids of a special token; a configuration, or its text's, may name several.

    One beyond the vocabulary is the default of a class whose vocabulary was made smaller.
    """
    for part in (config, text_config(config)):
        ids = getattr(part, f"{name}_token_id", None)
        words = getattr(part, "vocab_size", None)
        found = [i for i in (ids if isinstance(ids, list | tuple) else [ids]) if isinstance(i, int)]
        found = [i for i in found if not isinstance(words, int) or i < words]
        if found:
            return found
    return []


def text_config(config: Any) -> Any:
    """Return the part of a configuration that is about text, in models that also see or hear."""
    try:
        return config.get_text_config()
    except (AttributeError, ValueError):  # it has none, or several
        return config


def context_of(model: nn.Module) -> int | None:
    """Return the tokens that a model reads at once, where it or its configuration names them."""
    config = text_config(getattr(model, "config", model))
    known = (getattr(config, name, None) for name in CONTEXT_NAMES)
    return next((c for c in known if isinstance(c, int) and c > 1), None)


def vocabulary_of(model: nn.Module, task: Task = "causal") -> int | None:
    """Return the rows of the embedding of the measured stream, where the model says so."""
    holder: Any = model
    if task == "encoder-decoder":
        holder = getattr(model, "get_decoder", lambda: None)()
    try:
        rows = holder.get_input_embeddings().num_embeddings
    except (AttributeError, NotImplementedError):
        return None
    return rows if isinstance(rows, int) else None


def check_ids(ids: Tensor, vocabulary: int | None) -> None:
    """Refuse ids that no row of the embedding is for, before a device trips over them."""
    if not ids.numel():
        return
    lowest, highest = int(ids.min()), int(ids.max())
    if lowest < 0:
        raise LawscopeError(
            f"A batch has the token id {lowest}, and ids begin at 0; mark padding in "
            "attention_mask, and keep -100 for labels."
        )
    if vocabulary is not None and highest >= vocabulary:
        raise LawscopeError(
            f"A batch has the token id {highest}, and the model embeds {vocabulary} tokens, 0 to "
            f"{vocabulary - 1}; is the tokenizer the model's own?"
        )


@contextmanager
def within_limits(model: nn.Module, ids: Tensor) -> Iterator[None]:
    """Turn what a model raises at ids or lengths beyond its tables into a sentence."""
    try:
        yield
    except LawscopeError:
        raise
    except Exception as error:
        context = context_of(model)
        beyond = context is not None and ids.shape[1] > context
        if not (beyond or isinstance(error, IndexError) or "device-side assert" in str(error)):
            raise
        said = (str(error).strip() or "no more").splitlines()[0]
        known = "" if context is None else f" of {context} tokens"
        raise LawscopeError(
            f"The model raised {type(error).__name__}: {said}. Token ids go up to "
            f"{int(ids.max())} and sequences have {ids.shape[1]} tokens: is the tokenizer the "
            f"model's own, and are sequences within its context{known}?"
        ) from error


def _choose_windows(batch: TokenBatch) -> Tensor:
    """Return, of the text in windows of a few tokens, those with most different ones."""
    # Equal tokens, and padding above all, have features so alike that any norm would fit them.
    length = min(FEW_TOKENS, batch.ids.shape[1])
    ids = batch.ids.masked_fill(~batch.real, -1).unfold(1, length, length).flatten(0, 1)
    in_order = ids.sort(dim=1).values
    different = (in_order.diff(dim=1) > 0).sum(dim=1) + (in_order[:, 0] >= 0)
    best = different.argsort(descending=True, stable=True)[: min(FEW_SEQUENCES, len(batch.ids))]
    return batch.ids.unfold(1, length, length).flatten(0, 1)[best]


def check_targets(targets: Sequence[str], task: Task) -> tuple[str, ...]:
    """Return what is predicted; in a masked model that is what was hidden."""
    if isinstance(targets, str):
        raise LawscopeError(f"targets={targets!r} is a word; pass a list, as in ({targets!r},).")
    if not is_list(targets):
        raise LawscopeError(f"targets={targets!r} is not a list of names; pass ('next',), say.")
    names = tuple(targets)
    if task == "masked":
        if names not in (("next",), ("masked",)):
            raise LawscopeError(
                f"targets={names!r} have no meaning with task='masked', which predicts the tokens "
                "that it hides; leave targets out."
            )
        return ("masked",)
    for name in names:
        if not isinstance(name, str) or name not in OFFSETS:
            listed = ", ".join(map(repr, OFFSETS))
            raise LawscopeError(f"targets={name!r} is not known; choose from {listed}.")
    if not names or len(set(names)) < len(names):
        raise LawscopeError(f"targets={names!r}: name each target once, at least one.")
    return names


def _check_tokens(task: Task, mask_token: Any, special_tokens: Any, bos: Any) -> None:
    if task == "masked" and mask_token is None:
        raise LawscopeError(
            "task='masked' hides tokens behind the mask token; pass mask_token=, as "
            "tokenizer.mask_token_id gives it."
        )
    if mask_token is not None and not _is_token(mask_token):
        raise LawscopeError(f"mask_token={mask_token!r} is not a token id.")
    if not is_list(special_tokens) or not all(map(_is_token, special_tokens)):
        raise LawscopeError(
            f"special_tokens={special_tokens!r} are not token ids; pass whole numbers, as "
            "tokenizer.all_special_ids gives them."
        )
    if not (bos is None or (isinstance(bos, str) and bos == "config") or _is_token(bos)):
        raise LawscopeError(f"bos={bos!r} is not a token id; give one, 'config' or None.")


def _is_token(number: Any) -> bool:
    return is_whole(number) and 0 <= number < 2**63


def _count_tokens(raw: Any) -> int:
    """Count the tokens of a batch, padding included; 1 for what reading it will refuse."""
    named = raw if isinstance(raw, Mapping) else {"input_ids": _unpack(raw)}
    ids = named.get("decoder_input_ids", named.get("input_ids"))
    return math.prod(ids.shape) if isinstance(ids, Tensor | np.ndarray) else 1
