"""Today's answers are those that were recorded; see record.py."""

import json

import pytest
from tests.golden import record

KEPT = json.loads((record.FOLDER / "answers.json").read_text())


@pytest.mark.parametrize("group", record.GROUPS)
def test_answers_are_those_recorded(group):
    kept = {key: numbers for key, numbers in KEPT.items() if key.startswith(f"{group}/")}
    tolerances = record.TOLERANCES + record.OTHER_MACHINES
    told = list(record.differences(kept, record.answers(group), tolerances))
    assert not told, "\n".join(told)
