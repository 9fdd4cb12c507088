"""The same D from several processes as from one, over gloo."""

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from tests import cases, oracles

import lawscope as ls
from lawscope.errors import LawscopeError
from lawscope.statistics.class_scatter import ClassScatter
from lawscope.statistics.distributed import all_merge


def work(rank, world, folder, answers):
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=world
    )
    try:
        x, y = cases.vectors(), cases.labels()
        # Shards of different sizes, and the first rank never meets class 3.
        mine = (torch.arange(len(y)) % (world + 1)).clamp(max=world - 1) == rank
        if rank == 0:
            mine &= y != 3
        elif rank == 1:
            mine |= (torch.arange(len(y)) % (world + 1) == 0) & (y == 3)
        # In float64, because float32 layers round differently for another batch size.
        x, y = x[mine].double(), y[mine]
        for strategy in ("held", "scatter"):
            stat = ClassScatter(strategy, folds=4)
            stat.update(x, y)
            answers[rank, strategy] = all_merge(stat).compute().value
        torch.manual_seed(3)
        model = cases.sequential().double()
        for strategy in ("held", "two-pass"):
            result = ls.separation(model, [(x, y)], distributed=True, strategy=strategy)
            answers[rank, "model", strategy] = (result.values.tolist(), result.fit.interval["rho"])
        for kind, loader in {"list": [(x, y)], "read once": iter([(x, y)])}.items():
            found = ls.collapse(model, loader, distributed=True)
            answers[rank, "collapse", kind] = (numbers(found), found.interval["D"])
    finally:
        dist.destroy_process_group()


def numbers(found):
    """What a measurement of collapse says, whatever the order of the samples."""
    listed = [found.nc1.D, found.nc1.cdnv, found.nc3, found.nc4, found.accuracy]
    return [*listed, *found.counts, *found.class_accuracy, *found.mean_cosines.ravel()]


def test_several_processes_give_the_value_of_one(tmp_path):
    world = 3
    with mp.Manager() as manager:
        answers = manager.dict()
        mp.spawn(work, (world, str(tmp_path), answers), nprocs=world)
        answers = dict(answers)
    x, y = cases.vectors(), cases.labels()
    torch.manual_seed(3)
    model = cases.sequential().double()
    alone = ls.separation(model, (x.double(), y)).values
    collapse = numbers(ls.collapse(model, (x.double(), y)))
    assert len(answers) == 6 * world
    for (_, *kind), answer in answers.items():
        if kind[0] == "model":
            values, rho = answer
            assert values == pytest.approx(alone, rel=1e-9)
            assert rho[0] < rho[1]
        elif kind[0] == "collapse":
            assert answer[0] == pytest.approx(collapse, rel=1e-9)
        else:
            assert answer == pytest.approx(oracles.fuzziness(x, y), rel=1e-10)
    # Every rank has the same interval, to the last bit.
    for kind in [("model", "held"), ("model", "two-pass"), ("collapse", "list")]:
        assert len({answers[rank, *kind][1] for rank in range(world)}) == 1


def test_without_a_process_group_it_says_so():
    with pytest.raises(LawscopeError, match="init_process_group"):
        all_merge(ClassScatter())
