"""The two jobs of a study: train a stack of networks, measure them."""

from __future__ import annotations

import io
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lawscope.studies.crew import Tell
from lawscope.studies.entry import Packed, pack, unpack
from lawscope.studies.plan import Training
from lawscope.studies.registry import find
from lawscope.studies.study import Judged


@dataclass(frozen=True)
class Train:
    """Train networks of one shape.

    Attributes:
        trainings: what to train.
        starts: the finished trainings that they begin from, with their settings.
    """

    trainings: tuple[Training, ...]
    starts: tuple[tuple[Training, Packed], ...] = ()

    def __call__(self, tell: Tell) -> list[Packed]:
        """The finished trainings, in order; ``tell`` hears of network-epochs done."""
        from lawscope.studies.execute import execute

        done = 0

        def tick(epochs: int) -> None:
            nonlocal done
            done += epochs
            tell(done)

        starts = {training.key: unpack(packed, training) for training, packed in self.starts}
        return [pack(run) for run in execute(self.trainings, starts, tick)]


@dataclass(frozen=True)
class Measured:
    """What the measurement of a study gives.

    Attributes:
        numbers: as ``measure`` returned them.
        claims: the verdicts on them.
        picture: the figure as PNG, or None when it could not be drawn.
        why: what was wrong with the figure.
        seconds: what measuring took.
    """

    numbers: dict[str, Any]
    claims: tuple[Judged, ...]
    picture: bytes | None
    why: str
    seconds: float


@dataclass(frozen=True)
class Measure:
    """Measure a study whose trainings are all in the store."""

    name: str
    settings: Mapping[str, Any]
    store: Path

    def __call__(self, tell: Tell) -> Measured:
        """The numbers, the verdicts and the figure."""
        from lawscope.studies.lab import Lab
        from lawscope.studies.result import from_json, to_json
        from lawscope.studies.store import Store

        begun = time.perf_counter()
        study = find(self.name)
        measured = study.measure(Lab(self.settings, Store(self.store), tell))
        # As they will come back from the file, so that claims and figure are the same then.
        numbers = from_json(to_json(measured))
        claims = tuple(study.judge(numbers))
        picture, why = None, ""
        try:
            picture = draw(study.figure(numbers), "png")
        except Exception as error:  # a figure that fails must not cost the numbers
            why = f"{type(error).__name__}: {error}"
        return Measured(numbers, claims, picture, why, time.perf_counter() - begun)


def draw(figure: Any, form: str) -> bytes:
    """A matplotlib figure as the bytes of a file.

    Args:
        figure: what a study's ``figure`` returned.
        form: ``"png"``, ``"pdf"`` or ``"svg"``.
    """
    buffer = io.BytesIO()
    figure.savefig(buffer, format=form, dpi=150, bbox_inches="tight")
    return buffer.getvalue()
