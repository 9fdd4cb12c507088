"""What every registered study must do: run small, be JSON, draw, and be able to hold and to fail.

A study brings made-up numbers in ``tests/studies/examples/<family>.py``: a pair, on the first of
which every claim holds and every check passes, and on the second of which none does.
"""

import json
from dataclasses import replace
from importlib import import_module

import pytest
from tests.studies import stand_ins
from tests.studies.memory import Memory

from lawscope.studies import registry
from lawscope.studies.datasets import samples_of
from lawscope.studies.lab import Lab
from lawscope.studies.plan import with_starts
from lawscope.studies.result import from_json, to_json
from lawscope.studies.study import BROKEN, FAILS, HOLDS, NOT_TRIED, PASSES, PRESETS

NAMES = registry.names()
VARIABLES = ("LAWSCOPE_LANGUAGE_MODEL", "LAWSCOPE_TEXT", "LAWSCOPE_ENCODER")


def examples(name):
    family = name.partition("/")[0].replace("-", "_")
    return import_module(f"tests.studies.examples.{family}").EXAMPLES[name]


@pytest.fixture(scope="module")
def memory():
    """Trained networks."""
    with pytest.MonkeyPatch.context() as patch:
        stand_ins.stand_in(patch)
        for variable in VARIABLES:
            patch.delenv(variable, raising=False)
        yield Memory()
    samples_of.cache_clear()


@pytest.mark.parametrize("name", NAMES)
def test_smoke_runs_is_json_is_judged_and_draws(name, memory):
    study = registry.find(name)
    settings = json.loads(json.dumps(study.settings["smoke"]))
    family = name.partition("/")[0]
    if family not in memory.families:
        memory.families.add(family)
        others = (registry.find(each) for each in registry.choose(family))
        memory.train([t for each in others for t in each.plan(each.settings["smoke"])])
    memory.asked.clear()
    # What the protocol changes is the lab's affair; checks must pass under each.
    protocols = study.protocols if study.checks else study.protocols[:1]
    numbers = {
        protocol: study.measure(Lab(settings, memory, protocol=protocol)) for protocol in protocols
    }
    assert memory.asked.keys() <= with_starts(study.plan(settings)).keys()
    numbers = from_json(json.loads(json.dumps(to_json(numbers), allow_nan=False)))
    judgement = study.judge(numbers, "smoke")
    assert {claim.verdict for claim in judgement.claims} <= {NOT_TRIED}
    assert not judgement.broken
    first = numbers[study.protocols[0]]
    study.figure(first).draw_without_rendering()
    if study.table is not None:
        titles, *rows = study.table(first)
        assert rows
        assert {len(row) for row in rows} == {len(titles)}


@pytest.mark.parametrize("name", NAMES)
def test_every_sentence_can_hold_and_can_fail(name):
    # What a preset does otherwise than the paper would turn every miss into an open claim.
    study = replace(registry.find(name), departures={})
    good, bad = examples(name)
    judged = study.judge(dict.fromkeys(study.protocols, good))
    assert {claim.text: claim.verdict for claim in judged.claims} == {
        claim.text: HOLDS for claim in study.claims
    }
    assert {check.verdict for check in judged.checks} <= {PASSES}
    assert NOT_TRIED not in {question.verdict for question in judged.questions}
    judged = study.judge(dict.fromkeys(study.protocols, bad))
    assert {claim.text: claim.verdict for claim in judged.claims} == {
        claim.text: FAILS for claim in study.claims
    }
    assert {check.verdict for check in judged.checks} <= {BROKEN}


@pytest.mark.parametrize("name", NAMES)
def test_presets_are_json_with_a_plan_a_time_and_a_source(name):
    study = registry.find(name)
    assert study.claims or study.questions
    assert set(study.settings) == set(study.minutes) == set(PRESETS)
    assert set(study.departures) <= {"cpu", "paper"}
    for preset in PRESETS:
        settings = json.loads(json.dumps(study.settings[preset]))
        assert settings == study.settings[preset]
        assert study.minutes[preset] > 0
        keys = [training.key for training in study.plan(settings)]
        more = {training.key for training in study.plan({**settings, "seeds": 7})}
        assert set(keys) <= more
        assert not keys or len(more) > len(set(keys))
