"""Files are written whole, through links, and never in the place of a device."""

import os
import stat

import pytest

from lawscope.errors import LawscopeError
from lawscope.files import check_file, write_whole


def test_a_link_is_followed_and_permissions_stay(tmp_path):
    real = tmp_path / "real.html"
    real.write_text("old")
    real.chmod(0o600)
    (tmp_path / "link.html").symlink_to(real)
    write_whole("new", tmp_path / "link.html")
    assert (tmp_path / "link.html").is_symlink()
    assert real.read_text() == "new"
    assert stat.S_IMODE(real.stat().st_mode) == 0o600


def test_a_pipe_is_refused_and_still_there(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LawscopeError, match="is not a regular file"):
        write_whole("new", tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_name_that_is_too_long_is_a_sentence(tmp_path):
    with pytest.raises(LawscopeError, match="the name is too long"):
        write_whole("new", tmp_path / ("x" * 300))
    with pytest.raises(LawscopeError, match="File name too long"):
        check_file(tmp_path / ("x" * 300), "name another")
