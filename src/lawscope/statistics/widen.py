"""Features in a wider dtype, block by block, without a fresh copy each time."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

HEIGHT, WIDTH = 256, 1024  # rows and columns of a block: 2 MB, which stays in the cache


def column_blocks(dim: int) -> list[slice]:
    """The columns 0…d−1 in blocks of at most :data:`WIDTH`."""
    return [slice(start, min(start + WIDTH, dim)) for start in range(0, dim, WIDTH)]


class Widener:
    """Yields (rows, columns, x[rows, columns]) in a wider dtype, reusing one small buffer.

    A batch of conv features is tens of megabytes; widening it whole would cost as much in page
    faults and memory traffic as the statistics themselves.

    Args:
        dtype: of the blocks.
    """

    def __init__(self, dtype: torch.dtype = torch.float64) -> None:
        self._buffer = torch.empty(0, dtype=dtype, device="cpu")

    def blocks(
        self, features: Tensor, shift: Tensor | None = None
    ) -> Iterator[tuple[slice, slice, Tensor]]:
        """Go through ``features`` (B, d), minus ``shift`` (d,) where it is given.

        Each block is valid until the next is asked for.
        """
        samples, dim = features.shape
        size = min(samples, HEIGHT) * min(dim, WIDTH)
        if self._buffer.numel() < size or self._buffer.device != features.device:
            self._buffer = torch.empty(size, dtype=self._buffer.dtype, device=features.device)
        all_columns = column_blocks(dim)
        for start in range(0, samples, HEIGHT):
            rows = slice(start, min(start + HEIGHT, samples))
            for columns in all_columns:
                width = columns.stop - columns.start
                block = self._buffer[: (rows.stop - start) * width].view(-1, width)
                block.copy_(features[rows, columns])
                if shift is not None:
                    block.sub_(shift[columns])
                yield rows, columns, block

    def __getstate__(self) -> dict[str, Tensor]:
        """The buffer is scratch: leave it out of copies and pickles."""
        return {"_buffer": torch.empty(0, dtype=self._buffer.dtype, device="cpu")}
