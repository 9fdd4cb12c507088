"""Made-up numbers of the studies of the Layer-Peeled Model: (all claims hold, none does)."""


def program(error, gap, classes=3):
    errors = dict.fromkeys(("cosine_error", "duality_error", "loss_error"), error)
    return {"classes": classes, "gap": gap, **errors}


def curve(cosines, threshold, energy, **more):
    return {
        "majority": 5, "feature_energy": energy, "threshold": threshold, "vanishing": None,
        "ratios": [1, 10, 100], "cosines": cosines, "turned": [0.0, 2.0, 3.0], "gap": 1e-9,
    } | more  # fmt: skip


def rates(cosines, sides, ratio, gap=1e-9):
    found = {"cosines": cosines, "sides": sides, "gap": gap}
    return {"ratio": ratio, "majority": 5, "feature_energy": 5, **found}


def row(loss, at=None, *, cosine=-1 / 9, gap=1e-9):
    phases = ["separated"] if at is None else ["separated", "collapsed"]
    points = [{"ratio": at, "phase": phase, "cosine": cosine, "gap": gap} for phase in phases]
    return {"loss": loss, "majority": 5, "feature_energy": 5, "points": points}


def losses(cross_entropy, *others):
    rows = [row("cross_entropy", cross_entropy), *others]
    return {"classes": 10, "weight_energy": 1, "rows": rows}


def tail(gap, common, rare, seconds):
    found = {"gap": gap, "commonest": common, "rarest": rare, "seconds": seconds}
    return {"programs": [{"classes": 10, "vanished": 0, **found}]}


def search(q, *excess):
    return {"classes": 3, "q": q, "excess": list(excess)}


def layers(cosines, loss, angles):
    points = [
        {"ratio": r, "cosines": [c], "losses": [loss], "collapsed_loss": 0.2, "angles": angles}
        for r, c in zip([1, 10, 100], cosines, strict=True)
    ]
    return {"classes": 6, "curves": [{"activation": "linear", "points": points}]}


EXAMPLES = {
    "peeled/balanced": (
        {"programs": [program(1e-9, 1e-12)] * 2, "free": [{"spread": 1e-6, "excess": -1e-12}]},
        {
            "programs": [program(1e-9, 1e-12), program(1e-5, 1e-7, classes=4)],
            "free": [{"spread": 1e-3, "excess": 1e-4}],
        },
    ),
    "peeled/minority-angle": (
        {
            "curves": [
                curve([-0.1, 0.5, 1.0], 40.0, 5),
                curve([-0.1, 1.0, None], 5.0, 5, majority=7, vanishing=50.0, turned=[0, 2.0, None]),
                curve([-0.1, 0.2, 1.0], 50.0, 10),
                curve([-0.1, 0.3, 1.0], 20.0, 10, majority=7),
            ]
        },
        {
            "curves": [
                curve([-0.1, 0.5, 0.4], 40.0, 5, gap=1e-3, turned=[0.0, 2.0, 0.0]),
                curve([-0.1, 1.0, 1.0], 30.0, 10, vanishing=20.0),
            ]
        },
    ),
    "peeled/oversampling": (
        {
            "classes": 10,
            "curves": [
                rates([1.0, 0.5, -1 / 9], [1.0, 0.9], 100),
                rates([None, 0.5, -1 / 9], [], 10),
            ],
        },
        {
            "classes": 10,
            "curves": [
                rates([0.5, 1.0, 0.0], [0.9, 0.8], 100, gap=1e-3),
                rates([1.0, 0.5, -1 / 9], [1.0, 1.0], 1000),
            ],
        },
    ),
    "peeled/losses": (
        losses(12.1924, row("logit_adjusted", 11.0), row("label_smoothed", 30.0),
               row("class_weighted"), row("mse")),
        losses(15.0, row("logit_adjusted", 11.0, gap=1e-3), row("label_smoothed", 5.0),
               row("class_weighted", 5.0, cosine=0.5), row("mse", 2.0)),
    ),
    "peeled/long-tail": (tail(1e-9, -0.1, 0.9, 1.0), tail(1e-3, 0.5, 0.1, 100.0)),
    "peeled/q-norm": (
        {"searches": [search(1.5, -0.01, 0.0), search(2, 0.0, 0.1), search(3, -0.1)]},
        {"searches": [search(1.5, -0.01), search(2, -0.1), search(3, 0.0, 0.1)]},
    ),
    "peeled/two-layer": (
        layers([-0.2, 0.5, 1.0], 0.2, [-0.2]),
        layers([0.9, 0.5, 0.1], 0.1, [0.6]),
    ),
}  # fmt: skip
