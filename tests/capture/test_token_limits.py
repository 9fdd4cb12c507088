"""Which ids and how many tokens models take."""

import pytest
import torch
from tests.language_models import VOCABULARY, WIDTH, build
from torch import nn

from lawscope.capture.token_limits import check_ids, context_of, text_config, vocabulary_of
from lawscope.errors import LawscopeError
from lawscope.zoo.language import gpt


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
