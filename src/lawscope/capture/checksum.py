"""A number that any change of a batch changes, far cheaper than running the network."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from lawscope.capture.batches import Batch, tensors_in

WIDTH = 256  # words summed at a time, along and across


def checksum(batch: Batch, before: int = 0) -> int:
    """CRC of the labels and of all inputs, one batch after the other.

    Every word of eight bytes goes into two sums, one over its neighbours and one over the words at
    its place in other rows, modulo 2⁶⁴; the CRC is over the sums. That reads memory at full speed,
    which a CRC of every byte does not, and no order of summing can change it by rounding.

    Args:
        batch: as the loader gave it.
        before: of the batches before this one.

    Example:
        >>> x = torch.arange(6.0).view(3, 2)
        >>> checksum(Batch((x,), {}, None)) == checksum(Batch((x.flip(0),), {}, None))
        False
    """
    for tensor in tensors_in((batch.labels, batch.args, batch.kwargs)):
        for part in _strided(tensor.detach()):
            flat = part.cpu().resolve_conj().contiguous()
            # As a column, whose one element may have had any stride.
            data = flat.as_strided((flat.numel(),), (1,)).view(torch.uint8).numpy()
            whole = data.size // (8 * WIDTH) * (8 * WIDTH)
            words = data[:whole].view(np.uint64).reshape(-1, WIDTH)
            for sums in (words.sum(axis=0), words.sum(axis=1), data[whole:]):
                before = zlib.crc32(sums.tobytes(), before)
    return before


def _strided(tensor: Tensor) -> Iterator[Tensor]:
    """The tensor, or what a sparse or nested one is stored in."""
    if tensor.layout == torch.strided:
        yield tensor
    elif tensor.is_sparse:
        yield from (tensor._indices(), tensor._values())
    else:
        yield tensor.values()
