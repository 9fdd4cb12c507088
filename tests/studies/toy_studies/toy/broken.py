"""A study whose measurement raises."""

from dataclasses import replace

from toy_studies.toy import quick


def measure(lab):
    raise ZeroDivisionError("nothing to divide by")


STUDY = replace(quick.STUDY, title="Cannot be measured", measure=measure)
