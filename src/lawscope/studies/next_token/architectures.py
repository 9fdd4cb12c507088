"""The slope turns from + to − in every architecture.

``lawscope study run next-token/architectures``: models in the manner of GPT-2, Llama, Mistral,
Mamba and RWKV, drawn from their configurations in transformers, and our GPT in plain PyTorch, each
trained on the King James Bible: 4 blocks, d = 64, windows of 32 tokens, 1000 steps, measured on
60 000 tokens of held-out text beside the weights each began from. Three seeds; most of the time
goes to Mamba and RWKV, whose fast kernels need a GPU. Without transformers only ours is trained,
and the claims are not tried.

The paper: straight lines in GPT-1 and -2, Llama 1 to 3, Mistral, and without attention in RWKV and
Mamba.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec

from lawscope.studies.figures import wrapped
from lawscope.studies.next_token import _family as family
from lawscope.studies.panels import Settings, medians, yes_or_no
from lawscope.studies.plan import Training
from lawscope.studies.study import Claim, Figure, Lab, NotTried, Numbers, Question, Study

NAMES = {
    "gpt": "GPT in plain PyTorch", "gpt2": "GPT-2", "llama": "Llama", "mistral": "Mistral",
    "mamba": "Mamba", "rwkv": "RWKV",
}  # fmt: skip


def trained(settings: Settings) -> dict[str, list[Training]]:
    """Plan the trainings of every style that can be had here, one per seed."""
    everything = find_spec("transformers") is not None
    styles = [style for style in settings["styles"] if style == "gpt" or everything]
    return {style: family.gpts(settings, style=style) for style in styles}


def measure(lab: Lab) -> Numbers:
    networks = trained(lab.settings).items()
    return {
        "styles": {s: [family.law_of(lab, t, untrained=True) for t in ts] for s, ts in networks}
    }


def by_style(value: Callable[[Numbers], float]) -> Callable[[Numbers], dict[str, list[float]]]:
    """One number of every network, by style."""

    def read(numbers: Numbers) -> dict[str, list[float]]:
        if NAMES.keys() - numbers["styles"].keys():
            raise NotTried('transformers is not installed: pip install "lawscope[llm]"')
        return {NAMES[s]: [value(row) for row in rows] for s, rows in numbers["styles"].items()}

    return read


def figure(numbers: Numbers) -> Figure:
    found = numbers["styles"]
    drawing, axes, places = wrapped(len(found), "The law of next-token prediction", (3.4, 2.7))
    for axis, (style, networks) in zip(places, found.items(), strict=True):
        family.with_control(axis, networks[0], NAMES[style])
    family.label_pr(axes)
    return drawing


STUDY = Study(
    title="GPT-2, Llama, Mistral, Mamba, RWKV trained here: the slope turns from + to −",
    source="He & Su 2024, experiments",
    paper="straight lines in Transformers, RWKV and Mamba alike",
    minutes={"smoke": 0.3, "cpu": 12, "paper": 20_000},
    settings=family.gpt_presets(
        {"styles": list(NAMES), "checkpoints": [0, family.LARGER["steps"]], "seeds": 3},
        {"depth": 4, "width": 64, "steps": 1000, "checkpoints": [0, 1000]},
        {"steps": 1, "checkpoints": [0, 1], "tokens": 800},
    ),
    plan=lambda settings: [t for trainings in trained(settings).values() for t in trainings],
    measure=measure,
    claims=(
        Claim(
            "PR falls with depth after training: the slope of log PR is below 0",
            "straight lines that fall, in Transformers, RWKV and Mamba alike",
            by_style(lambda row: row["slope"]),
            lambda slope: slope < 0,
        ),
    ),
    questions=(
        Question(
            "Does PR rise with depth before training (slope of log PR)?",
            by_style(lambda row: row["control"]["slope"]),
            yes_or_no(lambda slope: slope > 0),
        ),
        Question("How straight are the lines (r)?", by_style(lambda row: row["r"]), medians),
    ),
    figure=figure,
    departures={
        "cpu": "models of 4 blocks, d = 64, and 1000 steps instead of pretrained ones",
        "paper": "models of 12 blocks, d = 256, trained here",
    },
)
