"""What people hand over as text, and what is said of what cannot be measured."""

import copy
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from tests.language_models import build
from tests.laws.texts import BATCHES, IDS, assert_same, bert, measure, plain, scaled
from torch import nn

import lawscope as ls
from lawscope.capture import session


@pytest.fixture(scope="module")
def small():
    return scaled()


@pytest.fixture(scope="module")
def gpt2():
    return build("gpt2")


def test_batches_dicts_arrays_and_generators_give_one_value(small):
    from transformers import BatchEncoding

    # In float64, because float32 layers round differently for another batch size.
    model = copy.deepcopy(small).double()
    whole = measure(model, [IDS])
    encoding = BatchEncoding({"input_ids": IDS, "attention_mask": torch.ones_like(IDS)})
    named = ({"input_ids": b} for b in BATCHES)
    others = ([encoding], [IDS.numpy()], [IDS.to(torch.int32)], [(IDS,)])
    for same in (BATCHES, list(IDS), named, IDS, encoding, *others):
        assert_same(measure(model, same), whole)


def test_too_few_tokens_are_refused_or_warned(small):
    with pytest.raises(ls.LawscopeError, match=r"10 tokens were measured for 16.*7 more.*790 more"):
        measure(small, [BATCHES[0][:1, :11]])
    with pytest.warns(ls.LawscopeWarning, match=r"114 tokens for 16 features.*686 more"):
        result = measure(small, BATCHES[:1])
    assert result.verdict == "cannot be told"
    assert result.advice == ()


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


def test_empty_batches_are_passed_over(small):
    expected, empty = measure(small, BATCHES), IDS[:0]
    result = measure(small, iter([empty, *BATCHES[:3], empty, *BATCHES[3:], empty]))
    assert result.pr_cv == pytest.approx(expected.pr_cv, rel=1e-12)
    assert result.settings["sequences"] == len(IDS)
    with pytest.raises(ls.LawscopeError, match="no batches with tokens"):
        measure(small, [empty])
    with pytest.raises(ls.LawscopeError, match="no batches"):
        measure(small, [])
    with pytest.raises(ls.LawscopeError, match="int"):
        measure(small, 3)


@pytest.mark.parametrize("at", [0, 7])
@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda ids: torch.where(ids % 3 == 0, -100, ids), "id -100.*attention_mask"),
        (lambda ids: ids + 9, "embeds 60 tokens, 0 to 59; is the tokenizer"),
        (lambda ids: ids.repeat(1, 4), "sequences have 80 tokens.*within its context of 64 tokens"),
        (lambda ids: ids > 5, "torch.bool of shape"),
        (lambda ids: ids + 0j, "torch.complex64 of shape"),
        (lambda ids: ids.tolist(), r"is list; .*return_tensors='pt'"),
        (lambda ids: np.array([["a", "b"]]), "ndarray"),
        (lambda ids: ids[:, :1], "one token or none"),
    ],
)
def test_what_is_not_a_batch_of_this_model(gpt2, at, change, match):
    batches = [*BATCHES[:at], change(BATCHES[0]), *BATCHES[at:]]
    with pytest.raises(ls.LawscopeError, match=match):
        measure(gpt2, batches)


def test_ids_and_lengths_of_a_network_that_does_not_say():
    model = plain()
    for wrong in (IDS + 9, IDS.repeat(1, 4)):
        with pytest.raises(ls.LawscopeError, match=r"go up to \d+ and sequences have \d+ tokens"):
            measure(model, [BATCHES[0], wrong])

    class Fails(nn.Module):
        def __init__(self, error):
            super().__init__()
            self.inner, self.error = model, error

        def forward(self, ids):
            if len(ids) > 6:
                raise self.error
            return self.inner(ids)

    asserted = RuntimeError("CUDA error: device-side assert triggered\nmore")
    with pytest.raises(ls.LawscopeError, match=r"assert triggered\. Token ids go up to 59"):
        measure(Fails(asserted), [BATCHES[0], IDS])
    with pytest.raises(ls.LawscopeError, match="network raised RuntimeError: my own"):
        measure(Fails(RuntimeError("my own")), [BATCHES[0], IDS])


def test_positions_beyond_the_context_that_are_not_an_index():
    """BERT takes a slice of its positions and fails at adding them."""
    with pytest.raises(ls.LawscopeError, match=r"sequences have 20 tokens.*context of 16 tokens"):
        measure(bert(max_position_embeddings=16), IDS, task="masked", mask_token=3)


def test_rotary_positions_go_beyond_the_context():
    model = build("llama", max_position_embeddings=8)
    assert measure(model, IDS).n == IDS[:, 1:].numel()


def test_a_mask_token_beyond_the_vocabulary(gpt2):
    with pytest.raises(ls.LawscopeError, match="token id 99, and the model embeds 60"):
        measure(gpt2, IDS, task="masked", mask_token=99)


@pytest.mark.parametrize("settings", [{}, {"task": "masked", "mask_token": 59}, {"bos": 7}])
def test_the_bar_ends_at_all_tokens(settings, monkeypatch):
    """Also where few are measured: hidden ones, or all but the first."""
    seen = {"done": 0}

    @contextmanager
    def bar(description, total, show, unit):
        seen["total"] = total
        yield lambda steps: seen.update(done=seen["done"] + steps)

    monkeypatch.setattr(session, "progress", bar)
    settings = dict(settings)
    model = build("gpt2", bos_token_id=settings.pop("bos", None))
    first = torch.full((6, 1), 7)
    mask = torch.ones(6, 21, dtype=torch.int64)
    mask[:, 18:] = 0
    batches = [torch.cat([first, b], dim=1) for b in BATCHES for _ in range(6)]
    batches[3] = {"input_ids": batches[3], "attention_mask": mask}
    batches[5] = (batches[5],)
    result = measure(model, batches, **settings)
    assert seen == {"done": 6 * 21 * 48, "total": 6 * 21 * 48}
    assert result.n < seen["total"]
