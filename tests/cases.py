"""One table of networks and data that feeds every test of capture and laws."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

CLASSES = 4
SAMPLES = 60


class Net(nn.Module):
    """Modules and parameters by name, and a function of them and the inputs as forward pass."""

    def __init__(self, run, **parts):
        super().__init__()
        self.run = run
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *args, **kwargs):
        return self.run(self, *args, **kwargs)


def labels(samples=SAMPLES):
    return (torch.arange(samples) * 7) % CLASSES


def vectors(samples=SAMPLES, features=6):
    generator = torch.Generator().manual_seed(0)
    centres = 2 * torch.randn(CLASSES, features, generator=generator)
    return torch.randn(samples, features, generator=generator) + centres[labels(samples)]


def images(samples=SAMPLES):
    flat = vectors(samples, 3 * 8 * 8)
    return flat.reshape(samples, 3, 8, 8)


def sequences(samples=SAMPLES):
    return vectors(samples, 5 * 8).reshape(samples, 5, 8)


def tokens(samples=SAMPLES):
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(0, 40, (samples, 7), generator=generator)
    ids[:, 0] = labels(samples) + 40
    mask = torch.ones_like(ids)
    mask[::3, 5:] = 0
    return {"input_ids": ids, "attention_mask": mask}


class ReusedActivation(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(6, 5), nn.Linear(5, 5), nn.Linear(5, CLASSES)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.c(self.act(self.b(self.act(self.a(x)))))


class FunctionalActivations(nn.Module):
    """F.relu, torch.relu, x.relu(), F.gelu: none may be missed."""

    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(6, 5), nn.Linear(5, 5), nn.Linear(5, 5)
        self.fc4, self.head = nn.Linear(5, 5), nn.Linear(5, CLASSES)

    def forward(self, x):
        x = F.relu(self.fc1(x), inplace=True)
        x = torch.relu(self.fc2(x))
        x = self.fc3(x).relu()
        return self.head(F.gelu(self.fc4(x)))


class ResidualBlock(nn.Module):
    def __init__(self, width, out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(width, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.shortcut = nn.Sequential()
        if stride > 1:
            self.shortcut = nn.Sequential(nn.Conv2d(width, out, 1, stride), nn.BatchNorm2d(out))
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        y += self.shortcut(x)
        return self.relu(y)


class ResidualNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, 1, 1), nn.BatchNorm2d(4), nn.ReLU())
        self.stage1 = nn.Sequential(ResidualBlock(4, 4, 1), ResidualBlock(4, 4, 1))
        self.stage2 = nn.Sequential(ResidualBlock(4, 8, 2), ResidualBlock(8, 8, 1))
        self.fc = nn.Linear(8, CLASSES)

    def forward(self, x):
        return self.fc(self.stage2(self.stage1(self.stem(x))).mean((2, 3)))


@dataclasses.dataclass
class Features:
    hidden: torch.Tensor
    extra: str = "not a tensor"


class Wrapping(nn.Module):
    """A linear layer with ReLU whose output comes wrapped."""

    def __init__(self, width, wrap):
        super().__init__()
        self.linear, self.wrap = nn.Linear(width, 16), wrap

    def forward(self, x):
        return self.wrap(torch.relu(self.linear(x)))


class WrappedOutputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.tuple = Wrapping(6, lambda h: (h, None))
        self.list = Wrapping(16, lambda h: [h])
        self.dict = Wrapping(16, lambda h: {"last_hidden_state": h})
        self.dataclass = Wrapping(16, Features)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x):
        x = self.tuple(x)[0]
        x = self.list(x)[0]
        x = self.dict(x)["last_hidden_state"]
        return self.head(self.dataclass(x).hidden)


def sequential():
    return nn.Sequential(
        nn.Linear(6, 8),
        nn.BatchNorm1d(8),
        nn.ReLU(inplace=True),
        nn.Linear(8, 8),
        nn.ReLU(inplace=True),
        nn.Linear(8, CLASSES),
    )


def convolutional():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 6, 3, padding=1),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(6 * 16, CLASSES),
    )


class TokenEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x):
        return self.head(self.encoder(x).mean(1))


def bert():
    from transformers import BertConfig, BertForSequenceClassification

    return BertForSequenceClassification(
        BertConfig(
            vocab_size=50,
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=32,
            num_labels=CLASSES,
        )
    )


def vision_transformer():
    from transformers import ViTConfig, ViTForImageClassification

    return ViTForImageClassification(
        ViTConfig(
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=32,
            image_size=8,
            patch_size=4,
            num_labels=CLASSES,
        )
    )


@dataclass(frozen=True)
class Case:
    name: str
    build: Callable[[], nn.Module]
    inputs: Callable[..., Any]
    layers: tuple[str, ...]
    blocks: tuple[str, ...] = ()

    def model(self):
        torch.manual_seed(3)
        return self.build()

    def batches(self, size=17, samples=SAMPLES):
        data, y = self.inputs(samples), labels(samples)
        for start in range(0, samples, size):
            rows = slice(start, start + size)
            if isinstance(data, dict):
                yield {**{k: v[rows] for k, v in data.items()}, "labels": y[rows]}
            else:
                yield data[rows], y[rows]

    def __str__(self):
        return self.name


CASES = [
    Case("sequential", sequential, vectors, ("input", "2", "4")),
    Case("reused", ReusedActivation, vectors, ("input", "act", "act#2")),
    Case(
        "functional",
        FunctionalActivations,
        vectors,
        ("input", "relu()", "relu()#2", "relu()#3", "gelu()"),
    ),
    Case("convolutional", convolutional, images, ("input", "1", "5")),
    Case(
        "residual",
        ResidualNet,
        images,
        (
            "input",
            "stem.2",
            *(f"stage{s}.{b}.relu{c}" for s in (1, 2) for b in (0, 1) for c in ("", "#2")),
        ),
        ("stage1.0:in", "stage1.0", "stage1.1", "stage2.0", "stage2.1"),
    ),
    Case(
        "wrapped",
        WrappedOutputs,
        vectors,
        ("input", *(f"{n}.relu()" for n in ("tuple", "list", "dict", "dataclass"))),
        ("input", "tuple", "list", "dict", "dataclass"),
    ),
    Case(
        "tokens",
        TokenEncoder,
        sequences,
        (
            "input",
            *(
                f"encoder.layers.{i}.{part}"
                for i in (0, 1)
                for part in ("norm1", "relu()", "norm2")
            ),
        ),
        ("input", "encoder.layers.0", "encoder.layers.1"),
    ),
    Case(
        "bert",
        bert,
        tokens,
        (
            "bert.embeddings.LayerNorm",
            *(
                f"bert.encoder.layer.{i}.{part}"
                for i in (0, 1)
                for part in (
                    "attention.output.LayerNorm",
                    "intermediate.intermediate_act_fn",
                    "output.LayerNorm",
                )
            ),
            "bert.pooler.activation",
        ),
        ("bert.encoder.layer.0:in", "bert.encoder.layer.0", "bert.encoder.layer.1"),
    ),
]
