"""Whether a folder is a store that this version can use; its mark says so."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from lawscope.errors import LawscopeError

VARIABLE = "LAWSCOPE_STORE"
FORMAT = 1
MARK = "lawscope-store.json"
PARTS = ("entries", "locks", "unfinished", "uses")


def check_format(folder: Path) -> None:
    """Refuse what is no store, or one of another version; a folder to be made passes.

    Raises:
        LawscopeError: says what the folder is.
    """
    try:
        if folder.exists() and not folder.is_dir():
            raise LawscopeError(f"{folder} is a file; choose a folder for the store.")
        found = _format_of(folder)
        if found == FORMAT or (found is None and _new_or_half_made(folder)):
            return
    except OSError as error:
        raise cannot_read(folder, error) from error
    if found is None:
        raise LawscopeError(
            f"{folder} holds other things and is not a store of lawscope; choose an empty or new "
            "folder."
        )
    raise LawscopeError(
        f"The store {folder} was written by another version of lawscope (format {found}, this "
        f"version has {FORMAT}); choose another folder with --store or {VARIABLE}."
    )


def write_mark(folder: Path) -> None:
    """Say which format the store has, whole or not at all."""
    handle, name = tempfile.mkstemp(dir=folder / "unfinished")
    with os.fdopen(handle, "w") as file:
        json.dump({"format": FORMAT}, file)
    Path(name).rename(folder / MARK)


def cannot_read(folder: Path, error: OSError) -> LawscopeError:
    """The sentence for a store whose folders may not be read."""
    return LawscopeError(
        f"The store {folder} cannot be read ({error.strerror or error}); choose another folder "
        f"with --store or {VARIABLE}."
    )


def _format_of(folder: Path) -> Any:
    """The number in its mark; None without one."""
    try:
        return json.loads((folder / MARK).read_bytes())["format"]
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, KeyError, TypeError):
        return "unreadable"


def _new_or_half_made(folder: Path) -> bool:
    """Whether nothing is there, or only what another process has made of the store so far."""
    return not folder.exists() or {path.name for path in folder.iterdir()} <= {*PARTS, MARK}
