"""Where datasets are looked for on a machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from lawscope.errors import LawscopeError

VARIABLE = "LAWSCOPE_DATA"


def cache_dir() -> Path:
    """The user's cache folder for lawscope, where downloads go.

    ``$XDG_CACHE_HOME/lawscope``, by default ``~/.cache/lawscope``; a relative ``XDG_CACHE_HOME``
    is ignored (XDG Base Directory Specification).

    Returns:
        The folder, which need not exist yet.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "lawscope"


def given_folder(value: str | Path, origin: str) -> Path:
    """The folder that a user named.

    Raises:
        LawscopeError: there is none; the sentence says where the name comes from.
    """
    root = Path(value).expanduser()
    if not root.is_dir():
        raise LawscopeError(f"{root}, given by {origin}, is not a folder: check the path")
    return root


def data_folders(subfolders: Sequence[str], data_dir: str | Path | None = None) -> list[Path]:
    """The existing folders that may hold a dataset, in the order they are looked through.

    The roots are ``data_dir``, the folder named by the environment variable ``LAWSCOPE_DATA``, and
    the cache folder; in each root the subfolders come before the root itself.

    Args:
        subfolders: names that the dataset's own folder goes by.
        data_dir: the data directory the user asked for.

    Returns:
        The folders, none twice.

    Raises:
        LawscopeError: when ``data_dir`` or ``LAWSCOPE_DATA`` names a folder that does not exist.
    """
    roots = []
    for origin, value in (("--data-dir", data_dir), (VARIABLE, os.environ.get(VARIABLE))):
        if value:
            roots.append(given_folder(value, origin))
    roots.append(cache_dir())
    places = [place for root in roots for place in (*(root / name for name in subfolders), root)]
    return list(dict.fromkeys(place for place in places if place.is_dir()))
