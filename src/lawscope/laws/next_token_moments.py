"""The moments of all blocks of a language model: made, merged over ranks, written and read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

from torch import Tensor

from lawscope.capture.enough_memory import enough_memory
from lawscope.capture.language import Blocks
from lawscope.capture.row_norm import RowNorm
from lawscope.errors import LawscopeError
from lawscope.laws.next_token_settings import Settings
from lawscope.statistics.distributed import gathered
from lawscope.statistics.prediction_moments import PredictionMoments


def room_for_moments(settings: Settings, blocks: Blocks) -> AbstractContextManager[None]:
    """Too little memory for folds × d² numbers per block becomes a sentence."""
    return enough_memory(
        f"the moments of {len(blocks.names)} blocks in {settings.folds} folds of {blocks.width}² "
        "numbers",
        "measure fewer blocks (every=2), take fewer folds (folds=2), or load the model in a "
        "smaller dtype",
    )


def fresh_moments(settings: Settings, blocks: Blocks, norm: RowNorm) -> list[PredictionMoments]:
    """Moments of the embedding and of every block that have seen nothing yet.

    Raises:
        LawscopeError: too little memory.
    """
    with room_for_moments(settings, blocks):
        return [_fresh(i, settings, blocks, norm) for i in range(len(blocks.dtypes))]


def _fresh(i: int, settings: Settings, blocks: Blocks, norm: RowNorm) -> PredictionMoments:
    tables = len(blocks.dtypes) * len(settings.targets)
    return PredictionMoments(
        blocks.width,
        len(settings.targets),
        folds=settings.folds,
        precision=settings.precision,
        prepare=norm,
        token_bytes=settings.memory // tables if settings.onehot else 0,
        dtype=blocks.dtypes[i],
        device=blocks.devices[i],
    )


def merged_over_ranks(
    own: Sequence[PredictionMoments], settings: Settings, blocks: Blocks, norm: RowNorm
) -> list[PredictionMoments]:
    """What all ranks of ``torch.distributed`` have seen, in rank order; all must call it.

    Args:
        own: what this rank has seen.
        settings: of ``own``.
        blocks: of ``own``.
        norm: of ``own``.

    Raises:
        LawscopeError: no process group, or too little memory.
    """
    merged = fresh_moments(settings, blocks, norm)
    with room_for_moments(settings, blocks):
        for i, statistic in enumerate(own):
            for state in gathered({k: v.cpu() for k, v in statistic.state_dict().items()}):
                part = _fresh(i, settings, blocks, norm)
                part.load_state_dict(state)
                merged[i].merge(part)
    return merged


def written(statistics: Sequence[PredictionMoments]) -> dict[str, Tensor]:
    """The states of all blocks as tensors that safetensors can write."""
    return {
        f"{i}.{name}": tensor.to("cpu", copy=True).contiguous()
        for i, statistic in enumerate(statistics)
        for name, tensor in statistic.state_dict().items()
    }


def read_into(statistics: Sequence[PredictionMoments], state: Mapping[str, Tensor]) -> None:
    """Take over states that :func:`written` made.

    Raises:
        LawscopeError: they are of another number of blocks.
    """
    blocks = {int(name.split(".")[0]) for name in state if "." in name}
    if len(blocks) != len(statistics):
        raise LawscopeError(
            f"The saved moments are of {len(blocks) - 1} blocks, the model has "
            f"{len(statistics) - 1}; resume with the same model."
        )
    for i, statistic in enumerate(statistics):
        prefix = f"{i}."
        part = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
        statistic.load_state_dict(part)
