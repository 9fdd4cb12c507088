"""The slope turns from + to − in every architecture.

``lawscope study run next-token/architectures``: models in the manner of GPT-2, Llama, Mistral,
Mamba and RWKV, drawn from their configurations in transformers, and our GPT in plain PyTorch, each
trained on the King James Bible: 4 blocks, d = 64, windows of 32 tokens, 300 steps, measured on
60 000 tokens of held-out text beside the weights each began from. One seed, about 8 minutes on one
core, most of them for Mamba and RWKV, whose fast kernels need a GPU. Without transformers only
ours is trained, and the others are not tried.

The document: straight lines in GPT-1 and -2, Llama 1 to 3, Mistral, and without attention in RWKV
and Mamba.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from lawscope.errors import LawscopeError
from lawscope.report.study_figures import grid, label_outside
from lawscope.studies.next_token._figures import X_LABEL, Y_LABEL, with_control
from lawscope.studies.next_token._language import GPT, LARGER, TINY, law_of, training_of
from lawscope.studies.plan import Training
from lawscope.studies.study import Claim, Numbers, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lawscope.studies.lab import Lab

NAMES = {
    "gpt": "GPT in plain PyTorch",
    "gpt2": "GPT-2",
    "llama": "Llama",
    "mistral": "Mistral",
    "mamba": "Mamba",
    "rwkv": "RWKV",
}
SMALL = {"styles": list(NAMES), "depth": 4, "steps": 300, "checkpoints": [0, 300]}
CPU: dict[str, Any] = {**GPT, **SMALL, "seeds": 1}
PAPER: dict[str, Any] = {
    **LARGER,
    "styles": list(NAMES),
    "checkpoints": [0, LARGER["steps"]],
    "seeds": 3,
}
SMOKE: dict[str, Any] = {
    **TINY,
    "styles": list(NAMES),
    "steps": 1,
    "checkpoints": [0, 1],
    "tokens": 800,
}


def trained(settings: Mapping[str, Any]) -> dict[str, list[Training]]:
    """The trainings of every style that can be had here, one per seed."""
    own = find_spec("transformers") is None
    return {
        style: [training_of(settings, seed, style=style) for seed in range(settings["seeds"])]
        for style in settings["styles"]
        if style == "gpt" or not own
    }


def plan(settings: Mapping[str, Any]) -> list[Training]:
    """Every style and seed."""
    return [training for trainings in trained(settings).values() for training in trainings]


def measure(lab: Lab) -> Numbers:
    """Every network beside its own beginning."""
    return {
        "styles": {
            style: [law_of(lab, training, untrained=True) for training in trainings]
            for style, trainings in trained(lab.settings).items()
        }
    }


def turns(style: str) -> Claim:
    """The claim for one style."""

    def slopes(numbers: Numbers) -> list[Numbers]:
        if style not in numbers["styles"]:
            raise LawscopeError('transformers is not installed: pip install "lawscope[llm]"')
        return [
            {"untrained": row["control"]["slope"], "trained": row["slope"], "r": row["r"]}
            for row in numbers["styles"][style]
        ]

    return Claim(
        f"{NAMES[style]}: the slope of log PR is above 0 untrained and below 0 trained, every seed",
        "straight lines that fall",
        slopes,
        lambda rows: bool(rows) and all(r["untrained"] > 0 > r["trained"] for r in rows),
    )


def figure(numbers: Numbers) -> Figure:
    """One panel per style."""
    found = numbers["styles"]
    rows = -(-len(found) // 3)
    drawing, axes = grid(rows, min(3, len(found)), "The law of next-token prediction", (3.4, 2.7))
    places = [axis for row in axes for axis in row]
    for axis, (style, networks) in zip(places, found.items(), strict=False):
        with_control(axis, networks[0], NAMES[style])
    for axis in places[len(found) :]:
        axis.set_axis_off()
    label_outside(axes, X_LABEL, Y_LABEL)
    return drawing


STUDY = Study(
    title="GPT-2, Llama, Mistral, Mamba, RWKV trained here: the slope turns from + to −",
    source="000, part III",
    paper="straight lines in Transformers, RWKV and Mamba alike",
    minutes={"smoke": 0.3, "cpu": 8, "paper": 20_000},
    settings={"smoke": SMOKE, "cpu": CPU, "paper": PAPER},
    plan=plan,
    measure=measure,
    claims=tuple(turns(style) for style in NAMES),
    figure=figure,
)
