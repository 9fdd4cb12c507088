"""Files: read what a person named, write whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from lawscope.errors import LawscopeError

_FORBIDDEN = "you may not write there; choose another folder or change its permissions"
_NOT_A_FOLDER = "part of that path is a file, not a folder; choose another folder"
REMEDIES = {
    errno.EACCES: _FORBIDDEN,
    errno.EPERM: _FORBIDDEN,
    errno.EROFS: "the file system is read-only; choose another folder",
    errno.ENOSPC: "the disk is full; free some space or choose another disk",
    errno.EDQUOT: "your disk quota is used up; free some space or choose another disk",
    errno.EISDIR: "a folder has that name; choose a file name inside it",
    errno.ENOTDIR: _NOT_A_FOLDER,
    errno.EEXIST: _NOT_A_FOLDER,
    errno.ENAMETOOLONG: "the name is too long; choose a shorter one",
}


def check_file(path: Path, remedy: str) -> Path:
    """Return the path of a file that exists and may be read; ``remedy`` is an imperative."""
    try:
        if path.is_file():
            with path.open("rb"):
                return path
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise LawscopeError(f"{_shortened(path)} cannot be read ({why}); {remedy}.") from error
    raise LawscopeError(f"There is no file {_shortened(path)}; {remedy}.")


def find_kind(path: Path) -> Literal["file", "folder", "other", ""]:
    """Return what is at a path: a file, a folder, something else (a device) or nothing."""
    try:
        if path.is_dir():
            return "folder"
        return "file" if path.is_file() else "other" if path.exists() else ""
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise LawscopeError(f"{_shortened(path)} cannot be read ({why}).") from error


def exists(path: Path) -> bool:
    """Return whether something is there; False as well where it may not be looked at."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _shortened(path: Path) -> str:
    text = str(path)
    return text if len(text) <= 120 else f"{text[:100]}…"


def check_writable(path: Path) -> None:
    """Refuse, before long work, a place that its outcome could not be written to."""
    with _refusing(path) as target, _beside(target) as temporary:
        temporary.touch()


def write_whole(content: str | bytes, path: Path) -> None:
    """Write ``content`` so that ``path`` holds all of it or what it held before."""
    # Names taken from folders may hold bytes that are not text; they become "?".
    raw = content if isinstance(content, bytes) else content.encode("utf-8", "replace")
    with whole_or_not_at_all(path) as temporary:
        temporary.write_bytes(raw)


@contextmanager
def whole_or_not_at_all(path: Path) -> Iterator[Path]:
    """Yield a file to write instead of ``path``, which takes its place if all went well.

    Missing folders are made, a link is followed, the permissions of an earlier file are kept, and
    what is not a regular file (a device, a pipe) is refused.
    """
    with _refusing(path) as target, _beside(target) as temporary:
        yield temporary
        if target.exists():
            temporary.chmod(stat.S_IMODE(target.stat().st_mode))
        temporary.replace(target)


@contextmanager
def _refusing(path: Path) -> Iterator[Path]:
    """Yield the file to write, behind all links; say in a sentence why it cannot be."""
    try:
        if "\0" in str(path):
            raise OSError(errno.EINVAL, "a name cannot hold a zero byte")
        target = Path(os.path.realpath(path)) if path.is_symlink() else path
        if target.is_symlink():
            raise OSError(errno.ELOOP, "the link leads to itself")
        if path.exists() and not (path.is_file() or path.is_dir()):
            raise LawscopeError(f"cannot write {path}: it is not a regular file; name another.")
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, "is a directory")
        yield target
    except OSError as error:
        remedy = REMEDIES.get(error.errno or 0, f"{error.strerror or error}; choose another place")
        raise LawscopeError(f"cannot write {_shortened(path)}: {remedy}.") from error


@contextmanager
def _beside(target: Path) -> Iterator[Path]:
    """Yield a name in the same folder, where no file is left."""
    temporary = target.with_name(f".lawscope-{secrets.token_hex(6)}")
    try:
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)
