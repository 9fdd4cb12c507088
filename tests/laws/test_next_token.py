"""The law of next-token prediction against stored features and least squares in float64."""

import copy
import dataclasses
import json

import numpy as np
import pytest
import torch
from tests.language_models import CAUSAL, DEPTH, VOCABULARY, WIDTH, build, token_batches
from torch import nn

import lawscope as ls
from lawscope.zoo.language import gpt

BATCHES = token_batches(8)  # 8 × 6 sequences of 20 tokens
FEW = "ignore:.*per feature.*:lawscope.errors.LawscopeWarning"


@pytest.fixture(scope="module")
def small():
    torch.manual_seed(0)
    model = gpt(VOCABULARY, WIDTH, DEPTH, 2, 64)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(6)
    return model.eval()


def measure(model, batches=BATCHES, **settings):
    return ls.next_token(model, batches, **{"control": None, **settings})


def residual(x, y):
    """1 − R² with intercept by lstsq in float64."""
    x, y = x.double().numpy(), y.double().numpy()
    design = np.hstack([np.ones((len(x), 1)), x])
    beta, *_ = np.linalg.lstsq(design, y, rcond=1e-6)
    return np.square(y - design @ beta).sum() / np.square(y - y.mean()).sum()


def normalised(x, kind, eps):
    x = x.double()
    if kind == "LayerNorm":
        x = x - x.mean(dim=-1, keepdim=True)
    scale = (x.square().mean(dim=-1, keepdim=True) + eps).sqrt()
    return x if kind == "none" else x / scale


def stored(model, container, batches, **inputs):
    """Features of the embedding and of every block, by hooks of the test's own."""
    blocks = list(model.get_submodule(container).children())
    kept = [[] for _ in range(len(blocks) + 1)]
    handles = [
        blocks[0].register_forward_pre_hook(
            lambda m, args, kwargs: kept[0].append((args or tuple(kwargs.values()))[0].clone()),
            with_kwargs=True,
        )
    ]
    for i, block in enumerate(blocks, start=1):

        def hook(m, args, out, i=i):
            kept[i].append((out[0] if isinstance(out, tuple | list) else out).clone())

        handles.append(block.register_forward_hook(hook))
    with torch.no_grad():
        for batch in batches:
            model(batch, **inputs)
    for handle in handles:
        handle.remove()
    return [torch.cat(parts) for parts in kept]


@pytest.mark.parametrize(
    ("family", "container", "eps"),
    [
        ("gpt2", "transformer.h", 1e-5),
        ("llama", "model.layers", 1e-6),
        ("gpt-1", "transformer.h", 0),
        ("mamba", "backbone.layers", 1e-5),
        ("mamba2", "backbone.layers", 1e-5),
        ("rwkv", "rwkv.blocks", 1e-5),
        ("bloom", "transformer.h", 1e-5),
    ],
)
def test_equals_least_squares_on_stored_features(family, container, eps):
    """Also the last block, which Mamba and RWKV would return twice and GPT-2 normalised."""
    # GPT-1's blocks end in a LayerNorm of float32: which of the combinations of dependent columns
    # is left out is then a matter of float32 rounding.
    rel = 1e-6 if family == "gpt-1" else 1e-9
    model = build(family)
    result = measure(model)
    assert result.final_norm == CAUSAL[family][3]
    features = stored(model, container, BATCHES)
    ids = torch.cat(BATCHES)
    assert result.n == ids[:, 1:].numel()
    for i, x in enumerate(features):
        kept = normalised(x, result.final_norm, eps)[:, :-1].flatten(0, 1)
        expected = residual(kept, ids[:, 1:].flatten())
        assert result.pr[i] == pytest.approx(expected, rel=rel), result.blocks[i]
    assert result.blocks == ("embedding", *(f"{container}.{i}" for i in range(DEPTH)))


def test_definitions_of_the_other_columns(small):
    result = measure(small)
    factor = (result.n - 1) / (result.n - result.rank - 1)
    assert result.pr_adjusted == pytest.approx(result.pr * factor)
    assert (result.pr_cv > result.pr).all()
    assert set(result.rank) == {WIDTH - 1}
    line = np.polyfit(np.arange(DEPTH), np.log(result.pr[1:]), 1)
    assert result.fit.slope == pytest.approx(line[0])
    assert result.fit.rho == pytest.approx(np.exp(line[0]))
    assert result.fit.interval["slope"][0] < result.fit.interval["slope"][1]
    assert result.ratio == pytest.approx(result.pr[-1] / result.pr[1])


