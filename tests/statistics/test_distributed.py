"""The same numbers from two processes as from one, over gloo; the processes are started once."""

import pickle
import warnings
from datetime import timedelta

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from tests import cases, oracles
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import lawscope as ls
from lawscope.errors import LawscopeError
from lawscope.statistics.class_scatter import ClassScatter
from lawscope.statistics.distributed import all_merge
from lawscope.zoo.networks.language import gpt

WORLD = 2
LOSS = nn.CrossEntropyLoss()
# The ranks meet other classes first, by which the weights of samples are measured.
WEIGHTED = nn.CrossEntropyLoss(torch.tensor([1.0, 2.0, 0.5, 3.0], dtype=torch.float64))
STRATEGIES = ("held", "scatter", "two-pass")
TASKS = {"causal": {}, "masked": {"task": "masked", "mask_token": 39, "special_tokens": [0]}}


def classifier():
    """In float64, because float32 layers round differently for another batch size."""
    torch.manual_seed(3)
    layers = [layer for _ in range(4) for layer in (nn.Linear(6, 6), nn.Tanh())]
    model = nn.Sequential(*layers, nn.Linear(6, cases.CLASSES)).double()
    return model, cases.vectors(400).double(), cases.labels(400)


def rescalable():
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, cases.CLASSES)).double()
    return model, cases.vectors(1200).double(), cases.labels(1200)


def many_classes():
    """Sixty classes, and a backbone of too few outputs to tell."""
    torch.manual_seed(0)
    y = torch.arange(60 * 20) % 60
    x = torch.randn(len(y), 6) + 2 * torch.randn(60, 6)[y]
    return classifier()[0][:-1], x.double(), y


def language_model():
    torch.manual_seed(0)
    model = gpt(40, 8, 4, 2, 32).double().eval()
    return model, torch.randint(0, 39, (42, 20))


def next_token(batches, task, **settings):
    return ls.next_token(language_model()[0], batches, control=None, **TASKS[task], **settings)


def population_numbers(found):
    """What is said of the population, whatever the order of the samples."""
    ends = [*found.fit.interval["slope"], *found.fit.interval["pearson"]]
    arrays = (found.values, found.interval, found.settled, found.shares)
    return [*ends, *np.concatenate([array.ravel() for array in arrays])]


def collapse_numbers(found):
    """What a measurement of collapse says, whatever the order of the samples."""
    listed = [found.nc1.D, found.nc1.cdnv, found.nc3, found.nc4, found.accuracy]
    return [*listed, *found.counts, *found.class_accuracy, *found.mean_cosines.ravel()]


def elasticity_numbers(found):
    ends = [end for gap in found.similarities.values() for end in gap.interval["gap"]]
    return [*ends, found.accuracy, *found.counts, *found.classwise.ravel()]


def alignment_numbers(found):
    return [
        number
        for layer in found.layers
        for number in (*layer.excess.values(), *sum(layer.interval.values(), ()), layer.cross.decay)
    ]


def conservation_numbers(found):
    charges = [number for one in found.charges for number in (one.rms, one.largest)]
    return [found.samples, found.distance.value, *found.distance.interval, *charges]


def measure_classes(rank, answers):
    model, x, y = classifier()
    # Shards of different sizes, and the first rank never meets class 3.
    first = (torch.arange(len(y)) % 3 == 0) & (y != 3)
    x, y = (x[first], y[first]) if rank == 0 else (x[~first], y[~first])
    for strategy in ("held", "scatter"):
        stat = ClassScatter(strategy, folds=4)
        stat.update(x, y)
        answers["statistic", strategy] = all_merge(stat).compute().value
    for strategy in STRATEGIES:
        result = ls.separation(model, [(x, y)], distributed=True, strategy=strategy)
        answers["separation", strategy] = result.values, population_numbers(result.population)
    for kind, loader in {"list": [(x, y)], "read once": iter([(x, y)])}.items():
        found = ls.collapse(model, loader, distributed=True)
        answers["collapse", kind] = collapse_numbers(found), population_numbers(found.population)
    found = ls.elasticity(model, [(x, y)], LOSS, distributed=True)
    answers["elasticity"] = elasticity_numbers(found)
    found = ls.alignment(model, list(zip(x.split(50), y.split(50), strict=True)), WEIGHTED, null=2)
    answers["alignment"] = alignment_numbers(found)
    model, x, y = rescalable()
    mine = (torch.arange(len(y)) < 400) == (rank == 0)
    found = ls.conservation(model, (x[mine], y[mine]), LOSS, distributed=True)
    answers["conservation"] = conservation_numbers(found)
    # Few classes on the first rank, many on the second: the folds are those of all classes.
    model, x, y = many_classes()
    mine = (y < 5) == (rank == 0)
    found = ls.separation(model, (x[mine], y[mine]), distributed=True)
    answers["many classes"] = population_numbers(found.population)


def measure_tokens(rank, answers):
    ids = language_model()[1]
    sampler = DistributedSampler(TensorDataset(ids), WORLD, rank, shuffle=False)
    shards = {
        # Batches of four, the last one smaller, as people feed several processes.
        "causal": DataLoader(TensorDataset(ids), batch_size=4, sampler=sampler),
        # Uneven shards.
        "masked": [ids[:41][rank::WORLD][:7], ids[:41][rank::WORLD][7:]],
    }
    for task, batches in shards.items():
        answers[task] = next_token(batches, task, distributed=True).to_dict()


