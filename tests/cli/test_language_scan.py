"""``lawscope scan TARGET --text FILE`` as a person uses it."""

import json

import numpy as np
import pytest
import torch
from tests.cli import language_folders as folders

import lawscope as ls
from lawscope.capture.windows import pack
from lawscope.zoo.language import gpt

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def lawscope(tmp_path, monkeypatch, call_lawscope):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return call_lawscope


def scanned(lawscope, *arguments):
    code, out, err = lawscope("scan", *arguments, "--json")
    assert code == 0, err
    return json.loads(out)


def test_a_folder_gives_summary_page_and_json(lawscope, language_models, tmp_path):
    place = language_models
    code, out, err = lawscope("scan", place / "gpt2", "--text", place / "text.txt")
    assert code == 0, err
    for words in ("gpt2", "transformer.h.3", "one-hot", "untrained", "advice", "tokens"):
        assert words in out
    assert "report: lawscope-report/report.html" in out
    page = (tmp_path / "lawscope-report" / "report.html").read_text()
    assert "Law of next-token prediction" in page
    assert "arXiv:2408.13442" in page
    saved = json.loads((tmp_path / "lawscope-report" / "run.json").read_text())
    assert set(saved) == {"name", "next_token", "advice", "settings", "versions"}
    assert sorted(p.name for p in (tmp_path / "lawscope-report").iterdir()) == [
        "report.html", "run.json",
    ]  # fmt: skip


def test_the_numbers_are_those_of_next_token_on_the_same_windows(lawscope, language_models):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    place = language_models
    law = scanned(
        lawscope, place / "gpt2", "--text", place / "text.txt", "--tokens", "all",
        "--targets", "next,current", "--window", 20,
    )["next_token"]  # fmt: skip
    model = AutoModelForCausalLM.from_pretrained(place / "gpt2")
    ids = AutoTokenizer.from_pretrained(place / "gpt2").encode((place / "text.txt").read_text())
    windows = pack(torch.tensor(ids), 20)
    batches = [batch for _, batch in windows.batches(8)]
    mine = ls.next_token(model, batches, targets=("next", "current"), control=None)
    assert law["pr"] == mine.pr.tolist()
    assert law["others"]["current"]["pr_onehot"] == mine.others["current"].pr_onehot.tolist()
    assert law["n"] == mine.n == windows.ids.shape[0] * 19
    assert law["control"]["pr"] != law["pr"]


def test_windows_begin_as_the_tokenizer_begins_a_sequence(lawscope, language_models):
    place = language_models
    arguments = ("--text", place / "text.txt", "--window", 20, "--no-control", "--tokens", 400)
    plain, framed = (scanned(lawscope, place / name, *arguments) for name in ("gpt2", "bos"))
    assert plain["settings"]["frame"] == {"before": [], "after": []}
    assert framed["settings"]["frame"] == {"before": [1], "after": []}
    # 19 of 20 tokens are text, and the token before them is not measured.
    windows = framed["settings"]["windows"]
    assert windows == -(-400 // 19)
    assert framed["next_token"]["n"] == windows * 18
    assert framed["next_token"]["settings"]["bos"] == "first token 1 left out"


@pytest.mark.parametrize(("name", "task"), [("bert", "masked"), ("t5", "encoder-decoder")])
def test_other_kinds_of_models(lawscope, language_models, name, task):
    place = language_models
    document = scanned(lawscope, place / name, "--text", place / "text.txt", "--task", task)
    law = document["next_token"]
    assert law["settings"]["task"] == task
    assert law["target"] == ("masked" if task == "masked" else "next")
    assert all(0 < pr <= 1 for pr in law["pr"])
    assert law["n"] >= 50 * law["d"]


def test_special_tokens_of_a_masked_model_are_never_hidden(
    lawscope, language_models, tmp_path, monkeypatch
):
    from tokenizers import processors

    from lawscope.laws import next_token_observer

    folder = folders.bert_folder(tmp_path / "framed")
    tokenizer = folders.tokenizer()
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 4), ("[SEP]", 5)]
    )
    tokenizer.add_special_tokens({"eos_token": "of"})  # a word that is special to nobody else
    tokenizer.save_pretrained(folder)
    hidden = []
    hide = next_token_observer.mask_tokens

    def noted(*arguments):
        made = hide(*arguments)
        hidden.extend(made[1].targets.flatten().tolist())
        return made

    monkeypatch.setattr(next_token_observer, "mask_tokens", noted)
    arguments = (folder, "--text", language_models / "text.txt", "--task", "masked")
    document = scanned(lawscope, *arguments, "--no-control")
    assert document["settings"]["frame"] == {"before": [4], "after": [5]}
    word = tokenizer.encode("of", add_special_tokens=False)
    assert len(hidden) > 600
    assert not {4, 5, *word} & set(hidden)


def test_a_tokenizer_that_knows_more_than_the_model_is_told(lawscope, language_models, tmp_path):
    from transformers import AutoTokenizer

    place = language_models
    (tmp_path / "low.txt").write_text("a of a the\n" * 1000)
    tokenizer = AutoTokenizer.from_pretrained(place / "gpt2")
    highest = max(tokenizer.encode("a of a the"))
    assert highest + 1 < len(tokenizer)
    for size, told in ((highest + 1, True), (len(tokenizer), False)):
        folder = folders.gpt2_folder(tmp_path / f"of-{size}", vocab_size=size)
        arguments = ("--text", "low.txt", "--no-control", "--normalization", "none")
        code, out, err = lawscope("scan", folder, *arguments)
        assert code == 0, err
        sentence = f"knows {len(tokenizer)} tokens and the model embeds {size}"
        assert (sentence in " ".join(out.split())) == told
        warnings = scanned(lawscope, folder, *arguments)["next_token"]["warnings"]
        assert any(sentence in warning for warning in warnings) == told


