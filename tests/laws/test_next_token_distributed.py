"""The same numbers from several ranks as from one."""

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
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


def work(rank, folder):
    torch.set_num_threads(1)
    store = f"file://{folder}/store"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=WORLD)
    ids = model_and_text()[1]
    sampler = DistributedSampler(TensorDataset(ids), WORLD, rank, shuffle=False)
    answers = {
        # Batches of four, the last one smaller, as people feed several processes.
        "causal": DataLoader(TensorDataset(ids), batch_size=4, sampler=sampler),
        # Uneven shards.
        "masked": [ids[:41][rank::WORLD][:7], ids[:41][rank::WORLD][7:]],
    }
    results = {t: measured(b, t, distributed=True) for t, b in answers.items()}
    torch.save({t: result.to_dict() for t, result in results.items()}, f"{folder}/{rank}.pt")
    dist.destroy_process_group()


@pytest.mark.filterwarnings("ignore:.*per feature.*:lawscope.errors.LawscopeWarning")
def test_folds_and_hidden_places_are_those_of_one_process(tmp_path):
    mp.spawn(work, (str(tmp_path),), nprocs=WORLD)
    ids = model_and_text()[1]
    for task, text in (("causal", ids), ("masked", ids[:41])):
        alone = measured(text, task).to_dict()
        for rank in range(WORLD):
            shared = torch.load(tmp_path / f"{rank}.pt")[task]
            assert shared["n"] == alone["n"]
            for name in ("pr", "pr_adjusted", "pr_cv", "pr_onehot"):
                assert np.allclose(shared[name], alone[name], rtol=1e-11, atol=0), (task, name)
            for name in ("slope", "rho"):
                ends = shared["fit"]["interval"][name], alone["fit"]["interval"][name]
                assert np.allclose(*ends, rtol=0, atol=1e-10), (task, name)


def test_without_a_process_group_it_says_so_before_anything_runs():
    def batches():
        raise AssertionError("was read")
        yield

    with pytest.raises(ls.LawscopeError, match="init_process_group"):
        measured(batches(), "causal", distributed=True)
