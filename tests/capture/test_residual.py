"""The blocks of a residual network are found by its sums, however its code is nested."""

import pytest
import torch
import torch.nn.functional as F
from tests import cases
from torch import nn

import lawscope as ls

transformers = pytest.importorskip("transformers")


def blocks(net, example):
    found = ls.stations(net, example)
    return found.residual, [s.name for s in found.granularity("blocks")]


def branch(width=6):
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))


def outside(run, number=3):
    """Make a network whose sums stand in its own forward."""
    parts = {"blocks": nn.ModuleList(branch() for _ in range(number)), "head": nn.Linear(6, 4)}
    return cases.Net(run, stem=nn.Linear(6, 6), norm=nn.LayerNorm(6), **parts)


def test_hugging_face_resnet_has_its_blocks_not_its_stages():
    config = transformers.ResNetConfig(
        embedding_size=4, hidden_sizes=[8, 8], depths=[2, 3], layer_type="bottleneck", num_labels=4
    )
    residual, names = blocks(
        transformers.ResNetForImageClassification(config),
        {"pixel_values": torch.randn(3, 3, 32, 32)},
    )
    assert residual
    stages = [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2)]
    assert names[1:] == [f"resnet.encoder.stages.{s}.layers.{b}" for s, b in stages]
    assert names[0].endswith(":in")


def test_a_sum_outside_its_block_is_measured_after_the_activation():
    def run(net, x):
        x = torch.relu(net.stem(x))
        for block in net.blocks:
            x = F.relu(x + block(x))
        return net.head(x)

    net = outside(run)
    names = ["relu()", "relu()#2", "relu()#3", "relu()#4"]
    assert blocks(net, torch.randn(3, 6)) == (True, names)
    result = ls.separation(net, [(cases.vectors(), cases.labels())], uncertainty=None)
    assert (result.granularity, list(result.stations)) == ("blocks", names)


def test_a_sum_without_an_activation_is_a_station_and_the_final_norm_is_not():
    def run(net, x):
        x = net.stem(x)
        for block in net.blocks:
            x = x + block(x)
        return net.head(net.norm(x))

    net = outside(run)
    names = ["stem", "add()", "add()#2", "add()#3"]
    assert blocks(net, torch.randn(3, 6)) == (True, names)
    seen = {}
    net.norm.register_forward_pre_hook(lambda module, args: seen.update(last=args[0]))
    x, y = cases.vectors(), cases.labels()
    result = ls.separation(net, [(x, y)], uncertainty=None)
    assert result.values[-1] == pytest.approx(ls.fuzziness(seen["last"], y), rel=1e-5)


class Stage(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(branch() for _ in range(2))

    def forward(self, x):
        for block in self.blocks:
            x = torch.relu(x + block(x))
        return x


def test_sums_in_the_forward_of_a_stage_are_blocks():
    net = nn.Sequential(nn.Linear(6, 6), Stage(), Stage(), nn.Linear(6, 4))
    names = [f"{stage}.relu(){call}" for stage in (1, 2) for call in ("", "#2")]
    assert blocks(net, torch.randn(3, 6)) == (True, ["0", *names])


def test_halves_of_a_transformer_block_are_one_block():
    config = transformers.T5Config(
        vocab_size=20, d_model=8, d_kv=4, d_ff=8, num_layers=3, num_heads=2
    )
    ids = {"input_ids": torch.randint(0, 20, (3, 5))}
    residual, names = blocks(transformers.T5EncoderModel(config), ids)
    assert residual
    assert names[1:] == [f"encoder.block.{i}" for i in range(3)]


@pytest.mark.parametrize("build", [cases.vision_transformer, cases.bert])
def test_the_default_of_a_transformer_is_the_stream_after_each_block(build):
    data = (
        [{"pixel_values": cases.images(), "labels": cases.labels()}]
        if build is cases.vision_transformer
        else [{**cases.tokens(), "labels": cases.labels()}]
    )
    torch.manual_seed(0)
    result = ls.separation(build(), data, uncertainty=None)
    assert (result.granularity, len(result.stations)) == ("blocks", 3)
    assert set(result.granularities) == {"blocks"}, "layers are not measured along the way"


@pytest.mark.parametrize(
    "run",
    [
        lambda net, x: net.head(torch.relu(net.blocks[0](x) + net.blocks[1](x))),
        lambda net, x: net.head(net.blocks[1](net.blocks[0](x) + net.norm.weight) + net.norm.bias),
        lambda net, x: net.head(net.stem(x) + net.blocks[0](net.stem(x))),
    ],
    ids=["branches", "bias", "one sum"],
)
def test_other_sums_are_not_residual(run):
    assert not ls.stations(outside(run), torch.randn(3, 6)).residual


class Add(nn.Module):
    def forward(self, one, other):
        return one + other


def test_a_module_that_adds_is_a_sum():
    def run(net, x):
        x = net.stem(x)
        for block, add in zip(net.blocks, net.adds, strict=True):
            x = add(block(x), x)
        return net.head(x)

    net = outside(run)
    net.adds = nn.ModuleList(Add() for _ in range(3))
    assert blocks(net, torch.randn(3, 6)) == (True, ["stem", "adds.0", "adds.1", "adds.2"])


class Turned(nn.Module):
    """A branch whose queries and keys are turned by angles, as in RoFormer."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.out = (nn.Linear(6, 6) for _ in range(3))

    def forward(self, x, cos, sin):
        def turn(h):
            return h * cos + torch.cat([-h[:, 3:], h[:, :3]], 1) * sin

        return self.out(turn(self.query(x)) * turn(self.key(x)))


class TurnedBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = Turned()

    def forward(self, x, *angles):
        return x + self.attention(x, *angles)


def test_turned_features_are_not_a_skip():
    def run(net, x):
        x = net.stem(x)
        cos, sin = net.norm(x).cos(), net.norm(x).sin()
        for block in net.turned:
            x = block(x, cos, sin)
        return net.head(x)

    net = outside(run)
    net.turned = nn.ModuleList(TurnedBlock() for _ in range(3))
    names = ["turned.0:in", "turned.0", "turned.1", "turned.2"]
    assert blocks(net, torch.randn(3, 6)) == (True, names)


def test_sums_that_come_in_rounds_are_halves_of_one_block():
    def run(net, x):
        x = net.stem(x)
        for attention, block, norm in zip(net.attentions, net.blocks, net.norms, strict=True):
            x = x + attention(x)
            x = norm(x + block(x)) * 2
        return net.head(x)

    net = outside(run)
    net.attentions = nn.ModuleList(nn.Linear(6, 6) for _ in range(3))
    net.norms = nn.ModuleList(nn.LayerNorm(6) for _ in range(3))
    assert blocks(net, torch.randn(3, 6)) == (True, ["stem", "norms.0", "norms.1", "norms.2"])


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.branch = branch()

    def forward(self, x):
        return x + self.branch(x)


def test_one_sum_beside_blocks_is_not_a_block():
    def run(net, x):
        x = net.stem(x)
        x = x + net.blocks[0](x)
        for block in net.whole:
            x = block(x)
        return net.head(x)

    net = outside(run)
    net.whole = nn.ModuleList(Block() for _ in range(2))
    names = ["whole.0:in", "whole.0", "whole.1"]
    assert blocks(net, torch.randn(3, 6)) == (True, names)
