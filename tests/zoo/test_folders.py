from __future__ import annotations

from pathlib import Path

import pytest

from lawscope.errors import LawscopeError
from lawscope.zoo.folders import cache_dir, data_folders


def test_the_cache_follows_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_dir() == tmp_path / "lawscope"


@pytest.mark.parametrize("value", [None, "", "relative/folder"])
def test_the_cache_is_in_the_home_folder_otherwise(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str | None
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    if value is None:
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", value)
    assert cache_dir() == tmp_path / ".cache" / "lawscope"


def test_argument_then_variable_then_cache_and_subfolders_first(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for folder in ("a/mnist", "b", "b/MNIST/raw"):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    bare_machine.mkdir(parents=True)
    monkeypatch.setenv("LAWSCOPE_DATA", str(tmp_path / "b"))
    assert data_folders(("mnist", "MNIST/raw"), tmp_path / "a") == [
        tmp_path / "a/mnist",
        tmp_path / "a",
        tmp_path / "b/MNIST/raw",
        tmp_path / "b",
        bare_machine,
    ]


def test_no_folder_comes_twice(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LAWSCOPE_DATA", str(tmp_path))
    assert data_folders(("mnist",), tmp_path) == [tmp_path]


def test_a_data_directory_that_does_not_exist_is_an_error(
    bare_machine: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(LawscopeError, match="typo, given by --data-dir, is not a folder"):
        data_folders(("mnist",), tmp_path / "typo")
    monkeypatch.setenv("LAWSCOPE_DATA", str(tmp_path / "slip"))
    with pytest.raises(LawscopeError, match="slip, given by LAWSCOPE_DATA, is not a folder"):
        data_folders(("mnist",))
