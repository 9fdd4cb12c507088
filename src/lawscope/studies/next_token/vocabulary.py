"""What the order of the vocabulary does to PR, and two measures without it.

``lawscope study run next-token/vocabulary``: the index of a token is a choice of its tokenizer. The
GPT of ``next-token/training`` is measured with 100 shuffled vocabularies (the same features, the
same tokens, other numbers), with one-hot targets, which have no order, and with the separation
fuzziness D of next tokens as classes (those seen at least 100 times). 3 seeds, trainings shared,
about a minute on one core for the measurement.

The document measures with the tokenizer's own order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lawscope.report.study_figures import COLOURS, FAINT, grid, label_outside, plain_axis
from lawscope.studies.choice import every
from lawscope.studies.next_token._figures import X_LABEL, Y_LABEL, draw_pr, finish_pr
from lawscope.studies.next_token._language import GPT, LARGER, TINY, gpts, law_of, slope_of
from lawscope.studies.study import Claim, Numbers, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lawscope.studies.lab import Lab
    from lawscope.studies.plan import Training

CPU: dict[str, Any] = {**GPT, "shuffles": 100, "least": 100, "tokens": 30_000}
PAPER: dict[str, Any] = {**LARGER, "shuffles": 100, "least": 100}
SMOKE: dict[str, Any] = {**TINY, "shuffles": 8, "least": 5}


def measure(lab: Lab) -> Numbers:
    """The tokenizer's order, the shuffled ones, one-hot targets and D, for every seed."""
    return {
        "networks": [
            {**law_of(lab, training), **without_order(lab, training)}
            for training in gpts(lab.settings)
        ]
    }


def without_order(lab: Lab, training: Training) -> Numbers:
    """PR with shuffled vocabularies, shape (shuffles, blocks + 1), and D of next tokens."""
    import torch

    from lawscope.statistics.fuzziness import fuzziness
    from lawscope.studies.next_token._features import features_of, residuals_of

    settings, run = lab.settings, lab.run(training)
    windows = run.samples.x_test[: settings["tokens"] // settings["window"]]
    following = windows[:, 1:].flatten()
    generator = torch.Generator().manual_seed(training.seed)
    size = settings["vocabulary"]
    codings = [torch.arange(size)]
    codings += [torch.randperm(size, generator=generator) for _ in range(settings["shuffles"])]
    targets = torch.stack([coding[following] for coding in codings], dim=1)
    often = torch.bincount(following, minlength=size)[following] >= settings["least"]
    pr, fuzzy = [], []
    for block in features_of(run.network(), windows):
        rows = block[:, :-1].flatten(0, 1)
        pr.append(residuals_of(rows, targets))
        fuzzy.append(float(fuzziness(rows[often], following[often])))
    found = torch.stack(pr, dim=1)
    return {
        "again": found[0].tolist(),
        "shuffled": found[1:].tolist(),
        "fuzziness": fuzzy,
        "classes": len(following[often].unique()),
    }


def per_seed(value: Callable[[Numbers], float]) -> Callable[[Numbers], list[float]]:
    """One number of every network."""
    return lambda numbers: [value(network) for network in numbers["networks"]]


def distance(network: Numbers) -> float:
    """Largest distance of one-hot PR from the mean over shuffles, in standard errors."""
    count = len(network["shuffled"])
    distances: list[float] = []
    for onehot, column in zip(
        network["pr_onehot"], zip(*network["shuffled"], strict=True), strict=True
    ):
        mean = sum(column) / count
        variance = sum((value - mean) ** 2 for value in column) / (count - 1)
        distances.append(abs(onehot - mean) / (variance / count) ** 0.5)
    return max(distances)


def spread(network: Numbers) -> float:
    """Standard deviation over shuffles at the last block over the fall in the tokenizer's order."""
    last = [row[-1] for row in network["shuffled"]]
    mean = sum(last) / len(last)
    deviation = (sum((value - mean) ** 2 for value in last) / (len(last) - 1)) ** 0.5
    fall: float = network["pr"][1] - network["pr"][-1]
    return float(deviation / fall) if fall > 0 else float("inf")


def falling(network: Numbers) -> float:
    """Share of the shuffled vocabularies in which PR falls with depth."""
    slopes = [slope_of(row[1:]) for row in network["shuffled"]]
    return sum(slope < 0 for slope in slopes) / len(slopes)


CLAIMS = (
    Claim(
        "one-hot PR, which has no order, falls with depth: slope below 0, every seed",
        "measured with the tokenizer's order",
        per_seed(lambda network: slope_of(network["pr_onehot"][1:])),
        every(lambda slope: slope < 0),
    ),
    Claim(
        "one-hot PR is the mean over shuffled vocabularies: within 4 standard errors at every "
        "block, every seed",
        "by definition",
        per_seed(distance),
        every(lambda errors: errors <= 4),
    ),
    Claim(
        "PR falls with depth in at least 90 % of the shuffled vocabularies, every seed",
        "measured with the tokenizer's order",
        per_seed(falling),
        every(lambda share: share >= 0.9),
    ),
    Claim(
        "the order matters more than the depth: over shuffles PR of the last block deviates by "
        "more than it falls from the first block on, every seed",
        "measured with the tokenizer's order",
        per_seed(spread),
        every(lambda ratio: ratio > 1),
    ),
    Claim(
        "the fuzziness D of next tokens as classes falls with depth: slope below 0, every seed",
        "D is the measure of classifiers",
        per_seed(lambda network: slope_of(network["fuzziness"][1:])),
        every(lambda slope: slope < 0),
    ),
)


def figure(numbers: Numbers) -> Figure:
    """The first seed: shuffled vocabularies, one-hot PR, and D."""
    drawing, axes = grid(1, 3, "Without the order of the vocabulary", (3.4, 2.8))
    first = numbers["networks"][0]
    left, middle, right = axes[0]
    for row in first["shuffled"]:
        left.plot(range(1, len(row)), row[1:], "-", color=FAINT, lw=0.5)
    draw_pr(left, first["pr"], embedding=False, label="the tokenizer's order")
    finish_pr(left, f"{len(first['shuffled'])} shuffled vocabularies")
    for network, color in zip(numbers["networks"], COLOURS, strict=False):
        draw_pr(middle, network["pr_onehot"], color=color, label=f"seed {network['seed']}")
        right.plot(network["fuzziness"], "o-", color=color, ms=4, lw=1.2)
    finish_pr(middle, "one-hot targets")
    right.set_yscale("log")
    plain_axis(right, f"fuzziness D of {first['classes']} next tokens")
    label_outside(axes, X_LABEL, Y_LABEL)
    return drawing


STUDY = Study(
    title="Shuffled vocabularies, one-hot targets, next tokens as classes",
    source="000, part III",
    paper="measured with the tokenizer's own order",
    minutes={"smoke": 0.1, "cpu": 5, "paper": 3000},
    settings={"smoke": SMOKE, "cpu": CPU, "paper": PAPER},
    plan=gpts,
    measure=measure,
    claims=CLAIMS,
    figure=figure,
)
