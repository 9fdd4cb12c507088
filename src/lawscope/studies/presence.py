"""Whether the datasets of a study, and the encoders named with them, can be had on this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from lawscope.errors import LawscopeError


def absent(names: Iterable[str]) -> dict[str, str]:
    """The datasets that cannot be had, each with the sentence how to get it.

    All are tried at once, so that a silent network costs one time-out; a dataset that is being
    downloaded is waited for.

    Args:
        names: as :class:`~lawscope.studies.plan.Data` has them.
    """
    found: dict[str, str | None] = {}
    threads = [_Try(name, found) for name in sorted(set(names))]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(0.2)  # short, so that ctrl-C is heard
    return {name: why for name, why in sorted(found.items()) if why is not None}


class _Try(threading.Thread):
    """Load one dataset; a daemon, so that it cannot hold up the end of the program."""

    def __init__(self, name: str, found: dict[str, str | None]) -> None:
        super().__init__(daemon=True)
        self._dataset = name
        self._found = found

    def run(self) -> None:
        from lawscope.zoo.datasets import load
        from lawscope.zoo.pretrained import find_encoder
        from lawscope.zoo.sst2 import load_sst2
        from lawscope.zoo.text import load_text

        kind, _, name = self._dataset.partition(":")
        try:
            if kind == "sst2":
                load_sst2()
                if name:
                    find_encoder(name)
            elif kind == "text":
                load_text(name)
            else:
                load(self._dataset)
            self._found[self._dataset] = None
        except (LawscopeError, OSError) as error:
            self._found[self._dataset] = f"{str(error).rstrip('.')}."
