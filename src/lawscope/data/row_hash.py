"""A hash of every sample's content: the same in every order, batch, process and on every device."""

from __future__ import annotations

import torch
from torch import Tensor

from lawscope.data.batches import Batch

# The multipliers of splitmix64, as signed numbers; products wrap around.
_FIRST, _SECOND, _STEP = -0x40A7B892E31B1A47, -0x6B2FB644ECCEEE15, -0x61C8864680B583EB


def hash_samples(batch: Batch) -> Tensor:
    """Return a whole number per sample of a batch, shape (B,), int64, on the CPU.

    All inputs with a row per sample count, and of a sequence with a mask what is not padding,
    wherever it stands.
    """
    size, mask = batch.size, batch.mask
    total = torch.zeros(size, dtype=torch.int64, device="cpu")
    for number, tensor in enumerate(t for t in batch.inputs if t.dim() and len(t) == size):
        if mask is not None and tensor.shape[:2] == mask.shape:
            real = mask.to(tensor.device) != 0
            words = hash_rows(tensor.flatten(0, 1)).view(mask.shape)
            hashes = (words * _mix(real.cumsum(dim=1)) * real).sum(dim=1)
        else:
            hashes = hash_rows(tensor)
        total += _mix(hashes.cpu() + number)
    return total


def hash_rows(rows: Tensor) -> Tensor:
    """Return a hash of each row's numbers, shape (B,), int64, on its device."""
    flat = rows.detach().reshape(len(rows), -1).contiguous()
    # Floats count to single precision, so that a sample stays in its fold in every precision.
    flat = flat.float() if flat.is_floating_point() else flat
    small = {1: torch.uint8, 2: torch.int16}.get(flat.element_size())
    # In 32 bits, which wrap around and take a tenth of the time of 64.
    bits = flat.view(torch.int32) if small is None else flat.view(small).to(torch.int32)
    weights = _mix(torch.arange(bits.shape[1], device=bits.device)).to(torch.int32)
    # The low bits of round floats are zero, and would stay so in the products.
    return _mix(((bits ^ (bits >> 16)) * weights).sum(dim=1, dtype=torch.int32))


def _mix(values: Tensor) -> Tensor:
    """Spread every bit over the others (splitmix64)."""
    values = (values.to(torch.int64) + 1) * _STEP
    values = (values ^ (values >> 30)) * _FIRST
    values = (values ^ (values >> 27)) * _SECOND
    return values ^ (values >> 31)
