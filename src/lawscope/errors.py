"""What goes wrong in words a person can act on."""

from __future__ import annotations


class LawscopeError(ValueError):
    """A mistake in what was asked for or handed over: one sentence with the remedy.

    The command line prints the sentence and exits with code 2; ``--debug`` shows the traceback.
    """


class NotApplicableError(LawscopeError):
    """A law has no meaning for this network or data; a scan leaves it out and says why."""


class LawscopeWarning(UserWarning):
    """A result was computed, and something about it deserves a look."""
