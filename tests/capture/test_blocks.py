"""Blocks and final norm of language models, found by watching them run."""

import copy

import pytest
import torch
from tests.language_models import CAUSAL, DEPTH, VOCABULARY, WIDTH, build, token_batches
from tests.observers import Keep
from torch import nn
from torch.nn import functional as F

from lawscope.capture.session import Session
from lawscope.capture.taps import Tap
from lawscope.data.tokens import TokenSource
from lawscope.errors import LawscopeError
from lawscope.zoo.networks.language import gpt

IDS = token_batches(1)[0]


def found(model, ids=IDS, task="causal"):
    source = TokenSource([ids], task=task, mask_token=0 if task == "masked" else None)
    session = Session(model, source)
    assert session.blocks.names[0] == "embedding"
    return session


@pytest.mark.parametrize("family", CAUSAL)
def test_families(family):
    model = build(family).train()
    before = copy.deepcopy(model.state_dict())
    plain = {n: v for n, v in vars(model.base_model).items() if isinstance(v, bool | int)}
    look = found(model)
    assert len(look.blocks.names[1:]) == DEPTH
    assert [name.rsplit(".", 1)[1] for name in look.blocks.names[1:]] == list("0123")
    assert {s.shape[-1] for s in look.blocks} == {WIDTH}
    assert look.final_norm.kind == CAUSAL[family][3]
    # Left exactly as found, also RWKV, which rescales its own weights in eval mode.
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    assert plain == {n: v for n, v in vars(model.base_model).items() if n in plain}
    assert all(m.training for m in model.modules())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


@pytest.mark.parametrize("family", ["llama", "gemma2", "olmo", "gpt2", "gpt-1"])
def test_the_norm_is_found_in_float64(family):
    """Llama's and Gemma's compute in float32 inside, whatever the dtype of the stream."""
    assert found(build(family).double()).final_norm.kind == CAUSAL[family][3]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("family", ["llama", "gpt-neox", "gemma", "bloom"])
def test_the_norm_is_found_where_the_first_tokens_are_padding(family, dtype):
    """Padding looks the same everywhere, and any norm fits a row or two."""
    ids, mask = IDS.clone(), torch.ones_like(IDS)
    ids[:, :9], mask[:, :9] = 0, 0
    for seed in range(3):
        torch.manual_seed(seed)
        model = build(family)
        for parameter in model.parameters():
            parameter.data += 0.05 * torch.randn_like(parameter)
        batch = {"input_ids": ids, "attention_mask": mask}
        assert found(model.to(dtype), batch).final_norm.kind == CAUSAL[family][3]
        repeated = ids.masked_fill(mask == 0, 3)
        assert found(model, repeated).final_norm.kind == CAUSAL[family][3]


def test_windows_with_most_different_tokens_are_looked_at():
    ids = torch.tensor([[9, 1, 2, 3, 4, 5, 6, 7, 7, 7, 7, 7, 7, 7], [1, 2, 3, 4, 5, 6, 8] * 2])
    mask = torch.ones_like(ids)
    mask[0, 0] = 0  # one less than seven

    def few(batch):
        return TokenSource([batch], task="masked", mask_token=0).few().first.tolist()

    assert few({"input_ids": ids, "attention_mask": mask}) == [[1, 2, 3, 4, 5, 6, 8]] * 2
    assert few(ids[:1]) == [[9, 1, 2, 3, 4, 5, 6]]


def test_plain_pytorch():
    look = found(gpt(VOCABULARY, WIDTH, DEPTH, 2, 64))
    assert look.blocks.names[1:] == ("blocks.0", "blocks.1", "blocks.2", "blocks.3")
    assert (look.final_norm.kind, look.final_norm_module) == ("LayerNorm", "LayerNorm")


class Block(nn.Module):
    """x ↦ x + tanh(Wx) of this token and the mean of those before, wrapped as asked."""

    def __init__(self, wrap=lambda x: x):
        super().__init__()
        self.mix, self.wrap = nn.Linear(WIDTH, WIDTH), wrap

    def forward(self, x):
        past = x.cumsum(dim=1) / torch.arange(1, x.shape[1] + 1)[:, None]
        return self.wrap(x + torch.tanh(self.mix(past)))


class Model(nn.Module):
    """Embedding, blocks, and a norm that is a function."""

    def __init__(self, blocks, norm=lambda x: x):
        super().__init__()
        self.words, self.head = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, VOCABULARY)
        self.blocks, self.norm = blocks, norm

    def forward(self, ids):
        x = self.words(ids)
        for block in self.blocks.children():
            x = block(x)
            x = x["hidden"] if isinstance(x, dict) else x
            x = x[0] if isinstance(x, tuple | list) else x
        return self.head(self.norm(x))


