"""Studies: a paper's figures and claims, each by one command.

>>> import lawscope as ls
>>> result = ls.studies.run("separation/depth", preset="cpu")  # doctest: +SKIP
>>> result.verdicts, result.table(), result.plot()  # doctest: +SKIP
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
