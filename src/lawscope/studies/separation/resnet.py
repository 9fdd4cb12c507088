"""In residual networks the block, not the layer, is the module that obeys the law.

``lawscope study run separation/resnet``: figure 6 of He & Su 2023. Residual networks of four blocks
with two layers each, with three, and mixed (three, three, two, two), 8 channels, trained with Adam
on Fashion-MNIST at 32×32, 100 samples per class. The same networks are measured after every layer
and after every block; the learning rate is chosen for each of the two, as the paper does.

As in the authors' scripts pixels are standardised, and under their protocol D is that of the first
100 principal components of the features; what the network does by itself is D of all features.
``cpu`` trains for 60 epochs with one learning rate, which was chosen from trials of 30 epochs with
3e-4, 1e-3 and 3e-3. ``paper`` has 600 epochs and five rates.
"""

from __future__ import annotations

import math
import statistics
from operator import sub
from typing import Any

import lawscope as ls
from lawscope.documents import drop_non_finite
from lawscope.lazy import Tensor, np, torch
from lawscope.studies.datasets import StandardisedImages
from lawscope.studies.figures import law_figure
from lawscope.studies.panels import (
    Panels,
    Row,
    Settings,
    by_panel,
    choice,
    measured,
    over_orders,
    sweep,
)
from lawscope.studies.plan import Network, Training
from lawscope.studies.separation._family import adam_presets, chosen, he_su_study, versus
from lawscope.studies.study import AUTHORS, Claim, Figure, Lab, Numbers
from lawscope.training.recipe import Recipe

BLOCKS = {"2-layer": [2, 2, 2, 2], "3-layer": [3, 3, 3, 3], "mixed": [3, 3, 2, 2]}
# In the mixed network D_0, D_1, D_2 belong to the 3-layer blocks and D_2, D_3, D_4 to the others.
PARTS = {"3-layer": slice(None, 3), "2-layer": slice(2, None)}
COMPONENTS = 100
MIXED: dict[str, Any] = {"kind": "mixed", "stations": "blocks"}


def candidates(settings: Settings, kind: str) -> list[Training]:
    size = settings["size"]
    training = Training(
        Network.of("resnet", blocks=settings["blocks"][kind], size=size),
        Recipe(epochs=settings["epochs"]),
        StandardisedImages(
            settings["data"], size=size, flatten=False, per_class=settings["per_class"]
        ),
    )
    return sweep(training, settings["rates"], settings["seeds"])


def measure(lab: Lab) -> Numbers:
    """Measure the networks of every kind, once by layers and once by blocks, and choose."""
    panels = [
        {"kind": kind, "stations": each}
        | choice(lab, candidates(lab.settings, kind), each, measure_components)
        for each in ("layers", "blocks")
        for kind in lab.settings["blocks"]
    ]
    return {"panels": panels}


def measure_components(lab: Lab, training: Training, stations: str) -> Numbers:
    """Measure a network; as the authors do on principal components of its features."""
    row = measured(lab, training, stations=stations)
    if lab.protocol == AUTHORS and row["D"] is not None:
        orders = lab.orders(training)
        curves = [component_curve(lab, training, stations, order) for order in orders]
        row |= drop_non_finite(over_orders(curves))
    return row


def component_curve(lab: Lab, training: Training, stations: str, order: int) -> Any:
    """Return D (L,) of the first 100 principal components of the features at every station."""
    from lawscope.capture.keep import Keep
    from lawscope.data.source import Source

    run = lab.run(training)
    batches = lab.batches(run.samples.x, run.samples.y, order)
    session = ls.Session(run.network(), Source(batches), mode=lab.mode, show=False)
    keep = Keep([ls.Tap(station) for station in session.stations.granularity(stations)])
    session.run([keep])
    labels = torch.cat([y for _, y in batches])
    features = (torch.cat(rows).flatten(1).double() for rows in keep.kept.values())
    return np.array([ls.fuzziness(components(each, COMPONENTS), labels) for each in features])


