"""Where data is looked for, and downloads that are whole or absent."""

from __future__ import annotations

import hashlib
import socket
import time
from functools import partial
from pathlib import Path

import pytest

from lawscope.errors import LawscopeError
from lawscope.zoo import storage
from lawscope.zoo.storage import cache_dir, data_folders

CONTENT = bytes(range(256)) * 1000
SHA256 = hashlib.sha256(CONTENT).hexdigest()
fetch = partial(storage.fetch, title="The file", by_hand="put it there")


def test_downloads_and_keeps_the_file(web: tuple[str, Path], tmp_path: Path) -> None:
    address, served = web
    (served / "file.bin").write_bytes(CONTENT)
    path = fetch(f"{address}file.bin", tmp_path / "new/folder", SHA256)
    assert path == tmp_path / "new/folder/file.bin"
    assert path.read_bytes() == CONTENT
    (served / "file.bin").unlink()
    assert fetch(f"{address}file.bin", tmp_path / "new/folder", SHA256) == path


def test_a_wrong_checksum_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "file.bin").write_bytes(CONTENT[:-1])
    target = tmp_path / "target"
    with pytest.raises(LawscopeError, match=f"expected {SHA256}.*try again"):
        fetch((tmp_path / "file.bin").as_uri(), target, SHA256)
    assert list(target.iterdir()) == []


def test_an_address_that_is_gone(web: tuple[str, Path], tmp_path: Path) -> None:
    with pytest.raises(LawscopeError, match=r"cannot be had .*404"):
        fetch(f"{web[0]}file.bin", tmp_path / "target", SHA256)
    assert list((tmp_path / "target").iterdir()) == []


def test_a_silent_server_is_given_up(
    bare_machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert storage.TIMEOUT_SECONDS == 20
    monkeypatch.setattr(storage, "TIMEOUT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        begun = time.monotonic()
        with pytest.raises(LawscopeError, match=r"cannot be reached .*timed out"):
            fetch(f"http://127.0.0.1:{server.getsockname()[1]}/file.bin", tmp_path, SHA256)
        assert time.monotonic() - begun < 10


def test_a_refused_connection(bare_machine: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(LawscopeError, match=r"cannot be reached \(.*refused"):
        fetch(f"http://127.0.0.1:{port}/file.bin", tmp_path, SHA256)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "occupied").write_text("a file, not a folder")
    with pytest.raises(LawscopeError, match=r"occupied/mnist cannot be written.*XDG_CACHE_HOME"):
        fetch("file:///dev/null", tmp_path / "occupied" / "mnist", SHA256)


@pytest.mark.parametrize("value", [None, "", "relative/folder", "/absolute"])
def test_the_cache_follows_xdg(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str | None
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    if value is None:
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", value)
    base = Path(value) if value == "/absolute" else tmp_path / ".cache"
    assert cache_dir() == base / "lawscope"


def test_argument_then_variable_then_cache_and_subfolders_first(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for folder in ("a/mnist", "b", "b/MNIST/raw"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    bare_machine.mkdir(parents=True)
    monkeypatch.setenv("LAWSCOPE_DATA", str(tmp_path / "b"))
    found = data_folders(("mnist", "MNIST/raw"), tmp_path / "a")
    places = [tmp_path / name for name in ("a/mnist", "a", "b/MNIST/raw", "b")]
    assert found == [*places, bare_machine]
    assert data_folders(("no",), tmp_path / "b") == [tmp_path / "b", bare_machine]  # none twice


def test_a_data_directory_that_does_not_exist_is_an_error(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(LawscopeError, match="typo, given by data_dir, is not a folder"):
        data_folders(("mnist",), tmp_path / "typo")
    monkeypatch.setenv("LAWSCOPE_DATA", str(tmp_path / "slip"))
    with pytest.raises(LawscopeError, match="slip, given by LAWSCOPE_DATA, is not a folder"):
        data_folders(("mnist",))
