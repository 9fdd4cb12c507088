"""Made-up numbers of the studies of separation: (all claims hold, none does)."""

from lawscope.studies.separation import transfer


def rows(**numbers):
    """Three chosen networks, one per seed, that fit; a number is a list over seeds or the same."""
    rest = {
        "fits": True, "accuracy": 1.0, "lr": 1e-3, "seed": [0, 1, 2], "r": -0.995, "rho": 0.82,
        "half_life": 3.5, "D": [[30.0, 5.0, 1.0]] * 3,
    }  # fmt: skip
    columns = {k: v if isinstance(v, list) else [v] * 3 for k, v in (rest | numbers).items()}
    return [{name: column[i] for name, column in columns.items()} for i in range(3)]


def chosen(**numbers):
    return {"chosen": rows(**numbers)}


def ending(last):
    return [[30.0, 5.0, last]] * 3


def panels(key, cells):
    """Panels that differ in one setting."""
    return {"panels": [{key: value, **chosen(**numbers)} for value, numbers in cells.items()]}


ORDERS = [[{"last": 1.0}, {"last": 1.5}]] * 3


def optimizers(r, rho20, rho8, last):
    rho = {4: 0.3, 8: rho8, 20: rho20}
    return {
        "panels": [
            {"optimizer": o, "depth": d}
            | chosen(r=r, rho=rho[d], D=ending(last if d == 20 else 1.0), orders=ORDERS)
            for o in ("sgd", "momentum", "adam")
            for d in (4, 8, 20)
        ]
    }


def datasets(r):
    names = ("cifar10", "mnist")
    return {"panels": [{"dataset": name, "depth": 4, **chosen(r=r)} for name in names]}


def imbalance(r, half_life):
    unequal = {"r": r, "half_life": half_life}
    cells = {"500 : 100": unequal, "200 : 100": unequal, "balanced": {"half_life": 3.5}}
    return {
        "panels": [
            {"classes": classes, "depth": depth, **chosen(**numbers)}
            for classes, numbers in cells.items()
            for depth in (4, 8)
        ]
    }


def depths(*best):
    """Flat curves but for the best depth on MNIST, Fashion-MNIST and CIFAR-10."""
    tried = [2, 4, 6, 8, 10, 12, 14]
    compared = {
        name: {
            "depth": depth, "depths": tried, "error": [0.1] * len(tried),
            "mean": [1.0 if each == depth else 2.0 for each in tried],
        }
        for name, depth in zip(("mnist", "fashion-mnist", "cifar10"), best, strict=True)
    }  # fmt: skip
    return {"best": compared, "best_by_lowest": compared}


def convnets(r):
    return {
        "panels": [
            {"dataset": dataset, "network": network, **chosen(r=r)}
            for dataset in ("fashion-mnist", "cifar10")
            for network in ("alexnet", "vgg")
        ]
    }


def residual(layers, blocks, mixed):
    return {
        "panels": [
            {"kind": kind, "stations": stations, **chosen(r=r, D=[mixed] * 3)}
            for stations, r in (("layers", layers), ("blocks", blocks))
            for kind in ("2-layer", "3-layer", "mixed")
        ]
    }


def tuned(r, at_same_rate, **numbers):
    """The chosen networks among all candidates, which have those of the first rate too."""
    made = chosen(r=r, lr=3e-3, **numbers)
    return {**made, "runs": [*rows(r=at_same_rate), *made["chosen"]]}


def history(r, nc1, rho, excess=(1.0, 1.0, 1.0, 1.0), cosine=(0.0, 0.2, 0.8, 0.95)):
    names = ("epoch", "r", "nc1", "rho", "excess", "cosine")
    columns = zip([0, 10, 100, 600], r, nc1, rho, excess, cosine, strict=True)
    return {"seed": 0, "history": [dict(zip(names, row, strict=True)) for row in columns]}


LATE = [0.9, -0.985, -0.97, -1], [9, 2, 0.5, 0.1], [1.1, 0.9, 0.8, 0.7]
NEVER = [-0.99, -0.5, -0.5, -0.9], [0.1] * 4, [0.5, 0.6, 0.7, 0.7]


