"""Networks and data that a measurement may meet, and what of a network it must leave alone."""

import torch
from torch import nn

CLASSES, SAMPLES, WIDTH = 3, 24, 6


def labels():
    return torch.arange(SAMPLES) % CLASSES


def vectors():
    generator = torch.Generator().manual_seed(0)
    return (
        torch.randn(SAMPLES, WIDTH, generator=generator) + 2 * torch.eye(CLASSES, WIDTH)[labels()]
    )


def plain():
    torch.manual_seed(0)
    layers = nn.Linear(WIDTH, 5), nn.ReLU(), nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, CLASSES)
    return nn.Sequential(*layers)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Linear(width, width)

    def forward(self, x):
        return x + self.inner(x).tanh()


def language():
    torch.manual_seed(0)
    blocks = [Block(4) for _ in range(3)]
    return nn.Sequential(nn.Embedding(23, 4), *blocks, nn.LayerNorm(4), nn.Linear(4, 23))


def _content(tensor):
    """Return a tensor as something that compares bit by bit, NaN included."""
    if (
        tensor is None
        or tensor.is_meta
        or isinstance(tensor, nn.parameter.UninitializedTensorMixin)
    ):
        return None
    if tensor.is_quantized or tensor.layout != torch.strided:
        return str(tensor)
    return str(tensor.dtype), tuple(tensor.shape), tensor.detach().cpu().numpy().tobytes()


def snapshot(model):
    """Return all that must not change: weights, buffers, gradients, modes, hooks, parts."""
    named = [*model.named_parameters(), *model.named_buffers()]
    values = {name: (_content(t), _content(t.grad), t.requires_grad) for name, t in named}
    hooks = "_forward_hooks _forward_pre_hooks _backward_hooks _backward_pre_hooks".split()
    parts = {
        name: (
            type(module),
            module.training,
            [list(getattr(module, kind)) for kind in hooks],
            sorted(vars(module)),
        )
        for name, module in model.named_modules()
    }
    return values, parts
