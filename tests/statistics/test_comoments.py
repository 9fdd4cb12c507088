from __future__ import annotations

import pytest
import torch

from lawscope.statistics.comoments import CoMoments


@pytest.mark.parametrize("dim", [5, 200, 300])  # one block of the triangle, three, four
def test_one_fold_and_several_are_those_of_the_rows(dim: int) -> None:
    generator = torch.Generator().manual_seed(dim)
    z = torch.randn(90, dim, generator=generator, dtype=torch.float64)
    y = torch.ones(90, 2, dtype=torch.float64)
    moments = CoMoments(dim, 1, 3)
    moments.update(z, y, [20, 30, 40])
    own = z[20:50]
    rest = torch.cat([z[:20], z[50:]])
    torch.testing.assert_close(moments.zz(1), own.T @ own)
    torch.testing.assert_close(moments.zz(0, 2), rest.T @ rest)
