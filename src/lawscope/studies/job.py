"""The two jobs of a study: train a stack of networks, measure them."""

from __future__ import annotations

import io
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lawscope.studies.entry import Packed, pack, unpack
from lawscope.studies.plan import Training
from lawscope.studies.pool import Report
from lawscope.studies.registry import find


@dataclass(frozen=True)
class Train:
    """Train networks of one shape."""

    trainings: tuple[Training, ...]
    starts: tuple[tuple[Training, Packed], ...] = ()

    def __call__(self, report: Report) -> list[Packed]:
        from lawscope.studies.execute import execute

        done = 0

        def tick(epochs: int) -> None:
            nonlocal done
            done += epochs
            report(done)

        starts = {training.key: unpack(packed, training) for training, packed in self.starts}
        return [pack(run) for run in execute(self.trainings, starts, tick)]


@dataclass(frozen=True)
class Measured:
    """What the measurement of a study gives."""

    numbers: dict[str, Any]
    picture: bytes | None
    why: str
    seconds: float


@dataclass(frozen=True)
class Measure:
    """Measure a study whose trainings are all in the store."""

    name: str
    settings: Mapping[str, Any]
    store: Path

    def __call__(self, report: Report) -> Measured:
        from lawscope.studies.lab import Lab
        from lawscope.studies.result import from_json, to_json
        from lawscope.studies.store import Store

        begun = time.perf_counter()
        study, store = find(self.name), Store(self.store)
        # As they will come back from the file, so that claims and figure are the same then.
        numbers = {
            protocol: from_json(to_json(study.measure(Lab(self.settings, store, report, protocol))))
            for protocol in study.protocols
        }
        picture, why = None, ""
        try:
            picture = draw(study.figure(numbers[study.protocols[0]]), "png")
        except Exception as error:  # a figure that fails must not cost the numbers
            why = f"{type(error).__name__}: {error}"
        return Measured(numbers, picture, why, time.perf_counter() - begun)


def draw(figure: Any, form: str) -> bytes:
    """Return a matplotlib figure as the bytes of a file."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=form, dpi=150, bbox_inches="tight")
    return buffer.getvalue()
