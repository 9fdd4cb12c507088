"""Studies: a paper's figures and claims, each by one command.

>>> import lawscope as ls
>>> result = ls.studies.run("separation/depth", preset="cpu")  # doctest: +SKIP
>>> result.verdicts, result.table(), result.plot()  # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lawscope.studies.registry import families as families
    from lawscope.studies.registry import names as names
    from lawscope.studies.result import StudyResult as StudyResult
    from lawscope.studies.result import load as load
    from lawscope.studies.runner import run as run
    from lawscope.studies.runner import run_many as run_many

# Imported on first use: nothing here may wait for torch.
_HOMES = {
    "StudyResult": "lawscope.studies.result",
    "families": "lawscope.studies.registry",
    "load": "lawscope.studies.result",
    "names": "lawscope.studies.registry",
    "run": "lawscope.studies.runner",
    "run_many": "lawscope.studies.runner",
}

__all__ = ["StudyResult", "families", "load", "names", "run", "run_many"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'lawscope.studies' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value
