"""lawscope: measure the laws of deep learning on your own networks.

The public names are listed in ``__init__.pyi``, once for type checkers and for importing on first
use, so that ``import lawscope`` and ``lawscope --help`` do not wait for torch.

>>> import lawscope as ls
>>> import torch
>>> features = torch.tensor([[0.0], [2.0], [10.0], [12.0]])
>>> round(ls.fuzziness(features, torch.tensor([0, 0, 1, 1])), 6)
0.04
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
