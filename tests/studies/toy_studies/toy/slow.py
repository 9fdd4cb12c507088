"""Six stacks that take a while: long enough to be killed in the middle."""

from dataclasses import replace

from lawscope.studies.datasets import ImageData
from toy_studies.toy import quick


def plan(settings):
    data = ImageData(per_class=20)
    return [
        replace(quick.network(depth, lr, settings["epochs"]), data=data)
        for depth in range(3, 9)
        for lr in settings["rates"]
    ]


def measure(lab):
    return {"loss": [lab.run(training).loss for training in plan(lab.settings)], "D": [1.0]}


SETTINGS = {"rates": [1e-3, 1e-2], "epochs": 20, "seeds": 1}
STUDY = replace(
    quick.STUDY,
    title="Slower networks",
    settings={
        "smoke": SETTINGS,
        "cpu": {**SETTINGS, "epochs": 150},
        "paper": {**SETTINGS, "epochs": 240},
    },
    plan=plan,
    measure=measure,
)
