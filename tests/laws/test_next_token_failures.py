"""Networks that fail half way, memory that runs out, and digits that rounding takes."""

import dataclasses
import warnings

import pytest
import torch
from tests.laws.texts import BATCHES, measure, plain
from torch import nn

import lawscope as ls
from lawscope.laws import control
from lawscope.laws.next_token import observer
from lawscope.statistics.prediction_moments import PredictionMoments

MOMENTS = r"moments of 4 blocks in 5 folds of 16² numbers.*every=2.*folds=2.*dtype"


class Moody(nn.Module):
    """A block that fails at the second whole batch."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.fails, self.batches = inner, None, []

    def forward(self, x):
        if len(x) == 6:
            self.batches.append(x)
        if len(self.batches) < 2:
            return self.inner(x)
        if isinstance(self.fails, BaseException):
            raise self.fails
        return self.inner(x) * (torch.nan if self.fails else 1.0)


OUT_OF_MEMORY = r"6 sequences of 20 tokens.*shorter window.*dtype.*fewer blocks"


@pytest.mark.parametrize(
    ("fails", "kind", "sentence"),
    [
        (torch.OutOfMemoryError("out of memory"), ls.LawscopeError, OUT_OF_MEMORY),
        ("NaN", ls.LawscopeError, "Block 'blocks.2' gives NaN"),
        (KeyboardInterrupt("stop"), KeyboardInterrupt, "stop"),
    ],
)
def test_a_network_that_fails_half_way_is_left_as_found(fails, kind, sentence):
    model = plain()
    model.blocks[2] = Moody(model.blocks[2])
    model.blocks[2].fails = fails
    with pytest.raises(kind, match=sentence):
        measure(model)
    assert all(m.training for m in model.modules())
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


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
def test_memory_for_moments(monkeypatch, error):
    model = plain()
    boom = Boom(error, observer.PredictionMoments, calls=3)
    monkeypatch.setattr(observer, "PredictionMoments", boom)
    with pytest.raises(ls.LawscopeError, match=MOMENTS):
        measure(model)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert all(m.training for m in model.modules())


@pytest.mark.parametrize(
    ("step", "error"),
    [
        ("update", torch.OutOfMemoryError("out of memory")),
        ("compute", MemoryError("Unable to allocate 7.28 TiB for an array")),  # as NumPy says it
    ],
)
def test_memory_for_a_batch_and_for_the_result(monkeypatch, step, error):
    monkeypatch.setattr(PredictionMoments, step, Boom(error, None))
    with pytest.raises(ls.LawscopeError, match=MOMENTS):
        measure(plain())


def test_memory_for_merging_ranks(monkeypatch):
    error = torch.OutOfMemoryError("CUDA out of memory")
    monkeypatch.setattr(observer, "gathered", Boom(error, None))
    monkeypatch.setattr("lawscope.laws.next_token.law.place_among_ranks", lambda _: (0, 1))
    for module in ("scan", "shares"):
        monkeypatch.setattr(f"lawscope.laws.{module}.agree", lambda work, _: work())
        monkeypatch.setattr(f"lawscope.laws.{module}.gathered", lambda part: [part])
    with pytest.raises(ls.LawscopeError, match=MOMENTS):
        measure(plain(), distributed=True)


def test_memory_for_the_untrained_network(monkeypatch):
    error = torch.OutOfMemoryError("CUDA out of memory")
    monkeypatch.setattr(control, "_reset_copy", Boom(error, None))
    with pytest.warns(ls.LawscopeWarning, match=r"same network untrained.*control=None"):
        assert ls.next_token(plain(), BATCHES).control is None

    class Configured(nn.Module):
        config = "all"
        _init_weights = None

        def __init__(self, config):
            raise error

    bare = Configured.__new__(Configured)
    nn.Module.__init__(bare)
    with pytest.raises(ls.LawscopeError, match=r"same network untrained.*control=None"):
        control.make_untrained(bare)


def test_other_errors_stay_what_they_are(monkeypatch):
    boom = Boom(RuntimeError("something else"), None)
    monkeypatch.setattr(observer, "PredictionMoments", boom)
    with pytest.raises(RuntimeError, match="something else") as caught:
        measure(plain())
    assert not isinstance(caught.value, ls.LawscopeError)


def warned(monkeypatch, precision, **changed):
    """The warnings where one regression came out so."""
    compute = PredictionMoments.compute
    monkeypatch.setattr(
        PredictionMoments, "compute", lambda self: dataclasses.replace(compute(self), **changed)
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ls.LawscopeWarning)
        measure(plain(), precision=precision)
    return " ".join(str(one.message) for one in caught)


@pytest.mark.parametrize(
    ("precision", "lost", "said"),
    [
        ("float64", 1e-9, ""),
        ("float64", 3e-7, "showed. Begin with other parts of the text."),
        ("fast", 0.01, ""),
        ("fast", 0.1, "other parts of the text, or use precision='float64'"),
    ],
)
def test_digits_that_rounding_took_are_named(monkeypatch, precision, lost, said):
    words = warned(monkeypatch, precision, lost=lost)
    assert ("conditioned worse" in words) == bool(said)
    assert said in words


@pytest.mark.parametrize("precision", ["float64", "fast"])
def test_directions_that_are_left_out_are_named(monkeypatch, precision):
    words = warned(monkeypatch, precision, rank=9)
    assert "dependent features (rank down to 9 of 16)" in words
    assert ("a thousandth of the largest" in words) == (precision == "fast")
