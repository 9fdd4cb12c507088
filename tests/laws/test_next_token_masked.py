"""Masked language models: what is hidden, and the numbers against stored features."""

import numpy as np
import pytest
import torch
from tests.language_models import DEPTH, VOCABULARY, WIDTH, token_batches

import lawscope as ls

CLS, SEP, MASK, PAD = 57, 58, 59, 0


def bert():
    from transformers import BertConfig, BertForMaskedLM

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=DEPTH, num_attention_heads=2,
        intermediate_size=24, max_position_embeddings=64, initializer_range=0.3,
    )  # fmt: skip
    return BertForMaskedLM(config).eval()


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


def residual(x, y):
    x, y = x.double().numpy(), y.double().numpy()
    design = np.hstack([np.ones((len(x), 1)), x])
    beta, *_ = np.linalg.lstsq(design, y, rcond=1e-6)
    return np.square(y - design @ beta).sum() / np.square(y - y.mean()).sum()


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


def test_special_tokens_are_never_hidden():
    model, batches = bert(), framed()
    _, given = seen_by(model, batches, special_tokens=[CLS, SEP])
    for batch, holes in zip(batches, given, strict=True):
        hidden = holes != batch["input_ids"]
        assert not torch.isin(batch["input_ids"][hidden], torch.tensor([CLS, SEP, PAD])).any()
        text = torch.where(torch.arange(len(hidden)) % 3 == 0, 12, 18)
        assert hidden.sum(dim=1).tolist() == [round(0.15 * n) for n in text.tolist()]
    # Without being told: nothing in the configuration of a BERT says what [CLS] is.
    _, given = seen_by(model, batches)
    assert any((g[:, 0] == MASK).any() for g in given)


@pytest.mark.parametrize("wrong", [101, "abc", [1.5], [True], [-1]])
def test_special_tokens_that_are_no_ids(wrong):
    with pytest.raises(ls.LawscopeError, match=r"special_tokens=.*all_special_ids"):
        seen_by(bert(), framed(), special_tokens=wrong)


def test_targets_have_no_meaning():
    model, batches = bert(), framed()
    for targets in (("current",), ("next", "current")):
        with pytest.raises(ls.LawscopeError, match="no meaning with task='masked'"):
            seen_by(model, batches, targets=targets)
    assert seen_by(model, batches, targets=["next"])[0].target == "masked"
    with pytest.raises(ls.LawscopeError, match="mask_token=-1"):
        ls.next_token(model, batches, task="masked", mask_token=-1)
