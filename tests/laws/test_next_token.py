"""The law of next-token prediction against stored features and least squares in float64."""

import copy

import numpy as np
import pytest
import torch
from tests.language_models import CAUSAL, DEPTH, VOCABULARY, WIDTH, build, token_batches
from tests.laws.texts import BATCHES, IDS, assert_same, bert, measure, plain, residual, scaled

import lawscope as ls

CLS, SEP, MASK, PAD = 57, 58, 59, 0
FEW = "ignore:.*per feature.*:lawscope.errors.LawscopeWarning"


@pytest.fixture(scope="module")
def small():
    return scaled()


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
    assert result.n == IDS[:, 1:].numel()
    for i, x in enumerate(features):
        kept = normalised(x, result.final_norm, eps)[:, :-1].flatten(0, 1)
        expected = residual(kept, IDS[:, 1:].flatten())
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
    x = normalised(stored(small, "blocks", BATCHES)[2], "LayerNorm", 1e-5)[:, :-1, :-1]
    y, fold = IDS[:, 1:].double(), torch.arange(len(IDS)) % 3
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


def test_a_first_token_beyond_the_vocabulary_is_none():
    assert measure(build("gpt2", bos_token_id=50256), [IDS]).settings["bos"] == "none"


def test_padding_is_left_out_and_does_not_matter():
    model = build("llama").double()
    padded = torch.cat([IDS, torch.zeros(len(IDS), 5, dtype=IDS.dtype)], dim=1)
    mask = torch.arange(25).expand(len(IDS), 25) < 20
    batch = {"input_ids": padded, "attention_mask": mask.long()}
    assert_same(measure(model, [batch]), measure(model, [IDS]), rel=1e-8)


def test_the_first_token_is_left_out_when_it_is_bos():
    ids = torch.cat([torch.full((len(IDS), 1), 7), IDS], dim=1)
    with_bos, without = build("gpt2", bos_token_id=7), build("gpt2")
    a, b = measure(with_bos, [ids]), measure(without, [ids])
    assert b.n - a.n == len(ids)
    assert "7 left out" in a.settings["bos"]
    features = normalised(stored(with_bos, "transformer.h", [ids])[1], "LayerNorm", 1e-5)
    expected = residual(features[:, 1:-1].flatten(0, 1), ids[:, 2:].flatten())
    assert a.pr[1] == pytest.approx(expected, rel=1e-9)


def test_two_targets_equal_two_runs_on_the_same_places(small):
    both = measure(small, targets=("next", "current"))
    assert list(both.targets) == ["next", "current"]
    assert both.targets["next"] is both
    for name in ("next", "current"):
        alone = measure(small, targets=(name,))
        if name == "current":  # measured at the last token too, which has no next one
            x = normalised(stored(small, "blocks", [IDS])[1], "LayerNorm", 1e-5)
            expected = residual(x[:, :-1].flatten(0, 1), IDS[:, :-1].flatten())
            assert both.targets[name].pr[1] == pytest.approx(expected, rel=1e-9)
            assert alone.n == IDS.numel()
        else:
            assert_same(both.targets[name], alone)
    assert "current" in both.to_dict()["others"]
    assert both.others["current"].provenance == both.provenance


@pytest.mark.parametrize(
    ("normalization", "kind", "eps"),
    [("none", "none", 0), ("rms-norm", "RMSNorm", 1e-6), ("layer-norm", "LayerNorm", 1e-5)],
)
def test_normalizations(small, normalization, kind, eps):
    result = measure(small, normalization=normalization)
    x = normalised(stored(small, "blocks", BATCHES)[3], kind, eps)[:, :-1].flatten(0, 1)
    expected = residual(x, IDS[:, 1:].flatten())
    assert result.pr[3] == pytest.approx(expected, rel=1e-8)
    assert result.final_norm == "LayerNorm"


def test_fast_is_close(small):
    exact, fast = measure(small), measure(small, precision="fast")
    assert fast.pr == pytest.approx(exact.pr, rel=1e-4)


def test_every_other_block(small):
    whole, half = measure(small), measure(small, every=2)
    assert half.blocks == ("embedding", "blocks.1", "blocks.3")
    assert half.pr == pytest.approx(whole.pr[[0, 2, 4]], rel=1e-12)
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


def test_control_is_the_same_network_untrained():
    model = build("gpt2")
    state = torch.get_rng_state()
    result = ls.next_token(model, BATCHES)
    assert torch.equal(state, torch.get_rng_state())
    assert result.control.blocks == result.blocks
    assert result.control.pr != pytest.approx(result.pr, rel=1e-3)
    assert any("untrained" in sentence for sentence in result.section().findings)
    twin = build("gpt2")
    assert ls.next_token(model, BATCHES, control=twin).control.pr == pytest.approx(result.pr)
    with pytest.raises(ls.LawscopeError, match="control='x'"):
        ls.next_token(model, BATCHES, control="x")


def test_a_plain_network_draws_new_weights_for_its_control(small):
    control = ls.next_token(small, BATCHES).control
    assert control is not None
    assert control.pr[0] != pytest.approx(measure(small).pr[0], rel=1e-6)


