"""Layer by layer, the classes come apart in the plane of the first two principal components.

``lawscope study run separation/pca``: figure 11 of 003. Features of every layer of the 8-layer
network of ``separation/optimizers`` (Adam, Fashion-MNIST), projected on their first two principal
components, with the silhouette of the classes in the plane and in the whole space: 5 trainings of
600 epochs that the two studies share; one seed.

The paper: a picture, from chaotic at the input to separated at the last layer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lawscope.report.plane_pictures import plane_pictures
from lawscope.studies.choice import choice, every, of_fitting, rank_correlation, training_of
from lawscope.studies.separation._notes import told
from lawscope.studies.separation.test_data import PAPER, SMOKE, plan
from lawscope.studies.study import Claim, Numbers, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

    from lawscope.studies.finished import Run
    from lawscope.studies.lab import Lab

SHOWN = 30  # samples of each class in the picture


def measure(lab: Lab) -> Numbers:
    """Silhouettes of the chosen network of each seed, and the picture of the first."""
    trainings = plan(lab.settings)
    made = choice(lab, trainings)
    looks = [look(lab.run(training_of(row, trainings))) for row in made["chosen"]]
    networks = [
        {name: row[name] for name in ("lr", "seed", "fits", "accuracy")} | silhouettes
        for row, (silhouettes, _) in zip(made["chosen"], looks, strict=True)
    ]
    return {"chosen": networks, "runs": made["runs"], "picture": looks[0][1]}


def look(run: Run) -> tuple[Numbers, Numbers]:
    """The silhouette of every layer, and a few samples of each class in the plane of every layer.

    Returns:
        ``silhouette`` in the whole space and ``silhouette_in_plane``; the picture, with the points
        of each layer scaled to [−1, 1].
    """
    import torch

    from lawscope.statistics.silhouette import silhouette

    layers, labels = layer_features(run), run.samples.y
    planes = [plane(features) for features in layers]
    silhouettes = {
        "silhouette": [silhouette(each.numpy(), labels.numpy()) for each in layers],
        "silhouette_in_plane": [silhouette(each.numpy(), labels.numpy()) for each in planes],
    }
    few = torch.cat([torch.nonzero(labels == k).flatten()[:SHOWN] for k in labels.unique()])
    points = [(each / each.abs().max())[few].numpy().round(3).tolist() for each in planes]
    names = list(run.samples.class_names)
    return silhouettes, {"names": names, "labels": labels[few].tolist(), "layers": points}


def layer_features(run: Run) -> list[Tensor]:
    """Training samples at the input and after each hidden layer, (n, d) each, in float64."""
    import torch

    x = run.samples.x
    features = [x]
    with torch.no_grad():
        for layer in list(run.network().children())[:-1]:
            x = layer(x)
            features.append(x)
    return [each.double() for each in features]


def plane(features: Tensor) -> Tensor:
    """Coordinates on the first two principal components, (n, 2).

    Example:
        >>> import torch
        >>> corners = torch.tensor([[0.0, 5, 0], [3, 5, 0], [0, 5, 1], [3, 5, 1]])
        >>> plane(corners)[0].abs().tolist()
        [1.5, 0.5]
    """
    import torch

    centred = features - features.mean(dim=0)
    _, axes = torch.linalg.eigh(centred.T @ centred)
    coordinates: Tensor = centred @ axes.flip(1)[:, :2]
    return coordinates


def ends(name: str, numbers: Numbers) -> list[float | None]:
    """Silhouette at the last layer minus that at the input, per seed; None where not fitting."""
    return [a and a[-1] - a[0] for a in of_fitting([numbers], name)]


def rises(numbers: Numbers) -> list[float | None]:
    """Rank correlation of silhouette and layer index, per seed; None where it does not fit."""
    return [
        values and rank_correlation(range(len(values)), values)
        for values in of_fitting([numbers], "silhouette")
    ]


CLAIMS = (
    Claim(
        "the network fits, and the silhouette of the classes rises with the layer: rank "
        "correlation at least 0.9",
        "from chaotic to separated (a picture)",
        rises,
        every(lambda correlation: correlation >= 0.9),
    ),
    Claim(
        "in the plane of the picture the last layer has a larger silhouette than the input",
        "from chaotic to separated (a picture)",
        lambda numbers: ends("silhouette_in_plane", numbers),
        every(lambda difference: difference > 0),
    ),
)


def figure(numbers: Numbers) -> Figure:
    """One picture per layer, in rows of four."""
    shown, silhouettes = numbers["picture"], numbers["chosen"][0]["silhouette"]
    verdict = told("rank correlation of silhouette and layer", CLAIMS[0], numbers)
    places = ["input", *(f"layer {i}" for i in range(1, len(silhouettes)))]
    return plane_pictures(
        shown["layers"],
        shown["labels"],
        shown["names"],
        titles=[f"{p}, silhouette {s:.2f}" for p, s in zip(places, silhouettes, strict=True)],
        title=f"Features in the plane of their first two PCs\n{verdict}",
    )


STUDY = Study(
    title="Features in the plane of two principal components: from chaotic to separated",
    source="003, figure 11",
    paper="a picture: classes overlap at the input and come apart layer by layer",
    minutes={"smoke": 0.1, "cpu": 0.5, "paper": 0.5},
    settings={"smoke": SMOKE, "cpu": PAPER, "paper": PAPER},
    plan=plan,
    measure=measure,
    claims=CLAIMS,
    figure=figure,
)
