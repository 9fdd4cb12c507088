"""Features before three chosen words, in the plane of two principal components, block by block.

``lawscope study run next-token/pictures``: the features of tokens whose next token is one of three
chosen ones, after the embedding and after every block of the GPT of ``next-token/training``: 3
seeds, trainings shared, seconds on one core for the measurement.

The paper (He & Su 2024): "in contrast, (raw) embeddings are chaotic", pictures of all 12 layers of
a model with the targets patients, cells and disorder, beside the clean law of PR.
"""

from __future__ import annotations

from typing import Any

from lawscope.lazy import Tensor, torch
from lawscope.studies.next_token import _family as family
from lawscope.studies.panels import yes_or_no
from lawscope.studies.plan import Training
from lawscope.studies.separation._family import rise
from lawscope.studies.separation.pca import draw_planes, gain_in_plane, look
from lawscope.studies.study import Claim, Figure, Lab, Numbers, Question, Study

# Words that are one token each in the vocabulary; a vocabulary of 300 has fewer of them.
WORDS, OF_300 = [" LORD", " shall", " of"], [" the", " and", " of"]
SHOWN = 60


def measure(lab: Lab) -> Numbers:
    trainings = family.gpts(lab.settings)
    looks = [look_before(lab, training) for training in trainings]
    _, labels, points = looks[0]
    return {
        "words": list(lab.settings["words"]),
        "networks": [
            {"seed": t.seed, **found} for t, (found, *_) in zip(trainings, looks, strict=True)
        ],
        "picture": {"labels": labels, "blocks": points},
    }


def look_before(lab: Lab, training: Training) -> tuple[Numbers, list[int], Any]:
    """Compute the silhouette of the chosen targets by block, and some points of each plane."""
    from lawscope.studies.next_token._features import read_text

    lab.tell(f"looking at {training.describe()}")
    following, blocks = read_text(lab, training)
    chosen, labels = before(following, targets(lab.settings), lab.settings["most"])
    return look((block[chosen] for block in blocks), labels, SHOWN)


def targets(settings: Any) -> list[int]:
    """Return the tokens of the chosen words."""
    from lawscope.zoo.text.corpus import load_byte_pairs

    found = [load_byte_pairs(settings["vocabulary"]).encode(word) for word in settings["words"]]
    if any(len(ids) != 1 for ids in found):
        raise ValueError(f"{settings['words']} are not all single tokens")
    return [int(ids[0]) for ids in found]


def before(following: Tensor, tokens: list[int], most: int) -> tuple[Tensor, Tensor]:
    """Where a chosen token comes next, and which: at most ``most`` places each."""
    places = [torch.nonzero(following == token).flatten()[:most] for token in tokens]
    labels = [torch.full_like(found, k) for k, found in enumerate(places)]
    return torch.cat(places), torch.cat(labels)


def figure(numbers: Numbers) -> Figure:
    picture = {**numbers["picture"], "names": numbers["words"]}
    silhouettes = numbers["networks"][0]["silhouette"]
    words = {"title": "Features before three chosen tokens", "legend": "next token"}
    return draw_planes(picture, silhouettes, "embedding", "block", **words)


STUDY = Study(
    title="Features before three chosen tokens in the plane of two principal components",
    source="He & Su 2024, contextualized embeddings",
    paper="raw embeddings are chaotic in every layer (pictures)",
    minutes={"smoke": 0.1, "cpu": 20, "paper": 3000},
    settings=family.gpt_presets(
        {"words": WORDS, "most": 500}, {"most": 200}, {"words": OF_300, "most": 30}
    ),
    plan=family.gpts,
    measure=measure,
    claims=(
        Claim(
            "the pictures show no order: the silhouette of the chosen targets does not rise with "
            "the block, rank correlation at most 0",
            "in contrast, (raw) embeddings are chaotic",
            family.of_networks(rise("silhouette")),
            lambda correlation: correlation <= 0,
        ),
    ),
    questions=(
        Question(
            "In the plane of the picture alone, is the silhouette of the last block larger than "
            "that of the embedding?",
            family.of_networks(gain_in_plane),
            yes_or_no(lambda difference: difference > 0),
        ),
    ),
    figure=figure,
    departures=family.DEPARTURES,
)
