"""The Layer-Peeled Model: the theorems and figures of Fang et al. 2021."""

from typing import TYPE_CHECKING, Any

# What studies name in annotations alone: a listing must not wait for torch and matplotlib.
if TYPE_CHECKING:
    from matplotlib.figure import Figure as Figure

    from lawscope.studies.lab import Lab as Lab
else:
    Figure = Lab = Any
