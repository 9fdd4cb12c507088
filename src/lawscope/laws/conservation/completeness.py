"""Are the charges all there are? The rank of the Lie algebra that gradient fields generate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, jacrev, jvp, vmap
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules.conv import _ConvNd
from torch.overrides import TorchFunctionMode

from lawscope.arrays import FloatArray, IntArray
from lawscope.capture.outputs import main_tensor
from lawscope.capture.restore import unwrap
from lawscope.capture.session import Session
from lawscope.checks import checked
from lawscope.data.batches import Batch
from lawscope.data.source import as_source
from lawscope.errors import LawscopeError
from lawscope.formatting import many, number
from lawscope.laws.conservation.find import SOFTMAX, find_symmetries
from lawscope.laws.conservation.found import Symmetries
from lawscope.laws.conservation.symmetry import Symmetry
from lawscope.progress import progress
from lawscope.result import Result
from lawscope.section import Bars, Section, Table

if TYPE_CHECKING:
    import pandas as pd

MOST = 2200  # parameters: the singular values of a matrix of that size take seconds
ZERO = 1e-11  # relative singular value up to which a direction is not there
COMMUTE = 1e-10  # size of a bracket relative to its terms that is rounding
SMALL = 1e-5  # up to which it is there only just
SPARE = 10  # fields beyond the number of parameters
LEVELS = 5
DOUBLINGS = 4
POINTS = 10  # further random parameters, where charges do not explain all
CHUNK = 64  # fields at a time
CENTRED = 0.3  # of a unit's standard deviation: how far its mean is drawn from 0
CENTRED_ON = 256  # random inputs that the mean is taken of
Loss = Literal["mse", "cross-entropy"]


@dataclass(frozen=True, eq=False, repr=False)
class Completeness(Result):
    """How many functions gradient flow conserves on a block, and how many are known charges.

    Attributes:
        parameters: D, those that take gradients.
        ranks: dimension spanned by brackets of up to 1, 2, … fields.
        explained: independent charges of the symmetries found.
        inputs: random samples that the fields were made with.
        spectrum: singular values of all brackets, the largest being 1, shape (D,).
    """

    schema: ClassVar[str] = "lawscope.completeness/1"
    derived: ClassVar[tuple[str, ...]] = ("conserved", "unexplained", "complete")
    parameters: int
    ranks: IntArray
    explained: int
    inputs: int
    spectrum: FloatArray

    @property
    def conserved(self) -> int:
        """N = D − dim Lie, the number of independent conserved functions."""
        return self.parameters - int(self.ranks[-1])

    @property
    def unexplained(self) -> int:
        """How many of them no charge explains."""
        return self.conserved - self.explained

    @property
    def complete(self) -> bool:
        """Whether the charges are all there are; this is proved, as the rank is a lower bound."""
        return self.unexplained == 0

    @property
    def nearly(self) -> int:
        """Directions that are there only just: approximate laws, or bad conditioning."""
        return int(((self.spectrum > ZERO) & (self.spectrum < SMALL)).sum())

    def table(self) -> pd.DataFrame:
        """Return one row per level of brackets."""
        import pandas as pd

        levels = np.arange(1, len(self.ranks) + 1)
        return pd.DataFrame(
            {"level": levels, "rank": self.ranks, "left": self.parameters - self.ranks}
        )

    def section(self) -> Section:
        rows = [[str(value) for value in row] for row in self.table().to_numpy().tolist()]
        labels = ["conserved", "explained"]
        heights = np.array([self.conserved, self.explained], dtype=np.float64)
        notes = [str(int(height)) for height in heights]
        nearly = (
            f"{many(self.nearly, 'direction')} with a singular value below {number(SMALL)}: "
            "approximate laws, as of a norm with its ε, or bad conditioning."
        )
        return Section(
            title="Completeness of the charges",
            headline=str(self),
            facts=[many(self.parameters, "parameter"), many(self.inputs, "random input")],
            charts=[Bars("Conserved functions", labels, heights, notes)],
            tables=[Table("Brackets", ["level", "rank", "conserved"], rows, words=0, main=True)],
            warnings=[nearly] if self.nearly else [],
            papers=("conserved",),
            about=[
                "N = D − dim Lie: fields ∇⟨c, F⟩ of random c, and their brackets, span the "
                "directions in which some data set can move the parameters (Marcotte et al. 2023)."
            ],
        )

    def __str__(self) -> str:
        number_of = many(self.conserved, "conserved function")
        if self.complete:
            return f"{number_of} on {many(self.parameters, 'parameter')}: the charges are all"
        verb = "is" if self.unexplained == 1 else "are"
        return (
            f"{number_of} on {many(self.parameters, 'parameter')}: "
            f"{self.unexplained} more {verb} not explained by {many(self.explained, 'charge')}"
        )


@checked
def completeness(
    block: nn.Module,
    example: Any,
    *,
    loss: Loss = "cross-entropy",
    symmetries: Symmetries | None = None,
    seed: int = 0,
) -> Completeness:
    """Count the functions that gradient flow on a block conserves for every data set.

    N = D − dim Lie(span ∇F_i)(θ) (Marcotte, Gribonval & Peyré 2023), at random parameters of the
    block's sizes and with its outputs on random inputs as F; brackets [X, Y] = DY·X − DX·Y are
    computed in float64 until the rank leaves no room beside the known charges, or stays.

    Args:
        block: a small module, up to 2200 parameters; it is left exactly as it was.
        example: a batch, for the shapes of inputs.
        loss: "mse" takes outputs as they are, "cross-entropy" their log-softmax.
        symmetries: of the block, found before.
        seed: of parameters, inputs and fields.

    Raises:
        LawscopeError: the block is too large, or cannot be differentiated by torch.func.

    Example:
        >>> net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
        >>> print(completeness(net, torch.randn(5, 3), loss="mse"))
        4 conserved functions on 26 parameters: the charges are all
    """
    if loss not in ("mse", "cross-entropy"):
        raise LawscopeError(f"loss={loss!r} is not known; choose 'mse' or 'cross-entropy'.")
    model = unwrap(block)
    size = sum(p.numel() for p in model.parameters() if p.requires_grad)
    if not 0 < size <= MOST:
        raise LawscopeError(
            f"The block has {size} parameters that take gradients, and the rank of its Lie algebra "
            f"is computed for 1 to {MOST}; take a block of the same kind with fewer units."
        )
    found = find_symmetries(model, example) if symmetries is None else symmetries
    usable = [one for one in found.continuous if one.trainable]
    known = [one for one in usable if loss != "mse" or one.condition != SOFTMAX]
    session = Session(model, as_source(example))
    # Fused attention has no forward derivative.
    with sdpa_kernel(SDPBackend.MATH), _NormsWrittenOut():
        return session.look(lambda network, batch: _count(network, batch, loss, known, seed))


def _count(
    model: nn.Module, batch: Batch, loss: str, known: list[Symmetry], seed: int
) -> Completeness:
    generator = torch.Generator().manual_seed(seed)
    made = _settle(_Point(model, batch, loss, generator), known)
    if made.complete:
        return made
    # Where a unit is dead, or never off, more is conserved: there, not elsewhere.
    points = [_Point(model, batch, loss, generator) for _ in range(POINTS)]
    ranks = [_measure(point, known, made.inputs, levels=1).ranks[0] for point in points]
    again = _measure(points[int(np.argmax(ranks))], known, 4 * made.inputs)
    return again if again.conserved < made.conserved else made


def _settle(point: _Point, known: list[Symmetry]) -> Completeness:
    """Double the inputs until the count stays: with too few more is conserved, on those inputs."""
    made = _measure(point, known, max(8, -(-2 * point.size // point.outputs)))
    for _ in range(DOUBLINGS - 1):
        if made.complete:
            break
        before, made = made, _measure(point, known, 2 * made.inputs)
        if made.conserved == before.conserved:
            break
    return made


def _measure(
    point: _Point, known: list[Symmetry], samples: int, levels: int = LEVELS
) -> Completeness:
    explained = _rank(_slopes(known, point.point))
    ranks, spectrum = _grow(point.fields(samples), point, explained, levels)
    made = Completeness(point.size, np.array(ranks), explained, samples, spectrum)
    if made.unexplained < 0:
        raise LawscopeError(
            f"Brackets of this block leave {many(made.conserved, 'conserved function')}, and "
            f"{many(explained, 'charge')} are verified: torch's higher derivatives of one of "
            "its functions are wrong; write that function out step by step."
        )
    return made


class _Point:
    """Random parameters of a block's sizes as one vector θ, and its outputs as functions of it."""

    def __init__(
        self, model: nn.Module, batch: Batch, loss: str, generator: torch.Generator
    ) -> None:
        self.model, self.batch, self.loss, self.generator = model, batch, loss, generator
        takes = {n: p.detach() for n, p in model.named_parameters() if p.requires_grad}
        self.shapes = {name: value.shape for name, value in takes.items()}
        rest = [*model.named_parameters(), *model.named_buffers()]
        self.fixed = {n: _double(v.detach()) for n, v in rest if n not in takes}
        scales = [float(value.double().square().mean().sqrt()) or 0.5 for value in takes.values()]
        drawn = [
            scale * self.draw(value.numel())
            for scale, value in zip(scales, takes.values(), strict=True)
        ]
        self.theta = torch.cat(drawn)
        self.size = len(self.theta)
        self.point = self.unpack(self.theta)
        self._centre()
        self.outputs = self.run(self.theta, batch.map(_double)).numel() // batch.size

    def _centre(self) -> None:
        """Move biases so that units take both signs: one that is always off conserves more."""
        layers: dict[nn.Module, str] = {
            module: name
            for path, module in self.model.named_modules()
            if isinstance(module, nn.Linear | _ConvNd)
            and (name := f"{path}.bias".lstrip(".")) in self.shapes
        }

        def centre(module: nn.Module, args: Any, output: Tensor) -> Tensor | None:
            name = layers.pop(module, None)  # a layer that runs again is left as it is
            if name is None:
                return None
            units = 1 if isinstance(module, _ConvNd) else output.dim() - 1
            rows = output.detach().movedim(units, 0).flatten(1)
            shift = CENTRED * rows.std(1) * self.draw(len(rows)) - rows.mean(1)
            self.point[name] = self.point[name] + shift
            return output + shift.view([-1 if axis == units else 1 for axis in range(output.dim())])

        with ExitStack() as stack, torch.no_grad():
            for module in list(layers):
                stack.callback(module.register_forward_hook(centre).remove)
            self.run(self.theta, self.random_batch(CENTRED_ON))
        self.theta = torch.cat([value.flatten() for value in self.point.values()])

    def draw(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.generator, dtype=torch.float64)

    def unpack(self, theta: Tensor) -> dict[str, Tensor]:
        parts = theta.split([shape.numel() for shape in self.shapes.values()])
        named = zip(self.shapes.items(), parts, strict=True)
        return {name: part.reshape(shape) for (name, shape), part in named}

    def run(self, theta: Tensor, batch: Batch) -> Tensor:
        """Return F(θ) on a batch, as one vector."""
        state = {**self.unpack(theta), **self.fixed}
        output = main_tensor(functional_call(self.model, state, batch.args, batch.kwargs))
        assert output is not None
        scores = output if self.loss == "mse" else output.log_softmax(-1)
        return scores.reshape(-1)

    def random_batch(self, samples: int) -> Batch:
        """Return random inputs of the kind and shape of those that were given."""
        rows = self.batch.size

        def more(tensor: Tensor) -> Tensor:
            shape = (samples, *tensor.shape[1:])
            if tensor.is_floating_point():
                return self.draw(*shape)
            picked = torch.randint(0, len(tensor), (samples,), generator=self.generator)
            mixed = tensor[picked].flatten()
            order = torch.randperm(len(mixed), generator=self.generator)
            return mixed[order].reshape(shape)

        return self.batch.map(lambda t: more(t) if t.dim() and len(t) == rows else _double(t))

    def fields(self, samples: int) -> Callable[[Tensor, Tensor], Tensor]:
        """Return X(θ, c) = ∇⟨c, F(θ)⟩ with F on so many random inputs."""
        batch = self.random_batch(samples)
        self.count = samples * self.outputs

        def value(theta: Tensor, c: Tensor) -> Tensor:
            return self.run(theta, batch) @ c

        return grad(value)


