"""Tiny Hugging Face folders with a tokenizer of their own; nothing is downloaded."""

from pathlib import Path

import torch

WORDS = "the law of next token prediction says that every block of a trained model helps".split()
VOCABULARY = 64
CONTEXT = 32
OWN = """
import torch
from lawscope.zoo.networks.language import gpt

def model():
    torch.manual_seed(3)
    return gpt(vocabulary=128, width=12, depth=4, heads=2, context=32)

def tokenizer(text):
    return [min(ord(letter), 127) for letter in text]
"""


def text(words: int, seed: int = 0) -> str:
    """Words in random order, ten to a line."""
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(0, len(WORDS), (words,), generator=generator).tolist()
    lines = [drawn[i : i + 10] for i in range(0, words, 10)]
    return "".join(" ".join(WORDS[k] for k in line) + "\n" for line in lines)


def tokenizer(bos: bool = False, vocabulary: int = VOCABULARY):
    """A BPE of the words above; with ``bos`` it begins every sequence, as Llama's does."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    special = ["<unk>", "<s>", "</s>", "[MASK]", "[CLS]", "[SEP]"]
    made = Tokenizer(models.BPE(unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=special, show_progress=False
    )
    made.train_from_iterator([" ".join(WORDS)] * 3, trainer)
    if bos:
        made.post_processor = processors.TemplateProcessing(
            single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", 2)]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=made, unk_token="<unk>", bos_token="<s>", eos_token="</s>",
        mask_token="[MASK]",
    )  # fmt: skip


def gpt2_folder(folder: Path, *, bos: bool = False, **settings) -> Path:
    """A GPT-2 of four blocks."""
    from transformers import GPT2Config, GPT2LMHeadModel

    chosen = {"vocab_size": VOCABULARY, "n_embd": 12, "n_layer": 4, "n_head": 2} | settings
    torch.manual_seed(0)
    config = GPT2Config(n_positions=CONTEXT, bos_token_id=1, eos_token_id=2, **chosen)
    return saved(GPT2LMHeadModel(config), folder, bos)


def bert_folder(folder: Path, kind: str = "BertForMaskedLM") -> Path:
    """A masked model, or its encoder alone."""
    import transformers
    from transformers import BertConfig

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=VOCABULARY, hidden_size=12, num_hidden_layers=4, num_attention_heads=2,
        intermediate_size=24, max_position_embeddings=CONTEXT,
    )  # fmt: skip
    return saved(getattr(transformers, kind)(config), folder)


def t5_folder(folder: Path) -> Path:
    """An encoder–decoder."""
    from transformers import T5Config, T5ForConditionalGeneration

    torch.manual_seed(0)
    config = T5Config(
        vocab_size=VOCABULARY, d_model=12, num_layers=4, num_heads=2, d_ff=24, d_kv=6,
        decoder_start_token_id=0,
    )  # fmt: skip
    return saved(T5ForConditionalGeneration(config), folder)


def saved(model, folder: Path, bos: bool = False) -> Path:
    """The folder that ``save_pretrained`` writes, with a tokenizer."""
    from lawscope.zoo.networks.hugging_face import quietly

    with quietly():
        model.save_pretrained(folder)
        tokenizer(bos).save_pretrained(folder)
    return folder
