"""How a study judges: four verdicts, panels over seeds, departures, protocols."""

import math
from dataclasses import replace

import pytest

from lawscope.studies.panels import brief
from lawscope.studies.registry import find
from lawscope.studies.study import (
    AUTHORS,
    BROKEN,
    FAILS,
    HOLDS,
    NETWORK,
    NOT_TRIED,
    OPEN,
    PASSES,
    Check,
    Claim,
    JudgingError,
    NotTried,
    Question,
)

CLAIM = Claim("r ≤ −0.9", "−0.99", lambda n: n["r"], lambda r: r <= -0.9, "figure 2")


@pytest.mark.parametrize(
    ("r", "verdict", "why"),
    [
        (-0.95, HOLDS, ""),
        (-0.5, FAILS, ""),
        ({"4": [-0.95, -0.92], "8": [-0.99, -0.9]}, HOLDS, ""),
        ({"4": [-0.95, -0.92], "8": [-0.5, -0.8]}, FAILS, "in 8"),
        ({"4": [-0.95, -0.8], "8": [-0.99, -0.95]}, OPEN, "1 of 2 seeds pass in 4"),
        ({"4": [-0.95, -0.8], "8": [-0.5, -0.4]}, FAILS, "in 8"),
        ({"4": [-0.5], "8": [-0.5, -0.4]}, FAILS, "in every panel"),
        ({"4": [-0.95], "8, wide": [-0.5], "9": [-0.4]}, FAILS, "in 8, wide · 9"),
        ({"4": [-0.95], **{f"{i}": [0.5] for i in range(5, 12)}}, FAILS, "in 7 of 8 panels"),
        ({"4": [-0.95, None, -0.95]}, OPEN, "2 of 3 seeds pass"),
        ({"4": [-0.95, math.nan]}, OPEN, "1 of 2 seeds pass"),
        ({"4": [None]}, FAILS, ""),
        ({"4": -0.95}, HOLDS, ""),
    ],
)
def test_panels_over_seeds(r, verdict, why):
    column = CLAIM.judge({"r": r})
    assert (column.verdict, column.why) == (verdict, why)
    assert column.measured == r


@pytest.mark.parametrize(
    ("r", "verdict"),
    [
        ({"4": [-0.95, -0.8, -0.92], "8": [-0.99]}, HOLDS),
        ({"4": [-0.95, -0.8, -0.7], "8": [-0.99]}, FAILS),
        ({"4": [-0.95, None, -0.99]}, FAILS),
        ({"4": [-0.95, math.nan, -0.99]}, FAILS),
    ],
)
def test_a_bar_may_be_on_the_median_over_seeds(r, verdict):
    assert replace(CLAIM, median=True).judge({"r": r}).verdict == verdict
    with pytest.raises(JudgingError, match="no panels"):
        replace(CLAIM, median=True).judge({"r": {"4": []}})


def test_a_preset_that_departs_supports_and_does_not_refute():
    def judged(r):
        return CLAIM.judge({"r": r}, "cpu", "60 of 600 epochs")

    assert judged(-0.95).verdict == HOLDS
    missed = judged({"4": [-0.5], "8": [-0.95]})
    assert missed.verdict == OPEN
    assert missed.why == "missed, at settings that depart from the paper's (in 4)"
    assert judged({"4": [-0.5, -0.95]}).verdict == OPEN


def test_smoke_runs_judge_nothing_and_are_evaluated_all_the_same():
    column = CLAIM.judge({"r": -0.95}, "smoke")
    assert (column.verdict, column.measured) == (NOT_TRIED, -0.95)
    assert column.why == "smoke runs show only that the study works"
    with pytest.raises(JudgingError, match="KeyError"):
        CLAIM.judge({}, "smoke")


def never(numbers):
    raise NotTried("needs 3 seeds, has 1")


def test_not_tried_is_said_on_purpose_and_everything_else_is_a_mistake():
    assert replace(CLAIM, value=never).judge({}).verdict == NOT_TRIED
    assert replace(CLAIM, value=never).judge({}).why == "needs 3 seeds, has 1"
    for numbers in ({}, {"r": {}}, {"r": {"4": []}}, {"r": "much"}):
        with pytest.raises(JudgingError, match=r"claim 'r .*could not be judged"):
            CLAIM.judge(numbers)
    with pytest.raises(JudgingError, match="question 'how much"):
        Question("how much?", lambda n: n["r"], str).judge({})
    with pytest.raises(JudgingError, match="check 'r'"):
        Check("r", lambda n: n["r"], bool).judge({})


def test_questions_are_answered_and_checks_pass_or_fail():
    asked = Question("how much?", lambda n: n["r"], lambda r: f"about {r:g}")
    assert asked.judge({"r": 2.0}).verdict == "about 2"
    assert replace(asked, value=never).judge({}).verdict == NOT_TRIED
    check = Check("r is positive", lambda n: n["r"], lambda r: r > 0)
    found = [check.judge({"r": r}).verdict for r in (1.0, -1.0, {"a": [1, 2]}, {"a": [1, None]})]
    assert found == [PASSES, BROKEN, PASSES, BROKEN]


def test_every_protocol_is_a_column_and_the_authors_decides(toys):
    study = replace(
        find("toy/quick"),
        claims=(CLAIM,),
        checks=(Check("r < 0", lambda n: n["r"], lambda r: r < 0),),
        departures={"cpu": "few epochs"},
        protocols=(AUTHORS, NETWORK),
    )
    judged = study.judge({AUTHORS: {"r": -0.99}, NETWORK: {"r": -0.5}})
    (claim,) = judged.claims
    assert {p: c.verdict for p, c in claim.columns.items()} == {AUTHORS: HOLDS, NETWORK: FAILS}
    assert (claim.verdict, claim.paper, claim.figure) == (HOLDS, "−0.99", "figure 2")
    assert judged.broken == ()
    judged = study.judge({AUTHORS: {"r": 0.5}, NETWORK: {"r": -0.5}}, "cpu")
    assert {c.verdict for c in judged.claims[0].columns.values()} == {OPEN}
    assert judged.broken == ("r < 0",)
    assert study.judge({NETWORK: {"r": -0.5}}).claims[0].verdict == FAILS


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (-6, "−6"),
        ([3, 1, -2], "1 [−2, 3]"),
        ([1, 2], "1.50 [1, 2]"),
        ([0.5], "0.500"),
        ([None, math.nan], "–"),
        ({"a": [1.0, None]}, "a: 1.00 (1 missing)"),
        ({"a": {"b": 1, "c": 2}, "d": [0.5]}, "a: (b: 1, c: 2); d: 0.500"),
        ({f"{i}": [float(i), 20.0] for i in range(13)}, "13 panels: 16.0 [0, 20.0]"),
        ([math.inf, 1.0], "∞ [1.00, ∞]"),
        ([True, False], "yes, no"),
        ([[1.0, 2.0], [3.0]], "1.50 [1.00, 2.00], 3.00"),
    ],
)
def test_measured_numbers_are_never_a_bare_list(value, text):
    assert brief(value) == text
