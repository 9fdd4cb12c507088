"""Files are written whole, through links, and never in the place of a device."""

import os
import stat

import pytest

from lawscope.errors import LawscopeError
from lawscope.files import check_file, check_writable, write_whole


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


def test_a_link_to_itself_or_to_a_pipe_stays_a_link(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "out").symlink_to("pipe")
    (tmp_path / "loop").symlink_to("loop")
    for name, said in (("out", "is not a regular file"), ("loop", "leads to itself")):
        with pytest.raises(LawscopeError, match=said):
            write_whole("new", tmp_path / name)
        assert (tmp_path / name).is_symlink()


def test_a_zero_byte_is_a_sentence(tmp_path):
    with pytest.raises(LawscopeError, match="zero byte"):
        write_whole("new", tmp_path / "a\0b")


def test_a_place_is_looked_at_before_anything_is_written(tmp_path):
    (tmp_path / "old").write_text("old")
    check_writable(tmp_path / "old")
    check_writable(tmp_path / "new")
    with pytest.raises(LawscopeError, match="part of that path is a file"):
        check_writable(tmp_path / "old" / "below")
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"old": "old"}


def test_a_name_that_is_too_long_is_a_sentence(tmp_path):
    with pytest.raises(LawscopeError, match="the name is too long"):
        write_whole("new", tmp_path / ("x" * 300))
    with pytest.raises(LawscopeError, match="File name too long"):
        check_file(tmp_path / ("x" * 300), "name another")
