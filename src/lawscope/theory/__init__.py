"""Models that predict what the measurements show. Pure numpy and scipy.

>>> import lawscope as ls
>>> ls.theory.landscapes.critical_decay("square", x=1.0, y=3.0)
6.0
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