def components(features: Tensor, count: int) -> Tensor:
    """Return coordinates on the first principal components, (n, ≤ count)."""
    centred = features - features.mean(dim=0)
    left, sizes, _ = torch.linalg.svd(centred, full_matrices=False)
    kept: Tensor = (left * sizes)[:, :count]
    return kept


def by_blocks(numbers: Numbers) -> dict[str, list[Any]]:
    """Return r block by block of the networks with one kind of blocks."""
    panels = [p for p in numbers["panels"] if p["stations"] == "blocks" and p["kind"] != "mixed"]
    return by_panel(panels, "{kind} blocks", "r")


def fit_part(row: Row, part: str) -> tuple[float, float]:
    """Return r and ρ of the line through the blocks of one length in the mixed network."""
    logs = [math.log(value) for value in row["D"][PARTS[part]]]
    slope = statistics.linear_regression(range(len(logs)), logs).slope
    return statistics.correlation(range(len(logs)), logs), math.exp(slope)


def mixed_r(numbers: Numbers) -> dict[str, list[Any]]:
    """Return r on each of the two lines of the mixed network."""
    three = chosen("3-layer blocks", lambda row: fit_part(row, "3-layer")[0], **MIXED)
    two = chosen("2-layer blocks", lambda row: fit_part(row, "2-layer")[0], **MIXED)
    return three(numbers) | two(numbers)


def longer_blocks(row: Row) -> float:
    """Return ρ per 3-layer block over ρ per 2-layer block inside the mixed network."""
    return fit_part(row, "3-layer")[1] / fit_part(row, "2-layer")[1]


def figure(numbers: Numbers) -> Figure:
    """Draw the law by layers above, by blocks below; one column per kind of blocks."""
    title = "Residual networks, layer by layer and block by block"
    label = "{kind} blocks, by {stations}"
    return law_figure(numbers["panels"], label, title, row="stations", x="layer or block index")


STUDY = he_su_study(
    title="Residual networks: does the law hold per block and not per layer?",
    source="He & Su 2023, figure 6",
    paper="fails layer by layer, holds block by block; longer blocks reduce D by more",
    minutes={"smoke": 0.1, "cpu": 20, "paper": 500},
    settings=adam_presets(
        {"data": "fashion-mnist", "size": 32, "per_class": 100, "blocks": BLOCKS},
        cpu={"rates": [1e-3], "epochs": 60},
        smoke={"data": "fashion-mnist-10x10", "size": 10, "per_class": 20, "epochs": 1},
    ),
    departures={"cpu": "60 of 600 epochs, 1 of 5 rates"},
    plan=Panels(candidates, kind="blocks").plan,
    measure=measure,
    claims=(
        Claim(
            "block by block r ≤ −0.97 with 2-layer and with 3-layer blocks, of networks that fit",
            "straight lines, block by block",
            by_blocks,
            lambda r: r <= -0.97,
        ),
        Claim(
            "with mixed blocks r ≤ −0.97 on each of two lines, of networks that fit",
            "one straight line for the 3-layer blocks and one for the 2-layer blocks",
            mixed_r,
            lambda r: r <= -0.97,
        ),
        Claim(
            "the line is straighter by blocks than by layers (r lower by more than 0)",
            "the law fails layer by layer",
            versus("{kind} blocks", "r", sub, {"stations": "blocks"}, {"stations": "layers"}),
            lambda difference: difference < 0,
        ),
        Claim(
            "in the mixed network a block of three layers keeps less of D than one of two (ratio "
            "of ρ below 1)",
            "blocks containing more layers are more capable of reducing D",
            chosen("ρ of 3-layer / 2-layer blocks", longer_blocks, **MIXED),
            lambda ratio: ratio < 1,
        ),
    ),
    figure=figure,
)
