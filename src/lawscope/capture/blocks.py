"""The blocks of a network: what repeats, or what carries a stream of tokens.

One place for both rules, because both read the same trace. A classifier's blocks, where it is not
residual, are the outermost composite modules of one class that run more than once. A language
model's are the children of one container that map (B, T, d) to the same shape: by shape, because
any class may be one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lawscope.capture.trace import Call, Seen
from lawscope.errors import LawscopeError


def find_repeated_blocks(seen: Sequence[Seen]) -> list[Seen]:
    """Find the outermost kind of composite module that is run more than once.

    Plain containers (``nn.Sequential``) count only where no module of another class repeats.
    """
    composites = [s for s in seen if s.composite and s.function is None]
    for containers in (False, True):
        candidates = [s for s in composites if s.container == containers]
        runs = Counter(s.family for s in candidates)
        repeated = [s for s in candidates if runs[s.family] > 1]
        outermost = [
            s for s in repeated if not any(s.path.startswith(f"{o.path}.") for o in repeated)
        ]
        if len(outermost) > 1:
            return outermost
    return []


@dataclass(frozen=True, eq=False)
class StreamBlocks:
    """The repeated part of a language model."""

    modules: tuple[nn.Module, ...]  # the L blocks in the order in which they run
    names: tuple[str, ...]
    streams: tuple[Tensor, ...]  # what entered the first block, and every block's output: L + 1


def find_stream_blocks(model: nn.Module, calls: Sequence[Call]) -> StreamBlocks:
    """Find the children of one container that carry the stream from (B, T, d) to (B, T, d).

    Candidates are runs of neighbouring children of any module, each called once, in order, with
    the same width d in and out, and with parameters. Outside ``ModuleList`` and ``Sequential``
    they must be of one class. The candidate with most parameters is taken; of several around the
    same parameters the one with most modules of one class, else the outermost: attention and
    feed-forward layers of a model with a single block are not blocks.
    """
    counts = Counter(call.module for call in calls)
    once = {call.module: call for call in calls if counts[call.module] == 1}
    candidates = [run for parent in model.modules() for run in _runs(parent, once)]
    if not candidates:
        raise LawscopeError(
            f"{type(model).__name__} has no blocks that lawscope can find: no list of modules, "
            "called once each in order, that map (batch, tokens, d) to the same shape. Keep the "
            "blocks in a ModuleList or Sequential."
        )

    def size(run: Sequence[Call]) -> tuple[int, int]:
        # Modules of several classes may be the layers of one block.
        depth = len(run) if len({type(call.module) for call in run}) == 1 else 1
        return sum(_parameters(call.module) for call in run), depth

    chosen = max(candidates, key=size)
    paths = {module: path for path, module in model.named_modules()}
    tensors = [chosen[0].stream_in, *(call.stream_out for call in chosen)]
    return StreamBlocks(
        modules=tuple(call.module for call in chosen),
        names=tuple(paths[call.module] for call in chosen),
        streams=tuple(t for t in tensors if t is not None),
    )


def check_causal(model: nn.Module, blocks: StreamBlocks) -> None:
    """Refuse a model in which another last token, in the second half, changes what is before it."""
    made = blocks.streams[-1]
    as_given, changed = made[:, :-1].chunk(2)
    rounding = 1e-5 if made.dtype in (torch.float32, torch.float64) else 1e-2
    if float((changed - as_given).abs().max()) > rounding * float(as_given.abs().max()):
        raise LawscopeError(
            f"{type(model).__name__} looks ahead: changing the last token changed features before "
            "it, so it is not a causal language model; pass task='masked' (with mask_token=) for a "
            "masked one."
        )


def _runs(parent: nn.Module, once: dict[nn.Module, Call]) -> list[list[Call]]:
    """Return maximal runs of neighbouring children that are blocks."""
    loose = not isinstance(parent, nn.ModuleList | nn.Sequential | nn.ModuleDict)
    runs: list[list[Call]] = [[]]
    for child in parent.children():
        call = once.get(child)
        if call is None or not _carries(call):
            runs.append([])
            continue
        if runs[-1] and not _follows(runs[-1][-1], call, loose):
            runs.append([])
        runs[-1].append(call)
    return [run for run in runs if len(run) > loose]


def _carries(call: Call) -> bool:
    """Return whether a module has (B, T, d) in, (B, T, d) out, with parameters of its own."""
    given, made = call.stream_in, call.stream_out
    same = given is not None and made is not None and given.shape == made.shape
    return same and _parameters(call.module) > 0


def _follows(before: Call, call: Call, loose: bool) -> bool:
    if loose and type(before.module) is not type(call.module):
        return False
    assert before.stream_out is not None
    assert call.stream_in is not None
    return before.entered < call.entered and before.stream_out.shape == call.stream_in.shape


def _parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())
