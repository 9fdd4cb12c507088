"""Text, language models and an oracle for the tests of the law of next-token prediction."""

import numpy as np
import pytest
import torch
from tests.language_models import DEPTH, VOCABULARY, WIDTH, token_batches

import lawscope as ls
from lawscope.zoo.networks.language import gpt

BATCHES = token_batches(8)  # 8 × 6 sequences of 20 tokens
IDS = torch.cat(BATCHES)


def plain():
    torch.manual_seed(0)
    return gpt(VOCABULARY, WIDTH, DEPTH, 2, 64)


def scaled():
    """A plain network with weights large enough for blocks to differ."""
    model = plain()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(6)
    return model.eval()


def bert(**changed):
    from transformers import BertConfig, BertForMaskedLM

    torch.manual_seed(0)
    sizes = {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "intermediate_size": 24}
    layers = {"num_hidden_layers": DEPTH, "num_attention_heads": 2, "max_position_embeddings": 64}
    config = BertConfig(**{**sizes, **layers, "initializer_range": 0.3, **changed})
    return BertForMaskedLM(config).eval()


def measure(model, batches=BATCHES, **settings):
    return ls.next_token(model, batches, **{"control": None, **settings})


def residual(x, y):
    """1 − R² with intercept by lstsq in float64."""
    x, y = x.double().numpy(), y.double().numpy()
    design = np.hstack([np.ones((len(x), 1)), x])
    beta, *_ = np.linalg.lstsq(design, y, rcond=1e-6)
    return np.square(y - design @ beta).sum() / np.square(y - y.mean()).sum()


def assert_same(a, b, rel=1e-9):
    for name in ("pr", "pr_adjusted", "pr_cv", "pr_onehot", "condition"):
        assert getattr(a, name) == pytest.approx(getattr(b, name), rel=rel), name
    assert a.n == b.n
    assert a.fit.interval["slope"] == pytest.approx(b.fit.interval["slope"], rel=1e-5)
