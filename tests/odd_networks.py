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


class Habit(nn.Module):
    """A plain network that does something of its own before, and something to its output."""

    def __init__(self, before=None, after=None):
        super().__init__()
        self.inner, self.before, self.after = plain(), before, after
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x):
        if self.before is not None:
            self.before(self.inner, x)
        self.seen += len(x)
        output = self.inner(x)
        return output if self.after is None else self.after(output)


class Learning(nn.Module):
    """Computes with gradients, and adds to those that are there."""

    def __init__(self):
        super().__init__()
        self.inner = plain()

    def forward(self, x):
        with torch.enable_grad():
            output = self.inner(x)
            output.sum().backward(retain_graph=True)
        return output


class Words(nn.Module):
    """An embedding that rescales the rows it reads."""

    def __init__(self):
        super().__init__()
        self.words, self.inner = nn.Embedding(9, WIDTH, max_norm=0.1), plain()

    def forward(self, x):
        return self.inner(x + self.words(x.argmax(1)))


class Choosy(nn.Module):
    """Takes batches of one size only, and says so in its own way."""

    def __init__(self, error):
        super().__init__()
        self.inner, self.error = plain(), error

    def forward(self, x):
        if len(x) != SAMPLES:
            raise self.error
        return self.inner(x)


def fail(error):
    def run(net, x):
        raise error

    return run


def _with_buffer(buffer):
    model = plain()
    model.register_buffer("own", buffer)
    return model


def _parametrized():
    model = plain()
    nn.utils.parametrizations.weight_norm(model[0])
    nn.utils.parametrizations.spectral_norm(model[2])
    return model


def _narrow(width):
    layers = nn.Linear(WIDTH, width), nn.ReLU(), nn.Linear(width, 5), nn.ReLU(), nn.Linear(5, 3)
    return nn.Sequential(*layers)


def _spoilt(value):
    model = plain()
    with torch.no_grad():
        model[2].weight[0, 0] = value
    return model


def _tied():
    model = plain()
    return nn.Sequential(model[:3], model[2], model[3:])


def _on(device):
    with torch.device(device):
        return plain()


def _normed():
    norm = nn.BatchNorm1d(WIDTH), nn.Dropout(0.5)
    return nn.Sequential(*norm, plain())


def _mixed_modes():
    model = plain()
    model.eval()[2].train()
    return model


# Made anew for every case. What some of them do is forbidden, and ends in a sentence.
NETWORKS = {
    "plain": plain,
    "learning": Learning,
    "words": Words,
    "modes": _mixed_modes,
    "frozen": lambda: plain().requires_grad_(False),
    "normed": _normed,
    "tied": _tied,
    "parametrized": _parametrized,
    "lazy": lambda: nn.Sequential(nn.LazyLinear(5), nn.ReLU(), nn.Linear(5, 3)),
    "meta": lambda: _on("meta"),
    "double": lambda: plain().double(),
    "bfloat16": lambda: plain().bfloat16(),
    "complex": lambda: plain().to(torch.complex64),
    "NaN": lambda: _spoilt(torch.nan),
    "infinite": lambda: _spoilt(torch.inf),
    "no layers": nn.Identity,
    "nothing": nn.Module,
    "one layer": lambda: nn.Linear(WIDTH, CLASSES),
    "width 0": lambda: _narrow(0),
    "width 1": lambda: _narrow(1),
    "NaN buffer": lambda: _with_buffer(torch.full((1,), torch.nan).expand(4)),
    "sparse buffer": lambda: _with_buffer(torch.eye(3).to_sparse()),
    "empty buffer": lambda: _with_buffer(torch.zeros(0, 3)),
    "integer buffer": lambda: _with_buffer(torch.arange(3)),
    "clips": lambda: Habit(lambda net, x: net[0].weight.data.clamp_(-0.1, 0.1)),
    "begins again": lambda: Habit(lambda net, x: net[0].reset_parameters()),
    "replaces": lambda: Habit(lambda net, x: setattr(net, "0", nn.Linear(WIDTH, 5))),
    "grows": lambda: Habit(lambda net, x: net.add_module("more", nn.Linear(3, 3))),
    "hooks": lambda: Habit(lambda net, x: net[0].register_forward_hook(lambda *_: None)),
    "trains": lambda: Habit(lambda net, x: net.train()),
    "forgets": lambda: Habit(lambda net, x: net.zero_grad()),
    "draws": lambda: Habit(lambda net, x: torch.rand(3)),
    "overwrites": lambda: Habit(lambda net, x: x.mul_(2)),
    "fails": lambda: Habit(fail(KeyError("mine"))),
    "fails silently": lambda: Habit(fail(AssertionError())),
    "fails in lines": lambda: Habit(fail(RuntimeError("one\ntwo"))),
    "choosy": lambda: Choosy(ValueError("24 or nothing")),
    "gives None": lambda: Habit(after=lambda output: None),
    "gives text": lambda: Habit(after=lambda output: "text"),
    "gives a dict": lambda: Habit(after=lambda output: {"logits": output}),
    "gives lists": lambda: Habit(after=lambda output: [[output], output]),
    "gives a number": lambda: Habit(after=lambda output: output.sum()),
    "gives no rows": lambda: Habit(after=lambda output: output[:0]),
    "gives integers": lambda: Habit(after=lambda output: output.argmax(1)),
    "gives one row": lambda: Habit(after=lambda output: output.mean(0)),
    "language": language,
}


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
    raw = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return str(tensor.dtype), tuple(tensor.shape), raw.numpy().tobytes()


def snapshot(model):
    """Return all that must not change: weights, buffers, gradients, modes, hooks, parts."""
    named = [*model.named_parameters(), *model.named_buffers()]
    values = {
        name: (_content(t), _content(t.grad), t.requires_grad, list(t._backward_hooks or ()))
        for name, t in named
    }
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
