"""Alignment of representations against gradients of single samples, and where it is silent."""

import copy

import numpy as np
import pytest
import torch
from tests import cases, language_models
from torch import nn
from torch.nn import functional as F

import lawscope as ls
from lawscope.capture.session import Session
from lawscope.data.source import Source
from lawscope.laws.alignment.law import ALIGNMENT
from lawscope.theory.representation import RELATIONS, align

CLASSES = cases.CLASSES
ALL = {"positions": 10**6, "keep": True, "null": 2, "heads": False}


def mlp(bias=True):
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(6, 8, bias), nn.Tanh(), nn.Linear(8, 7, bias), nn.ReLU(), nn.Linear(7, CLASSES)
    ).double()


def vectors():
    return cases.vectors().double(), cases.labels()


def each_sample(model, x, y, term, weights=None):
    """Inputs and output gradients of every module call, a sample at a time, by hooks of our own."""
    seen = {}

    def keep(path, x, out):
        gradients = seen.setdefault(path, ([], []))
        gradients[0].append(x.detach())
        out.register_hook(lambda g: gradients[1].append(g.detach()))

    handles = [
        m.register_forward_hook(lambda m, a, o, p=p: keep(p, a[0], o))
        for p, m in model.named_modules()
        if isinstance(m, nn.Linear | nn.Conv2d) or type(m).__name__ == "Conv1D"
    ]
    for i in range(len(y)):
        out = model(x[i : i + 1])
        term(getattr(out, "logits", out), y[i : i + 1]).backward()
    for handle in handles:
        handle.remove()
    return {path: (torch.cat(h), torch.cat(g)) for path, (h, g) in seen.items()}


def second(rows):
    rows = rows.reshape(-1, rows.shape[-1])
    return (rows.T @ rows / len(rows)).numpy()


def moments_of(found, name):
    matrices = found.layer(name).matrices
    return matrices.H_a, matrices.G_b


def sum_of(out, y):
    return F.cross_entropy(out, y, reduction="sum")


def mean_of(out, y):
    return F.cross_entropy(out, y)


def odd_of(out, y):
    """A mean that is nobody's keyword argument."""
    return -out.log_softmax(dim=1).gather(1, y[:, None]).mean() * 3


@pytest.mark.parametrize(
    ("loss", "term"),
    [(mean_of, mean_of), (sum_of, sum_of), (odd_of, odd_of)],
    ids=["mean", "sum", "own"],
)
@pytest.mark.parametrize("size", [60, 7])
def test_gradients_are_those_of_single_samples(loss, term, size):
    model, (x, y) = mlp(), vectors()
    batches = list(zip(x.split(size), y.split(size), strict=True))
    found = ls.alignment(model, batches, loss, **ALL)
    expected = each_sample(model, x, y, term)
    for name in ("0", "2"):
        for ours, theirs in zip(moments_of(found, name), expected[name], strict=True):
            np.testing.assert_allclose(ours, second(theirs), rtol=1e-6, atol=1e-12)
        h, g = expected[name]
        W = model.get_submodule(name).weight.detach()
        C = (g.T @ (h @ W.T) / len(h)).numpy()
        np.testing.assert_allclose(found.layer(name).matrices.cross, C, rtol=1e-6, atol=1e-12)


def test_weights_of_classes_and_ignored_labels_are_undone():
    """The mean weight of the samples is 1, whatever the batches."""
    model, (x, y) = mlp(), vectors()
    weights = torch.tensor([1.0, 2.0, 0.5, 3.0], dtype=torch.float64)
    y = torch.where(torch.arange(60) % 5 == 0, -100, y)
    own = torch.where(y < 0, 0.0, weights[y.clamp(min=0)])
    expected = each_sample(model, x, y.clamp(min=0), mean_of)
    scale = (own / own.mean())[:, None]
    for size in (60, 7):
        batches = list(zip(x.split(size), y.split(size), strict=True))
        found = ls.alignment(model, batches, nn.CrossEntropyLoss(weights), **ALL)
        _, G_b = moments_of(found, "2")
        np.testing.assert_allclose(G_b, second(scale * expected["2"][1]), rtol=1e-6, atol=1e-12)