@pytest.mark.filterwarnings(FEW)
def test_encoder_decoder():
    from transformers import T5Config, T5ForConditionalGeneration

    torch.manual_seed(0)
    config = T5Config(
        vocab_size=VOCABULARY, d_model=WIDTH, d_kv=8, d_ff=24, num_layers=DEPTH, num_heads=2,
        decoder_start_token_id=0,
    )  # fmt: skip
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


def test_left_padding_needs_positions_where_they_are_learned():
    """GPT-2 counts positions from the left edge, padding included; rotary ones are relative."""
    ids = torch.cat([torch.zeros(len(IDS), 5, dtype=torch.int64), IDS], dim=1)
    mask = (torch.arange(25) >= 5).long().expand(len(IDS), 25)
    padded = {"input_ids": ids, "attention_mask": mask}
    positions = (torch.arange(25) - 5).clamp(min=0).expand(len(IDS), 25)
    with_positions = padded | {"position_ids": positions}
    model, llama = build("gpt2").double(), build("llama").double()
    alone = measure(model, IDS)
    assert measure(model, with_positions).pr == pytest.approx(alone.pr, rel=1e-9)
    assert measure(model, padded).pr != pytest.approx(alone.pr, rel=1e-6)
    # Its norms compute in float32.
    assert measure(llama, padded).pr == pytest.approx(measure(llama, IDS).pr, rel=1e-7)


def framed():
    """Two batches of sequences between [CLS] and [SEP], a third of them padded; 14 or 20 tokens."""
    batches = []
    for ids in token_batches(2, sequences=180):
        ids = 1 + ids % 50
        mask = torch.ones_like(ids)
        ids[:, 0], ids[:, -1] = CLS, SEP
        ids[::3, 13], ids[::3, 14:], mask[::3, 14:] = SEP, PAD, 0
        batches.append({"input_ids": ids, "attention_mask": mask})
    return batches


def seen_by(model, batches, **settings):
    """The result, and the ids that the model was given."""
    given = []
    words = model.bert.embeddings.word_embeddings
    handle = words.register_forward_hook(lambda m, args, out: given.append(args[0].clone()))
    result = ls.next_token(model, batches, task="masked", mask_token=MASK, control=None, **settings)
    handle.remove()
    return result, given[1:]  # the first was the first look


def test_equals_least_squares_at_what_was_hidden():
    model, batches = bert(), framed()
    result, given = seen_by(model, batches, special_tokens=[CLS, SEP])
    ids = torch.cat([batch["input_ids"] for batch in batches])
    real = torch.cat([batch["attention_mask"] for batch in batches])
    holes = torch.cat(given)
    hidden = holes != ids
    assert (holes[hidden] == MASK).all()
    with torch.no_grad():
        out = model.bert(holes, attention_mask=real, output_hidden_states=True)
    expected = [residual(x[hidden], ids[hidden]) for x in out.hidden_states]
    # Post-norm blocks end in a LayerNorm of float32; see the families' test.
    assert result.pr == pytest.approx(np.array(expected), rel=1e-6)
    assert result.n == int(hidden.sum())
    assert (result.target, result.final_norm) == ("masked", "none")
    assert result.blocks[1] == "bert.encoder.layer.0"


def test_special_tokens_are_never_hidden():
    model, batches = bert(), framed()
    _, given = seen_by(model, batches, special_tokens=[CLS, SEP])
    for batch, holes in zip(batches, given, strict=True):
        hidden = holes != batch["input_ids"]
        assert not torch.isin(batch["input_ids"][hidden], torch.tensor([CLS, SEP, PAD])).any()
        text = torch.where(torch.arange(len(hidden)) % 3 == 0, 12, 18)
        assert hidden.sum(dim=1).tolist() == [round(0.15 * n) for n in text.tolist()]
    # Nothing in the configuration of a BERT says what [CLS] is.
    _, given = seen_by(model, batches)
    assert any((g[:, 0] == MASK).any() for g in given)


@pytest.mark.parametrize("wrong", [101, "abc", [1.5], [True], [-1]])
def test_special_tokens_that_are_not_ids(wrong):
    with pytest.raises(ls.LawscopeError, match=r"special_tokens=.*all_special_ids"):
        seen_by(bert(), framed(), special_tokens=wrong)


def test_what_a_masked_model_needs():
    model, batches = bert(), framed()
    with pytest.raises(ls.LawscopeError, match="looks ahead"):
        measure(model)
    with pytest.raises(ls.LawscopeError, match="mask_token="):
        measure(model, task="masked")
    for targets in (("current",), ("next", "current")):
        with pytest.raises(ls.LawscopeError, match="no meaning with task='masked'"):
            seen_by(model, batches, targets=targets)
    assert seen_by(model, batches, targets=["next"])[0].target == "masked"
    with pytest.raises(ls.LawscopeError, match="mask_token=-1"):
        ls.next_token(model, batches, task="masked", mask_token=-1)


def test_inference_mode_may_be_on():
    expected = measure(plain())
    with torch.inference_mode():
        found = measure(plain())
    np.testing.assert_allclose(found.pr, expected.pr, rtol=1e-12)
    assert torch.is_grad_enabled()
