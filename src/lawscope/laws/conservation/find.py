"""Symmetries of a network: proposed from a traced pass, reported only where a check holds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from torch import nn

from lawscope.capture.restore import Mode
from lawscope.capture.session import Session
from lawscope.capture.trace import Operation, trace
from lawscope.checks import checked
from lawscope.data.batches import Batch
from lawscope.data.source import as_source
from lawscope.laws.conservation.found import Missing, Symmetries
from lawscope.laws.conservation.interfaces import (
    Interface,
    Network,
    Reading,
    Writer,
    name_layers,
)
from lawscope.laws.conservation.probe import CLOSE, Probe, without_epsilon
from lawscope.laws.conservation.symmetry import Kind, Leg, Symmetry

NOT_SAME = "the output changes by {:.1e}"
TIED = "the same weights are on both sides"
SOFTMAX = "under a cross-entropy loss on the output"
NORMALISES = frozenset(
    {"normalize", "norm", "vector_norm", "linalg_norm", "linalg_vector_norm", "cosine_similarity"}
)
EPSILON = "up to the norm's epsilon"
POWERS = frozenset({"pow", "square"})
DEGREES = (1, 2, 3)


@checked
def find_symmetries(model: nn.Module, example: Any, *, mode: Mode = "eval") -> Symmetries:
    """Find the symmetries of a network: changes of its weights that leave its function as it is.

    Candidates come from one traced pass: layers that write units and layers that read them. Each is
    tried in float64 with a random element of its group, and reported where no sample's output
    changes by more than 1e-6.

    Args:
        model: any module; it is left exactly as it was.
        example: a batch (x, y), a dict, a tensor, or a loader of batches.
        mode: "train" lets BatchNorm use the statistics of each batch, as training does.

    Returns:
        The symmetries with their parameters, and what was looked for and not found.

    Raises:
        LawscopeError: the network cannot be run on the example, or not twice with one result.

    Example:
        >>> import torch
        >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> print(find_symmetries(net, torch.randn(3, 4)))
        4 symmetries: 1 rescaling, 2 translations and 1 permutation
    """
    return find_in(Session(model, as_source(example), mode=mode))


def find_in(session: Session) -> Symmetries:
    """Find the symmetries of the network in a session, with a few samples of its data."""

    def find(model: nn.Module, batch: Batch) -> Symmetries:
        seen = trace(model, batch.head(batch.size))
        return Search(Network(model, seen), Probe(model, batch), model).run(session.mode)

    return session.look(find)


@dataclass(eq=False)
class Place:
    """What a group can act on: names for people, legs, and the layers that write the units."""

    names: list[str]
    legs: tuple[Leg, ...]
    writers: list[Writer]

    @property
    def name(self) -> str:
        return ", ".join(self.names)

    @property
    def units(self) -> int:
        return self.writers[0].units


@dataclass
class Search:
    """What is tried on a network, and what came of it."""

    network: Network
    probe: Probe
    model: nn.Module

    def __post_init__(self) -> None:
        self.found: list[Symmetry] = []
        self.missing: list[Missing] = []
        self.layouts: list[tuple[str, int]] = []  # how heads were turned so far
        self.uses = Counter(name for o in self.network.operations for name in o.parameters)
        self.made_by = {writer.operation: writer for writer in self.network.writers}
        self.homes = {w: i for i in self.network.interfaces() for w in i.writers}
        self.key_biases: list[Symmetry] = []

    def run(self, mode: str) -> Symmetries:
        interfaces = list(dict.fromkeys(self.homes.values()))
        attentive = [i for i in interfaces if any(writer.multiplied for writer in i.writers)]
        plain = [i for i in interfaces if i not in attentive]
        self._try_plain(plain)
        self._try_norms(plain)
        self._try_normalised(plain)
        self._try_sums(plain)
        self._try_products(attentive)
        self._try_attention()
        self.keep(self.key_biases, "")
        self._try_head(interfaces)
        names = dict.fromkeys(name for o in self.network.operations for name in o.parameters)
        order = {name: place for place, name in enumerate(names)}
        self.found.sort(key=lambda s: min(order[n] for n in s.parameters if n in order))
        return Symmetries(tuple(self.found), tuple(self.missing), mode, len(self.network.writers))

    def keep(self, candidates: Sequence[Symmetry], why: str, most: float = CLOSE) -> list[Symmetry]:
        """Verify candidates and return those that fail; they are noted where there is a reason."""
        # Layers that share a parameter fail more often, and would take the others with them.
        split = [[one for one in candidates if self._shares(one) is tied] for tied in (False, True)]
        failed, candidates = [], [*split[0], *split[1]]
        residuals = self.probe.verify(split[0]) + self.probe.verify(split[1])
        for one, residual in zip(candidates, residuals, strict=True):
            if residual <= most:
                self.found.append(self._noted(one, residual))
                continue
            failed.append(one)
            if why:
                self.miss(one.kind, one.where, TIED if one.cancels else why.format(residual))
        return failed

    def _noted(self, one: Symmetry, residual: float) -> Symmetry:
        trainable = not one.continuous or set(one.parameters) <= self.probe.trainable
        return replace(one, residual=residual, trainable=trainable)

    def _shares(self, one: Symmetry) -> bool:
        return any(self.uses[name] > 1 for name in one.parameters)

    def miss(self, kind: Kind, where: str, why: str) -> None:
        self.missing.append(Missing(kind, where, why))

    def _try_plain(self, interfaces: Sequence[Interface]) -> None:
        """Try to turn, scale, flip and permute units that nothing multiplies."""
        rotations, scalings, flips, permutations = ([], [], [], [])
        moved: set[Interface] = set()
        places = self._places(interfaces)
        for place in places:
            one = Symmetry("rescaling", place.name, place.legs, place.units)
            homes = [self.homes[writer] for writer in place.writers]
            permutations += self._permute(homes, one.where, moved)
            activations = set().union(*(w.activations for w in place.writers))
            if not all(writer.homogeneous for writer in place.writers):
                self.miss("rescaling", one.where, f"{_name(activations)} is not homogeneous")
                flips.append((_as_flip(one), frozenset(activations)))
            elif activations or any(self._is_gain(writer) for writer in place.writers):
                scalings.append(one)
            else:
                rotations.append(replace(one, kind="double rotation"))
        failed = self.keep(rotations, "")
        turned = {one.where for one in rotations} - {one.where for one in failed}
        scalings += [replace(one, kind="rescaling") for one in failed]
        self._try_scalings(scalings, places)
        self._try_flips(flips)
        for interface in interfaces:
            if interface not in moved and not interface.pinned:
                permutations += self._permute([interface], self._name(interface), moved)
        # A turned interface has permutations among its rotations.
        self.keep([p for p in permutations if p.where not in turned], NOT_SAME)

    def _try_scalings(self, candidates: Sequence[Symmetry], places: Sequence[Place]) -> None:
        """Try to scale units; behind a k-th power by c and c⁻ᵏ, behind other functions by −1."""
        behind = {p.name: set().union(*(w.functions for w in p.writers)) for p in places}
        raised = {name for name, functions in behind.items() if functions & POWERS}
        failed = self.keep([one for one in candidates if one.where not in raised], NOT_SAME)
        self.keep([_as_flip(one) for one in failed if behind[one.where]], NOT_SAME)
        left = [one for one in candidates if one.where in raised]
        for degree in DEGREES:
            left = self.keep([_raise(one, degree) for one in left], "")
        for one in left:
            self.miss(one.kind, one.where, "a power that is not 1, 2 or 3")

    def _try_flips(self, candidates: Sequence[tuple[Symmetry, frozenset[str]]]) -> None:
        """Try sign flips; of places with the same activations the first speaks for the others."""
        groups: dict[frozenset[str], list[Symmetry]] = {}
        for one, activations in candidates:
            groups.setdefault(activations, []).append(one)
        for activations, (first, *others) in groups.items():
            if not self.keep([first], NOT_SAME):
                self.keep(others, NOT_SAME)
                continue
            for one in others:
                self.miss(one.kind, one.where, f"{_name(set(activations))}, as at {first.where}")

    def _name(self, interface: Interface) -> str:
        names = name_layers(self.network.name(r.operation) for r in interface.readings)
        return f"{interface.name} → {names}"

    def _is_gain(self, writer: Writer) -> bool:
        """Return whether a layer only scales its units, which keeps them from being mixed."""
        return all(len(self.network.shapes[leg.parameter]) == 1 for leg in writer.legs)

    def _places(self, interfaces: Sequence[Interface]) -> list[Place]:
        """Return interfaces with all their legs; those that share one, as tied layers, are one."""
        places: list[Place] = []
        for interface in interfaces:
            legs = self._legs(interface)
            if isinstance(legs, str):
                self.miss("rescaling", interface.name, legs)
                continue
            place = Place([self._name(interface)], legs, interface.writers)
            for other in [p for p in places if set(p.legs) & set(legs) and p.units == place.units]:
                places.remove(other)
                legs = tuple(dict.fromkeys([*other.legs, *place.legs]))
                place = Place(other.names + place.names, legs, other.writers + place.writers)
            places.append(place)
        return places

    def _permute(
        self, homes: Sequence[Interface], where: str, moved: set[Interface]
    ) -> list[Symmetry]:
        """Return the exchange of units, also of all that BatchNorms take them from or hand them to.

        Interfaces that are exchanged along with them are added to ``moved``. There is none where
        something else normalises or mixes units on the way.
        """
        units = homes[0].writers[0].units
        todo, done, legs = [(home, 0) for home in homes], set[tuple[Interface, int]](), list[Leg]()
        while todo:
            interface, first = todo.pop()
            if (interface, first) in done:
                continue
            done.add((interface, first))
            if interface.pinned or any(map(self._is_row_norm, interface.writers)):
                return []
            here = [leg for writer in interface.writers for leg in writer.legs]
            here += self.network.added(interface)
            for writer in interface.writers:
                if not self._is_batch_norm(operation := self.network.operations[writer.operation]):
                    continue
                names = (f"{operation.path}.running_{what}" for what in ("mean", "var"))
                here += [Leg(name, 0) for name in names if name in self.probe.buffers]
                behind = self._find_feeders(writer, first, units)
                if behind is None:
                    return []
                todo += behind
            for reading in interface.readings:
                norm = self.made_by.get(reading.operation)
                if norm and self._is_batch_norm(self.network.operations[norm.operation]):
                    todo.append((self.homes[norm], reading.start + first))
                elif (leg := self.network.reader(reading)) is not None:
                    here.append(leg)
                else:
                    return []
            legs += [replace(leg, start=leg.start + first * leg.stride) for leg in here]
        moved |= {interface for interface, _ in done}
        if units < 2:
            return []
        return [Symmetry("permutation", where, _without_signs(legs), units)]

    def _find_feeders(
        self, norm: Writer, first: int, units: int
    ) -> list[tuple[Interface, int]] | None:
        """Return what writes some units of a BatchNorm, and where; None where several do in part.

        A concatenation before it has units of several layers.
        """
        found = []
        for writer in self.network.writers:
            for reading in writer.readings:
                begin, end = first - reading.start, first - reading.start + units
                if reading.operation != norm.operation or end <= 0 or begin >= writer.units:
                    continue
                if begin < 0 or end > writer.units:
                    return None
                found.append((self.homes[writer], begin))
        return found

    def _is_batch_norm(self, operation: Operation) -> bool:
        return isinstance(self.network.module(operation), nn.modules.batchnorm._BatchNorm)

    def _keeps_statistics(self, operation: Operation) -> bool:
        """Return whether a BatchNorm divides by its running statistics, whatever comes in."""
        module = self.network.module(operation)
        return (
            isinstance(module, nn.modules.batchnorm._BatchNorm)
            and not module.training
            and module.running_mean is not None
        )

    def _is_row_norm(self, writer: Writer) -> bool:
        """Return whether units are those of a stream, on which norms of whole rows stand."""
        operation = self.network.operations[writer.operation]
        return operation.kind == "norm" and not self._is_batch_norm(operation)

    def _legs(self, interface: Interface) -> tuple[Leg, ...] | str:
        """Return all that writes and reads the units of an interface, or why that is not known."""
        if interface.pinned:
            return interface.pinned
        legs = [leg for writer in interface.writers for leg in writer.legs]
        legs += self.network.added(interface)
        for reading in interface.readings:
            leg = self.network.reader(reading)
            if leg is None:
                reader = self.network.operations[reading.operation]
                named = self.network.name(reading.operation)
                normalises = f"{named} normalises its units"
                return normalises if reader.kind == "norm" else f"{named} is of an unknown kind"
            legs.append(leg)
        return tuple(dict.fromkeys(legs))

    def _try_norms(self, interfaces: Sequence[Interface]) -> None:
        """Try to scale, and to shift, what goes into norms alone."""
        scales, shifts = [], []
        for interface in interfaces:
            readers = [self.network.operations[r.operation] for r in interface.readings]
            if not readers or any(reader.kind != "norm" for reader in readers):
                continue
            if interface.writers[0].leaves:
                continue
            per_unit = self._is_batch_norm(readers[0])
            names = name_layers(r.path for r in readers)
            if any(map(self._keeps_statistics, readers)):
                where = f"{interface.name} → {names}"
                self.miss("scale invariance", where, "the norm keeps its running statistics")
            elif len(interface.writers) == 1:
                (writer,) = interface.writers
                legs, units = writer.legs, writer.units
                if not per_unit:
                    legs = tuple(self._whole(leg) for leg in legs)
                    units = 1
                one = Symmetry("scale invariance", f"{writer.name} → {names}", legs, units)
                scales.append(replace(one, condition=EPSILON))
            if per_unit and self.model.training:  # the mean over a batch takes biases away
                constants = [leg for writer in interface.writers for leg in writer.constants]
                for leg in constants:
                    where, width = f"{leg.parameter} → {names}", interface.writers[0].units
                    shifts.append(Symmetry("translation", where, (leg,), width))
            if not per_unit:
                shifts += [s for w in interface.writers for s in self._shift(w, f" → {names}")]
        # Epsilon in the denominator breaks the scale invariance a little.
        with without_epsilon(self.model):
            exact = self.probe.again().verify(scales) if scales else []
        held = [one for one, residual in zip(scales, exact, strict=True) if residual <= CLOSE]
        self.keep(held, "", most=math.inf)
        for one, residual in zip(scales, exact, strict=True):
            if residual > CLOSE:
                self.miss(one.kind, one.where, NOT_SAME.format(residual))
        self.keep(shifts, "")

    def _try_normalised(self, interfaces: Sequence[Interface]) -> None:
        """Try to scale weights that a function normalises, and layers whose outputs it does."""
        candidates = []
        for interface in interfaces:
            functions = set().union(*(w.functions for w in interface.writers)) & NORMALISES
            writer = interface.writers[0]
            if functions and len(interface.writers) == 1 and writer.homogeneous:
                legs = tuple(self._whole(leg) for leg in writer.legs)
                where = f"{writer.name} → {name_layers(sorted(functions))}"
                candidates.append(Symmetry("scale invariance", where, legs, 1))
        normalised = {
            name
            for operation in self.network.operations
            for name in operation.parameters
            if operation.function in NORMALISES or ".parametrizations." in name
        }
        for name in sorted(normalised):
            shape = self.network.shapes[name]
            if len(shape) > 1:
                leg = Leg(name, 0)
                candidates.append(Symmetry("scale invariance", name, (leg,), shape[0]))
        self.keep(candidates, NOT_SAME)

    def _try_sums(self, interfaces: Sequence[Interface]) -> None:
        """Try to move a constant between what is added up: biases, embeddings, positions."""
        candidates = []
        for interface in interfaces:
            units = interface.writers[0].units
            for moved in [legs for w in interface.writers for legs in self.network.offsets(w)]:
                *gain, loss = (leg.parameter for leg in moved)
                where = f"{' + '.join(gain)} − {loss}"
                candidates.append(Symmetry("translation", where, moved, units))
            parallel: dict[frozenset[Reading], list[Leg]] = {}
            for writer in interface.writers:
                parallel.setdefault(frozenset(writer.readings), []).extend(writer.constants)
            for legs in parallel.values():
                for one, other in pairwise(dict.fromkeys(legs)):
                    both = one, replace(other, sign=-1)
                    where = f"{one.parameter} − {other.parameter}"
                    candidates.append(Symmetry("translation", where, both, units))
        failed = self.keep(candidates, "")
        self.keep([replace(one, condition=SOFTMAX) for one in failed], NOT_SAME)

    def _whole(self, leg: Leg) -> Leg:
        length = self.network.shapes[leg.parameter][leg.axis]
        return replace(leg, stride=length, block=length)

    def _shift(self, writer: Writer, where: str, condition: str = "") -> Iterator[Symmetry]:
        """Propose adding the same to all units: to every row of a matrix, and to the bias."""
        for leg in writer.legs:
            shape = self.network.shapes[leg.parameter]
            if len(shape) > 2:
                continue
            if len(shape) == 1:
                moved, units = self._whole(leg), 1
            else:
                moved, units = Leg(leg.parameter, 1 - leg.axis), shape[1 - leg.axis]
            place = f"{leg.parameter}{where}"
            yield Symmetry("translation", place, (moved,), units, condition=condition)

    def _try_head(self, interfaces: Sequence[Interface]) -> None:
        """Try to shift all logits: a softmax does not see it."""
        heads = [w for i in interfaces for w in i.writers if w.leaves and w.units > 1]
        candidates = [s for w in heads for s in self._shift(w, " → softmax", SOFTMAX)]
        self.keep(candidates, NOT_SAME)
        if not candidates:
            self.miss("translation", "output", "no layer writes the output as it is")

    def _try_products(self, interfaces: Sequence[Interface]) -> None:
        """Try pairs of layers whose units are multiplied: gates, queries with keys, values."""
        groups: dict[frozenset[int], list[Interface]] = {}
        for interface in interfaces:
            readers = frozenset(r.operation for r in interface.readings)
            groups.setdefault(readers, []).append(interface)
        for group in groups.values():
            alone = [i for i in group if not i.pinned and len(i.writers) == 1]
            for interface in group:
                if interface not in alone:
                    why = interface.pinned or "its units are both added and multiplied"
                    self.miss("rescaling", interface.name, why)
            if alone:
                self._try_product([i.writers[0] for i in alone])

    def _try_attention(self) -> None:
        """Try the heads of nn.MultiheadAttention, which is one operation."""
        for operation in self.network.operations:
            module = self.network.attention(operation)
            if module is None:
                continue
            d, h = module.embed_dim, module.head_dim
            small = [f"{operation.path}.in_proj_bias"] if module.in_proj_bias is not None else []
            names = [f"{operation.path}.in_proj_weight", *small]
            query, key, value = ([Leg(n, 0, i * d) for n in names] for i in range(3))
            keys = [replace(leg, sign=-1) for leg in key]
            self._note_key_bias(f"{operation.path} query · key", key, d)
            output = [Leg(f"{operation.path}.out_proj.weight", 1, sign=-1)]
            pairs = {"query · key": (query, keys), "value → out_proj": (output, value)}
            for what, (one, other) in pairs.items():
                where = f"{operation.path} {what}"
                self.keep(list(_heads(where, one, other, d, h, 1, "whole")), NOT_SAME)

    def _note_key_bias(self, where: str, keys: Sequence[Leg], units: int) -> None:
        """Propose to shift the bias of all keys, which the softmax over them does not see."""
        for leg in keys:
            if len(self.network.shapes[leg.parameter]) == 1:
                legs = (replace(leg, sign=1),)
                self.key_biases.append(Symmetry("translation", f"{where}, bias", legs, units))

    def _try_product(self, writers: Sequence[Writer]) -> None:
        functions = set().union(*(writer.functions for writer in writers))
        readings = sorted({r for w in writers for r in w.readings}, key=lambda r: r.operation)
        names = name_layers(self.network.name(r.operation) for r in readings)
        parts = [part for writer in writers for part in self._split(writer)]
        attention = bool(functions & {"scaled_dot_product_attention", "softmax"})
        if attention:
            self._try_heads(parts, readings, names)
            return
        tried: list[Symmetry] = []
        for part in parts:
            found = [self.network.reader(r) for r in _once(readings, part.units)]
            known = [leg for leg in found if leg is not None]
            if known and len(known) == len(found):
                where = f"{part.name} → {names}"
                tried.append(Symmetry("rescaling", where, (*part.legs, *known), part.units))
        self.keep(tried, NOT_SAME)
        if len(tried) == len(parts) > 1:
            legs = _without_signs(leg for one in tried for leg in one.legs)
            where = f"{' + '.join(part.name for part in parts)} → {names}"
            self.keep([Symmetry("permutation", where, legs, parts[0].units)], NOT_SAME)

    def _split(self, writer: Writer) -> list[Writer]:
        """Return the parts of a layer that computes several at once, as in fused projections."""
        widths = {self._width(r) for r in writer.readings}
        width = max((w for w in widths if w is not None), default=writer.units)
        if writer.units <= width or writer.units % width:
            return [writer]
        return [
            replace(
                writer,
                name=f"{writer.name}[{start}:{start + width}]",
                units=width,
                legs=tuple(replace(leg, start=start) for leg in writer.legs),
            )
            for start in range(0, writer.units, width)
        ]

    def _width(self, reading: Reading) -> int | None:
        found = self.network.matrix(self.network.operations[reading.operation])
        return None if found is None else self.network.shapes[found[0]][1 - found[1]]

    def _try_heads(self, parts: Sequence[Writer], readings: Sequence[Reading], names: str) -> None:
        """Try double rotations head by head, and scales of rotary pairs.

        Queries with keys first, then values with the output; a layer is in one pair only.
        """
        whole = [Reading(r.operation, 0, w) for r in readings if (w := self._width(r))]
        reader = next(filter(None, map(self.network.reader, whole)), None)
        pairs: list[tuple[str, Sequence[Leg], int, Sequence[Leg], int, set[int]]] = []
        for i, first in enumerate(parts):
            for second in parts[i + 1 :]:
                wide, narrow = sorted((first, second), key=lambda w: -w.units)
                legs = [replace(leg, sign=-leg.sign) for leg in narrow.legs]
                where = f"{wide.name} · {narrow.name}"
                pairs.append((where, wide.legs, wide.units, legs, narrow.units, narrow.last_axes))
        if reader is not None:
            width = self.network.shapes[reader.parameter][reader.axis]
            column = [replace(reader, start=0, stride=1, block=1)]
            for part in parts:
                where = f"{part.name} → {names}"
                pairs.append((where, column, width, part.legs, part.units, part.last_axes))
        used: set[Leg] = set()
        for where, wide_legs, many, narrow_legs, few, sizes in pairs:
            both = {replace(leg, sign=1) for leg in (*wide_legs, *narrow_legs)}
            if not both & used and self._pair(where, wide_legs, many, narrow_legs, few, sizes):
                used |= both
                turned = self.found[-1].kind == "double rotation"  # a rotary bias is not the same
                if turned and narrow_legs[0].sign < 0:
                    self._note_key_bias(where, narrow_legs, few)
        if not used:
            where = " · ".join(part.name for part in parts)
            self.miss("double rotation", where, "no head or rotary pair turns freely")

    def _pair(
        self,
        where: str,
        wide: Sequence[Leg],
        many: int,
        narrow: Sequence[Leg],
        few: int,
        lengths: set[int],
    ) -> bool:
        """Try to turn heads of two layers against each other; ``wide`` may have several per head.

        In grouped queries ``many``/``few`` heads of the wide layer share one of the narrow.
        """
        if many % few:
            return False
        sizes = sorted((h for h in lengths | {few} if h > 1 and few % h == 0), reverse=True)
        layouts = [("whole", h) for h in sizes]
        layouts += [(how, h) for h in sizes if h % 2 == 0 for how in ("halves", "neighbours")]
        for how, h in sorted(
            layouts, key=lambda each: (each[0] != "whole", each not in self.layouts)
        ):
            heads = list(_heads(where, wide, narrow, few, h, many // few, how))
            if (residual := self.probe.residual(heads)) <= CLOSE:
                self.layouts.append((how, h))
                self.found += [self._noted(one, residual) for one in heads]
                return True
        return False


def _heads(
    where: str,
    wide: Sequence[Leg],
    narrow: Sequence[Leg],
    few: int,
    h: int,
    share: int,
    layout: str,
) -> Iterator[Symmetry]:
    """Return a symmetry for every head of size h, turned whole or in rotary pairs."""
    rotary = {"halves": (1, 2, h // 2), "neighbours": (2, 2, 1)}.get(layout)
    stride, block, step = rotary or (1, 1, 1)
    for head in range(few // h):
        legs = [_place(leg, head * h, stride, block, step) for leg in narrow]
        for copy in range(share):
            start = (head * share + copy) * h
            legs += [_place(leg, start, stride, block, step) for leg in wide]
        kind: Kind = "rescaling" if rotary else "double rotation"
        condition = "per rotary pair" if rotary else ""
        name = f"{where} (head {head})" if few > h else where
        yield Symmetry(kind, name, tuple(legs), h // block, condition=condition)


def _without_signs(legs: Iterable[Leg]) -> tuple[Leg, ...]:
    """Return slices that a discrete group acts on in one way, whether they write or read."""
    return tuple(dict.fromkeys(replace(leg, sign=1) for leg in legs))


def _as_flip(one: Symmetry) -> Symmetry:
    """Return the sign flip of the units that a rescaling scales."""
    return replace(one, kind="sign flip", legs=_without_signs(one.legs))


def _raise(one: Symmetry, degree: int) -> Symmetry:
    """Return the rescaling of units whose function is homogeneous of a degree."""
    legs = tuple(leg if leg.sign > 0 else replace(leg, sign=-degree) for leg in one.legs)
    condition = "" if degree == 1 else f"degree {degree}: outgoing weights count {degree} times"
    return replace(one, legs=legs, condition=condition)


def _place(leg: Leg, start: int, stride: int, block: int, step: int) -> Leg:
    return replace(leg, start=leg.start + start, stride=stride, block=block, step=step)


def _once(readings: Sequence[Reading], units: int) -> list[Reading]:
    """Return readings as of a part that has so many units of its own."""
    operations = dict.fromkeys(r.operation for r in readings)
    return [Reading(operation, 0, units) for operation in operations]


def _name(activations: set[str]) -> str:
    return " and ".join(sorted(activations))
