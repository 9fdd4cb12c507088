"""Power laws between representations and gradients in a transformer and in fully connected nets.

``lawscope study run representation/transformer``: figure 3 of Ziyin et al. 2024c.
"""

from __future__ import annotations

from typing import Any

from lawscope.studies.datasets import TextData
from lawscope.studies.panels import Settings, presets
from lawscope.studies.plan import LanguageModelling, Network, Training
from lawscope.studies.study import Figure, Lab, Numbers, Study
from lawscope.training.recipe import Recipe

FIRST_SEED = 10
GPT: dict[str, Any] = {
    "vocabulary": 512, "window": 64, "width": 96, "heads": 3, "depth": 6, "batch": 16, "lr": 3e-3,
    "steps": 5000, "checkpoints": [0, 100, 300, 1000, 3000], "seeds": 3,
}  # fmt: skip


def transformers(settings: Settings) -> list[Training]:
    names = ("vocabulary", "width", "heads", "depth")
    return [
        Training(
            Network.of(
                "language", context=settings["window"], rotary=True,
                **{name: settings[name] for name in names},
            ),
            Recipe("adamw", settings["lr"], settings["steps"], settings["batch"], 0.1, seed),
            TextData(window=settings["window"], vocabulary=settings["vocabulary"]),
            seed,
            tuple(settings["checkpoints"]),
            task=LanguageModelling(),
        )
        for seed in range(FIRST_SEED, FIRST_SEED + settings["seeds"])
    ]  # fmt: skip


def measure(lab: Lab) -> Numbers:
    return {"rows": [lab.run(t).loss for t in transformers(lab.settings)]}


def figure(numbers: Numbers) -> Figure:
    raise NotImplementedError


STUDY = Study(
    title="Power laws between the spectra of H and G, per head of a transformer",
    source="Ziyin et al. 2024c, figure 3",
    paper="3, 2, 1",
    minutes={"smoke": 0.1, "cpu": 60, "paper": 60},
    settings=presets(GPT),
    plan=transformers,
    measure=measure,
    figure=figure,
)