def test_tokens_are_rows_and_padding_is_not():
    model = language_models.build("gpt2").double()
    ids = torch.cat(language_models.token_batches(batches=2))[:12]
    mask = torch.ones_like(ids)
    mask[::3, -2:] = 0

    def loss(logits, labels):
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())

    labels = torch.where(mask == 0, -100, ids)
    data = [
        {"input_ids": ids[rows], "attention_mask": mask[rows], "labels": labels[rows]}
        for rows in torch.arange(12).split(5)
    ]
    found = ls.alignment(model, data, loss, **ALL)
    name = "transformer.h.0.mlp.c_fc"
    seen = []

    def keep(module, args, out):
        out.register_hook(lambda g: seen.append((args[0].detach(), g)))

    handle = model.get_submodule(name).register_forward_hook(keep)
    out = model(input_ids=ids, attention_mask=mask).logits
    terms = F.cross_entropy(
        out[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), reduction="none", ignore_index=-100
    )
    terms.sum().backward()
    handle.remove()
    ((h, g),) = seen
    real = mask.bool()
    layer = found.layer(name)
    assert layer.rows == int(real.sum())
    np.testing.assert_allclose(layer.matrices.H_a, second(h[real]), rtol=1e-6, atol=1e-12)
    G_b = second(g[real])
    np.testing.assert_allclose(
        layer.matrices.G_b / np.trace(layer.matrices.G_b), G_b / np.trace(G_b), atol=1e-9
    )
    assert layer.matrices.weight.shape == (layer.outputs, layer.inputs)


@pytest.mark.parametrize("groups", [1, 2])
def test_a_convolution_has_a_row_for_every_position(groups):
    torch.manual_seed(0)
    conv = nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 0), dilation=(1, 2), groups=groups)
    model = nn.Sequential(
        nn.Conv2d(3, 4, 1), nn.Tanh(), conv, nn.ReLU(), nn.Flatten(), nn.Linear(6 * 4 * 6, CLASSES)
    ).double()
    x, y = cases.images().double(), cases.labels()
    found = ls.alignment(model, list(zip(x.split(9), y.split(9), strict=True)), mean_of, **ALL)
    h, g = each_sample(model, x, y, mean_of)["2"]
    width, outputs = 4 // groups, 6 // groups
    for group in range(groups):
        part = h[:, group * width : (group + 1) * width]
        unfolded = F.unfold(part, (3, 2), dilation=(1, 2), padding=(1, 0), stride=(2, 1))
        name = "2" if groups == 1 else f"2[{group}]"
        H_a, G_b = moments_of(found, name)
        np.testing.assert_allclose(H_a, second(unfolded.transpose(1, 2)), rtol=1e-6, atol=1e-12)
        own = g[:, group * outputs : (group + 1) * outputs].flatten(2).transpose(1, 2)
        np.testing.assert_allclose(G_b, second(own), rtol=1e-6, atol=1e-12)


