"""Are all hidden units at work, and what to do where they are not?"""

from __future__ import annotations

from collections.abc import Sequence

from lawscope.formatting import count, many, name_some, percent
from lawscope.laws.base import Verdict
from lawscope.laws.symmetry.result import LayerUnits, Symmetry

MIN_ROWS = 30
WORTH = 0.1  # share of a network's units from which the loss is worth advice

RULE = (
    "All units are at work when none is dead and no two of a layer are the same on this data, "
    "which is said of outputs that correlate by more than the threshold, 0.99 by default. "
    f"With fewer than {MIN_ROWS} rows in a layer it cannot be told: a unit may wake, and two may "
    f"part, on others. Advice is given where training lost {WORTH:.0%} of all hidden units: beyond "
    "those that the untrained network lacks."
)


def judge(layers: Sequence[LayerUnits]) -> tuple[Verdict, str]:
    """Apply :data:`RULE`."""
    fewest = min(layer.rows for layer in layers)
    if fewest < MIN_ROWS:
        return "cannot be told", (
            f"{many(fewest, 'row')} in a layer are too few to tell a unit that rests from one that "
            f"is dead; at least {MIN_ROWS} are needed."
        )
    units = sum(layer.units for layer in layers)
    dead = sum(len(layer.dead) for layer in layers)
    copies = sum(layer.copies for layer in layers)
    those = f"{many(units, 'unit')} of {many(len(layers), 'hidden layer')}"
    if not dead and not copies:
        return "holds", f"all {those} are at work, and no two of a layer are the same"
    worst = max(layers, key=lambda layer: layer.lost / layer.units)
    return "does not hold", (
        f"of the {those} {count(dead)} {'is' if dead == 1 else 'are'} dead and {count(copies)} "
        f"{'is a copy' if copies == 1 else 'are copies'} of another; most in '{worst.name}', "
        f"{count(worst.lost)} of {count(worst.units)}"
    )


def advise(result: Symmetry) -> tuple[str, ...]:
    """Say what to do about units that were lost in training, where there are many."""
    control = result.control
    if control is None or result.verdict != "does not hold":
        return ()
    if result.lost - control.lost < WORTH * result.units:
        return ()
    share = percent(result.lost / result.units)
    return (
        f"{count(result.lost)} of {many(result.units, 'hidden unit')} ({share}) are dead or "
        "copies. lawscope.compress(model, loader) removes the dead and merges exact copies, which "
        "leaves outputs as they are; units that are only nearly the same stay. If the network "
        "should use them, train with less weight decay, which pulls units to zero and towards each "
        "other, or with lawscope.remove_symmetry.",
    )


def find_facts(result: Symmetry) -> list[str]:
    """Name the layers that lost units, and what the control lost."""
    facts, control = list[str](), result.control
    losers = [layer.name for layer in result.layers if layer.lost]
    if 1 < len(losers) < len(result.layers):
        facts.append(f"Units are dead or copies in {name_some(losers, 5)}; nowhere else.")
    if control is not None and (result.lost or control.lost):
        facts.append(
            f"The same network untrained has {count(control.dead)} dead units and "
            f"{count(control.copies)} copies."
        )
    mirrors = [layer.mirror for layer in result.layers if layer.mirror is not None]
    if mirrors:
        stay = sum(mirror.c0 > 0 for mirror in mirrors)
        facts.append(
            f"If the two most alike units of a layer were merged, they would stay merged in "
            f"{count(stay)} of {many(len(mirrors), 'layer')} (c₀ > 0)."
        )
    if result.unmirrored:
        facts.append(f"The loss across mirrors was not measured. {result.unmirrored}")
    cut = [layer for layer in result.layers if layer.measured < layer.units]
    if cut:
        facts.append(
            f"Of {many(len(cut), 'wide layer')} {many(max(c.measured for c in cut), 'unit')}, "
            "evenly spaced, stand for all in ranks and copies."
        )
    return facts
