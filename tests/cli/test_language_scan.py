"""``lawscope scan TARGET --text FILE`` as a person uses it."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from tests.cli import language_folders as folders
from tests.laws.toy_law import SIZES, Sizer

import lawscope as ls
import lawscope.data.tokens as tokens_module
from lawscope.capture.session import Session
from lawscope.data.tokens import TokenSource
from lawscope.data.windows import pack
from lawscope.laws import registry
from lawscope.laws.next_token.law import NextTokenSettings
from lawscope.laws.next_token.observer import NextTokenObserver
from lawscope.zoo.networks.hugging_face import quietly
from lawscope.zoo.networks.language import gpt

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


@pytest.fixture
def lawscope(tmp_path, monkeypatch, call_lawscope):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return call_lawscope


def scanned(lawscope, *arguments):
    code, out, err = lawscope("scan", *arguments, "--json")
    assert code == 0, err
    document = json.loads(out)
    return {**document, **document["results"]}


def test_a_folder_gives_summary_page_and_json(lawscope, language_models, tmp_path):
    place = language_models
    code, out, err = lawscope("scan", place / "gpt2", "--text", place / "text.txt")
    assert code == 0, err
    for words in ("gpt2", "h.3", "untrained", "findings", "tokens"):
        assert words in out
    assert "report: lawscope-report/report.html" in out
    page = (tmp_path / "lawscope-report" / "report.html").read_text()
    assert "Law of next-token prediction" in page
    assert "arXiv:2408.13442" in page
    saved = json.loads((tmp_path / "lawscope-report" / "run.lawscope.json").read_text())
    assert set(saved["results"]) == {"next_token"}
    assert set(saved["skipped"]) == {
        "separation",
        "collapse",
        "elasticity",
        "symmetry",
        "alignment",
        "conservation",
    }
    assert sorted(p.name for p in (tmp_path / "lawscope-report").iterdir()) == [
        "report.html", "run.lawscope.json",
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
    mine = ls.next_token(model, windows.ids.split(8), targets=("next", "current"), control=None)
    assert law["pr"] == mine.pr.tolist()
    assert law["others"]["current"]["pr_onehot"] == mine.others["current"].pr_onehot.tolist()
    assert law["n"] == mine.n == windows.ids.shape[0] * 19
    assert law["control"]["pr"] != law["pr"]


def test_windows_begin_as_the_tokenizer_begins_a_sequence(lawscope, language_models):
    place = language_models
    arguments = ("--text", place / "text.txt", "--window", 20, "--no-control", "--tokens", 400)
    plain, framed = (scanned(lawscope, place / name, *arguments) for name in ("gpt2", "bos"))
    for document, before in ((plain, []), (framed, [1])):
        assert document["settings"]["before each window"] == before
        assert document["settings"]["after each window"] == []
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


def test_an_encoder_without_a_language_model_head_is_measured(lawscope, language_models, tmp_path):
    from safetensors.torch import load_file, save_file

    folder = folders.bert_folder(tmp_path / "encoder", "BertModel")
    arguments = ("--text", language_models / "text.txt", "--task", "masked")
    alone = scanned(lawscope, folder, *arguments)["next_token"]
    # The same encoder under a head whose weights nothing reads.
    whole = folders.bert_folder(tmp_path / "whole")
    weights = load_file(whole / "model.safetensors")
    own = load_file(folder / "model.safetensors")
    encoder = {f"bert.{name}": tensor for name, tensor in own.items()}
    weights |= {name: tensor for name, tensor in encoder.items() if name in weights}
    save_file(weights, whole / "model.safetensors", {"format": "pt"})
    assert alone["pr"] == scanned(lawscope, whole, *arguments)["next_token"]["pr"]
    # What is missing of the encoder itself is still an error.
    del encoder["bert.encoder.layer.0.output.dense.weight"]
    save_file(encoder, folder / "model.safetensors", {"format": "pt"})
    code, _, err = lawscope("scan", folder, *arguments)
    assert code == 2
    assert "has no weights for" in err


def test_special_tokens_of_a_masked_model_are_never_hidden(
    lawscope, language_models, tmp_path, monkeypatch
):
    from tokenizers import processors

    folder = folders.bert_folder(tmp_path / "framed")
    tokenizer = folders.tokenizer()
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 4), ("[SEP]", 5)]
    )
    tokenizer.add_special_tokens({"eos_token": "of"})  # a word that is special to nobody else
    tokenizer.save_pretrained(folder)
    hidden = []
    hide = tokens_module.hide_tokens

    def noted(*arguments):
        made = hide(*arguments)
        hidden.extend(made[2].flatten().tolist())
        return made

    monkeypatch.setattr(tokens_module, "hide_tokens", noted)
    arguments = (folder, "--text", language_models / "text.txt", "--task", "masked")
    document = scanned(lawscope, *arguments, "--no-control")
    assert document["settings"]["before each window"] == [4]
    assert document["settings"]["after each window"] == [5]
    word = tokenizer.encode("of", add_special_tokens=False)
    assert len(hidden) > 600
    assert not {4, 5, *word} & set(hidden)


def test_a_tokenizer_that_knows_more_than_the_model_is_said(lawscope, language_models, tmp_path):
    from transformers import AutoTokenizer

    place = language_models
    (tmp_path / "low.txt").write_text("a of a the\n" * 1000)
    tokenizer = AutoTokenizer.from_pretrained(place / "gpt2")
    highest = max(tokenizer.encode("a of a the"))
    assert highest + 1 < len(tokenizer)
    for size, said in ((highest + 1, True), (len(tokenizer), False)):
        folder = folders.gpt2_folder(tmp_path / f"of-{size}", vocab_size=size)
        arguments = ("--text", "low.txt", "--no-control", "--normalization", "none")
        code, out, err = lawscope("scan", folder, *arguments)
        assert code == 0, err
        sentence = f"knows {len(tokenizer)} tokens and the model embeds {size}"
        assert (sentence in " ".join(out.split())) == said
        warnings = scanned(lawscope, folder, *arguments)["next_token"]["warnings"]
        assert any(sentence in warning for warning in warnings) == said


@pytest.mark.parametrize(("every", "said"), [(40, True), (400, False)])
def test_a_text_with_marks_of_a_preparation_is_said(
    lawscope, language_models, tmp_path, every, said
):
    """WikiText's: two of forty-two words, or of four hundred and two."""
    words = (language_models / "text.txt").read_text().split()
    for start in reversed(range(0, len(words), every)):
        words[start:start] = ["<unk>", "@-@"]
    (tmp_path / "marked.txt").write_text(" ".join(words))
    arguments = (language_models / "gpt2", "--text", tmp_path / "marked.txt", "--no-control")
    warnings = " ".join(scanned(lawscope, *arguments)["next_token"]["warnings"])
    assert ("5 % of the words of" in warnings) == said
    assert ("('<unk>', '@-@')" in warnings) == said


