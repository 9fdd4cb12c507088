"""The same numbers from several ranks as from one."""

import warnings
from datetime import timedelta

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import lawscope as ls
from lawscope.zoo.networks.language import gpt

WORLD = 2
TASKS = {"causal": {}, "masked": {"task": "masked", "mask_token": 39, "special_tokens": [0]}}


def model_and_text():
    torch.manual_seed(0)
    model = gpt(40, 8, 4, 2, 32).double().eval()
    return model, torch.randint(0, 39, (42, 20))


def measured(batches, task, **settings):
    return ls.next_token(model_and_text()[0], batches, control=None, **TASKS[task], **settings)


class Tired(nn.Module):
    """An untrained network that fails on the second rank, after its first batches."""

    def __init__(self, rank):
        super().__init__()
        self.inner, self.left = model_and_text()[0], 3 if rank else 1000

    def forward(self, ids):
        self.left -= 1
        if self.left < 0:
            raise RuntimeError("enough")
        return self.inner(ids)


class Unlike(nn.Module):
    """A network that cannot be opened on the second rank."""

    def __init__(self, rank):
        super().__init__()
        self.inner, self.rank = model_and_text()[0], rank

    def forward(self, ids):
        return self.inner(ids if not self.rank else ids.double())


def failing_controls(rank, batches):
    """What a scan says where the control fails on one rank, halfway and at once."""
    for kind in (Tired, Unlike):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ls.LawscopeWarning)
            report = ls.scan(model_and_text()[0], batches, control=kind(rank), distributed=True)
        yield report.next_token.control is None, report.skipped["control"], report.next_token.pr


def work(rank, folder):
    torch.set_num_threads(1)
    store = f"file://{folder}/store"
    patience = timedelta(seconds=60)  # for a rank that waits for another in vain
    place = {"rank": rank, "world_size": WORLD, "timeout": patience}
    dist.init_process_group("gloo", init_method=store, **place)
    ids = model_and_text()[1]
    sampler = DistributedSampler(TensorDataset(ids), WORLD, rank, shuffle=False)
    answers = {
        # Batches of four, the last one smaller, as people feed several processes.
        "causal": DataLoader(TensorDataset(ids), batch_size=4, sampler=sampler),
        # Uneven shards.
        "masked": [ids[:41][rank::WORLD][:7], ids[:41][rank::WORLD][7:]],
    }
    results = {t: measured(b, t, distributed=True) for t, b in answers.items()}
    said = {t: result.to_dict() for t, result in results.items()}
    said["controls"] = list(failing_controls(rank, list(answers["causal"])))
    torch.save(said, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


@pytest.mark.filterwarnings("ignore:.*per feature.*:lawscope.errors.LawscopeWarning")
def test_several_ranks_give_the_numbers_of_one_and_survive_a_control(tmp_path):
    mp.spawn(work, (str(tmp_path),), nprocs=WORLD)
    ids = model_and_text()[1]
    for task, text in (("causal", ids), ("masked", ids[:41])):
        alone = measured(text, task).to_dict()
        for rank in range(WORLD):
            shared = torch.load(tmp_path / f"{rank}.pt", weights_only=False)[task]
            assert shared["n"] == alone["n"]
            for name in ("pr", "pr_adjusted", "pr_cv", "pr_onehot"):
                assert np.allclose(shared[name], alone[name], rtol=1e-11, atol=0), (task, name)
            for name in ("slope", "rho"):
                ends = shared["fit"]["interval"][name], alone["fit"]["interval"][name]
                assert np.allclose(*ends, rtol=0, atol=1e-10), (task, name)
    expected = measured(ids, "causal").pr
    for rank in range(WORLD):
        halfway, at_once = torch.load(tmp_path / f"{rank}.pt", weights_only=False)["controls"]
        assert "untrained network raised RuntimeError: enough" in halfway[1]
        assert rank or "Rank 1 failed" in at_once[1]
        for without, _, pr in (halfway, at_once):
            assert without
            assert np.allclose(pr, expected, rtol=1e-11, atol=0)


def test_without_a_process_group_it_says_so_before_anything_runs():
    def batches():
        raise AssertionError("was read")
        yield

    with pytest.raises(ls.LawscopeError, match="init_process_group"):
        measured(batches(), "causal", distributed=True)
