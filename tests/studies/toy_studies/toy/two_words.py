"""The networks of ``toy/quick`` and one more: what both need is trained once."""

from dataclasses import replace

from toy_studies.toy import quick


def plan(settings):
    return [*quick.plan(settings), quick.network(4, 1e-3, settings["epochs"])]


def measure(lab):
    return {"loss": [lab.run(training).loss for training in plan(lab.settings)], "D": [1.0]}


STUDY = replace(quick.STUDY, title="Shares networks", plan=plan, measure=measure)
