"""Text to windows: nothing lost, nothing twice, framed on purpose."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lawscope.cli.text import read_pieces
from lawscope.data.windows import Frame, encoder_of, frame_of, pack, read_tokens_of
from lawscope.errors import LawscopeError


class Letters:
    """A tokenizer as people write their own."""

    def encode(self, text):
        return [ord(letter) for letter in text]


class Framing(Letters):
    """One that frames by itself, as Hugging Face tokenizers do."""

    def encode(self, text, add_special_tokens=True):
        ids = super().encode(text)
        return [1, *ids, 2] if add_special_tokens else ids


class Loud(Letters):
    """One that warns of texts beyond its context unless told not to, as Hugging Face's do."""

    model_max_length = 1

    def encode(self, text, verbose=True):
        assert not verbose
        return super().encode(text)


class Limited(Letters):
    """One that has a context and no such warning."""

    model_max_length = 1


@given(n=st.integers(0, 200), length=st.integers(3, 20), before=st.integers(0, 1))
def test_windows_hold_the_text_in_order_once(n, length, before):
    ids, frame = torch.arange(100, 100 + n), Frame((9,) * before)
    step = length - before
    if n < step:
        with pytest.raises(LawscopeError, match=f"{step - n} are missing"):
            pack(ids, length, frame)
        return
    windows = pack(ids, length, frame)
    assert windows.ids.shape == (n // step, length)
    assert windows.text_tokens == n // step * step
    assert windows.text_tokens + windows.left == n
    assert (windows.ids[:, :before] == 9).all()
    assert windows.ids[:, before:].flatten().tolist() == ids[: n // step * step].tolist()


def test_a_frame_is_what_the_tokenizer_adds_and_a_causal_text_goes_on():
    assert frame_of(Framing(), "masked") == Frame((1,), (2,))
    assert frame_of(Framing(), "causal") == Frame((1,), ())
    assert frame_of(Letters(), "causal") == Frame()
    assert encoder_of(Framing())("ab") == [97, 98]
    assert encoder_of(Loud())("ab") == [97, 98]
    assert encoder_of(Limited())("ab") == [97, 98]


@pytest.mark.parametrize(
    "give",
    [
        lambda text: [ord(c) for c in text],
        lambda text: {"input_ids": [ord(c) for c in text]},
        lambda text: torch.tensor([ord(c) for c in text]),
    ],
)
def test_ids_in_any_form(give):
    assert encoder_of(give)("ab") == [97, 98]


@pytest.mark.parametrize(
    ("tokenizer", "words"),
    [
        (7, "is a int"),
        (lambda text: "ab", "not a list of token"),
        (lambda t: t.x, "raised Attr"),
    ],
)
def test_what_is_not_a_tokenizer_is_an_error(tokenizer, words):
    with pytest.raises(LawscopeError, match=words):
        encoder_of(tokenizer)("ab")


def test_pieces_join_to_the_text_and_end_with_lines(tmp_path, monkeypatch):
    monkeypatch.setattr("lawscope.cli.text.PIECE_BYTES", 16)
    (tmp_path / "a").write_text("one line\nánother, longer than a piece\nend")
    (tmp_path / "b").write_text("\ufeff" + "x" * 50)
    made = list(read_pieces([tmp_path / "a", tmp_path / "b"]))
    assert "".join(made) == "one line\nánother, longer than a piece\nend" + "x" * 50
    assert made[0] == "one line\n"
    assert len(made) > 5


def test_reading_stops_when_there_is_enough():
    read = []

    def text():
        for piece in ("abc", "def", "ghi"):
            read.append(piece)
            yield piece

    assert read_tokens_of(text(), Letters().encode, 4).tolist() == [97, 98, 99, 100]
    assert read == ["abc", "def"]
