"""Heavy packages, imported at their first use: a listing or ``--help`` waits for none of them.

>>> from lawscope.lazy import np
>>> float(np.sqrt(4))
2.0
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    import torch
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from torch import Tensor, nn
else:

    class _Lazy(ModuleType):
        def __getattr__(self, name: str) -> Any:
            value = getattr(import_module(self.__name__), name)
            setattr(self, name, value)
            return value

        def __reduce__(self) -> tuple[Any, ...]:
            return import_module, (self.__name__,)

    np, pd, torch, nn = map(_Lazy, ("numpy", "pandas", "torch", "torch.nn"))
    # In annotations alone.
    Axes = Figure = Tensor = Any

__all__ = ["Axes", "Figure", "Tensor", "nn", "np", "pd", "torch"]
