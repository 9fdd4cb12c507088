"""What people hand over as batches: it works, or a sentence says what is wrong."""

from contextlib import contextmanager

import numpy as np
import pytest
import torch
from tests.language_models import VOCABULARY, WIDTH, build, token_batches
from torch import nn

import lawscope as ls
from lawscope.laws import next_token as law
from lawscope.laws.next_token_observer import NextTokenObserver
from lawscope.zoo.language import gpt

BATCHES = token_batches(8)
IDS = torch.cat(BATCHES)


def measure(model, batches, **settings):
    return ls.next_token(model, batches, **{"control": None, **settings})


@pytest.fixture(scope="module")
def gpt2():
    return build("gpt2")


def test_encodings_and_arrays(gpt2):
    from transformers import BatchEncoding

    plain = measure(gpt2, IDS)
    encoding = BatchEncoding({"input_ids": IDS, "attention_mask": torch.ones_like(IDS)})
    for batches in (encoding, [encoding], [IDS.numpy()], [IDS.to(torch.int32)], [(IDS,)]):
        assert measure(gpt2, batches).pr == pytest.approx(plain.pr, rel=1e-9)


def test_empty_batches_are_passed_over(gpt2):
    plain, empty = measure(gpt2, BATCHES), IDS[:0]
    for batches in ([empty, *BATCHES], [*BATCHES, empty], [*BATCHES[:3], empty, *BATCHES[3:]]):
        result = measure(gpt2, iter(batches))
        assert result.pr_cv == pytest.approx(plain.pr_cv, rel=1e-12)
        assert result.settings["sequences"] == len(IDS)
    with pytest.raises(ls.LawscopeError, match="no batches with tokens"):
        measure(gpt2, [empty])
    with pytest.raises(ls.LawscopeError, match="example batch has no sequences"):
        NextTokenObserver(gpt2, empty)


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
def test_what_is_no_batch_of_this_model(gpt2, at, change, match):
    batches = [*BATCHES[:at], change(BATCHES[0]), *BATCHES[at:]]
    with pytest.raises(ls.LawscopeError, match=match):
        measure(gpt2, batches)


def test_ids_and_lengths_of_a_network_that_does_not_say():
    model = gpt(VOCABULARY, WIDTH, 4, 2, 64)
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
    with pytest.raises(RuntimeError, match="my own"):
        measure(Fails(RuntimeError("my own")), [BATCHES[0], IDS])


def test_positions_beyond_the_context_that_are_no_index():
    """BERT takes a slice of its positions and fails at adding them."""
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=24, max_position_embeddings=16,
    )  # fmt: skip
    with pytest.raises(ls.LawscopeError, match=r"sequences have 20 tokens.*context of 16 tokens"):
        measure(BertForMaskedLM(config), IDS, task="masked", mask_token=3)


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
    def bar(description, total, show):
        seen["total"] = total
        yield lambda steps: seen.update(done=seen["done"] + steps)

    monkeypatch.setattr(law, "progress_bar", bar)
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


def test_left_padding_needs_positions_where_they_are_learned():
    """GPT-2 counts positions from the left edge, padding included; rotary ones are relative."""
    plain = torch.cat([torch.zeros(len(IDS), 5, dtype=torch.int64), IDS], dim=1)
    mask = (torch.arange(25) >= 5).long().expand(len(IDS), 25)
    padded = {"input_ids": plain, "attention_mask": mask}
    positions = (torch.arange(25) - 5).clamp(min=0).expand(len(IDS), 25)
    with_positions = padded | {"position_ids": positions}
    model, llama = build("gpt2").double(), build("llama").double()
    alone = measure(model, IDS)
    assert measure(model, with_positions).pr == pytest.approx(alone.pr, rel=1e-9)
    assert measure(model, padded).pr != pytest.approx(alone.pr, rel=1e-6)
    # Its norms compute in float32.
    assert measure(llama, padded).pr == pytest.approx(measure(llama, IDS).pr, rel=1e-7)
