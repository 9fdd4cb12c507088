"""Which tensors of a forward pass complete a layer, and which a block."""

from __future__ import annotations

from collections import Counter

from lawscope.capture.flow import Operation, Seen, Trace
from lawscope.capture.kinds import OUTPUT_ACTIVATIONS


def layers_of(found: Trace) -> dict[Seen, str]:
    """Stations that complete a weight layer, with the name of that layer.

    From each linear or convolutional operation the data is followed while it goes one way only,
    through norms, residual additions, dropout and reshapes, to the activation. The station is the
    activation; without one, the last norm passed; without that, the weight itself. Left out are

    - the last weight when neither norm nor activation follows: its output is the logits;
    - weights without activation that share their input with another weight: parallel projections
      such as query, key and value, or the shortcut of a residual block.
    """
    operations = found.operations
    weights = [i for i, o in enumerate(operations) if o.kind in ("weight", "embedding")]
    inputs = {i: _data_input(operations, i) for i in weights}
    readers = Counter(inputs.values())
    chosen: dict[Seen, str] = {}
    by_operation = _innermost(found.seen)
    for i in weights:
        end = _follow(operations, i)
        activated = operations[end].kind == "activation"
        if i == weights[-1] and _is_logits(operations[end]):
            continue
        parallel = inputs[i] is not None and readers[inputs[i]] > 1
        if parallel and not activated:
            continue
        station = by_operation.get(end)
        if station is not None and station not in chosen:
            chosen[station] = operations[i].path or str(operations[i].function)
    return chosen


def _data_input(operations: list[Operation], position: int) -> int | None:
    """The operation a weight reads its data from; the outputs of one operation are one.

    The first: what comes after, such as a mask or the memory of a decoder, serves every layer.
    """
    inputs = operations[position].inputs
    first = next((s for s in inputs if operations[s].origin == "data"), None)
    return first if first is None or not operations[first].part else operations[first].inputs[0]


def _is_logits(end: Operation) -> bool:
    """Whether the last layer ends in scores, or in probabilities made of them."""
    if end.kind == "activation":
        return end.activation in OUTPUT_ACTIVATIONS
    return end.kind != "norm"


def _follow(operations: list[Operation], start: int) -> int:
    """Where the layer that begins at operation ``start`` ends."""
    end = here = start
    while len(set(operations[here].consumers)) == 1:
        before, here = here, operations[here].consumers[0]
        kind = operations[here].kind
        if kind == "activation":
            return here
        same_module = end == before and operations[here].path == operations[start].path
        if kind == "norm" or (kind == "pass" and same_module):
            end = here
        elif kind not in ("add", "pass"):
            break
    return end


def _innermost(seen: list[Seen]) -> dict[int, Seen]:
    """The station that names each operation: a plain module first, then the function in it."""
    names: dict[int, Seen] = {}
    for s in seen:
        have = names.get(s.operation)
        if have is None or (have.function is not None and s.function is None and not s.composite):
            names[s.operation] = s
    return names


def blocks_of(seen: list[Seen]) -> list[Seen]:
    """The outermost kind of composite module that is run more than once.

    Plain containers (``nn.Sequential``) count only where no module of another class repeats.
    """
    composites = [s for s in seen if s.composite and s.function is None]
    for containers in (False, True):
        candidates = [s for s in composites if s.container == containers]
        runs = Counter(s.family for s in candidates)
        repeated = [s for s in candidates if runs[s.family] > 1]
        outermost = [
            s for s in repeated if not any(s.path.startswith(f"{o.path}.") for o in repeated)
        ]
        if len(outermost) > 1:
            return outermost
    return []
