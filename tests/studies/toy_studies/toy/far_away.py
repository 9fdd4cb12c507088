"""A study whose dataset may be absent."""

from dataclasses import replace

from lawscope.studies.plan import Data
from toy_studies.toy import quick


def plan(settings):
    return [replace(training, data=Data("mnist", size=10)) for training in quick.plan(settings)]


STUDY = replace(quick.STUDY, title="Needs MNIST", plan=plan)
