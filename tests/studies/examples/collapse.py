"""Made-up numbers of the studies of collapse: (all claims hold, none does)."""

from lawscope.studies.collapse import terminal


def nets(seeds=3, **numbers):
    return [{"seed": seed, "accuracy": 1.0, **numbers} for seed in range(seeds)]


def panel(cosines, predictions, accuracies, among=(0.9, 0.5, 0.25), majority=5):
    rows = zip([1, 10, 100], cosines, predictions, accuracies, among, strict=True)
    points = [
        {
            "ratio": ratio,
            "networks": nets(
                cosine=cosine, predicted_centred=predicted, minority_accuracy=accuracy,
                majority_accuracy=0.9, among_minority_accuracy=one_of_them,
                class_accuracy=[0.9] * majority + [0.0] * (10 - majority),
            ),
        }
        for ratio, cosine, predicted, accuracy, one_of_them in rows
    ]  # fmt: skip
    return {"network": "MLP", "majority": majority, "points": points}


def rates(cosines, minority_accuracies, accuracies):
    rows = zip([1, 10, 100], cosines, minority_accuracies, accuracies, strict=True)
    points = [
        {
            "rate": rate,
            "networks": nets(cosine=cosine, minority_accuracy=rare, test_accuracy=accuracy),
        }
        for rate, cosine, rare, accuracy in rows
    ]
    return {"network": "MLP", "majority": 5, "points": points}


def ways(**fixed):
    usual = {"mean_cosine": 0.5, "minority_accuracy": 0.2, "test_accuracy": 0.5}
    found = {"plain": nets(**usual), "oversampled": nets(**usual), "fixed": nets(**usual | fixed)}
    return {"network": "MLP", "majority": 5, "ways": found}


def history(verdict, accuracy=1.0):
    measures = [dict.fromkeys(terminal.MEASURES, value) for value in (9.0, 0.1)]
    verdicts = zip([0, 350], ["does not hold", verdict], measures, strict=True)
    rows = [{"epoch": epoch, "verdict": said, **values} for epoch, said, values in verdicts]
    return {"seed": 0, "accuracy": accuracy, "history": rows}


def decays(*energies):
    rows = zip([1e-4, 1e-3, 1e-2], energies, strict=True)
    points = [
        {"decay": decay, "weight_energy": e, "feature_energy": 2 * e, "threshold": 10 * e}
        for decay, e in rows
    ]
    return {"networks": [{"seed": seed, "points": points} for seed in range(3)]}


EXAMPLES = {
    "collapse/terminal": (
        {"networks": [history("holds")] * 2},
        {"networks": [history("does not hold"), history("holds", accuracy=0.9)]},
    ),
    "collapse/energies": (decays(3.0, 2.0, 1.0), decays(1.0, 3.0, 2.0)),
    "collapse/minority": (
        {
            "panels": [
                panel([-0.1, 0.3, 0.97], [-0.11, 0.2, 1.0], [0.8, 0.5, 0.05]),
                panel([-0.1, 0.1, 0.3], [-0.11, 0.0, None], [0.8, 0.5, 0.3], majority=3),
            ]
        },
        {
            "panels": [
                panel([-0.1, 0.3, 0.97], [-0.1, 0.3, 1.0], [0.8, 0.5, 0.0]),
                panel([0.9, 0.2, 0.1], [-0.1, 0.3, 1.0], [0.8, 0.5, 0.9], majority=3),
            ]
        },
    ),
    "collapse/oversampling": (
        {"rows": [rates([0.9, 0.5, 0.1], [0.1, 0.5, 0.4], [0.4, 0.6, 0.5])]},
        {
            "rows": [
                rates([0.1, 0.5, 0.9], [0.5, 0.4, 0.3], [0.6, 0.5, 0.4]),
                rates([0.9, 0.5, 0.1], [0.1, 0.2, 0.3], [0.4, 0.5, 0.6]) | {"majority": 7},
            ]
        },
    ),
    "collapse/fixed-classifier": (
        {"rows": [ways(mean_cosine=0.1, minority_accuracy=0.3, test_accuracy=0.6)]},
        {"rows": [ways(mean_cosine=0.6, minority_accuracy=0.1, test_accuracy=0.4)]},
    ),
    "collapse/fairness": (
        {"panels": [panel([0] * 3, [0] * 3, [0.8, 0.5, 0.05])]},
        {"panels": [panel([0] * 3, [0] * 3, [0.5, 0.6, 0.7], among=(0.5, 0.5, 0.6))]},
    ),
}
