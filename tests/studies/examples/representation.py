"""Made-up numbers of the studies of representations: (all claims hold, none does)."""

from itertools import combinations

RELATIONS = tuple(
    f"{side} {kind}" for side in ("backward", "forward") for kind in ("RGA", "RWA", "GWA")
)
HIDDEN = ("layer2.linear", "layer3.linear", "layer4.linear")
SEEDS = (10, 11, 12)


def each(value):
    return dict.fromkeys(RELATIONS, value)


def aligned(end, cross):
    """Alignments begin at a raw 0.5 over a null of 0.4 and end at ``end``; excess likewise."""
    rows, crossed = [], []
    dense = (*HIDDEN, "head")
    kinds = {"residual": ("hidden", "head"), "ReLU, decay 0": dense, "ReLU, decay 0.01": dense}
    for kind, layers in kinds.items():
        for seed in SEEDS:
            for layer in layers:
                for epoch, raw in ((0, 0.5), (30, end)):
                    rows.append(
                        {"kind": kind, "seed": seed, "layer": layer, "epoch": epoch}
                        | {"raw": each(raw), "null": each(0.4), "sd": each(0.01)}
                        | {"excess": each((raw - 0.4) / 0.6), "state": "neither", "rank99": 7}
                    )
                crossed.append(
                    {"kind": kind, "seed": seed, "layer": layer, "last": True, "cross": cross}
                    | {"cross_null": 0.05, "cross_sd": 0.02, "asymmetry": 0.8}
                )
    return {"rows": rows, "cross": crossed}


def decayed(compact, alignment):
    """Ranks and alignments are changed by these with decay and with small batches."""
    rows = []
    for group, of, ends in (
        ("ReLU, batch 16", "decay", (0.0, 0.01)),
        ("ReLU, decay 0.01", "batch", (128, 4)),
    ):
        for comparison in ("equal steps", "equal loss"):
            for place, end in enumerate(ends):
                cell = {"decay": 0.01, "batch": 16, of: end}
                for seed in SEEDS:
                    rows.append(
                        {"group": group, "comparison": comparison, "seed": seed, **cell}
                        | {"epoch": 3, "loss": 0.5, "test_accuracy": 0.8}
                        | {"rank99": 20 + place * compact, "mean": 0.3 + place * alignment}
                        | {"excess": each(0.3 + place * alignment)}
                    )
    return {"rows": rows}


POINTS = {"4": (0, -1), "5": (1, 2), "6": (2, 1), "7": (-1, 0), "8": (1, 1), "9": (0, 0)}


def classified(error, share):
    """Formulas are off by ``error``; a share of the trained layers has the whole hypothesis."""
    right = error == 0
    synthetic = [
        {"phase": name, "seed": 10, "p": p, "q": q, "error": error}
        | {"label": name if right else "none"}
        for name, (p, q) in POINTS.items()
    ]
    theorem = [
        {"relations": list(relations), "seed": 10, "held": list(relations)}
        | {"two_sides": len({r.split()[0] for r in relations}) == 2}
        | {"third": 1 - error, "smallest": 1 - error, "unevenness": error}
        for size in (1, 2, 3)
        for relations in combinations(RELATIONS, size)
    ]
    layers = [
        {"kind": "ReLU, decay 0.01", "layer": name, "seed": seed, "trained": trained}
        | {"state": "CRH" if place < 4 * share else "neither", "phase": "", "reason": "far"}
        | {"nearest": "8", "distance": 0.4, "p": 0.7, "q": 0.8, "r2_p": 0.5, "r2_q": 0.6}
        | {"alpha": 2.0}
        for place, name in enumerate((*HIDDEN, "head"))
        for seed in SEEDS
        for trained in (False, True)
    ]
    return {
        "synthetic": synthetic, "theorem": theorem, "layers": layers,
        "flat": [{"phase": name, "seed": 10, "spread": error} for name in "123"],
        "rotated": [{"seed": 0, "p": 0.0, "q": 0.0, "label": None if right else "9"}],
    }  # fmt: skip


