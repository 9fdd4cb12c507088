"""Results come back: from JSON, from a page, with long arrays beside it."""

import dataclasses
import json
import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save

import lawscope as ls
from lawscope.documents import decode, drop_non_finite, encode
from lawscope.result import Result


class Pair(NamedTuple):
    a: float
    b: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Inner:
    curve: NDArray[np.float64]
    kind: Literal["one", "two"]


@dataclass(frozen=True, eq=False, repr=False)
class Sample(Result):
    schema: ClassVar[str] = "test.sample/1"
    number: float
    pair: Pair
    inner: Inner | None
    table: NDArray[np.int64]
    by_name: dict[str, tuple[float, float]]
    settings: dict[str, Any] = field(default_factory=dict)
    scratch: Any = field(default=None, metadata={"saved": False})

    def __str__(self) -> str:
        return f"sample of {self.number:g}"


def sample(number=math.nan, length=3):
    return Sample(
        number=number,
        pair=Pair(-math.inf, (1, 2)),
        inner=Inner(np.array([[1.5, math.nan], [math.inf, 0.1]]), "two"),
        table=np.arange(length),
        by_name={"r": (0.1, math.inf)},
        settings={"values": [1, 2.5, None, "word"], "nested": {"deep": math.nan}},
        scratch=object(),
    )


@pytest.mark.parametrize("number", [math.nan, math.inf, -0.0, 1e-300, 0.1 + 0.2])
def test_a_result_survives_json_to_the_last_bit(number):
    text = json.dumps(sample(number).to_dict(), allow_nan=False)
    back = Sample.from_dict(json.loads(text))
    assert back == sample(number)
    assert isinstance(back.pair, Pair)
    assert back.pair.b == (1, 2)
    np.testing.assert_array_equal(back.inner.curve, sample().inner.curve)
    assert back.table.dtype == np.int64
    assert back.scratch is None


def test_equality_sees_every_number():
    assert sample(1.0) != sample(1.0 + 1e-15)
    assert sample(1.0) != "sample"


def test_long_arrays_stand_beside_the_json(tmp_path):
    path = sample(length=300_000).save(tmp_path / "long.lawscope.json")
    assert path.stat().st_size < 2000
    assert ls.load(path) == sample(length=300_000)
    (tmp_path / "long.lawscope.json.safetensors").unlink()
    with pytest.raises(ls.LawscopeError, match="safetensors"):
        ls.load(path)


def test_a_missing_array_deep_inside_is_said_and_not_left_as_a_placeholder(tmp_path):
    long = dataclasses.replace(sample(), inner=Inner(np.random.rand(300, 300), "one"))
    path = long.save(tmp_path / "deep.lawscope.json")
    assert ls.load(path) == long
    (tmp_path / "deep.lawscope.json.safetensors").unlink()
    with pytest.raises(ls.LawscopeError, match="keep the two together"):
        ls.load(path)


def test_a_shorter_result_leaves_no_arrays_of_the_longer_one_behind(tmp_path):
    path, beside = tmp_path / "r.json", tmp_path / "r.json.safetensors"
    sample(length=300_000).save(path)
    assert beside.exists()
    sample().save(path)
    assert not beside.exists()
    assert ls.load(path).table.tolist() == [0, 1, 2]
    # What somebody else put there stays.
    for content in (save({"weight": np.zeros(3)}), b"no arrays"):
        beside.write_bytes(content)
        sample().save(path)
        assert beside.read_bytes() == content


@pytest.mark.parametrize("path", [None, 3, [], "a\0b"])
def test_what_is_not_a_path_is_said_in_a_sentence(path):
    with pytest.raises(ls.LawscopeError, match=r"cannot be read .* give a saved result"):
        ls.load(path)


@pytest.mark.parametrize("length", [3, 300_000])
def test_names_that_are_not_text_come_back(tmp_path, length):
    """As os.fsdecode gives them for a folder whose name is not UTF-8."""
    odd = dataclasses.replace(
        sample(1.0, length),
        settings={"class": "caf\udce9", "by class": {"caf\udce9": np.arange(length)}},
    )
    for name in ("odd.json", "odd.html"):
        back = ls.load(odd.save(tmp_path / name))
        assert back.settings["class"] == "caf\udce9"
        assert list(back.settings["by class"]["caf\udce9"]) == list(range(length))


def test_what_is_not_finite_is_named_or_dropped():
    written = encode({"r": (1.5, np.nan), "x": np.array([[1.0, 2.0]])})
    assert written == {"r": [1.5, "NaN"], "x": [[1.0, 2.0]]}
    assert drop_non_finite({"r": [1.5, np.nan], "D": np.inf}) == {"r": [1.5, None], "D": None}


def test_an_empty_array_keeps_its_shape():
    hint = NDArray[np.float64]
    assert decode(encode(np.zeros((0, 4))), hint).shape == (0, 4)


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ("", "JSON"),
        ("[1, 2]", "schema"),
        ('{"schema": "nobody.knows/9"}', "nobody.knows/9"),
        ('{"schema": "test.sample/1", "number": "x"}', "test.sample/1"),
        ("[" * 100_000, "JSON"),
    ],
)
def test_what_is_not_a_saved_result_is_said_in_a_sentence(tmp_path, content, word):
    path = tmp_path / "broken.json"
    path.write_text(content)
    with pytest.raises(ls.LawscopeError, match=word):
        ls.load(path)


def test_repr_is_short_and_str_is_one_line():
    assert repr(sample(2.0)) == "<Sample: sample of 2>"
