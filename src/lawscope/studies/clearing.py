"""``lawscope study gc``: entries that no result needs."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from lawscope.studies.entry import size
from lawscope.studies.plan import REVISION
from lawscope.studies.store import Store
from lawscope.studies.uses import forget_use, uses


@dataclass(frozen=True)
class Cleared:
    """What was removed, or would be: entries, leftovers of killed processes, bytes."""

    entries: int
    leftovers: int
    bytes: int


def clear(store: Store, *, dry_run: bool = False) -> Cleared:
    """Remove what no kept result needs, and what a past revision trained.

    Entries that a process is training now are left alone, and so are those of a study that was
    stopped within the last 30 days.

    Args:
        store: where.
        dry_run: only count.
    """
    kept = {key for use in uses(store) if use.kept for key in use.entries}
    entries = removed = 0
    for key in store.entries():
        bytes_there = store.size(key)
        if _remove(store, key, needed=key in kept, dry_run=dry_run):
            entries, removed = entries + 1, removed + bytes_there
    leftovers, left = _clear_leftovers(store, dry_run)
    if not dry_run:
        for use in uses(store):
            if not use.kept:
                forget_use(store, use)
    return Cleared(entries, leftovers, removed + left)


def _remove(store: Store, key: str, *, needed: bool, dry_run: bool) -> bool:
    """Remove an entry unless a process has it or it is needed; says whether it did."""
    claim = store.claim(key)
    if claim is None:
        return False
    try:
        revision = store.revision(key)  # under the claim: nobody is writing it now
        if revision > REVISION or (needed and revision == REVISION):
            return False
        return dry_run or store.remove(key)
    finally:
        claim.release()


def _clear_leftovers(store: Store, dry_run: bool) -> tuple[int, int]:
    """Half-written entries of processes that are gone."""
    count = total = 0
    paths = list((store.folder / "unfinished").iterdir())
    held = set(store.held())  # after the list: who writes one of these holds its claim since before
    for path in paths:
        if path.name.partition("-")[0] in held:
            continue
        bytes_there = size(path)
        if dry_run or _discard(path):
            count, total = count + 1, total + bytes_there
    return count, total


def _discard(path: Path) -> bool:
    """Remove a leftover, perhaps while another process does; whether it is gone."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
    return not path.exists()
