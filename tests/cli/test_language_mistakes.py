"""Bad input of ``lawscope scan … --text``: each one clear sentence, exit code 2, no traceback."""

import json
import pickle
import shutil
import sys

import pytest
from safetensors.torch import load_file, save_file
from tests.cli import language_folders as folders

from lawscope.cli.app import _spread_texts
from lawscope.cli.shared import spell_options
from lawscope.zoo.networks.hugging_face import Source, _sentence


@pytest.fixture
def lawscope(tmp_path, monkeypatch, call_lawscope):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    return call_lawscope


class Evil:
    def __reduce__(self):
        return (print, ("executed!",))


def changed(place, folder, change):
    """A copy of the GPT-2 with its configuration changed."""
    shutil.copytree(place / "gpt2", folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | change))
    return folder


def mistakes(place, here):
    """(arguments, what the sentence says)."""
    text = ("--text", place / "text.txt")
    (here / "empty.txt").write_text("")
    (here / "latin.txt").write_bytes("naïve".encode("latin-1") * 100)
    (here / "short.txt").write_text(folders.text(20))
    (here / "few.txt").write_text("a law")
    (here / "hollow").mkdir()
    (here / "hollow" / "notes.md").write_text("no model")
    remote = {"auto_map": {"AutoConfig": "c.C", "AutoModelForCausalLM": "m.M"}, "model_type": "own"}
    changed(place, here / "remote", remote)
    changed(place, here / "deeper", {"n_layer": 6})
    changed(place, here / "unknown", {"model_type": "no-such-kind"})
    shutil.copytree(place / "gpt2", here / "sick")
    weights = load_file(here / "sick" / "model.safetensors")
    weights["transformer.h.2.mlp.c_fc.weight"][0] = float("nan")
    save_file(weights, here / "sick" / "model.safetensors", {"format": "pt"})
    shutil.copytree(place / "gpt2", here / "cut")
    (here / "cut" / "model.safetensors").write_bytes(b"cut")
    shutil.copytree(place / "gpt2", here / "code")
    (here / "code" / "model.safetensors").unlink()
    with (here / "code" / "pytorch_model.bin").open("wb") as file:
        pickle.dump(Evil(), file)
    shutil.copytree(place / "gpt2", here / "bare")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (here / "bare" / name).unlink()
    folders.gpt2_folder(here / "narrow", vocab_size=40)
    folders.gpt2_folder(here / "broad", vocab_size=400)
    (here / "no.py").write_text("from torch import nn\nmodel = nn.Linear(2, 2)\n")
    (here / "odd.py").write_text(folders.OWN + "\ntokenizer = 7\n")
    (here / "raising.py").write_text(
        folders.OWN + "\nclass Angry(torch.nn.Module):\n"
        "    def forward(self, ids): raise RuntimeError('my forward')\nmodel = Angry()\n"
    )
    (here / "leaving.py").write_text(
        folders.OWN + "\nclass Leaving(torch.nn.Module):\n"
        "    def forward(self, ids): raise SystemExit(4)\nmodel = Leaving()\n"
    )
    (here / "meta.py").write_text(
        folders.OWN + "\nwith torch.device('meta'):\n    model = gpt(128, 12, 4, 2, 32)\n"
    )
    own = place / "own.py"
    return [
        ((place / "gpt2", "--text", here / "gone.txt"), "There is no file"),
        ((place / "gpt2", "--text", here / "empty.txt"), "empty.txt is empty"),
        ((place / "gpt2", "--text", here / "latin.txt"), "latin.txt is not UTF-8 text"),
        ((place / "gpt2", "--text", here / "few.txt"), "tokens and a window holds 32"),
        ((own, "--text", here / "few.txt", "--window", 4), "at least 15 are missing"),
        ((own, *text, "--tokens", 99999), "are missing; give more text"),
        (
            (place / "gpt2", *text, "--window", 2, "--targets", "next-next"),
            "A window of 2 tokens has no place where all of next-next exist; take a longer",
        ),
        ((own, *text, "--tokens", "many"), "--tokens many is not a number"),
        ((own, *text, "--tokens", 0), "--tokens 0 leaves nothing to measure"),
        (
            (place / "gpt2", *text, "--tokens", 8, "--window", 8),
            "--tokens 8 is too small: 7 of them would be measured, for 12 features; ask for at "
            "least 16, and 688 for",
        ),
        ((here / "gone", *text), "There is no folder"),
        (("./gone", *text), "There is no folder ./gone"),
        (("someone/no-such-model", *text), "hub cannot be reached"),
        ((here / "hollow", *text), "has no config.json, so it is not a Hugging Face folder"),
        ((here / "remote", *text), "--trust-remote-code if you trust it"),
        ((here / "unknown", *text), "cannot be loaded"),
        ((here / "deeper", *text), "has no weights for 24 parameters"),
        ((here / "cut", *text), "cannot be loaded"),
        ((here / "code", *text), "which lawscope does not execute"),
        ((here / "bare", *text), "has no tokenizer that can be read"),
        ((here / "sick", *text), "Block 'transformer.h.2' gives NaN"),
        ((here / "narrow", *text), "do not belong together: the model embeds 40 tokens"),
        ((here / "broad", *text), "do not belong together: the model embeds 400 tokens"),
        ((place / "bert", *text), "--task masked"),
        ((place / "t5", *text), "--task encoder-decoder"),
        ((place / "gpt2", *text, "--task", "encoder-decoder"), "leave out --task"),
        ((place / "gpt2", *text, "--task", "classify"), "--task classify is not known"),
        ((place / "gpt2", *text, "--window", 33), "longer than the 32 tokens the model can read"),
        ((place / "gpt2", *text, "--window", 1), "--window"),
        ((own, *text), "within its context"),
        ((place / "gpt2", *text, "--dtype", "int8"), "choose float32, bfloat16, float16"),
        ((place / "gpt2", *text, "--targets", "next,later"), "'later' is not known"),
        (
            (place / "bert", *text, "--task", "masked", "--targets", "current"),
            "no meaning with --task masked",
        ),
        ((place / "gpt2", *text, "--precision", "half"), "precision='half' is not known"),
        ((place / "gpt2", *text, "--normalization", "mine"), "normalization='mine' is not known"),
        ((place / "gpt2", *text, "--every", 9), "every=9 leaves out all of the model's 4 blocks"),
        (
            (place / "gpt2", *text, "--laws", "separation", "--folds", 4),
            "--folds is about next_token, which is not among --laws",
        ),
        ((place / "gpt2", *text, "--checkpoint", "w.pt"), "--checkpoint is for .py targets"),
        ((place / "gpt2", *text, "--data", "mnist"), "--data is about labelled data"),
        ((place / "gpt2",), "add --text FILE"),
        ((own, "--window", 8), "--window is about a language model; add --text"),
        ((own, *text, "--device", "auto"), "name a device"),
        ((here / "no.py", *text), "gives no tokenizer"),
        ((here / "odd.py", *text), "The tokenizer is a int"),
        ((here / "raising.py", *text), "RuntimeError: my forward"),
        ((here / "leaving.py", *text), "ended the program (SystemExit: 4)"),
        ((here / "meta.py", *text), "is on the meta device"),
    ]


