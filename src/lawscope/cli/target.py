"""The TARGET of a command: a file or a callable that gives a network, and weights for it."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from lawscope.data.labels import has_values
from lawscope.errors import LawscopeError
from lawscope.files import check_file, exists

# Under these names training scripts keep the weights beside the optimiser's state.
NESTED = ("state_dict", "model_state_dict", "model", "weights", "net")
PREFIXES = ("module.", "_orig_mod.", "model.")
SHOWN = 8


@dataclass
class Target:
    """What a target offers: a network, or a callable that makes it or (model, data); a loss."""

    name: str
    maker: Any
    given: Any = None
    tokenizer: Any = None
    loss: Any = None
    _first: Any = field(default=None, init=False, repr=False)

    @property
    def rebuilds(self) -> bool:
        """Whether the network is made by a callable, which may make a second, untrained one."""
        return callable(self.maker) and not isinstance(self.maker, nn.Module)

    def build(self) -> nn.Module:
        """Return the network."""
        built = _call(self.maker, self.name, "model") if self.rebuilds else self.maker
        if self._first is None:  # kept, because its data belongs to its model
            self._first = built
        model = built[0] if isinstance(built, tuple) and built else built
        if not isinstance(model, nn.Module):
            raise LawscopeError(
                f"{self.name} gives a {type(model).__name__}, not a torch.nn.Module; let it "
                "return the network, or (network, data)."
            )
        return model

    def data(self) -> Any:
        """Return the data that came along."""
        if self.given is not None:
            made = callable(self.given) and not hasattr(self.given, "__iter__")
            return _call(self.given, self.name, "data") if made else self.given
        if isinstance(self._first, tuple) and len(self._first) > 1:
            return self._first[1]
        raise LawscopeError(
            f"{self.name} gives no data; define 'data' in it, or pass --data with a data set, an "
            ".npz or a folder of images."
        )


def load_target(target: str) -> Target:
    """Read ``file.py`` or ``package.module:callable``."""
    if target.endswith(".py"):
        return _load_file(Path(target))
    module_name, colon, attribute = target.partition(":")
    if not colon and exists(Path(target) / "config.json"):
        raise LawscopeError(
            f"{target} is a Hugging Face folder; add --text FILE to measure its language model."
        )
    if not colon or not attribute:
        raise LawscopeError(
            f"'{target[:120]}' is neither a .py file nor package.module:callable; write, for "
            "example, net.py or my_project.nets:build. lawscope init writes an example."
        )
    sys.path.insert(0, str(Path.cwd()))
    with _in_its_own_words(f"{target} cannot be imported:"):
        module = importlib.import_module(module_name)
    found: Any = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
        if found is None:
            raise LawscopeError(
                f"Module {module_name} has no '{attribute}'; it has: {_list_names(module)}."
            )
    return Target(target, found)


def _load_file(path: Path) -> Target:
    check_file(path, "give a .py file that defines 'model' (lawscope init writes an example)")
    spec = importlib.util.spec_from_file_location(f"lawscope_target_{path.stem}", path)
    assert spec is not None and spec.loader is not None  # noqa: PT018
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.resolve().parent))
    with _in_its_own_words(f"{path} cannot be imported:"):
        spec.loader.exec_module(module)
    if not hasattr(module, "model"):
        raise LawscopeError(
            f"{path} does not define 'model' (a network or a function that returns one); it "
            f"defines: {_list_names(module)}."
        )
    given, tokenizer = getattr(module, "data", None), getattr(module, "tokenizer", None)
    loss = getattr(module, "loss", None)
    # A training script may leave the value of its last loss under that name.
    loss = loss if callable(loss) else None
    return Target(path.name, module.model, given, tokenizer, loss)


@contextmanager
def _in_its_own_words(what: str) -> Iterator[None]:
    """Turn what the user's code raises into a sentence that begins with ``what``."""
    try:
        yield
    except SyntaxError as error:
        raise LawscopeError(
            f"{error.filename} cannot be read: {error.msg} in line {error.lineno}."
        ) from error
    except (Exception, SystemExit) as error:
        raise LawscopeError(
            f"{what} {type(error).__name__}: {error}. --debug shows where."
        ) from error


def _call(maker: Any, name: str, what: str) -> Any:
    try:
        parameters = inspect.signature(maker).parameters.values()
    except (TypeError, ValueError) as error:
        raise LawscopeError(
            f"'{what}' of {name} is a {type(maker).__name__} that cannot be called without "
            f"arguments ({error}); give a function without arguments."
        ) from error
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [p.name for p in parameters if p.default is p.empty and p.kind in kinds]
    if needed:
        raise LawscopeError(
            f"'{what}' of {name} needs the argument(s) {', '.join(needed)}; give them defaults, or "
            "name a function without arguments."
        )
    with _in_its_own_words(f"'{what}' of {name} raised"):
        return maker()


