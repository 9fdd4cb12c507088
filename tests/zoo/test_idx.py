from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from canonical_files import idx_bytes

from lawscope.errors import LawscopeError
from lawscope.zoo.idx import find_idx, read_idx


@pytest.mark.parametrize("shape", [(7,), (3, 28, 28), (0, 28, 28)])
@pytest.mark.parametrize("packed", [False, True])
def test_reads_what_was_written(tmp_path: Path, shape: tuple[int, ...], packed: bool) -> None:
    array = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    content = idx_bytes(array)
    path = tmp_path / "anything"  # whether it is packed is not told by the name
    path.write_bytes(gzip.compress(content) if packed else content)
    read = read_idx(path)
    assert read.dtype == np.uint8
    assert read.flags.writeable
    np.testing.assert_array_equal(read, array)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("kept", [0, 1, 3, 6, 15, 17, 40, -1])
def test_a_file_cut_short_is_named(tmp_path: Path, packed: bool, kept: int) -> None:
    content = idx_bytes(np.arange(60, dtype=np.uint8).reshape(5, 3, 4))
    path = tmp_path / "train-images-idx3-ubyte"
    path.write_bytes((gzip.compress(content) if packed else content)[:kept])
    with pytest.raises(LawscopeError, match=r"train-images-idx3-ubyte.*delete it and get"):
        read_idx(path)


def test_a_file_with_bytes_too_many_is_named(tmp_path: Path) -> None:
    path = tmp_path / "labels"
    path.write_bytes(idx_bytes(np.arange(5, dtype=np.uint8)) + b"!")
    with pytest.raises(LawscopeError, match="has 14 bytes where its header promises 13"):
        read_idx(path)


def test_other_types_of_elements_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "floats"
    path.write_bytes(bytes([0, 0, 0x0D, 1, 0, 0, 0, 1]) + bytes(4))
    with pytest.raises(LawscopeError, match="begins with 00 00 0d 01"):
        read_idx(path)


def test_damaged_gzip_is_named(tmp_path: Path) -> None:
    content = bytearray(gzip.compress(idx_bytes(np.arange(200, dtype=np.uint8))))
    content[len(content) // 2] ^= 0xFF
    path = tmp_path / "labels.gz"
    path.write_bytes(content)
    with pytest.raises(LawscopeError, match=r"labels\.gz cannot be read"):
        read_idx(path)


def test_an_absent_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(LawscopeError, match="nowhere cannot be read"):
        read_idx(tmp_path / "nowhere")


def test_finds_the_plain_file_before_the_packed_one(tmp_path: Path) -> None:
    assert find_idx(tmp_path, "labels") is None
    (tmp_path / "labels.gz").touch()
    assert find_idx(tmp_path, "labels") == tmp_path / "labels.gz"
    (tmp_path / "labels").touch()
    assert find_idx(tmp_path, "labels") == tmp_path / "labels"
