"""A batch that fails half way counts in no block, and modes of autograd may change in between."""

import copy

import numpy as np
import pytest
import torch
from torch import nn

import lawscope as ls
from lawscope.statistics import prediction_moments
from lawscope.zoo.language import gpt

IDS = torch.randint(0, 50, (80, 30), generator=torch.Generator().manual_seed(0))


class Moody(nn.Module):
    """A block that fails when it is told to."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.fails = inner, None

    def forward(self, x):
        if isinstance(self.fails, BaseException):
            raise self.fails
        return self.inner(x) * (torch.nan if self.fails else 1.0)


@pytest.fixture
def model():
    torch.manual_seed(0)
    made = gpt(vocabulary=50, width=8, depth=4, heads=2, context=30)
    made.blocks[2] = Moody(made.blocks[2])
    return made


@pytest.mark.parametrize(
    "fails", [torch.OutOfMemoryError("out of memory"), "NaN", KeyboardInterrupt()]
)
def test_it_is_taken_back_and_may_be_tried_again(model, fails):
    expected = ls.next_token(copy.deepcopy(model), [IDS[:20], IDS[20:40], IDS[40:]], control=None)
    with ls.NextTokenObserver(model, IDS) as observer:
        observer.update(IDS[:20])
        model.blocks[2].fails = fails
        kind = KeyboardInterrupt if isinstance(fails, KeyboardInterrupt) else ls.LawscopeError
        with pytest.raises(kind):
            observer.update(IDS[20:40])
        assert {statistic.n for statistic in observer.statistics} == {observer.n}
        model.blocks[2].fails = None
        observer.update(IDS[20:40])
        observer.update(IDS[40:])
        assert observer.sequences == 80
        result = observer.result()
    np.testing.assert_allclose(result.pr, expected.pr, rtol=1e-12)
    assert result.settings["tokens_left_out"] == expected.settings["tokens_left_out"]


def test_where_it_cannot_be_taken_back_that_is_said(model, monkeypatch):
    """The batch is large enough to be summed as it comes."""
    monkeypatch.setattr(prediction_moments, "JOINED_ROWS", 100)
    monkeypatch.setattr(prediction_moments, "MOST_JOINED", 100)
    with ls.NextTokenObserver(model, IDS) as observer:
        model.blocks[2].fails = "NaN"
        with pytest.raises(ls.LawscopeError, match="gives NaN"):
            observer.update(IDS)
        model.blocks[2].fails = None
        for act in (lambda: observer.update(IDS), observer.result, observer.state_dict):
            with pytest.raises(ls.LawscopeError, match=r"different tokens.*new observer"):
                act()


def test_sums_that_failed_half_way_give_no_result(model, monkeypatch):
    with ls.NextTokenObserver(model, IDS) as observer:
        observer.update(IDS[:20])
        with monkeypatch.context() as patch:
            patch.setattr(prediction_moments.CoMoments, "update", lambda *_: [][0])
            with pytest.raises(IndexError):
                observer.result()
        with pytest.raises(ls.LawscopeError, match="new observer"):
            observer.result()


@pytest.mark.parametrize("around", [False, True])
@pytest.mark.parametrize("modes", [(True, False), (False, True)])
def test_inference_mode_may_come_and_go(model, around, modes):
    expected = ls.next_token(copy.deepcopy(model), [IDS[:40], IDS[40:]], control=None)
    with torch.inference_mode(around), ls.NextTokenObserver(model, IDS) as observer:
        for inference, part in zip(modes, (IDS[:40], IDS[40:]), strict=True):
            with torch.inference_mode(inference):
                observer.update(part)
    np.testing.assert_allclose(observer.result().pr, expected.pr, rtol=1e-12)
    assert torch.is_grad_enabled()
