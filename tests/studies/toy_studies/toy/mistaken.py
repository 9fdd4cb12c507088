"""A study that asks for one network which cannot be built."""

from dataclasses import replace

from toy_studies.toy import quick


def plan(settings):
    good = quick.network(3, 1e-3, settings["epochs"])
    return [good, quick.network(1, 1e-3, settings["epochs"])]


STUDY = replace(quick.STUDY, title="Cannot be trained", plan=plan)