def test_every_mistake_is_a_sentence_and_exit_code_2(lawscope, language_models, tmp_path):
    for arguments, sentence in mistakes(language_models, tmp_path):
        code, out, err = lawscope("scan", *arguments, "--json")
        assert code == 2, (arguments, out, err)
        assert sentence in err, (arguments, err)
        assert out == ""
        assert "Traceback" not in err
        assert "executed!" not in err


def test_how_many_tokens_are_missing_is_right(lawscope, language_models, tmp_path):
    letters = folders.text(20)
    arguments = ("scan", language_models / "own.py", "--window", 8, "--no-control", "--json")
    (tmp_path / "t.txt").write_text(letters[:15])
    code, _, err = lawscope(*arguments, "--text", "t.txt")
    assert code == 2
    # 12 features need 13 tokens, and each window of 8 gives 7.
    assert "gives 15 tokens, 7 of them to measure, for 12 features: at least 1 are missing" in err
    (tmp_path / "t.txt").write_text(letters[: 8 + 8])
    code, _, err = lawscope(*arguments, "--text", "t.txt")
    assert code == 0, err


def test_without_packages_the_remedy_is_said(lawscope, language_models, monkeypatch, tmp_path):
    place = language_models
    (tmp_path / "m.gguf").write_bytes(b"GGUF")
    with monkeypatch.context() as patch:
        patch.setattr("lawscope.zoo.networks.hugging_face._has", lambda name: False)
        code, _, err = lawscope("scan", "m.gguf", "--text", place / "text.txt")
        assert code == 2
        assert "needs gguf and accelerate to be read" in err
        assert 'pip install "lawscope[llm]"' in err
        patch.setattr("lawscope.zoo.networks.hugging_face._has", lambda name: True)
        code, _, err = lawscope(
            "scan", place / "gpt2", "--gguf", "gone.gguf", "--text", place / "text.txt"
        )
        assert code == 2
        assert "no GGUF file gone.gguf" in err
        code, _, err = lawscope("scan", "m.gguf", "--text", place / "text.txt")
    assert code == 2
    assert "m.gguf cannot be read as a language model in GGUF" in err
    monkeypatch.setitem(sys.modules, "transformers", None)
    code, _, err = lawscope("scan", place / "gpt2", "--text", place / "text.txt")
    assert code == 2
    assert 'needs transformers: pip install "lawscope[llm]"' in err


