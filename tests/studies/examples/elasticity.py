"""Made-up numbers of the studies of local elasticity: (all claims hold, none does)."""

SHAPES, TWO, THREE = "shapes", "CIFAR-10, K = 2", "CIFAR-10, K = 3"
MODELS = ("I", "L")


def share(part, probability, pairs, *, kind="H of rank 9", gamma="1/√t", **more):
    found = {"probability": [0.5, probability], "pairs": [0.5, pairs], "times": [10, 100]}
    return {"kind": kind, "beta": "β = 0", "gamma": gamma, "part": part, "seed": 0} | found | more


def theorem(first, second):
    """Part 1 should be near 1 and part 2 near 0."""
    rows = [share(1, first, first), share(2, second, second)]
    rows += [share(0, first, first, breaks=1), share(0, second, second, breaks=2)]
    rows.append(share(0, second, second, breaks=2, kind="L-model"))
    rows += [share(3, 1.0, s, gamma=f"{c}·c*/t") for c, s in (("2", 1), ("1", 0.4), ("0.5", 0))]
    return {"rows": rows, "sizes": [{"n": 4, "seed": 0, "pairs": 0.4}]}


def collapse(diverging, integrable, late):
    errors = {"β = −0.1": diverging, "β = −0.5/√t": diverging, "β = −1/t²": integrable}
    errors |= {"β = 0": 1.0, "β = +0.1/t": 1.0}
    curves = [
        {"K": 3, "beta": beta, "seed": 0, "times": [0, 1, 10], "error": [1.0, 1.0, error]}
        for beta, error in errors.items()
    ]
    genuine = [
        {"world": world, "seed": 0, "early": 1.4, "late": late, "late_energy": 0.9}
        for world in (SHAPES, THREE)
    ]
    return {"curves": curves, "genuine": genuine}


def estimated(loss, larger, gap):
    own = {"t0": 100.0, "gap": gap, "larger": larger, "A": 3.0, "B": -1.0}
    rows = [
        {"world": world, "seed": 0, "train_loss": loss, "test_accuracy": 1.0, "void_from_0": True}
        | dict.fromkeys(MODELS, own)
        for world in (SHAPES, TWO, THREE)
    ]
    return {"networks": rows, "fits": []}


def imitated(late, last, better):
    rows = [
        {
            "world": world,
            "seed": 0,
            "t0": 100.0,
            "better": better,
            "I": {"late": 1.0},
            "later": 0.3,
            "unfiltered": 0.3,
        }
        | {"L": {"late": late, "middle": 0.5, "last": last}}
        for world in (SHAPES, TWO, THREE)
    ]
    return {"networks": rows}


def noisy(clean, noise, loss, lead):
    """``lead`` of α̂ before 2/3 and of β̂ after it."""
    rows = []
    for share_, accuracy, U in ((0.0, clean, 10.0), (0.6, 0.35, 0.1), (0.8, noise, -0.1)):
        ahead = lead if share_ > 2 / 3 else -lead
        rows += [
            {"share": share_, "seed": seed, "accuracy": accuracy, "loss": loss, "first_loss": 1.1}
            | {"U": U * (1 + 0.1 * seed), "tails": dict.fromkeys(MODELS, (0.8, 0.8 + ahead))}
            for seed in range(3)
        ]
    return {"networks": rows}


def emerging(last):
    history = [
        {"step": step, "gap": gap, "kernel": gap, "accuracy": accuracy}
        for step, gap, accuracy in ((0, 0.1, 0.3), (300, 0.0, 0.5), (1000, last, 0.9))
    ]
    return {"networks": [{"world": w, "seed": 0, "history": history} for w in (SHAPES, THREE)]}


def approximated(early, late):
    names = ("decoupled", "linear", "constant", "residue", "share", "other_sign")
    stages = ((0, 1.0986, early), (1000, 0.5, 0.5), (40_000, 1e-4, late))
    return {
        "steps": [
            {"world": world, "seed": 0, "step": step, "loss": loss, **dict.fromkeys(names, size)}
            for world in (SHAPES, THREE)
            for step, loss, size in stages
        ]
    }


SAMPLED = {
    "imbalanced": [{"seed": 0, "with": 0.3, "without": 0.5}],
    "strengths": [{"world": "balanced", "seed": 0, "U": 12.0}],
    "matrices": [{"seed": 0, "lowest": -0.2, "pairs": 1.0}],
}

EXAMPLES = {
    "elasticity/separation-theorem": (theorem(1.0, 0.0), theorem(0.3, 0.6)),
    "elasticity/ode-collapse": (collapse(1e-6, 1e-6, 0.3), collapse(0.2, 0.4, 1.2)),
    "elasticity/estimation": (estimated(1e-4, 1.0, 4.0), estimated(0.5, 0.4, -1.0)),
    "elasticity/imitation": (imitated(0.2, 0.1, 1.0), imitated(1.3, 0.9, 0.2)),
    "elasticity/label-noise": (noisy(0.98, 0.3, 1.1, 0.1), noisy(0.6, 0.7, 0.5, -0.1)),
    "elasticity/emergence": (emerging(0.6), emerging(0.05)),
    "elasticity/linearization": (approximated(1e-4, 1e-5), approximated(0.2, 0.5)),
    "elasticity/sampling": (SAMPLED, SAMPLED),
}
