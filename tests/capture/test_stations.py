"""Stations are found by following the data, whatever its layout."""

import numpy as np
import pytest
import torch
from tests import cases
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import lawscope as ls


def layers(net, example):
    return [s.name for s in ls.stations(net, example).granularity("layers")]


@pytest.mark.parametrize("case", cases.CASES, ids=str)
def test_layers_and_blocks_of_every_case(case):
    found = ls.stations(case.model(), next(case.batches()))
    assert tuple(s.name for s in found.granularity("layers")) == case.layers
    assert tuple(s.name for s in found.granularity("blocks")) == case.blocks


def test_vision_transformer_blocks_start_at_the_embedding():
    case = cases.Case("vit", cases.vision_transformer, cases.images, ())
    found = ls.stations(case.model(), {"pixel_values": cases.images(4)})
    blocks = found.granularity("blocks")
    assert len(blocks) == 3
    assert blocks[0].name.endswith(":in")
    assert all(s.sequence for s in blocks), "patches are tokens, pooled, not flattened"


def test_the_station_table_lists_shapes_and_selectors():
    table = ls.stations(cases.sequential(), torch.zeros(3, 6)).table()
    assert list(table["station"]) == ["input", "0", "1", "2", "3", "4", "5"]
    assert table.loc[3, "completes"] == "0"
    assert table.loc[3, "selected by"] == "layers"
    assert "8" in repr(ls.stations(cases.sequential(), torch.zeros(3, 6)))


def test_logits_and_probabilities_are_no_layer():
    net = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 1), nn.Sigmoid())
    assert layers(net, torch.zeros(3, 4)) == ["input", "1"]


def test_a_linear_network_has_layers_too():
    net = nn.Sequential(*[nn.Linear(4, 4) for _ in range(4)])
    assert layers(net, torch.zeros(3, 4)) == ["input", "0", "1", "2"]


def test_a_module_called_several_times_has_a_station_per_call():
    def loop(net, x):
        for _ in range(3):
            x = torch.tanh(net.layer(x))
        return x

    names = ls.stations(cases.Net(loop, layer=nn.Linear(4, 4)), torch.zeros(3, 4)).names
    assert {"layer", "layer#2", "layer#3", "tanh()", "tanh()#2", "tanh()#3"} <= set(names)


def test_weights_used_as_functions_are_layers():
    weights = {"w1": nn.Parameter(torch.randn(4, 4)), "w2": nn.Parameter(torch.randn(4, 2))}
    bare = cases.Net(lambda net, x: torch.relu(x @ net.w1) @ net.w2, **weights)
    assert layers(bare, torch.zeros(3, 4)) == ["input", "relu()"]


def test_an_own_activation_module_is_one_station():
    swish = cases.Net(lambda net, x: x * torch.sigmoid(x))
    net = nn.Sequential(nn.Linear(4, 4), swish, nn.Linear(4, 2))
    assert layers(net, torch.zeros(3, 4)) == ["input", "1"]


def test_query_key_value_are_not_layers_and_the_query_output_can_be_chosen():
    case = next(c for c in cases.CASES if c.name == "bert")
    found = ls.stations(case.model(), next(case.batches()))
    query = "bert.encoder.layer.0.attention.self.query"
    assert query in found.names
    assert all("query" not in s.name for s in found.granularity("layers"))