def test_cross_validation_is_by_sequence(small):
    result = measure(small, folds=3)
    ids = torch.cat(BATCHES)
    x = normalised(stored(small, "blocks", BATCHES)[2], "LayerNorm", 1e-5)[:, :-1, :-1]
    y, fold = ids[:, 1:].double(), torch.arange(len(ids)) % 3
    errors = 0.0
    for f in range(3):
        train = x[fold != f].flatten(0, 1).numpy()
        design = np.hstack([np.ones((len(train), 1)), train])
        beta = np.linalg.lstsq(design, y[fold != f].flatten().numpy(), rcond=None)[0]
        test = x[fold == f].flatten(0, 1).numpy()
        predicted = np.hstack([np.ones((len(test), 1)), test]) @ beta
        errors += np.square(y[fold == f].flatten().numpy() - predicted).sum()
    whole = y.flatten().numpy()
    expected = errors / np.square(whole - whole.mean()).sum()
    assert result.pr_cv[2] == pytest.approx(expected, rel=1e-8)


def assert_same(a, b, rel=1e-9):
    for name in ("pr", "pr_adjusted", "pr_cv", "pr_onehot", "condition"):
        assert getattr(a, name) == pytest.approx(getattr(b, name), rel=rel), name
    assert a.n == b.n
    assert a.fit.interval["slope"] == pytest.approx(b.fit.interval["slope"], rel=1e-5)


def test_batches_dicts_and_generators_give_one_value(small):
    # In float64, because float32 layers round differently for another batch size.
    model = copy.deepcopy(small).double()
    whole = measure(model, [torch.cat(BATCHES)])
    assert_same(measure(model), whole)
    assert_same(measure(model, list(torch.cat(BATCHES))), whole)
    assert_same(measure(model, ({"input_ids": b} for b in BATCHES)), whole)
    assert_same(measure(model, torch.cat(BATCHES)), whole)


def test_padding_is_left_out_and_does_not_matter():
    model = build("llama").double()
    ids = torch.cat(BATCHES)
    padded = torch.cat([ids, torch.zeros(len(ids), 5, dtype=ids.dtype)], dim=1)
    mask = torch.arange(25).expand(len(ids), 25) < 20
    batch = {"input_ids": padded, "attention_mask": mask.long()}
    assert_same(measure(model, [batch]), measure(model, [ids]), rel=1e-8)


def test_the_first_token_is_left_out_when_it_is_bos():
    ids = torch.cat(BATCHES)
    ids = torch.cat([torch.full((len(ids), 1), 7), ids], dim=1)
    with_bos, without = build("gpt2", bos_token_id=7), build("gpt2")
    a, b = measure(with_bos, [ids]), measure(without, [ids])
    assert b.n - a.n == len(ids)
    assert "7 left out" in a.settings["bos"]
    features = normalised(stored(with_bos, "transformer.h", [ids])[1], "LayerNorm", 1e-5)
    expected = residual(features[:, 1:-1].flatten(0, 1), ids[:, 2:].flatten())
    assert a.pr[1] == pytest.approx(expected, rel=1e-9)


def test_two_targets_equal_two_runs_on_the_same_places(small):
    ids = torch.cat(BATCHES)
    both = measure(small, targets=("next", "current"))
    assert list(both.targets) == ["next", "current"]
    assert both.targets["next"] is both
    for name in ("next", "current"):
        alone = measure(small, targets=(name,))
        if name == "current":  # measured at the last token too, which has no next one
            x = normalised(stored(small, "blocks", [ids])[1], "LayerNorm", 1e-5)
            expected = residual(x[:, :-1].flatten(0, 1), ids[:, :-1].flatten())
            assert both.targets[name].pr[1] == pytest.approx(expected, rel=1e-9)
            assert alone.n == ids.numel()
        else:
            assert_same(both.targets[name], alone)
    assert "current" in both.to_dict()["others"]


@pytest.mark.parametrize(
    ("normalization", "kind", "eps"),
    [("none", "none", 0), ("rms-norm", "RMSNorm", 1e-6), ("layer-norm", "LayerNorm", 1e-5)],
)
def test_normalizations(small, normalization, kind, eps):
    result = measure(small, normalization=normalization)
    x = normalised(stored(small, "blocks", BATCHES)[3], kind, eps)[:, :-1].flatten(0, 1)
    expected = residual(x, torch.cat(BATCHES)[:, 1:].flatten())
    assert result.pr[3] == pytest.approx(expected, rel=1e-8)
    assert result.final_norm == "LayerNorm"