class Attention(nn.Module):
    """The four projections written out, with the weights of PyTorch's module."""

    def __init__(self, fused):
        super().__init__()
        d = fused.embed_dim
        self.q, self.k, self.v = (nn.Linear(d, d) for _ in range(3))
        self.o, self.num_heads = nn.Linear(d, d), fused.num_heads
        for part, w, b in zip(
            (self.q, self.k, self.v),
            fused.in_proj_weight.chunk(3),
            fused.in_proj_bias.chunk(3),
            strict=True,
        ):
            part.weight.data, part.bias.data = w.detach().clone(), b.detach().clone()
        self.o.weight.data = fused.out_proj.weight.detach().clone()
        self.o.bias.data = fused.out_proj.bias.detach().clone()

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = (
            part(x).view(b, t, self.num_heads, -1).transpose(1, 2)
            for part in (self.q, self.k, self.v)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(mixed.transpose(1, 2).reshape(b, t, d))


class Reader(nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.first, self.attention, self.head = nn.Linear(8, 8), attention, nn.Linear(8, CLASSES)

    def forward(self, x):
        x = self.first(x)
        if isinstance(self.attention, nn.MultiheadAttention):
            mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
            mixed = self.attention(x, x, x, attn_mask=mask, need_weights=False)[0]
        else:
            mixed = self.attention(x)
        return self.head((x + mixed).mean(dim=1))


@pytest.mark.parametrize("batch_first", [True, False])
def test_projections_of_fused_attention_are_measured_head_by_head(batch_first):
    torch.manual_seed(0)
    fused = Reader(nn.MultiheadAttention(8, 2, batch_first=True)).double()
    written = Reader(Attention(fused.attention)).double()
    written.first, written.head = fused.first, fused.head
    if not batch_first:
        inner = nn.MultiheadAttention(8, 2).double()
        inner.load_state_dict(fused.attention.state_dict())
        run = fused.attention = inner
        forward = run.forward
        run.forward = lambda q, k, v, **more: (
            forward(*(z.transpose(0, 1) for z in (q, k, v)), **more)[0].transpose(0, 1),
        )
    x, y = cases.sequences().double(), cases.labels()
    settings = {**ALL, "heads": True}
    data = list(zip(x.split(11), y.split(11), strict=True))
    ours = ls.alignment(fused, data, mean_of, **settings)
    theirs = ls.alignment(written, data, mean_of, **settings)
    names = [layer.name for layer in ours.layers if "attention" in layer.name]
    assert names == [f"attention.{part}[{head}]" for part in "qkvo" for head in (0, 1)]
    for name in names:
        one, other = ours.layer(name), theirs.layer(name)
        assert one.measured == other.measured == (("G_a",) if ".o[" not in name else ())
        for matrix in ("H_a", "G_b", "G_a", "cross"):
            pair = (getattr(layer.matrices, matrix) for layer in (one, other))
            np.testing.assert_allclose(*pair, rtol=1e-6, atol=1e-12)


def test_where_branches_meet_the_gradient_of_the_input_is_measured():
    torch.manual_seed(0)
    net = cases.Net(
        lambda net, x: net.c(torch.tanh(net.b(z := torch.tanh(net.a(x)))) + z),
        a=nn.Linear(6, 5), b=nn.Linear(5, 5), c=nn.Linear(5, CLASSES),
    ).double()  # fmt: skip
    x, y = vectors()
    found = ls.alignment(net, [(x, y)], mean_of, **ALL)
    assert found.layer("a").measured == ()
    assert found.layer("b").measured == ("G_a",)
    gradients = []
    for i in range(60):
        z = torch.tanh(net.a(x[i : i + 1])).detach().requires_grad_()
        loss = mean_of(net.c(torch.tanh(net.b(z)) + z), y[i : i + 1])
        gradients.append(torch.autograd.grad(loss, z)[0])
    G_a = second(torch.cat(gradients))
    np.testing.assert_allclose(found.layer("b").matrices.G_a, G_a, rtol=1e-6)
    matrices = found.layer("b").matrices
    H_a = matrices.H_a
    assert found.layer("b").raw["backward RGA"] == pytest.approx(align(H_a, G_a), abs=1e-9)


@pytest.mark.parametrize("outputs", [CLASSES, 100])
def test_of_outputs_the_jacobian_is_measured(outputs):
    """Exactly of a few outputs; of many by random signs, whose mean is the Jacobian's moment."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, outputs)).double()
    x, _ = vectors()
    found = ls.alignment(model, [x[:20], x[20:]], gradient="output", **ALL)
    expected = torch.zeros(8, 8, dtype=torch.float64)
    for row in x:
        J = torch.autograd.functional.jacobian(lambda h: model[2](torch.tanh(h)), model[0](row))
        expected += J.T @ J / len(x)
    matrices = found.layer("0").matrices
    close = {"rtol": 1e-9} if outputs <= 64 else {"atol": 0.25 * float(expected.norm())}
    np.testing.assert_allclose(matrices.G_b, expected.numpy(), **close)
    assert found.gradient == "output"
    layer = found.layer("0")
    Z_a = layer.matrices.weight.T @ layer.matrices.weight
    assert layer.raw["backward GWA"] == pytest.approx(align(Z_a, layer.matrices.G_a))


def test_a_training_step_has_no_jacobian():
    session = Session(mlp(), Source([vectors()]), loss=mean_of)
    observer = ALIGNMENT.observe(session, ALIGNMENT.settings(gradient="output"))
    with (
        pytest.raises(ls.LawscopeError, match="not part of a training step"),
        session.attach([observer]),
    ):
        pass
