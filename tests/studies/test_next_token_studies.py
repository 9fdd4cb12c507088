"""The studies of next-token prediction: run small, claims judged both ways, text as data."""

import builtins
import io
import json

import numpy as np
import pytest
import torch
from tests.studies.memory import Memory

from lawscope.errors import LawscopeError
from lawscope.laws.next_token import next_token
from lawscope.studies import registry
from lawscope.studies.execute import execute, objective_of
from lawscope.studies.lab import Lab
from lawscope.studies.next_token import (
    architectures,
    information_flow,
    law,
    model_size,
    pictures,
    tasks,
    training,
    vocabulary,
)
from lawscope.studies.next_token._features import features_of, residuals_of
from lawscope.studies.next_token._language import TINY, training_of
from lawscope.studies.plan import Data
from lawscope.studies.result import from_json, to_json
from lawscope.studies.samples import samples_of
from lawscope.studies.study import NOT_SHOWN, NOT_TRIED, PRESETS, SHOWN
from lawscope.zoo.language import gpt

STUDIES = {
    "law": law,
    "architectures": architectures,
    "training": training,
    "model-size": model_size,
    "information-flow": information_flow,
    "vocabulary": vocabulary,
    "tasks": tasks,
    "pictures": pictures,
}


@pytest.fixture(scope="module")
def memory():
    return Memory()


@pytest.fixture(autouse=True)
def nothing_named(monkeypatch):
    for variable in ("LAWSCOPE_LANGUAGE_MODEL", "LAWSCOPE_TEXT"):
        monkeypatch.delenv(variable, raising=False)


def smoke(name, memory):
    study = registry.find(f"next-token/{name}")
    settings = json.loads(json.dumps(study.settings["smoke"]))
    measured = study.measure(Lab(settings, memory))
    return study, from_json(json.loads(json.dumps(to_json(measured), allow_nan=False)))


@pytest.mark.parametrize("name", STUDIES)
def test_smoke_trains_measures_every_claim_and_draws(name, memory):
    study, numbers = smoke(name, memory)
    assert study is STUDIES[name].STUDY
    assert set(study.settings) == set(study.minutes) == set(PRESETS)
    planned = {each.key for each in study.plan(study.settings["smoke"])}
    assert planned <= memory.runs.keys()
    if name != "law":  # its pretrained models are not here
        assert [j.why for j in study.judge(numbers) if j.verdict == NOT_TRIED] == []
    picture = io.BytesIO()
    study.figure(numbers).savefig(picture)
    assert picture.tell() > 5000


def test_studies_share_their_trainings():
    cpu = {name: module.STUDY.settings["cpu"] for name, module in STUDIES.items()}
    keys = {name: {t.key for t in module.STUDY.plan(cpu[name])} for name, module in STUDIES.items()}
    for name in ("information-flow", "vocabulary", "pictures"):
        assert keys[name] == keys["training"]
    for name in ("law", "model-size", "tasks"):
        assert len(keys[name] & keys["training"]) == 1
    assert len(set.union(*keys.values())) == 3 + 4 + 1 + len(architectures.NAMES)


def test_a_language_model_of_equal_settings_is_the_same_network():
    description = training_of(TINY, seed=1)
    first, second = (execute([description], {})[0] for _ in range(2))
    for name, tensor in first.weights[3].items():
        assert torch.equal(tensor, second.weights[3][name])
        assert not torch.equal(tensor, first.weights[0][name]) or name.endswith("bias")
    assert first.weights.keys() == {0, 1, 3}
    other = execute([training_of(TINY, seed=2)], {})[0]
    assert not torch.equal(first.weights[0]["head.weight"], other.weights[0]["head.weight"])


def test_the_measurement_of_a_lab_is_that_of_its_held_out_text(memory):
    description = training_of(TINY)
    run = memory.run(description)
    found = Lab(TINY, memory).next_token(description, tokens=3200, untrained=True)
    windows = samples_of(description.data).x_test[:200]
    again = next_token(run.network(), [windows], control=None)
    np.testing.assert_allclose(found.pr, again.pr, rtol=1e-9)
    assert found.n == 200 * 15
    beginning = next_token(run.network(0), [windows], control=None)
    np.testing.assert_allclose(found.control.pr, beginning.pr, rtol=1e-9)


