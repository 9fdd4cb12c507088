"""The TARGET of a scan: a file or a callable that gives a network."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from lawscope.errors import LawscopeError


@dataclass
class Target:
    """What a target offers.

    Attributes:
        name: for titles.
        maker: the module, or a callable without arguments that builds it (or (model, data)).
        given: the 'data' of the file, a value or a callable, or None.
        tokenizer: the 'tokenizer' of the file, or None.
    """

    name: str
    maker: Any
    given: Any = None
    tokenizer: Any = None
    _first: Any = field(default=None, init=False, repr=False)

    @property
    def rebuilds(self) -> bool:
        """Whether the network is made by a callable, which may make a second, untrained one."""
        return callable(self.maker) and not isinstance(self.maker, nn.Module)

    def build(self) -> nn.Module:
        """The network.

        Raises:
            LawscopeError: what was found is no network, or building it fails.
        """
        built = self._made()
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
        """The data that came along, or None."""
        if self.given is not None:
            return (
                _called(self.given, self.name, "data")
                if callable(self.given) and not hasattr(self.given, "__iter__")
                else self.given
            )
        built = self._first
        return built[1] if isinstance(built, tuple) and len(built) > 1 else None

    def _made(self) -> Any:
        return _called(self.maker, self.name, "model") if self.rebuilds else self.maker


def load_target(target: str) -> Target:
    """Read ``file.py`` or ``package.module:callable``.

    Raises:
        LawscopeError: no such file, module or name; or it fails on import.
    """
    if target.endswith(".py"):
        return _from_file(Path(target))
    module_name, colon, attribute = target.partition(":")
    if not colon and (Path(target) / "config.json").is_file():
        raise LawscopeError(
            f"{target} is a Hugging Face folder; add --text FILE to measure its language model."
        )
    if not colon or not attribute:
        raise LawscopeError(
            f"'{target}' is neither a .py file nor package.module:callable; write, for example, "
            "net.py or my_project.nets:build."
        )
    sys.path.insert(0, str(Path.cwd()))
    module = _imported(target, lambda: importlib.import_module(module_name))
    found: Any = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
        if found is None:
            raise LawscopeError(
                f"Module {module_name} has no '{attribute}'; it has: {_public(module)}."
            )
    return Target(target, found)


def _from_file(path: Path) -> Target:
    if not path.is_file():
        raise LawscopeError(f"There is no file {path}; give a .py file that defines 'model'.")
    spec = importlib.util.spec_from_file_location(f"lawscope_target_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    sys.path.insert(0, str(path.resolve().parent))
    loader = spec.loader
    _imported(str(path), lambda: loader.exec_module(module))
    if not hasattr(module, "model"):
        raise LawscopeError(
            f"{path} does not define 'model' (a network or a function that returns one); it "
            f"defines: {_public(module)}."
        )
    given, tokenizer = getattr(module, "data", None), getattr(module, "tokenizer", None)
    return Target(path.name, module.model, given, tokenizer)


def _imported(target: str, load: Any) -> Any:
    """Import user code; its failure is told with its own words."""
    try:
        return load()
    except SyntaxError as error:
        raise LawscopeError(
            f"{target} cannot be read: {error.msg} in line {error.lineno} of {error.filename}."
        ) from error
    except (Exception, SystemExit) as error:
        raise LawscopeError(
            f"{target} cannot be imported: {type(error).__name__}: {error}. --debug shows where."
        ) from error


def _called(maker: Any, name: str, what: str) -> Any:
    if not callable(maker):
        return maker
    needed = [
        p.name
        for p in inspect.signature(maker).parameters.values()
        if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    if needed:
        raise LawscopeError(
            f"'{what}' of {name} needs the argument(s) {', '.join(needed)}; give them defaults, or "
            "name a function without arguments."
        )
    try:
        return maker()
    except (Exception, SystemExit) as error:
        raise LawscopeError(
            f"'{what}' of {name} raised {type(error).__name__}: {error}. --debug shows where."
        ) from error


def _public(module: ModuleType) -> str:
    names = [n for n in vars(module) if not n.startswith("_")]
    return ", ".join(names[:12]) or "nothing"
