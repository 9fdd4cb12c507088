"""Features before three chosen words, in the plane of two principal components, block by block.

``lawscope study run next-token/pictures``: the features of tokens whose next token is one of three
chosen ones, after the embedding and after every block of the GPT of ``next-token/training``: 3
seeds, trainings shared, seconds on one core for the measurement.

The document: pictures of a 12-layer model with the targets patients, cells and disorder; embeddings
are chaotic, the last layers separated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lawscope.report.plane_pictures import plane_pictures
from lawscope.studies.choice import every, rank_correlation
from lawscope.studies.next_token._language import GPT, LARGER, TINY, gpts
from lawscope.studies.study import Claim, Numbers, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

    from lawscope.studies.lab import Lab
    from lawscope.studies.plan import Training

# Words that are one token each in the vocabulary; a vocabulary of 300 has fewer of them.
CPU: dict[str, Any] = {**GPT, "words": [" LORD", " shall", " of"], "most": 200}
PAPER: dict[str, Any] = {**LARGER, "words": CPU["words"], "most": 500}
SMOKE: dict[str, Any] = {**TINY, "words": [" the", " and", " of"], "most": 30}
SHOWN = 60


def measure(lab: Lab) -> Numbers:
    """Silhouettes of every seed, and the picture of the first."""
    looks = [look(lab, training) for training in gpts(lab.settings)]
    return {
        "words": list(lab.settings["words"]),
        "networks": [{"seed": seed, **found} for seed, (found, _) in enumerate(looks)],
        "picture": looks[0][1],
    }


def look(lab: Lab, training: Training) -> tuple[Numbers, Numbers]:
    """The silhouette of the chosen targets at every block, and some points of each plane."""
    import torch

    from lawscope.statistics.silhouette import silhouette
    from lawscope.studies.next_token._features import features_of
    from lawscope.studies.separation.pca import plane

    lab.tell(f"looking at {training.describe()}")
    settings, run = lab.settings, lab.run(training)
    windows = run.samples.x_test[: settings["tokens"] // settings["window"]]
    chosen, labels = before(windows, targets(settings), settings["most"])
    silhouettes, flat, points = [], [], []
    few = torch.cat([torch.nonzero(labels == k).flatten()[:SHOWN] for k in labels.unique()])
    for block in features_of(run.network(), windows):
        rows = block[:, :-1].flatten(0, 1)[chosen]
        seen = plane(rows)
        silhouettes.append(silhouette(rows.numpy(), labels.numpy()))
        flat.append(silhouette(seen.numpy(), labels.numpy()))
        points.append((seen / seen.abs().max())[few].numpy().round(3).tolist())
    found = {"silhouette": silhouettes, "silhouette_in_plane": flat}
    return found, {"labels": labels[few].tolist(), "blocks": points}


def targets(settings: Any) -> list[int]:
    """The tokens of the chosen words.

    Raises:
        ValueError: a word is more than one token.
    """
    from lawscope.zoo.byte_pairs import load_byte_pairs

    found = [load_byte_pairs(settings["vocabulary"]).encode(word) for word in settings["words"]]
    if any(len(ids) != 1 for ids in found):
        raise ValueError(f"{settings['words']} are not all single tokens")
    return [int(ids[0]) for ids in found]


def before(windows: Tensor, tokens: list[int], most: int) -> tuple[Tensor, Tensor]:
    """Where a chosen token comes next, and which: at most ``most`` places each.

    Args:
        windows: token ids, shape (N, T).
        tokens: the chosen ones.
        most: of each.

    Returns:
        Places in the flattened (N, T − 1), and the number of the token in the list.

    Example:
        >>> import torch
        >>> before(torch.tensor([[5, 7, 9], [7, 7, 5]]), [7, 9], 2)
        (tensor([0, 2, 1]), tensor([0, 0, 1]))
    """
    import torch

    following = windows[:, 1:].flatten()
    places = [torch.nonzero(following == token).flatten()[:most] for token in tokens]
    labels = [torch.full_like(found, k) for k, found in enumerate(places)]
    return torch.cat(places), torch.cat(labels)


def rises(numbers: Numbers) -> list[float]:
    """Rank correlation of silhouette and block, per seed."""
    return [
        rank_correlation(range(len(row["silhouette"])), row["silhouette"])
        for row in numbers["networks"]
    ]


CLAIMS = (
    Claim(
        "the silhouette of the chosen targets rises with the block: rank correlation at least "
        "0.8, every seed",
        "from chaotic to separated (pictures)",
        rises,
        every(lambda correlation: correlation >= 0.8),
    ),
    Claim(
        "in the plane of the picture the last block has a larger silhouette than the embedding, "
        "every seed",
        "raw embeddings are chaotic",
        lambda numbers: [
            row["silhouette_in_plane"][-1] - row["silhouette_in_plane"][0]
            for row in numbers["networks"]
        ],
        every(lambda difference: difference > 0),
    ),
)


def figure(numbers: Numbers) -> Figure:
    """One picture per block, in rows of four."""
    shown, silhouettes = numbers["picture"], numbers["networks"][0]["silhouette"]
    places = ["embedding", *(f"block {i}" for i in range(1, len(silhouettes)))]
    return plane_pictures(
        shown["blocks"],
        shown["labels"],
        numbers["words"],
        titles=[f"{p}, silhouette {s:.2f}" for p, s in zip(places, silhouettes, strict=True)],
        title="Features before three chosen tokens",
        legend="next token",
    )


STUDY = Study(
    title="Features before three chosen tokens in the plane of two principal components",
    source="000, part III",
    paper="raw embeddings are chaotic, the last layers separated (pictures)",
    minutes={"smoke": 0.1, "cpu": 5, "paper": 3000},
    settings={"smoke": SMOKE, "cpu": CPU, "paper": PAPER},
    plan=gpts,
    measure=measure,
    claims=CLAIMS,
    figure=figure,
)
