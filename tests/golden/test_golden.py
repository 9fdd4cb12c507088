"""Today's answers are those that were recorded; see record.py."""

import json

import pytest
import torch
from tests.golden import record
from threadpoolctl import threadpool_limits

KEPT = json.loads((record.FOLDER / "answers.json").read_text())


@pytest.fixture
def four_threads():
    """On a machine that would compute on more threads the answers are the same."""
    torch.set_num_threads(4)
    with threadpool_limits(4):
        yield
    assert torch.get_num_threads() == 4
    torch.set_num_threads(1)


@pytest.mark.usefixtures("four_threads")
@pytest.mark.parametrize("group", record.GROUPS)
def test_answers_are_those_recorded(group):
    kept = {key: numbers for key, numbers in KEPT.items() if key.startswith(f"{group}/")}
    tolerances = record.TOLERANCES + record.OTHER_MACHINES
    told = list(record.differences(kept, record.answers(group), tolerances))
    assert not told, "\n".join(told)
