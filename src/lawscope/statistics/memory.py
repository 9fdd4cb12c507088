"""How a station's statistics are gathered: the cost rule under a memory budget."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from lawscope.errors import LawscopeError

Strategy = Literal["held", "scatter", "two-pass"]
STRATEGIES: tuple[Strategy, ...] = ("held", "scatter", "two-pass")
DEFAULT_MEMORY = "512MB"
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}


def parse_memory(memory: str | int | float) -> int:
    """Return the bytes in a budget such as ``"2GB"``.

    Example:
        >>> parse_memory("1.5 GB")
        1500000000
    """
    found = re.fullmatch(r"\s*([0-9.]+)\s*([KMGT]?I?B?)\s*", str(memory).upper())
    try:
        unit = _UNITS[(found[2].replace("I", "").rstrip("B") + "B") if found and found[2] else ""]
        size = int(float(found[1]) * unit) if found else 0
    except (ValueError, KeyError):
        size = 0
    if size <= 0:
        raise LawscopeError(f"memory={memory!r} is not a size; write it like '512MB' or '2GB'.")
    return size


@dataclass(frozen=True)
class Load:
    """What one station asks for."""

    name: str
    dim: int  # number of features d
    itemsize: int  # bytes of one feature as the network makes it

    def table_bytes(self, groups: int) -> int:
        """Return the bytes of group means and the basis of their span: two G × d float64."""
        return 16 * groups * self.dim

    def held_bytes(self, groups: int, samples: int) -> int:
        """Return the bytes of all features as they are, beside the tables."""
        return samples * self.dim * self.itemsize + self.table_bytes(groups)

    def scatter_bytes(self, groups: int) -> int:
        """Return the bytes of a d×d float64 scatter per group, beside the tables."""
        return 8 * groups * self.dim**2 + self.table_bytes(groups)


@dataclass(frozen=True)
class Plan:
    """Which strategy each station takes, and which stations are measured together in a round.

    A round takes one pass over the data, or two when any of its stations is "two-pass".
    """

    strategies: tuple[Strategy, ...]
    rounds: tuple[tuple[int, ...], ...]


def plan(
    loads: Sequence[Load],
    *,
    groups: int,
    samples: int | None,
    memory: int,
    forced: Strategy | None = None,
    certain: bool = True,
    one_round: bool = False,
    read_once: bool = False,
) -> Plan:
    """Choose strategies by cost; the value measured is the same under every choice.

    1. A station with d ≤ G = K·F takes "scatter" (one pass, 2d² flops a sample, 8·G·d² bytes)
       when that fits: it costs no more flops than the 2·G·d of the span and saves a pass.
    2. If all the others fit as they are (n·d·itemsize bytes), they are "held": one pass in all.
    3. Otherwise every station takes "two-pass": G·d·16 bytes, 2·G·d flops a sample and a second
       pass through the network, which makes holding any station pointless. Stations that do not
       fit together are measured in several rounds.

    Args:
        loads: the stations.
        groups: number of groups G = K·F expected.
        samples: number of samples when known.
        memory: budget in bytes.
        forced: one strategy for all stations.
        certain: the number of groups is known; a guess does not refuse a station.
        one_round: keep stations together whatever they need, as ranks that must agree do.
        read_once: only one pass is possible; of an unknown number of samples, as many are held as
            fit the budget.
    """
    everything = tuple(range(len(loads)))
    if forced is not None:
        if forced == "two-pass":
            return _two_pass(loads, groups, memory, certain, one_round)
        need = sum(
            load.scatter_bytes(groups)
            if forced == "scatter"
            else load.held_bytes(groups, samples or 0)
            for load in loads
        )
        if need > memory and certain and not one_round:
            raise LawscopeError(
                f"strategy={forced!r} needs {_size(need)} for {len(loads)} stations, more than "
                f"memory={_size(memory)}; raise memory= or leave the strategy to lawscope."
            )
        return Plan((forced,) * len(loads), (everything,))
    strategies, need = _one_pass(loads, groups, samples or 0, memory)
    if need <= memory and (samples is not None or read_once or "held" not in strategies):
        return Plan(strategies, (everything,))
    if read_once:
        raise LawscopeError(
            f"The data can be read only once, and its features need {_size(need)} to be held, "
            f"more than memory={_size(memory)}; raise memory=, or pass a list or a DataLoader "
            "that can be read twice."
        )
    return _two_pass(loads, groups, memory, certain, one_round)


def _one_pass(
    loads: Sequence[Load], groups: int, samples: int, memory: int
) -> tuple[tuple[Strategy, ...], int]:
    """Return the cheapest one-pass strategy of each station and the bytes they need together."""
    strategies: list[Strategy] = []
    need = 0
    for load in loads:
        held, scatter = load.held_bytes(groups, samples), load.scatter_bytes(groups)
        # Little data is held even where a scatter would do: n < d needs less than d×d.
        small = load.dim <= groups and (samples == 0 or scatter < held)
        if small and need + scatter <= memory:
            strategies.append("scatter")
            need += scatter
        else:
            strategies.append("held")
            need += held
    return tuple(strategies), need


def _two_pass(
    loads: Sequence[Load], groups: int, memory: int, certain: bool, one_round: bool
) -> Plan:
    """Return rounds of consecutive stations whose tables fit the budget together."""
    rounds: list[list[int]] = []
    room = 0
    for i, load in enumerate(loads):
        need = load.table_bytes(groups)
        if need > memory:
            raise LawscopeError(
                f"Station '{load.name}' has {load.dim} features and {groups} groups (classes × "
                f"folds): its means alone need {_size(need)}, more than memory={_size(memory)}; "
                "raise memory=, lower folds=, or measure fewer classes."
            )
        if not rounds or (need > room and not one_round):
            rounds.append([])
            room = memory
        rounds[-1].append(i)
        room -= need
    strategy: Strategy = "two-pass"
    return Plan((strategy,) * len(loads), tuple(tuple(r) for r in rounds))


def _size(size: int) -> str:
    """Return bytes as people write them."""
    for unit in ("GB", "MB", "KB"):
        if size >= _UNITS[unit]:
            return f"{size / _UNITS[unit]:.3g}{unit}"
    return f"{size}B"
