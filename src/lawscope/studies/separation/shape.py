"""Wide bottom layers and narrow top layers separate best.

``lawscope study run separation/shape``: figure 4 of He & Su 2023, second row. 8-layer feed-forward
networks of three shapes trained with Adam on Fashion-MNIST for 600 epochs: narrow-wide, wide-narrow
and mixed, three seeds. ``cpu`` halves all widths above 100 and has one of the paper's five
learning rates: 9 trainings.
"""

from __future__ import annotations

from operator import truediv

from lawscope.studies.panels import Panels, last_d
from lawscope.studies.separation import _family as family
from lawscope.studies.study import Claim

FULL = {
    "narrow-wide": [100] * 4 + [1000] * 3, "wide-narrow": [1000] * 4 + [100] * 3,
    "mixed": [100, 500, 500, 2500, 2500, 500, 500],
}  # fmt: skip
# All widths above 100 are halved.
HALF = {k: [w if w == 100 else w // 2 for w in widths] for k, widths in FULL.items()}
SMALL = {"narrow-wide": [50, 50, 100], "wide-narrow": [100, 50, 50], "mixed": [50, 100, 50]}
PANELS = Panels(
    lambda settings, shape: family.feedforward(settings, widths=settings["shapes"][shape]),
    shape="shapes",
)


STUDY = family.he_su_study(
    title="Narrow-wide, wide-narrow, mixed: are wide bottom layers best?",
    source="He & Su 2023, figure 4",
    paper="it is better to start with relatively wide layers at the bottom",
    minutes={"smoke": 0.1, "cpu": 10, "paper": 200},
    settings=family.adam_presets(
        {"shapes": FULL},
        cpu={"shapes": HALF, "rates": [1e-3]},
        smoke={"shapes": SMALL},
    ),
    departures={"cpu": "half the widths above 100, 1 of 5 rates"},
    plan=PANELS.plan,
    measure=PANELS.measure,
    claims=(
        Claim(
            "the other shapes end with a larger D than wide-narrow (ratio above 1)",
            "it is better to start with wide layers at the bottom followed by narrow top layers",
            family.versus("{shape}", last_d, truediv, {}, {"shape": "wide-narrow"}, fitting=False),
            lambda ratio: ratio > 1,
        ),
    ),
    figure=family.draw_panels("{shape}", "The law of data separation in networks of three shapes"),
)
