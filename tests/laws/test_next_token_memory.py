"""Too little memory, wherever it is asked for, is a sentence that says what to lower."""

import pytest
import torch
from torch import nn

import lawscope as ls
from lawscope.laws import next_token_moments, next_token_summary
from lawscope.zoo.language import gpt

IDS = torch.randint(0, 50, (60, 30), generator=torch.Generator().manual_seed(0))
MOMENTS = r"moments of 4 blocks in 5 folds of 8² numbers.*every=2.*folds=2.*dtype"


@pytest.fixture
def model():
    torch.manual_seed(0)
    return gpt(vocabulary=50, width=8, depth=4, heads=2, context=30)


class Boom:
    """Stands where memory is asked for, and has none from the ``calls``-th call on."""

    def __init__(self, error, inner, calls=1):
        self.error, self.inner, self.left = error, inner, calls - 1

    def __call__(self, *args, **kwargs):
        if not self.left:
            raise self.error
        self.left -= 1
        return self.inner(*args, **kwargs)


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 3 GiB"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"),
        MemoryError(),
    ],
)
def test_allocating_moments(model, monkeypatch, error):
    boom = Boom(error, next_token_moments.PredictionMoments, calls=3)
    monkeypatch.setattr(next_token_moments, "PredictionMoments", boom)
    with pytest.raises(ls.LawscopeError, match=MOMENTS):
        ls.next_token(model, [IDS], control=None)
    # ``__exit__`` does not run when ``__enter__`` fails.
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert all(m.training for m in model.modules())


def test_summing_between_two_batches(model, monkeypatch):
    boom = Boom(torch.OutOfMemoryError("out of memory"), None)
    monkeypatch.setattr(next_token_moments.PredictionMoments, "work_off", boom)
    with ls.NextTokenObserver(model, IDS) as observer:
        with pytest.raises(ls.LawscopeError, match=MOMENTS):
            observer.update(IDS)
        assert 1024 <= observer.n < 2048  # rows that were due, and not yet for the hook to sum


def test_the_result(model, monkeypatch):
    error = MemoryError("Unable to allocate 7.28 TiB for an array")  # as NumPy says it
    monkeypatch.setattr(next_token_summary, "fit_line", Boom(error, None))
    with pytest.raises(ls.LawscopeError, match=MOMENTS):
        ls.next_token(model, [IDS], control=None)


def test_merging_ranks(model, monkeypatch):
    with ls.NextTokenObserver(model, IDS) as observer:
        observer.update(IDS)
    error = torch.OutOfMemoryError("CUDA out of memory")
    monkeypatch.setattr(next_token_moments, "gathered", Boom(error, None))
    with pytest.raises(ls.LawscopeError, match=MOMENTS):
        observer.all_merge()


def test_the_untrained_network(model, monkeypatch):
    error = torch.OutOfMemoryError("CUDA out of memory")
    monkeypatch.setattr("lawscope.laws.next_token_control.reinitialised", Boom(error, None))
    with pytest.raises(ls.LawscopeError, match=r"same network untrained.*control=None"):
        ls.next_token(model, [IDS])

    class Configured(nn.Module):
        config = "all"
        _init_weights = None

        def __init__(self, config):
            raise error

    with pytest.raises(ls.LawscopeError, match=r"same network untrained.*control=None"):
        ls.laws.next_token_control.untrained(Configured.__new__(Configured))


def test_other_errors_stay_what_they_are(model, monkeypatch):
    boom = Boom(RuntimeError("something else"), None)
    monkeypatch.setattr(next_token_moments, "PredictionMoments", boom)
    with pytest.raises(RuntimeError, match="something else") as caught:
        ls.next_token(model, [IDS], control=None)
    assert not isinstance(caught.value, ls.LawscopeError)
