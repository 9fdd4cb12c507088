from __future__ import annotations

import pytest
import torch

from lawscope.errors import LawscopeError
from lawscope.statistics.comoments import CoMoments


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_sums_of_a_fold_are_those_of_its_rows(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(90, 30, generator=generator, dtype=torch.float64).to(dtype)
    y = torch.randn(90, 3, generator=generator, dtype=torch.float64)
    moments = CoMoments(30, 2, 3)
    for fold, rows in enumerate([slice(20), slice(20, 50), slice(50, 90)]):
        moments.update(z[rows], y[rows], fold)
    own, targets = z[20:50].double(), y[20:50]
    digits = {"rtol": 1e-4, "atol": 1e-4} if dtype == torch.float32 else {}
    torch.testing.assert_close(moments.zz.total(1), own.T @ own, **digits)
    torch.testing.assert_close(moments.zy[1], own.T @ targets, **digits)
    torch.testing.assert_close(moments.yy[1], targets.T @ targets)


def test_moments_kept_in_another_way_are_refused() -> None:
    state = CoMoments(200, 1, 3).state_dict()
    for zz in ({}, {"zz": torch.zeros(3, 200, 200)}, {"zz0": torch.zeros(3, 200, 96)}):
        other = {name: sums for name, sums in state.items() if name != "zz"} | zz
        with pytest.raises(LawscopeError, match=r"another version of lawscope.*start anew"):
            CoMoments(200, 1, 3).load_state_dict(other)
