"""A measurement that was stopped goes on, and only from what is its own and whole."""

import copy
import os
import signal

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

import lawscope as ls
from lawscope.laws import checkpoint
from lawscope.zoo.networks.language import gpt

IDS = torch.randint(0, 50, (60, 30), generator=torch.Generator().manual_seed(0))
BATCHES = list(IDS.split(10))
pytestmark = pytest.mark.usefixtures("heeds_ctrl_c")


@pytest.fixture
def model():
    torch.manual_seed(0)
    return gpt(vocabulary=50, width=8, depth=4, heads=2, context=30)


def stopping(batches, after):
    """The batches, with a ctrl-C while one is read."""
    for i, batch in enumerate(batches):
        if i == after:
            os.kill(os.getpid(), signal.SIGINT)
        yield batch


def stopped(model, path, after=3, **settings):
    with pytest.raises(KeyboardInterrupt, match=rf"after {after + 1} batches"):
        ls.next_token(model, stopping(BATCHES, after), checkpoint=path, **settings)
    assert path.is_file()


@pytest.mark.parametrize("after", [1, 4])
@pytest.mark.parametrize("control", [None, "auto"])
def test_resumed_equals_uninterrupted(model, tmp_path, after, control):
    whole = ls.next_token(model, BATCHES, control=control)
    path = tmp_path / "moments.safetensors"
    stopped(model, path, after, control=control)
    read = []

    def rest():
        for batch in BATCHES:
            read.append(len(batch))
            yield batch

    resumed = ls.next_token(model, rest(), checkpoint=path, control=control)
    assert sum(read) == resumed.settings["sequences"] == len(IDS)
    for name in ("pr", "pr_cv", "pr_onehot"):
        np.testing.assert_allclose(getattr(resumed, name), getattr(whole, name), rtol=1e-12)
    if control:
        np.testing.assert_allclose(resumed.control.pr, whole.control.pr, rtol=1e-12)
    assert not path.exists()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_what_is_damaged_is_refused(model, tmp_path):
    path = tmp_path / "moments.safetensors"
    stopped(model, path)
    whole = path.read_bytes()
    changed = bytearray(whole)
    changed[-9] ^= 1  # one bit of a number
    with safe_open(path, framework="pt") as file:
        said = file.metadata()
    tensors = {name: tensor.clone() for name, tensor in load_file(path).items()}
    for spoil in (
        lambda: path.write_bytes(changed),
        lambda: path.write_bytes(whole[:-5]),
        lambda: path.write_bytes(b""),
        lambda: save_file(tensors, path, {**said, "batches": "2"}),
        lambda: save_file(tensors, path, {k: v for k, v in said.items() if k != "batches"}),
        lambda: save_file(tensors, path),
    ):
        spoil()
        with pytest.raises(ls.LawscopeError, match=r"damaged; delete it"):
            ls.next_token(model, BATCHES, checkpoint=path)
    path.write_bytes(whole)
    assert ls.next_token(model, BATCHES, checkpoint=path).n == 60 * 29


def test_a_place_that_cannot_be_written_is_refused_before_the_first_batch(model, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ls.LawscopeError, match="part of that path is a file"):
        ls.next_token(model, BATCHES, checkpoint=tmp_path / "file" / "moments.safetensors")


def test_what_is_of_something_else_is_refused(model, tmp_path):
    path = tmp_path / "moments.safetensors"
    stopped(model, path)
    other = copy.deepcopy(model)
    with torch.no_grad():
        next(other.parameters()).mul_(2)
    deeper = gpt(vocabulary=50, width=8, depth=5, heads=2, context=30)
    for network, batches, settings, sentence in (
        (other, BATCHES, {}, "other weights"),
        (deeper, BATCHES, {}, "other weights|another model"),
        (model, BATCHES, {"folds": 4}, "other settings: folds 5 and now 4"),
        (model, BATCHES, {"targets": ("current",)}, "other settings: targets"),
        (model, [b.flip(0) for b in BATCHES], {}, "not what the interrupted measurement had read"),
    ):
        with pytest.raises(ls.LawscopeError, match=sentence):
            ls.next_token(network, batches, checkpoint=path, **settings)
    assert path.is_file()


def test_a_control_that_fails_is_not_saved_any_more(model, tmp_path, monkeypatch):
    class Tired(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.calls = copy.deepcopy(model), 0

        def forward(self, ids):
            self.calls += 1
            if self.calls > 4:
                raise RuntimeError("enough")
            return self.inner(ids)

    monkeypatch.setattr(checkpoint, "SAVE_SECONDS", 0)
    monkeypatch.setattr(checkpoint, "SAVE_SHARE", 0)
    with pytest.warns(ls.LawscopeWarning, match="no control: .*enough"):
        result = ls.next_token(model, BATCHES, control=Tired(), checkpoint=tmp_path / "moments")
    assert result.control is None
    assert result.settings["sequences"] == len(IDS)
