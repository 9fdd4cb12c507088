"""The networks of the zoo: built by name, with the layers and blocks their papers describe."""

import subprocess
import sys

import pytest
import torch
from torch import nn

import lawscope as ls
from lawscope.errors import LawscopeError
from lawscope.zoo.networks.catalogue import KINDS, build
from lawscope.zoo.networks.convolutional import RepeatedInputConv2d, alexnet, resnet, resnet18, vgg
from lawscope.zoo.networks.encoders import TextEncoder
from lawscope.zoo.networks.feedforward import feedforward
from lawscope.zoo.networks.language import rotate


def shown(model, example, granularity):
    return [s.name for s in ls.stations(model, example).granularity(granularity)]


def images(channels=1, size=32, count=3):
    return torch.randn(count, channels, size, size, generator=torch.Generator().manual_seed(0))


def test_widths_give_the_same_network_as_depth_and_width():
    torch.manual_seed(3)
    a = feedforward(4, inputs=7, width=5)
    torch.manual_seed(3)
    b = build("feedforward", widths=(5, 5, 5), inputs=7)
    assert list(a.state_dict()) == list(b.state_dict())
    assert all(map(torch.equal, a.state_dict().values(), b.state_dict().values()))


def test_weights_are_drawn_layer_by_layer_from_the_input_on():
    torch.manual_seed(5)
    first, second = nn.Linear(100, 6), nn.Linear(6, 4)
    torch.manual_seed(5)
    network = feedforward(widths=(6, 4))
    assert torch.equal(network.layer1.linear.weight, first.weight)
    assert torch.equal(network.layer2.linear.weight, second.weight)


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({}, ["linear", "norm", "relu"]),
        ({"norm": False}, ["linear", "relu"]),
        ({"nonlinear": False}, ["linear", "norm"]),
        ({"norm": False, "nonlinear": False}, ["linear"]),
    ],
)
def test_norm_and_relu_can_be_left_out(options, parts):
    network = feedforward(4, **options)
    assert [name for name, _ in network.layer2.named_children()] == parts
    layers = shown(network, torch.randn(3, 100), "layers")
    assert len(layers) == 4
    assert layers[0] == "input"


def test_alexnet_has_seven_layers_measured_before_the_pooling():
    network = alexnet(width=2)
    expected = ["input", *(f"conv{i}.relu" for i in range(1, 6)), "dense1.relu", "dense2.relu"]
    assert shown(network, images(), "layers") == expected
    assert network.conv1(images()).shape[2:] == (32, 32)


@pytest.mark.parametrize(("depth", "convolutions"), [(11, 8), (13, 10)])
def test_vgg_has_its_number_of_layers(depth, convolutions):
    layers = shown(vgg(depth, width=2), images(), "layers")
    assert len(layers) == 1 + convolutions + 2
    assert layers[-3:] == [f"conv{convolutions}.relu", "dense1.relu", "dense2.relu"]


def test_at_the_papers_width_the_layers_have_the_papers_sizes():
    with torch.device("meta"):
        small, large = alexnet(), vgg(channels=3)
    assert [small.get_submodule(f"conv{i}.conv").out_channels for i in range(1, 6)] == [
        64, 192, 384, 256, 256,
    ]  # fmt: skip
    assert small.conv1.conv.in_channels == 32
    assert small.dense1.linear.weight.shape == (4096, 256 * 4 * 4)
    assert [large.get_submodule(f"conv{i}.conv").out_channels for i in range(1, 11)] == [
        64, 64, 128, 128, 256, 256, 512, 512, 512, 512,
    ]  # fmt: skip
    assert large.conv1.conv.in_channels == 3 * 16
    assert large.dense1.linear.weight.shape == (4096, 512)


def test_networks_of_fang_have_the_papers_sizes():
    with torch.device("meta"):
        residual, large = resnet18(channels=3), vgg(11, kernel=3, copies=1)
    # As in the public code that theirs is taken from: 11.17 million for CIFAR-10.
    assert sum(p.numel() for p in residual.parameters()) == 11_173_962
    assert {m.kernel_size for m in large.modules() if isinstance(m, nn.Conv2d)} == {(3, 3)}
    assert large.conv1.conv.in_channels == 1
    small = resnet18(width=2)
    shapes = [small[: i + 2](images()).shape[1:] for i in range(8)]
    assert shapes == [
        (2, 32, 32), (2, 32, 32), (4, 16, 16), (4, 16, 16), (8, 8, 8), (8, 8, 8), (16, 4, 4),
        (16, 4, 4),
    ]  # fmt: skip
    assert small.head.in_features == 16
    blocks = ["block1:in", *(f"block{i}" for i in range(1, 9))]
    assert shown(small, images(), "blocks") == blocks