def in_heads(*exponents, r2=0.98, dense=0.95):
    """Exponents of layers 1, 2 and 3 of a transformer."""
    names = ("sorted", "in_g", "in_h")
    common = {f"{way}_{what}": 0.9 for way in names for what in ("exponent", "r2")}
    common |= {"p": 0.2, "q": 1.0, "r2_p": 0.5, "r2_q": 0.9, "alpha": 1.2, "phase": ""}
    common |= {"nearest": "forward CRH", "backward": 0.3, "forward": 0.9, "forward_excess": 0.5}
    rows = [
        {**common, "seed": seed, "step": step, "module": module, "layer": layer, "head": head}
        | {"sorted_exponent": alpha, "sorted_r2": r2}
        for seed in SEEDS
        for step in (0, 3000, 5000)
        for module in ("q", "k", "v")
        for layer, alpha in enumerate(exponents, 1)
        for head in (0, 1)
    ]
    parts = ("attention out", "feed-forward in", "feed-forward out")
    rows += [
        {**common, "seed": seed, "step": step, "module": module, "layer": layer, "head": None}
        | {"sorted_exponent": 4.0 - layer}
        for seed in SEEDS
        for step in (0, 3000, 5000)
        for module in parts
        for layer in (1, 2, 3)
    ]
    connected = [
        {**common, "kind": "ReLU, decay 0", "seed": seed, "trained": trained, "layer": layer}
        | {"sorted_r2": dense}
        for seed in SEEDS
        for trained in (False, True)
        for layer in (2, 3, 4)
    ]
    losses = [{"seed": seed, "loss": 2.3, "accuracy": 0.46} for seed in SEEDS]
    return {"rows": rows, "dense": connected, "losses": losses}


def balanced(einstein, residual, cosine, theorem, smallest, identity=1e-14):
    particles = [
        {"friction": 1.0, "step": step, "seed": seed, "talk": 2 * einstein, "exact": einstein}
        for step in (0.01, 0.5)
        for seed in SEEDS
    ]
    layers = [
        {"kind": kind, "seed": seed, "layer": layer, "loss": 0.4, "noise": 0.1}
        | {"cosine": cosine, "with_noise": 0.999, "residual": residual, "identity": identity}
        | {"forward": theorem, "backward": theorem / 2, "end_forward": 0.5, "end_backward": 0.4}
        | {"end_alignments": each(smallest), "end_cosine": 0.98, "gradient": 0.3}
        for kind in ("ReLU", "tanh")
        for seed in SEEDS
        for layer in (2, 3, 4)
    ]
    return {"particles": particles, "layers": layers}


def used(ansatz, early, important, unimportant, fewest, back, collapse):
    rows = [
        {"kind": kind, "decay": decay, "seed": seed, "layer": layer, "trained": trained}
        | {"test_accuracy": 0.85 - decay, "excess": each(place / 10 + seed / 100)}
        | {"rank99": 7 + seed + place, "nfa_loss": ansatz, "nfa_output": ansatz}
        | {"nfa_loss_raw": 0.8, "nfa_output_raw": 0.8, "important": important + place / 100}
        | {"unimportant": unimportant, "across": 0.1, "spearman": 0.6}
        | {"fewest_H": fewest + place + seed, "fewest_G": 20, "fewest_random": 60}
        | {"invertible": back + place / 100}
        for kind in ("ReLU", "tanh")
        for decay in (0.0, 0.01)
        for seed in SEEDS
        for trained in (False, True)
        for place, layer in enumerate(HIDDEN)
    ]
    collapsed = [
        {"seed": seed, "trained": trained, "moments": moments, "nc1": 0.01, "accuracy": 1.0}
        | {"raw": each(collapse), "null": each(0.1), "excess": each(0.8)}
        for seed in SEEDS
        for trained in (False, True)
        for moments in ("raw", "centred")
    ]
    first = [
        {"step": step, "layer": layer, "seed": seed, "gain": 1.1, "update": 30.0 if step else None}
        | {"alignment": 0.2 + early, "null": 0.2}
        for step in (0, 1, 5, 20)
        for layer in (2, 3, 4)
        for seed in SEEDS
    ]
    return {"rows": rows, "collapse": collapsed, "early": first}


EXAMPLES = {
    "representation/alignment": (aligned(0.9, 0.7), aligned(0.42, 0.1)),
    "representation/weight-decay": (decayed(-10, 0.2), decayed(5, -0.1)),
    "representation/phases": (classified(0.0, 0.25), classified(0.01, 0.75)),
    "representation/transformer": (
        in_heads(3.1, 2.2, 1.1), in_heads(1.3, 1.2, 1.9, r2=0.8, dense=0.6),
    ),
    "representation/fluctuation-dissipation": (
        balanced(1.0, 0.03, 0.99, 0.05, 0.95), balanced(1.1, 0.2, 0.5, 0.6, 0.3, identity=0.1),
    ),
    "representation/neural-collapse-nfa": (
        used(0.5, 0.05, 3.0, 0.4, 2, 0.8, 0.97), used(0.1, -0.05, 1.0, 1.0, 30, 0.2, 0.5),
    ),
}  # fmt: skip