def test_too_few_tokens_for_a_verdict_are_said_before_the_run(
    lawscope, language_models, monkeypatch
):
    monkeypatch.setattr("lawscope.cli.text.scan", None)  # the run fails at once
    text = ("--text", language_models / "text.txt", "--window", 32)
    _, _, err = lawscope("scan", language_models / "own.py", *text, "--tokens", 300)
    first, second = err.splitlines()
    assert "310 tokens for 12 features are too few for a verdict; 640 tokens of text would" in first
    assert "TypeError" in second
    _, _, err = lawscope("scan", language_models / "own.py", *text, "--tokens", 640)
    assert "too few" not in err


def test_a_text_that_vanishes_while_it_is_measured_costs_no_result(
    lawscope, language_models, tmp_path, monkeypatch
):
    from lawscope.cli import text as module

    text = tmp_path / "brief.txt"
    text.write_text((language_models / "text.txt").read_text())
    scan = module.scan
    monkeypatch.setattr(module, "scan", lambda *a, **k: (text.unlink(), scan(*a, **k))[1])
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
        patch.setattr("lawscope.zoo.networks.hugging_face._has", lambda name: False)
        code, _, err = lawscope(*arguments)
    assert code == 2
    assert "needs accelerate" in err
    asked = {}
    load = AutoModelForCausalLM.from_pretrained

    def from_pretrained(folder, device_map=None, **options):
        asked["device_map"] = device_map
        return load(folder, **options)

    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", from_pretrained)
    monkeypatch.setattr("lawscope.zoo.networks.hugging_face._has", lambda name: True)
    code, _, err = lawscope(*arguments)
    assert code == 0, err
    assert asked["device_map"] == "auto"


