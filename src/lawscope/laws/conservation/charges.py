"""Noether charges: what gradient flow conserves for every continuous symmetry of a network."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import nn

from lawscope.arrays import FloatArray
from lawscope.capture.restore import Mode, unwrap
from lawscope.checks import checked
from lawscope.errors import LawscopeError
from lawscope.formatting import many, number
from lawscope.laws.conservation.find import find_symmetries
from lawscope.laws.conservation.found import Symmetries
from lawscope.laws.conservation.symmetry import Kind
from lawscope.result import Result
from lawscope.section import Bars, Section, Table

if TYPE_CHECKING:
    import pandas as pd

EXAMPLES = 4  # samples that symmetries are found with when none are given
FORMULAS: dict[str, str] = {
    "rescaling": "Σ|w_in|² + b² − Σ|w_out|² per unit",
    "double rotation": "W Wᵀ − UᵀU",
    "scale invariance": "|w|²",
    "translation": "Σ w over what moves together, less what moves the other way",
}


@dataclass(frozen=True, eq=False)
class Charge:
    """The charge of one symmetry.

    Attributes:
        kind: of the symmetry.
        where: between which layers.
        values: shape (units,), or (units, units) for a double rotation.
        size: |θ|² of the parameters in it, to compare with.
        parameters: their names.
        condition: of the symmetry.
        conserved: whether gradient flow conserves it: all parameters take gradients.
    """

    kind: Kind
    where: str
    values: FloatArray
    size: float
    parameters: tuple[str, ...]
    condition: str = ""
    conserved: bool = True

    @property
    def numbers(self) -> int:
        """How many numbers it is; a symmetric matrix is its diagonal and one side of it."""
        size = self.values.size
        return size if self.values.ndim < 2 else (size + len(self.values)) // 2


@dataclass(frozen=True, eq=False, repr=False)
class Charges(Result):
    """The charges of a network, one for every continuous symmetry.

    Attributes:
        charges: in the order the data meets the layers.
        mode: in which the symmetries were verified.
    """

    schema: ClassVar[str] = "lawscope.charges/1"
    charges: tuple[Charge, ...]
    mode: str

    def __len__(self) -> int:
        return len(self.charges)

    def table(self) -> pd.DataFrame:
        """Return one row per symmetry: how many numbers, their mean size and largest."""
        import pandas as pd

        return pd.DataFrame(
            {
                "kind": [one.kind for one in self.charges],
                "where": [one.where for one in self.charges],
                "numbers": [one.numbers for one in self.charges],
                "rms": [_rms(one) for one in self.charges],
                "largest": [float(np.abs(one.values).max()) for one in self.charges],
                "size": [one.size for one in self.charges],
                "conserved": [one.conserved for one in self.charges],
                "condition": [one.condition for one in self.charges],
            }
        )

    def section(self) -> Section:
        rows = [
            [one.kind, one.where, str(one.numbers), number(_rms(one)), number(one.size)]
            for one in self.charges
        ]
        kinds = dict.fromkeys(one.kind for one in self.charges)
        heights = np.array([_rms(one) for one in self.charges])
        labels = [one.where for one in self.charges]
        details = [one.kind for one in self.charges]
        bars = Bars("Charges, root mean square", labels, heights, details=details)
        columns = ["kind", "where", "numbers", "rms", "|θ|²"]
        table = Table("Charges", columns, rows, words=2, main=True)
        return Section(
            title="Noether charges",
            headline=str(self),
            charts=[bars] if rows else [],
            tables=[table] if rows else [],
            findings=[
                f"The charge of {one.where} is not conserved: a part is frozen."
                for one in self.charges
                if not one.conserved
            ],
            papers=("conserved", "neural_mechanics"),
            about=[f"{kind.capitalize()}: C = {FORMULAS[kind]}." for kind in kinds],
        )

    def __str__(self) -> str:
        numbers = sum(one.numbers for one in self.charges)
        if not self.charges:
            return "no continuous symmetry, and so no charge"
        frozen = sum(not one.conserved for one in self.charges)
        note = f", {frozen} of them not conserved, since a part is frozen" if frozen else ""
        return f"{many(len(self.charges), 'charge')} with {many(numbers, 'number')}{note}"


def _rms(charge: Charge) -> float:
    return float(np.sqrt(np.mean(charge.values**2)))


@checked
def charges(
    model: nn.Module,
    example: Any = None,
    *,
    symmetries: Symmetries | None = None,
    mode: Mode = "eval",
) -> Charges:
    """Compute the Noether charge of every continuous symmetry of a network.

    θᵀA∇ℓ = 0 for every sample makes C = θᵀAθ constant under gradient flow: |w_in|² + b² − |w_out|²
    of a ReLU unit, W Wᵀ − UᵀU of two linear maps in a row, |w|² in front of a norm, Σ w over the
    classes of a softmax head (Kunin et al. 2021; Marcotte et al. 2023).

    Args:
        model: any module; it is left exactly as it was.
        example: a batch to find symmetries with, see :func:`find_symmetries`. It may be left out
            for a network of Hugging Face, or one that begins with a linear layer.
        symmetries: of this network, found before; then no example is needed.
        mode: in which to find them.

    Example:
        >>> import torch
        >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        >>> print(charges(net))
        3 charges with 17 numbers
    """
    found = symmetries if symmetries is not None else _find(model, example, mode)
    network = unwrap(model)
    parameters = {name: value.detach() for name, value in network.named_parameters()}
    check_fits(found, parameters)
    made = []
    for one in found.continuous:
        size = sum(float(parameters[name].double().square().sum()) for name in one.parameters)
        values = one.charge(parameters).cpu().numpy()
        charge = Charge(
            one.kind, one.where, values, size, one.parameters, one.condition, one.trainable
        )
        made.append(charge)
    return Charges(tuple(made), found.mode)


def _find(model: nn.Module, example: Any, mode: Mode) -> Symmetries:
    if example is not None:
        return find_symmetries(model, example, mode=mode)
    guessed = _guess_example(unwrap(model))
    if guessed is not None:
        with suppress(LawscopeError):  # it reads something else
            return find_symmetries(model, guessed, mode=mode)
    raise LawscopeError(
        "charges needs a batch to find symmetries with, since the network does not say what it "
        "reads; pass example=, or symmetries= of ls.find_symmetries."
    )


def _guess_example(network: nn.Module) -> Any:
    """Return a batch for a network of Hugging Face, or for one that begins with a linear layer."""
    dummy = getattr(network, "dummy_inputs", None)
    if isinstance(dummy, Mapping):
        return dict(dummy)
    weights = ((module, [*module.parameters(recurse=False)]) for module in network.modules())
    first = next((module for module, own in weights if own), None)
    if not isinstance(first, nn.Linear):
        return None
    generator = torch.Generator().manual_seed(0)
    return torch.randn(EXAMPLES, first.in_features, generator=generator).to(first.weight)


def check_fits(symmetries: Symmetries, parameters: dict[str, Any]) -> None:
    """Refuse symmetries of another network."""
    if not isinstance(symmetries, Symmetries):
        raise LawscopeError(
            f"symmetries is a {type(symmetries).__name__}; give what ls.find_symmetries returned."
        )
    for one in symmetries.continuous:
        for leg in one.legs:
            value = parameters.get(leg.parameter)
            end = int(leg.index(one.units).max())
            if value is None or value.dim() <= leg.axis or value.shape[leg.axis] <= end:
                raise LawscopeError(
                    f"The symmetry {one.where} acts on {leg.parameter}, which this model does not "
                    "have in that shape; find the symmetries of this model again."
                )
