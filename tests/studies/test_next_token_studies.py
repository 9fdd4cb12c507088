"""The studies of next-token prediction: text as data, models that are absent, one's own."""

import builtins

import numpy as np
import pytest
import torch
from tests.studies.examples.next_token import EXAMPLES
from tests.studies.memory import Memory

from lawscope.errors import LawscopeError
from lawscope.laws.next_token.law import next_token
from lawscope.studies import registry
from lawscope.studies.datasets import samples_of
from lawscope.studies.execute import execute
from lawscope.studies.lab import Lab
from lawscope.studies.next_token import architectures, law, model_size, pictures
from lawscope.studies.next_token._family import TINY, training_of
from lawscope.studies.next_token._features import features_of, residuals_of
from lawscope.studies.panels import quietly
from lawscope.studies.study import HOLDS, NOT_TRIED
from lawscope.training.language import answers
from lawscope.zoo.networks.language import gpt


@pytest.fixture(scope="module")
def memory():
    return Memory()


@pytest.fixture(autouse=True)
def nothing_named(monkeypatch):
    for variable in ("LAWSCOPE_LANGUAGE_MODEL", "LAWSCOPE_TEXT"):
        monkeypatch.delenv(variable, raising=False)


def test_studies_share_their_trainings():
    keys = {}
    for name in registry.choose("next-token"):
        study = registry.find(name)
        keys[name.partition("/")[2]] = {t.key for t in study.plan(study.settings["cpu"])}
    for name in ("information-flow", "vocabulary", "pictures"):
        assert keys[name] == keys["training"]
    assert keys["law"] == set()
    for name in ("model-size", "tasks"):
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
        float(residuals_of(block, following)[0]) for block in features_of(run.network(), windows)
    ]
    np.testing.assert_allclose(kept, streamed.pr, rtol=1e-9)


def test_a_masked_model_looks_ahead_and_learns_from_hidden_tokens_alone():
    torch.manual_seed(0)
    ids = torch.randint(0, 50, (2, 8))
    changed = ids.clone()
    changed[:, -1] = (ids[:, -1] + 1) % 50
    for causal in (True, False):
        model = gpt(51, width=8, depth=2, heads=2, context=8, causal=causal)
        model.head.weight.data.normal_()
        early = model(ids)[:, 0], model(changed)[:, 0]
        assert torch.equal(*early) == causal
    task = training_of(TINY, causal=False).task
    assert task.mask == TINY["vocabulary"]
    seen = []

    def spy(tokens):
        seen.append(tokens)
        return torch.zeros(*tokens.shape, 301)

    _, targets = answers(spy, ids, task.mask, torch.Generator().manual_seed(3))
    hidden = seen[0] == TINY["vocabulary"]
    assert 0 < len(targets) == int(hidden.sum()) < ids.numel()
    assert torch.equal(ids[hidden], targets)
    assert torch.equal(seen[0][~hidden], ids[~hidden])


def test_without_transformers_only_our_own_model_is_trained(monkeypatch, memory):
    monkeypatch.setattr(architectures, "find_spec", lambda name: None)
    settings = architectures.STUDY.settings["smoke"]
    assert len(architectures.STUDY.plan(settings)) == 1
    numbers = architectures.measure(Lab(settings, memory))
    (claim,) = architectures.STUDY.judge({"network": numbers}).claims
    assert claim.verdict == NOT_TRIED
    assert 'pip install "lawscope[llm]"' in claim.column.why


def test_a_style_without_transformers_is_a_sentence(monkeypatch):
    from lawscope.zoo.networks.catalogue import build

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
    settings = {**law.STUDY.settings["smoke"], "models": list(law.HOW)}
    claims = law.STUDY.judge({"network": law.measure(Lab(settings, memory))}).claims
    assert {claim.verdict for claim in claims} == {NOT_TRIED}
    assert "put it into the subfolder smollm2" in claims[1].column.why


def test_a_model_is_judged_on_text_of_its_own_kind():
    numbers = {**EXAMPLES["next-token/law"][0], "texts": {}}
    stories, other, *_ = law.STUDY.judge({"network": numbers}).claims
    assert (stories.verdict, other.verdict) == (NOT_TRIED, HOLDS)
    assert law.EMBEDDED in stories.column.why
    numbers["texts"] = {law.STORIES: "text.txt"}
    stories, *_ = law.STUDY.judge({"network": numbers}).claims
    assert set(stories.column.measured) == {"on text.txt", law.SAMPLED}


