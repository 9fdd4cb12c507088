"""What the order of the vocabulary does to PR, and two measures without it.

``lawscope study run next-token/vocabulary``: the index of a token is a choice of its tokenizer. The
GPT of ``next-token/training`` is measured with 100 shuffled vocabularies (the same features, the
same tokens, other numbers), with one-hot targets, which have no order, and with the separation
fuzziness D of next tokens as classes (those seen at least 100 times). 3 seeds, trainings shared.
The same of stories-260K on stories that it writes itself, if a data directory has it as for
``next-token/law``: three seeds of writing.

He & Su 2024 measure with the tokenizer's own order; the questions are ours. They are about a model
that has learned: in a GPT of d = 64 after half a million tokens PR did not fall with one-hot
targets.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import lawscope as ls
from lawscope.errors import LawscopeError
from lawscope.lazy import Tensor, torch
from lawscope.studies.figures import COLOURS, FAINT, grid, plain_axis
from lawscope.studies.next_token import _family as family
from lawscope.studies.next_token.law import (
    HOW,
    PRETRAINED,
    STORIES,
    WRITTEN,
    find_model,
    write_text,
)
from lawscope.studies.panels import Settings, first_seeds, quietly, yes_or_no
from lawscope.studies.plan import Training
from lawscope.studies.study import Check, Figure, Lab, Numbers, Question, Study


def measure(lab: Lab) -> Numbers:
    trainings = family.gpts(lab.settings)
    own = [{**family.law_of(lab, t), **of_training(lab, t)} for t in trainings]
    return {"networks": own, "stories": measure_stories(lab)}


def of_training(lab: Lab, training: Training) -> Numbers:
    from lawscope.studies.next_token._features import read_text

    following, blocks = read_text(lab, training)
    return without_order(lab.settings, following, blocks, training.seed)


def measure_stories(lab: Lab) -> list[Numbers]:
    """Measure stories-260K on texts that it writes; nothing where there is no such model here."""
    from lawscope.studies.next_token._features import features_of_pretrained
    from lawscope.zoo.networks.hugging_face import find_source, load_language_model

    how = lab.settings["stories"]
    try:
        place = find_model(*HOW[STORIES])
    except LawscopeError:
        return []
    if how is None:
        return []
    model: Any = load_language_model(find_source(place), device=torch.device("cpu"))
    found = []
    for seed in first_seeds(how["seeds"]):
        lab.tell(f"{STORIES} writes a text, seed {seed}")
        windows = write_text(model, how, seed)
        with quietly():
            law = ls.next_token(
                model, list(windows.split(how["batch"])), control=None, progress=False
            )
        following, blocks = windows[:, 2:].flatten(), features_of_pretrained(model, windows)
        settings = {**lab.settings, "vocabulary": model.config.vocab_size}
        row = without_order(settings, following, blocks, seed)
        found.append({"seed": seed, **family.numbers_of(law), **row})
    return found


def without_order(
    settings: Settings, following: Tensor, blocks: Sequence[Tensor], seed: int
) -> Numbers:
    """PR with shuffled vocabularies, shape (shuffles, blocks + 1), and D of next tokens."""
    from lawscope.studies.next_token._features import residuals_of

    generator = torch.Generator().manual_seed(seed)
    size = settings["vocabulary"]
    codings = [torch.arange(size)]
    codings += [torch.randperm(size, generator=generator) for _ in range(settings["shuffles"])]
    targets = torch.stack([coding[following] for coding in codings], dim=1)
    often = torch.bincount(following, minlength=size)[following] >= settings["least"]
    pr, fuzzy = [], []
    for rows in blocks:
        pr.append(residuals_of(rows, targets))
        fuzzy.append(float(ls.fuzziness(rows[often], following[often])))
    classes = len(following[often].unique())
    again, *shuffled = torch.stack(pr, dim=1).tolist()
    return {"again": again, "shuffled": shuffled, "fuzziness": fuzzy, "classes": classes}


def of_models(value: Callable[[Numbers], float]) -> Callable[[Numbers], dict[str, list[float]]]:
    """Return the value of a sentence about the GPT trained here and stories-260K."""

    def read(numbers: Numbers) -> dict[str, list[float]]:
        found = family.of_networks(value)(numbers)
        stories = [value(row) for row in numbers.get("stories", ())]
        return {**found, STORIES: stories} if stories else found

    return read


def slope_of(pr: Sequence[float]) -> float:
    """Slope of log PR against the block."""
    logs = [math.log(value) for value in pr]
    return float(statistics.linear_regression(range(len(pr)), logs).slope)


def distance(network: Numbers) -> float:
    """Largest distance of one-hot PR from the mean over shuffles, in standard errors."""
    columns = zip(*network["shuffled"], strict=True)
    distances = [
        abs(onehot - statistics.fmean(column)) / (statistics.stdev(column) / len(column) ** 0.5)
        for onehot, column in zip(network["pr_onehot"], columns, strict=True)
    ]
    return float(max(distances))


def spread(network: Numbers) -> float:
    """Divide the deviation over shuffles, last block, by the fall in the tokenizer's order."""
    fall: float = network["pr"][1] - network["pr"][-1]
    deviation = statistics.stdev(row[-1] for row in network["shuffled"])
    return deviation / fall if fall > 0 else math.inf