def test_fast_is_close(small):
    exact, fast = measure(small), measure(small, precision="fast")
    assert fast.pr == pytest.approx(exact.pr, rel=1e-4)


def test_every_other_block(small):
    whole, half = measure(small), measure(small, every=2)
    assert half.blocks == ("embedding", "blocks.1", "blocks.3")
    assert half.pr == pytest.approx(whole.pr[[0, 2, 4]], rel=1e-12)


def test_a_step_beyond_the_last_block(small):
    assert measure(small, every=DEPTH).blocks == ("embedding", "blocks.3")
    with pytest.raises(ls.LawscopeError, match=r"every=5 leaves out all of the model's 4 blocks"):
        measure(small, every=5)


def test_onehot_is_free_of_the_vocabulary(small):
    order = torch.randperm(VOCABULARY, generator=torch.Generator().manual_seed(4))
    model = copy.deepcopy(small)
    with torch.no_grad():
        model.tokens.weight[order] = small.tokens.weight.clone()
    shuffled = measure(model, [order[b] for b in BATCHES])
    plain = measure(small)
    assert shuffled.pr_onehot == pytest.approx(plain.pr_onehot, rel=1e-9)
    assert shuffled.pr != pytest.approx(plain.pr, rel=1e-3)
    estimated = measure(small, memory=4000)
    assert "codings" in estimated.settings["onehot"]
    assert (abs(estimated.pr_onehot - plain.pr_onehot) < 4 * estimated.onehot_error).all()
    assert np.isnan(measure(small, onehot=False).pr_onehot).all()


def observe(model, batches, **settings):
    with ls.NextTokenObserver(model, BATCHES[0], **settings) as observer:
        for batch, first, stride in batches:
            observer.update(batch, first=first, stride=stride)
    return observer


def test_shards_with_their_global_index_merge_to_one(small):
    model = copy.deepcopy(small).double()
    ids = torch.cat(BATCHES)
    whole = measure(model, [ids])
    merged = observe(model, [(ids[0::3], 0, 3)])
    merged.merge(observe(model, [(ids[1::3], 1, 3)]))
    merged.merge(observe(model, [(ids[2::3][:10], 2, 3), (ids[2::3][10:], 32, 3)]))
    assert_same(merged.result(), whole, rel=1e-11)


def test_resumed_equals_uninterrupted(small, tmp_path):
    from safetensors.torch import load_file, save_file

    for at in (1, 5):
        with ls.NextTokenObserver(small, BATCHES[0]) as first:
            for batch in BATCHES[:at]:
                first.update(batch)
        save_file(first.state_dict(), tmp_path / "moments.safetensors")
        with ls.NextTokenObserver(small, BATCHES[0]) as second:
            second.load_state_dict(load_file(tmp_path / "moments.safetensors"))
            assert second.sequences == 6 * at
            for batch in BATCHES[at:]:
                second.update(batch)
        assert_same(second.result(), measure(small))
    other = ls.NextTokenObserver(small, BATCHES[0], every=2)
    with other, pytest.raises(ls.LawscopeError, match="same model"):
        other.load_state_dict(first.state_dict())
    with pytest.raises(ls.LawscopeError, match="inside 'with"):
        other.update(BATCHES[0])


def test_control_is_the_same_network_untrained():
    model = build("gpt2")
    state = torch.get_rng_state()
    result = ls.next_token(model, BATCHES)
    assert torch.equal(state, torch.get_rng_state())
    assert result.control.blocks == result.blocks
    assert result.control.pr != pytest.approx(result.pr, rel=1e-3)
    assert any("untrained" in sentence for sentence in result.advice)
    twin = build("gpt2")
    assert ls.next_token(model, BATCHES, control=twin).control.pr == pytest.approx(result.pr)
    with pytest.raises(ls.LawscopeError, match="control='x'"):
        ls.next_token(model, BATCHES, control="x")


def test_a_plain_network_draws_its_control_anew(small):
    control = ls.next_token(small, BATCHES).control
    assert control is not None
    assert control.pr[0] != pytest.approx(measure(small).pr[0], rel=1e-6)


def test_model_untouched(small):
    model = copy.deepcopy(small).train()
    before = copy.deepcopy(model.state_dict())
    measure(model)
    assert all(torch.equal(before[k], v) for k, v in model.state_dict().items())
    assert all(m.training for m in model.modules())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert all(p.grad is None and p.requires_grad for p in model.parameters())


