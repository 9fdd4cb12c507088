"""Alignment of representations against gradients of single samples, and where it is silent."""

import copy
import dataclasses

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch
from scipy.stats import ortho_group, t
from tests import cases, language_models
from torch import nn
from torch.nn import functional as F

import lawscope as ls
from lawscope.capture.linear import find_linear_layers
from lawscope.capture.session import Session
from lawscope.data.source import Source
from lawscope.laws.alignment.law import ALIGNMENT
from lawscope.laws.alignment.measure import (
    Moments,
    align_cross,
    measure_cross,
    measure_excess,
    measure_layer,
)
from lawscope.laws.alignment.result import LayerAlignment
from lawscope.laws.alignment.sketch import find_directions
from lawscope.laws.alignment.verdict import judge
from lawscope.laws.population import jackknife
from lawscope.statistics.fold_moments import FoldMoments
from lawscope.theory.representation import (
    PHASES,
    RELATIONS,
    align,
    compute_alignments,
    fit_exponents,
    make_layer,
)
from lawscope.theory.representation.singular import SingularLayer

CLASSES = cases.CLASSES
ALL = {"positions": 10**6, "samples": 10**6, "keep": True, "null": 2, "heads": False}


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


def test_collapse_is_spoken_of_where_the_layer_that_scores_classes_was_measured():
    for layers, expected in ((None, False), ("*", True)):
        found = ls.alignment(mlp(), vectors(), nn.CrossEntropyLoss(), layers=layers)
        assert any("Neural collapse" in f for f in found.section().findings) is expected


def test_the_mlp_of_a_block_has_no_heads():
    """GPT-2 calls its last layer c_proj, as the output of attention beside it."""
    layers = find_linear_layers(Session(language_models.build("gpt2"), Source(gpt2_text())))
    heads = {layer.name: layer.heads for layer in layers if layer.name.endswith("c_proj")}
    assert {name for name, found in heads.items() if found} == {n for n in heads if "attn" in n}


def gpt2_text():
    return [{"input_ids": ids} for ids in language_models.token_batches(batches=2)]


def test_a_text_without_labels_has_the_next_tokens_as_labels():
    model, loss = language_models.build("gpt2"), nn.CrossEntropyLoss()
    plain = ls.alignment(model, gpt2_text(), loss, null=2)
    with pytest.warns(ls.LawscopeWarning, match="tokens for 16 features"):
        both = ls.scan(model, gpt2_text(), loss=loss, settings={"alignment": {"null": 2}})
    for other in (ls.alignment(model, iter(gpt2_text()), loss, null=2), both.alignment):
        for one, two in zip(plain.layers, other.layers, strict=True):
            assert one.raw == two.raw


