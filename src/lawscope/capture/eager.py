"""A network runs module by module while it is looked at."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch


@contextmanager
def eager() -> Iterator[None]:
    """No compiled graphs and no fused attention inside; the settings are put back after.

    A compiled submodule cannot be hooked from within; and the fast path of
    ``nn.TransformerEncoder`` packs padded sequences into nested tensors that have no rows.
    """
    # What is not imported has compiled nothing, and takes a second to import.
    compiles = "torch._dynamo" in sys.modules
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.compiler.set_stance("force_eager") if compiles else nullcontext():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