def test_result_is_plain(small):
    result = ls.next_token(small, BATCHES)
    json.dumps(result.to_dict(), allow_nan=False)
    assert list(result.table()["block"]) == list(result.blocks)
    assert len(result.plot().get_lines()) == 4
    assert "next-token" in str(result)
    assert dataclasses.is_dataclass(result)
    assert ls.citation("next_token")


@pytest.mark.filterwarnings(FEW)
def test_masked_language_model():
    from transformers import BertConfig, BertForMaskedLM

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        num_hidden_layers=DEPTH,
        num_attention_heads=2,
        intermediate_size=24,
        max_position_embeddings=64,
        initializer_range=0.2,
    )
    model = BertForMaskedLM(config).eval()
    with pytest.raises(ls.LawscopeError, match="looks ahead"):
        measure(model)
    with pytest.raises(ls.LawscopeError, match="mask_token="):
        measure(model, task="masked")
    result = measure(model, task="masked", mask_token=59)
    assert (result.target, result.final_norm) == ("masked", "none")
    assert result.blocks[1] == "bert.encoder.layer.0"
    assert result.n == sum(round(0.15 * int((s > 0).sum())) for b in BATCHES for s in b)


@pytest.mark.filterwarnings(FEW)
def test_encoder_decoder():
    from transformers import T5Config, T5ForConditionalGeneration

    torch.manual_seed(0)
    config = T5Config(
        vocab_size=VOCABULARY,
        d_model=WIDTH,
        d_kv=8,
        d_ff=24,
        num_layers=DEPTH,
        num_heads=2,
        decoder_start_token_id=0,
    )
    model = T5ForConditionalGeneration(config).eval()
    with pytest.raises(ls.LawscopeError, match="task='encoder-decoder'"):
        measure(model)
    with pytest.raises(ls.LawscopeError, match="decoder_input_ids"):
        measure(model, task="encoder-decoder")
    batches = [{"input_ids": b[:, :9], "decoder_input_ids": b} for b in BATCHES]
    result = measure(model, batches, task="encoder-decoder")
    assert result.blocks[1] == "decoder.block.0"
    assert result.final_norm == "RMSNorm"
    assert result.n == sum(b[:, 1:].numel() for b in BATCHES)


def test_too_few_tokens_are_refused_or_warned(small):
    with pytest.raises(ls.LawscopeError, match=r"10 tokens were measured for 16.*7 more.*790 more"):
        measure(small, [BATCHES[0][:1, :11]])
    with pytest.warns(ls.LawscopeWarning, match=r"114 tokens for 16 features.*686 more"):
        result = measure(small, BATCHES[:1])
    assert result.verdict == "cannot be told"
    assert "Measure 686 tokens more" in result.advice[0]


def test_nan_names_the_block(small):
    model = copy.deepcopy(small)
    model.blocks[2].feed[2].bias.data[3] = torch.nan
    with pytest.raises(ls.LawscopeError, match=r"'blocks.2' gives NaN"):
        measure(model)


def test_out_of_memory_is_a_sentence(small):
    class Greedy(nn.Module):
        def forward(self, x):
            if len(x) > 2:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 3 GiB")
            return x

    model = copy.deepcopy(small)
    model.norm = Greedy()
    with pytest.raises(ls.LawscopeError, match=r"shorter window.*dtype.*fewer blocks"):
        measure(model)


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"targets": ("nextt",)}, "targets='nextt'"),
        ({"targets": ()}, "at least one"),
        ({"targets": "next"}, r"targets='next' is a word; .*\('next',\)"),
        ({"targets": ("next", "next")}, "once"),
        ({"task": "chat"}, "task='chat'"),
        ({"normalization": "batch"}, "normalization='batch'"),
        ({"precision": "half"}, "precision='half'"),
        ({"folds": 0}, "folds=0"),
        ({"folds": True}, "folds=True"),
        ({"every": True}, "every=True"),
        ({"every": 0}, "every=0"),
        ({"memory": "much"}, "memory='much'"),
    ],
)
def test_settings_that_are_not_known(small, settings, match):
    with pytest.raises(ls.LawscopeError, match=match):
        measure(small, **settings)


def test_no_batches(small):
    with pytest.raises(ls.LawscopeError, match="no batches"):
        measure(small, [])
    with pytest.raises(ls.LawscopeError, match="int"):
        measure(small, 3)
    with pytest.raises(ls.LawscopeError, match="one token"):
        measure(small, [BATCHES[0][:, :1]])