@pytest.mark.parametrize(("every", "told"), [(40, True), (400, False)])
def test_a_text_with_marks_of_a_preparation_is_told(
    lawscope, language_models, tmp_path, every, told
):
    """WikiText's: two of forty-two words, or of four hundred and two."""
    words = (language_models / "text.txt").read_text().split()
    for start in reversed(range(0, len(words), every)):
        words[start:start] = ["<unk>", "@-@"]
    (tmp_path / "marked.txt").write_text(" ".join(words))
    arguments = (language_models / "gpt2", "--text", tmp_path / "marked.txt", "--no-control")
    warnings = " ".join(scanned(lawscope, *arguments)["next_token"]["warnings"])
    assert ("5% of the words of" in warnings) == told
    assert ("('<unk>', '@-@')" in warnings) == told


def test_a_text_that_vanishes_while_it_is_measured_costs_no_result(
    lawscope, language_models, tmp_path, monkeypatch
):
    from lawscope.cli import language

    text = tmp_path / "brief.txt"
    text.write_text((language_models / "text.txt").read_text())
    measure = language._measure
    monkeypatch.setattr(language, "_measure", lambda *a: (text.unlink(), measure(*a)))
    found = scanned(lawscope, language_models / "gpt2", "--text", text, "--no-control")
    assert not text.exists()
    assert found["next_token"]["n"] > 0


def test_own_code_with_checkpoint_dtype_and_every(lawscope, language_models, tmp_path):
    place = language_models
    common = ("--text", place / "text.txt", "--window", 32, "--no-control")
    plain = scanned(lawscope, place / "own.py", *common)
    assert plain["next_token"]["blocks"][:2] == ["embedding", "blocks.0"]
    assert plain["settings"]["text_tokens"] >= 100 * 12
    half = scanned(lawscope, place / "own.py", *common, "--dtype", "bfloat16", "--every", 2)
    assert half["next_token"]["blocks"] == ["embedding", "blocks.1", "blocks.3"]
    torch.manual_seed(8)
    other = gpt(vocabulary=128, width=12, depth=4, heads=2, context=32)
    torch.save(other.state_dict(), "w.pt")
    loaded = scanned(lawscope, place / "own.py", *common, "--checkpoint", "w.pt")
    assert loaded["next_token"]["pr"] != plain["next_token"]["pr"]


def test_several_files_are_joined_however_they_are_given(lawscope, language_models):
    place = language_models
    texts = (place / "text.txt", place / "other.txt")
    common = ("--no-control", "--tokens", "all", "--window", 32)
    spread = scanned(lawscope, place / "own.py", "--text", *texts, *common)
    repeated = scanned(lawscope, place / "own.py", "--text", texts[0], "--text", texts[1], *common)
    assert spread["next_token"]["pr"] == repeated["next_token"]["pr"]
    letters = sum(len(path.read_text()) for path in texts)
    assert spread["settings"]["text_tokens"] == letters // 32 * 32


def test_fast_is_near_and_normalization_matters(lawscope, language_models):
    place = language_models
    common = (place / "own.py", "--text", place / "text.txt", "--no-control", "--window", 32)
    common = (*common, "--tokens", "all")
    exact = scanned(lawscope, *common)["next_token"]["pr"]
    fast = scanned(lawscope, *common, "--precision", "fast")["next_token"]["pr"]
    none = scanned(lawscope, *common, "--normalization", "none")["next_token"]["pr"]
    assert np.allclose(fast, exact, rtol=1e-4, atol=0)
    assert fast != exact
    assert not np.allclose(none, exact, rtol=1e-4, atol=0)


def test_a_device_map_is_asked_for_and_needs_accelerate(lawscope, language_models, monkeypatch):
    from transformers import AutoModelForCausalLM

    place = language_models
    arguments = ("scan", place / "gpt2", "--text", place / "text.txt", "--device", "auto")
    with monkeypatch.context() as patch:
        patch.setattr("lawscope.zoo.language_models._has", lambda name: False)
        code, _, err = lawscope(*arguments)
    assert code == 2
    assert "needs accelerate" in err
    asked = {}
    load = AutoModelForCausalLM.from_pretrained

    def from_pretrained(folder, device_map=None, **options):
        asked["device_map"] = device_map
        return load(folder, **options)

    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", from_pretrained)
    monkeypatch.setattr("lawscope.zoo.language_models._has", lambda name: True)
    code, _, err = lawscope(*arguments)
    assert code == 0, err
    assert asked["device_map"] == "auto"


def test_saving_a_result_writes_the_page(tmp_path):
    ids = torch.randint(0, 128, (60, 32), generator=torch.Generator().manual_seed(0))
    namespace = {}
    exec(folders.OWN, namespace)
    result = ls.next_token(namespace["model"](), [ids], control=None)
    page = result.save(tmp_path / "deep" / "report.html", name="mine")
    assert "mine" in page.read_text()