def test_out_of_memory_says_what_to_lower(lawscope, language_models, tmp_path):
    (tmp_path / "big.py").write_text(
        folders.OWN + "\nclass Big(torch.nn.Module):\n"
        "    def __init__(self):\n        super().__init__(); self.inner = model()\n"
        "    def forward(self, ids):\n        if len(ids) > 4:\n"
        "            raise torch.OutOfMemoryError('CUDA out of memory')\n"
        "        return self.inner(ids)\n"
        "small = model\nbuilt = Big()\ndel model\nmodel = built\n"
    )
    text = ("--text", language_models / "text.txt", "--window", 32, "--json")
    code, _, err = lawscope("scan", "big.py", *text)
    assert code == 2
    for words in ("8 sequences of 32 tokens", "window", "dtype", "fewer blocks"):
        assert words in err


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError("You are trying to access a gated repo."), "is gated: ask for access"),
        (OSError("x is not a valid model identifier"), "nor a model on the hub"),
        (ValueError("set the option `trust_remote_code=True`"), "trust_remote_code=True"),
        (RuntimeError("first line\nsecond"), "as a language model: first line."),
    ],
)
def test_what_the_hub_says_becomes_a_sentence(error, words):
    assert words in _sentence(Source("some/model"), "model", error)


def test_running_code_of_a_model_needs_a_word(lawscope, language_models, tmp_path):
    place = language_models
    folder = changed(place, tmp_path / "own-code", {"auto_map": {"AutoConfig": "c.C"}})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "own-kind"}))
    (folder / "c.py").write_text("raise RuntimeError('it did run')\n")
    code, _, err = lawscope("scan", folder, "--text", place / "text.txt")
    assert code == 2
    assert "--trust-remote-code" in err
    code, _, err = lawscope("scan", folder, "--text", place / "text.txt", "--trust-remote-code")
    assert code == 2
    assert "it did run" in err


def test_sentences_of_the_library_are_spelled_as_options():
    said = spell_options("bert looks ahead; choose task='masked'.")
    assert said == "bert looks ahead; choose --task masked."


def test_files_that_a_shell_spreads_are_all_texts():
    given = ["scan", "gpt2", "--text", "a", "b", "--json"]
    assert _spread_texts(given) == ["scan", "gpt2", "--text", "a", "--text", "b", "--json"]
