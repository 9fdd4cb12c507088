"""The plain formula against a pseudo-inverse of the class means, and its invariances."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import lawscope as ls


def by_pseudo_inverse(x: np.ndarray, y: np.ndarray, weighting: str) -> float:
    """D = Σ π_k/n_k Σ ‖(B⁺)ᵀ(x − x̄_k)‖² with B the weighted, centred class means: κ enters once."""
    classes, counts = np.unique(y, return_counts=True)
    weights = counts / len(y) if weighting == "count" else np.full(len(counts), 1 / len(counts))
    means = np.stack([x[y == k].mean(axis=0) for k in classes])
    between = np.sqrt(weights)[:, None] * (means - weights @ means)
    back = np.linalg.pinv(between, rcond=1e-10)
    return float(
        sum(
            weight * np.square((x[y == k] - mean) @ back).sum(axis=1).mean()
            for k, weight, mean in zip(classes, weights, means, strict=True)
        )
    )


@pytest.mark.parametrize("weighting", ["count", "class"])
@pytest.mark.parametrize("classes", [2, 3, 40])
@pytest.mark.parametrize("narrow", [1.0, 0.01, 1e-5])
@pytest.mark.parametrize("noise", [1.0, 1e-4])
def test_it_is_that_of_a_pseudo_inverse_of_the_class_means(
    weighting: str, classes: int, narrow: float, noise: float
) -> None:
    generator = np.random.default_rng(classes)
    axes = np.ones(50)
    axes[25:] = narrow  # class means that are far apart along half of the axes
    y = np.repeat(np.arange(classes), generator.integers(2, 30, classes))
    centres = generator.normal(size=(classes, 50)) * axes
    if classes > 2:
        centres[-1] = centres[:2].mean(axis=0) + narrow * centres[-1]
    x = centres[y] + noise * generator.normal(size=(len(y), 50))
    expected = by_pseudo_inverse(x, y, weighting)
    assert ls.fuzziness(x, y, weighting=weighting) == pytest.approx(expected, rel=1e-9)  # type: ignore[arg-type]


def test_means_on_a_line_use_one_direction() -> None:
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(60) % 4
    x = torch.randn(60, 5, generator=generator, dtype=torch.float64)
    x -= torch.stack([x[y == k].mean(dim=0) for k in range(4)])[y]
    x[:, 0] += y  # the class means differ along the first axis only
    spread = y.double().var(correction=0)
    expected = float((x[:, 0] - y).square().mean() / spread)
    assert ls.fuzziness(x, y) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    "names", [[0, 1, 2], [7, 2, 400], [-1, 0, 1], [-(2**62), 5, 2**62], [3 * 10**9, 1, 2]]
)
@pytest.mark.parametrize("every_other", [False, True])
def test_classes_may_have_any_integers_as_names(names: list[int], every_other: bool) -> None:
    generator = np.random.default_rng(0)
    y = np.arange(60) % 3
    x = generator.normal(size=(60, 5)) + y[:, None] * np.arange(5)
    named = np.array(names)[y]
    if every_other:  # labels that do not lie side by side in memory
        named = np.repeat(named, 2)[::2]
    assert ls.fuzziness(x, torch.from_numpy(named)) == pytest.approx(
        by_pseudo_inverse(x, y, "count"), rel=1e-9
    )


@pytest.mark.parametrize("weighting", ["count", "class"])
@pytest.mark.parametrize("scale", [1e-160, 1e-30, 1e30, 1e140])
def test_the_scale_of_the_features_does_not_matter(weighting: str, scale: float) -> None:
    generator = np.random.default_rng(0)
    y = np.arange(90) % 4
    x = generator.normal(size=(90, 6)) + generator.normal(size=(4, 6))[y] + 1
    expected = by_pseudo_inverse(x, y, weighting)
    assert ls.fuzziness(scale * x, y, weighting=weighting) == pytest.approx(expected, rel=1e-9)  # type: ignore[arg-type]


@pytest.mark.parametrize("away", [0, 10, 1e3, 1e6, 1e9])
def test_nor_does_a_translation(away: float) -> None:
    generator = np.random.default_rng(0)
    y = np.arange(90) % 4
    x = generator.normal(size=(90, 6)) + generator.normal(size=(4, 6))[y]
    expected = by_pseudo_inverse(x, y, "count")
    digits = max(1e-9, 1e-14 * away)  # that the numbers themselves have left
    assert ls.fuzziness(x + away, y) == pytest.approx(expected, rel=digits)


@pytest.mark.parametrize("small", [1e-1, 1e-3, 1e-5])
def test_means_that_nearly_lie_on_a_line_lose_no_digits(small: float) -> None:
    generator = np.random.default_rng(0)
    y = np.arange(300) % 3
    turn = np.linalg.qr(generator.normal(size=(4, 4)))[0]
    centres = np.array([[0, 0, 0, 0], [1, 0, 0, 0], [0.5, small, 0, 0]]) @ turn
    x = centres[y] + small * generator.normal(size=(300, 4))
    assert ls.fuzziness(x, y) == pytest.approx(by_pseudo_inverse(x, y, "count"), rel=1e-10)


@pytest.mark.parametrize("weighting", ["equal", None, ["count"]])
def test_an_unknown_weighting_is_said(weighting: object) -> None:
    with pytest.raises(ls.LawscopeError, match="choose 'count' or 'class'"):
        ls.fuzziness([[0.0], [2.0], [10.0], [12.0]], [0, 0, 1, 1], weighting=weighting)  # type: ignore[arg-type]


def test_equal_weights_are_about_the_mean_of_the_class_means():
    """The authors' formula for equal classes keeps the mean of the samples; docs/separation.md."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), [60, 60, 10, 10])
    x = rng.normal(size=(len(y), 7)) + 3 * rng.normal(size=(4, 7))[y]
    means = np.stack([x[y == k].mean(axis=0) for k in range(4)])
    within = np.mean([np.cov(x[y == k].T, bias=True) for k in range(4)], axis=0)

    def about(centre):
        between = (means - centre).T @ (means - centre) / 4
        return np.trace(within @ np.linalg.pinv(between, rcond=1e-10))

    found = ls.fuzziness(x, y, weighting="class")
    assert found == pytest.approx(about(means.mean(axis=0)), rel=1e-10)
    assert found > 1.01 * about(x.mean(axis=0))


@pytest.mark.parametrize("scale", [1e300, 1e160, 1e-200, 1e-310])
def test_squares_that_float64_cannot_hold_change_nothing(scale):
    y = np.arange(60) % 4
    x = np.random.default_rng(0).normal(size=(60, 5)) + 3 * np.eye(5)[y]
    assert ls.fuzziness(x * scale, y) == pytest.approx(ls.fuzziness(x, y), rel=1e-6)