def falling(network: Numbers) -> float:
    """Share of the shuffled vocabularies in which PR falls with depth."""
    return statistics.fmean(slope_of(row[1:]) < 0 for row in network["shuffled"])


def figure(numbers: Numbers) -> Figure:
    drawing, axes = grid(1, 3, "Without the order of the vocabulary", (3.4, 2.8))
    first = numbers["networks"][0]
    left, middle, right = axes[0]
    for row in first["shuffled"]:
        left.plot(range(1, len(row)), row[1:], "-", color=FAINT, lw=0.5)
    family.draw_pr(left, first["pr"], embedding=False, label="the tokenizer's order")
    family.finish_pr(left, f"{len(first['shuffled'])} shuffled vocabularies")
    for network, color in zip(numbers["networks"], COLOURS, strict=False):
        family.draw_pr(middle, network["pr_onehot"], color=color, label=f"seed {network['seed']}")
        right.plot(network["fuzziness"], "o-", color=color, ms=4, lw=1.2)
    family.finish_pr(middle, "one-hot targets")
    plain_axis(right, f"fuzziness D of {first['classes']} next tokens", yscale="log")
    family.label_pr(axes)
    return drawing


STUDY = Study(
    title="Shuffled vocabularies, one-hot targets, next tokens as classes",
    source="He & Su 2024, the index of a token",
    paper="measured with the tokenizer's own order",
    minutes={"smoke": 0.1, "cpu": 20, "paper": 3000},
    settings=family.gpt_presets(
        {"shuffles": 100, "least": 100, "stories": {**PRETRAINED, **WRITTEN}},
        {"tokens": 30_000},
        {"shuffles": 8, "least": 5, "stories": None},
    ),
    plan=family.gpts,
    measure=measure,
    questions=(
        Question(
            "Does one-hot PR, which has no order, fall with depth (slope of its logarithm)?",
            of_models(lambda n: slope_of(n["pr_onehot"][1:])),
            yes_or_no(lambda slope: slope < 0),
        ),
        Question(
            "Does PR fall with depth in at least 90 % of the shuffled vocabularies (share)?",
            of_models(falling),
            yes_or_no(lambda share: share >= 0.9),
        ),
        Question(
            "Does the order matter more than the depth: is the deviation of PR over shuffles at "
            "the last block larger than the fall from the first block on (ratio)?",
            of_models(spread),
            yes_or_no(lambda ratio: ratio > 1),
        ),
        Question(
            "Does the fuzziness D of next tokens as classes fall with depth (slope of log D)?",
            of_models(lambda n: slope_of(n["fuzziness"][1:])),
            yes_or_no(lambda slope: slope < 0),
        ),
    ),
    checks=(
        Check(
            "one-hot PR is the mean over shuffled vocabularies: within 4 standard errors at every "
            "block",
            of_models(distance),
            lambda errors: errors <= 4,
        ),
    ),
    figure=figure,
)
