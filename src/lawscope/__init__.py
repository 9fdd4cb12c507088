"""lawscope: measure the laws of deep learning on your own networks.

>>> import lawscope as ls
>>> import torch
>>> features = torch.tensor([[0.0], [2.0], [10.0], [12.0]])
>>> round(ls.fuzziness(features, torch.tensor([0, 0, 1, 1])), 6)
0.04
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from lawscope import studies as studies
    from lawscope.capture.discover import stations as stations
    from lawscope.errors import LawscopeError as LawscopeError
    from lawscope.errors import LawscopeWarning as LawscopeWarning
    from lawscope.laws.collapse import collapse as collapse
    from lawscope.laws.collapse_result import Collapse as Collapse
    from lawscope.laws.line import LineFit as LineFit
    from lawscope.laws.next_token import next_token as next_token
    from lawscope.laws.next_token_observer import NextTokenObserver as NextTokenObserver
    from lawscope.laws.next_token_result import NextToken as NextToken
    from lawscope.laws.report import Report as Report
    from lawscope.laws.scan import scan as scan
    from lawscope.laws.separation import separation as separation
    from lawscope.laws.separation_result import Separation as Separation
    from lawscope.laws.stop_when_law_holds import StopWhenLawHolds as StopWhenLawHolds
    from lawscope.laws.transfer_balance import TransferBalance as TransferBalance
    from lawscope.laws.transfer_balance import transfer_balance as transfer_balance
    from lawscope.papers import citation as citation
    from lawscope.statistics.class_scatter import ClassScatter as ClassScatter
    from lawscope.statistics.fuzziness import fuzziness as fuzziness
    from lawscope.statistics.prediction_residual import prediction_residual as prediction_residual
    from lawscope.studies.advise_depth import advise_depth as advise_depth
    from lawscope.studies.depth_advice import DepthAdvice as DepthAdvice
    from lawscope.theory.layer_peeled.collapse_report import CollapseReport as CollapseReport
    from lawscope.theory.layer_peeled.collapse_report import collapse_report as collapse_report
    from lawscope.theory.layer_peeled.layers import peel_layers as peel_layers
    from lawscope.theory.layer_peeled.local import LocalPeeled as LocalPeeled
    from lawscope.theory.layer_peeled.peel import peel as peel
    from lawscope.theory.layer_peeled.peeled import Peeled as Peeled
    from lawscope.theory.layer_peeled.q_norm import peel_q_norm as peel_q_norm
    from lawscope.theory.layer_peeled.sweep import peel_sweep as peel_sweep
    from lawscope.theory.layer_peeled.threshold import collapse_threshold as collapse_threshold
    from lawscope.training.fixed_classifier import FixedClassifier as FixedClassifier
    from lawscope.training.fixed_classifier import fix_classifier as fix_classifier
    from lawscope.training.oversampling import OversamplingPlan as OversamplingPlan
    from lawscope.training.oversampling import oversampling_weights as oversampling_weights

# The public list: where each name lives. Imported on first use, so that `import lawscope` and
# `lawscope --help` do not wait for torch.
_HOMES = {
    "ClassScatter": "lawscope.statistics.class_scatter",
    "Collapse": "lawscope.laws.collapse_result",
    "CollapseReport": "lawscope.theory.layer_peeled.collapse_report",
    "DepthAdvice": "lawscope.studies.depth_advice",
    "FixedClassifier": "lawscope.training.fixed_classifier",
    "LawscopeError": "lawscope.errors",
    "LawscopeWarning": "lawscope.errors",
    "LineFit": "lawscope.laws.line",
    "LocalPeeled": "lawscope.theory.layer_peeled.local",
    "NextToken": "lawscope.laws.next_token_result",
    "NextTokenObserver": "lawscope.laws.next_token_observer",
    "OversamplingPlan": "lawscope.training.oversampling",
    "Peeled": "lawscope.theory.layer_peeled.peeled",
    "Report": "lawscope.laws.report",
    "Separation": "lawscope.laws.separation_result",
    "StopWhenLawHolds": "lawscope.laws.stop_when_law_holds",
    "TransferBalance": "lawscope.laws.transfer_balance",
    "advise_depth": "lawscope.studies.advise_depth",
    "citation": "lawscope.papers",
    "collapse": "lawscope.laws.collapse",
    "collapse_report": "lawscope.theory.layer_peeled.collapse_report",
    "collapse_threshold": "lawscope.theory.layer_peeled.threshold",
    "fix_classifier": "lawscope.training.fixed_classifier",
    "fuzziness": "lawscope.statistics.fuzziness",
    "next_token": "lawscope.laws.next_token",
    "oversampling_weights": "lawscope.training.oversampling",
    "peel": "lawscope.theory.layer_peeled.peel",
    "peel_layers": "lawscope.theory.layer_peeled.layers",
    "peel_q_norm": "lawscope.theory.layer_peeled.q_norm",
    "peel_sweep": "lawscope.theory.layer_peeled.sweep",
    "prediction_residual": "lawscope.statistics.prediction_residual",
    "scan": "lawscope.laws.scan",
    "separation": "lawscope.laws.separation",
    "stations": "lawscope.capture.discover",
    "studies": "lawscope.studies",
    "transfer_balance": "lawscope.laws.transfer_balance",
}

__all__ = [
    "ClassScatter",
    "Collapse",
    "CollapseReport",
    "DepthAdvice",
    "FixedClassifier",
    "LawscopeError",
    "LawscopeWarning",
    "LineFit",
    "LocalPeeled",
    "NextToken",
    "NextTokenObserver",
    "OversamplingPlan",
    "Peeled",
    "Report",
    "Separation",
    "StopWhenLawHolds",
    "TransferBalance",
    "__version__",
    "advise_depth",
    "citation",
    "collapse",
    "collapse_report",
    "collapse_threshold",
    "fix_classifier",
    "fuzziness",
    "next_token",
    "oversampling_weights",
    "peel",
    "peel_layers",
    "peel_q_norm",
    "peel_sweep",
    "prediction_residual",
    "scan",
    "separation",
    "stations",
    "studies",
    "transfer_balance",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'lawscope' has no attribute {name!r}")
    home = import_module(_HOMES[name])
    value = home if home.__name__ == f"lawscope.{name}" else getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, for completion."""
    return sorted(__all__)
