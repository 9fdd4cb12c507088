"""Small networks whose symmetries are known from theory."""

import torch
from torch import nn


def inputs():
    return torch.randn(8, 6, generator=torch.Generator().manual_seed(0))


def images():
    return torch.randn(8, 3, 8, 8, generator=torch.Generator().manual_seed(0))


def ids():
    return torch.randint(0, 40, (4, 7), generator=torch.Generator().manual_seed(0))


def shaken(model):
    """Move every parameter away from zeros and ones, where more symmetries hold."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return model.eval()


def mlp():
    layers = nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 7)
    return nn.Sequential(*layers, nn.Linear(7, 3))


class Powers(nn.Module):
    """Squared ReLU, as in Primer and RWKV, a cube and a power that is not whole."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(6, 6) for _ in range(4))

    def forward(self, x):
        a, b, c, d = self.layers
        return d(c(b(a(x).relu().square()) ** 3).relu() ** 1.5)


def vgg():
    first = nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)
    second = nn.Conv2d(4, 5, 3, padding=1), nn.LeakyReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten()
    head = nn.Dropout(), nn.Linear(20, 6), nn.ReLU6(), nn.Linear(6, 3)
    return nn.Sequential(*first, *second, *head)


class Block(nn.Module):
    def __init__(self, before, after):
        super().__init__()
        self.c1, self.n1 = nn.Conv2d(before, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after)
        self.c2, self.n2 = nn.Conv2d(after, after, 3, 1, 1, bias=False), nn.BatchNorm2d(after)
        skip = nn.Conv2d(before, after, 1, bias=False), nn.BatchNorm2d(after)
        self.skip = nn.Identity() if before == after else nn.Sequential(*skip)

    def forward(self, x):
        return torch.relu(self.n2(self.c2(torch.relu(self.n1(self.c1(x))))) + self.skip(x))


def resnet():
    stem = nn.Conv2d(3, 4, 3, 1, 1, bias=False), nn.BatchNorm2d(4), nn.ReLU()
    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 3)
    return nn.Sequential(*stem, Block(4, 4), Block(4, 6), *head)


class Dense(nn.Module):
    """Concatenates what two convolutions make."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 4, 3, 1, 1), nn.Conv2d(4, 2, 3, 1, 1)
        self.c, self.h = nn.Conv2d(6, 3, 1), nn.Linear(3, 2)

    def forward(self, x):
        a = torch.relu(self.a(x))
        both = torch.cat([a, torch.relu(self.b(a))], 1)
        return self.h(torch.relu(self.c(both)).mean((2, 3)))


class DenseNorm(nn.Module):
    """Normalises what two convolutions make side by side, as DenseNet does."""

    def __init__(self):
        super().__init__()
        self.c0, self.n1 = nn.Conv2d(3, 4, 3, 1, 1), nn.BatchNorm2d(4)
        self.c1, self.n2 = nn.Conv2d(4, 2, 3, 1, 1), nn.BatchNorm2d(6)
        self.h = nn.Linear(6, 2)

    def forward(self, x):
        a = self.c0(x)
        both = torch.cat([a, self.c1(torch.relu(self.n1(a)))], 1)
        return self.h(torch.relu(self.n2(both)).mean((2, 3)))


class Cosine(nn.Module):
    """Logits are cosines of features and rows of the head."""

    def __init__(self):
        super().__init__()
        self.f, self.h = nn.Linear(6, 5), nn.Linear(5, 3, bias=False)

    def forward(self, x):
        turn = nn.functional.normalize
        return 10 * nn.functional.linear(turn(torch.relu(self.f(x))), turn(self.h.weight))


class Parallel(nn.Module):
    """Adds the outputs of two layers, each with its bias."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.h = nn.Linear(6, 5), nn.Linear(6, 5), nn.Linear(5, 3)

    def forward(self, x):
        return self.h(torch.tanh(self.a(x) + self.b(x)))


class LowRank(nn.Module):
    """A layer with a low-rank addition, as LoRA has it."""

    def __init__(self):
        super().__init__()
        self.base, self.h = nn.Linear(6, 5), nn.Linear(5, 3)
        self.A, self.B = nn.Linear(6, 2, bias=False), nn.Linear(2, 5, bias=False)

    def forward(self, x):
        return self.h(nn.functional.gelu(self.base(x) + 2 * self.B(self.A(x))))


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up, self.down = nn.Linear(6, 5), nn.Linear(6, 5), nn.Linear(5, 3)

    def forward(self, x):
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))


class FusedGate(nn.Module):
    """Computes gate and value at once; a ReLU gate scales as well."""

    def __init__(self):
        super().__init__()
        self.both, self.down = nn.Linear(6, 10), nn.Linear(5, 3)

    def forward(self, x):
        gate, up = self.both(x).chunk(2, -1)
        return self.down(torch.relu(gate) * up)


