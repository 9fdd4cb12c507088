"""Work for several gloo processes, in a module of its own so that they can import it."""

import os
import time
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from tests import cases
from torch import nn

import lawscope as ls
from lawscope.errors import LawscopeError
from lawscope.zoo.networks.language import gpt


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, cases.CLASSES)
    )


IDS = list(cases.tokens()["input_ids"].split(20))


def language():
    torch.manual_seed(0)
    return gpt(vocabulary=44, width=8, depth=4, heads=2, context=7)


def share(rank, world):
    x, y = cases.vectors()[rank::world], cases.labels()[rank::world]
    return list(zip(x.split(10), y.split(10), strict=True))


def said(work):
    """The sentence of an error, or what came out."""
    try:
        return work()
    except LawscopeError as error:
        return str(error)


def work(rank, world, folder):
    warnings.simplefilter("ignore")
    store = f"file://{folder}/store"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=world)
    torch.save({name: task(rank, world) for name, task in TASKS.items()}, f"{folder}/{rank}.pt")
    # A rank that leaves while another still reads from it would reset the connection.
    while not all(Path(folder, f"{other}.pt").exists() for other in range(world)):
        time.sleep(0.05)
    dist.destroy_process_group()
    # All is written. At the end of an interpreter gloo's own threads now and then abort it.
    os._exit(0)


def measure(model, data):
    separation = ls.separation(model, data, uncertainty=None)
    collapse = ls.collapse(model, data, uncertainty=None)
    report = ls.scan(model, data, uncertainty=None)
    return {
        "values": separation.values.tolist(),
        "alone": ls.separation(model, data, uncertainty=None, distributed=False).values.tolist(),
        "collapse": (collapse.nc3, collapse.nc4, collapse.accuracy),
        "scan": report.separation.values.tolist(),
    }


def measure_more(data, ids):
    """All that may meet a rank without data, as numbers."""
    stop = ls.StopWhenLawHolds(network(), data, every=1)
    stop(1)
    return {
        "values": ls.separation(network(), data).values.tolist(),
        "read once": ls.separation(network(), iter(data)).values.tolist(),
        "collapse": ls.collapse(network(), data).nc3,
        "scan": ls.scan(network(), data, control="auto").separation.control.values.tolist(),
        "balance": ls.transfer_balance(network(), data).balance,
        "tokens": ls.next_token(language(), ids).pr.tolist(),
        "scan of text": ls.scan(language(), ids).next_token.pr.tolist(),
        "stop": stop.history[1].values.tolist(),
    }


def plain(rank, world):
    answers = measure(network(), share(rank, world))
    # Once the second rank has no data, once the first; as a list, and as a generator.
    for other in range(world):
        own = [] if rank == other else share(0, 1)[other:]
        answers["without", other] = measure_more(own, [] if rank == other else IDS)
    works = {
        "empty": lambda: ls.separation(network(), []),
        "folds": lambda: ls.separation(network(), share(rank, world), folds=4 + rank),
        "targets": lambda: ls.next_token(language(), IDS, targets=(("next", "current")[rank],)),
        "parameters": lambda: ls.separation((network(), cases.sequential())[rank], share(0, 1)),
    }
    return answers | {"sentences": {name: said(work) for name, work in works.items()}}


def fully_sharded(rank, world):
    from torch.distributed.fsdp import fully_shard

    model = network()
    for part in (model[0], model[2], model[4]):
        fully_shard(part)
    fully_shard(model)
    before = {name: value.to_local().clone() for name, value in model.named_parameters()}
    answers = measure(model, share(rank, world))
    after = {name: value.to_local() for name, value in model.named_parameters()}
    answers["kept"] = all(torch.equal(after[name], before[name]) for name in before)
    uneven = share(rank, world)[: 2 - rank]
    return answers | {"uneven": said(lambda: ls.separation(model, uneven))}


def tensor_parallel(rank, world):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import parallel

    mesh = init_device_mesh("cpu", (world,))
    plan = {"0": parallel.ColwiseParallel(), "2": parallel.RowwiseParallel()}
    model = parallel.parallelize_module(network(), mesh, plan)
    x, y = cases.vectors(), cases.labels()
    works = (lambda: ls.separation(model, (x, y)), lambda: ls.stations(model, x))
    return {"sentences": [said(one) for one in works]}


TASKS = {"plain": plain, "fully sharded": fully_sharded, "tensor parallel": tensor_parallel}
