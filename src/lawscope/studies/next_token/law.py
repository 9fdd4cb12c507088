"""The law of next-token prediction in pretrained language models.

``lawscope study run next-token/law``: PR of every block of stories-260K (5 blocks, d = 64) and of
SmolLM2-135M (30 blocks, d = 576), beside the same configurations untrained, in windows of 256
tokens; nothing is trained.

A model must be measured on text of its own kind, as the authors choose a text for each model: on
the King James Bible stories-260K has r = −0.20. It writes its stories itself, three times 60 000
tokens with the seeds 10, 11 and 12; where its folder holds real stories as ``text.txt``, it is
measured on these too.

The pretrained models lie in a data directory (LAWSCOPE_DATA): ``stories260k``, the Hugging Face
folder that ``scripts/convert_stories260k.py`` makes from karpathy/tinyllamas, and ``smollm2``, that
of HuggingFaceTB/SmolLM2-135M-Instruct or its GGUF file. A ``text.txt`` in a folder is text of its
model's own kind. What is absent is not tried. LAWSCOPE_LANGUAGE_MODEL names a folder, a GGUF file
or a name on the hub to measure as well, and LAWSCOPE_TEXT a text file to measure all of them on.
``paper`` has GPT-2 XL, Llama-3-8B and Mistral-7B by their names on the hub.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import lawscope as ls
from lawscope.errors import LawscopeError
from lawscope.lazy import Tensor, torch
from lawscope.studies.figures import COLOURS, SOFT, grid
from lawscope.studies.next_token import _family as family
from lawscope.studies.panels import Settings, first_seeds, quietly, yes_or_no
from lawscope.studies.study import Claim, Figure, Lab, NotTried, Numbers, Question, Study

MODEL, TEXT = "LAWSCOPE_LANGUAGE_MODEL", "LAWSCOPE_TEXT"
EMBEDDED, SAMPLED = "king-james-bible", "written by the model itself"
STORIES, SMOLLM = "stories-260K", "SmolLM2-135M"
HOW = {
    STORIES: ("stories260k", "convert karpathy/tinyllamas with scripts/convert_stories260k.py"),
    SMOLLM: ("smollm2", "download HuggingFaceTB/SmolLM2-135M-Instruct or its GGUF"),
}
PRETRAINED = {"tokens": 32_000, "window": 256, "batch": 8, "onehot": False}
# What a model writes itself: so much, with so many seeds.
WRITTEN = {"tokens": 60_000, "seeds": 3}
HUB = ["openai-community/gpt2-xl", "meta-llama/Meta-Llama-3-8B", "mistralai/Mistral-7B-v0.1"]
LONGER = {**PRETRAINED, "tokens": 250_000, "window": 1024}


def measure(lab: Lab) -> Numbers:
    settings = lab.settings
    # Of smoke runs alone: the others have pretrained models.
    rows = [family.law_of(lab, training, untrained=True) for training in family.gpts(settings)]
    models: dict[str, Any] = dict.fromkeys([family.OURS], rows[0]) if rows else {}
    written: dict[str, list[Numbers]] = {}
    absent, texts = {}, {}
    own = os.environ.get(MODEL)
    places = {Path(own).name or own: own} if own else {}
    for name in [*settings["models"], *places]:
        lab.tell(f"measuring {name}")
        try:
            place = places.get(name) or (find_model(*HOW[name]) if name in HOW else name)
            text = os.environ.get(TEXT) or find_text(place)
            with quietly():
                if name == STORIES:
                    how = {**settings["pretrained"], **settings["written"]}
                    seeds = first_seeds(how["seeds"])
                    rows = [measure_pretrained(place, SAMPLED, how, seed) for seed in seeds]
                    written[name] = rows
                    models[name], texts[name] = rows[0], SAMPLED
                if text or name != STORIES:
                    text = text or EMBEDDED
                    models[name] = measure_pretrained(place, text, settings["pretrained"])
                    texts[name] = Path(text).name
        except LawscopeError as error:
            absent[name] = str(error)
    return {"models": models, "written": written, "absent": absent, "texts": texts}


def find_text(place: str) -> str:
    """Return the text of its own kind in the folder of a model, or nothing."""
    path = Path(place)
    text = (path if path.is_dir() else path.parent) / "text.txt"
    return str(text) if text.is_file() else ""


def find_model(folder: str, how: str) -> str:
    """Where a pretrained model lies: its folder in a data directory, or a GGUF file in it."""
    from lawscope.zoo.storage import data_folders

    for place in data_folders((folder,)):
        if place.name == folder:
            if (place / "config.json").is_file():
                return str(place)
            if packed := sorted(place.glob("*.gguf")):
                return str(packed[0])
    raise LawscopeError(
        f"there is no model {folder}: {how}, and put it into the subfolder {folder} of a folder "
        "given by LAWSCOPE_DATA"
    )


def measure_pretrained(place: str, text: str, settings: Settings, seed: int = 0) -> Numbers:
    """Measure the law on a pretrained model beside the same configuration untrained.

    ``seed`` is that of a text it writes itself.
    """
    from lawscope.data.windows import encoder_of, frame_of, pack, read_tokens_of
    from lawscope.zoo.networks.hugging_face import find_source, load_language_model, load_tokenizer
    from lawscope.zoo.text.corpus import load_text

    source = find_source(place)
    tokenizer = load_tokenizer(source)
    model = load_language_model(source, device=torch.device("cpu"))
    window, frame = settings["window"], frame_of(tokenizer, "causal")
    if text == SAMPLED:
        windows = write_text(model, settings, seed)
    else:
        # The first token of a window has no place in the regression where it is the model's own.
        share = (window - len(frame)) / (window - 1 - len(frame))
        count = round(settings["tokens"] * share) + window
        ids = read_tokens_of(_lines(load_text(text)), encoder_of(tokenizer), count)
        windows = pack(ids, window, frame).ids
    batches = list(windows.split(settings["batch"]))
    found = ls.next_token(model, batches, onehot=settings["onehot"], progress=False)
    return family.numbers_of(found)


def write_text(model: Any, settings: Settings, seed: int) -> Tensor:
    """Windows that a model writes from its first token on, at temperature 1, shape (N, T)."""
    begin = model.config.bos_token_id
    if begin is None:
        raise LawscopeError("the model has no first token to begin a text with")
    new = settings["window"] - 1
    count = -(-settings["tokens"] // (new - 1))
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        begun = torch.full((count, 1), begin)
        written: Tensor = model.generate(
            begun, attention_mask=torch.ones_like(begun), do_sample=True, temperature=1.0,
            top_k=0, top_p=1.0, max_new_tokens=new, eos_token_id=None, pad_token_id=begin,
        )  # fmt: skip
    return written


def _lines(text: str, size: int = 50_000) -> Iterator[str]:
    """Cut a text into pieces of whole lines, so that no more is tokenized than needed."""
    start = 0
    while start < len(text):
        end = text.find("\n", start + size) + 1 or len(text)
        yield text[start:end]
        start = end


def straightness(name: str) -> Callable[[Numbers], dict[str, list[float]]]:
    """Read the r of one model on text of its own kind, and on texts it writes itself."""

    def read(numbers: Numbers) -> dict[str, list[float]]:
        if name not in numbers["models"]:
            raise NotTried(numbers["absent"].get(name, "this preset does not have it"))
        text, r = numbers.get("texts", {}).get(name, EMBEDDED), numbers["models"][name]["r"]
        found = {} if text == SAMPLED else {f"on {text}": [r]}
        if rows := numbers.get("written", {}).get(name):
            found[SAMPLED] = [row["r"] for row in rows]
        if name == STORIES and text == EMBEDDED:
            raise NotTried(f"measured on the {EMBEDDED} (r = {r:.2f}), not on stories")
        return found

    return read


def controls(numbers: Numbers) -> dict[str, list[float]]:
    """Return the slope of log PR of every untrained network."""
    return {name: [row["control"]["slope"]] for name, row in numbers["models"].items()}


def figure(numbers: Numbers) -> Figure:
    models = numbers["models"]
    drawing, axes = grid(2, len(models), "The law of next-token prediction", (3.8, 2.6))
    for above, below, (name, row) in zip(*axes, models.items(), strict=True):
        family.with_control(above, row, name)
        residuals = row["residuals"]
        below.bar(range(1, len(residuals) + 1), residuals, color=COLOURS[0])
        below.axhline(0, color=SOFT, lw=0.8)
        family.finish_pr(below, bend_text(row))
    family.label_pr(axes)
    axes[1][0].set_ylabel("residual of log PR", fontsize=8.5)
    return drawing


def bend_text(row: Numbers) -> str:
    """Where the line bends, in words."""
    bend = row["bend"]
    if bend is None:
        return "no certain bend in the last blocks"
    count = bend["blocks"]
    which = "the last block leaves" if count == 1 else f"the last {count} blocks leave"
    return f"{which} the line: {bend['share'] * 100:+.0f} % of the fall"


STUDY = Study(
    title="PR per block of pretrained language models, with their untrained controls",
    source="He & Su 2024, experiments",
    paper="straight lines in GPT-1, GPT-2 XL, Llama 1 to 3, Mistral-7B, RWKV, Mamba",
    minutes={"smoke": 0.1, "cpu": 5, "paper": 2000},
    settings=family.gpt_presets(
        {"models": HUB, "pretrained": LONGER, "written": WRITTEN, "seeds": 0},
        {"models": list(HOW), "pretrained": PRETRAINED, "written": WRITTEN, "seeds": 0},
        {"models": [], "pretrained": {**PRETRAINED, "window": 32}, "written": WRITTEN},
    ),
    plan=family.gpts,
    measure=measure,
    claims=tuple(
        Claim(
            f"{name}: r ≤ −0.9 over its blocks",
            "straight lines in all models",
            straightness(name),
            lambda r: r <= family.STRAIGHT,
        )
        for name in (*HOW, *HUB)
    ),
    questions=(
        Question(
            "Does PR rise with depth in the same network untrained (slope of log PR)?",
            controls,
            yes_or_no(lambda slope: slope > 0),
        ),
    ),
    figure=figure,
    departures={"cpu": "two small models that are not the paper's, and texts that are not theirs"},
)
