"""Watching a language model for the law of next-token prediction: moments in, result out."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from lawscope.capture.language import Blocks
from lawscope.capture.language_probe import LanguageModel
from lawscope.capture.language_session import LanguageSession, open_language
from lawscope.capture.places import Places, configured_special, first_token, mask_tokens, places
from lawscope.capture.row_norm import RowNorm
from lawscope.capture.token_batches import Task, TokenBatch, model_inputs, read_tokens
from lawscope.capture.token_limits import check_ids, vocabulary_of, within_limits
from lawscope.capture.untouched import unwrapped
from lawscope.errors import LawscopeError
from lawscope.laws.next_token_moments import (
    fresh_moments,
    merged_over_ranks,
    read_into,
    room_for_moments,
    written,
)
from lawscope.laws.next_token_result import NextToken
from lawscope.laws.next_token_settings import (
    Normalization,
    Settings,
    chosen_norm,
    chosen_special,
    chosen_targets,
)
from lawscope.laws.next_token_summary import summarise
from lawscope.statistics.comoments import Precision
from lawscope.statistics.distributed import gathered
from lawscope.statistics.memory import DEFAULT_MEMORY, parse_memory
from lawscope.statistics.prediction_moments import PredictionMoments
from lawscope.statistics.rows_by_fold import RowLabels
from lawscope.statistics.side_by_side import side_by_side

FOLDS = 5


class NextTokenObserver:
    """Gathers the moments of every block while text goes through a language model.

    Args:
        model: the language model; left exactly as found.
        example: a batch to find the blocks with; it is not measured.
        targets: see :func:`lawscope.next_token`, as are the others.

    Example:
        >>> from lawscope.zoo.language import gpt
        >>> _ = torch.manual_seed(0)
        >>> ids = torch.randint(0, 50, (40, 30))
        >>> model = gpt(50, width=16, depth=4, heads=2, context=30)
        >>> with NextTokenObserver(model, ids) as observer:
        ...     (observer.update(ids[:20]), observer.update(ids[20:]))
        (580, 580)
        >>> observer.result().n
        1160
    """

    def __init__(
        self,
        model: nn.Module,
        example: Any,
        *,
        targets: Sequence[str] = ("next",),
        normalization: Normalization = "final-norm",
        folds: int = FOLDS,
        precision: Precision = "float64",
        task: Task = "causal",
        onehot: bool = True,
        memory: str | int = DEFAULT_MEMORY,
        mask_token: int | None = None,
        special_tokens: Collection[int] = (),
        seed: int = 0,
        every: int = 1,
    ) -> None:
        self.model = unwrapped(model)
        self.settings = Settings(
            targets=chosen_targets(targets, task),
            normalization=normalization,
            folds=folds,
            precision=precision,
            task=task,
            onehot=onehot,
            memory=parse_memory(memory),
            mask_token=mask_token,
            special_tokens=chosen_special(special_tokens),
            seed=seed,
            every=every,
        )
        config = getattr(self.model, "config", None)
        self.bos = first_token(config) if task == "causal" else None
        self._special = {*configured_special(config), *self.settings.special_tokens}
        self._vocabulary = vocabulary_of(self.model, task)
        self._example = read_tokens(example, task)
        if not len(self._example.ids):
            raise LawscopeError("The example batch has no sequences; pass one that has.")
        self._stack = ExitStack()
        self._session: LanguageSession | None = None
        self.sequences, self.left_out, self.seconds = 0, 0, 0.0
        self._broken = False  # blocks have seen different tokens
        self.found: LanguageModel
        self.names: tuple[str, ...] = ()
        self.norm = RowNorm()
        self.statistics: list[PredictionMoments] = []

    def __enter__(self) -> NextTokenObserver:
        """Open the model; it is put back as it was found after ``with``."""
        task, every = self.settings.task, self.settings.every
        opened = open_language(self.model, self._example, task, every)
        check_ids(self._example.ids, self._vocabulary)
        with ExitStack() as stack, within_limits(self.model, self._example.ids):
            session = stack.enter_context(opened)
            if not self.statistics:
                self.found, self.names = session.found, session.names
                self.norm = chosen_norm(self.settings.normalization, self.found.norm)
                self.statistics = fresh_moments(*self._kind)
            self._session, self._stack = session, stack.pop_all()  # nothing went wrong
        return self

    def __exit__(self, *_: Any) -> None:
        """Take the hooks off and put everything back."""
        self._session = None
        self._stack.close()

    @property
    def n(self) -> int:
        """Tokens measured so far."""
        return self.statistics[0].n if self.statistics else 0

    def update(self, batch: Any, *, first: int | None = None, stride: int = 1) -> int:
        """Run a batch and take in its features.

        Args:
            batch: token ids (B, T), or a dict with ``input_ids`` and ``attention_mask``.
            first: global index of its first sequence, which decides its fold; by default the
                number of sequences seen. With ``stride``, processes that share a text keep the
                folds of a single one.
            stride: from one sequence of the batch to the next.

        Returns:
            How many tokens were measured.

        Raises:
            LawscopeError: not token ids, or none of this model's; a block that gives NaN; too
                little memory. The batch then counts nowhere and others may follow, unless some
                blocks had summed it already, which the next call says.
        """
        if self._session is None:
            raise LawscopeError("The observer is closed; call update() inside 'with observer:'.")
        self._check_whole()
        begun = time.perf_counter()
        tokens = read_tokens(batch, self.settings.task)
        start = self.sequences if first is None else first
        indices = range(start, start + stride * len(tokens.ids), stride)
        ids, where = self._where(tokens, indices)
        check_ids(ids, self._vocabulary)
        if not len(ids):
            return 0
        left_out = int(tokens.real.sum()) - len(where.rows)
        where, folds = where.by_fold(indices, self.settings.folds)
        labels = RowLabels(where.targets, folds)
        inputs = model_inputs(self.model, tokens, ids, self.settings.task)
        with self._all_or_none(labels), within_limits(self.model, ids):
            self._session.run(
                inputs,
                tokens.ids.shape,
                lambda position, hidden: self._take(position, hidden, where.rows, labels),
            )
        self.sequences += len(tokens.ids)
        self.left_out += left_out
        self._work_off()
        self.seconds += time.perf_counter() - begun
        return len(where.rows)

    def measurable(self, batch: Any) -> int:
        """How many tokens of a batch would be measured; nothing runs."""
        tokens = read_tokens(batch, self.settings.task)
        return len(self._where(tokens, range(len(tokens.ids)))[1].rows)

    def merge(self, other: NextTokenObserver) -> None:
        """Add what another observer of the same model and settings has seen."""
        for ours, theirs in zip(self.statistics, other.statistics, strict=True):
            ours.merge(theirs)
        self.sequences += other.sequences
        self.left_out += other.left_out
        self.seconds = max(self.seconds, other.seconds)

    def all_merge(self) -> None:
        """Add what all ranks of ``torch.distributed`` have seen, in rank order; all must call it.

        Raises:
            LawscopeError: no process group.
        """
        self.statistics = merged_over_ranks(self.statistics, *self._kind)
        counts = gathered((self.sequences, self.left_out, self.seconds))
        self.sequences, self.left_out = sum(c[0] for c in counts), sum(c[1] for c in counts)
        self.seconds = max(c[2] for c in counts)

    def state_dict(self) -> dict[str, Tensor]:
        """Everything gathered so far, as tensors that safetensors can write.

        Raises:
            LawscopeError: a batch failed after some blocks had summed it.
        """
        self._check_whole()
        state = written(self.statistics)
        state["counts"] = torch.tensor([self.sequences, self.left_out])
        state["seconds"] = torch.tensor(self.seconds)
        return state

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a state given by :meth:`state_dict` with the same model and settings.

        Raises:
            LawscopeError: the state is of another model or other settings.
        """
        read_into(self.statistics, state)
        self.sequences, self.left_out = state["counts"].tolist()
        self.seconds = float(state["seconds"])

    def result(self, control: NextToken | None = None) -> NextToken:
        """The law as it shows in what was seen.

        Args:
            control: the same measurement of the untrained network.

        Raises:
            LawscopeError: not more tokens than features, or too little memory.
        """
        self._check_whole()
        with room_for_moments(self.settings, self.found.blocks):
            return summarise(self, control)

    def _where(self, tokens: TokenBatch, indices: Sequence[int]) -> tuple[Tensor, Places]:
        if self.settings.task != "masked":
            return tokens.ids, places(tokens, self.settings.targets, self.bos)
        assert self.settings.mask_token is not None
        special = self._special | {self.settings.mask_token}
        return mask_tokens(tokens, self.settings.mask_token, special, indices, self.settings.seed)

    @contextmanager
    def _all_or_none(self, labels: RowLabels) -> Iterator[None]:
        """A batch that fails half way is taken back from the blocks that took it."""
        before = [statistic.n for statistic in self.statistics]
        try:
            yield
        except BaseException:
            for statistic in self.statistics:
                statistic.withdraw(labels)
            self._broken = [statistic.n for statistic in self.statistics] != before
            raise

    def _check_whole(self) -> None:
        if self._broken or not all(statistic.whole for statistic in self.statistics):
            raise LawscopeError(
                "A batch failed after some blocks had summed it, so that blocks have seen "
                "different tokens; begin with a new observer."
            )

    def _take(self, position: int, hidden: Tensor, where: Tensor, labels: RowLabels) -> None:
        """Add the features of one block, shape (B, T, d), at some of the flattened positions."""
        rows = hidden.reshape(-1, hidden.shape[2]).index_select(0, where.to(hidden.device))
        if not bool(rows.sum(dtype=torch.promote_types(rows.dtype, torch.float32)).isfinite()):
            raise LawscopeError(
                f"Block '{self.names[position]}' gives NaN or infinite activations; load the model "
                "in a wider dtype (float32 or bfloat16 instead of float16), or check its weights."
            )
        self.statistics[position].update(rows, labels, defer=True)

    def _work_off(self) -> None:
        """Sum what waits, where it is enough: blocks on the CPU side by side, one core each."""
        due = [statistic for statistic in self.statistics if statistic.due]
        with room_for_moments(self.settings, self.found.blocks):
            for statistic in due:
                if statistic.device.type != "cpu":
                    statistic.work_off()
            here = [statistic.work_off for statistic in due if statistic.device.type == "cpu"]
            side_by_side(here, most=len(here))

    @property
    def _kind(self) -> tuple[Settings, Blocks, RowNorm]:
        """What moments to add up must agree in."""
        return self.settings, self.found.blocks, self.norm
