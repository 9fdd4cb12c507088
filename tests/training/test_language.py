"""The training of language models."""

from lawscope.training.language import rate


def test_the_rate_rises_and_falls_to_a_tenth() -> None:
    assert [round(rate(step, 100), 3) for step in (1, 5, 100)] == [0.2, 1.0, 0.1]
