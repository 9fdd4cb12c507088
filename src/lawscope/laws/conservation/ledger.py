"""A ledger of charges: the exact recursion along training, beside the charges as measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Self
from weakref import WeakSet

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

from lawscope.arrays import FloatArray
from lawscope.capture.restore import unwrap
from lawscope.checks import checked
from lawscope.errors import LawscopeError
from lawscope.formatting import many, number
from lawscope.laws.conservation.charges import check_fits
from lawscope.laws.conservation.find import EPSILON, SOFTMAX, find_symmetries
from lawscope.laws.conservation.found import Symmetries
from lawscope.laws.conservation.symmetry import Symmetry
from lawscope.result import Result
from lawscope.section import Lines, Section, Table
from lawscope.whole_number import whole_number

if TYPE_CHECKING:
    import pandas as pd

_SEARCHED: WeakSet[nn.Module] = WeakSet()  # networks whose symmetries a ledger looks for just now
PUSHED = 1e-4  # of the gradient, along a symmetry of cross-entropy: more than rounding
ROUNDING = 1e-12  # of a ratio of learning rates
SAME = ("momentum", "dampening", "nesterov", "maximize")
DECOUPLED = (
    "{} decays weights apart from the gradient, which is not an L2 penalty: charges do not "
    "decay by (1 − ηλ)² under it, and its steps change them in the first order."
)


@dataclass(frozen=True, eq=False, repr=False)
class ChargeHistory(Result):
    """Charges along training.

    Attributes:
        steps: at which charges were measured, shape (T,).
        names: of the symmetries, N.
        drift: largest change of a charge since the start, relative to Σθ² of its parameters at
            the start (Σ|θ| for a translation), shape (T, N).
        error: largest difference of the recursion from the measured charge, relative to the same,
            shape (T, N); NaN where there is no recursion.
        tolerance: what rounding explains in the precision of the weights.
        notes: what is not kept, and why, in sentences.
        optimizer: its class.
    """

    schema: ClassVar[str] = "lawscope.charge_history/1"
    steps: FloatArray
    names: tuple[str, ...]
    drift: FloatArray
    error: FloatArray
    tolerance: float
    notes: tuple[str, ...] = ()
    optimizer: str = "SGD"

    @property
    def worst(self) -> float:
        """The largest error of all; NaN where the optimizer has no recursion."""
        known = self.error[np.isfinite(self.error)]
        return float(known.max()) if len(known) else float("nan")

    @property
    def exact(self) -> bool:
        """Whether the recursion and the measured charges agree up to rounding."""
        return self.worst <= self.tolerance and not self.diverged

    @property
    def diverged(self) -> bool:
        """Whether a charge is NaN or infinite."""
        return not np.isfinite(self.drift).all()

    def table(self) -> pd.DataFrame:
        """Return one row per symmetry: drift and error at the end, and the largest error."""
        import pandas as pd

        return pd.DataFrame(
            {
                "symmetry": list(self.names),
                "drift": self.drift[-1],
                "error": self.error[-1],
                "largest error": self.error.max(axis=0),
            }
        )

    def section(self) -> Section:
        rows = [
            [name, number(drift), number(error)]
            for name, drift, error, _ in self.table().itertuples(index=False)
        ]
        x = self.steps
        title, label = "Drift of charges", "change of C, relative to Σθ²"
        chart = Lines(title, self.names, self.drift.T, x, "step", label)
        return Section(
            title="Ledger of charges",
            headline=str(self),
            charts=[chart] if self.names else [],
            tables=[Table("Charges", ["symmetry", "drift", "error"], rows, words=1, main=True)],
            warnings=self.notes,
            papers=("conserved", "neural_mechanics"),
            about=[
                "SGD: C′ = (1 − ηλ)² C + η² gᵀAg, exactly, because θᵀAg = 0; heavy ball and "
                "Nesterov have recursions with θᵀAb beside C, b the momentum buffer.",
            ],
        )

    def __str__(self) -> str:
        kept = f"{many(len(self.names), 'charge')} over {many(int(self.steps[-1]), 'step')}"
        if self.diverged:
            return f"{kept}: training diverged, the charges are not finite"
        if not np.isfinite(self.error).any():
            largest = float(self.drift[-1].max()) if self.names else 0.0
            return f"{kept} of {self.optimizer}: drift up to {number(largest)}, no exact recursion"
        word = "agree" if self.exact else "do not agree"
        return f"{kept}: recursion and measured charges {word}, error {number(self.worst)}"


@dataclass(eq=False)
class Account:
    """One charge as the recursion has it."""

    symmetry: Symmetry
    charge: Tensor  # C, with every leg over its learning rate's ratio to the first
    start: Tensor
    scale: float  # Σθ² at the start
    ratios: tuple[float, ...]
    overlap: Tensor | float = 0.0  # M = θᵀA b
    known: bool = True  # whether there is a recursion
    drift: list[float] = field(default_factory=list)
    error: list[float] = field(default_factory=list)


class ChargeLedger:
    """Keeps the books of charges at every step of an optimizer, and compares them with the network.

    SGD, weight decay (also on some parameters only), dampening, heavy ball, Nesterov and learning
    rates per group have exact recursions; for other optimizers the drift is measured alone.

    Args:
        model: the network that is trained.
        optimizer: that steps it.
        symmetries: of the network; without them they are found at the first forward pass.
        every: after how many steps charges are measured.

    Raises:
        LawscopeError: the optimizer owns none of the network's parameters.

    Example:
        >>> net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).double()
        >>> x = torch.randn(5, 4, dtype=torch.float64)
        >>> optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        >>> with ChargeLedger(net, optimizer, every=1) as ledger:
        ...     for _ in range(3):
        ...         optimizer.zero_grad()
        ...         nn.functional.cross_entropy(net(x), torch.tensor([0, 1, 0, 1, 0])).backward()
        ...         optimizer.step()
        >>> ledger.history().exact
        True
    """

    @checked
    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        *,
        symmetries: Symmetries | None = None,
        every: int = 10,
    ) -> None:
        self.model = unwrap(model)
        if not isinstance(optimizer, Optimizer):
            raise LawscopeError(
                f"optimizer is a {type(optimizer).__name__}; give a torch.optim.Optimizer."
            )
        self.optimizer = optimizer
        self.every = whole_number("every", every, 1, "is not a number of steps")
        self.parameters = dict(self.model.named_parameters())
        groups = {id(p): group for group in optimizer.param_groups for p in group["params"]}
        self.owned = {n: groups[id(p)] for n, p in self.parameters.items() if id(p) in groups}
        if not self.owned:
            raise LawscopeError(
                "The optimizer owns none of the model's parameters; make it from "
                "model.parameters()."
            )
        self.step, self.measured, self.notes = 0, list[int](), list[str]()
        self.accounts: list[Account] | None = None
        self.recursive = type(optimizer) is SGD
        name = type(optimizer).__name__
        apart = any(group.get("decoupled_weight_decay") for group in optimizer.param_groups)
        if apart or isinstance(optimizer, AdamW):  # which has no such entry before torch 2.7
            self.notes.append(DECOUPLED.format(name))
        elif not self.recursive:
            self.notes.append(f"{name} has no exact recursion: the drift is measured alone.")
        if symmetries is not None:
            self._open(symmetries)
        self._entering = self.model.register_forward_pre_hook(self._enter, with_kwargs=True)
        before = optimizer.register_step_pre_hook(self._before)
        after = optimizer.register_step_post_hook(self._after)
        self._handles = [self._entering, before, after]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove every hook; what was kept stays."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def history(self) -> ChargeHistory:
        """Return the charges so far.

        Raises:
            LawscopeError: there was no step yet.
        """
        if self.accounts is None or not self.measured:
            raise LawscopeError(
                "The ledger has seen no step yet; run a forward pass and a step of its optimizer "
                f"({many(self.every, 'step')} until charges are measured)."
            )
        empty = np.zeros((len(self.measured), 0))
        kept = self.accounts
        return ChargeHistory(
            np.array(self.measured, dtype=np.float64),
            tuple(one.symmetry.name for one in kept),
            np.array([one.drift for one in kept]).T if kept else empty,
            np.array([one.error for one in kept]).T if kept else empty,
            self._tolerance(),
            tuple(self.notes),
            type(self.optimizer).__name__,
        )

    def _tolerance(self) -> float:
        double = all(p.dtype == torch.float64 for p in self.parameters.values())
        return 1e-10 if double else 1e-6

    def _enter(self, module: nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
        """Find the symmetries with the first batch; the hook is gone while that runs."""
        if module in _SEARCHED:  # by the ledger of another optimizer, which runs it for that
            return
        self._entering.remove()
        if self.accounts is not None:
            return
        if args and kwargs:
            raise LawscopeError(
                "The network takes positional and named inputs, which no example can hold; pass "
                "symmetries=ls.find_symmetries(model, example) to the ledger."
            )
        example: Any = kwargs or args[0]
        if len(args) > 1:
            example = (*args, torch.zeros(len(args[0])))
        mode = "train" if module.training else "eval"
        _SEARCHED.add(module)
        try:
            found = find_symmetries(module, example, mode=mode)  # type: ignore[arg-type]
        finally:
            _SEARCHED.discard(module)
        self._open(found)

    def _open(self, symmetries: Symmetries) -> None:
        """Begin an account for every charge that can be kept."""
        check_fits(symmetries, self.parameters)
        self.accounts = []
        values = self._values()
        for one in symmetries.continuous:
            if (why := self._refuse(one)) is not None:
                self.notes.append(f"{one.name} is not kept: {why}.")
                continue
            ratios = self._ratios(one)
            charge = self._measure(one, ratios, values)
            account = Account(one, charge, charge, _size(one, values) or 1.0, ratios)
            account.known = self.recursive and one.condition != EPSILON
            account.overlap = self._overlap(one)
            self.accounts.append(account)

    def _refuse(self, one: Symmetry) -> str | None:
        """Return why a charge is not conserved by this optimizer, if it is not."""
        if not one.trainable:
            return "a parameter of it is frozen"
        outside = [name for name in one.parameters if name not in self.owned]
        if outside:
            return f"{outside[0]} is not among the optimizer's parameters"
        groups = [self.owned[name] for name in one.parameters]
        for key in SAME if self.recursive else ():
            if len({group[key] for group in groups}) > 1:
                return f"its parameters have different {key}"
        if self.recursive and 0 < sum(group["lr"] == 0 for group in groups) < len(groups):
            return "some of its parameters have the learning rate 0"
        return None

    def _values(self) -> dict[str, Tensor]:
        return {name: value.detach() for name, value in self.parameters.items()}

    def _ratios(self, one: Symmetry) -> tuple[float, ...]:
        """Return each leg's learning rate over that of the first."""
        if not self.recursive:
            return (1.0,) * len(one.legs)
        rates = [float(self.owned[leg.parameter]["lr"]) for leg in one.legs]
        return tuple(rate / rates[0] if rate != rates[0] else 1.0 for rate in rates)

    def _measure(self, one: Symmetry, ratios: Sequence[float], values: dict[str, Tensor]) -> Tensor:
        """Return C = Σ a θ²/ρ, which is exact under learning rates ηρ; Σ a θ/ρ of a translation."""
        return one.form(values, [1 / ratio for ratio in ratios])

    def _overlap(self, one: Symmetry) -> Tensor | float:
        """Return M = θᵀA b of buffers that are there already."""
        buffers = {}
        for name in one.parameters:
            state = self.optimizer.state.get(self.parameters[name], {})
            if state.get("momentum_buffer") is None:
                return 0.0
            buffers[name] = state["momentum_buffer"]
        if one.kind == "translation":
            return one.charge(buffers)
        return one.product(self._values(), buffers, [1.0] * len(one.legs))

    def _before(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if any(callable(value) for value in (*args[1:], *kwargs.values())):
            raise LawscopeError(
                "optimizer.step(closure) computes gradients inside the step, where the ledger "
                "cannot read them; call loss.backward() and then optimizer.step()."
            )
        if self.accounts is None:
            raise LawscopeError(
                "The ledger saw no forward pass before this step; call the model itself in the "
                "training loop, or pass symmetries=ls.find_symmetries(model, example)."
            )
        if not self.recursive:
            return
        with torch.no_grad():
            moves = _Moves(self)
            for account in self.accounts:
                if account.known:
                    self._advance(account, moves)

    def _advance(self, account: Account, moves: _Moves) -> None:
        """Take one step of the recursion; θᵀAg = 0 is all it knows of the gradient."""
        one = account.symmetry
        group = self.owned[one.legs[0].parameter]
        if any(self.parameters[name].grad is None for name in one.parameters):
            return  # torch leaves such parameters alone
        rate, mu = float(group["lr"]), float(group["momentum"])
        ratios = self._ratios(one)
        pairs = zip(ratios, account.ratios, strict=True)
        if all(math.isclose(now, before, rel_tol=ROUNDING) for now, before in pairs):
            ratios = account.ratios
        else:
            account.ratios = ratios
            account.charge = self._measure(one, ratios, moves.values)
            note = f"{one.name}: ratios of learning rates changed, and C with them."
            self.notes += [note] if note not in self.notes else []
        decays = [float(self.owned[leg.parameter]["weight_decay"]) for leg in one.legs]
        plain = [1.0] * len(one.legs)
        first = self.optimizer.state.get(self.parameters[one.legs[0].parameter], {})
        damped = first.get("momentum_buffer") is not None
        tau = 1.0 - float(group["dampening"]) if damped else 1.0
        # L = θᵀAΛθ, or Σ aλθ of a translation
        even = len(set(decays)) == 1 and ratios == tuple(plain)
        if even:
            decay: Tensor | float = decays[0] * account.charge
        else:
            decay = one.form(moves.values, decays) if any(decays) else 0.0
        if one.condition == SOFTMAX and self.step == 0 and self._is_pushed(one):
            account.known = False
            self.notes.append(f"{one.name} is not kept: this loss changes with it.")
            return
        if one.kind == "translation":
            self._shift(account, rate, mu, tau, decay, bool(group["nesterov"]))
            return
        if mu == 0:
            g = moves.direction(one, "gradient")
            account.charge = account.charge - 2 * rate * decay
            account.charge = account.charge + rate**2 * one.product(g, g, ratios)
            return
        b = moves.direction(one, "buffer")
        overlap = mu * account.overlap + tau * decay  # P = θᵀA b′
        if group["nesterov"]:
            d = moves.direction(one, "nesterov")
            slope, square = decay + mu * overlap, one.product(d, d, ratios)
            cross = one.product(d, b, ratios)
        else:
            slope, square = overlap, one.product(b, b, ratios)
            cross = square
        account.charge = account.charge - 2 * rate * slope + rate**2 * square
        account.overlap = overlap - rate * cross

    def _is_pushed(self, one: Symmetry) -> bool:
        """Return whether the gradient moves a linear charge beyond rounding."""
        gradients: dict[str, Tensor] = {}
        for name in one.parameters:
            grad = self.parameters[name].grad
            assert grad is not None
            gradients[name] = grad.detach()
        rounding = max(torch.finfo(grad.dtype).eps for grad in gradients.values())
        size = math.sqrt(sum(float(grad.double().square().sum()) for grad in gradients.values()))
        return float(one.charge(gradients).norm()) > max(PUSHED, 100 * rounding) * size

    def _shift(
        self,
        account: Account,
        rate: float,
        mu: float,
        tau: float,
        decay: Tensor | float,
        nesterov: bool,
    ) -> None:
        """Take one step of a linear charge, which needs nothing of the gradient."""
        buffer = mu * account.overlap + tau * decay
        slope = decay + mu * buffer if mu == 0 or nesterov else buffer
        account.charge = account.charge - rate * slope
        account.overlap = buffer

    def _after(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        self.step += 1
        if self.step % self.every or self.accounts is None:
            return
        self.measured.append(self.step)
        values = self._values()
        for account in self.accounts:
            now = self._measure(account.symmetry, account.ratios, values)
            account.drift.append(float((now - account.start).abs().max()) / account.scale)
            away = float((now - account.charge).abs().max()) / account.scale
            account.error.append(away if account.known else float("nan"))


def _size(one: Symmetry, values: dict[str, Tensor]) -> float:
    """Return how large a charge could be: Σθ², and Σ|θ| of a linear one."""
    found = (values[name].double().abs() for name in one.parameters)
    return sum(float((v if one.kind == "translation" else v**2).sum()) for v in found)


class _Moves:
    """What the optimizer is about to do with each parameter, as torch's SGD does it."""

    def __init__(self, ledger: ChargeLedger) -> None:
        self.ledger, self.values = ledger, ledger._values()
        self.made: dict[tuple[str, str], Tensor] = {}

    def direction(self, one: Symmetry, what: str) -> dict[str, Tensor]:
        """Return g + λθ, the next momentum buffer, or Nesterov's direction."""
        return {name: self._of(name, what) for name in one.parameters}

    def _of(self, name: str, what: str) -> Tensor:
        if (name, what) not in self.made:
            self.made[name, what] = getattr(self, f"_{what}")(name)
        return self.made[name, what]

    def _gradient(self, name: str) -> Tensor:
        group, grad = self.ledger.owned[name], self.ledger.parameters[name].grad
        assert grad is not None
        grad = grad.to_dense() if grad.is_sparse else grad.detach()
        grad = -grad if group["maximize"] else grad
        decay = float(group["weight_decay"])
        return grad.add(self.values[name], alpha=decay) if decay else grad

    def _buffer(self, name: str) -> Tensor:
        group, grad = self.ledger.owned[name], self._of(name, "gradient")
        state = self.ledger.optimizer.state.get(self.ledger.parameters[name], {})
        buffer = state.get("momentum_buffer")
        if buffer is None:
            return grad
        tau = 1.0 - float(group["dampening"])
        return torch.add(buffer * float(group["momentum"]), grad, alpha=tau)

    def _nesterov(self, name: str) -> Tensor:
        momentum = float(self.ledger.owned[name]["momentum"])
        return torch.add(self._of(name, "gradient"), self._of(name, "buffer"), alpha=momentum)
