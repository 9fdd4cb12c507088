"""A network is returned exactly as it was found."""

from __future__ import annotations

import os
import sys
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import lru_cache
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode

from lawscope.capture.kinds import function_name
from lawscope.capture.trace import is_distributed_tensor
from lawscope.data.batches import tensors_in
from lawscope.errors import LawscopeError

# torch.func.grad imports the compiler when it first runs, and that sets this variable.
SET_BY_TORCH = "TORCHINDUCTOR_CACHE_DIR"

Mode = Literal["eval", "train"]
MODES: tuple[Mode, ...] = ("eval", "train")
_IN_PLACE = frozenset(
    f"__{name}__"
    for name in "setitem iadd isub imul itruediv ifloordiv imod ipow iand ior ixor".split()
)
# What is written into what these return is not seen.
_SHARING = frozenset("numpy __array__ __dlpack__ untyped_storage storage _typed_storage".split())
_SET_DATA = Tensor.data.__set__  # type: ignore[attr-defined]
# Modes, hooks, random generators and torch's settings are everybody's: threads measure in turn.
turn = threading.RLock()


def unwrap(model: nn.Module) -> nn.Module:
    """Return the network inside ``torch.compile``, ``DataParallel`` and distributed wrappers.

    The wrapped modules are the user's own, with the same parameters; measured in there, the
    hooks fire and station names are those of ``named_modules()``.
    """
    if not isinstance(model, nn.Module):
        raise LawscopeError(f"The model is of type {type(model).__name__}, not a torch.nn.Module.")
    while True:
        inner = getattr(model, "_orig_mod", None)
        if inner is None and isinstance(
            model, nn.DataParallel | nn.parallel.DistributedDataParallel
        ):
            inner = model.module
        if not isinstance(inner, nn.Module):
            break
        model = inner
    for name, part in model.named_modules():
        what = f"model's part '{name}'" if name else "model"
        if isinstance(part, torch.jit.ScriptModule):
            raise LawscopeError(
                f"The {what} is a TorchScript module, which hides its layers; pass the nn.Module "
                "it was made from."
            )
        if isinstance(part, torch.fx.GraphModule) and "train" in vars(part):
            raise LawscopeError(
                f"The {what} is a program of torch.export, which has one mode and no layers; pass "
                "the nn.Module it was exported from."
            )
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    lazy = next((name for name, value in tensors.items() if is_lazy(value)), None)
    if lazy is not None:
        raise LawscopeError(
            f"{lazy} has no shape yet, because its module is lazy; run the network once on a batch "
            "before measuring it."
        )
    empty = next((name for name, value in model.named_parameters() if value.is_meta), None)
    # accelerate keeps such parameters too, and its hooks bring the values when they are needed.
    if empty is not None and not any(hasattr(module, "_hf_hook") for module in model.modules()):
        raise LawscopeError(
            f"The parameter {empty} is on the meta device, where it has no values; load weights "
            "first, with model.load_state_dict(weights, assign=True)."
        )
    _refuse_tensor_parallel(model)
    return model


def _refuse_tensor_parallel(model: nn.Module) -> None:
    """Refuse layers of which every process runs a part; ``fully_shard`` runs them whole."""
    whole = {id(p) for module in sharded_modules(model) for p in module.parameters()}
    for name, parameter in model.named_parameters():
        if not is_distributed_tensor(parameter):
            continue
        mesh, placements = parameter.device_mesh, parameter.placements  # type: ignore[attr-defined]
        # Of several axes of processes, only copies (hybrid sharding) leave layers whole.
        if id(parameter) not in whole or (mesh.ndim > 1 and not placements[0].is_replicate()):
            raise LawscopeError(
                f"The parameter {name} is split over processes (tensor parallelism), so that each "
                "of them runs a part of a layer; measure the model without parallelize_module, or "
                "shard it with fully_shard, which runs layers whole."
            )


def sharded_modules(model: nn.Module) -> list[nn.Module]:
    """Return the modules that ``torch.distributed.fsdp.fully_shard`` was applied to."""
    fsdp = sys.modules.get("torch.distributed.fsdp")
    kind = getattr(fsdp, "FSDPModule", None)
    return [] if kind is None else [m for m in model.modules() if isinstance(m, kind)]


@contextmanager
def restoring(model: nn.Module, mode: Mode = "eval") -> Iterator[TorchFunctionMode]:
    """Run without gradients, eagerly and in ``mode``, then put everything back.

    Modes, buffers, submodules, hooks, attributes (new ones go), compiled calls, gradients, and
    parameters that the network writes into: also after an exception or ctrl-C, and all the rest
    where one of them cannot be put back. Random generators are put back by
    :class:`~lawscope.data.source.Source`. Other threads wait until all is back.

    RWKV halves weights every few blocks when it first runs in eval mode, and an embedding with
    ``max_norm`` rescales its rows whenever it runs. Only what changes is copied: the network must
    run under the mode that is yielded, which keeps a parameter's old value at the moment it is
    written to.
    """
    modules = list(model.modules())
    with turn, ExitStack() as stack, torch.no_grad(), eager():
        keeper = _Keeper(model)
        if SET_BY_TORCH not in os.environ:
            stack.callback(os.environ.pop, SET_BY_TORCH, None)
        for parameter in model.parameters():
            _keep_training_state(parameter, stack)
        stack.callback(keeper.put_back)
        for module in modules:
            _keep_attributes(module, stack)
            module._compiled_call_impl = None
        _keep_modes(modules, stack)
        for module in sharded_modules(model):
            stack.callback(module.reshard)  # type: ignore[arg-type]
        model.train(mode == "train")
        yield keeper


