"""Downloads that are whole and genuine, or absent."""

from __future__ import annotations

import hashlib
import http.client
import os
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from lawscope.errors import LawscopeError
from lawscope.progress import progress

TIMEOUT_SECONDS = 20.0
_CHUNK_BYTES = 1 << 16


class NetworkError(Exception):
    """An address did not answer, or stopped answering; loaders add what to do without it."""


def fetch(address: str, folder: Path, sha256: str) -> Path:
    """Download one file, unless ``folder`` has it already.

    The bytes go to a temporary file beside the target and are moved into place only when their
    checksum is right: a download that is interrupted or tampered with leaves no file behind.

    Args:
        address: where the file is; its last part names it on disk.
        folder: where to put it; made when it does not exist.
        sha256: SHA-256 of the file in hexadecimal digits.

    Returns:
        The path of the file.

    Raises:
        NetworkError: when the address cannot be reached or stays silent for 20 seconds.
        LawscopeError: when the checksum is wrong, or ``folder`` cannot be written.
    """
    target = folder / address.rpartition("/")[2]
    if target.exists():
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=folder, prefix=f".{target.name}.")
    except OSError as error:
        raise _unwritable(folder, error) from error
    partial = Path(name)
    digest = hashlib.sha256()
    try:
        with os.fdopen(handle, "wb") as file:
            for chunk in _chunks(address, target.name):
                digest.update(chunk)
                file.write(chunk)
        if digest.hexdigest() != sha256:
            raise LawscopeError(
                f"{address} sent something else than {target.name} (SHA-256 {digest.hexdigest()}, "
                f"expected {sha256}): try again, or put the canonical file into {folder} yourself"
            )
        partial.replace(target)
    except OSError as error:
        raise _unwritable(folder, error) from error
    finally:
        partial.unlink(missing_ok=True)
    return target


def out_of_reach(title: str, by_hand: tuple[str, ...], error: NetworkError) -> LawscopeError:
    """The sentence for a dataset that is neither on the machine nor within reach.

    Args:
        title: name of the dataset.
        by_hand: what a person without a network can do, as phrases.
        error: what the network said.

    Returns:
        The error to raise.

    Example:
        >>> print(out_of_reach("MNIST", ("copy it",), NetworkError("its address is silent")))
        MNIST is not on this machine and its address is silent: copy it, or connect to the network
    """
    ways = ", ".join(by_hand)
    return LawscopeError(
        f"{title} is not on this machine and {error}: {ways}, or connect to the network"
    )


def _chunks(address: str, name: str) -> Iterator[bytes]:
    """The bytes behind an address, with a progress bar."""
    try:
        with urllib.request.urlopen(address, timeout=TIMEOUT_SECONDS) as response:
            length = response.headers.get("Content-Length")
            with progress(f"downloading {name}", int(length) if length else None) as advance:
                while chunk := response.read(_CHUNK_BYTES):
                    advance(len(chunk))
                    yield chunk
    except urllib.error.HTTPError as error:
        error.close()
        raise NetworkError(f"{address} cannot be had ({error})") from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise NetworkError(f"{address} cannot be reached ({reason})") from error


def _unwritable(folder: Path, error: OSError) -> LawscopeError:
    return LawscopeError(
        f"{folder} cannot be written ({error}): free some space, or let XDG_CACHE_HOME name "
        "another folder"
    )
