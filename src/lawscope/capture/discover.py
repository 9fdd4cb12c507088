"""What can be measured in a network."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from lawscope.capture.session import open_session
from lawscope.capture.stations import Stations


def stations(model: nn.Module, example: Any) -> Stations:
    """List the stations of a network: every module output and every activation.

    Args:
        model: any module; it is left exactly as it was.
        example: a batch (x, y), a dict, a tensor, or a loader of batches.

    Returns:
        The stations in the order the data meets them; ``.table()`` shows which of them the
        selectors "layers" and "blocks" take.

    Example:
        >>> import torch
        >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> [s.name for s in stations(net, torch.zeros(3, 4)).granularity("layers")]
        ['input', '1']
    """
    single = isinstance(example, Tensor | dict) or (
        isinstance(example, tuple | list) and bool(example) and isinstance(example[0], Tensor)
    )
    with open_session(model, [example] if single else example) as session:
        return session.stations