class Tired(nn.Module):
    """An untrained network that fails on the second rank, after its first batches."""

    def __init__(self, rank):
        super().__init__()
        self.inner, self.left = language_model()[0], 3 if rank else 1000

    def forward(self, ids):
        self.left -= 1
        if self.left < 0:
            raise RuntimeError("enough")
        return self.inner(ids)


class Unlike(nn.Module):
    """A network that cannot be opened on the second rank."""

    def __init__(self, rank):
        super().__init__()
        self.inner, self.rank = language_model()[0], rank

    def forward(self, ids):
        return self.inner(ids if not self.rank else ids.double())


def measure_beside_failing_controls(rank, answers):
    batches = list(language_model()[1][rank::WORLD].split(4))
    for kind in (Tired, Unlike):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ls.LawscopeWarning)
            report = ls.scan(language_model()[0], batches, control=kind(rank), distributed=True)
        found = report.next_token
        answers[kind.__name__] = found.control is None, report.skipped["control"], found.pr


def work(rank, folder):
    store = f"file://{folder}/store"
    patience = timedelta(seconds=60)  # for a rank that waits for another in vain
    place = {"rank": rank, "world_size": WORLD, "timeout": patience}
    dist.init_process_group("gloo", init_method=store, **place)
    answers = {}
    measure_classes(rank, answers)
    measure_tokens(rank, answers)
    measure_beside_failing_controls(rank, answers)
    dist.destroy_process_group()
    (folder / f"{rank}.pickle").write_bytes(pickle.dumps(answers))


def check_fuzziness(ranks):
    model, x, y = classifier()
    alone = ls.separation(model, (x, y))
    there = population_numbers(alone.population)
    assert np.isfinite(there).all()
    for answers in ranks:
        for strategy in ("held", "scatter"):
            expected = oracles.fuzziness(x, y)
            assert answers["statistic", strategy] == pytest.approx(expected, rel=1e-10)
        for strategy in STRATEGIES:
            values, population = answers["separation", strategy]
            assert values == pytest.approx(alone.values, rel=1e-9)
            assert population == pytest.approx(there, rel=1e-9)
    model, x, y = many_classes()
    there = population_numbers(ls.separation(model, (x, y)).population)
    for answers in ranks:
        assert answers["many classes"] == pytest.approx(there, rel=1e-9)


def check_collapse(ranks):
    model, x, y = classifier()
    alone = ls.collapse(model, (x, y))
    there = population_numbers(alone.population)
    for answers in ranks:
        for kind in ("list", "read once"):
            numbers, population = answers["collapse", kind]
            assert numbers == pytest.approx(collapse_numbers(alone), rel=1e-9)
            assert population == pytest.approx(there, rel=1e-9, nan_ok=True)


def check_elasticity(ranks):
    model, x, y = classifier()
    alone = elasticity_numbers(ls.elasticity(model, (x, y), LOSS))
    for answers in ranks:
        assert answers["elasticity"] == pytest.approx(alone, rel=1e-6)


def check_alignment(ranks):
    model, x, y = classifier()
    alone = alignment_numbers(ls.alignment(model, (x, y), WEIGHTED, null=2))
    for answers in ranks:
        assert answers["alignment"] == pytest.approx(alone, rel=1e-6, abs=1e-9)


def check_conservation(ranks):
    model, x, y = rescalable()
    alone = conservation_numbers(ls.conservation(model, (x, y), LOSS))
    assert alone[0] == 1000
    for answers in ranks:
        assert answers["conservation"] == pytest.approx(alone, rel=1e-9)


def check_text(ranks):
    ids = language_model()[1]
    for task, text in (("causal", ids), ("masked", ids[:41])):
        alone = next_token(text, task).to_dict()
        for shared in (answers[task] for answers in ranks):
            assert shared["n"] == alone["n"]
            for name in ("pr", "pr_adjusted", "pr_cv", "pr_onehot"):
                assert np.allclose(shared[name], alone[name], rtol=1e-11, atol=0), (task, name)
            for name in ("slope", "rho"):
                ends = shared["fit"]["interval"][name], alone["fit"]["interval"][name]
                assert np.allclose(*ends, rtol=0, atol=1e-10), (task, name)


def check_controls(ranks):
    expected = next_token(language_model()[1], "causal").pr
    for rank, answers in enumerate(ranks):
        assert "untrained network raised RuntimeError: enough" in answers["Tired"][1]
        assert rank or "Rank 1 failed" in answers["Unlike"][1]
        for without, _, pr in (answers["Tired"], answers["Unlike"]):
            assert without
            assert np.allclose(pr, expected, rtol=1e-11, atol=0)


@pytest.mark.filterwarnings("ignore:.*per feature.*:lawscope.errors.LawscopeWarning")
def test_two_processes_answer_as_one(tmp_path):
    mp.spawn(work, (tmp_path,), nprocs=WORLD)
    ranks = [pickle.loads((tmp_path / f"{rank}.pickle").read_bytes()) for rank in range(WORLD)]
    check_fuzziness(ranks)
    check_collapse(ranks)
    check_elasticity(ranks)
    check_alignment(ranks)
    check_conservation(ranks)
    check_text(ranks)
    # A control that fails on one rank is left out on all.
    check_controls(ranks)


def test_without_a_process_group_it_says_so_before_anything_runs():
    def batches():
        raise AssertionError("was read")
        yield

    with pytest.raises(LawscopeError, match="init_process_group"):
        all_merge(ClassScatter())
    with pytest.raises(LawscopeError, match="init_process_group"):
        next_token(batches(), "causal", distributed=True)
