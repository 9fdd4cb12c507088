"""Names of stations that fit beside a chart and still tell the stations apart."""

from __future__ import annotations

import re
from collections.abc import Sequence

ARROW = " → "
_JOINTS = re.compile(rf"\.|{ARROW}")


def short_names(names: Sequence[str]) -> list[str]:
    """Return the names without the leading and trailing parts that all long names share.

    A number keeps the part before it; a name of one part ("input") stays as it is and takes no
    part in the comparison. What follows an arrow goes where the rest says enough. The short names
    are as different from one another as the given ones.

    Example:
        >>> short_names(["input", "bert.encoder.layer.0.output.norm", "bert.encoder.layer.1.output.norm"])
        ['input', 'layer.0', 'layer.1']
        >>> short_names(["layers.0", "layers.1"])
        ['layers.0', 'layers.1']
        >>> short_names(["conv1 → relu()", "conv2 → relu()#2"])
        ['conv1', 'conv2']
    """  # noqa: E501
    heads = [name.split(ARROW)[0] for name in names]
    shorter = _drop_shared(heads if len(set(heads)) == len(set(names)) else list(names))
    while shorter != (again := _drop_shared(shorter)):
        shorter = again
    return shorter if len(set(shorter)) == len(set(names)) else list(names)


def _drop_shared(names: list[str]) -> list[str]:
    """Drop what all names of several parts share; nothing from the others."""
    parts = [_JOINTS.split(name) for name in names]
    long = [each for each in parts if len(each) > 1]
    if len(long) < 2 or all(each == long[0] for each in long):
        return names
    room = min(map(len, long)) - 1
    head = min(_count_shared(long), room)
    if any(each[head].isdigit() for each in long):
        head = max(0, head - 1)
    tail = min(_count_shared([each[::-1] for each in long]), room - head)
    return [
        name if len(each) == 1 else _cut(name, head, tail)
        for name, each in zip(names, parts, strict=True)
    ]


def _cut(name: str, head: int, tail: int) -> str:
    joints = list(_JOINTS.finditer(name))
    start = joints[head - 1].end() if head else 0
    return name[start : joints[-tail].start() if tail else len(name)]


def _count_shared(parts: list[list[str]]) -> int:
    """Return how many first parts are the same everywhere."""
    columns = list(zip(*parts, strict=False))
    return next((i for i, column in enumerate(columns) if len(set(column)) > 1), len(columns))
