"""The checksum of a batch sees values that change and samples that change places."""

import pytest
import torch

from lawscope.capture.batches import Batch
from lawscope.capture.checksum import checksum


def batch(x):
    return Batch((x,), {}, None)


@pytest.mark.parametrize("rows", [3, 64, 200])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
def test_a_changed_value_and_another_order_are_seen(rows, dtype):
    generator = torch.Generator().manual_seed(rows)
    x = torch.randint(0, 100, (rows, 784), generator=generator).to(dtype)
    before = checksum(batch(x))
    assert checksum(batch(x.clone())) == before
    assert checksum(batch(x.T.contiguous().T)) == before  # however it lies in memory
    changed = x.clone()
    changed[rows // 2, 391] += 1
    assert checksum(batch(changed)) != before
    for count, turned in [(256, 1), (512, 256)]:  # equal numbers elsewhere, along and across sums
        moved = x.clone()
        words = moved.view(-1) if x.element_size() == 8 else moved.view(-1).view(torch.int64)
        words[:count] = words[:count].roll(turned)
        assert torch.equal(moved, x) or checksum(batch(moved)) != before
