"""Which tokens are measured, what is predicted there, and which ids models take."""

import numpy as np
import pytest
import torch
from tests.language_models import VOCABULARY, WIDTH, build, token_batches
from torch import nn

from lawscope.data.tokens import (
    TokenSource,
    check_ids,
    context_of,
    find_first_token,
    find_special_tokens,
    find_targets,
    hide_tokens,
    read_tokens,
    text_config,
    vocabulary_of,
)
from lawscope.errors import LawscopeError
from lawscope.zoo.networks.language import gpt

IDS = token_batches(1)[0]


def test_what_models_say():
    import transformers

    for family in ("gpt2", "llama", "mamba", "rwkv"):
        assert vocabulary_of(build(family)) == VOCABULARY
    assert context_of(build("gpt2")) == context_of(build("llama")) == 64
    assert context_of(build("mamba")) is None
    assert vocabulary_of(gpt(VOCABULARY, WIDTH, 2, 2, 64)) is None
    assert vocabulary_of(nn.Linear(2, 2), "encoder-decoder") is None
    t5 = transformers.T5Config(
        vocab_size=VOCABULARY, d_model=WIDTH, d_kv=8, d_ff=24, num_layers=1, num_heads=2
    )
    assert vocabulary_of(transformers.T5ForConditionalGeneration(t5), "encoder-decoder") == 60
    words = build("gpt2")
    words.resize_token_embeddings(70)
    assert vocabulary_of(words) == 70


def test_the_decoder_may_know_other_tokens_than_the_encoder():
    import transformers

    def bert(size, **more):
        return transformers.BertConfig(
            vocab_size=size, hidden_size=WIDTH, num_hidden_layers=1, num_attention_heads=2,
            intermediate_size=24, **more,
        )  # fmt: skip

    config = transformers.EncoderDecoderConfig.from_encoder_decoder_configs(bert(50), bert(70))
    model = transformers.EncoderDecoderModel(config)
    assert vocabulary_of(model, "encoder-decoder") == 70


def test_configurations_without_or_with_several_texts():
    class Several:
        def get_text_config(self):
            raise ValueError("Multiple valid text configs were found")

    several = Several()
    assert text_config(several) is several
    assert text_config(None) is None


def test_ids():
    check_ids(torch.tensor([[0, 59]]), 60)
    check_ids(torch.tensor([[0, 10**6]]), None)
    check_ids(torch.zeros(0, 5, dtype=torch.int64), 60)
    with pytest.raises(LawscopeError, match="token id 60, and the model embeds 60 tokens, 0 to 59"):
        check_ids(torch.tensor([[0, 60]]), 60)
    with pytest.raises(LawscopeError, match="token id -1"):
        check_ids(torch.tensor([[0, -1]]), None)


def test_places_need_every_target_and_no_padding():
    ids = torch.tensor([[9, 1, 2, 3, 4], [5, 6, 7, 0, 0], [0, 0, 9, 5, 6]])
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 0, 1, 1, 1]])
    batch = read_tokens({"input_ids": ids, "attention_mask": mask})
    rows, targets = find_targets(batch, ["next"], None)
    assert targets[:, 0].tolist() == [1, 2, 3, 4, 6, 7, 5, 6]
    assert (rows // 5).tolist() == [0, 0, 0, 0, 1, 1, 2, 2]
    without_bos, _ = find_targets(batch, ["next"], 9)
    assert ids.flatten()[without_bos].tolist() == [1, 2, 3, 5, 6, 5]
    _, several = find_targets(batch, ["next", "next-next", "current", "previous"], None)
    assert several.tolist() == [[2, 3, 1, 9], [3, 4, 2, 1]]


def test_hidden_tokens_do_not_depend_on_the_batch():
    whole = read_tokens(IDS)
    ids, rows, targets = hide_tokens(whole, 99, {0}, range(10, 16), seed=3)
    assert (ids == 99).sum() == len(rows) == round(0.15 * 20) * len(IDS)
    assert IDS.flatten()[rows].tolist() == targets[:, 0].tolist()
    part, _, _ = hide_tokens(read_tokens(IDS[2:4]), 99, {0}, range(12, 14), seed=3)
    assert torch.equal(part, ids[2:4])


def test_special_tokens_of_configurations():
    from transformers import BertConfig, Gemma3Config, LlamaConfig

    gemma = Gemma3Config()  # also sees: its text has a configuration of its own
    assert find_first_token(gemma) == gemma.text_config.bos_token_id == 2
    assert find_first_token(LlamaConfig()) == 1
    assert find_first_token(BertConfig()) is find_first_token(None) is None
    assert find_special_tokens(LlamaConfig(eos_token_id=[2, 9])) == {1, 2, 9}
    assert find_special_tokens(gemma) >= {0, 1, 2}


@pytest.mark.parametrize(
    ("raw", "match"),
    [
        (torch.randn(2, 5), "float32 of shape"),
        (torch.zeros(2, 1, dtype=torch.int64), "one token"),
        ({"labels": IDS}, "'input_ids'"),
        ("text", "str"),
        ({"input_ids": IDS, "attention_mask": IDS[:, :3]}, "attention_mask has shape"),
    ],
)
def test_what_is_no_batch_of_tokens(raw, match):
    with pytest.raises(LawscopeError, match=match):
        read_tokens(raw)


@pytest.mark.parametrize("bos", ["confg", 1.5, True, -1])
def test_a_first_token_that_is_none_is_said(bos):
    with pytest.raises(LawscopeError, match="is not a token id; give one, 'config' or None"):
        TokenSource(token_batches(), bos=bos)


def test_ids_of_numpy_are_token_ids():
    special = np.array([1, 2])
    source = TokenSource(
        token_batches(), None, "masked", mask_token=np.int64(3), special_tokens=special
    )
    assert source.special_tokens == {1, 2, 3}


def test_labels_per_token_beside_the_ids_are_left_out():
    ids = [torch.randint(0, 9, (4, 6)) for _ in range(2)]
    alone, beside = TokenSource(ids), TokenSource([(x, x.roll(-1, 1)) for x in ids])
    assert alone.total == beside.total == 48
    for mine, theirs in zip(alone, beside, strict=True):
        assert torch.equal(mine.first, theirs.first)
        assert torch.equal(mine.tokens.targets, theirs.tokens.targets)
