"""The BLAS beside torch has one thread inside, and as many as before afterwards."""

import pytest
import scipy.linalg.cython_blas  # noqa: F401 - loads the library
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from lawscope.statistics.blas_threads import one_blas_thread
from lawscope.statistics.prediction_moments import PredictionMoments
from lawscope.statistics.rows_by_fold import RowLabels
from lawscope.statistics.side_by_side import one_thread, side_by_side


def blas_threads():
    return {found["num_threads"] for found in threadpool_info() if found["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def three():
    with threadpool_limits(3, user_api="blas"):
        assert blas_threads() == {3}
        yield
        assert blas_threads() == {3}


def test_one_inside_also_where_it_is_entered_twice_or_left_by_an_error():
    def fail():
        with one_blas_thread():
            with one_blas_thread():
                assert blas_threads() == {1}
            assert blas_threads() == {1}
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()


def test_who_computes_is_inside(monkeypatch):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        assert side_by_side([blas_threads] * 3) == [{1}] * 3
        with one_thread():
            assert blas_threads() == {1}
    finally:
        torch.set_num_threads(before)
    seen = []
    monkeypatch.setattr(PredictionMoments, "_begin", lambda *_: seen.append(blas_threads()))
    statistic = PredictionMoments(2)
    statistic.update(torch.ones(9, 2), RowLabels(torch.ones(9, 1), torch.zeros(9).long()))
    statistic.work_off()
    assert seen == [{1}]
