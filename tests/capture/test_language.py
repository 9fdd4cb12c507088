"""Blocks and final norm of language models, found by watching them run."""

import copy

import pytest
import torch
from tests.language_models import CAUSAL, DEPTH, VOCABULARY, WIDTH, build, token_batches
from torch import nn
from torch.nn import functional as F

from lawscope.capture.language_probe import _telling
from lawscope.capture.language_session import open_language
from lawscope.capture.places import configured_special, first_token, mask_tokens, places
from lawscope.capture.token_batches import model_inputs, read_tokens
from lawscope.errors import LawscopeError
from lawscope.zoo.language import gpt

IDS = token_batches(1)[0]


def found(model, ids=IDS, task="causal"):
    with open_language(model, read_tokens(ids, task), task) as session:
        return session.found


@pytest.mark.parametrize("family", CAUSAL)
def test_families(family):
    model = build(family).train()
    before = copy.deepcopy(model.state_dict())
    plain = {n: v for n, v in vars(model.base_model).items() if isinstance(v, bool | int)}
    look = found(model)
    assert len(look.blocks.names) == DEPTH
    assert [name.rsplit(".", 1)[1] for name in look.blocks.names] == list("0123")
    assert look.blocks.width == WIDTH
    assert look.norm.kind == CAUSAL[family][3]
    # Left exactly as found, also RWKV, which rescales its own weights in eval mode.
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    assert plain == {n: v for n, v in vars(model.base_model).items() if n in plain}
    assert all(m.training for m in model.modules())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


@pytest.mark.parametrize("family", ["llama", "gemma2", "olmo", "gpt2", "gpt-1"])
def test_the_norm_is_found_in_float64(family):
    """Llama's and Gemma's compute in float32 inside, whatever the dtype of the stream."""
    assert found(build(family).double()).norm.kind == CAUSAL[family][3]


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
        assert found(model.to(dtype), batch).norm.kind == CAUSAL[family][3]
        repeated = ids.masked_fill(mask == 0, 3)
        assert found(model, repeated).norm.kind == CAUSAL[family][3]


def test_windows_with_most_different_tokens_are_looked_at():
    ids = torch.tensor([[9, 1, 2, 3, 4, 5, 6, 7, 7, 7, 7, 7, 7, 7], [1, 2, 3, 4, 5, 6, 8] * 2])
    mask = torch.ones_like(ids)
    mask[0, 0] = 0  # one less than seven
    batch = read_tokens({"input_ids": ids, "attention_mask": mask})
    assert _telling(batch).tolist() == [[1, 2, 3, 4, 5, 6, 8]] * 2
    assert _telling(read_tokens(ids[:1])).tolist() == [[9, 1, 2, 3, 4, 5, 6]]


def test_plain_pytorch():
    look = found(gpt(VOCABULARY, WIDTH, DEPTH, 2, 64))
    assert look.blocks.names == ("blocks.0", "blocks.1", "blocks.2", "blocks.3")
    assert (look.norm.kind, look.norm_module) == ("LayerNorm", "LayerNorm")


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
    seen = {}
    tokens = read_tokens(IDS)
    with open_language(model, tokens, "causal") as session:
        inputs = model_inputs(model, tokens, tokens.ids)
        session.run(inputs, tokens.ids.shape, lambda i, x: seen.setdefault(i, x.clone()))
    assert sorted(seen) == [0, 1, 2, 3]
    assert all(x.shape == (*IDS.shape, WIDTH) for x in seen.values())


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
    assert found(Model(nn.ModuleList(Block() for _ in range(3)), norm)).norm.kind == kind


def test_blocks_in_a_sequential_and_as_attributes():
    torch.manual_seed(0)
    assert len(found(Model(nn.Sequential(Block(), Block(), Block()))).blocks.names) == 3
    holder = nn.Module()
    for i in range(3):
        setattr(holder, f"layer{i}", Block())
    assert found(Model(holder)).blocks.names == ("blocks.layer0", "blocks.layer1", "blocks.layer2")


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
    names = found(encoder_decoder(kind, encoder, decoder), batch, "encoder-decoder").blocks.names
    assert [name[-len(path) - 2 :] for name in names] == [f"{path}.{i}" for i in range(decoder)]


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

    assert found(Model(nn.ModuleList([Nested(Block(), Feed())]))).blocks.names == ("blocks.0",)
    inner = found(Model(nn.ModuleList([Nested(Block(), Block())]))).blocks.names
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
    assert len(found(model, task="masked").blocks.names) == 3


def test_parameters_written_to_are_put_back():
    class Halves(Block):
        def forward(self, x):
            self.mix.weight.mul_(0.5)
            self.mix.bias.data.add_(1)
            self.runs = self.runs + 1
            return super().forward(x)

    torch.manual_seed(0)
    blocks = nn.ModuleList(Halves() for _ in range(2))
    for block in blocks:
        block.runs = 0
    before = copy.deepcopy(blocks.state_dict())
    found(Model(blocks))
    assert all(torch.equal(before[k], v) for k, v in blocks.state_dict().items())
    assert [block.runs for block in blocks] == [0, 0]


def test_places_need_every_target_and_no_padding():
    ids = torch.tensor([[9, 1, 2, 3, 4], [5, 6, 7, 0, 0], [0, 0, 9, 5, 6]])
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [0, 0, 1, 1, 1]])
    batch = read_tokens({"input_ids": ids, "attention_mask": mask})
    all_next = places(batch, ["next"], None)
    assert all_next.targets[:, 0].tolist() == [1, 2, 3, 4, 6, 7, 5, 6]
    assert all_next.sequences.tolist() == [0, 0, 0, 0, 1, 1, 2, 2]
    without_bos = places(batch, ["next"], 9)
    assert ids.flatten()[without_bos.rows].tolist() == [1, 2, 3, 5, 6, 5]
    several = places(batch, ["next", "next-next", "current", "previous"], None)
    assert several.targets.tolist() == [[2, 3, 1, 9], [3, 4, 2, 1]]


def test_hidden_tokens_do_not_depend_on_the_batch():
    whole = read_tokens(IDS)
    ids, where = mask_tokens(whole, 99, {0}, range(10, 16), seed=3)
    assert (ids == 99).sum() == len(where.rows) == round(0.15 * 20) * len(IDS)
    assert IDS.flatten()[where.rows].tolist() == where.targets[:, 0].tolist()
    part, _ = mask_tokens(read_tokens(IDS[2:4]), 99, {0}, range(12, 14), seed=3)
    assert torch.equal(part, ids[2:4])


def test_special_tokens_of_configurations():
    from transformers import BertConfig, Gemma3Config, LlamaConfig

    gemma = Gemma3Config()  # also sees: its text has a configuration of its own
    assert first_token(gemma) == gemma.text_config.bos_token_id == 2
    assert first_token(LlamaConfig()) == 1
    assert first_token(BertConfig()) is first_token(None) is None
    assert configured_special(LlamaConfig(eos_token_id=[2, 9])) == {1, 2, 9}
    assert configured_special(gemma) >= {0, 1, 2}


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
