"""Does the canonical representation hypothesis hold, and in which phase is a layer?"""

from __future__ import annotations

from collections.abc import Sequence

from lawscope.formatting import count, fixed, join_words, many, name_some, percent
from lawscope.laws.alignment.result import ALIGNED, Alignment, LayerAlignment, describe_state
from lawscope.laws.base import Verdict

ROOM = 0.5  # advice names layers whose H lies in at most this share of their dimensions
MOST_SAID = 3

RULE = (
    "An alignment holds in a layer when its excess over random rotations, (raw − null)/(1 − null), "
    f"is above {ALIGNED} with its whole 95 % interval; the canonical representation hypothesis "
    "(CRH) when all six do. A layer is in a phase when p and q are near a point of Table 1, each "
    "with R² above 0.7. The law holds in the network when the CRH holds in more than half of its "
    "layers, and does not when it certainly fails in at least half: when an alignment lies below "
    f"{ALIGNED} with its whole interval. With fewer rows than dimensions nothing is told of a "
    "layer."
)


def judge(layers: Sequence[LayerAlignment]) -> tuple[Verdict, str]:
    """Apply :data:`RULE`."""
    known = [layer for layer in layers if not layer.missing]
    if not known:
        return "cannot be told", f"no layer could be measured: {layers[0].missing}"
    whole = [layer for layer in known if layer.canonical]
    failed = [layer for layer in known if layer.canonical is False]
    phases = [layer for layer in known if layer.state == "phase"]
    of = f"{many(len(known), 'layer')}"
    beside = f"; {_name_phases(phases)}" if phases else ""
    if 2 * len(whole) > len(known):
        return "holds", f"all six alignments hold in {count(len(whole))} of {of}{beside}"
    if 2 * len(failed) >= len(known):
        most = max(failed, key=lambda layer: len(layer.certain))
        best = "none certainly holds in any of them"
        if most.certain:
            best = f"most hold in '{most.name}' ({join_words(list(most.certain))})"
        return "does not hold", (
            f"in {count(len(failed))} of {of} an alignment is certainly no more than random "
            f"rotations leave; {best}{beside}"
        )
    few = [layer for layer in known if not layer.enough]
    if few:
        least = max(max(layer.inputs, layer.outputs) for layer in few)
        rows = min(layer.rows for layer in few)
        return "cannot be told", (
            f"{many(rows, 'row')} {'is' if rows == 1 else 'are'} fewer than the dimensions of "
            f"{count(len(few))} of {of}; at least {count(least)} are needed{beside}"
        )
    return "cannot be told", (
        f"of {of}, all six alignments certainly hold in {count(len(whole)) if whole else 'none'}, "
        f"and one certainly fails in {count(len(failed)) if failed else 'none'}{beside}"
    )


def _name_phases(layers: Sequence[LayerAlignment]) -> str:
    named = [f"'{layer.name}' is in {describe_state(layer)}" for layer in layers[:MOST_SAID]]
    more = len(layers) - len(named)
    return join_words(named) + (f", and {many(more, 'more layer')} in a phase" if more else "")


def advise(result: Alignment) -> tuple[str, ...]:
    """Say which layers could be cut to a smaller rank, where the network has learned something."""
    if not result.learned:
        return ()
    wide = [
        layer
        for layer in result.layers
        if not layer.missing
        and layer.enough
        and layer.rank_out <= ROOM * min(layer.inputs, layer.outputs)
    ]
    if not wide:
        return ()
    wide.sort(key=lambda layer: layer.rank_out / layer.outputs)
    named = [
        f"'{layer.name}' to rank {layer.rank_out} of {min(layer.inputs, layer.outputs)}"
        for layer in wide[:MOST_SAID]
    ]
    more = len(wide) - len(named)
    others = f", and {many(more, 'more layer')}" if more else ""
    return (
        f"Cut weights to the directions that carry the representation: {join_words(named)}"
        f"{others}. So many directions hold 99 % of "
        "what each layer gives out, and cutting to them costs little in networks where it was "
        "tried; measure the loss after it.",
    )


def find_facts(result: Alignment) -> list[str]:
    """Name what was seen beside the verdict."""
    facts = list[str]()
    known = [layer for layer in result.layers if not layer.missing]
    missing = [layer for layer in result.layers if layer.missing]
    for reason in dict.fromkeys(layer.missing for layer in missing):
        names = [layer.name for layer in missing if layer.missing == reason]
        facts.append(f"Without numbers: {name_some(names, 4)}. {reason}")
    last = known[-1] if known else None
    if last is not None and last.outputs == len(result.counts):  # it scores the classes
        excess = last.excess.get("backward RWA", float("nan"))
        facts.append(
            f"Neural collapse would make H_a ∝ WᵀW in the last layer: in '{last.name}' the excess "
            f"is {fixed(excess, 2)}."
        )
    control = result.control
    if control is not None:
        before = [_mean_excess(layer) for layer in control.layers if not layer.missing]
        after = [_mean_excess(layer) for layer in known]
        if before and after:
            facts.append(
                f"Mean excess of the six alignments: {fixed(sum(after) / len(after), 2)}; of the "
                f"same network untrained {fixed(sum(before) / len(before), 2)}."
            )
    shares = [layer.rank_out / layer.outputs for layer in known]
    if shares:
        facts.append(
            f"99 % of what a layer gives out lies in {percent(min(shares))} to "
            f"{percent(max(shares))} of its directions."
        )
    return facts


def _mean_excess(layer: LayerAlignment) -> float:
    values = [value for value in layer.excess.values() if value == value]
    return sum(values) / len(values) if values else 0.0
