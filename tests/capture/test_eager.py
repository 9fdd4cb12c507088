"""Compiled submodules and fused attention are measured module by module."""

import numpy as np
import pytest
import torch
from tests import oracles
from torch import nn

import lawscope as ls
from lawscope.capture.eager import eager


@pytest.fixture
def labels():
    return torch.arange(60) % 4


def test_a_compiled_submodule_is_measured(labels):
    class Part(nn.Module):
        def __init__(self):
            super().__init__()
            body = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU())
            self.body, self.head = torch.compile(body, backend="eager"), nn.Linear(8, 4)

        def forward(self, x):
            return self.head(self.body(x))

    torch.manual_seed(0)
    net, x = Part(), torch.randn(60, 6) + torch.randn(4, 6)[labels]
    result = ls.separation(net, (x, labels), uncertainty=None)
    assert result.stations == ("input", "body._orig_mod.1", "body._orig_mod.3")
    with torch.no_grad():
        expected = oracles.fuzziness(net.body._orig_mod(x), labels)
    assert result.values[-1] == pytest.approx(expected, rel=1e-4)


class Padded(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 3)
        self.head = nn.Linear(8, 4)

    def forward(self, x, attention_mask):
        return self.head(self.encoder(x, src_key_padding_mask=attention_mask == 0).mean(1))


@pytest.mark.parametrize("stations", ["blocks", "encoder.layers.?"])
def test_padded_sequences_are_measured_without_nested_tensors(labels, stations):
    torch.manual_seed(0)
    net, mask = Padded().eval(), torch.ones(60, 5, dtype=torch.long)
    mask[::3, 3:] = 0
    x = torch.randn(60, 5, 8) + torch.randn(4, 1, 8)[labels]
    outputs = []
    with torch.no_grad(), eager():
        h = x
        for layer in net.encoder.layers:
            h = layer(h, src_key_padding_mask=mask == 0)
            outputs.append((h * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True))
    batch = {"x": x, "attention_mask": mask, "labels": labels}
    result = ls.separation(net, [batch], stations=stations, uncertainty=None)
    expected = [oracles.fuzziness(rows, labels) for rows in outputs]
    np.testing.assert_allclose(result.values[-3:], expected, rtol=1e-4)


@pytest.mark.parametrize("fast", [True, False])
def test_settings_are_put_back_after_an_error(fast):
    def interrupted():
        with eager():
            assert not torch.backends.mha.get_fastpath_enabled()
            raise KeyboardInterrupt

    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(fast)
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert torch.backends.mha.get_fastpath_enabled() == fast
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