def test_repeated_input_is_a_convolution_of_the_repeated_image():
    torch.manual_seed(0)
    layer, x = RepeatedInputConv2d(3, 4, copies=5).double(), images(3, 8).double()
    plain = nn.Conv2d(15, 4, 5, padding=2).double()
    plain.load_state_dict(layer.state_dict())
    ours, theirs = layer(x), plain(x.repeat(1, 5, 1, 1))
    torch.testing.assert_close(ours, theirs)
    (ours**3).sum().backward()
    (theirs**3).sum().backward()
    torch.testing.assert_close(layer.weight.grad, plain.weight.grad)


@pytest.mark.parametrize("kind", ["alexnet", "vgg", "resnet", "resnet18", "lenet"])
@pytest.mark.parametrize("channels", [1, 3])
def test_images_of_any_colours_give_logits_and_gradients(kind, channels):
    options = {"width": 1} if kind in ("alexnet", "vgg", "resnet18") else {}
    network = build(kind, channels=channels, classes=4, **options)
    logits = network(images(channels))
    assert logits.shape == (3, 4)
    logits.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())


@pytest.mark.parametrize("blocks", [(2, 2, 2, 2), (3, 3, 3, 3), (3, 3, 2, 2)])
def test_residual_networks_show_their_layers_and_their_blocks(blocks):
    network = resnet(blocks, size=8)
    assert shown(network, images(size=8), "blocks") == [
        "block1:in",
        *(f"block{i}" for i in range(1, 5)),
    ]
    layers = shown(network, images(size=8), "layers")
    assert len(layers) == 1 + sum(blocks)
    assert layers[blocks[0]] == "block1.relu"


def test_a_block_adds_its_input_to_what_its_layers_make_of_it():
    torch.manual_seed(1)
    block = resnet((3,), size=6).block1.eval()
    x = images(8, 6)
    made = block.steps.norm3(
        block.steps.conv3(
            block.steps.norm2(
                block.steps.conv2(block.steps.norm1(block.steps.conv1(x)).relu())
            ).relu()
        )
    )
    torch.testing.assert_close(block(x), (made + x).relu())
    assert block.steps.conv1.kernel_size == (5, 5)
    assert resnet((2,), size=6).block1.steps.conv1.kernel_size == (3, 3)


def test_the_blocks_of_a_text_encoder_are_found_for_plain_tokens_and_for_dicts():
    network = TextEncoder(3, width=8, heads=2, vocabulary=20)
    ids = torch.tensor([[2, 5, 0, 0], [2, 7, 9, 4], [2, 6, 6, 0]])
    blocks = ["blocks.0:in", "blocks.0", "blocks.1", "blocks.2"]
    assert shown(network, ids, "blocks") == blocks
    assert shown(network, {"input_ids": ids, "attention_mask": ids != 0}, "blocks") == blocks


def test_padding_does_not_change_what_a_text_encoder_says():
    torch.manual_seed(0)
    network = TextEncoder(2, width=8, heads=2, vocabulary=20).eval()
    short = torch.tensor([[2, 5, 9], [2, 7, 3]])
    long = torch.cat([short, torch.zeros(2, 4, dtype=torch.int64)], dim=1)
    with torch.no_grad():
        torch.testing.assert_close(network(short), network(long))
        assert not torch.allclose(network(short), network(torch.tensor([[2, 5, 8], [2, 7, 3]])))


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("resnet50", {}, "no network 'resnet50': did you mean resnet or resnet18"),
        ("feedforward", {"dept": 3}, "no option 'dept': did you mean depth?"),
        ("vgg", {"filters": 3}, "has no option 'filters'"),
        ("feedforward", {"depth": 1}, "at least 2"),
        ("feedforward", {}, "depth or widths"),
        ("feedforward", {"widths": ()}, "at least one hidden layer"),
        ("vgg", {"depth": 16}, "depth must be 11 or 13, got 16"),
        ("vgg", {"size": 28}, "multiple of 32"),
        ("alexnet", {"size": 28}, "multiple of 8"),
        ("lenet", {"size": 30}, "multiple of 4"),
        ("resnet", {"blocks": (2, 4)}, "2 or 3 layers, got 4"),
        ("resnet", {"blocks": ()}, "at least one block"),
        ("text-encoder", {"depth": 0}, "at least 1, got 0"),
        ("text-encoder", {"width": 10, "heads": 4}, "multiple of heads"),
        ("alexnet", {"width": "wide"}, "cannot be built"),
    ],
)
def test_what_cannot_be_built_is_said_in_a_sentence(kind, options, words):
    with pytest.raises(LawscopeError) as caught:
        build(kind, **options)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_every_kind_is_built_by_its_name():
    built = {kind for kind in KINDS if kind != "pretrained-encoder"}
    options = {"feedforward": {"depth": 2}, "alexnet": {"width": 1}, "vgg": {"width": 1}}
    for kind in built:
        assert isinstance(build(kind, **options.get(kind, {})), nn.Module)


def test_naming_the_networks_does_not_import_transformers():
    code = "import sys, lawscope.zoo.networks.catalogue; print('transformers' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_products_of_rotated_positions_tell_their_distance():
    turned = rotate(torch.ones(1, 1, 4, 6))[0, 0]
    torch.testing.assert_close(turned[0] @ turned[2], turned[1] @ turned[3])
