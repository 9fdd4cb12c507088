"""Where datasets lie on a machine, and downloads that are whole and genuine, or absent."""

from __future__ import annotations

import hashlib
import http.client
import os
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

from lawscope.errors import LawscopeError
from lawscope.files import find_kind
from lawscope.progress import progress

TIMEOUT_SECONDS = 20.0
_CHUNK_BYTES = 1 << 16
VARIABLE = "LAWSCOPE_DATA"


def cache_dir() -> Path:
    """Return the user's cache folder for lawscope, where downloads go.

    ``$XDG_CACHE_HOME/lawscope``, by default ``~/.cache/lawscope``; a relative ``XDG_CACHE_HOME``
    is ignored (XDG Base Directory Specification).
    """
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "lawscope"


def given_folder(value: str | Path, origin: str) -> Path:
    """Return the folder that a user named."""
    root = Path(value).expanduser()
    if find_kind(root) != "folder":
        raise LawscopeError(f"{root}, given by {origin}, is not a folder: check the path")
    return root


def data_folders(subfolders: Sequence[str], data_dir: str | Path | None = None) -> list[Path]:
    """List the existing folders that may hold a dataset, in the order they are searched.

    The roots are ``data_dir``, the folder named by the environment variable ``LAWSCOPE_DATA``, and
    the cache folder; in each root the subfolders come before the root itself.
    """
    named = (("data_dir", data_dir), (VARIABLE, os.environ.get(VARIABLE)))
    roots = [given_folder(value, origin) for origin, value in named if value]
    roots.append(cache_dir())
    places = [place for root in roots for place in (*(root / name for name in subfolders), root)]
    return list(dict.fromkeys(place for place in places if place.is_dir()))


def find_file(folder: Path, name: str) -> Path | None:
    """Return the file ``name`` or ``name.gz`` in ``folder``, or None."""
    return next((p for p in (folder / name, folder / f"{name}.gz") if p.is_file()), None)


def fetch(address: str, folder: Path, sha256: str, title: str, by_hand: str) -> Path:
    """Download one file of the dataset ``title``, unless ``folder`` has it already.

    The bytes go to a temporary folder beside the target and are moved into place only when their
    SHA-256 is right: a download that is interrupted or tampered with leaves no file behind. The
    last part of the address names the file on disk; ``by_hand`` says what to do without a network.
    """
    target = folder / address.rpartition("/")[2]
    if target.exists():
        return target
    digest = hashlib.sha256()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=f".{target.name}.") as beside:
            partial = Path(beside) / target.name
            with partial.open("wb") as file:
                for chunk in _chunks(address, title, by_hand):
                    digest.update(chunk)
                    file.write(chunk)
            if digest.hexdigest() != sha256:
                raise LawscopeError(
                    f"{address} sent something else than {target.name} (SHA-256 "
                    f"{digest.hexdigest()}, expected {sha256}): try again, or put the canonical "
                    f"file into {folder} yourself"
                )
            partial.replace(target)
    except OSError as error:
        raise LawscopeError(
            f"{folder} cannot be written ({error}): free some space, or let XDG_CACHE_HOME name "
            "another folder"
        ) from error
    return target


def _chunks(address: str, title: str, by_hand: str) -> Iterator[bytes]:
    """Yield the bytes behind an address, with a progress bar."""
    name = address.rpartition("/")[2]
    try:
        with urllib.request.urlopen(address, timeout=TIMEOUT_SECONDS) as response:
            length = response.headers.get("Content-Length")
            with progress(f"downloading {name}", int(length) if length else None) as advance:
                while chunk := response.read(_CHUNK_BYTES):
                    advance(len(chunk))
                    yield chunk
    except (OSError, http.client.HTTPException) as error:
        why = f"reached ({getattr(error, 'reason', error)})"
        if isinstance(error, urllib.error.HTTPError):
            error.close()
            why = f"had ({error})"
        raise LawscopeError(
            f"{title} is not on this machine and {address} cannot be {why}: {by_hand}, or connect "
            "to the network"
        ) from error