@pytest.mark.filterwarnings("ignore::lawscope.LawscopeWarning")
def test_labels_that_are_tokens_need_scores_of_tokens_and_a_loss_of_them():
    ids = torch.randint(1, language_models.VOCABULARY, (8, 6))
    batches = [{"input_ids": ids, "labels": ids}]
    model = language_models.build("gpt2")

    def shifted(scores, tokens):
        return F.cross_entropy(scores[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())

    with pytest.raises(ls.LawscopeError, match=r"tokens that follow \(n,\), already shifted"):
        ls.scan(model, batches, loss=shifted)
    assert "alignment" in ls.scan(model, batches, loss=F.cross_entropy).results
    pooled = cases.Net(
        lambda net, input_ids: net.head(net.words(input_ids).mean(dim=1)),
        words=nn.Embedding(language_models.VOCABULARY, 5), head=nn.Linear(5, 3),
    )  # fmt: skip
    with pytest.raises(ls.LawscopeError, match=r"one for each position \(8, 6\), .* \(8, 3\)"):
        ls.scan(pooled, batches, loss=F.cross_entropy)


def test_an_output_may_be_one_number_for_each_sample():
    model, (x, y) = nn.Sequential(*mlp()[:3], nn.Linear(7, 1).double(), nn.Flatten(0)), vectors()
    y, loss = (y > 1).double(), nn.BCEWithLogitsLoss()
    found = ls.alignment(model, (x, y), loss, **ALL)
    expected = each_sample(model, x, y, loss)
    for ours, theirs in zip(moments_of(found, "2"), expected["2"], strict=True):
        np.testing.assert_allclose(ours, second(theirs), rtol=1e-6, atol=1e-12)


class Attending(nn.Module):
    """Attention beside a residual branch, so that queries send back little of the gradient."""

    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(10, 24), nn.Linear(24, 4)
        self.attention = nn.MultiheadAttention(24, 4, batch_first=True)

    def forward(self, x):
        h = self.first(x)
        return self.last((h + self.attention(h, h, h, need_weights=False)[0]).mean(dim=1))


def test_queries_of_an_untrained_network_align_as_random_rotations_do():
    torch.manual_seed(0)
    model, x, y = Attending().double(), torch.randn(200, 6, 10).double(), torch.arange(200) % 4
    found = ls.alignment(model, (x, y), nn.CrossEntropyLoss(), heads=False)
    for name in ("attention.q", "attention.k"):
        layer = found.layer(name)
        assert layer.measured == ("G_a",)
        null = layer.null["backward GWA"]
        assert abs(layer.raw["backward GWA"] - null.mean) < 4 * null.sd


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


def train(model, batches, watch=None, scale=1.0, share=1):
    """A training loop with a loss that is scaled, and gradients of several batches added up."""
    sgd = torch.optim.SGD(model.parameters(), lr=1e-3)
    for i, (x, y) in enumerate(batches):
        if watch is not None:
            watch.labels(y)
        (scale * mean_of(model(x), y) / share).backward()
        if i % share == share - 1:
            for p in model.parameters():
                p.grad /= scale
            sgd.step()
            sgd.zero_grad()


@pytest.mark.parametrize(("scale", "share"), [(1.0, 1), (2.0**16, 1), (1.0, 3), (1024.0, 3)])
def test_a_training_loop_may_scale_its_loss_and_add_gradients_up(scale, share):
    (x, y), size = vectors(), 10
    batches = list(zip(x.split(size), y.split(size), strict=True))
    watched, alone = mlp(), mlp()
    session = Session(watched, Source(batches), loss=mean_of)
    observer = ALIGNMENT.observe(session, ALIGNMENT.settings(**ALL))
    with session.attach([observer]) as watch:
        train(watched, batches, watch, scale, share)
    train(alone, batches, None, scale, share)
    for ours, theirs in zip(watched.parameters(), alone.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    assert not any(m._forward_hooks for m in watched.modules())
    # The same steps again, and gradients of single samples before each.
    model, rows = mlp(), {"0": [], "2": []}
    sgd = torch.optim.SGD(model.parameters(), lr=1e-3)
    for i, (x, y) in enumerate(batches):
        for name, (_, g) in each_sample(copy.deepcopy(model), x, y, mean_of).items():
            if name in rows:
                rows[name].append(g)
        (mean_of(model(x), y) / share).backward()
        if i % share == share - 1:
            sgd.step()
            sgd.zero_grad()
    found = observer.result()
    for name, gradients in rows.items():
        _, G_b = moments_of(found, name)
        np.testing.assert_allclose(G_b, second(torch.cat(gradients)), rtol=1e-6, atol=1e-12)
        layer = found.layer(name)
        assert layer.rows == 60
        W = watched.get_submodule(name).weight.detach().numpy()
        assert np.array_equal(layer.matrices.weight, W)
    assert found.settings["reduction"] == "mean, undone"


def test_only_every_other_batch_of_a_loop_is_read():
    (x, y), seen = vectors(), {}
    batches = list(zip(x.split(10), y.split(10), strict=True))
    for every in (1, 2, 4):
        model = mlp()
        session = Session(model, Source(batches), loss=mean_of)
        observer = ALIGNMENT.observe(session, ALIGNMENT.settings(every=every, **ALL))
        with session.attach([observer]) as watch:
            train(model, batches, watch)
        seen[every] = observer.result().layers[0].rows
    assert seen == {1: 60, 2: 30, 4: 20}


def test_of_large_batches_some_samples_are_read():
    (x, y), model = vectors(), mlp()
    session = Session(model, Source([(x, y)]), loss=mean_of)
    settings = ALIGNMENT.settings(**{**ALL, "samples": 7})
    observer = ALIGNMENT.observe(session, settings)
    with session.attach([observer]) as watch:
        train(model, [(x, y)], watch)
    chosen = torch.linspace(0, 59, 7).round().long()
    found = observer.result()
    expected = each_sample(mlp(), x[chosen], y[chosen], mean_of)["0"]
    for ours, theirs in zip(moments_of(found, "0"), expected, strict=True):
        np.testing.assert_allclose(ours, second(theirs), rtol=1e-6, atol=1e-12)


def test_without_a_loss_or_labels_gradients_are_taken_as_they_come():
    (x, y), model = vectors(), mlp()
    session = Session(model, Source([(x, y)]), loss=None)
    observer = ALIGNMENT.observe(session, ALIGNMENT.settings(**ALL))
    with session.attach([observer]):
        train(model, [(x, y)])
    found = observer.result()
    assert found.settings["reduction"] == "as the loop gives it"
    expected = ls.alignment(mlp(), [(x, y)], mean_of, **ALL)
    ours, theirs = (moments_of(each, "0")[1] for each in (found, expected))
    np.testing.assert_allclose(ours * 60**2, theirs, rtol=1e-6)


def test_validation_inside_a_loop_is_not_counted():
    (x, y), model = vectors(), mlp()
    session = Session(model, Source([(x, y)]), loss=mean_of)
    observer = ALIGNMENT.observe(session, ALIGNMENT.settings(**ALL))
    with session.attach([observer]) as watch:
        with torch.no_grad():
            model(x)
        model(x)  # no backward pass
        train(model, [(x, y)], watch)
    assert observer.result().layers[0].rows == 60


def test_a_wide_layer_is_measured_in_the_directions_of_its_weight():
    """With W of small rank nothing is lost but the part of H_a, or of G_b, that W does not read."""
    torch.manual_seed(0)
    layers = [nn.Linear(6, 30), nn.Tanh(), nn.Linear(30, 5), nn.Tanh(), nn.Linear(5, CLASSES)]
    model, (x, y) = nn.Sequential(*layers).double(), vectors()
    settings = {**ALL, "measure": "cosine"}
    whole = ls.alignment(model, [(x, y)], mean_of, **settings)
    with pytest.warns(ls.LawscopeWarning, match="too wide to be measured whole"):
        found = ls.alignment(
            model, [(x[:20], y[:20]), (x[20:], y[20:])], mean_of, width=8, **settings
        )
    for name, exact, partial in (
        ("0", ("backward RGA", "backward RWA", "backward GWA", "forward RWA"), "forward GWA"),
        ("2", ("backward GWA", "forward RGA", "forward RWA", "forward GWA"), "backward RWA"),
    ):
        ours, theirs = found.layer(name), whole.layer(name)
        for relation in exact:
            assert ours.raw[relation] == pytest.approx(theirs.raw[relation], abs=1e-9)
        assert ours.held.weight == pytest.approx(1)
        # What is outside makes the matrix larger and meets nothing of Z.
        side = "G_b" if partial.startswith("forward") else "H_a"
        sizes = [np.linalg.norm(getattr(each.matrices, side)) for each in (ours, theirs)]
        share = sizes[0] / sizes[1]
        assert ours.raw[partial] * share == pytest.approx(theirs.raw[partial], abs=1e-9)
        traces = [np.trace(getattr(each.matrices, side)) for each in (ours, theirs)]
        held = ours.held.gradient if side == "G_b" else ours.held.representation
        assert held == pytest.approx(traces[0] / traces[1])
    narrow = find_directions(model[2].weight.detach().T, 3)
    _, _, right = torch.linalg.svd(model[2].weight.detach().T, full_matrices=False)
    projector = narrow @ narrow.T
    assert torch.linalg.matrix_norm(projector - right[:3].T @ right[:3]) < 0.2


def test_bad_input_is_a_sentence():
    model, (x, y) = mlp(), vectors()
    relu = nn.Sequential(nn.Flatten(), nn.ReLU())
    for model_, loss, settings, words in (
        (model, None, {}, "alignment needs a loss; pass loss="),
        (model, mean_of, {"layers": "3"}, "'3' is a ReLU without a weight matrix"),
        (model, mean_of, {"layers": "nothing"}, "No layer matches 'nothing'"),
        (model, mean_of, {"layers": []}, "layers=.* is not known"),
        (model, mean_of, {"subtract_initial": mlp()}, "needs kappa=: weight decay shrinks"),
        (model, mean_of, {"kappa": 0.5}, "kappa= is of subtract_initial="),
        (model, mean_of, {"subtract_initial": 3, "kappa": 1}, "is not a network"),
        (model, mean_of, {"subtract_initial": {}, "kappa": 1}, "not a state dict of this network"),
        (model, mean_of, {"subtract_initial": mlp(), "kappa": 2}, "not a number from 0 to 1"),
        (model, mean_of, {"memory": "1kB"}, "need .* more than memory=1 kB; the widest is '2'"),
        (relu, lambda out, y: out.square().mean(), {}, "no layer with a weight matrix"),
        (model, contrast, {}, "neither a mean nor a sum over samples"),
    ):
        with pytest.raises(ls.LawscopeError, match=words):
            ls.alignment(model_, [(x, y)], loss, **settings)
    norm = nn.Sequential(nn.Linear(6, 5), nn.BatchNorm1d(5), nn.Linear(5, CLASSES)).double()
    with pytest.raises(ls.LawscopeError, match="a sample has no gradient of its own"):
        ls.alignment(norm, [(x, y)], mean_of, mode="train")
    bad = mlp()
    bad[2].weight.data[0, 0] = torch.nan
    with pytest.raises(ls.LawscopeError, match="NaN or infinite"):
        ls.alignment(bad, [(x, y)], mean_of)


def contrast(out, y):
    """Every sample against every other."""
    return torch.logsumexp(out @ out.T, dim=1).mean()


def test_layers_without_gradients_say_so_and_others_are_measured():
    (x, y) = vectors()
    branch = cases.Net(
        lambda net, x: net.c(torch.tanh(net.a(x))) + 0 * net.b(x).sum().detach(),
        a=nn.Linear(6, 5), b=nn.Linear(6, 5), c=nn.Linear(5, CLASSES),
    ).double()  # fmt: skip
    found = ls.alignment(branch, [(x, y)], mean_of)
    assert found.layer("a").missing == ""
    assert "does not depend on it" in found.layer("b").missing
    assert any("Without numbers: 'b'" in words for words in found.section().findings)
    nothing = ls.alignment(mlp(), [(x, y)], lambda out, y: (out * 0).mean())
    assert nothing.verdict == "cannot be told"
    assert "gradients are all zero" in nothing.reason
    plotted = nothing.section()
    assert plotted.charts
    nothing.table()


def test_frozen_tied_and_reused_layers_are_measured():
    (x, y), frozen = vectors(), mlp()
    for p in frozen[:3].parameters():
        p.requires_grad_(False)
    ours, theirs = (ls.alignment(m, [(x, y)], mean_of, **ALL) for m in (frozen, mlp()))
    assert numbers(ours) == numbers(theirs)
    assert not frozen[0].weight.requires_grad
    tied = cases.Net(
        lambda net, x: net.head(torch.tanh(net.a(torch.tanh(net.a(x))))),
        a=nn.Linear(6, 6), head=nn.Linear(6, CLASSES),
    ).double()  # fmt: skip
    found = ls.alignment(tied, [(x, y)], mean_of, **ALL)
    assert [layer.name for layer in found.layers] == ["a", "a#2"]
    first, again = (
        second(g) for g in each_sample(tied, x, y, mean_of)["a"][1].view(60, 2, 6).unbind(1)
    )
    # Backward hooks meet the second use first.
    np.testing.assert_allclose(found.layer("a#2").matrices.G_b, first, rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(found.layer("a").matrices.G_b, again, rtol=1e-6, atol=1e-12)


def numbers(found):
    return [layer.raw for layer in found.layers]


def test_few_samples_and_spectra_of_rank_one_are_said():
    (x, y) = vectors()
    with pytest.warns(ls.LawscopeWarning, match="fewer rows were seen than they have dimensions"):
        few = ls.alignment(mlp(), [(x[:5], y[:5])], mean_of)
    assert few.verdict == "cannot be told"
    assert "5 rows are fewer than the dimensions of 2 of 2 layers" in few.reason
    one = mlp()
    one[2].weight.data = torch.outer(torch.ones(7), torch.arange(1.0, 9)).double()
    layer = ls.alignment(one, [(x, y)], mean_of).layer("2")
    assert layer.exponents is None
    assert "exponents need at least 3" in layer.phase.reason
    assert layer.phase.name == ""


def test_what_training_added_is_compared_with_what_decay_left_of_the_beginning():
    (x, y), model, start = vectors(), mlp(), mlp()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p))
    for initial in (start, start.state_dict()):
        found = ls.alignment(model, [(x, y)], mean_of, subtract_initial=initial, kappa=0.3, **ALL)
        layer = found.layer("2")
        matrices = layer.matrices
        change = (model[2].weight - 0.3 * start[2].weight).detach().numpy()
        assert layer.raw["backward RWA"] == pytest.approx(align(matrices.H_a, change.T @ change))
        W = model[2].weight.detach().numpy()
        assert layer.raw["backward GWA"] == pytest.approx(
            align(W.T @ matrices.G_b @ W, change.T @ change)
        )
    assert found.initial == "W − 0.3·W₀"


@pytest.mark.parametrize("moments", ["centred", "unit"])
def test_centred_and_unit_moments(moments):
    (x, y), model = vectors(), mlp()
    batches = list(zip(x.split(13), y.split(13), strict=True))
    found = ls.alignment(model, batches, mean_of, moments=moments, **ALL).layer("2")
    h, g = each_sample(model, x, y, mean_of)["2"]
    W = model[2].weight.detach()
    rows = {"H_a": h, "G_b": g, "H_b": h @ W.T, "G_a": g @ W}
    for name, own in rows.items():
        own = F.normalize(own, dim=1) if moments == "unit" else own
        expected = np.cov(own.numpy().T, bias=True)
        np.testing.assert_allclose(getattr(found.matrices, name), expected, rtol=1e-6, atol=1e-12)
    assert found.measured == (("H_b", "G_a") if moments == "unit" else ())


def test_embedding_and_head_on_request():
    model = cases.Net(
        lambda net, ids: net.head(torch.tanh(net.a(net.embed(ids).mean(1)))),
        embed=nn.Embedding(11, 6), a=nn.Linear(6, 5), head=nn.Linear(5, CLASSES),
    ).double()  # fmt: skip
    ids, y = (
        torch.randint(0, 11, (60, 4), generator=torch.Generator().manual_seed(0)),
        cases.labels(),
    )
    default = ls.alignment(model, [(ids, y)], mean_of, **ALL)
    assert [layer.name for layer in default.layers] == ["a"]
    found = ls.alignment(model, [(ids, y)], mean_of, layers=["embed", "head"], **ALL)
    embed = found.layer("embed")
    assert (embed.inputs, embed.outputs, embed.rows) == (11, 6, 240)
    shares = torch.bincount(ids.flatten(), minlength=11) / ids.numel()
    np.testing.assert_allclose(embed.matrices.H_a, np.diag(shares.numpy()), atol=1e-6)
    assert np.array_equal(embed.matrices.weight, model.embed.weight.detach().T.numpy())


def test_intervals_narrow_as_samples_grow_and_hold_what_more_samples_give():
    torch.manual_seed(0)
    model = mlp()
    x, y = torch.randn(4000, 6, dtype=torch.float64), torch.randint(0, CLASSES, (4000,))
    x[:, 0] += y
    large = ls.alignment(model, (x, y), mean_of)
    small = ls.alignment(model, (x[:400], y[:400]), mean_of)
    held = total = 0
    for ours, theirs in zip(small.layers, large.layers, strict=True):
        values = {**theirs.excess, "cross": theirs.cross.alignment, "p": theirs.exponents.p}
        for name, value in values.items():
            low, high = ours.interval[name]
            held += low <= value <= high
            total += 1
        for name in ("cross", "p", "q"):  # those of alignments hold the spread of the null too
            widths = [np.diff(each.interval[name])[0] for each in (ours, theirs)]
            assert widths[0] > widths[1]
    assert held >= 0.85 * total


def test_cross_moment_null_is_that_of_random_rotations():
    rng = np.random.default_rng(0)
    C, root = rng.normal(size=(6, 6)), rng.normal(size=(6, 3))
    Z, S = root @ root.T, -(C + C.T) / 2
    found = measure_cross(C, Z)
    drawn = []
    for Q in ortho_group.rvs(6, size=4000, random_state=1):
        drawn.append(np.vdot(Q @ S @ Q.T, Z) / np.linalg.norm(S) / np.linalg.norm(Z))
    assert found.null.mean == pytest.approx(np.mean(drawn), abs=0.015)
    assert found.null.sd == pytest.approx(np.std(drawn), rel=0.05)
    # At stationarity C = −λWWᵀ exactly.
    rest = measure_cross(-0.01 * Z, Z)
    assert rest.alignment == pytest.approx(1)
    assert rest.decay == pytest.approx(0.01)
    assert rest.asymmetry == 0


@pytest.mark.parametrize("shape", [(6, 4), (4, 6)])
def test_the_cross_moment_of_a_fold_is_read_in_the_singular_basis(shape):
    rng = np.random.default_rng(1)
    X, W, change = (rng.normal(size=shape) for _ in range(3))
    for learned in (None, change):
        acting = W if learned is None else learned
        expected = measure_cross(X @ W.T, acting @ acting.T).alignment
        assert align_cross(SingularLayer(W, learned), X) == pytest.approx(expected, rel=1e-9)


def test_intervals_are_those_of_a_jackknife_over_whole_matrices():
    moments = made_up("8", d=6, n=400)
    W, change = moments.weight, np.random.default_rng(2).normal(size=(6, 6))
    kept = {"H_b": moments.inputs, "G_a": moments.gradients}  # as if these had been measured
    for more, learned in (({}, None), (kept, None), ({}, change), (kept, change)):
        given = dataclasses.replace(
            moments, change=learned, outputs=more.get("H_b"), sent_back=more.get("G_a")
        )
        found = measure_layer(given, measure="pearson", draws=4)
        table = []
        for fold in (None, *range(8)):
            H_a, G_b = (m.moment(False, fold).numpy() for m in (moments.inputs, moments.gradients))
            extra = {name: m.moment(False, fold).numpy() for name, m in more.items()}
            raw = compute_alignments(W, H_a, G_b, change=learned, **extra)
            fit = fit_exponents(W if learned is None else learned, H_a, G_b)
            table.append([*measure_excess(raw, found.null).values(), fit.p, fit.q])
        ratios = np.full(8, 8.0)
        errors = jackknife(np.array(table), ratios, ratios / (ratios - 1)).error
        spread = [1.96 * null.sd / (1 - null.mean) for null in found.null.values()]
        half = np.hypot(t.ppf(0.975, 7) * errors, [*spread, 0, 0])
        for name, value, width in zip([*RELATIONS, "p", "q"], table[0], half, strict=True):
            assert found.interval[name] == pytest.approx((value - width, value + width), rel=1e-9)


def made_up(phase, d=12, n=40_000):
    """The moments of a layer in a phase, as if gathered from Gaussian rows."""
    W, H_a, G_b = make_layer(phase, d, seed=3)
    rng = np.random.default_rng(0)
    h, g = (torch.from_numpy(rng.normal(size=(n, d)) @ np.linalg.cholesky(M).T) for M in (H_a, G_b))
    sums = FoldMoments(d, 8), FoldMoments(d, 8), FoldMoments(d, 8, d)
    folds = torch.arange(n) % 8
    for stat, args in zip(sums, ((h, folds), (g, folds), (g, folds, h)), strict=True):
        stat.update(*args)
    return Moments(W, None, False, False, *(stat.compute() for stat in sums))


@pytest.mark.parametrize("phase", ["4", "5", "6", "7", "8", "9", "backward CRH", "forward CRH"])
def test_a_layer_of_every_phase_is_recognised(phase):
    found = measure_layer(made_up(phase), measure="pearson", draws=10)
    assert found.phase.name == phase
    p, q = PHASES[phase].point
    assert found.interval["p"][0] - 0.02 <= p <= found.interval["p"][1] + 0.02
    assert found.interval["q"][0] - 0.02 <= q <= found.interval["q"][1] + 0.02
    layer = as_layer(found)
    assert layer.state == "phase"
    certain = set(layer.certain)
    assert set(PHASES[phase].relations) - NEAR_NULL <= certain


NEAR_NULL = {"backward GWA", "forward RWA"}  # of which random rotations leave much


def as_layer(found, name="a", rows=40_000, inputs=12, outputs=12, **changes):
    fields = {f.name: getattr(found, f.name) for f in dataclasses.fields(found)}
    return LayerAlignment(name=name, rows=rows, inputs=inputs, outputs=outputs, **fields | changes)


def test_the_verdict_follows_its_rule():
    base = measure_layer(made_up("8"), measure="pearson", draws=4)
    yes = as_layer(base, interval=dict.fromkeys(RELATIONS, (0.2, 0.9)))
    no = as_layer(base, interval={**yes.interval, "forward RGA": (-0.2, 0.05)})
    open_ = as_layer(base, interval={**yes.interval, "forward RGA": (-0.2, 0.5)})
    assert (yes.canonical, no.canonical, open_.canonical) == (True, False, None)
    assert judge([yes, yes, no])[0] == "holds"
    assert judge([yes, no])[0] == "does not hold"
    assert judge([yes, open_])[0] == "cannot be told"
    # Powers of one matrix correlate: a phase says more than that all six are above their null.
    assert (yes.state, no.state) == ("phase", "phase")
    bare = {"phase": base.phase._replace(name="")}
    assert [as_layer(base, **bare, interval=each.interval).state for each in (yes, no, open_)] == [
        "CRH", "neither", "cannot be told",
    ]  # fmt: skip
    few = as_layer(base, rows=5)
    assert few.canonical is None
    assert few.state == "cannot be told"


def test_advice_is_bound_to_the_rank_of_what_a_layer_gives_out():
    torch.manual_seed(0)
    x, y = torch.randn(600, 20), torch.arange(600) % CLASSES
    x[:, :CLASSES] += 6 * F.one_hot(y, CLASSES)
    layers = [nn.Linear(20, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, CLASSES)]
    model = nn.Sequential(*layers)
    untrained = copy.deepcopy(model)
    adam = torch.optim.AdamW(model.parameters(), 1e-2, weight_decay=0.5)
    for _ in range(150):
        adam.zero_grad()
        mean_of(model(x), y).backward()
        adam.step()
    found = ls.alignment(model, (x, y), mean_of, control=untrained, null=4)
    assert found.learned
    assert found.layer("2").rank_out <= 20
    assert "Cut weights" in found.advice[0]
    assert f"'2' to rank {found.layer('2').rank_out} of 40" in found.advice[0]
    assert not ls.alignment(untrained, (x, y), mean_of, null=4).advice
    # The advice is worth something: the layer cut to that rank does the same.
    H_b = ls.alignment(model, (x, y), mean_of, keep=True, null=2).layer("2").matrices.H_b
    top = torch.from_numpy(np.linalg.eigh(H_b)[1][:, -found.layer("2").rank_out :].copy()).float()
    before = mean_of(model(x), y)
    model[2].weight.data = top @ top.T @ model[2].weight.data
    assert (model(x).argmax(1) == y).float().mean() > 0.95
    assert before < 0.5


def test_the_recorder_writes_down_the_numbers_of_every_step():
    (x, y), model = vectors(), mlp()
    records = ls.Records([ls.AlignmentRecorder(every=2, samples=40, null=2)], x, y)
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        sgd.zero_grad()
        loss = mean_of(model(x), y)
        loss.backward()
        before = [p.grad.clone() for p in model.parameters()]
        records.note(model, (x, y), loss.detach())
        assert all(torch.equal(p.grad, g) for p, g in zip(model.parameters(), before, strict=True))
        sgd.step()
    (found,) = records.tensors().values()
    assert found["step"].tolist() == [0, 2]
    assert found["raw"].shape == found["excess"].shape == (2, 2, 6)
    rows = torch.linspace(0, 59, 40).round().long()
    first = ls.alignment(mlp(), (x[rows], y[rows]), mean_of, null=2)
    expected = [[layer.excess[name] for name in RELATIONS] for layer in first.layers]
    np.testing.assert_allclose(found["excess"][0], expected)
    assert found["exponents"].shape == (2, 2, 2)
    assert found["cross"].shape == (2, 2)


def test_pictures_and_tables_show_every_layer():
    found = ls.alignment(mlp(), vectors(), mean_of, control="auto", null=2)
    section = found.section()
    excess, *panels, phases = section.charts
    assert list(excess.names) == list(RELATIONS)
    assert [list(panel.names) for panel in panels] == [
        ["measured", "random rotations", "untrained"]
    ] * 6
    assert len(phases.regions) == 8
    assert phases.values[0] == pytest.approx(
        [found.layers[0].exponents.p, found.layers[0].exponents.q]
    )
    for table in section.tables:
        assert {len(row) for row in table.rows} == {len(table.columns)}
        assert [row[0] for row in table.rows] == ["0", "2"]
    figure = found.plot_panels()
    assert len(figure.axes) == 6
    plt.close(figure)
    plt.close(found.plot_phases().figure)


def test_the_root_of_a_mean_joins_its_samples_otherwise():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
    x, y = torch.randn(60, 4), torch.randn(60, 2)

    def squared(output, target):
        return (output - target).square().mean()

    assert ls.alignment(net, (x, y), squared).layers[0].rows == 60
    with pytest.raises(ls.LawscopeError, match="root of a mean"):
        ls.alignment(net, (x, y), lambda output, target: squared(output, target).sqrt())