def test_features_kept_and_features_streamed_give_the_same_residual(memory):
    run = memory.run(training_of(TINY))
    windows = run.samples.x_test[:200]
    streamed = next_token(run.network(), [windows], control=None)
    following = windows[:, 1:].reshape(-1, 1)
    kept = [
        float(residuals_of(block[:, :-1].flatten(0, 1), following)[0])
        for block in features_of(run.network(), windows)
    ]
    np.testing.assert_allclose(kept, streamed.pr, rtol=1e-9)


def test_a_masked_model_looks_ahead_and_is_told_of_hidden_tokens_alone():
    torch.manual_seed(0)
    ids = torch.randint(0, 50, (2, 8))
    changed = ids.clone()
    changed[:, -1] = (ids[:, -1] + 1) % 50
    for causal in (True, False):
        model = gpt(51, width=8, depth=2, heads=2, context=8, causal=causal)
        model.head.weight.data.normal_()
        early = model(ids)[:, 0], model(changed)[:, 0]
        assert torch.equal(*early) == causal
    objective = objective_of(training_of(TINY, causal=False))
    seen = []

    def spy(tokens):
        seen.append(tokens)
        return torch.zeros(*tokens.shape, 301)

    _, targets = objective.answers(spy, ids, torch.Generator().manual_seed(3))
    hidden = seen[0] == TINY["vocabulary"]
    assert 0 < len(targets) == int(hidden.sum()) < ids.numel()
    assert torch.equal(ids[hidden], targets)
    assert torch.equal(seen[0][~hidden], ids[~hidden])


def test_text_is_named_as_text():
    with pytest.raises(LawscopeError, match="is no text"):
        samples_of(Data("mnist", size=8, vocabulary=300))


def test_without_transformers_only_our_own_model_is_trained(monkeypatch, memory):
    monkeypatch.setattr(architectures, "find_spec", lambda name: None)
    assert len(architectures.plan(architectures.SMOKE)) == 1
    numbers = architectures.measure(Lab(architectures.SMOKE, memory))
    verdicts = architectures.STUDY.judge(numbers)
    assert [j.verdict == NOT_TRIED for j in verdicts] == [False] + [True] * 5
    assert 'pip install "lawscope[llm]"' in verdicts[1].why


def test_a_style_without_transformers_is_a_sentence(monkeypatch):
    from lawscope.zoo.networks import build

    real = builtins.__import__

    def without(name, *more):
        if name == "transformers":
            raise ImportError(name)
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(LawscopeError, match=r"A llama model needs transformers: pip install"):
        build("language", style="llama")
    assert build("language", depth=1) is not None
    with pytest.raises(LawscopeError, match="style must be one of gpt, gpt2"):
        build("language", style="lama")