def tested(sign):
    """Networks whose test accuracy falls (−1) or rises (1) with r."""
    rows = [
        {"optimizer": "adam", "fits": True, "r": -0.9 - i / 100, "rho": 0.5 + i / 100,
         "test_accuracy": 0.5 - sign * i / 100}
        for i in range(10)
    ]  # fmt: skip
    return {"groups": {"8 layers": rows}}


def factors(optimizer):
    """Decay ratios that move by a factor of two, with the optimiser by another one."""
    moved = {"depth": 2.0, "data": 2.0, "epochs": 2.0, "width": 2.0, "optimiser": optimizer}
    return {
        "factors": {
            factor: [
                {"value": name, "networks": [{"seed": k, "rho": rho} for k in range(3)]}
                for name, rho in (("a", 0.3), ("b", 0.3 * times))
            ]
            for factor, times in moved.items()
        }
    }


def noisy(moved, predicted, excess):
    trials = [{"noise": 0.01, "moved": moved, "predicted": predicted}]
    return [{"seed": seed, "trials": trials, "excess": excess} for seed in range(3)]


def followed(*excess):
    return [history([0.9, -0.9, -0.99, -1], [9, 2, 0.5, 0.1], [1, 0.9, 0.8, 0.7], excess)]


def shares(balance, accuracy):
    rows = zip([10, 100, 300, 500], balance, accuracy, strict=True)
    means = [{"upstream": u, "balance": b, "test_accuracy": a} for u, b, a in rows]
    return {arm: {"means": means} for arm in transfer.ARMS}


def classes(straight, r, error):
    own = [{"r": -0.97 if k < straight else -0.9} for k in range(10)]
    return chosen(r=r, classes=[own] * 3, sum_error=error)


def looks(values, in_plane):
    return chosen(silhouette=[values] * 3, silhouette_in_plane=[in_plane] * 3)


def sentences(r):
    return {
        "encoder": "bert-base-cased",
        "panels": [{"pooling": p, "chosen": rows(r=r)[:1]} for p in ("first", "mean")],
    }


def extended(scratch, part, values):
    new = chosen(part=[{"r": part, "rho": 0.5}] * 3, D=[values] * 3)
    return {"kept": 2, "scratch": chosen(r=scratch), "extended": new}


# Two lines, and one line with a little noise.
KINKED, STRAIGHT = [16.0, 15.0, 14.2, 7.0, 3.6, 1.8], [32.0, 15.0, 8.5, 3.9, 2.05, 1.0]

NARROW_FIRST = {"narrow-wide": {"D": ending(2.0)}, "wide-narrow": {}}