@contextmanager
def eager() -> Iterator[None]:
    """Switch compiled graphs and fused attention off; put the settings back after.

    A compiled submodule cannot be hooked from within; and the fast path of
    ``nn.TransformerEncoder`` packs padded sequences into nested tensors that have no rows.
    """
    # What is not imported has compiled nothing, and takes a second to import.
    compiles = "torch._dynamo" in sys.modules
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.compiler.set_stance("force_eager") if compiles else nullcontext():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


def _keep_attributes(module: nn.Module, stack: ExitStack) -> None:
    """Keep attributes, buffers and submodules, and what is in tensors, lists, sets and dicts."""
    attributes = vars(module)
    kept: list[tuple[Any, Any]] = []
    stack.callback(setattr, module, "__class__", type(module))  # a parametrization makes another
    for value in (attributes, *attributes.values(), *module._buffers.values()):
        if isinstance(value, Tensor):
            stack.callback(_put_back, value, value.detach().clone())
        elif type(value) in (list, dict, set, OrderedDict, defaultdict):
            kept.append((value, value.copy()))

    def back() -> None:
        for container, before in kept:
            container.clear()
            container.extend(before) if type(container) is list else container.update(before)

    # One for all containers of a module, which cannot fail to take their own back.
    stack.callback(back)


def _keep_training_state(parameter: nn.Parameter, stack: ExitStack) -> None:
    """Set a gradient aside, so that nothing adds to it; keep hooks and whether it learns."""
    names = ("grad", "requires_grad", "_backward_hooks", "_post_accumulate_grad_hooks")
    found = {name: getattr(parameter, name) for name in names}
    hooks = [(kept, kept.copy()) for kept in found.values() if isinstance(kept, dict)]

    def back() -> None:
        for name, value in found.items():
            if getattr(parameter, name) is not value:
                setattr(parameter, name, value)
        for kept, before in hooks:
            kept.clear()
            kept.update(before)

    stack.callback(back)
    if parameter.grad is not None:
        parameter.grad = None


def _keep_modes(modules: list[nn.Module], stack: ExitStack) -> None:
    """Keep modes, to be put back by ``train()``, which may be the module's own."""
    for module in modules:
        if type(module).train is not nn.Module.train:
            # An adapter's may merge its weights in eval mode and take them apart again, rounded.
            for parameter in module.parameters(recurse=False):
                stack.callback(_put_back, parameter.data, parameter.detach().clone())

    def back(module: nn.Module, training: bool) -> None:
        if module.training != training:
            module.train(training)

    # The stack is emptied from its end, and a parent has to come before its children.
    for module in reversed(modules):
        stack.callback(back, module, module.training)


def _put_back(tensor: Tensor, value: Tensor) -> None:
    """Write the old value into the old tensor, where it has been changed."""
    if tensor.is_meta:
        return  # it has no values
    # Sparse tensors have no test of equality, and NaN equals nothing.
    same = tensor.layout == torch.strided and tensor.shape == value.shape
    if same and not torch.equal(tensor, value):
        nan = tensor.isnan() & value.isnan() if tensor.is_floating_point() else False
        same = bool(((tensor == value) | nan).all())
    if not same:
        with torch.no_grad():
            tensor.copy_(value)


class _Keeper(TorchFunctionMode):
    """Keeps a copy of every parameter just before something is written into it."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.unchanged: dict[int, list[nn.Parameter]] = {}
        for parameter in model.parameters():
            place = _storage(parameter)
            if place:
                self.unchanged.setdefault(place, []).append(parameter)
        self.kept: list[tuple[nn.Parameter, Tensor, Tensor]] = []

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        writes, written = _writes(func), list[Any]()
        given = [*args, *kwargs.values()]
        if "out" in kwargs:
            written.append(kwargs["out"])
        if writes == "first" or kwargs.get("inplace"):
            written.append(given[:1])
        elif writes == "running":  # mean and variance, after the input
            written.append(given[1:3])
        elif writes == "any":
            written.append(given)
        elif writes == "table":
            longest = kwargs.get("max_norm", args[3] if len(args) > 3 else None)
            written.append(given if longest is not None else ())
        for tensor in tensors_in(written):
            for parameter in self.unchanged.pop(_storage(tensor), ()):
                self.kept.append((parameter, parameter.data, parameter.detach().clone()))
        return func(*args, **kwargs)

    def put_back(self) -> None:
        for parameter, data, before in self.kept:
            _put_back(data, before)
            if parameter.data_ptr() != data.data_ptr() or parameter.shape != data.shape:
                parameter.data = data


@lru_cache(1024)
def _writes(func: Any) -> Literal["first", "running", "table", "any", ""]:
    """Return which of its arguments a function may write into."""
    name = str(getattr(func, "__name__", "")).partition(".")[0]  # an operator has overloads
    in_place = name in _IN_PLACE or (name.endswith("_") and not name.endswith("__"))
    if in_place or name in _SHARING or func == _SET_DATA:
        return "first"
    one = getattr(func, "_schema", None)
    schemas = list(getattr(func, "_schemas", {}).values()) if one is None else [one]
    if schemas and all(schema.is_mutable for schema in schemas):
        return "any"  # an operator of somebody's own
    if name in ("batch_norm", "instance_norm"):
        return "running"
    return "table" if function_name(func) in ("embedding", "embedding_bag") else ""


def _storage(tensor: Tensor) -> int:
    """Return where a tensor's memory begins; 0 where it has none of its own."""
    if tensor.is_meta or is_distributed_tensor(tensor) or tensor.layout != torch.strided:
        return 0
    try:
        return tensor.untyped_storage().data_ptr()
    except (RuntimeError, NotImplementedError):  # a tensor that wraps others, as quantised ones do
        return 0
