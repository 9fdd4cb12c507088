"""Made-up numbers of the studies of symmetry: (all claims hold, none does)."""

KINDS = ("feed-forward", "residual")


def landscapes(off, spread):
    names = ("one weight", "rescaling", "rotation, mode 1", "exchange of two")
    names += ("3 weights, coexistence", "3 weights, spinodal")
    rows = [{"symmetry": name, "seed": 0, "predicted": 1.0, "found": 1.0 + off} for name in names]
    three = {"seed": 0, "predicted": 0.1, "found": 0.1 + off, "coexistence": 0.11}
    three |= {"spread_below": 0.3, "spread_above": spread}
    return {"thresholds": rows, "three": [three], "curves": [], "jump": []}


def decayed(first, talk, last):
    """``first``, ``talk`` and ``last``: dead units, rank and blocks at decay 0, 0.001 and 0.03."""
    rows = []
    for kind in KINDS:
        for decay, (dead, rank, blocks) in ((0.0, first), (1e-3, talk), (3e-2, last)):
            row = {"kind": kind, "decay": decay, "seed": 0, "dead": dead, "copies": dead}
            row |= {"rank": rank, "blocks_before": blocks, "blocks_after": blocks}
            rows.append(row | {"test_accuracy": 0.8})
    return {"networks": rows, "pictures": []}


def mirrored(odd, merged, distinct):
    rows = []
    for kind in ("feed-forward", "tanh"):
        cell = {"kind": kind, "decay": 0.01, "seed": 0, "c1": 0.1, "oddness": odd}
        rows.append({**cell, "what": "exchange", "apart": 0.005, "c0": merged})
        rows.append({**cell, "what": "exchange", "apart": 1.2, "c0": distinct})
        rows.append({**cell, "what": "flip", "apart": 1.0, "c0": distinct})
    return {"mirrors": rows}


def contrasted(left, error, rank):
    linear = {"gamma": 0.3, "seed": 0, "expected": 4, "left": left, "error": error}
    images = [
        {"similarity": similarity, "decay": decay, "seed": 0, "rank": value, "left": 32}
        | {"accuracy": 0.5}
        for similarity in ("cosine", "distance")
        for decay, value in ((0.0, 20.0), (0.01, rank))
    ]
    return {"linear": [linear], "images": images}


def encoded(lost, error, diversity):
    modes = (4, 1, 0)
    linear = [{"predicted": k, "left": k + lost, "error": error, "seed": 0} for k in modes]
    networks = [
        {"predicted": k, "left": k + lost, "diversity": diversity, "seed": 0} for k in modes
    ]
    return {"linear": linear, "networks": networks, "pictures": []}


def compressed(difference, share):
    regressions = [
        {"way": way, "seed": 0, "difference": difference} for way in ("sparse", "low-rank")
    ]
    networks = [
        {"way": way, "decay": 1e-3, "seed": 0, "test_accuracy": 0.8, "kept": kept, "rank": kept}
        for way, kept in (("plain", 1.0), ("sparse", share), ("low-rank", share))
    ]
    return {"regressions": regressions, "networks": networks}


def removed(learned):
    names = ("W", "learned", "activations", "dead", "copies", "test_accuracy")
    networks, barriers = [], []
    for way, value in (("plain", 10.0), ("removed, σ = 0.05", learned)):
        cell = {"decay": 0.01, "way": way, "seed": 0}
        networks.append(cell | dict.fromkeys(names, value) | {"ablated": 0.5})
        barriers.append(cell | {"barrier": 1.0, "curve": []})
    return {"networks": networks, "barriers": barriers}


EXAMPLES = {
    "symmetry/landscape": (landscapes(1e-5, 0.0), landscapes(0.1, 0.2)),
    "symmetry/weight-decay": (
        decayed((0.0, 30.0, 0.0), (0.1, 20.0, 0.5), (0.4, 5.0, 0.9)),
        decayed((0.4, 10.0, 0.5), (0.2, 15.0, 0.1), (0.1, 20.0, 0.1)),
    ),
    "symmetry/mirror": (mirrored(1e-12, 0.1, -0.1), mirrored(0.3, -0.1, 0.1)),
    "symmetry/contrastive": (contrasted(4, 0.02, 10.0), contrasted(6, 0.5, 25.0)),
    "symmetry/posterior-collapse": (encoded(0, 1e-5, 1e-3), encoded(3, 0.2, 0.5)),
    "symmetry/compression": (compressed(1e-5, 0.1), compressed(0.1, 0.9)),
    "symmetry/removal": (removed(20.0), removed(5.0)),
}
