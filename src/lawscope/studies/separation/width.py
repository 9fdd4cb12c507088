"""A network must be wide enough; wider than that gains nothing.

``lawscope study run separation/width``: figure 4 of He & Su 2023, first row. 8-layer feed-forward
networks of width 20, 100 and 1000 trained with Adam on Fashion-MNIST for 600 epochs, three seeds. A
network of width 1000 costs a hundred times one of width 100, so ``cpu`` has the learning rate the
authors took and its neighbours.
"""

from __future__ import annotations

from operator import truediv
from typing import Any

from lawscope.studies.panels import Panels, Settings, last_d
from lawscope.studies.plan import Training
from lawscope.studies.separation import _family as family
from lawscope.studies.study import Claim

USUAL = 100


def candidates(settings: Settings, width: int) -> list[Training]:
    # The usual width is left unsaid, so that other studies mean the same network.
    unusual: dict[str, Any] = {} if width == USUAL else {"width": width}
    return family.feedforward(settings, depth=settings["depth"], **unusual)


PANELS = Panels(candidates, width="widths")


def against_usual(width: int) -> family.Value:
    """Return the final D of a width over that of width 100; narrow networks need not fit."""
    label, cells = "D of width {width} / 100", ({"width": width}, {"width": USUAL})
    return family.versus(label, last_d, truediv, *cells, fitting=False)


STUDY = family.he_su_study(
    title="Width 20, 100, 1000: 20 is too narrow, 100 does as well as 1000",
    source="He & Su 2023, figure 4",
    paper="width 20 does not separate well; 100 and 1000 end with about the same D",
    minutes={"smoke": 0.1, "cpu": 35, "paper": 90},
    settings=family.adam_presets(
        {"depth": 8, "widths": [20, 100, 1000]},
        cpu={"near": True},
        smoke={"depth": 4, "widths": [20, 100, 200]},
    ),
    departures={"cpu": family.NEAR},
    plan=PANELS.plan,
    measure=PANELS.measure,
    claims=(
        Claim(
            "width 20 ends with more than twice the D of width 100",
            "the network does not separate the data well when the width is merely 20",
            against_usual(20),
            lambda ratio: ratio > 2,
        ),
        Claim(
            "width 1000 ends with the D of width 100 within a factor of two",
            "about the same final D for both widths of 100 and 1000",
            against_usual(1000),
            lambda ratio: 1 / 2 <= ratio <= 2,
        ),
    ),
    figure=family.draw_panels(
        "width {width}", "The law of data separation in narrow and wide networks"
    ),
)
