import pytest
import torch
from tests import cases
from torch import nn

import lawscope as ls


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
    names = [s.name for s in ls.stations(net, torch.zeros(3, 4)).granularity("layers")]
    assert names == ["input", "1"]


def test_a_linear_network_has_layers_too():
    net = nn.Sequential(*[nn.Linear(4, 4) for _ in range(4)])
    names = [s.name for s in ls.stations(net, torch.zeros(3, 4)).granularity("layers")]
    assert names == ["input", "0", "1", "2"]


def test_a_module_called_several_times_has_a_station_per_call():
    class Loop(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            for _ in range(3):
                x = torch.tanh(self.layer(x))
            return x

    names = ls.stations(Loop(), torch.zeros(3, 4)).names
    assert {"layer", "layer#2", "layer#3", "tanh()", "tanh()#2", "tanh()#3"} <= set(names)


def test_weights_used_as_functions_are_layers():
    class Bare(nn.Module):
        def __init__(self):
            super().__init__()
            self.w1 = nn.Parameter(torch.randn(4, 4))
            self.w2 = nn.Parameter(torch.randn(4, 2))

        def forward(self, x):
            return torch.relu(x @ self.w1) @ self.w2

    names = [s.name for s in ls.stations(Bare(), torch.zeros(3, 4)).granularity("layers")]
    assert names == ["input", "relu()"]


def test_an_own_activation_module_is_one_station():
    class Swish(nn.Module):
        def forward(self, x):
            return x * torch.sigmoid(x)

    net = nn.Sequential(nn.Linear(4, 4), Swish(), nn.Linear(4, 2))
    names = [s.name for s in ls.stations(net, torch.zeros(3, 4)).granularity("layers")]
    assert names == ["input", "1"]


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
    class Padded(nn.Module):
        def __init__(self):
            super().__init__()
            layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
            self.encoder, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(4, 2)

        def forward(self, x, mask):
            return self.head(self.encoder(x, src_key_padding_mask=mask).mean(1))

    example = {"x": torch.randn(3, 5, 4), "mask": torch.arange(5).expand(3, 5) > 3}
    names = [s.name for s in ls.stations(Padded(), example).granularity("layers")]
    parts = ("norm1", "relu()", "norm2")
    assert names == ["input", *(f"encoder.layers.{i}.{part}" for i in (0, 1) for part in parts)]