@pytest.mark.parametrize(
    "wrap", [lambda x: (x, None), lambda x: [x], lambda x: {"hidden": x}, lambda x: x]
)
def test_outputs_are_unwrapped_by_type(wrap):
    torch.manual_seed(0)
    model = Model(nn.ModuleList(Block(wrap) for _ in range(3)))
    session = Session(model, TokenSource([IDS]))
    keep = Keep(*(Tap(station, rows="positions") for station in session.blocks))
    session.run([keep])
    assert len(keep.rows) == 4
    assert all(keep.all(tap).shape == (IDS.numel(), WIDTH) for tap in keep.rows)


@pytest.mark.parametrize(
    ("norm", "kind"),
    [
        (lambda x: F.layer_norm(x, (WIDTH,)), "LayerNorm"),
        (lambda x: F.rms_norm(x, (WIDTH,), eps=1e-6) * torch.linspace(1, 2, WIDTH), "RMSNorm"),
        (lambda x: 3 * x + 1, "none"),
    ],
)
def test_a_norm_that_is_no_module(norm, kind):
    torch.manual_seed(0)
    assert found(Model(nn.ModuleList(Block() for _ in range(3)), norm)).final_norm.kind == kind


def test_blocks_in_a_sequential_and_as_attributes():
    torch.manual_seed(0)
    assert len(found(Model(nn.Sequential(Block(), Block(), Block()))).blocks.names[1:]) == 3
    holder = nn.Module()
    for i in range(3):
        setattr(holder, f"layer{i}", Block())
    names = found(Model(holder)).blocks.names[1:]
    assert names == tuple(f"blocks.layer{i}" for i in range(3))


def encoder_decoder(kind, encoder, decoder):
    import transformers

    if kind == "t5":
        config = transformers.T5Config(
            vocab_size=VOCABULARY, d_model=WIDTH, d_kv=8, d_ff=24, num_heads=2,
            num_layers=encoder, num_decoder_layers=decoder, decoder_start_token_id=0,
        )  # fmt: skip
        return transformers.T5ForConditionalGeneration(config)
    config = transformers.BartConfig(
        vocab_size=VOCABULARY, d_model=WIDTH, encoder_layers=encoder, decoder_layers=decoder,
        encoder_attention_heads=2, decoder_attention_heads=2, encoder_ffn_dim=24,
        decoder_ffn_dim=24, max_position_embeddings=64,
    )  # fmt: skip
    return transformers.BartForConditionalGeneration(config)


@pytest.mark.parametrize(("kind", "path"), [("t5", "decoder.block"), ("bart", "decoder.layers")])
@pytest.mark.parametrize(("encoder", "decoder"), [(8, 2), (4, 1), (1, 1), (2, 4)])
@pytest.mark.parametrize("lengths", [(12, 12), (20, 16), (2, 2), (9, 20)])
def test_the_decoder_is_measured_whatever_the_lengths(kind, path, encoder, decoder, lengths):
    torch.manual_seed(0)
    ids = torch.randint(5, VOCABULARY, (3, 20))
    batch = {"input_ids": ids[:, : lengths[0]], "decoder_input_ids": ids[:, : lengths[1]]}
    look = found(encoder_decoder(kind, encoder, decoder), batch, "encoder-decoder")
    assert [name[-len(path) - 2 :] for name in look.blocks.names[1:]] == [
        f"{path}.{i}" for i in range(decoder)
    ]


def test_layers_of_a_single_block_are_no_blocks():
    class Nested(nn.Module):
        def __init__(self, *layers):
            super().__init__()
            self.layers = nn.ModuleList(layers)

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    class Feed(Block):
        pass

    assert found(Model(nn.ModuleList([Nested(Block(), Feed())]))).blocks.names[1:] == ("blocks.0",)
    inner = found(Model(nn.ModuleList([Nested(Block(), Block())]))).blocks.names[1:]
    assert inner == ("blocks.0.layers.0", "blocks.0.layers.1")


def test_no_blocks():
    with pytest.raises(LawscopeError, match="no blocks"):
        found(nn.Sequential(nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, VOCABULARY)))


class Ahead(nn.Module):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return x + self.mix(x.mean(dim=1, keepdim=True))


def test_a_model_that_looks_ahead_is_refused():
    torch.manual_seed(0)
    model = Model(nn.ModuleList(Ahead() for _ in range(3)))
    with pytest.raises(LawscopeError, match=r"looks ahead.*task='masked'"):
        found(model)
    assert len(found(model, task="masked").blocks.names[1:]) == 3
