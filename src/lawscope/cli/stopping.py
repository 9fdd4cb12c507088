"""ctrl-C at the end of a batch, where everything is in order."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType
from typing import Any

AGAIN_SECONDS = 3.0


class StoppedError(Exception):
    """The user stopped a scan in good order; the words say how to go on."""


class Stopping:
    """Inside ``with``, ctrl-C and SIGTERM are noted in ``asked`` and nothing is torn apart.

    A second one, a while later, means it: it interrupts at once. Repeats at the same moment are
    one wish, because torchrun hands on to its processes what the terminal has sent them already.
    """

    def __init__(self) -> None:
        self.asked = False
        self._since = 0.0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stopping:
        """Take over the signals, which only the main thread can."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: Any) -> None:
        """Give the signals back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.asked and time.monotonic() - self._since > AGAIN_SECONDS:
            raise KeyboardInterrupt
        if not self.asked:
            self.asked, self._since = True, time.monotonic()
