"""What goes wrong in words a person can act on."""

from __future__ import annotations


class LawscopeError(ValueError):
    """A mistake in what was asked for or handed over: one sentence with the remedy.

    The command line prints the sentence and exits with code 2; ``--debug`` shows the traceback.
    """


class LawscopeWarning(UserWarning):
    """A result was computed, and something about it deserves a look."""