def test_conv1d_features_are_flattened_and_linear_sequences_pooled():
    net = nn.Sequential(nn.Conv1d(4, 6, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(30, 2))
    found = ls.stations(net, torch.zeros(2, 4, 5))
    assert [s.sequence for s in found.granularity("layers")] == [False, False]
    net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
    found = ls.stations(net, torch.zeros(2, 5, 4))
    assert [s.sequence for s in found.granularity("layers")] == [True, True]


def test_attention_layers_that_share_a_mask_are_not_parallel():
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    padded = cases.Net(
        lambda net, x, mask: net.head(net.encoder(x, src_key_padding_mask=mask).mean(1)),
        encoder=nn.TransformerEncoder(layer, 2),
        head=nn.Linear(4, 2),
    )
    example = {"x": torch.randn(3, 5, 4), "mask": torch.arange(5).expand(3, 5) > 3}
    names = layers(padded, example)
    parts = ("norm1", "relu()", "norm2")
    assert names == ["input", *(f"encoder.layers.{i}.{part}" for i in (0, 1) for part in parts)]


class TimeFirst(nn.Module):
    """Tokens come first within the encoder, as ``nn.Transformer`` likes them."""

    def __init__(self):
        super().__init__()
        layers = [nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0) for _ in range(3)]
        self.project, self.encoder = nn.Linear(6, 4), nn.ModuleList(layers)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        h = self.project(x).transpose(0, 1)
        for layer in self.encoder:
            h = layer(h)
        return self.head(h.mean(0))


@pytest.mark.parametrize(("batch", "tokens"), [(1, 1), (8, 8), (11, 11), (40, 11), (12, 11)])
def test_as_many_tokens_as_samples(batch, tokens):
    found = ls.stations(TimeFirst(), torch.randn(batch, tokens, 6))
    axes = {s.name: s.batch_dim for s in found}
    assert axes["input"] == axes["project"] == 0
    assert [axes[f"encoder.{i}"] for i in range(3)] == [1, 1, 1]
    assert axes["encoder.0:in"] == 1


def test_separation_does_not_depend_on_the_batch_size():
    torch.manual_seed(0)
    y = torch.arange(64) % 4
    data = TensorDataset(torch.randn(64, 8, 6) + torch.randn(4, 1, 6)[y], y)
    net = TimeFirst()
    eight, twenty = (
        ls.separation(net, DataLoader(data, n), stations="blocks", uncertainty=None)
        for n in (8, 20)
    )
    np.testing.assert_allclose(eight.values, twenty.values, rtol=1e-4)


def test_a_table_with_a_row_per_token_is_no_station():
    net = cases.Net(
        lambda net, ids: net.mlp(net.words(ids) + net.places(torch.arange(11))).mean(1),
        words=nn.Embedding(9, 4),
        places=nn.Embedding(11, 4),
        mlp=nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)),
    )
    names = ls.stations(net, torch.zeros(20, 11, dtype=torch.long)).names
    assert "words" in names
    assert "places" not in names


@pytest.mark.parametrize(("shape", "looks"), [((8, 6), 1), ((20, 3, 6), 1), ((6, 6), 2)])
def test_a_second_look_only_where_the_first_leaves_doubt(shape, looks):
    net = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 2))
    ran = []
    net[1].register_forward_hook(lambda *_: ran.append(1))
    ls.stations(net, torch.randn(shape))
    assert len(ran) == looks


def test_a_network_for_one_batch_size_keeps_the_guess():
    def fixed(net, x):
        return net.b(torch.relu(net.a(x.view(7, 7, 5)))).mean(1)

    net = cases.Net(fixed, a=nn.Linear(5, 5), b=nn.Linear(5, 2))
    found = ls.stations(net, torch.randn(7, 7, 5))
    assert {s.name: s.batch_dim for s in found}["relu()"] == 0


def test_module_names_that_cannot_be_printed_are_escaped(tmp_path):
    net = nn.Sequential()
    for name, part in zip("abcd", cases.sequential(), strict=False):
        net.add_module(f"{name}\ud800", part)
    assert ls.stations(net, cases.vectors()).names[:2] == ("input", "a\\ud800")
    report = ls.scan(net, (cases.vectors(), cases.labels() % 3), head="a\ud800")
    for name in ("report.json", "report.html", "report.md"):
        report.save(tmp_path / name)
    assert ls.load(tmp_path / "report.json").separation.stations == report.separation.stations
    str(report.separation.table()).encode()
