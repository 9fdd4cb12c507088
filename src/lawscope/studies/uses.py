"""Which result needs which entries of the store: what ``gc`` must keep."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from lawscope.report.files import write_whole
from lawscope.studies.plan import Training
from lawscope.studies.store import Store
from lawscope.studies.store_format import cannot_read

# A study that was stopped half-way can be taken up again for so long.
UNFINISHED_DAYS = 30.0


@dataclass(frozen=True)
class Use:
    """A study that was planned: where its result goes, and which epochs of which entries it reads.

    ``entries`` are the epochs by key.
    """

    study: str
    preset: str
    result: str
    entries: dict[str, list[int]]
    planned: float

    @property
    def finished(self) -> bool:
        """Whether the result is there."""
        return Path(self.result).exists()

    @property
    def kept(self) -> bool:
        """Whether its entries are to be kept: the result is there or may still come."""
        return self.finished or time.time() - self.planned < UNFINISHED_DAYS * 86400


def note_use(
    store: Store, study: str, preset: str, result: Path, needed: Mapping[str, Training]
) -> None:
    """Remember what a study needs, before its first training."""
    entries = {key: sorted(training.kept) for key, training in needed.items()}
    use = Use(study, preset, str(result.absolute()), entries, time.time())
    write_whole(json.dumps(asdict(use)), _file(store, use))


def uses(store: Store) -> list[Use]:
    """All that were noted, by study.

    Raises:
        LawscopeError: one may not be read; what it protects must not be taken for needless.
    """
    found = []
    for path in (store.folder / "uses").glob("*.json"):
        try:
            found.append(Use(**json.loads(path.read_bytes())))
        except FileNotFoundError:  # another process has forgotten it since
            continue
        except OSError as error:
            raise cannot_read(store.folder, error) from error
        except (ValueError, TypeError):  # no note of this version: it protects nothing
            continue
    return sorted(found, key=lambda use: (use.study, use.preset, use.result))


def forget_use(store: Store, use: Use) -> None:
    """Remove a note."""
    _file(store, use).unlink(missing_ok=True)


def _file(store: Store, use: Use) -> Path:
    name = hashlib.sha256(use.result.encode()).hexdigest()[:24]
    return store.folder / "uses" / f"{name}.json"
