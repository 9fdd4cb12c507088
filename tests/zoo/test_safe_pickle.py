from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from canonical_files import python2_batch

from lawscope.zoo.safe_pickle import read_plain_pickle


class RunsCode:
    def __init__(self, function: Any, *args: object) -> None:
        self.call = function, args

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("protocol", [3, 4])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_today(protocol: int, order: Any) -> None:
    array = np.asarray(np.arange(12, dtype=np.uint8).reshape(3, 4), order=order)
    read = read_plain_pickle(pickle.dumps({b"data": array}, protocol))
    np.testing.assert_array_equal(read[b"data"].value, array)


def test_arrays_of_python_2() -> None:
    array = np.arange(6, dtype=np.uint8).reshape(2, 3)
    read = read_plain_pickle(python2_batch(array, [7, 3]))
    assert read[b"labels"] == [7, 3]
    assert read[b"batch_label"] == b"training batch"
    np.testing.assert_array_equal(read[b"data"].value, array)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_code_is_refused_and_not_run(tmp_path: Path, protocol: int) -> None:
    bait = tmp_path / "bait"
    content = pickle.dumps({"data": RunsCode(os.mkdir, str(bait))}, protocol)
    with pytest.raises(pickle.UnpicklingError, match=r"asks to run \w+\.mkdir, which is refused"):
        read_plain_pickle(content)
    assert not bait.exists()


@pytest.mark.parametrize("function", [eval, exec, getattr, __import__, np.load, np.frombuffer])
def test_no_function_is_admitted(function: Any) -> None:
    with pytest.raises(pickle.UnpicklingError, match="which is refused"):
        read_plain_pickle(pickle.dumps(RunsCode(function, "1")))


@pytest.mark.parametrize("array", [np.arange(3), np.array([{}, []], dtype=object)])
def test_other_arrays_are_refused(array: Any) -> None:
    with pytest.raises(pickle.UnpicklingError, match="not unsigned bytes"):
        read_plain_pickle(pickle.dumps(array, 4))


def test_every_cut_is_an_unpickling_error() -> None:
    content = python2_batch(np.arange(6, dtype=np.uint8).reshape(2, 3), [7, 3])
    for kept in range(len(content)):
        with pytest.raises(pickle.UnpicklingError):
            read_plain_pickle(content[:kept])
