"""Which tensors of a forward pass complete a layer, and which are sequences of tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from lawscope.capture.kinds import OUTPUT_ACTIVATIONS
from lawscope.capture.trace import Operation, Seen, Trace, join_name

_PER_TOKEN = ("weight", "norm", "embedding")


def find_layers(found: Trace) -> dict[Seen, str]:
    """Find what completes a weight layer, with the name of that layer.

    From each linear or convolutional operation the data is followed while it goes one way only,
    through norms, residual additions, dropout, reshapes, and products with what no weight has
    made, as with the edges of a graph, to the activation. The station is the activation; without
    one, the last norm passed; without that, the weight itself. Left out are

    - the last weight when neither norm nor activation follows: its output is the logits;
    - weights without activation that share their input with another weight: parallel projections
      such as query, key and value, or the shortcut of a residual block.
    """
    operations = found.operations
    weights = [i for i, o in enumerate(operations) if o.kind in ("weight", "embedding")]
    inputs = {i: _data_input(operations, i) for i in weights}
    readers = Counter(inputs.values())
    chosen: dict[Seen, str] = {}
    by_operation = name_operations(found.seen)
    for i in weights:
        end = _follow(operations, i)
        activated = operations[end].kind == "activation"
        # The last layer ends in scores, or in probabilities made of them.
        scores = operations[end].activation in OUTPUT_ACTIVATIONS if activated else True
        if i == weights[-1] and scores and operations[end].kind != "norm":
            continue
        parallel = inputs[i] is not None and readers[inputs[i]] > 1
        if parallel and not activated:
            continue
        station = by_operation.get(end)
        if station is not None and station not in chosen:
            chosen[station] = join_name(operations[i].path) or str(operations[i].function)
    return chosen


def _data_input(operations: list[Operation], position: int) -> int | None:
    """Return the operation a weight reads from; the outputs of one operation are one."""
    inputs = operations[position].inputs
    # What comes after the first, such as a mask or the memory of a decoder, serves every layer.
    first = next((s for s in inputs if operations[s].origin == "data"), None)
    return first if first is None or not operations[first].part else operations[first].inputs[0]


def _follow(operations: list[Operation], start: int) -> int:
    """Return where the layer that begins at operation ``start`` ends."""
    end = here = start
    while len(set(operations[here].consumers)) == 1:
        before, here = here, operations[here].consumers[0]
        kind = operations[here].kind
        if kind == "activation":
            return here
        same_module = end == before and operations[here].path == operations[start].path
        if kind == "norm" or (kind == "pass" and same_module):
            end = here
        elif kind not in ("add", "pass") and not operations[here].mixes:
            break
    return end


def name_operations(seen: list[Seen]) -> dict[int, Seen]:
    """Return what names each operation: a plain module first, then the function in it."""
    names: dict[int, Seen] = {}
    for s in seen:
        have = names.get(s.operation)
        if have is None or (have.function is not None and s.function is None and not s.composite):
            names[s.operation] = s
    return names


def is_sequence(operations: list[Operation], position: int, shape: tuple[int, ...]) -> bool:
    """Return whether an activation, batch included, is (tokens, channels) per sample.

    Three axes are, unless channels come before positions, or the rows mean nothing by
    themselves: no weight has worked on them yet, and everything that reads them flattens them
    first, as an MLP does with an image.
    """
    if len(shape) != 3 or operations[position].channels_first:
        return False
    behind = _walk(position, lambda i: operations[i].inputs, lambda i: False)
    weighted = any(operations[i].kind == "weight" for i in behind)
    return weighted or not _only_flattened(operations, position)


def _only_flattened(operations: list[Operation], start: int) -> bool:
    """Return whether all that reads this flattens it before a weight, and something does."""
    met = _walk(start, lambda i: operations[i].consumers, lambda i: operations[i].flattens)
    readers = [operations[i] for i in met if i != start]
    per_token = any(o.kind in _PER_TOKEN for o in readers if not o.flattens)
    return not per_token and any(o.flattens for o in readers)


def _walk(
    start: int, ahead: Callable[[int], Iterable[int]], ends: Callable[[int], bool]
) -> set[int]:
    """Return what can be reached, without going on from where a way ends."""
    met, waiting = {start}, [start]
    while waiting:
        new = set(ahead(waiting.pop())) - met
        met |= new
        waiting.extend(i for i in new if not ends(i))
    return met
