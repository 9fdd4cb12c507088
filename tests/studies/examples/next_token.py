"""Made-up numbers of the studies of next-token prediction: (all claims hold, none does)."""

import numpy as np

from lawscope.studies.next_token import architectures, law
from lawscope.studies.next_token._family import OURS


def line(slope, *, r=None, untrained=None, **more):
    pr = [1.0] + [0.9 * np.exp(slope * i) for i in range(4)]
    row = {
        "seed": 0, "pr": pr, "pr_cv": pr, "pr_onehot": pr, "slope": slope, "rho": np.exp(slope),
        "r": float(np.sign(slope)) if r is None else r, "control": None, **more,
        "interval": {"slope": [slope - 1e-3, slope + 1e-3]},
    }  # fmt: skip
    return row if untrained is None else {**row, "control": line(untrained)}


def along(*slopes):
    return {"seed": 0, "history": [{"step": i, **line(slope)} for i, slope in enumerate(slopes)]}


def shuffled(slope, apart):
    """Twenty shuffles around a line, and one-hot PR ``apart`` from their mean."""
    rows = [[0.9 + sign, *(p + sign for p in line(slope)["pr"][1:])] for sign in (-0.01, 0.01)] * 10
    mean = (np.mean(rows, axis=0) + apart).tolist()
    return {**line(slope), "pr_onehot": mean, "shuffled": rows, "fuzziness": [9, 8, 7, 6, 5]}


def sizes(*r):
    rows = [{**line(-0.1, r=each), "depth": i, "width": i} for i, each in enumerate(r)]
    return {"depth": rows, "width": rows}


def models(r):
    rows = {name: line(-0.01, r=r, untrained=0.01) for name in (OURS, *law.HOW, *law.HUB)}
    texts, written = {law.STORIES: law.SAMPLED}, {law.STORIES: [line(-0.01, r=r)] * 3}
    return {"models": rows, "absent": {}, "texts": texts, "written": written}


def targets(following, current):
    return {"networks": [{"targets": {"next": line(following), "current": line(current)}}]}


def styles(*slopes):
    rows = {s: line(slope, untrained=0.1) for s, slope in zip(architectures.NAMES, slopes * 6)}  # noqa: B905
    return {"styles": {style: [row] for style, row in rows.items()}}


def silhouettes(*values):
    return {"networks": [{"silhouette": values, "silhouette_in_plane": values}]}


EXAMPLES = {
    "next-token/law": (models(-0.95), models(-0.8)),
    "next-token/architectures": (styles(-0.1), styles(-0.1, 0.1)),
    "next-token/training": (
        {"networks": [along(0.01, -0.1, -0.2)]},
        {"networks": [along(-0.01, 0.1, 0.2)]},
    ),
    "next-token/model-size": (sizes(-0.95, -0.99), sizes(-0.95, -0.5)),
    "next-token/information-flow": (targets(-0.1, 0.1), targets(0.1, -0.1)),
    "next-token/vocabulary": (
        {"networks": [shuffled(-0.1, apart=0.0)]},
        {"networks": [shuffled(0.1, apart=0.1)]},
    ),
    "next-token/tasks": (
        {"masked": [line(-0.1, untrained=0.1, r=-0.95)], "masked_by_next": [line(0.1)]},
        {"masked": [line(-0.1, untrained=-0.1, r=-0.5)], "masked_by_next": [line(-0.1)]},
    ),
    "next-token/pictures": (
        silhouettes(0.3, 0.1, 0.2, 0.0),
        silhouettes(0.0, 0.1, 0.2, 0.3),
    ),
}
