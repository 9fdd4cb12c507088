"""The converter of llama2.c models: the network says what llama2.c would, in the same tokens."""

import struct
from importlib.util import module_from_spec, spec_from_file_location
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

pytest.importorskip("transformers")

SCRIPT = Path(__file__).parent.parent / "scripts" / "convert_stories260k.py"
DIM, HIDDEN, LAYERS, HEADS, KV_HEADS, CONTEXT = 16, 24, 2, 4, 2, 12
HEAD = DIM // HEADS
PIECES = [" a", "b", " ", "a", "ab", " ab", "c"]


@pytest.fixture(scope="module")
def script():
    spec = spec_from_file_location("convert_stories260k", SCRIPT)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A model drawn at random and a tokenizer, in the layout of llama2.c."""
    folder = tmp_path_factory.mktemp("llama2c")
    vocabulary = 3 + 256 + len(PIECES)
    shapes = {
        "embedding": (vocabulary, DIM), "norm1": (LAYERS, DIM), "wq": (LAYERS, DIM, DIM),
        "wk": (LAYERS, KV_HEADS * HEAD, DIM), "wv": (LAYERS, KV_HEADS * HEAD, DIM),
        "wo": (LAYERS, DIM, DIM), "norm2": (LAYERS, DIM), "w1": (LAYERS, HIDDEN, DIM),
        "w2": (LAYERS, DIM, HIDDEN), "w3": (LAYERS, HIDDEN, DIM), "norm": (DIM,),
        "positions": (2, CONTEXT, HEAD // 2),
    }  # fmt: skip
    rng = np.random.default_rng(0)
    weights = {k: rng.normal(0, 0.3, shape).astype("<f4") for k, shape in shapes.items()}
    sizes = (DIM, HIDDEN, LAYERS, HEADS, KV_HEADS, vocabulary, CONTEXT)
    content = struct.pack("<7i", *sizes) + b"".join(w.tobytes() for w in weights.values())
    (folder / "model.bin").write_bytes(content)
    texts = ["<unk>", "\n<s>\n", "\n</s>\n", *(f"<0x{i:02X}>" for i in range(256)), *PIECES]
    tokens = b"".join(
        struct.pack("<fi", -float(max(0, i - 259)), len(text.encode())) + text.encode()
        for i, text in enumerate(texts)
    )
    (folder / "tokens.bin").write_bytes(struct.pack("<i", 8) + tokens)
    return folder, weights, texts


def logits_of(weights, ids):
    """llama2.c, one position after the other: neighbours of a head turn by the position."""
    w = {name: values.astype(float) for name, values in weights.items()}
    x = w["embedding"][ids]

    def norm(rows, gain):
        return rows / np.sqrt((rows**2).mean(axis=1, keepdims=True) + 1e-5) * gain

    def turn(rows):
        pairs = rows.reshape(len(rows), -1, HEAD // 2, 2)
        angle = np.arange(len(rows))[:, None] * 10000.0 ** (-np.arange(0, HEAD, 2) / HEAD)
        cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
        a, b = pairs[..., 0], pairs[..., 1]
        return np.stack([a * cos - b * sin, a * sin + b * cos], axis=-1).reshape(rows.shape)

    for i in range(LAYERS):
        h = norm(x, w["norm1"][i])
        q, k, v = turn(h @ w["wq"][i].T), turn(h @ w["wk"][i].T), h @ w["wv"][i].T
        out = np.zeros_like(x)
        for head in range(HEADS):
            mine = slice(head * HEAD, (head + 1) * HEAD)
            theirs = slice(*(HEAD * (head * KV_HEADS // HEADS + j) for j in (0, 1)))
            scores = q[:, mine] @ k[:, theirs].T / np.sqrt(HEAD)
            scores[np.triu_indices(len(ids), 1)] = -np.inf
            share = np.exp(scores - scores.max(axis=1, keepdims=True))
            out[:, mine] = share / share.sum(axis=1, keepdims=True) @ v[:, theirs]
        x = x + out @ w["wo"][i].T
        h = norm(x, w["norm2"][i])
        gate = h @ w["w1"][i].T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ w["w3"][i].T)) @ w["w2"][i].T
    return norm(x, w["norm"]) @ w["embedding"].T


def tokens_of(texts, text):
    """llama2.c: bytes for what has no piece, then the best pair is joined, again and again."""
    known, ids = {t: i for i, t in enumerate(texts)}, [1]
    for sign in " " + text:
        ids += [known[sign]] if sign in known else [3 + byte for byte in sign.encode()]
    while True:
        pairs = [known.get(texts[a] + texts[b]) for a, b in pairwise(ids)]
        if not any(pairs):
            return ids
        best = min(number for number in pairs if number)
        at = pairs.index(best)
        ids[at : at + 2] = [best]


def test_the_folder_holds_the_same_network_and_the_same_tokens(script, files, tmp_path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder, weights, texts = files
    script.convert(folder / "model.bin", folder / "tokens.bin", tmp_path / "stories")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "stories")
    text = "ab a ba c äb  ab"
    ids = tokenizer(text)["input_ids"]
    assert ids == tokens_of(texts, text)
    assert tokenizer.decode(ids, skip_special_tokens=True) == text
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "stories").double()
    ids = ids[:CONTEXT]
    with torch.no_grad():
        ours = model(torch.tensor([ids])).logits[0].numpy()
    np.testing.assert_allclose(ours, logits_of(weights, ids), rtol=1e-5, atol=1e-6)


def test_a_file_of_another_size_is_said(script, files, tmp_path):
    longer = tmp_path / "longer.bin"
    longer.write_bytes((files[0] / "model.bin").read_bytes() + bytes(8))
    with pytest.raises(ValueError, match="has 2 numbers more than its header says"):
        script.read_weights(longer)
