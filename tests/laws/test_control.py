"""The untrained network beside a model of Hugging Face comes from its configuration."""

import pytest
import torch
from torch import nn

import lawscope as ls

transformers = pytest.importorskip("transformers")


class Wrapped(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner, self.last = inner, nn.Linear(3, 3)

    def forward(self, x):
        return self.last(self.inner(x).logits)


@pytest.mark.filterwarnings("ignore::lawscope.errors.LawscopeWarning")
@pytest.mark.parametrize("wrap", [lambda model: model, Wrapped])
def test_a_vision_model_gets_its_control_from_its_configuration(wrap):
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        image_size=8, patch_size=4, num_labels=3,
    )  # fmt: skip
    model = wrap(transformers.ViTForImageClassification(config))
    y = torch.arange(30) % 3
    report = ls.scan(model, (torch.randn(30, 3, 8, 8), y), control="auto")
    assert "control" not in report.skipped
    assert report.separation.control.stations == report.separation.stations
    assert (report.separation.control.values[1:] != report.separation.values[1:]).all()
