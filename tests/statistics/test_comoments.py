from __future__ import annotations

import pytest
import torch

from lawscope.errors import LawscopeError
from lawscope.statistics.comoments import CoMoments, triangle


@pytest.mark.parametrize("dim", [5, 96, 200, 800])  # one block of the triangle, one, three, three
def test_one_fold_and_several_are_those_of_the_rows(dim: int) -> None:
    generator = torch.Generator().manual_seed(dim)
    z = torch.randn(90, dim, generator=generator, dtype=torch.float64)
    y = torch.ones(90, 2, dtype=torch.float64)
    moments = CoMoments(dim, 1, 3)
    for fold, rows in enumerate([slice(20), slice(20, 50), slice(50, 90)]):
        moments.update(z[rows], y[rows], fold)
    own = z[20:50]
    rest = torch.cat([z[:20], z[50:]])
    torch.testing.assert_close(moments.zz(1), own.T @ own)
    torch.testing.assert_close(moments.zz(0, 2), rest.T @ rest)
    upper = moments.less(z.T @ z, 1).triu()
    torch.testing.assert_close(upper, (rest.T @ rest).triu())
    narrow = moments.less((z.T @ z).float(), 1).triu()
    torch.testing.assert_close(narrow, upper.float(), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dim", [1, 63, 96, 97, 130, 256, 768, 769, 2048])
def test_the_triangle_covers_the_matrix(dim: int) -> None:
    columns = triangle(dim)
    assert [i for block in columns for i in range(block.start, block.stop)] == list(range(dim))
    share = sum((b.stop - b.start) * b.stop for b in columns) / dim**2
    assert share <= {256: 0.69, 768: 0.63, 2048: 0.64}.get(dim, 1)


def test_moments_in_other_blocks_are_refused() -> None:
    state = CoMoments(200, 1, 3).state_dict()
    del state["zz2"]
    with pytest.raises(LawscopeError, match=r"another version of lawscope.*start anew"):
        CoMoments(200, 1, 3).load_state_dict(state)
