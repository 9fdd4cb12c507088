"""What is asked of a scan of a language model, checked before anything is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from lawscope.capture.token_batches import TASKS, Task
from lawscope.errors import LawscopeError
from lawscope.laws.next_token_observer import FOLDS
from lawscope.statistics.memory import DEFAULT_MEMORY

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
BATCH = 8  # windows in a forward pass
# Settings that moments depend on, beside model and text.
MATTER = (
    *("targets", "task", "precision", "normalization", "folds", "every", "memory", "dtype"),
    *("batch_size", "control", "seed"),
)


@dataclass(frozen=True)
class Request:
    """The options of a scan with a text, by the names of ``lawscope scan --help``.

    Attributes:
        folder: where the report and, until then, the moments go; None to write nothing.
        tokens: a number of tokens of text, "all", or None for what the law needs.

    Raises:
        LawscopeError: one of them is not known.
    """

    target: str
    text: Sequence[Path]
    folder: Path | None = None
    tokens: str | None = None
    window: int | None = None
    batch_size: int = BATCH
    dtype: str = "float32"
    gguf: Path | None = None
    checkpoint: Path | None = None
    trust_remote_code: bool = False
    targets: tuple[str, ...] = ("next",)
    task: Task = "causal"
    precision: str = "float64"
    normalization: str = "final-norm"
    folds: int = FOLDS
    every: int = 1
    memory: str | int = DEFAULT_MEMORY
    device: str = "cpu"
    control: bool = True
    resume: bool = False
    seed: int = 0
    threads: int | None = None

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise LawscopeError(f"--dtype {self.dtype} is not known; choose {', '.join(DTYPES)}.")
        if self.task not in TASKS:
            raise LawscopeError(f"--task {self.task} is not known; choose {', '.join(TASKS)}.")
        if self.tokens not in (None, "all") and not str(self.tokens).isdecimal():
            raise LawscopeError(f"--tokens {self.tokens} is no number; give one, or 'all'.")
        if self.most_tokens == 0:
            raise LawscopeError("--tokens 0 leaves nothing to measure; give more, or 'all'.")

    @property
    def most_tokens(self) -> int | None:
        """The number asked for by ``tokens``, if it is one."""
        return None if self.tokens in (None, "all") else int(str(self.tokens))

    @property
    def that_matter(self) -> dict[str, Any]:
        """The settings that moments depend on."""
        return {name: getattr(self, name) for name in MATTER}
