"""The store: every finished training once, under the hash of its settings.

::

    <store>/lawscope-store.json   the format number
            entries/<key>/        run.json, <checksum>.safetensors
            locks/<key>.lock      held by the process that trains it; freed when that process ends
            unfinished/           entries being written; renamed into place when whole
            uses/                 which result needs which entries
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from lawscope.errors import LawscopeError, LawscopeWarning
from lawscope.studies import entry
from lawscope.studies.plan import REVISION, Training
from lawscope.studies.store_format import (
    MARK,
    PARTS,
    VARIABLE,
    cannot_read,
    check_format,
    write_mark,
)
from lawscope.zoo.folders import cache_dir

if TYPE_CHECKING:
    from lawscope.studies.finished import Run

NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
TAKEN = (errno.ENOTEMPTY, errno.EEXIST)


class FullDiskError(LawscopeError):
    """The disk of the store has no room left."""


class Claim:
    """The right to train and write one entry; ends with :meth:`release` or with the process."""

    def __init__(self, lock: FileLock) -> None:
        self._lock = lock

    def release(self) -> None:
        """Let others have it."""
        self._lock.release()


class Store:
    """A folder of finished trainings that many processes may use at once.

    Example:
        >>> import tempfile
        >>> from lawscope.studies.plan import Network
        >>> store = Store(tempfile.mkdtemp())
        >>> store.sound(Training(Network.of("feedforward", depth=4)))
        False
    """

    def __init__(self, folder: str | Path) -> None:
        """Open the store in ``folder``, which is made if it does not exist.

        Raises:
            LawscopeError: the folder is something else, of another version, or not writable.
        """
        self.folder = Path(folder).expanduser().absolute()
        check_format(self.folder)
        try:
            for part in PARTS:
                (self.folder / part).mkdir(parents=True, exist_ok=True)
            if not (self.folder / MARK).exists():
                write_mark(self.folder)
        except OSError as error:
            raise self.cannot_write(error) from error

    @classmethod
    def default(cls, folder: str | Path | None = None) -> Store:
        """``folder``, or what ``LAWSCOPE_STORE`` names, or a folder in the user's cache."""
        return cls(folder or os.environ.get(VARIABLE) or cache_dir() / "studies")

    def place(self, key: str) -> Path:
        """The folder of an entry, whether it is there or not."""
        return self.folder / "entries" / key

    def sound(self, training: Training) -> bool:
        """Whether the training is here and undamaged, with the epochs asked for."""
        try:
            entry.read(self.place(training.key), training)
        except entry.DamagedEntryError:
            return False
        return True

    def read(self, training: Training) -> entry.Packed:
        """The entry of a training, checked.

        Raises:
            DamagedEntryError: it is not there, damaged, or lacks an epoch asked for.
        """
        return entry.read(self.place(training.key), training)

    def kept(self, training: Training) -> set[int]:
        """The epochs that the record of its entry names; none where there is no such record."""
        return set(self._record(training.key).get("kept", ()))

    def keeps(self, key: str, epochs: Iterable[int]) -> bool:
        """Whether an entry of this revision has the weights after these epochs, by its record."""
        record = self._record(key)
        return _revision(record) == REVISION and set(epochs) <= set(record.get("kept", ()))

    def revision(self, key: str) -> int:
        """The revision that trained an entry; 0 where its record cannot be read."""
        return _revision(self._record(key))

    def _record(self, key: str) -> dict[str, Any]:
        try:
            return entry.read_record(self.place(key))
        except entry.DamagedEntryError:
            return {}

    def run(self, training: Training) -> Run:
        """The finished training; what a :class:`~lawscope.studies.lab.Lab` reads."""
        return entry.unpack(self.read(training), training)

    def claim(self, key: str) -> Claim | None:
        """The right to write an entry, or None while another process has it."""
        lock = FileLock(self.folder / "locks" / f"{key}.lock", thread_local=False)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return None
        except OSError as error:
            raise self.cannot_write(error) from error
        return Claim(lock)

    def held(self) -> list[str]:
        """The keys that some process is training now."""
        keys = []
        for path in sorted((self.folder / "locks").glob("*.lock")):
            claim = self.claim(path.stem)
            if claim is None:
                keys.append(path.stem)
            else:
                claim.release()
        return keys

    def write(self, packed: entry.Packed) -> None:
        """Keep an entry: whole or not at all. The caller holds its claim.

        Raises:
            FullDiskError: no room; says what is saved and how to go on.
            LawscopeError: the store cannot be written.
        """
        key = packed.record["key"]
        try:
            temporary = Path(tempfile.mkdtemp(prefix=f"{key}-", dir=self.folder / "unfinished"))
            try:
                entry.write(packed, temporary)
                self._put_in_place(temporary, packed)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)
        except OSError as error:
            raise self.cannot_write(error) from error

    def _put_in_place(self, temporary: Path, packed: entry.Packed) -> None:
        """Rename an entry into place, unless one as good has come there meanwhile.

        One that keeps fewer epochs gives way.
        """
        place = self.place(packed.record["key"])
        try:
            temporary.rename(place)
            return
        except OSError as error:
            if error.errno not in TAKEN:
                raise
        try:
            entry.read_for(place, packed.record["settings"], packed.record["kept"])
        except entry.DamagedEntryError:
            entry.give_way(place, temporary)
        else:
            words = f"{place} was trained twice: another machine did not see its lock. One is kept."
            warnings.warn(words, LawscopeWarning, stacklevel=4)

    def discard_damaged(self, training: Training) -> None:
        """Remove the entry if it is damaged, and say so. The caller holds its claim.

        One that lacks some epochs stays until the one that has them is written.
        """
        place = self.place(training.key)
        if not place.exists():
            return
        try:
            entry.read(place, replace(training, checkpoints=()))
        except entry.DamagedEntryError as error:
            warnings.warn(f"{error} It is trained again.", LawscopeWarning, stacklevel=2)
            self.remove(training.key)

    def remove(self, key: str) -> bool:
        """Take an entry away at once; the caller holds its claim.

        Returns:
            Whether it was there.

        Raises:
            LawscopeError: the store cannot be written.
        """
        place = self.place(key)
        try:
            try:
                self._bury(place)
            except OSError as error:
                if error.errno not in NO_ROOM:
                    raise
                shutil.rmtree(place)  # file by file: this makes the room that a folder would need
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self.cannot_write(error) from error
        return True

    def _bury(self, place: Path) -> None:
        """Move an entry away, then remove it: nobody sees half of it."""
        grave = Path(tempfile.mkdtemp(prefix=f"{place.name}-", dir=self.folder / "unfinished"))
        try:
            place.rename(grave / "entry")
        finally:
            shutil.rmtree(grave, ignore_errors=True)

    def entries(self) -> list[str]:
        """The keys of all entries."""
        try:
            return sorted(
                path.name for path in (self.folder / "entries").iterdir() if path.is_dir()
            )
        except OSError as error:
            raise cannot_read(self.folder, error) from error

    def size(self, key: str) -> int:
        """Bytes of an entry; 0 of one that is gone."""
        return entry.size(self.place(key))

    def cannot_write(self, error: OSError) -> LawscopeError:
        """The sentence for what went wrong while writing; a full disk has one of its own."""
        if error.errno in NO_ROOM:
            saved = len(self.entries()) if (self.folder / "entries").exists() else 0
            return FullDiskError(
                f"The disk of the store {self.folder} is full; {saved} trainings are saved. Free "
                "some space ('lawscope study gc' helps) and give the same command again: it goes "
                "on from there."
            )
        return LawscopeError(
            f"The store {self.folder} cannot be written ({error.strerror or error}); choose "
            f"another folder with --store or {VARIABLE}."
        )


def _revision(record: Mapping[str, Any]) -> int:
    return int(record.get("settings", {}).get("revision", 0))