def test_small_formulas():
    assert model_size.direction({"a": [1.0], "b": [2.0]}) == "it rises"
    assert model_size.direction({"a": [2.0], "b": [1.0]}) == "it falls"
    assert model_size.direction({"a": [1.0], "b": [3.0], "c": [2.0]}) == "neither"
    places, labels = pictures.before(torch.tensor([7, 9, 7, 5, 7]), [7, 9], most=2)
    assert (places.tolist(), labels.tolist()) == ([0, 2, 1], [0, 0, 1])
    two, one = ({"bend": {"blocks": n, "share": s}} for n, s in ((2, 0.31), (1, -0.25)))
    assert law.bend_text(two) == "the last 2 blocks leave the line: +31 % of the fall"
    assert law.bend_text(one) == "the last block leaves the line: -25 % of the fall"


def small_llama(folder, **config):
    """Save a Llama of 5 tokens that has learned nothing, with its tokenizer."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = {word: i for i, word in enumerate(["a", "b", "c", "d", "<unk>"])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)
    torch.manual_seed(0)
    LlamaForCausalLM(
        LlamaConfig(
            vocab_size=5, hidden_size=8, num_hidden_layers=4, num_attention_heads=2,
            intermediate_size=16, eos_token_id=None, **config,
        )
    ).save_pretrained(folder)  # fmt: skip


def test_a_model_of_your_own_is_measured_on_your_own_text(monkeypatch, tmp_path, memory):
    small_llama(tmp_path / "mine", bos_token_id=None)
    letters = np.random.default_rng(0).choice(["a", "b", "c", "d"], size=2000)
    (tmp_path / "text.txt").write_text(" ".join(letters) + "\n")
    monkeypatch.setenv("LAWSCOPE_LANGUAGE_MODEL", str(tmp_path / "mine"))
    monkeypatch.setenv("LAWSCOPE_TEXT", str(tmp_path / "text.txt"))
    settings = law.STUDY.settings["smoke"]
    settings = {**settings, "pretrained": {**settings["pretrained"], "tokens": 1500}}
    numbers = law.measure(Lab(settings, memory))
    assert numbers["texts"] == {"mine": "text.txt"}
    assert numbers["absent"] == {}
    row = numbers["models"]["mine"]
    assert (len(row["pr"]), row["d"]) == (5, 8)
    assert 1500 <= row["n"] <= 1500 + 32


def test_stories_are_measured_on_what_they_write_and_on_the_text_beside_them(
    monkeypatch, tmp_path, memory
):
    small_llama(tmp_path / "stories260k", bos_token_id=3)
    monkeypatch.setenv("LAWSCOPE_DATA", str(tmp_path))
    settings = {
        **law.STUDY.settings["smoke"],
        "models": [law.STORIES],
        "pretrained": {"tokens": 1500, "window": 32, "batch": 8, "onehot": False},
        "written": {"tokens": 600, "seeds": 2},
        "seeds": 0,
    }
    alone = law.measure(Lab(settings, memory))
    assert alone["texts"] == {law.STORIES: law.SAMPLED}
    (tmp_path / "stories260k" / "text.txt").write_text("a b c d " * 500)
    beside = law.measure(Lab(settings, memory))
    assert beside["texts"] == {law.STORIES: "text.txt"}
    assert len(beside["written"][law.STORIES]) == 2
    assert beside["written"] == alone["written"]
    assert beside["models"][law.STORIES]["n"] >= 1500 > alone["models"][law.STORIES]["n"]


def test_a_model_writes_the_text_it_is_measured_on(tmp_path):
    small_llama(tmp_path / "mine", bos_token_id=3)
    settings = {"tokens": 1500, "window": 32, "batch": 8, "onehot": False}
    state = torch.get_rng_state()
    with quietly():
        first, again, other = (
            law.measure_pretrained(str(tmp_path / "mine"), law.SAMPLED, settings, seed)
            for seed in (1, 1, 2)
        )
    assert torch.equal(torch.get_rng_state(), state)
    assert first["pr"] == again["pr"] != other["pr"]
    assert 1500 <= first["n"] <= 1500 + 2 * 32
    small_llama(tmp_path / "none", bos_token_id=None)
    with pytest.raises(LawscopeError, match="no first token"):
        law.measure_pretrained(str(tmp_path / "none"), law.SAMPLED, settings)
