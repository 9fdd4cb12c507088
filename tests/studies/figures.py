"""What every figure of a study must have."""

import re

from matplotlib.text import Text

VERDICT = "the law (holds|does not hold)|it cannot be told|shown|not tried|no line|diverged"


def carries_verdict(figure):
    """Whether a verdict, ours, stands somewhere in the figure."""
    words = " ".join(text.get_text() for text in figure.findobj(Text))
    return re.search(VERDICT, words) is not None
