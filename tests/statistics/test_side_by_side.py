"""Solves on several cores: the same answers, torch's threads as before, errors as they are."""

import threading

import pytest
import torch

from lawscope.errors import LawscopeError
from lawscope.statistics.side_by_side import one_thread, side_by_side


@pytest.fixture(params=[1, 2, 3, 8])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_answers_come_in_order_and_threads_are_as_before(threads, count):
    seen = []

    def solve(i):
        seen.append(torch.get_num_threads())
        return i, float(torch.eye(3).mul(i).sum())

    found = side_by_side([lambda i=i: solve(i) for i in range(count)])
    assert found == [(i, 3.0 * i) for i in range(count)]
    assert torch.get_num_threads() == threads
    assert set(seen) <= {max(1, threads // min(threads, 4, count or 1))}


def test_they_run_at_once():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    both = threading.Barrier(2, timeout=20)
    try:
        assert sorted(side_by_side([both.wait, both.wait])) == [0, 1]
    finally:
        torch.set_num_threads(before)


def test_an_error_is_raised_as_it_is(threads):
    def broken():
        raise LawscopeError("too few rows")

    with pytest.raises(LawscopeError, match="too few rows"):
        side_by_side([lambda: 1, broken, lambda: 2])
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("inference", [False, True])
def test_tensors_of_inference_mode_may_be_changed_in_it(threads, inference):
    with torch.inference_mode(inference):
        sums = [torch.zeros(2) for _ in range(3)]
        side_by_side([lambda each=each: each.add_(1) for each in sums])
    assert torch.stack(sums).eq(1).all()


def test_one_thread_is_given_back(threads):
    def broken():
        with one_thread():
            assert torch.get_num_threads() == 1
            raise LawscopeError("too few rows")

    with pytest.raises(LawscopeError, match="too few rows"):
        broken()
    assert torch.get_num_threads() == threads


def test_as_many_at_once_as_are_asked_for():
    before = torch.get_num_threads()
    torch.set_num_threads(6)
    all_of_them = threading.Barrier(6, timeout=20)
    try:
        assert sorted(side_by_side([all_of_them.wait] * 6, most=6)) == [0, 1, 2, 3, 4, 5]
    finally:
        torch.set_num_threads(before)