def test_absent_models_are_not_tried_and_say_how_to_get_them(monkeypatch, tmp_path, memory):
    monkeypatch.setenv("LAWSCOPE_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    settings = {**law.SMOKE, "models": list(law.HOW)}
    verdicts = law.STUDY.judge(law.measure(Lab(settings, memory)))
    assert [j.verdict == NOT_TRIED for j in verdicts] == [False] * 2 + [True] * 4
    assert "put it into the subfolder smollm2" in verdicts[-1].why


def test_a_model_of_your_own_is_measured_on_your_own_text(monkeypatch, tmp_path, memory):
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = ["a", "b", "c", "d", "<unk>"]
    tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(tmp_path / "mine")
    config = LlamaConfig(
        vocab_size=5, hidden_size=8, num_hidden_layers=4, num_attention_heads=2,
        intermediate_size=16, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    torch.manual_seed(0)
    LlamaForCausalLM(config).save_pretrained(tmp_path / "mine")
    letters = np.random.default_rng(0).choice(words[:4], size=2000)
    (tmp_path / "text.txt").write_text(" ".join(letters) + "\n")
    monkeypatch.setenv("LAWSCOPE_LANGUAGE_MODEL", str(tmp_path / "mine"))
    monkeypatch.setenv("LAWSCOPE_TEXT", str(tmp_path / "text.txt"))
    settings = {**law.SMOKE, "pretrained": {**law.SMOKE["pretrained"], "tokens": 1500}}
    numbers = law.measure(Lab(settings, memory))
    assert numbers["text"] == "text.txt"
    assert numbers["absent"] == {}
    row = numbers["models"]["mine"]
    assert (len(row["pr"]), row["d"]) == (5, 8)
    assert 1500 <= row["n"] <= 1500 + 32


def test_bends_in_words():
    bend = {"blocks": 1, "share": -0.25, "interval": [-0.3, -0.21]}
    assert law.bend_text({"bend": bend}) == "the last block leaves the line: -25 % of the fall"


def line(slope, *, blocks=4, start=0.9, r=None, untrained=None, **more):
    pr = [1.0] + [start * np.exp(slope * i) for i in range(blocks)]
    row = {
        "seed": 0, "pr": pr, "pr_cv": pr, "pr_onehot": pr, "slope": slope, "rho": np.exp(slope),
        "r": float(np.sign(slope)) if r is None else r, "control": None, **more,
        "interval": {"slope": [slope - 1e-3, slope + 1e-3]},
    }  # fmt: skip
    return row if untrained is None else {**row, "control": line(untrained, blocks=blocks)}


def along(*slopes):
    starts = np.linspace(0.9, 0.7, len(slopes)) if slopes[-1] < 0 else [0.5, 0.7, 0.9]
    rows = [
        {"step": step, **line(slope, start=start)}
        for step, (slope, start) in enumerate(zip(slopes, starts, strict=True))
    ]
    return {"seed": 0, "history": rows}


def shuffled(slope, deviation, *, onehot=None, fuzziness=(9.0, 8.0, 7.0, 6.0, 5.0)):
    blocks = {sign: line(slope, start=0.8 + deviation * sign)["pr"][1:] for sign in (-1, 1)}
    rows = [[0.9 + 0.01 * sign, *blocks[sign]] for sign in (-1, 1)] * 10
    middle = np.mean(rows, axis=0)
    own = line(slope, start=0.8)
    mean = middle.tolist() if onehot is None else onehot
    return {**own, "pr_onehot": mean, "shuffled": rows, "fuzziness": list(fuzziness)}


def sizes(slopes, ends, r=-0.95):
    rows = [
        {**line(slope, r=r), "depth": depth, "width": depth, "pr_cv": [end]}
        for depth, (slope, end) in enumerate(zip(slopes, ends, strict=True))
    ]
    return {"depth": rows, "width": rows}


def models(slope, r, untrained):
    names = (law.OURS, *law.HOW)
    rows = {name: line(slope, r=r, untrained=untrained) for name in names}
    return {"models": rows, "absent": {}, "text": "a text"}


# For every study: numbers that show all its claims, and numbers that show none.
MADE_UP = {
    "law": (models(-0.01, -0.95, 0.01), models(-0.01, -0.8, -0.01)),
    "architectures": (
        {"styles": {s: [line(-0.1, untrained=0.01)] for s in architectures.NAMES}},
        {"styles": {s: [line(-0.1, untrained=-0.01)] for s in architectures.NAMES}},
    ),
    "training": (
        {"networks": [along(0.01, -0.1, -0.2)] * 2},
        {"networks": [along(0.01, -0.1, -0.2), along(-0.01, 0.1, 0.2)]},
    ),
    "model-size": (
        sizes([-0.3, -0.2, -0.1], [0.9, 0.8, 0.7]),
        sizes([-0.1, 0.2, 0.1], [0.7, 0.8, 0.9], r=-0.5),
    ),
    "information-flow": (
        {"networks": [{"targets": {"next": line(-0.1), "current": line(0.1)}}]},
        {"networks": [{"targets": {"next": line(0.1), "current": line(-0.1)}}]},
    ),
    "vocabulary": (
        {"networks": [shuffled(-0.01, 0.1)] * 2},
        {"networks": [shuffled(0.01, 0.1, onehot=[1.0, 0.1, 0.2, 0.3, 0.4], fuzziness=range(1, 6)),
                      shuffled(-0.3, 0.01)]},
    ),
    "tasks": (
        {"masked": [line(-0.1, untrained=0.1, r=-0.95)], "masked_by_next": [line(0.1)]},
        {"masked": [line(-0.1, untrained=-0.1, r=-0.5)], "masked_by_next": [line(-0.1)]},
    ),
    "pictures": (
        {"networks": [{"silhouette": [0.0, 0.1, 0.2, 0.3], "silhouette_in_plane": [0, 0.1]}]},
        {"networks": [{"silhouette": [0.3, 0.1, 0.2, 0.0], "silhouette_in_plane": [0.1, 0]}]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STUDIES)
def test_every_claim_can_be_shown_and_can_fail(name):
    study = STUDIES[name].STUDY
    good, bad = MADE_UP[name]
    assert [j.verdict for j in study.judge(good)] == [SHOWN] * len(study.claims)
    assert [j.verdict for j in study.judge(bad)] == [NOT_SHOWN] * len(study.claims)
    assert {j.verdict for j in study.judge({})} == {NOT_TRIED}
