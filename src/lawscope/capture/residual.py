"""The residual blocks of a network, found by its sums of a branch and what the branch began with.

A sum is residual when one side reaches, without an activation, what the other side has computed
more weights from. How the code nests its modules does not matter: a block is the smallest module
that holds the weights of a branch and its sum. Where that is not a module that repeats, as with
``x = relu(x + b(x))`` in the forward of the network, the sum itself ends the block.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from lawscope.capture.kinds import PARTS, PRODUCTS
from lawscope.capture.layers import name_operations
from lawscope.capture.trace import Operation, Seen, Trace

MOST_ON_SKIP = 1  # weights: a projection to another width


@dataclass(frozen=True, eq=False)
class ResidualBlocks:
    """Where the blocks of a residual network end, and where the first begins."""

    ends: tuple[Seen, ...]
    entrance: int | None  # operation, where the first end is not the output of a block's module


@dataclass(frozen=True, eq=False)
class _Sum:
    position: int
    source: int  # operation where branch and skip part
    branch: frozenset[int]  # operations from there to the sum
    weights: tuple[str, ...]  # paths of those that are weights
    owner: str  # path of the smallest module called that holds them and the sum


def find_residual_blocks(found: Trace) -> ResidualBlocks | None:
    """Find the residual blocks; None when there are fewer than two."""
    calls = [s for s in found.seen if s.function is None]
    called = {s.path: s for s in calls}
    runs = Counter(s.family for s in calls)
    sums = [s for i in sorted(found.sums) if (s := _find_sum(found.operations, i, called))]
    families, alone = set[str](), list[_Sum]()
    for path in dict.fromkeys(s.owner for s in sums):
        members, owner = [s for s in sums if s.owner == path], called.get(path)
        module = owner is not None and not owner.container and runs[owner.family] > 1
        if owner is None or not module or _has_blocks_of_its_own(members, called):
            alone += members
        else:
            families.add(owner.family)
    blocks = _join_halves(_outermost([s for s in calls if s.family in families]), calls)
    # A sum around others is a long skip, not the end of a block.
    positions = {s.position for s in sums}
    alone = [s for s in alone if not s.branch & positions]
    if len(blocks) > 1:
        # Nor is a single one, such as that of a positional convolution or a pooling head.
        owners = Counter(s.owner for s in alone)
        alone = [s for s in alone if owners[s.owner] > 1]
    alone = _join_cycle(alone)
    ends: dict[int, tuple[Seen, int | None]] = {s.operation: (s, None) for s in blocks}
    for end, source in _ends_of_sums(found, alone):
        ends.setdefault(end.operation, (end, source))
    if len(ends) < 2:
        return None
    in_order = [ends[i] for i in sorted(ends)]
    entrance = in_order[0][1]
    if entrance is not None:
        names = name_operations(found.seen)
        entrance = _trace_back(found.operations, entrance, lambda i: i in names)
    return ResidualBlocks(tuple(end for end, _ in in_order), entrance)


def _trace_back(operations: list[Operation], start: int, stops: Callable[[int], bool]) -> int:
    """Return what a tensor is but for its shape or scale, up to where the way back stops."""
    here = start
    while not stops(here) and (operations[here].kind == "pass" or operations[here].mixes):
        before = [i for i in operations[here].inputs if operations[i].weighted]
        if len(before) != 1:
            break
        here = before[0]
    return here


def _find_sum(operations: list[Operation], position: int, called: dict[str, Seen]) -> _Sum | None:
    """Return the residual sum that an addition is, if it is one."""
    inputs = [i for i in operations[position].inputs if operations[i].origin == "data"]
    ways = [
        (source, other)
        for skip in inputs
        for other in inputs
        if other != skip
        for source in _compare(operations, skip, other)
    ]
    if not ways:
        return None
    source, other = max(ways)
    branch: set[int] = set()
    for i in sorted(_count_weights(operations, other)):
        if i > source and not branch.union({source}).isdisjoint(operations[i].inputs):
            branch.add(i)
    weights = tuple(operations[i].path for i in sorted(branch) if operations[i].kind == "weight")
    owner = ".".join(_common((*weights, operations[position].path)))
    while owner and owner not in called:
        owner = owner.rpartition(".")[0]
    return _Sum(position, source, frozenset(branch), weights, owner)


def _compare(operations: list[Operation], skip: int, other: int) -> list[int]:
    """Return the operations from which one side passes more weights than the skip does."""
    passed = _count_weights(operations, other)
    reached = _count_weights(operations, skip, skips=True)
    return [i for i, few in reached.items() if passed.get(i, 0) > few]


def _count_weights(operations: list[Operation], end: int, skips: bool = False) -> dict[int, int]:
    """Return everything before an operation, with the most weights on a way from there to it.

    With ``skips`` only ways that a skip may take: no activation, no product of features, no part
    of a tensor, and few weights.
    """
    most, waiting = {end: 0}, {end}
    while waiting:
        here = max(waiting)  # inputs stand before what reads them: all ways to it are known
        waiting.discard(here)
        operation = operations[here]
        weights = most[here] + (operation.kind == "weight")
        if skips and (_ends_skip(operation) or weights > MOST_ON_SKIP):
            continue
        for before in operation.inputs:
            if operations[before].origin == "data":
                most[before] = max(weights, most.get(before, 0))
                waiting.add(before)
    return most


def _ends_skip(operation: Operation) -> bool:
    product = operation.kind == "other" and operation.function in PRODUCTS
    changes = operation.kind == "activation" or operation.function in PARTS
    return product or changes or operation.gates


def _has_blocks_of_its_own(sums: Sequence[_Sum], called: dict[str, Seen]) -> bool:
    """Return whether the branches are several modules of one class, as in a stage with a loop."""
    branches = {_find_branch_module(s, called) for s in sums}
    families = {None if b is None else b.family for b in branches}
    return len(branches) > 1 and len(families) == 1 and None not in families


def _find_branch_module(one: _Sum, called: dict[str, Seen]) -> Seen | None:
    """Return the outermost module below the owner that holds all weights of the branch."""
    common = _common(one.weights)
    depth = len(one.owner.split(".")) if one.owner else 0
    paths = (".".join(common[:n]) for n in range(depth + 1, len(common) + 1))
    return next((called[path] for path in paths if path in called), None)


def _common(paths: Sequence[str]) -> list[str]:
    """Return the parts with which all paths begin."""
    levels = zip(*(path.split(".") for path in paths), strict=False)
    return [names[0] for names in takewhile(lambda names: len(set(names)) == 1, levels)]


def _outermost(blocks: list[Seen]) -> list[Seen]:
    return [s for s in blocks if not any(s.path.startswith(f"{o.path}.") for o in blocks)]


def _join_halves(blocks: list[Seen], calls: Sequence[Seen]) -> list[Seen]:
    """Return the modules that each hold one block of every class, as attention and feed-forward."""
    if len({s.family for s in blocks}) < 2:
        return blocks
    for family in dict.fromkeys(s.family for s in calls if s.composite):
        holders = [s for s in calls if s.family == family]
        held = [[b.family for b in blocks if b.path.startswith(f"{h.path}.")] for h in holders]
        apart = all(len(set(classes)) == len(classes) > 1 for classes in held)
        if len(holders) > 1 and apart and sum(map(len, held)) == len(blocks):
            return holders
    return blocks


def _join_cycle(sums: list[_Sum]) -> list[_Sum]:
    """Return the last of each round, where sums come in rounds, as attention and feed-forward.

    Sums of one kind have weights of the same names but for numbers.
    """
    kinds = [tuple(re.sub(r"\b\d+\b", "*", path) for path in s.weights) for s in sums]
    length = kinds.index(kinds[0], 1) if kinds.count(kinds[0] if kinds else ()) > 1 else 1
    rounds, left = divmod(len(sums), length)
    if left or kinds != kinds[:length] * rounds or len(set(kinds[:length])) < length:
        return sums
    firsts, lasts = sums[::length], sums[length - 1 :: length]
    return [replace(last, source=one.source) for one, last in zip(firsts, lasts, strict=True)]


def _ends_of_sums(found: Trace, sums: Sequence[_Sum]) -> list[tuple[Seen, int]]:
    """Return what is measured after each sum, and where its block began."""
    operations, names = found.operations, name_operations(found.seen)

    def follow(position: int, kind: str) -> int:
        """Return the one thing of this kind that reads the sum, else the sum."""
        here = position
        while len(readers := set(operations[here].consumers)) == 1:
            here = readers.pop()
            if operations[here].kind == kind and here in names:
                return here
            if operations[here].kind != "pass":
                break
        return position

    # Behind a norm only where the stream goes on from it: the final norm is not part of a block.
    sources = {_trace_back(operations, s.source, lambda i: False) for s in sums}
    normed = sources & {follow(s.position, "norm") for s in sums}
    ends = []
    for one in sums:
        end = follow(one.position, "activation")
        if normed - {s.position for s in sums} and end == one.position:
            end = follow(one.position, "norm")
        ends.append((names.get(end) or found.sums[one.position], one.source))
    return ends
