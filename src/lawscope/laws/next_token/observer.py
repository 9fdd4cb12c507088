"""Gather the moments of every block while text goes through; then solve, judge, advise."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from lawscope.capture.final_norm import RowNorm
from lawscope.capture.session import Session
from lawscope.capture.stations import Station
from lawscope.capture.taps import Tap
from lawscope.data.batches import Batch
from lawscope.data.tokens import TokenRows, TokenSource
from lawscope.errors import LawscopeError, memory_error_as_sentence
from lawscope.formatting import count, many, name_some, number, percent
from lawscope.laws.base import LawObserver
from lawscope.laws.line import Replicates, fit_line, log_or_nan
from lawscope.laws.next_token.result import NextToken
from lawscope.laws.next_token.verdict import advise, judge
from lawscope.statistics.base import select_prefixed
from lawscope.statistics.distributed import gathered, merges_ranks
from lawscope.statistics.prediction_moments import PredictionMoments
from lawscope.statistics.prediction_residual import ENOUGH, STEEP
from lawscope.statistics.regression import Regression
from lawscope.statistics.token_sums import CODINGS

if TYPE_CHECKING:
    from lawscope.laws.next_token.law import NextTokenSettings

NORMS = {
    "none": RowNorm("none"),
    "layer-norm": RowNorm("LayerNorm", 1e-5),
    "rms-norm": RowNorm("RMSNorm", 1e-6),
}
# Share of PR lost to rounding from which a warning says so: float64, fast.
LOST = {"float64": 1e-8, "fast": 0.05}


class NextTokenObserver(LawObserver[NextToken]):
    """The moments of the embedding and of every block, in one pass."""

    def __init__(self, session: Session, settings: NextTokenSettings) -> None:
        assert isinstance(session.source, TokenSource)
        self.session, self.settings, self.source = session, settings, session.source
        self.distributed = merges_ranks(settings.distributed)
        first, *blocks = session.blocks
        if settings.every > len(blocks):
            raise LawscopeError(
                f"every={settings.every} leaves out all of the model's {len(blocks)} blocks; take "
                "a smaller step."
            )
        self.stations = (first, *blocks[settings.every - 1 :: settings.every])
        self.names = tuple(station.name for station in self.stations)
        self.width = first.shape[-1]
        found = session.final_norm
        norm = NORMS.get(settings.normalization, found)
        self.norm = found if norm.kind == found.kind else norm
        with self._explain_memory():
            self.statistics = [self._make_statistic(station) for station in self.stations]
        self.sequences, self.left_out, self.seconds = 0, 0, 0.0
        self.done = self.broken = False
        self._taps = {Tap(station, rows="positions"): i for i, station in enumerate(self.stations)}
        self._begun = 0.0
        self._tokens: TokenRows
        self._rows: Tensor
        self._labels: tuple[Tensor, Tensor]

    @property
    def n(self) -> int:
        """Tokens measured so far."""
        return self.statistics[0].n

    def taps(self) -> Sequence[Tap]:
        return [] if self.done else list(self._taps)

    def begin_batch(self, batch: Batch) -> None:
        self._check_whole()
        assert batch.tokens is not None
        # Until its end a batch has been seen by some blocks only.
        self.broken = True
        self._begun, self._tokens = time.perf_counter(), batch.tokens
        folds = self._tokens.folds(self.settings.folds)
        order = folds.argsort(stable=True)
        self._rows = self._tokens.rows[order]
        self._labels = self._tokens.targets[order], folds[order]

    def see(self, tap: Tap, rows: Tensor) -> None:
        chosen = rows.index_select(0, self._rows.to(rows.device))
        wide = torch.promote_types(chosen.dtype, torch.float32)
        if not bool(chosen.sum(dtype=wide).isfinite()):
            raise LawscopeError(
                f"Block '{tap.station.name}' gives NaN or infinite activations; load the model in "
                "a wider dtype (float32 or bfloat16 instead of float16), or check its weights."
            )
        with self._explain_memory():
            self.statistics[self._taps[tap]].update(chosen, *self._labels)

    def end_batch(self) -> None:
        self.sequences += len(self._tokens.indices)
        self.left_out += self._tokens.left_out
        self.seconds += time.perf_counter() - self._begun
        self.broken = False

    def end_pass(self) -> None:
        self.done = True
        if self.distributed:
            self._merge_ranks()

    def state_dict(self) -> dict[str, Tensor]:
        self._check_whole()
        state = {
            f"{i}.{name}": tensor.to("cpu", copy=True).contiguous()
            for i, statistic in enumerate(self.statistics)
            for name, tensor in statistic.state_dict().items()
        }
        state["counts"] = torch.tensor([self.sequences, self.left_out])
        state["seconds"] = torch.tensor(self.seconds)
        return state

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        blocks = {int(name.split(".")[0]) for name in state if "." in name}
        if len(blocks) != len(self.statistics):
            raise LawscopeError(
                f"The saved moments are of {len(blocks) - 1} blocks, the model has "
                f"{len(self.statistics) - 1}; go on with the same model."
            )
        for i, statistic in enumerate(self.statistics):
            statistic.load_state_dict(select_prefixed(state, f"{i}."))
        self.sequences, self.left_out = state["counts"].tolist()
        self.seconds = float(state["seconds"])

    def result(self, control: NextToken | None = None) -> NextToken:
        """Solve every block's regressions and judge the line, for all targets."""
        self._check_whole()
        n, d = self.n, self.width
        if n <= d:
            raise LawscopeError(
                f"{n} tokens were measured for {d} features: a regression would fit them exactly "
                f"and say nothing. Pass at least {d + 1 - n} more, better {ENOUGH * d - n} more."
            )
        with self._explain_memory():
            parts = [statistic.compute() for statistic in self.statistics]
        controls = {} if control is None else control.targets
        first, *others = (
            self._judge(i, name, parts, controls.get(name))
            for i, name in enumerate(self.source.targets)
        )
        return dataclasses.replace(first, others={other.target: other for other in others})

    def _judge(
        self, i: int, target: str, parts: Sequence[Regression], control: NextToken | None
    ) -> NextToken:
        n, d = parts[0].n, self.width
        pr = np.array([part.pr[i] for part in parts])
        rank = np.array([part.rank for part in parts])
        deleted = np.stack([part.deleted[:, i] for part in parts[1:]], axis=1)
        replicates = Replicates(log_or_nan(deleted)) if len(deleted) > 1 else None
        fit = fit_line(pr[1:], replicates)
        verdict, reason = judge(fit, log_or_nan(pr[1:]), replicates, n, d)
        result = NextToken(
            blocks=self.names,
            target=target,
            pr=pr,
            pr_adjusted=pr * (n - 1) / np.maximum(n - rank - 1, 1),
            pr_cv=np.array([part.cv[i] for part in parts]),
            pr_onehot=np.array([part.onehot[i] for part in parts]),
            onehot_error=np.array([part.onehot_error[i] for part in parts]),
            rank=rank,
            condition=np.array([part.condition for part in parts]),
            n=n,
            d=d,
            fit=fit,
            verdict=verdict,
            reason=reason,
            final_norm=self.session.final_norm.kind,
            control=control,
            settings=self._describe(),
            warnings=self._warn_about(parts),
            replicates=replicates,
        )
        return dataclasses.replace(result, advice=advise(result))

    def _describe(self) -> dict[str, Any]:
        own = self.settings
        exact = all(sums.exact for s in self.statistics for sums in s.tokens)
        bases = [s.basis for s in self.statistics]
        whitened = [b is not None and b.matrix is not None for b in bases]
        bos = self.source.bos
        return {
            "task": self.source.task,
            "targets": list(self.source.targets),
            "normalization": own.normalization,
            "norm": self.norm.kind,
            "norm_eps": self.norm.eps,
            "final_norm_module": self.session.final_norm_module,
            "folds": own.folds,
            "every": own.every,
            "precision": own.precision,
            "onehot": ("exact" if exact else f"{CODINGS} codings") if own.onehot else "off",
            "whitened_blocks": list(itertools.compress(self.names, whitened)),
            "bos": "none" if bos is None else f"first token {bos} left out",
            "sequences": self.sequences,
            "tokens_left_out": self.left_out,
            "tokens_per_feature": self.n / self.width,
            "model": type(self.session.model).__name__,
            "distributed": self.distributed,
            "seconds": self.seconds,
        }

    def _warn_about(self, parts: Sequence[Regression]) -> tuple[str, ...]:
        n, d, fast = self.n, self.width, self.settings.precision == "fast"

        def those(doubtful: Callable[[Regression], bool]) -> str:
            both = zip(self.names, parts, strict=True)
            return name_some([name for name, part in both if doubtful(part)], 3)

        sentences = []
        if n < ENOUGH * d:
            sentences.append(
                f"{many(n, 'token')} for {many(d, 'feature')} are {number(n / d)} per feature: "
                f"in-sample PR is about {percent(d / n)} too low and its line is noise below "
                f"{ENOUGH}; pass {count(ENOUGH * d - n)} more."
            )
        if steep := those(lambda part: part.condition > STEEP):
            worst = max(part.condition for part in parts)
            sentences.append(
                f"PR is good to fewer than 7 digits at {steep}: the condition number of the "
                f"features is up to {number(worst, 2)}."
            )
        elif dull := those(lambda part: part.lost > LOST[self.settings.precision]):
            worst = max(part.lost for part in parts)
            sentences.append(
                f"Rounding changes PR by about {number(worst, 1)} of itself at {dull}, conditioned "
                "worse than the first tokens showed. Begin with other parts of the text"
                + (", or use precision='float64'." if fast else ".")
            )
        # A LayerNorm, ours or the block's own, takes one direction away.
        if flat := those(lambda part: part.rank < d - 1):
            least = min(part.rank for part in parts)
            sentences.append(
                f"At {flat} there are dependent features (rank down to {least} of {d}): directions "
                "below the rounding of their dtype"
                + (", or of fast products (a thousandth of the largest)," if fast else "")
                + " are left out of the regression."
            )
        return tuple(sentences)

    def _make_statistic(self, station: Station) -> PredictionMoments:
        own, targets = self.settings, len(self.source.targets)
        memory = int(own.memory) // (len(self.stations) * targets)
        return PredictionMoments(
            self.width,
            targets,
            folds=own.folds,
            precision=own.precision,
            prepare=self.norm,
            token_bytes=memory if own.onehot else 0,
            dtype=station.dtype,
            device=station.device,
        )

    def _merge_ranks(self) -> None:
        # In rank order, so that all have the same sums.
        with self._explain_memory():
            for i, own in enumerate(self.statistics):
                merged = self._make_statistic(self.stations[i])
                for state in gathered({k: v.cpu() for k, v in own.state_dict().items()}):
                    part = self._make_statistic(self.stations[i])
                    part.load_state_dict(state)
                    merged.merge(part)
                self.statistics[i] = merged
        counts = zip(*gathered((self.sequences, self.left_out, self.seconds)), strict=True)
        sequences, left_out, seconds = counts
        self.sequences, self.left_out, self.seconds = sum(sequences), sum(left_out), max(seconds)

    def _check_whole(self) -> None:
        if self.broken:
            raise LawscopeError(
                "A batch failed half way, so that blocks have seen different tokens; begin again "
                "without that batch."
            )

    def _explain_memory(self) -> AbstractContextManager[None]:
        return memory_error_as_sentence(
            f"the moments of {len(self.stations) - 1} blocks in {self.settings.folds} folds of "
            f"{self.width}² numbers",
            "measure fewer blocks (every=2), take fewer folds (folds=2), or load the model in a "
            "smaller dtype",
        )
