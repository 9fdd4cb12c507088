"""The law of next-token prediction in pretrained language models.

``lawscope study run next-token/law``: PR of every block of stories-260K (5 blocks, d = 64) and of
SmolLM2-135M (30 blocks, d = 576), beside the same configurations untrained, on 32 000 tokens in
windows of 256; and of the GPT that ``next-token/training`` trains here. About 15 minutes on one
core, nearly all of them for SmolLM2; one measurement each.

The pretrained models lie in a data directory (LAWSCOPE_DATA): ``stories260k``, a Hugging Face
folder made from karpathy/tinyllamas, and ``smollm2``, that of HuggingFaceTB/SmolLM2-135M-Instruct
or its GGUF file. What is absent is not tried. LAWSCOPE_LANGUAGE_MODEL names a folder, a GGUF file
or a name on the hub to measure as well, and LAWSCOPE_TEXT a text file to measure on instead of the
embedded one. ``paper`` has GPT-2 XL, Llama-3-8B and Mistral-7B by their names on the hub.

The document: straight lines in GPT-1, GPT-2 XL, Llama 1 to 3, Mistral-7B, RWKV and Mamba.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lawscope.errors import LawscopeError
from lawscope.report.study_figures import COLOURS, SOFT, grid, label_outside
from lawscope.studies.choice import quietly
from lawscope.studies.next_token._figures import X_LABEL, Y_LABEL, finish_pr, with_control
from lawscope.studies.next_token._language import GPT, LARGER, TINY, law_of, numbers_of, training_of
from lawscope.studies.next_token._pretrained import measured, own_model, place_of, text_name
from lawscope.studies.plan import Training
from lawscope.studies.study import Claim, Numbers, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from lawscope.studies.lab import Lab

OURS = "GPT trained here"
HOW = {
    "stories-260K": ("stories260k", "convert karpathy/tinyllamas stories260K to Hugging Face"),
    "SmolLM2-135M": ("smollm2", "download HuggingFaceTB/SmolLM2-135M-Instruct or its GGUF"),
}
PRETRAINED = {"tokens": 32_000, "window": 256, "batch": 8, "onehot": False}
CPU: dict[str, Any] = {**GPT, "models": list(HOW), "pretrained": PRETRAINED, "seeds": 1}
PAPER: dict[str, Any] = {
    **LARGER,
    "models": [
        "openai-community/gpt2-xl",
        "meta-llama/Meta-Llama-3-8B",
        "mistralai/Mistral-7B-v0.1",
    ],
    "pretrained": {**PRETRAINED, "tokens": 250_000, "window": 1024},
    "seeds": 1,
}
SMOKE: dict[str, Any] = {**TINY, "models": [], "pretrained": {**PRETRAINED, "window": 32}}
STRAIGHT = -0.9


def plan(settings: Mapping[str, Any]) -> list[Training]:
    """Our own GPT; the others come trained."""
    return [training_of(settings)]


def measure(lab: Lab) -> Numbers:
    """Every model that is there; of the others, why not."""
    settings = lab.settings
    models: Numbers = {OURS: law_of(lab, training_of(settings), untrained=True)}
    absent: Numbers = {}
    for name in [*settings["models"], *own_model()]:
        lab.tell(f"measuring {name}")
        try:
            place = own_model().get(name) or (place_of(*HOW[name]) if name in HOW else name)
            with quietly():
                models[name] = numbers_of(measured(place, settings["pretrained"]))
        except LawscopeError as error:
            absent[name] = str(error)
    return {"models": models, "absent": absent, "text": Path(text_name()).name}


def of(name: str, value: Callable[[Numbers], Any]) -> Callable[[Numbers], Any]:
    """One value of one model.

    Raises:
        LawscopeError: it is not on this machine.
    """

    def read(numbers: Numbers) -> Any:
        if name in numbers["absent"]:
            raise LawscopeError(numbers["absent"][name])
        return value(numbers["models"][name])

    return read


def claims_on(name: str) -> tuple[Claim, Claim]:
    """A line downwards, and none in the untrained network."""
    return (
        Claim(
            f"{name}: r ≤ −0.9 over its blocks",
            "straight lines in all models",
            of(name, lambda row: row["r"]),
            lambda r: bool(r <= STRAIGHT),
        ),
        Claim(
            f"{name} untrained: the slope of log PR is above 0",
            "(not in the document)",
            of(name, lambda row: row["control"]["slope"]),
            lambda slope: bool(slope > 0),
        ),
    )


def figure(numbers: Numbers) -> Figure:
    """PR of every model with its untrained control; below, the residuals of the line."""
    models = numbers["models"]
    title = f"The law of next-token prediction (pretrained models on {numbers['text']})"
    drawing, axes = grid(2, len(models), title, (3.8, 2.6))
    for above, below, (name, row) in zip(*axes, models.items(), strict=True):
        with_control(above, row, name)
        residuals = row["residuals"]
        below.bar(range(1, len(residuals) + 1), residuals, color=COLOURS[0])
        below.axhline(0, color=SOFT, lw=0.8)
        finish_pr(below, bend_text(row))
    label_outside(axes, X_LABEL, Y_LABEL)
    axes[1][0].set_ylabel("residual of log PR", fontsize=8.5)
    return drawing


def bend_text(row: Numbers) -> str:
    """Where the line bends, in words.

    Example:
        >>> bend_text({"bend": {"blocks": 2, "share": 0.31}})
        'the last 2 blocks leave the line: +31 % of the fall'
        >>> bend_text({"bend": None})
        'no certain bend in the last blocks'
    """
    bend = row["bend"]
    if bend is None:
        return "no certain bend in the last blocks"
    which = (
        "the last block leaves"
        if bend["blocks"] == 1
        else f"the last {bend['blocks']} blocks leave"
    )
    return f"{which} the line: {bend['share'] * 100:+.0f} % of the fall"


STUDY = Study(
    title="PR per block of pretrained language models, with their untrained controls",
    source="000, part III",
    paper="straight lines in GPT-1, GPT-2 XL, Llama 1 to 3, Mistral-7B, RWKV, Mamba",
    minutes={"smoke": 0.1, "cpu": 17, "paper": 2000},
    settings={"smoke": SMOKE, "cpu": CPU, "paper": PAPER},
    plan=plan,
    measure=measure,
    claims=(*claims_on(OURS), *(claim for name in HOW for claim in claims_on(name))),
    figure=figure,
)