def _list_names(module: ModuleType) -> str:
    return ", ".join([n for n in vars(module) if not n.startswith("_")][:12]) or "nothing"


def load_checkpoint(model: nn.Module, path: Path) -> None:
    """Load a ``.safetensors`` file, or a ``.pt`` file as weights only, into ``model``.

    Prefixes of wrappers (``module.``, ``_orig_mod.``) are taken off where that makes keys fit.
    """
    weights = read_weights(path)
    expected = model.state_dict()
    for prefix in PREFIXES * 2:  # wrappers may be nested
        if not set(weights) & set(expected):
            weights = {k.removeprefix(prefix): v for k, v in weights.items()}
    both = {k: (weights[k], expected[k]) for k in expected if k in weights}
    problems = {
        "missing in the file": [k for k in expected if k not in weights],
        "unknown to the network": [k for k in weights if k not in expected],
        "of another shape": [
            f"{k} is {tuple(ours.shape)} in the file, {tuple(theirs.shape)} in the network"
            for k, (ours, theirs) in both.items()
            if ours.shape != theirs.shape
        ],
        "of another kind": [
            f"{k} is {_describe_kind(ours)} in the file, {theirs.dtype} in the network"
            for k, (ours, theirs) in both.items()
            if not _is_loadable(ours, theirs)
        ],
    }
    said = ""
    for what, items in problems.items():
        more = f", and {len(items) - SHOWN} more" if len(items) > SHOWN else ""
        said += f"\n  {len(items)} {what}: {', '.join(items[:SHOWN])}{more}" if items else ""
    if said:
        raise LawscopeError(
            f"{path} does not fit the network{said}\n  Pass the checkpoint of this network, or the "
            "network of this checkpoint."
        )
    model.load_state_dict(weights)


def read_weights(path: Path) -> dict[str, Tensor]:
    """Return the named tensors of a checkpoint file; nothing in it is executed."""
    check_file(path, "check --checkpoint")
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            loaded: Any = load_file(path)
        else:
            loaded = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever a damaged file makes a reader say
        raise LawscopeError(
            f"{path} cannot be read as weights: it is truncated, another kind of file, or holds "
            "objects beside tensors, which lawscope does not execute; save model.state_dict() with "
            "torch.save or safetensors."
        ) from error
    met: set[int] = set()
    while isinstance(loaded, Mapping) and not (
        loaded and all(isinstance(k, str) and isinstance(v, Tensor) for k, v in loaded.items())
    ):
        met.add(id(loaded))
        inner = next((loaded[k] for k in NESTED if isinstance(loaded.get(k), Mapping)), None)
        if inner is None or id(inner) in met:
            raise LawscopeError(
                f"{path} holds no weights by name; its entries are: "
                f"{', '.join(map(str, list(loaded)[:SHOWN])) or 'none'}."
            )
        loaded = inner
    if not isinstance(loaded, Mapping):
        raise LawscopeError(f"{path} holds a {type(loaded).__name__}, not weights by name.")
    return dict(loaded)


def build_control(
    found: Target, model: nn.Module, checkpoint: Path | None, where: torch.device
) -> nn.Module | str:
    """Return the network built again where the weights came from a checkpoint, else "auto".

    What a target builds the second time may be the trained network again (a function that returns
    a network made once, or that loads its weights itself); then "auto" as well.
    """
    if checkpoint is None or not found.rebuilds:
        return "auto"
    torch.manual_seed(0)
    try:
        second = found.build()
    except LawscopeError:  # a network that can be built only once
        return "auto"
    if _storages(second) & _storages(model):
        load_checkpoint(model, checkpoint)  # building may have written into what they share
        return "auto"
    second.to(where)
    mine, theirs = dict(second.named_parameters()), dict(model.named_parameters())
    same = mine.keys() == theirs.keys() and all(torch.equal(mine[k], theirs[k]) for k in mine)
    return "auto" if same else second


def _storages(model: nn.Module) -> set[int]:
    return {p.untyped_storage().data_ptr() for p in model.parameters() if p.numel()}


def _describe_kind(tensor: Tensor) -> str:
    if tensor.is_meta:
        return "without values (on the meta device)"
    return str(tensor.dtype) if tensor.layout == torch.strided else f"sparse ({tensor.layout})"


def _is_loadable(given: Tensor, wanted: Tensor) -> bool:
    """Return whether values survive: dense, with values, and real floats into real floats."""
    return has_values(given) and (
        given.is_floating_point() == wanted.is_floating_point()
        and given.is_complex() == wanted.is_complex()
    )
