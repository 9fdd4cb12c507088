"""A network that only this family knows."""

from lawscope.studies.registry import NETWORKS


@NETWORKS.register("toy-linear")
def toy_linear(width=10):
    from torch import nn

    return nn.Sequential(nn.Linear(100, width))