class Bare(nn.Module):
    """Parameters without modules, and a gain per unit in between."""

    def __init__(self):
        super().__init__()
        self.W, self.b = nn.Parameter(torch.randn(6, 5)), nn.Parameter(torch.randn(5))
        self.g, self.U = nn.Parameter(torch.randn(5)), nn.Parameter(torch.randn(3, 5))

    def forward(self, x):
        return nn.functional.linear(self.g * torch.relu(x @ self.W + self.b), self.U)


def depthwise():
    first = nn.Conv2d(3, 4, 3), nn.PReLU(), nn.Conv2d(4, 4, 3, groups=4), nn.ReLU()
    head = nn.Conv2d(4, 5, 1), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(20, 3)
    return nn.Sequential(*first, *head)


def tied():
    shared = nn.Linear(5, 5)
    first = nn.Linear(6, 5), nn.ReLU(), shared, nn.ReLU(), shared, nn.ReLU()
    return nn.Sequential(*first, nn.Linear(5, 3))


class Autoencoder(nn.Module):
    """Reads its units with the transpose of the matrix that writes them."""

    def __init__(self, activation):
        super().__init__()
        self.activation = activation
        self.W, self.b = nn.Parameter(torch.randn(5, 6)), nn.Parameter(torch.randn(5))
        self.c = nn.Parameter(torch.randn(6))

    def forward(self, x):
        units = self.activation(nn.functional.linear(x, self.W, self.b))
        return nn.functional.linear(units, self.W.T, self.c)


class Sine(nn.Module):
    """An odd function that is no activation of torch."""

    def __init__(self):
        super().__init__()
        self.a, self.h = nn.Linear(6, 5), nn.Linear(5, 3)

    def forward(self, x):
        return self.h(torch.sin(self.a(x)))


class Faint(nn.Module):
    """A branch that its layer scale all but takes out at the start, as in ConvNeXt."""

    def __init__(self, scale):
        super().__init__()
        self.into, self.norm = nn.Linear(6, 5), nn.LayerNorm(5)
        self.up, self.down = nn.Linear(5, 8), nn.Linear(8, 5)
        self.scale = nn.Parameter(scale * torch.ones(5))
        self.last, self.head = nn.LayerNorm(5), nn.Linear(5, 3)

    def forward(self, x):
        x = self.into(x)
        x = x + self.scale * self.down(nn.functional.gelu(self.up(self.norm(x))))
        return self.head(self.last(x))


class Patches(nn.Module):
    """Joins a class token to patches and adds positions, all of them parameters."""

    def __init__(self, units):
        super().__init__()
        self.patches, self.head = nn.Conv2d(3, units, 2, 2), nn.Linear(units, 3)
        self.token = nn.Parameter(torch.randn(1, 1, units))
        self.positions = nn.Parameter(torch.randn(1, 17, units))
        self.norm = nn.LayerNorm(units)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.positions
        return self.head(torch.tanh(self.norm(x)).mean(1))


class Siamese(nn.Module):
    """Adds what one layer makes of two inputs."""

    def __init__(self):
        super().__init__()
        self.a, self.h = nn.Linear(6, 5), nn.Linear(5, 3)

    def forward(self, x):
        return self.h(torch.tanh(self.a(x) + self.a(x.square())))


class LowRankHead(nn.Module):
    """A softmax head with a low-rank addition."""

    def __init__(self):
        super().__init__()
        self.base = nn.Linear(6, 3)
        self.A, self.B = nn.Linear(6, 2, bias=False), nn.Linear(2, 3, bias=False)

    def forward(self, x):
        return self.base(x) + self.B(self.A(x))


class Encoder(nn.Module):
    """One of torch's own layers, whose attention is one module."""

    def __init__(self):
        super().__init__()
        self.into, self.head = nn.Linear(3, 8), nn.Linear(8, 3)
        self.layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True)

    def forward(self, x):
        return self.head(self.layer(self.into(x.flatten(2).mT)).mean(1))


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = {"vocab_size": 40, "n_positions": 16, "n_embd": 8, "n_layer": 2, "n_head": 2}
    return GPT2LMHeadModel(GPT2Config(**sizes))


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 16, "intermediate_size": 12, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32}
    return LlamaForCausalLM(LlamaConfig(vocab_size=40, **sizes, **heads))


def vit():
    from transformers import ViTConfig, ViTForImageClassification

    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    images = {"intermediate_size": 12, "image_size": 8, "patch_size": 4, "num_labels": 3}
    return ViTForImageClassification(ViTConfig(**sizes, **images))
