"""Writing a file whole or not at all."""

from __future__ import annotations

import errno
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lawscope.errors import LawscopeError

REMEDIES = {
    errno.EACCES: "you may not write there; choose another folder or change its permissions",
    errno.EPERM: "you may not write there; choose another folder or change its permissions",
    errno.EROFS: "the file system is read-only; choose another folder",
    errno.ENOSPC: "the disk is full; free some space or choose another disk",
    errno.EDQUOT: "your disk quota is used up; free some space or choose another disk",
    errno.EISDIR: "a folder has that name; choose a file name inside it",
    errno.ENOTDIR: "part of that path is a file, not a folder; choose another folder",
    errno.EEXIST: "part of that path is a file, not a folder; choose another folder",
    errno.ENAMETOOLONG: "the name is too long; choose a shorter one",
}


def write_whole(content: str | bytes, path: Path) -> None:
    """Write ``content`` so that ``path`` holds all of it or what it held before.

    Args:
        content: bytes, or text that is written as UTF-8.
        path: the file; its folders are made where they are missing.

    Raises:
        LawscopeError: the place cannot be written; names the path and the remedy.
    """
    # Names taken from folders may hold bytes that are not text; they become "?".
    raw = content if isinstance(content, bytes) else content.encode("utf-8", "replace")
    with whole_or_not_at_all(path) as temporary:
        temporary.write_bytes(raw)


@contextmanager
def whole_or_not_at_all(path: Path) -> Iterator[Path]:
    """A file to write instead of ``path``, which takes its place at the end if all went well.

    Raises:
        LawscopeError: the place cannot be written; names the path and the remedy.
    """
    temporary = path.with_name(f".lawscope-{secrets.token_hex(6)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "is a directory")
        try:
            yield temporary
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        remedy = REMEDIES.get(error.errno or 0, f"{error.strerror or error}; choose another place")
        raise LawscopeError(f"cannot write {path}: {remedy}.") from error