# For every study: numbers on which all its claims hold, and numbers on which none does.
EXAMPLES = {
    "separation/optimizers": (optimizers(-0.995, 0.82, 0.53, 2.0), optimizers(-0.9, 0.7, 0.4, 0.5)),
    "separation/datasets": (datasets(-0.99), datasets(-0.97)),
    "separation/imbalance": (imbalance(-0.99, 4.5), imbalance(-0.97, 3.4)),
    "separation/learning-rate": (
        panels("lr", {0.01: {"r": -0.99}, 0.1: {"r": -0.985}}),
        panels("lr", {0.01: {"r": -0.99}, 0.1: {"r": -0.97}}),
    ),
    "separation/sample-size": (
        panels("samples", {1000: {"half_life": 1.0}, 5000: {"half_life": 1.3}}),
        panels("samples", {1000: {"half_life": 1.0}, 5000: {"half_life": 0.9, "r": -0.9}}),
    ),
    "separation/width": (
        panels("width", {20: {"D": ending(5.0)}, 100: {}, 1000: {"D": ending(0.8)}}),
        panels("width", {20: {"D": ending(1.9)}, 100: {}, 1000: {"D": ending(0.4)}}),
    ),
    "separation/shape": (
        panels("shape", {**NARROW_FIRST, "mixed": {"D": ending(3.0)}}),
        panels("shape", {**NARROW_FIRST, "mixed": {"D": ending(0.9)}}),
    ),
    "separation/depth": (depths(6, 10, 12), depths(10, 6, 14)),
    "separation/convnets": (convnets(-0.98), convnets(-0.96)),
    "separation/resnet": (
        residual(-0.8, -0.99, [16.0, 8.0, 4.0, 3.6, 3.2]),
        residual(-0.8, -0.7, [16.0, 15.0, 8.0, 4.0, 3.9]),
    ),
    "separation/classwise": (classes(9, -0.999, 1e-15), classes(7, -0.9, 1e-6)),
    "separation/test-data": (
        {**chosen(), "tested": rows(r=-0.95, D=ending(3.0))},
        {**chosen(), "tested": rows(r=-0.999, D=ending(0.9))},
    ),
    "separation/pca": (looks([0.1, 0.2, 0.4, 0.6], [0, 1]), looks([0.1, 0.6, 0.4, 0.2], [1, 0])),
    "separation/text-encoder": (sentences(-0.5), sentences(-0.95)),
    "separation/frozen": (
        {
            "standard": chosen(r=-0.997, test_accuracy=[0.30, 0.25, 0.28]),
            "frozen": chosen(r=[-0.95, -0.97, -0.90], test_accuracy=[0.20, 0.24, 0.20]),
        },
        {
            "standard": chosen(r=[-0.95, -0.98, -0.90], test_accuracy=0.2, accuracy=0.98),
            "frozen": chosen(r=-0.99, test_accuracy=[0.30, 0.25, 0.28]),
        },
    ),
    "separation/reactivation": (
        {
            "before": chosen(r=[-0.95, -0.98, -0.9], test_accuracy=0.2),
            "after": tuned([-0.996, -0.997, -0.996], -0.99, test_accuracy=[0.2, 0.21, 0.22]),
            "standard": chosen(r=[-0.998, -0.996, -0.995]),
        },
        # Straighter only by the choice of the learning rate.
        {
            "before": chosen(r=[-0.99, -0.98, -0.98], test_accuracy=0.2),
            "after": tuned([-0.993, -0.994, -0.993], -0.97, test_accuracy=0.19),
            "standard": chosen(r=[-0.998, -0.996, -0.995]),
        },
    ),
    "separation/emergence": (
        {"networks": [history(*LATE)], "imbalanced": [history(*LATE)]},
        {
            "networks": [history(*NEVER)] * 2,
            "imbalanced": [history([0.9, -0.5, -0.9, -1], *LATE[1:], cosine=[0.9] * 4)] * 2,
        },
    ),
    "separation/performance": (tested(-1), tested(1)),
    "separation/decay-factors": (factors(1.5), factors(2.5)),
    "separation/layer-rates": (
        {"networks": [{"settled": [20, 30, 40, 50, 60, 200, 100]}] * 2},
        {"networks": [{"settled": [200, 100, 60, 50, 40, 30, 20]}] * 2},
    ),
    "separation/pretraining": (extended(-0.99, -0.99, KINKED), extended(-0.95, -0.97, STRAIGHT)),
    "separation/robustness": (
        {
            "standard": noisy([0.01, -0.02], [0.0101, -0.0201], 1.1),
            "frozen": noisy([0.02, -0.03], [0.0201, -0.0302], 1.9),
            "along": followed(1.02, 1.01, 1.005, 1.004),
        },
        {
            "standard": noisy([0.02, -0.03], [0.0201, -0.04], 1.9),
            "frozen": noisy([0.01, -0.02], [0.0101, -0.0201], 1.1),
            "along": followed(1.01, 1.01, 1.02, 1.02),
        },
    ),
    "separation/transfer": (
        shares([-0.9, -0.4, 0.05, 0.7], [0.80, 0.85, 0.86, 0.82]),
        shares([0.7, 0.05, 0.4, -0.9], [0.85, 0.80, 0.82, 0.90]),
    ),
    "separation/ablations": (
        {
            "plain": chosen(r=[-0.99, -0.985, -0.98]),
            "without BatchNorm": chosen(r=[-0.9, -0.8, -0.95]),
            "linear": chosen(r=[0.1, -0.5, 0.3], fits=False, D=[[64.0, 29.0, 30.0, 31.0]] * 3),
        },
        {
            "plain": chosen(r=[-0.99, -0.985, -0.98]),
            "without BatchNorm": chosen(r=[-0.98, -0.985, -0.97]),
            "linear": chosen(r=[-0.99, -0.98, -0.96], D=[[64.0, 32.0, 8.0, 2.0]] * 3),
        },
    ),
}  # fmt: skip
