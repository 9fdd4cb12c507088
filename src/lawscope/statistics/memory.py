"""How a station's statistics are gathered: the cost rule under a memory budget."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import psutil

from lawscope.errors import LawscopeError
from lawscope.statistics.span import WIDE

Strategy = Literal["held", "scatter", "two-pass"]
STRATEGIES: tuple[Strategy, ...] = ("held", "scatter", "two-pass")
# The bounds of the default budget, "auto".
LEAST_MEMORY, MOST_MEMORY = 512 * 10**6, 4 * 10**9
_UNITS = {"T": 10**12, "G": 10**9, "M": 10**6, "K": 10**3, "": 1}


def parse_memory(memory: str | int | float) -> int:
    """Return the bytes in a budget such as ``"2GB"``, or ``"auto"``: a quarter of what is free."""
    if isinstance(memory, str) and memory == "auto":
        free = int(psutil.virtual_memory().available)
        return min(MOST_MEMORY, max(LEAST_MEMORY, free // 4))
    found = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*([KMGT]?)I?B?\s*", str(memory).upper())
    size = float(found[1]) * _UNITS[found[2]] if found else 0.0
    if not 1 <= size < math.inf:
        raise LawscopeError(
            f"memory={memory!r} is not a size; write it like '512MB' or '2GB', or 'auto'."
        )
    return int(size)


@dataclass(frozen=True)
class Load:
    """What one station asks for."""

    name: str
    dim: int  # number of features d
    itemsize: int  # bytes of one feature as the network makes it

    def table_bytes(self, groups: int) -> int:
        """Return the bytes of the group means and the basis of their span.

        Two G × d tables of float64, or of wide features one in their own precision.
        """
        return groups * self.dim * (16 if self.dim <= WIDE else max(4, self.itemsize))

    def held_bytes(self, groups: int, samples: int) -> int:
        """Return the bytes of all features as they are, beside what D is computed from."""
        beside = self.table_bytes(groups) if self.dim <= WIDE else 8 * groups * (samples + groups)
        return samples * self.dim * self.itemsize + beside

    def scatter_bytes(self, groups: int) -> int:
        """Return the bytes of a d×d float64 scatter per group, beside two tables."""
        return 8 * groups * self.dim * (self.dim + 2)


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
    3. Otherwise every station takes "two-pass": G·d·16 bytes (of wide features G·d·itemsize),
       2·G·d flops a sample and a second pass through the network, which makes holding any station
       pointless. Stations that do not fit together are measured in several rounds.

    A number of ``groups`` that is not ``certain`` is a guess, which refuses no ``forced`` strategy.
    ``one_round`` keeps stations together whatever they need, as ranks that must agree do. What can
    be ``read_once`` has one pass; of an unknown number of samples, as many are held as fit.
    """
    if forced == "two-pass":
        return _two_pass(loads, groups, memory, one_round)
    strategies: list[Strategy] = []
    need = 0
    for load in loads:
        held, scatter = load.held_bytes(groups, samples or 0), load.scatter_bytes(groups)
        # Little data is held even where a scatter would do: n < d needs less than d×d.
        small = load.dim <= groups and (not samples or scatter < held) and need + scatter <= memory
        strategies.append(forced or ("scatter" if small else "held"))
        need += scatter if strategies[-1] == "scatter" else held
    one_pass = Plan(tuple(strategies), (tuple(range(len(loads))),))
    if forced is not None:
        if need > memory and certain and not one_round:
            raise LawscopeError(
                f"strategy={forced!r} needs {_size(need)} for {len(loads)} stations, more than "
                f"memory={_size(memory)}; raise memory= or leave the strategy to lawscope."
            )
        return one_pass
    if need <= memory and (samples is not None or read_once or "held" not in strategies):
        return one_pass
    if read_once:
        raise LawscopeError(
            f"The data can be read only once, and its features need {_size(need)} to be held, "
            f"more than memory={_size(memory)}; raise memory=, or pass a list or a DataLoader "
            "that can be read twice."
        )
    return _two_pass(loads, groups, memory, one_round)


def _two_pass(loads: Sequence[Load], groups: int, memory: int, one_round: bool) -> Plan:
    """Return rounds of consecutive stations whose tables fit the budget together."""
    rounds: list[list[int]] = []
    room = 0
    for i, load in enumerate(loads):
        need = load.table_bytes(groups)
        if need > memory:
            raise LawscopeError(
                f"Station '{load.name}' has {load.dim} features and {groups} groups (classes × "
                f"folds): its means alone need {_size(need)}, more than memory={_size(memory)}. "
                f"Raise memory= to that or more, do without an interval (uncertainty=None divides "
                "it by the number of folds), average feature maps (pooling='4x4', which measures "
                "something else), or choose fewer stations (stations='blocks')."
            )
        if not rounds or (need > room and not one_round):
            rounds.append([])
            room = memory
        rounds[-1].append(i)
        room -= need
    strategies: list[Strategy] = ["two-pass"] * len(loads)
    return Plan(tuple(strategies), tuple(map(tuple, rounds)))


def _size(size: int) -> str:
    """Return bytes as people write them."""
    unit = next(unit for unit in ("G", "M", "K", "") if size >= _UNITS[unit] or not unit)
    return f"{size / _UNITS[unit]:.3g}{unit}B"
