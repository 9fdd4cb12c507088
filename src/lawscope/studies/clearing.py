"""``lawscope study gc``: entries that no result needs."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

from lawscope.studies.entry import DamagedEntryError, read_record
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
    kept = {key for use in uses(store) if use.kept for key in use.keys}
    entries = size = 0
    for key in store.entries():
        if key in kept and not _of_the_past(store, key):
            continue
        bytes_there = store.size(key)
        if _remove(store, key, dry_run):
            entries, size = entries + 1, size + bytes_there
    leftovers, left = _clear_leftovers(store, dry_run)
    if not dry_run:
        for use in uses(store):
            if not use.kept:
                forget_use(store, use)
    return Cleared(entries, leftovers, size + left)


def _of_the_past(store: Store, key: str) -> bool:
    """Whether no training of today has this key any more."""
    try:
        return bool(read_record(store.place(key))["settings"]["revision"] != REVISION)
    except (DamagedEntryError, KeyError):
        return True


def _remove(store: Store, key: str, dry_run: bool) -> bool:
    """Remove an entry unless a process has it; says whether it did."""
    claim = store.claim(key)
    if claim is None:
        return False
    try:
        if not dry_run:
            store.remove(key)
    finally:
        claim.release()
    return True


def _clear_leftovers(store: Store, dry_run: bool) -> tuple[int, int]:
    """Half-written entries of processes that are gone."""
    count = size = 0
    held = set(store.held())
    for path in (store.folder / "unfinished").iterdir():
        if path.name.partition("-")[0] in held:
            continue
        size += sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        count += 1
        if not dry_run:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    return count, size
