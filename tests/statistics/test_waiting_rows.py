from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import Tensor

from lawscope.statistics.class_scatter import ClassScatter
from lawscope.statistics.waiting_rows import WaitingRows

DIM = 3
ROW_BYTES = DIM * 4


def through(sizes: list[int], room: int) -> tuple[Tensor, Tensor, list[int]]:
    """What comes out of batches of these sizes, and how large the parts are."""
    waiting, start, parts = WaitingRows(room), 0, []
    for size in sizes:
        rows = torch.arange(start, start + size)
        features = rows[:, None].expand(-1, DIM).float()
        # A copy at once: a part is valid until the next call only.
        parts += [(f.clone(), r.clone()) for f, r in waiting.add(features, rows)]
        start += size
    parts += waiting.drain()
    assert waiting.drain() == []
    return (
        torch.cat([f for f, _ in parts]),
        torch.cat([r for _, r in parts]),
        [len(r) for _, r in parts],
    )


@pytest.mark.parametrize(
    ("sizes", "parts"),
    [
        ([4, 4, 4, 4, 4], [8, 8, 4]),
        ([4, 2, 5], [6, 5]),  # the last does not fit, and finds a block of its own
        ([6, 6], [6, 6]),  # too large to wait
        ([2, 6, 2], [2, 6, 2]),
        ([1], [1]),
    ],
)
def test_rows_come_out_once_in_order_and_joined(sizes: list[int], parts: list[int]) -> None:
    features, rows, lengths = through(sizes, 10 * ROW_BYTES)
    assert rows.tolist() == list(range(sum(sizes)))
    assert torch.equal(features, rows[:, None].expand(-1, DIM).float())
    assert lengths == parts


def test_what_waits_does_not_change_with_the_network() -> None:
    waiting = WaitingRows(1000)
    features = torch.ones(2, DIM)
    assert waiting.add(features, torch.tensor([0, 1])) == []
    features.zero_()
    ((kept, _),) = waiting.drain()
    assert torch.equal(kept, torch.ones(2, DIM))


def test_another_width_or_dtype_is_not_joined() -> None:
    waiting = WaitingRows(1000)
    rows = torch.tensor([0, 1])
    assert waiting.add(torch.ones(2, DIM), rows) == []
    ((first, _),) = waiting.add(torch.ones(2, DIM, dtype=torch.float64), rows)
    ((second, _),) = waiting.add(torch.ones(2, DIM + 1, dtype=torch.float64), rows)
    assert (first.dtype, second.dtype) == (torch.float32, torch.float64)


@pytest.mark.parametrize("room", [0, 200, 5000, 2**22])
def test_a_two_pass_statistic_does_not_depend_on_what_may_wait(room: int) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(300, 20, generator=generator)
    y = torch.arange(300) % 3
    x += y[:, None]
    reference = ClassScatter("held", folds=4)
    reference.update(x, y)
    scatter = ClassScatter("two-pass", folds=4, waiting=room)
    for _ in range(2):
        for features, labels in zip(x.split(32), y.split(32), strict=True):
            scatter.update(features, labels)
        if not scatter.in_second_pass:
            scatter.next_pass()
    found, expected = scatter.compute(), reference.compute()
    assert found.value == pytest.approx(expected.value, rel=1e-12)
    assert found.deleted == pytest.approx(expected.deleted, rel=1e-5)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
def test_a_copy_has_seen_what_waits(copied) -> None:
    scatter = ClassScatter("two-pass")
    scatter.update(torch.tensor([[1.0], [5.0]]), torch.tensor([0, 1]))
    other = copied(scatter)
    assert other.class_means().tolist() == [[1.0], [5.0]]
    scatter.update(torch.tensor([[3.0], [5.0]]), torch.tensor([0, 1]))
    assert scatter.class_means().tolist() == [[2.0], [5.0]]
    assert other.class_means().tolist() == [[1.0], [5.0]]
