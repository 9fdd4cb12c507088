"""One network that is soon there and one that never is: to be stopped in the middle."""

from dataclasses import replace

from toy_studies.toy import quick


def plan(settings):
    return [quick.network(3, 1e-3, settings["epochs"]), quick.network(4, 1e-3, 10**7)]


STUDY = replace(quick.STUDY, title="Never ends", plan=plan)