class OutputSizes(Sizer):
    """Sizes without gradients, for which a text needs no loss."""

    def __init__(self, session, settings):
        super().__init__(session, settings)
        self.sums = {tap: total for tap, total in self.sums.items() if tap.what == "output"}

    def result(self, control=None):
        self.sums |= {replace(tap, what="output gradient"): 0.0 for tap in self.sums}
        return super().result(control)


@pytest.fixture
def toy(monkeypatch):
    """A law of somebody else that applies to text and cannot be saved midway."""
    laws = {**registry.all_laws(), "sizes": replace(SIZES, needs=frozenset(), observe=OutputSizes)}
    monkeypatch.setattr(registry, "_LAWS", laws)


def test_a_law_that_cannot_be_saved_midway_is_measured_too(
    lawscope, language_models, tmp_path, toy
):
    arguments = ("scan", language_models / "gpt2", "--text", language_models / "text.txt")
    code, _, err = lawscope(*arguments, "--out", "here")
    assert code == 0, err
    assert err.count("sizes cannot be saved midway") == 1
    assert set(ls.load(tmp_path / "here" / "run.lawscope.json").results) == {"next_token", "sizes"}
    code, _, err = lawscope(*arguments, "--out", "here", "--laws", "next_token")
    assert code == 0, err
    assert "midway" not in err
    (tmp_path / "here" / "unfinished.safetensors").write_bytes(b"")
    code, _, err = lawscope(*arguments, "--out", "here", "--resume")
    assert code == 2
    assert "--resume cannot continue with sizes" in err


def test_a_law_of_the_target_without_a_budget_is_measured_alone(
    lawscope, language_models, tmp_path, monkeypatch
):
    monkeypatch.setattr(registry, "_LAWS", registry.all_laws())  # the target's ends with the test
    registers = "import lawscope\nfrom tests.laws.toy_law import SIZES\nlawscope.register(SIZES)\n"
    (tmp_path / "own.py").write_text(registers + folders.OWN)
    text = ("--text", language_models / "text.txt", "--window", 32)
    arguments = ("own.py", *text, "--loss", "cross-entropy")
    found = scanned(lawscope, *arguments, "--laws", "sizes")
    assert set(found["results"]) == {"sizes"}
    code, _, err = lawscope("scan", *arguments, "--laws", "sizes", "--memory", "1GB")
    assert code == 2
    assert "None of the laws measured (sizes) has the option --memory" in err


IDS = torch.randint(0, folders.VOCABULARY, (40, 32), generator=torch.Generator().manual_seed(0))


def test_every_statistic_is_made_on_the_device_of_its_block():
    model = gpt(vocabulary=folders.VOCABULARY, width=12, depth=4, heads=2, context=32)
    session = Session(model, TokenSource([IDS]))
    devices = tuple(map(torch.device, ("cpu", "cpu", "meta", "meta", "cpu")))
    placed = (replace(s, device=d) for s, d in zip(session.blocks, devices, strict=True))
    session._blocks = replace(session.blocks, all=tuple(placed))
    observer = NextTokenObserver(session, NextTokenSettings())
    assert [s.moments.yy.device.type for s in observer.statistics] == [d.type for d in devices]


def test_blocks_offloaded_to_disk_give_the_same_answer(language_models, tmp_path):
    pytest.importorskip("accelerate")
    from transformers import AutoModelForCausalLM

    folder = language_models / "gpt2"
    with quietly():
        whole = AutoModelForCausalLM.from_pretrained(folder)
        names = ("wte", "wpe", "drop", "h.0", "h.3", "ln_f")
        places = {f"transformer.{name}": "cpu" for name in names} | {"lm_head": "cpu"}
        places |= {"transformer.h.1": "disk", "transformer.h.2": "disk"}
        spread = AutoModelForCausalLM.from_pretrained(
            folder, device_map=places, offload_folder=tmp_path
        )
    assert spread.transformer.h[1].mlp.c_fc.weight.device.type == "meta"
    mine, theirs = (ls.next_token(m, [IDS], control=None) for m in (spread, whole))
    assert mine.pr.tolist() == theirs.pr.tolist()
    assert spread.transformer.h[1].mlp.c_fc.weight.device.type == "meta"
