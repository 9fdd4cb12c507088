"""The embedded text and its vocabulary: what was embedded, and that the script makes it."""

import bz2
import hashlib
import importlib.util
import sys
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lawscope.errors import LawscopeError
from lawscope.zoo.text.corpus import (
    PIECES,
    BytePairs,
    join_pair,
    load_byte_pairs,
    load_text,
    text_windows,
)

ROOT = Path(__file__).parents[3]
DATA = ROOT / "src/lawscope/zoo/data"
SHA256 = "b5c4940bcfeee072c0935b5200d0f9d88a00a0199cb0961d16133458fcdfae5d"


def test_the_embedded_text_is_what_was_embedded():
    text = load_text("king-james-bible")
    assert hashlib.sha256(text.encode()).hexdigest() == SHA256
    assert text.count("\n") == 31102
    assert text.startswith("In the beginning God created the heaven and the earth.\n")
    assert text.endswith("be with you all. Amen.\n")
    assert (DATA / "king_james.txt.bz2").stat().st_size < 1_000_000


def script():
    spec = importlib.util.spec_from_file_location("embed_bible", ROOT / "scripts/embed_bible.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_script_makes_the_same_bytes_from_what_the_program_prints(tmp_path, monkeypatch):
    """A program that prints the verses with made-up references, as the package's does."""
    printed = "".join(f"Ge1:{i} {verse}\n" for i, verse in enumerate(load_text().splitlines(), 1))
    (tmp_path / "printed.txt").write_text(printed)
    program = tmp_path / "bible"
    program.write_text(f'#!/bin/sh\ntest "$4" = gen1:1-rev22:21 && cat {tmp_path}/printed.txt\n')
    program.chmod(0o755)
    embed = script()
    # Learning the pairs takes half a minute; the first ones are learned in the next test.
    monkeypatch.setattr(embed, "learn_pairs", lambda text, size: [(32, 116)])
    monkeypatch.setattr(embed, "DATA", tmp_path)
    arguments = ["embed_bible.py", "--program", str(program), "--path", "somewhere"]
    monkeypatch.setattr(sys, "argv", arguments)
    assert embed.main() == 0
    made, kept = (folder / "king_james.txt.bz2" for folder in (tmp_path, DATA))
    assert bz2.decompress(made.read_bytes()) == bz2.decompress(kept.read_bytes())


def test_the_script_says_when_the_program_is_not_there(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["embed_bible.py", "--program", str(tmp_path / "none")])
    assert script().main() == 2
    assert "install bible-kjv" in capsys.readouterr().err


def test_the_embedded_vocabulary_is_learned_from_the_embedded_text():
    kept = (DATA / "byte_pairs.txt").read_text()
    assert len(kept.splitlines()) == 768
    embed = script()
    assert kept.startswith(embed.write_pairs(embed.learn_pairs(load_text(), 256 + 12)))


def test_pairs_learned_by_counting_all_neighbours_again():
    """The oracle counts every neighbour after every joining."""
    text = load_text()[:6000]
    assert script().learn_pairs(text, 300) == slowly_learned(text, 300)


def slowly_learned(text, size):
    pieces = [list(piece.encode()) for piece in PIECES.findall(text)]
    pairs = []
    while len(pairs) < size - 256:
        counts = Counter(pair for ids in pieces for pair in pairwise(ids))
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        pairs.append(best)
        pieces = [join_pair(ids, best, 255 + len(pairs)) for ids in pieces]
    return pairs


@given(st.text())
def test_every_text_comes_back_from_its_tokens(text):
    text = text.encode("utf-8", "ignore").decode()
    for size in (256, 300, 1024):
        tokens = load_byte_pairs(size)
        ids = tokens.encode(text)
        assert tokens.decode(ids) == text
        assert ids.max(initial=0) < tokens.size == size


def test_smaller_vocabularies_are_the_beginning_of_larger_ones():
    words = "And God said unto them"
    small, large = load_byte_pairs(300).encode(words), load_byte_pairs(1024).encode(words)
    assert len(large) < len(small) < len(words)
    assert load_byte_pairs(256).encode("añ").tolist() == [97, 195, 177]


def test_pairs_are_joined_in_the_order_they_were_learned():
    ab, bc = (ord("a"), ord("b")), (ord("b"), ord("c"))
    assert BytePairs([bc, ab]).encode("abc").tolist() == [97, 256]
    assert BytePairs([ab, bc]).encode("abc").tolist() == [256, 99]
    letters = BytePairs([(ord("t"), ord("h")), (256, ord("e"))])
    assert letters.encode("the moth").tolist() == [257, 32, 109, 111, 256]
    assert letters.decode([257, 32, 109, 111, 256]) == "the moth"
    assert letters.size == 258


def test_windows_cover_the_text_once_and_every_tenth_is_held_out(tmp_path):
    file = tmp_path / "mine.txt"
    file.write_text("In the beginning was the Word, and the Word was with God.\n" * 40)
    train, test = text_windows(str(file), 8, 400)
    ids = load_byte_pairs(400).encode(load_text(str(file)))
    count = len(ids) // 8
    assert len(train) + len(test) == count
    assert len(test) == count // 10
    np.testing.assert_array_equal(test[0], ids[72:80])
    np.testing.assert_array_equal(train[9], ids[80:88])


def test_mistakes_are_sentences(tmp_path):
    for content, words in ((b"", "is empty"), (b"\xff\xfe", "is not UTF-8 text")):
        file = tmp_path / "wrong.txt"
        file.write_bytes(content)
        load_text.cache_clear()
        with pytest.raises(LawscopeError, match=words):
            load_text(str(file))
    with pytest.raises(LawscopeError, match="neither king-james-bible nor a file"):
        load_text("king-jams-bible")
    short = tmp_path / "short.txt"
    short.write_text("a few words")
    with pytest.raises(LawscopeError, match=r"10 windows of 64 need \d+ more"):
        text_windows(str(short), 64, 256)
    with pytest.raises(LawscopeError, match="a vocabulary of 2000 tokens"):
        load_byte_pairs(2000)
