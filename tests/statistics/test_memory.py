from types import SimpleNamespace

import pytest

from lawscope.errors import LawscopeError
from lawscope.statistics.memory import Load, parse_memory, plan


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("2GB", 2 * 10**9),
        ("512mb", 512 * 10**6),
        ("1.5 GiB", 15 * 10**8),
        (1000, 1000),
        ("1k", 1000),
    ],
)
def test_sizes(text, size):
    assert parse_memory(text) == size


@pytest.mark.parametrize("text", ["", "lots", "-1GB", "0", "2XB", "1.2.3GB"])
def test_what_is_no_size(text):
    with pytest.raises(LawscopeError, match="not a size"):
        parse_memory(text)


def loads(*dims):
    return [Load(f"layer{i}", d, 4) for i, d in enumerate(dims)]


def test_small_data_is_held_in_one_pass():
    chosen = plan(loads(100, 1000), groups=80, samples=1000, memory=10**8)
    assert chosen.strategies == ("held", "held")
    assert chosen.rounds == ((0, 1),)


def test_few_features_and_many_samples_take_the_scatter():
    chosen = plan(loads(20), groups=80, samples=10**7, memory=10**7)
    assert chosen.strategies == ("scatter",)


def test_wide_features_take_two_passes_in_as_many_rounds_as_fit():
    memory = 2 * 16 * 80 * 4000 + 10
    chosen = plan(loads(4000, 4000, 4000), groups=80, samples=10**6, memory=memory)
    assert set(chosen.strategies) == {"two-pass"}
    assert chosen.rounds == ((0, 1), (2,))


def test_beyond_some_thousand_features_tables_are_as_precise_as_the_features():
    memory = 2 * 4 * 80 * 800_000 + 10
    chosen = plan(loads(*[800_000] * 3), groups=80, samples=10**6, memory=memory)
    assert chosen.rounds == ((0, 1), (2,))
    # Held features need no table at all.
    chosen = plan(loads(800_000), groups=80, samples=100, memory=4 * 100 * 800_000 + 10**6)
    assert chosen.strategies == ("held",)


def test_the_default_budget_is_a_quarter_of_what_is_free(monkeypatch):
    free = SimpleNamespace(available=0)
    monkeypatch.setattr("psutil.virtual_memory", lambda: free)
    for free.available, budget in [
        (10**6, 512 * 10**6),
        (8 * 10**9, 2 * 10**9),
        (10**12, 4 * 10**9),
    ]:
        assert parse_memory("auto") == budget


def test_what_fits_nowhere_names_the_station():
    with pytest.raises(LawscopeError, match="'layer0' has 5000 features"):
        plan(loads(5000), groups=80, samples=10**6, memory=1000)
    with pytest.raises(LawscopeError, match="strategy='held' needs"):
        plan(loads(5000), groups=80, samples=10**6, memory=10**6, forced="held")
    with pytest.raises(LawscopeError, match="read only once"):
        plan(loads(5000), groups=80, samples=10**6, memory=10**7, read_once=True)