class _NormsWrittenOut(TorchFunctionMode):
    """Compute norms step by step: of its own, torch gives wrong third derivatives (2.13)."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return _NORMS.get(func, func)(*args, **(kwargs or {}))


def _layer_norm(
    x: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    axes = tuple(range(-len(normalized_shape), 0))
    return _scale(_standardise(x, axes, eps), weight, bias, tuple(normalized_shape))


def _batch_norm(
    x: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    shape = (1, -1, *[1] * (x.dim() - 2))
    if not training and running_mean is not None and running_var is not None:
        made = (x - running_mean.view(shape)) / (running_var.view(shape) + eps).sqrt()
    else:
        made = _standardise(x, (0, *range(2, x.dim())), eps)
    return _scale(made, weight, bias, shape)


def _instance_norm(
    x: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    if not use_input_stats:
        return _batch_norm(x, running_mean, running_var, weight, bias, eps=eps)
    shape = (1, -1, *[1] * (x.dim() - 2))
    return _scale(_standardise(x, tuple(range(2, x.dim())), eps), weight, bias, shape)


def _standardise(x: Tensor, axes: tuple[int, ...], eps: float) -> Tensor:
    centred = x - x.mean(axes, keepdim=True)
    return centred / (centred.square().mean(axes, keepdim=True) + eps).sqrt()


def _scale(x: Tensor, weight: Tensor | None, bias: Tensor | None, shape: tuple[int, ...]) -> Tensor:
    scaled = x if weight is None else x * weight.view(shape)
    return scaled if bias is None else scaled + bias.view(shape)


_NORMS: dict[Any, Callable[..., Tensor]] = {
    functional.layer_norm: _layer_norm,
    functional.batch_norm: _batch_norm,
    functional.instance_norm: _instance_norm,
}


def _grow(
    field: Callable[[Tensor, Tensor], Tensor],
    point: _Point,
    explained: int,
    levels: int,
) -> tuple[list[int], FloatArray]:
    """Return the rank of brackets of up to 1, 2, … fields, and the last spectrum."""
    rows, ranks = torch.zeros(0, point.size, dtype=torch.float64), list[int]()
    spectrum = torch.zeros(0)
    for level in range(1, levels + 1):
        shape = (point.size + SPARE, level, point.count)
        c = point.draw(*shape)
        nested = vmap(lambda each: _nest(field, point.theta, each))
        parts: list[tuple[Tensor, Tensor]] = []
        try:
            with progress(f"brackets of {many(level, 'field')}", len(c), unit="bracket") as advance:
                for some in c.split(CHUNK):
                    parts.append(nested(some))
                    advance(len(some))
        except (RuntimeError, NotImplementedError) as error:
            said = str(error).split("\n")[0][:200]
            raise LawscopeError(
                f"torch.func cannot differentiate this block twice ({said}); take a block without "
                "in-place or fused operations."
            ) from error
        made, terms = map(torch.cat, zip(*parts, strict=True))
        # Where two fields commute, their bracket is rounding, and brackets of it are too.
        sizes = made.norm(dim=1)
        real = sizes > COMMUTE * terms
        if not bool(real.any()):
            break
        rows = torch.cat([rows, made[real] / sizes[real, None]])
        spectrum = torch.linalg.svdvals(rows)
        ranks.append(int((spectrum > ZERO * spectrum[:1]).sum()))
        stays = len(ranks) > 2 and ranks[-1] == ranks[-3]
        if ranks[-1] >= point.size - explained or stays:
            break
    ranks = ranks or [0]  # nothing moves the parameters
    relative = (spectrum / spectrum[:1]).numpy()
    return ranks, np.pad(relative, (0, max(0, point.size - len(relative))))


def _nest(
    field: Callable[[Tensor, Tensor], Tensor], theta: Tensor, c: Tensor
) -> tuple[Tensor, Tensor]:
    """Return [X₁, [X₂, … X_k]] at θ, with a row of c for each field, and the size of its terms.

    The terms of a bracket within count too: of fields that commute it is rounding, whose size
    relative to its own terms says nothing.
    """
    if len(c) == 1:
        made = field(theta, c[0])
        return made, made.norm()

    def outer(at: Tensor) -> Tensor:
        return field(at, c[0])

    def inner(at: Tensor) -> tuple[Tensor, Tensor]:
        return _nest(field, at, c[1:])

    # Torch's stub leaves out the third value, which has_aux= adds.
    within, along, terms = jvp(  # type: ignore[misc]
        inner, (theta,), (outer(theta),), has_aux=True
    )
    against = jvp(outer, (theta,), (within,))[1]
    cancelled = (terms / within.norm()).clamp_min(1)
    return along - against, (along.norm() + against.norm()) * cancelled


def _slopes(known: list[Symmetry], point: dict[str, Tensor]) -> Tensor:
    """Return the Jacobian of all charges, one row each."""
    size = sum(value.numel() for value in point.values())
    rows = [torch.zeros(0, size, dtype=torch.float64)]
    for one in known:
        slopes = jacrev(one.charge)(point)
        count = one.charge(point).numel()
        rows.append(torch.cat([slopes[name].reshape(count, -1) for name in point], 1))
    return torch.cat(rows)


def _rank(rows: Tensor) -> int:
    if not len(rows):
        return 0
    sizes = rows.norm(dim=1, keepdim=True)
    kept = rows[sizes[:, 0] > 0] / sizes[sizes[:, 0] > 0]
    spectrum = torch.linalg.svdvals(kept)
    return int((spectrum > 1e-9 * spectrum[:1]).sum())


def _double(tensor: Tensor) -> Tensor:
    return tensor.double() if tensor.is_floating_point() else tensor
