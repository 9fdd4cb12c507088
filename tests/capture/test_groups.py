"""Inside a process group ranks are merged, sharded networks are whole, or a sentence refuses."""

import pytest
import torch
import torch.multiprocessing as mp
from tests import cases
from tests.capture import groups

WORLD = 2


def answers(task, folder):
    mp.spawn(groups.work, (WORLD, str(folder), task), nprocs=WORLD)
    return [torch.load(folder / f"{rank}.pt") for rank in range(WORLD)]


@pytest.mark.parametrize("task", ["plain", "fully sharded"])
def test_every_rank_has_the_numbers_of_all_samples(task, tmp_path):
    found = answers(task, tmp_path)
    expected = groups.measure(groups.network(), (cases.vectors(), cases.labels()))
    for rank in found:
        for name in ("values", "collapse", "scan"):
            assert rank[name] == pytest.approx(expected[name], rel=1e-6)
        # One rank's share is another data set.
        assert rank["alone"] != pytest.approx(expected["values"], rel=0.02)
        if task == "plain":
            assert "The loader is empty" in rank["empty"]
        else:
            assert rank["kept"]
            assert "[2, 1] batches" in rank["uneven"]


def test_tensor_parallel_layers_are_refused(tmp_path):
    for rank in answers("tensor parallel", tmp_path):
        assert all("0.weight is split over processes" in said for said in rank["sentences"])
