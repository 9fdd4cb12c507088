"""One contract for every statistic: cutting, merging, saving and copying change nothing."""

import copy
import dataclasses
import pickle
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import lawscope as ls
from lawscope.statistics import class_scatter, prediction_moments
from lawscope.statistics.base import Statistic
from lawscope.statistics.class_scatter import ClassScatter
from lawscope.statistics.fold_moments import FoldMoments
from lawscope.statistics.nearest_mean import NearestMean
from lawscope.statistics.prediction_moments import PredictionMoments
from lawscope.statistics.unit_moments import UnitMoments

N, DIM, CLASSES = 240, 6, 3


@pytest.fixture(autouse=True, scope="module")
def small_buffers():
    """Buffers that are flushed many times by these few rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(class_scatter, "BUFFER_NUMBERS", 40 * DIM)
        patch.setattr(prediction_moments, "BUFFER_ROWS", 40)
        yield


def features(dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(N, DIM, generator=generator, dtype=torch.float64)
    x += 2 * torch.randn(CLASSES, DIM, generator=generator, dtype=torch.float64)[labels()]
    return (x + 3).to(dtype)


def labels():
    return torch.randint(0, CLASSES, (N,), generator=torch.Generator().manual_seed(1))


def nearest_mean(shift=0.0):
    x, y = features(), labels()
    means = torch.stack([x[y == k].mean(dim=0) for k in range(CLASSES)]) + shift
    return NearestMean(means, means[[2, 0, 1]], None, torch.arange(CLASSES))


def tokens(condition=1.0):
    """Features of about this condition number, two columns of token ids, and folds."""

    def columns(dtype):
        x, y = features(), labels()
        x[:, -1] = x[:, 0] + (x[:, -1] - x[:, 0]) / condition
        noise = torch.randint(0, 40, (N,), generator=torch.Generator().manual_seed(2))
        ids = torch.stack([y + 2 * (x[:, 1] > 3), (10 * x[:, 2] + noise).abs().long()], dim=1)
        return x.to(dtype), ids, torch.arange(N) // 7 % 4

    return columns


def folded(dtype):
    """Rows with their folds, and partners that have something to do with them."""
    x = features(dtype)
    return x, torch.arange(N) // 7 % 4, x[:, :2] * x[:, 2:4] - 1


def scatter(strategy, folds=3, **settings):
    return lambda: ClassScatter(strategy, folds, **settings)


def moments(**settings):
    settings = {"folds": 4, "token_bytes": 10**6, **settings}
    return lambda: PredictionMoments(DIM, 2, **settings)


@dataclass
class Case:
    """How a statistic is made and fed, and which one it must not be merged with."""

    make: object
    other: object
    rel: float = 1e-9
    passes: int = 1
    columns: object = lambda dtype: (features(dtype), labels())

    def feed(self, stat, rows, dtype=torch.float64):
        if len(rows):
            x, *others = (column[rows] for column in self.columns(dtype))
            stat.update(x, *others)
        return stat

    def measure(self, shards, dtype=torch.float64, between=lambda stat: stat):
        """Feed each shard (a list of batches) to a statistic of its own, merge, and go on."""
        merged = self.make()
        for number in range(self.passes):
            if number:
                merged.next_pass()
            stats = [copy.deepcopy(merged) for _ in shards]
            for i, shard in enumerate(shards):
                for rows in shard:
                    stats[i] = between(self.feed(stats[i], rows, dtype))
            merged, *others = stats
            for stat in others:
                merged.merge(stat)
        return merged


CASES = {
    "class scatter, held": Case(scatter("held"), scatter("held", 2)),
    "class scatter, scatter": Case(scatter("scatter"), scatter("held")),
    "class scatter, two-pass": Case(
        scatter("two-pass"), scatter("two-pass", weighting="class"), passes=2
    ),
    "nearest mean": Case(nearest_mean, lambda: nearest_mean(shift=1.0)),
    "prediction moments": Case(moments(), moments(folds=5), columns=tokens()),
    "prediction moments, whitened": Case(
        moments(), moments(precision="fast"), columns=tokens(condition=1e4)
    ),
    "prediction moments, codings": Case(
        moments(token_bytes=8 * DIM * 4), moments(token_bytes=0), columns=tokens()
    ),
    "prediction moments, fast": Case(
        moments(precision="fast", dtype=torch.float32), moments(precision="fast"), 1e-4, 1, tokens()
    ),
    "unit moments": Case(
        lambda: UnitMoments(DIM, DIM),
        lambda: UnitMoments(DIM, 3),
        1e-5,
        1,
        lambda d: (features(d),),
    ),
    "unit moments, some": Case(
        lambda: UnitMoments(DIM, 3), lambda: UnitMoments(DIM, 2), 1e-5, 1, lambda d: (features(d),)
    ),
    "fold moments": Case(
        lambda: FoldMoments(DIM, 4),
        lambda: FoldMoments(DIM, 5),
        1e-5,
        1,
        lambda d: folded(d)[:2],
    ),
    "fold moments, of pairs": Case(
        lambda: FoldMoments(DIM, 4, 2), lambda: FoldMoments(DIM, 5, 2), 1e-5, 1, folded
    ),
}
every_statistic = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
WHOLE = torch.arange(N)


# The error that rounding may make depends on what came first.
def assert_same(found, expected, rel):
    for part in dataclasses.fields(expected):
        if part.name != "lost":
            ours, theirs = getattr(found, part.name), getattr(expected, part.name)
            np.testing.assert_allclose(ours, theirs, rtol=rel, err_msg=part.name)


def test_every_statistic_is_here():
    assert {type(case.make()) for case in CASES.values()} == set(Statistic.__subclasses__())


@every_statistic
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_batches_do_not_matter(case, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, N), max_size=6)))
    whole = case.measure([[WHOLE]]).compute()
    assert_same(case.measure([WHOLE.tensor_split(cuts)]).compute(), whole, case.rel)


@every_statistic
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_merging_in_any_order_gives_the_same(case, data):
    cuts = sorted(data.draw(st.lists(st.integers(0, N), min_size=1, max_size=3)))
    shards = [[rows] for rows in WHOLE.tensor_split(cuts)]
    whole = case.measure([[WHOLE]]).compute()
    merged = case.measure(data.draw(st.permutations(shards)))
    assert_same(merged.compute(), whole, case.rel)


@every_statistic
@pytest.mark.parametrize("at", [0, 3, 150])
def test_a_saved_state_goes_on_where_it_was(case, at):
    def saved(stat):
        if getattr(stat, "in_second_pass", False):
            return stat
        again = case.make()
        again.load_state_dict({k: v.clone() for k, v in stat.state_dict().items()})
        return again

    whole = case.measure([[WHOLE]]).compute()
    found = case.measure([[WHOLE[:at], WHOLE[at:]]], between=saved)
    assert_same(found.compute(), whole, case.rel)
    assert all(isinstance(v, torch.Tensor) for v in case.make().state_dict().values())


@every_statistic
def test_copies_and_pickles_have_seen_the_same_and_go_their_own_way(case):
    whole = case.measure([[WHOLE]]).compute()
    for ship in (copy.deepcopy, lambda stat: pickle.loads(pickle.dumps(stat))):
        found = case.measure([[WHOLE[:50], WHOLE[50:]]], between=ship).compute()
        assert_same(found, whole, case.rel)
    stat = case.measure([[WHOLE]])
    case.feed(copy.deepcopy(stat), WHOLE[:20])
    assert_same(stat.compute(), whole, 1e-12)


@every_statistic
def test_reset_forgets_everything(case):
    whole = case.measure([[WHOLE]]).compute()
    stat = case.measure([[WHOLE[:100]]])
    stat.reset()
    for number in range(case.passes):
        if number:
            stat.next_pass()
        case.feed(stat, WHOLE)
    assert_same(stat.compute(), whole, case.rel)


@every_statistic
@pytest.mark.parametrize("modes", [(True, False), (False, True)])
def test_inference_mode_may_come_and_go(case, modes):
    whole = case.measure([[WHOLE]]).compute()
    inference = iter(modes * case.passes)

    with torch.inference_mode(modes[0]):
        stat = case.make()
    for number in range(case.passes):
        if number:
            stat.next_pass()
        for rows in (WHOLE[:70], WHOLE[70:]):
            with torch.inference_mode(next(inference)):
                case.feed(stat, rows)
    assert_same(stat.compute(), whole, case.rel)


@every_statistic
def test_autocast_and_autograd_change_nothing(case):
    whole = case.measure([[WHOLE]]).compute()
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.enable_grad():
        assert_same(case.measure([[WHOLE[:99], WHOLE[99:]]]).compute(), whole, case.rel)


@every_statistic
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_narrow_features_are_summed_in_float64(case, dtype):
    x, *others = case.columns(dtype)
    wide = dataclasses.replace(case, columns=lambda _: (x.double(), *others))
    found = case.measure([[WHOLE[:33], WHOLE[33:]]], dtype=dtype).compute()
    assert_same(found, wide.measure([[WHOLE]]).compute(), case.rel)


@every_statistic
def test_other_settings_are_refused(case):
    stat, other = case.feed(case.make(), WHOLE), case.feed(case.other(), WHOLE)
    before = {k: v.clone() for k, v in stat.state_dict().items()}
    with pytest.raises(ls.LawscopeError, match=r"is .* here and .* in the statistic"):
        stat.merge(other)
    with pytest.raises(ls.LawscopeError, match=r"is .* here and .* in the state"):
        stat.load_state_dict(other.state_dict())
    with pytest.raises(ls.LawscopeError, match="cannot be merged"):
        stat.merge(next(c.make() for c in CASES.values() if type(c.make()) is not type(stat)))
    with pytest.raises(ls.LawscopeError, match="another version of lawscope"):
        stat.load_state_dict({k: v for k, v in before.items() if k != "settings"})
    assert all(torch.equal(v, before[k]) for k, v in stat.state_dict().items())


@every_statistic
def test_an_update_that_failed_half_way_is_not_forgotten(case, monkeypatch):
    stat = case.feed(case.make(), WHOLE[:100])
    with monkeypatch.context() as patch:
        for name in ("index_add_", "clone", "outer", "addr_"):
            patch.setattr(torch.Tensor, name, lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            case.feed(stat, WHOLE[100:])
    for act in (stat.compute, stat.state_dict, lambda: case.make().merge(stat)):
        with pytest.raises(ls.LawscopeError, match="failed half way"):
            act()
    stat.reset()
    case.feed(stat, WHOLE)
