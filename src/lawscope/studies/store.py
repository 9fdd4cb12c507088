"""The store: every finished training once, under the hash of its settings.

::

    <store>/lawscope-store.json   the format number
            entries/<key>/        run.json, <checksum>.safetensors
            locks/<key>.lock      held by the process that trains it; freed when that process ends
            unfinished/           entries being written; renamed into place when whole
            uses/                 which result needs which entries, for garbage collection
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock, Timeout

from lawscope.documents import parse_json
from lawscope.errors import LawscopeError, LawscopeWarning
from lawscope.files import write_whole
from lawscope.studies import entry
from lawscope.studies.plan import REVISION, Training
from lawscope.zoo.storage import cache_dir

VARIABLE = "LAWSCOPE_STORE"
FORMAT = 1
MARK = "lawscope-store.json"
# How names of files begin that are being written.
TEMPORARY = ".lawscope-"
PARTS = ("entries", "locks", "unfinished", "uses")
# A study that was stopped half-way can be taken up again for so long.
UNFINISHED_DAYS = 30.0
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class FullDiskError(LawscopeError):
    """The disk of the store has no room left."""


@dataclass(frozen=True)
class Use:
    """A planned study: where its result goes, and which epochs of which entries it reads."""

    study: str
    preset: str
    result: str
    entries: dict[str, list[int]]
    planned: float

    @property
    def finished(self) -> bool:
        return Path(self.result).exists()

    @property
    def kept(self) -> bool:
        """Whether its entries are to be kept: the result is there or may still come."""
        return self.finished or time.time() - self.planned < UNFINISHED_DAYS * 86400


@dataclass(frozen=True)
class Removed:
    """What garbage collection removed, or would: entries, leftovers of killed processes, bytes."""

    entries: int
    leftovers: int
    bytes: int


class Store:
    """A folder of finished trainings that many processes may use at once."""

    def __init__(self, folder: str | Path | None = None) -> None:
        """Open the store in ``folder``, or ``LAWSCOPE_STORE``, or the user's cache.

        It is made if it does not exist.
        """
        folder = folder or os.environ.get(VARIABLE) or cache_dir() / "studies"
        self.folder = Path(folder).expanduser().absolute()
        self._check_format()
        with self._access("written"):
            for part in PARTS:
                (self.folder / part).mkdir(parents=True, exist_ok=True)
            if not (self.folder / MARK).exists():
                write_whole(json.dumps({"format": FORMAT}), self.folder / MARK)

    # Reading.

    def place(self, key: str) -> Path:
        return self.folder / "entries" / key

    def has(self, training: Training) -> bool:
        """Return whether the training is here and undamaged, with the epochs asked for."""
        with suppress(entry.DamagedEntryError):
            return bool(self.read(training))
        return False

    def read(self, training: Training) -> entry.Packed:
        """Read and check the entry of a training."""
        return entry.read(self.place(training.key), training.to_dict(), training.kept)

    def run(self, training: Training) -> entry.Run:
        """Return the finished training; what a :class:`~lawscope.studies.lab.Lab` reads."""
        return entry.unpack(self.read(training), training)

    def record(self, key: str) -> dict[str, Any]:
        """Return the record of an entry; empty where it cannot be read."""
        with suppress(entry.DamagedEntryError):
            return entry.read_record(self.place(key))[0]
        return {}

    def kept(self, key: str) -> set[int]:
        """Return the epochs that an entry of this revision has, by its record."""
        record = self.record(key)
        return set(record.get("kept", ())) if _revision(record) == REVISION else set()

    def entries(self) -> list[str]:
        with self._access("read"):
            return sorted(p.name for p in (self.folder / "entries").iterdir() if p.is_dir())

    def size(self, key: str) -> int:
        return _size(self.place(key))

    # Locks.

    def lock(self, key: str) -> FileLock | None:
        """Take the right to write an entry, until release(); None while another process has it."""
        lock = FileLock(self.folder / "locks" / f"{key}.lock", thread_local=False)
        with self._access("written"):
            try:
                lock.acquire(timeout=0)
            except Timeout:
                return None
        return lock

    def locked(self) -> list[str]:
        """Return the keys that some process is training now."""
        keys = []
        for path in sorted((self.folder / "locks").glob("*.lock")):
            if lock := self.lock(path.stem):
                lock.release()
            else:
                keys.append(path.stem)
        return keys

    # Writing; the caller holds the lock of the entry.

    def write(self, packed: entry.Packed) -> None:
        """Keep an entry, whole or not at all, unless one as good is there."""
        record = packed.record
        place = self.place(record["key"])
        with self._access("written"), self._temporary(record["key"]) as folder:
            entry.write(packed, Path(folder))
            try:
                Path(folder).rename(place)
                return
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
            try:
                entry.read(place, record["settings"], record["kept"])
            except entry.DamagedEntryError:
                # Or it keeps fewer epochs.
                entry.replace_entry(place, Path(folder))
                return
        words = f"{place} was trained twice: another machine did not see its lock. One is kept."
        warnings.warn(words, LawscopeWarning, stacklevel=3)

    def remove_damaged(self, training: Training) -> None:
        """Remove the entry of a training if it is damaged, with a warning.

        One that lacks some epochs stays until the one that has them is written.
        """
        if self.place(training.key).exists():
            try:
                self.read(replace(training, checkpoints=()))
            except entry.DamagedEntryError as error:
                warnings.warn(f"{error} It is trained again.", LawscopeWarning, stacklevel=2)
                self.remove(training.key)

    def remove(self, key: str) -> bool:
        """Remove an entry in one step, and return whether it was there."""
        with self._access("written"):
            try:
                # Moved away first, so that nobody sees half of it.
                with self._temporary(key) as grave:
                    self.place(key).rename(Path(grave) / "entry")
            except FileNotFoundError:
                return False
            except OSError as error:
                if error.errno not in NO_ROOM:
                    raise
                # File by file: this makes the room that a folder would need.
                shutil.rmtree(self.place(key))
        return True

    def _temporary(self, key: str) -> tempfile.TemporaryDirectory[str]:
        return tempfile.TemporaryDirectory(
            prefix=f"{key}-", dir=self.folder / "unfinished", ignore_cleanup_errors=True
        )

    # Garbage collection.

    def note_use(
        self, study: str, preset: str, result: Path, needed: Mapping[str, Training]
    ) -> None:
        """Remember what a study needs, before its first training."""
        entries = {key: sorted(training.kept) for key, training in needed.items()}
        use = Use(study, preset, str(result.absolute()), entries, time.time())
        write_whole(json.dumps(asdict(use)), self._use_file(use))

    def uses(self) -> list[Use]:
        """Return all uses that were noted, by study."""
        found = []
        for path in (self.folder / "uses").glob("*.json"):
            # Another process may have removed it; what is not a note of this version protects
            # nothing.
            with self._access("read"), suppress(FileNotFoundError, ValueError, TypeError):
                found.append(Use(**parse_json(path.read_bytes())))
        return sorted(found, key=lambda use: (use.study, use.preset, use.result))

    def collect_garbage(self, *, dry_run: bool = False) -> Removed:
        """Remove what no kept result needs, and what a past revision trained.

        What a process is training now stays, and so does what a study needs that was stopped within
        the last 30 days.
        """
        kept = {key for use in self.uses() if use.kept for key in use.entries}
        sizes = {key: self.size(key) for key in self.entries()}
        gone = [k for k in sizes if self._remove_garbage(k, needed=k in kept, dry_run=dry_run)]
        leftovers = self._remove_leftovers(dry_run)
        if not dry_run:
            for use in self.uses():
                if not use.kept:
                    self._use_file(use).unlink(missing_ok=True)
        return Removed(len(gone), len(leftovers), sum(sizes[k] for k in gone) + sum(leftovers))

    def _remove_garbage(self, key: str, *, needed: bool, dry_run: bool) -> bool:
        """Remove an entry unless a process has it or it is needed; return whether it did."""
        lock = self.lock(key)
        if lock is None:
            return False
        try:
            revision = _revision(self.record(key))
            if revision > REVISION or (needed and revision == REVISION):
                return False
            return dry_run or self.remove(key)
        finally:
            lock.release()

    def _remove_leftovers(self, dry_run: bool) -> list[int]:
        """Remove half-written entries of processes that are gone; return their sizes."""
        sizes = []
        paths = list((self.folder / "unfinished").iterdir())
        # After the list: who writes one of these has held its lock since before.
        locked = set(self.locked())
        for path in paths:
            if path.name.partition("-")[0] in locked:
                continue
            size = _size(path)
            if not dry_run:
                shutil.rmtree(path, ignore_errors=True)
            if dry_run or not path.exists():
                sizes.append(size)
        return sizes

    def _use_file(self, use: Use) -> Path:
        name = hashlib.sha256(use.result.encode()).hexdigest()[:24]
        return self.folder / "uses" / f"{name}.json"

    # What can be wrong with the folder.

    def _check_format(self) -> None:
        """Refuse what is not a store, or one of another version; a folder to be made passes."""
        folder = self.folder
        with self._access("read"):
            if folder.exists() and not folder.is_dir():
                raise LawscopeError(f"{folder} is a file; choose a folder for the store.")
            try:
                found = parse_json((folder / MARK).read_bytes())["format"]
            except (FileNotFoundError, NotADirectoryError):
                # Another process may be making the store just now.
                inside = [path.name for path in folder.iterdir()] if folder.exists() else []
                if not all(n in (*PARTS, MARK) or n.startswith(TEMPORARY) for n in inside):
                    raise LawscopeError(
                        f"{folder} holds other things and is not a store of lawscope; choose an "
                        "empty or new folder."
                    ) from None
                return
            except (ValueError, KeyError, TypeError):
                found = "unreadable"
        if found != FORMAT:
            raise LawscopeError(
                f"The store {folder} was written by another version of lawscope (format {found}, "
                f"this version has {FORMAT}); choose another folder (or set {VARIABLE})."
            )

    @contextmanager
    def _access(self, verb: Literal["read", "written"]) -> Iterator[None]:
        """Turn an error of the file system into a sentence."""
        try:
            yield
        except OSError as error:
            if verb == "written" and error.errno in NO_ROOM:
                saved = len(self.entries()) if (self.folder / "entries").exists() else 0
                raise FullDiskError(
                    f"The disk of the store {self.folder} is full; {saved} trainings are saved. "
                    "Free some space ('lawscope study gc' helps) and give the same command again: "
                    "it goes on from there."
                ) from error
            raise LawscopeError(
                f"The store {self.folder} cannot be {verb} ({error.strerror or error}); choose "
                f"another folder (or set {VARIABLE})."
            ) from error


def _revision(record: Mapping[str, Any]) -> int:
    return int(record.get("settings", {}).get("revision", 0))


def _size(folder: Path) -> int:
    """Bytes in a folder; files that another process removes meanwhile are skipped."""
    total = 0
    for path in (Path(place, name) for place, _, names in os.walk(folder) for name in names):
        with suppress(FileNotFoundError):
            total += path.stat().st_size
    return total
