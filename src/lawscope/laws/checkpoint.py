"""What was gathered so far, in a file from which a long measurement goes on."""

from __future__ import annotations

import hashlib
import json
import signal
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from lawscope.data.source import Source
from lawscope.errors import LawscopeError
from lawscope.files import check_writable, exists, whole_or_not_at_all
from lawscope.laws.provenance import hash_weights
from lawscope.statistics.base import select_prefixed

SAVE_SECONDS = 30.0
SAVE_SHARE = 20  # a save takes at most a twentieth of the time
AGAIN_SECONDS = 3.0
FORMAT = "lawscope checkpoint 1"
DIFFERENCES = {"model": "another model", "weights": "the same model with other weights"}


class NotKeptError(LawscopeError):
    """A law is measured whose state cannot be saved midway."""

    def __init__(self, law: str) -> None:
        super().__init__(
            f"checkpoint= is for laws of text, which read the data once; {law} is not one: leave "
            "it out with laws=."
        )
        self.law = law


class Checkpoint:
    """A file of what observers have gathered; call it after every batch.

    Inside ``with`` ctrl-C and SIGTERM are heeded when a batch is done; a second one, a while later,
    interrupts at once. Each of several ranks has a file of its own. A file that exists is read into
    the observers, and the source's next pass begins after it; one that is damaged, or of another
    model, text or setting, is refused.
    """

    def __init__(self, path: str | Path, observers: Mapping[str, Any], source: Source) -> None:
        for name, observer in observers.items():
            if not hasattr(observer, "state_dict"):
                raise NotKeptError(name)
        grouped = dist.is_available() and dist.is_initialized()
        rank, world = (dist.get_rank(), dist.get_world_size()) if grouped else (0, 1)
        self.path = Path(path)
        if world > 1:
            self.path = self.path.with_stem(f"{self.path.stem}-{rank + 1}of{world}")
        self.observers, self.source = observers, source
        self.identity = _identity(observers, f"{rank + 1} of {world}")
        self._due, self._since, self._asked = time.monotonic() + SAVE_SECONDS, 0.0, False
        self._handlers: dict[int, Any] = {}
        if exists(self.path):
            self._load()
        check_writable(self.path)

    def __enter__(self) -> Checkpoint:
        # Only the main thread can take over signals.
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._handlers[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: Any) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def __call__(self) -> None:
        """Save when it is time; save and raise ``KeyboardInterrupt`` when asked to stop."""
        begun = time.monotonic()
        if self._asked or begun > self._due:
            self.save()
            ended = time.monotonic()
            self._due = ended + max(SAVE_SECONDS, SAVE_SHARE * (ended - begun))
        if self._asked:
            done, _ = self.source.progress()
            raise KeyboardInterrupt(
                f"Stopped after {done} batches; {self.path} holds what was measured, and the same "
                "call goes on from it."
            )

    def save(self) -> None:
        from safetensors.torch import save_file

        tensors = {
            f"{name}/{key}": tensor
            for name, observer in self.observers.items()
            for key, tensor in observer.state_dict().items()
        }
        done, fingerprint = self.source.progress()
        said = {"format": FORMAT, "batches": str(done), "data": fingerprint, **self.identity}
        with whole_or_not_at_all(self.path) as temporary:
            save_file(tensors, temporary, {**said, "sha256": _digest(tensors, said)})

    def remove(self) -> None:
        """Delete the file: the measurement is complete."""
        if exists(self.path):
            self.path.unlink()

    def _note(self, number: int, frame: FrameType | None) -> None:
        # torchrun hands on what the terminal has sent already: repeats at one moment are one.
        if self._asked and time.monotonic() - self._since > AGAIN_SECONDS:
            raise KeyboardInterrupt
        if not self._asked:
            self._asked, self._since = True, time.monotonic()

    def _load(self) -> None:
        from safetensors import SafetensorError, safe_open

        damaged = LawscopeError(
            f"{self.path} is not a checkpoint of lawscope, or is damaged; delete it to begin again."
        )
        try:
            with safe_open(self.path, framework="pt") as file:
                said = dict(file.metadata() or {})
                tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            raise damaged from error
        expected = said.pop("sha256", "")
        if said.get("format") != FORMAT or expected != _digest(tensors, said):
            raise damaged
        wrong = [key for key, value in self.identity.items() if said.get(key) != value]
        if wrong:
            old, new = (json.loads(each["settings"]) for each in (said, self.identity))
            changed = [f"{n} {old.get(n)} and now {new[n]}" for n in new if old.get(n) != new[n]]
            what = DIFFERENCES.get(wrong[0], f"other settings: {', '.join(changed)}")
            raise LawscopeError(
                f"{self.path} is of {what}; go on with what it was begun with, or delete it to "
                "begin again."
            )
        for name, observer in self.observers.items():
            observer.load_state_dict(select_prefixed(tensors, f"{name}/"))
        self.source.skip(int(said["batches"]), said["data"])


def _identity(observers: Mapping[str, Any], rank: str) -> dict[str, str]:
    """Return what is measured and how; a file of anything else is refused."""
    first = next(iter(observers.values()))
    model, source = first.session.model, first.session.source
    config: Any = getattr(model, "config", None)
    if hasattr(config, "to_dict"):
        config = {k: v for k, v in config.to_dict().items() if not k.startswith("_")}
    beside = {"observers": list(observers), "rank": rank, "bos": getattr(source, "bos", None)}
    return {
        "model": f"{type(model).__name__} {_as_text(config)}",
        "weights": hash_weights(model),
        "settings": _as_text({**vars(first.settings), **beside}),
    }


def _as_text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _digest(tensors: Mapping[str, Tensor], said: Mapping[str, str]) -> str:
    digest = hashlib.sha256(_as_text(dict(said)).encode())
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
