"""In residual networks the block, not the layer, is the module that obeys the law.

``lawscope study run separation/resnet``: figure 6 of 003. Residual networks of four blocks with two
layers each, with three, and mixed (three, three, two, two), 8 channels, trained with Adam on
Fashion-MNIST at 32×32, 100 samples per class. The same networks are measured after every layer and
after every block; the learning rate is chosen for each of the two, as the paper does. One seed.

``cpu`` trains 3 networks for 60 epochs with one learning rate; the rate was chosen from trials of
30 epochs with 3e-4, 1e-3 and 3e-3. ``paper`` has 600 epochs and five rates.

The paper: no law layer by layer, a straight line block by block, and blocks of three layers reduce
D by more than blocks of two. Its scripts take 100 principal components of the features before D,
and fit the two halves of the mixed network apart; here D is that of all features, and one line is
fitted to each network.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from lawscope.report.study_figures import law_grid
from lawscope.studies.choice import RATES, choice, every, of_fitting, pick, sweep
from lawscope.studies.plan import Data, Network, Training
from lawscope.studies.study import Claim, Numbers, Study
from lawscope.training.recipe import Recipe

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lawscope.studies.lab import Lab

BLOCKS = {"2-layer": [2, 2, 2, 2], "3-layer": [3, 3, 3, 3], "mixed": [3, 3, 2, 2]}
NAMES = {"2-layer": "2-layer blocks", "3-layer": "3-layer blocks", "mixed": "mixed blocks"}

PAPER: dict[str, Any] = {
    "data": "fashion-mnist",
    "size": 32,
    "per_class": 100,
    "blocks": BLOCKS,
    "rates": RATES["adam"],
    "epochs": 600,
    "seeds": 1,
}
CPU = {**PAPER, "rates": [1e-3], "epochs": 60}
SMOKE = {
    **PAPER,
    "data": "fashion-mnist-10x10",
    "size": 10,
    "per_class": 20,
    "rates": [1e-3, 3e-3],
    "epochs": 1,
}


def candidates(settings: Mapping[str, Any], kind: str) -> list[Training]:
    """The networks of one kind of blocks, one for each learning rate and seed."""
    training = Training(
        Network.of("resnet", blocks=settings["blocks"][kind], size=settings["size"]),
        Recipe(epochs=settings["epochs"]),
        Data(
            settings["data"],
            size=settings["size"],
            flatten=False,
            per_class=settings["per_class"],
        ),
    )
    return sweep(training, settings["rates"], settings["seeds"])


def plan(settings: Mapping[str, Any]) -> list[Training]:
    """All candidates of all kinds."""
    return [training for kind in settings["blocks"] for training in candidates(settings, kind)]


def measure(lab: Lab) -> Numbers:
    """The chosen networks of every kind, once by layers and once by blocks."""
    panels = [
        {
            "kind": kind,
            "stations": stations,
            **choice(lab, candidates(lab.settings, kind), stations),
        }
        for stations in ("layers", "blocks")
        for kind in lab.settings["blocks"]
    ]
    return {"panels": panels}


def by(numbers: Numbers, stations: str, name: str, kinds: Collection[str] = NAMES) -> list[Any]:
    """One number of the chosen networks of these kinds, None where one does not fit."""
    panels = [panel for panel in numbers["panels"] if panel["stations"] == stations]
    return of_fitting([panel for panel in panels if panel["kind"] in kinds], name)


def gain(numbers: Numbers) -> list[float | None]:
    """How much closer to −1 r is by blocks than by layers, for every kind and seed."""
    pairs = zip(by(numbers, "layers", "r"), by(numbers, "blocks", "r"), strict=True)
    return [None if None in pair else pair[0] - pair[1] for pair in pairs]


def taller_blocks(numbers: Numbers) -> list[float]:
    """ρ per block of three layers over ρ per block of two, for every seed."""
    two, three = (
        pick(numbers["panels"], kind=kind, stations="blocks")["chosen"]
        for kind in ("2-layer", "3-layer")
    )
    return [b["rho"] / a["rho"] for a, b in zip(two, three, strict=True)]


CLAIMS = (
    Claim(
        "with 2-layer and with 3-layer blocks the network fits and has r ≤ −0.97 block by block",
        "straight lines, block by block",
        lambda numbers: by(numbers, "blocks", "r", ("2-layer", "3-layer")),
        every(lambda r: r <= -0.97),
    ),
    Claim(
        "with mixed blocks the network fits and has r ≤ −0.97 block by block, on one line",
        "straight lines, one for the 3-layer blocks and one for the 2-layer blocks",
        lambda numbers: by(numbers, "blocks", "r", ("mixed",)),
        every(lambda r: r <= -0.97),
    ),
    Claim(
        "in every network the line is straighter by blocks than by layers (r lower by more than 0)",
        "the law fails layer by layer",
        gain,
        every(lambda difference: difference > 0),
    ),
    Claim(
        "a block of three layers keeps less of D than a block of two (ratio of ρ below 1)",
        "blocks containing more layers are more capable of reducing D",
        taller_blocks,
        every(lambda ratio: ratio < 1),
    ),
)


def figure(numbers: Numbers) -> Figure:
    """The law by layers above, by blocks below; one column per kind of blocks."""
    rows: dict[str, list[tuple[str, list[Numbers]]]] = {}
    for panel in numbers["panels"]:
        title = f"{NAMES[panel['kind']]}, by {panel['stations']}, lr {panel['chosen'][0]['lr']:g}"
        rows.setdefault(panel["stations"], []).append((title, panel["chosen"]))
    drawn = law_grid(list(rows.values()), "The module of a residual network is the block")
    for axis in drawn.axes[-len(rows["blocks"]) :]:
        axis.set_xlabel("block index", fontsize=8.5)
    return drawn


STUDY = Study(
    title="Residual networks: the law fails per layer and holds per block",
    source="003, figure 6",
    paper="fails layer by layer, holds block by block; longer blocks reduce D by more",
    minutes={"smoke": 0.1, "cpu": 7, "paper": 170},
    settings={"smoke": SMOKE, "cpu": CPU, "paper": PAPER},
    plan=plan,
    measure=measure,
    claims=CLAIMS,
    figure=figure,
)
