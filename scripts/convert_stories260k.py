"""Make a Hugging Face folder of stories260K, a small Llama in the layout of llama2.c.

    python scripts/convert_stories260k.py stories260K.bin tok512.bin FOLDER

The model and its tokenizer are those of karpathy/tinyllamas (MIT), trained on TinyStories (Eldan &
Li 2023). In the folder ``stories260k`` of a data directory ``next-token/law`` finds it. Needs
transformers.
"""

from __future__ import annotations

import argparse
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

HEADER = ("dim", "hidden", "layers", "heads", "kv_heads", "vocabulary", "context")
UNKNOWN, BEGIN, END = 0, 1, 2
BYTES = 256
# The tokenizers of Llama write a blank so.
BLANK = "▁"
Piece = tuple[float, str]


def read_weights(path: Path) -> tuple[dict[str, int], dict[str, Tensor]]:
    """Read sizes and weights, named as in ``LlamaForCausalLM``, from a file of llama2.c.

    After a header of seven 32-bit integers come float32 arrays, those of all layers together:
    embedding, norms before attention, query, key, value and output maps, norms before the feed-
    forward part, its three maps, the last norm, cosines and sines of the positions, and the head
    where the size of the vocabulary is negative; otherwise the head is the embedding.
    """
    content = path.read_bytes()
    sizes = dict(zip(HEADER, struct.unpack("<7i", content[:28]), strict=True))
    shared, sizes["vocabulary"] = sizes["vocabulary"] > 0, abs(sizes["vocabulary"])
    d, hidden, layers, vocabulary = (sizes[k] for k in ("dim", "hidden", "layers", "vocabulary"))
    head = d // sizes["heads"]
    keys = sizes["kv_heads"] * head
    numbers = torch.from_numpy(np.frombuffer(content, "<f4", offset=28).copy())

    def take(*shape: int) -> Tensor:
        nonlocal numbers
        count = int(np.prod(shape))
        found, numbers = numbers[:count].view(shape), numbers[count:]
        return found

    embedding = take(vocabulary, d)
    by_layer = {
        "input_layernorm": take(layers, d),
        "self_attn.q_proj": halves(take(layers, d, d), head),
        "self_attn.k_proj": halves(take(layers, keys, d), head),
        "self_attn.v_proj": take(layers, keys, d),
        "self_attn.o_proj": take(layers, d, d),
        "post_attention_layernorm": take(layers, d),
        "mlp.gate_proj": take(layers, hidden, d),
        "mlp.down_proj": take(layers, d, hidden),
        "mlp.up_proj": take(layers, hidden, d),
    }
    weights = {"model.embed_tokens.weight": embedding, "model.norm.weight": take(d)}
    take(2, sizes["context"], head // 2)
    weights["lm_head.weight"] = embedding if shared else take(vocabulary, d)
    if len(numbers):
        raise ValueError(f"{path} has {len(numbers)} numbers more than its header says")
    for name, stacked in by_layer.items():
        for index, weight in enumerate(stacked):
            weights[f"model.layers.{index}.{name}.weight"] = weight
    return sizes, weights


def halves(maps: Tensor, head: int) -> Tensor:
    """Put the rows of query or key maps (layers, heads · head, d) in the order of transformers.

    llama2.c turns neighbours (0, 1), (2, 3), … of a head by the position, transformers the pairs
    (0, head/2), (1, head/2 + 1), ….
    """
    layers, rows, d = maps.shape
    pairs = maps.view(layers, rows // head, head // 2, 2, d)
    return pairs.transpose(2, 3).reshape(layers, rows, d)


def read_pieces(path: Path) -> list[Piece]:
    """Read score and text of every token from a tokenizer of llama2.c."""
    content, at, found = path.read_bytes(), 4, []
    while at < len(content):
        score, length = struct.unpack_from("<fi", content, at)
        at += 8
        found.append((score, content[at : at + length].decode()))
        at += length
    return found


def make_tokenizer(pieces: list[Piece]) -> Any:
    """Return the tokenizer: bytes for what has no piece, then pairs joined, best score first."""
    from tokenizers import Tokenizer, decoders, models, normalizers, processors
    from transformers import PreTrainedTokenizerFast

    names = {UNKNOWN: "<unk>", BEGIN: "<s>", END: "</s>"}
    texts = [names.get(i, text.replace(" ", BLANK)) for i, (_, text) in enumerate(pieces)]
    vocabulary = {text: number for number, text in enumerate(texts)}
    first = END + 1 + BYTES
    joined = sorted(range(first, len(pieces)), key=lambda number: -pieces[number][0])
    merges = [
        (texts[number][:cut], texts[number][cut:])
        for number in joined
        for cut in range(1, len(texts[number]))
        if texts[number][:cut] in vocabulary and texts[number][cut:] in vocabulary
    ]
    made = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True))
    made.normalizer = normalizers.Sequence(
        [normalizers.Prepend(BLANK), normalizers.Replace(" ", BLANK)]
    )
    written = decoders.Replace(BLANK, " "), decoders.ByteFallback(), decoders.Fuse()
    made.decoder = decoders.Sequence([*written, decoders.Strip(" ", 1, 0)])
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", BEGIN)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )


def convert(model: Path, tokenizer: Path, folder: Path) -> None:
    """Write the folder."""
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes, weights = read_weights(model)
    config = LlamaConfig(
        vocab_size=sizes["vocabulary"], hidden_size=sizes["dim"],
        intermediate_size=sizes["hidden"], num_hidden_layers=sizes["layers"],
        num_attention_heads=sizes["heads"], num_key_value_heads=sizes["kv_heads"],
        max_position_embeddings=sizes["context"], rms_norm_eps=1e-5,
        bos_token_id=BEGIN, eos_token_id=END, tie_word_embeddings=False,
    )  # fmt: skip
    made = LlamaForCausalLM(config)
    made.load_state_dict(weights)
    made.save_pretrained(folder)
    make_tokenizer(read_pieces(tokenizer)).save_pretrained(folder)
    origin = {"model": "karpathy/tinyllamas stories260K", "licence": "MIT"}
    (folder / "origin.json").write_text(json.dumps(origin) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for name in ("model", "tokenizer", "folder"):
        parser.add_argument(name, type=Path)
    convert(**vars(parser.parse_args()))
