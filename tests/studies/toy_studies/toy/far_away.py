"""A study whose dataset may be absent."""

from dataclasses import replace

from lawscope.studies.datasets import ImageData
from toy_studies.toy import quick


def plan(settings):
    return [
        replace(training, data=ImageData("mnist", size=10)) for training in quick.plan(settings)
    ]


STUDY = replace(quick.STUDY, title="Needs MNIST", plan=plan)
