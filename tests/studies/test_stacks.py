"""Sharing trainings out to workers."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from lawscope.studies.plan import Network, Training, with_starts
from lawscope.studies.scheduler import MOST_NETWORKS, MOST_SECONDS, stacks_of


def trainings(count, depth=4):
    return [Training(Network.of("feedforward", depth=depth), seed=seed) for seed in range(count)]


@settings(max_examples=30, deadline=None)
@given(
    counts=st.lists(st.integers(1, 40), min_size=1, max_size=3),
    jobs=st.integers(1, 8),
    cost=st.floats(0.01, 1000),
)
def test_every_training_is_in_one_stack_of_bounded_size(counts, jobs, cost):
    asked = [t for depth, count in enumerate(counts, 3) for t in trainings(count, depth)]
    stacks = stacks_of(asked, jobs, lambda training: cost)
    assert sorted(t.key for stack in stacks for t in stack) == sorted(t.key for t in asked)
    for stack in stacks:
        assert len({t.shape for t in stack}) == 1
        assert len(stack) <= MOST_NETWORKS
        assert cost * len(stack) <= MOST_SECONDS or len(stack) == 1
    assert [len(s) for s in stacks] == sorted((len(s) for s in stacks), reverse=True)


def test_a_sweep_is_cut_into_as_few_stacks_as_keep_all_workers_busy():
    sizes = [len(stack) for stack in stacks_of(trainings(7), 2, lambda training: 10.0)]
    assert sizes == [4, 3]
    assert len(stacks_of(trainings(7), 1, lambda training: 10.0)) == 1
    assert len(stacks_of(trainings(3), 8, lambda training: 10.0)) == 3


def test_starts_are_added_once_and_first():
    (first,) = trainings(1)
    second = replace(first, start=first, copied=1)
    third = replace(first, start=second)
    other = replace(second, seed=5)
    needed = with_starts([third, other, first])
    assert list(needed) == [first.key, second.key, third.key, other.key]


def test_generations_are_not_mixed_in_a_stack():
    (first,) = trainings(1)
    second = replace(first, start=first)
    third = replace(first, start=second)
    assert second.shape == third.shape
    assert len(stacks_of([second, third], 1, lambda training: 1.0)) == 2


def test_nothing_to_train_is_no_stack():
    assert stacks_of([], 2, lambda training: 1.0) == []
