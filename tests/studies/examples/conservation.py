"""Made-up numbers of the studies of conservation laws: (all claims hold, none does)."""

SGD, GD = "SGD", "GD"
NETWORKS = ("MLP", "residual network", "attention")


def followed(fine, noisy, error):
    """Drifts of gradient descent with a tenth of the rate and of SGD, in those of GD."""
    drifts = {"GD": 0.01, "GD, η/10": 0.01 * fine, "SGD": 0.01 * noisy, "Adam": 0.3}
    drifts["Adam, η/10"] = 0.3
    rows = [
        {"network": network, "how": how, "seed": 0, "drift": drift, "charges": 4}
        | {"error": None if "Adam" in how else error}
        for network in NETWORKS
        for how, drift in drifts.items()
    ]
    return {"rows": rows, "blocks": [{"block": "linear", "plain": 3, "skip": 3}]}


def met(sgd, gd):
    """The charges at which SGD and gradient descent end, from starts at −4 and 4; C* is 1."""
    rows = [
        {"problem": "(uwx − y)²", "how": how, "seed": 0, "star": 1.0, "size": [5.0, 5.0]}
        | {"charges": [[-4.0], [4.0]], "end": end}
        for how, end in ((SGD, sgd), (GD, gd))
    ]
    return {"rows": rows}


def layered(end, plain, roundness, alignment):
    predicted = [0.8, 2.6, 2.6, 0.6]
    rows = [
        {"dataset": dataset, "how": how, "seed": 0, "end": end, "predicted": predicted}
        | {"plain": plain, "roundness": roundness, "alignment": alignment}
        | {"carried": 9.0, "error": 0.1}
        for dataset in ("mnist", "fashion-mnist-10x10")
        for how in ("equal norms", "random norms")
    ]
    return {"rows": rows}


def warmed(at_once, warmed_up, kaiming, gd):
    """S begins at 1000, from Xavier at 110, and is 100 at the equilibrium."""
    runs = [
        (SGD, "Kaiming", "0.001", 1.0, kaiming),
        (SGD, "Kaiming", "0.008 at once", at_once, 100.0),
        (SGD, "Kaiming", "0.008 after 5000 steps at 0.001", warmed_up, 100.0),
        (SGD, "Xavier", "0.001", 1.0, kaiming),
        (GD, "Kaiming", "0.001", 1.0, gd),
        (GD, "Xavier", "0.001", 1.0, 110.0),
    ]
    names = ("how", "start", "rate", "finite", "end")
    first = {"Kaiming": 1000.0, "Xavier": 110.0}
    rows = [dict(zip(names, run, strict=True)) | {"seed": 0, "S": [first[run[1]]]} for run in runs]
    return {"rows": rows, "star": 100.0}


def sharpened(up, down):
    common = {"inputs": "equal inputs", "noise": "equal noise", "seed": 0, "largest": 1.0}
    rows = [
        {"start": "flattest", "trace": up, "trace_predicted": 1.5, "largest_predicted": 1.0},
        {"start": "u large", "trace": down, "trace_predicted": 0.5, "largest_predicted": 1.0},
    ]
    return {"rows": [common | row for row in rows]}


def aligned(sgd, gd):
    rows = [
        {"kind": kind, "how": how, "seed": 0, "alignment": value, "centred": value, "distance": 0.1}
        for kind in ("tanh", "linear", "ReLU", "SiLU")
        for how, value in ((SGD, sgd), (GD, gd))
    ]
    return {"rows": rows}


def grown(ratio):
    hows = (SGD, "SGD with decay", GD)
    layers = [{"layer": "layer 1", "seed": 0, "ratio": 1.1}]
    return {"vectors": [{"how": how, "seed": 0, "ratio": ratio} for how in hows], "layers": layers}


EXAMPLES = {
    "conservation/charges": (followed(0.1, 9.0, 1e-15), followed(1.0, 1.1, 1e-6)),
    "conservation/equilibrium": (met([1.0, 1.1], [-3.9, 3.9]), met([-2.0, 3.0], [0.5, 1.0])),
    "conservation/deep-linear": (
        layered([0.8, 2.6, 2.65, 0.6], [4.4, 2.6, 2.6, 2.9], 0.05, 0.99),
        layered([0.8, 2.0, 3.1, 0.6], [2.6, 2.6, 2.6, 2.6], 0.5, 0.5),
    ),
    "conservation/warm-up": (warmed(0.0, 1.0, 101.0, 950.0), warmed(1.0, 0.0, 900.0, 100.0)),
    "conservation/sharpness": (sharpened(1.48, 0.51), sharpened(0.9, 1.2)),
    "conservation/features": (aligned(0.9, 0.5), aligned(0.5, 0.5)),
    "conservation/scale-invariance": (grown(1.01), grown(1.3)),
}
