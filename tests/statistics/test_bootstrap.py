import numpy as np
import pytest
import torch
from tests import oracles

from lawscope.statistics.fuzziness import bootstrap


@pytest.mark.parametrize("dim", [3, 70])  # below and above the number of samples
@pytest.mark.parametrize("weighting", ["count", "class"])
def test_a_resample_is_the_fuzziness_of_the_drawn_samples(dim, weighting):
    generator = torch.Generator().manual_seed(0)
    y = torch.tensor([0] * 20 + [1] * 12 + [2] * 8)
    x = torch.randn(40, dim, generator=generator) + torch.randn(3, dim, generator=generator)[y]
    values = bootstrap(x, y, weighting, resamples=5)
    # The same draws, made here sample by sample.
    generator = torch.Generator().manual_seed(0)
    drawn = [
        torch.nonzero(y == k)[:, 0][torch.randint(n, (5, n), generator=generator)]
        for k, n in enumerate((20, 12, 8))
    ]
    for b in range(5):
        rows = torch.cat([d[b] for d in drawn])
        expected = oracles.fuzziness(x[rows], y[rows], weighting)
        assert values[b] == pytest.approx(expected, rel=1e-6)


def test_the_spread_is_that_of_fresh_samples():
    rng = torch.Generator().manual_seed(1)
    y = torch.arange(600) % 3
    centres = 2 * torch.eye(3)

    def draw():
        return torch.randn(600, 3, generator=rng) + centres[y]

    fresh = np.log([oracles.fuzziness(draw(), y) for _ in range(200)])
    again = np.log(bootstrap(draw(), y, resamples=200))
    assert again.std() == pytest.approx(fresh.std(), rel=0.25)
