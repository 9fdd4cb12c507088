"""Layer by layer, the classes come apart in the plane of the first two principal components.

``lawscope study run separation/pca``: figure 11 of He & Su 2023. Features of every layer of the
8-layer network of ``separation/optimizers`` (Adam, Fashion-MNIST), projected on their first two
principal components, with the silhouette of the classes in the plane and in the whole space: 15
trainings of 600 epochs that the two studies share; three seeds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any

from lawscope.lazy import Tensor, torch
from lawscope.studies.figures import COLOURS, legend_below, note, plain_axis, wrapped
from lawscope.studies.panels import choice, training_of
from lawscope.studies.separation._family import chosen, he_su_study, rise
from lawscope.studies.separation.test_data import SETTINGS, plan
from lawscope.studies.study import Claim, Figure, Lab, Numbers

SHOWN = 30  # samples of each class in the picture
# With seven colours, no two of 35 classes look the same.
MARKERS = "os^Dv"


def measure(lab: Lab) -> Numbers:
    trainings = plan(lab.settings)
    made = choice(lab, trainings)
    runs = [lab.run(training_of(row, trainings)) for row in made["chosen"]]
    looks = [look(layer_features(run), run.samples.y, SHOWN) for run in runs]
    networks = [
        {name: row[name] for name in ("lr", "seed", "fits", "accuracy")} | silhouettes
        for row, (silhouettes, *_) in zip(made["chosen"], looks, strict=True)
    ]
    _, labels, points = looks[0]
    picture = {"names": list(runs[0].samples.class_names), "labels": labels, "layers": points}
    return {"chosen": networks, "runs": made["runs"], "picture": picture}


def look(layers: Iterable[Tensor], labels: Tensor, most: int) -> tuple[Numbers, list[int], Any]:
    """Return the silhouettes of every layer, and in its plane ``most`` samples of each class."""
    from lawscope.statistics.silhouette import silhouette

    few = torch.cat([torch.nonzero(labels == k).flatten()[:most] for k in labels.unique()])
    whole, flat, points = [], [], []
    for features in layers:
        seen = plane(features)
        whole.append(silhouette(features.numpy(), labels.numpy()))
        flat.append(silhouette(seen.numpy(), labels.numpy()))
        points.append((seen / seen.abs().max())[few].numpy().round(3).tolist())
    return {"silhouette": whole, "silhouette_in_plane": flat}, labels[few].tolist(), points


def layer_features(run: Any) -> list[Tensor]:
    """Return training samples at the input and after each hidden layer, (n, d), in float64."""
    with torch.no_grad():
        layers = list(run.network().children())[:-1]
        features = accumulate(layers, lambda before, layer: layer(before), initial=run.samples.x)
        return [each.double() for each in features]


def plane(features: Tensor) -> Tensor:
    """Return coordinates on the first two principal components, (n, 2)."""
    centred = features - features.mean(dim=0)
    _, axes = torch.linalg.eigh(centred.T @ centred)
    coordinates: Tensor = centred @ axes.flip(1)[:, :2]
    return coordinates


def gain_in_plane(row: Numbers) -> float:
    return float(row["silhouette_in_plane"][-1] - row["silhouette_in_plane"][0])


def draw_planes(
    picture: Numbers, silhouettes: Sequence[float], first: str, other: str, *, title: str,
    legend: str | None = None,
) -> Figure:  # fmt: skip
    """Draw the points of every layer: the first, and the others by the number of their kind."""
    layers, names = picture[f"{other}s"], picture["names"]
    drawing, _, places = wrapped(len(layers), title, columns=4)
    for index, (axis, points) in enumerate(zip(places, layers, strict=True)):
        for label, name in enumerate(names):
            pairs = zip(points, picture["labels"], strict=True)
            x, y = zip(*(point for point, k in pairs if k == label), strict=True)
            color, marker = COLOURS[label % len(COLOURS)], MARKERS[label % len(MARKERS)]
            axis.scatter(x, y, s=9, color=color, marker=marker, lw=0, label=name)
        heading = f"{other} {index}" if index else first
        plain_axis(axis, f"{heading}, silhouette {silhouettes[index]:.2f}")
        axis.tick_params(labelbottom=False, labelleft=False)
    look = {"markerscale": 2, "title": legend, "title_fontsize": 8}
    legend_below(drawing, ncols=min(5, len(names)), **look)
    return drawing


def figure(numbers: Numbers) -> Figure:
    order = note("silhouette and layer", STUDY.claims[0], numbers)
    title = f"Features in the plane of their first two principal components\n{order}"
    silhouettes = numbers["chosen"][0]["silhouette"]
    return draw_planes(numbers["picture"], silhouettes, "input", "layer", title=title)


STUDY = he_su_study(
    title="Features in the plane of two principal components: from chaotic to separated",
    source="He & Su 2023, figure 11",
    paper="a picture: classes overlap at the input and come apart layer by layer",
    minutes={"smoke": 0.1, "cpu": 0.5, "paper": 0.5},
    settings=SETTINGS,
    plan=plan,
    measure=measure,
    claims=(
        Claim(
            "the silhouette of the classes rises with the layer: rank correlation at least 0.9",
            "from chaotic to separated (a picture)",
            chosen("rank correlation", rise("silhouette")),
            lambda correlation: correlation >= 0.9,
        ),
        Claim(
            "in the plane of the picture the last layer has a larger silhouette than the input",
            "from chaotic to separated (a picture)",
            chosen("last layer − input", gain_in_plane),
            lambda difference: difference > 0,
        ),
    ),
    figure=figure,
)
