"""The head is found by what it computes, whatever it looks like."""

import pytest
import torch
import torch.nn.functional as F
from tests import cases
from tests.observers import Keep
from torch import nn

import lawscope as ls
from lawscope.capture.head import find_head
from lawscope.capture.session import Session
from lawscope.data.source import Source
from lawscope.errors import NotApplicableError


class Body(nn.Module):
    """Six inputs, five features; what follows is the head under test."""

    def __init__(self):
        super().__init__()
        self.body, self.weight = nn.Linear(6, 5), nn.Parameter(torch.randn(4, 5))
        self.table, self.proj = nn.Embedding(4, 5), nn.Linear(5, 4)

    def features(self, x):
        return torch.relu(self.body(x))


class Cosine(Body):
    def forward(self, x):
        return 16 * F.linear(F.normalize(self.features(x)), F.normalize(self.weight))


class Tied(Body):
    def forward(self, x):
        return self.features(x) @ self.table.weight.T


class TiedByName(Body):
    def forward(self, x):
        return F.linear(input=self.features(x), weight=self.table.weight)


class Tempered(Body):
    def forward(self, x):
        return {"features": self.features(x), "logits": self.proj(self.features(x)) / 0.07}


class TwoHeads(Body):
    def forward(self, x):
        h = self.features(x)
        return self.proj(h), F.linear(h, self.weight)


class TwiceUsed(Body):
    """The head also runs on something else first."""

    def forward(self, x):
        self.proj(-self.features(x))
        return self.proj(self.features(x))


class Overwriting(Body):
    """What entered the head is gone after it."""

    def forward(self, x):
        h = self.features(x)
        logits = self.proj(h)
        h.zero_()
        return logits


class Fully(nn.Module):
    def __init__(self, pool, **conv):
        super().__init__()
        self.body, self.head, self.pool = nn.Conv2d(3, 5, 3), nn.Conv2d(5, 4, 1, **conv), pool

    def forward(self, x):
        return self.pool(self.head(torch.relu(self.body(x))))


class Tokens(nn.Module):
    def __init__(self, choose):
        super().__init__()
        self.body, self.head, self.choose = nn.Linear(8, 5), nn.Linear(5, 4), choose

    def forward(self, x):
        return self.choose(self.head(torch.relu(self.body(x))))


def chain(*last):
    torch.manual_seed(0)  # tables of cases build it while they are collected
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4), *last)


def mean(x):
    return x.mean((2, 3))


def total(x):
    return x.sum((2, 3))


HEADS = {
    "last linear": (chain(), cases.vectors, "2", "linear", ""),
    "a linear network": (nn.Linear(6, 4), cases.vectors, "the network", "linear", ""),
    "no bias": (nn.Sequential(nn.Linear(6, 4, bias=False)), cases.vectors, "0", "linear", ""),
    "log-softmax": (chain(nn.LogSoftmax(1)), cases.vectors, "2", "linear", ""),
    "softmax": (chain(nn.Softmax(1)), cases.vectors, "2", "linear", ""),
    "cosine": (Cosine(), cases.vectors, "linear()", "cosine", ""),
    "tied": (Tied(), cases.vectors, "matmul()", "tied", ""),
    "tied by name": (TiedByName(), cases.vectors, "linear()", "tied", ""),
    "tempered": (Tempered(), cases.vectors, "proj", "linear", ""),
    "twice used": (TwiceUsed(), cases.vectors, "proj", "linear", ""),
    "overwriting": (Overwriting(), cases.vectors, "proj", "linear", ""),
    "fully convolutional": (Fully(mean), cases.images, "head", "1×1 convolution", "mean"),
    "summed": (Fully(total, bias=False), cases.images, "head", "1×1 convolution", "mean"),
    "mean of tokens": (Tokens(lambda x: x.mean(1)), cases.sequences, "head", "linear", "mean"),
    "first token": (Tokens(lambda x: x[:, 0]), cases.sequences, "head", "linear", "first"),
    "last token": (Tokens(lambda x: x[:, -1]), cases.sequences, "head", "linear", "last"),
}


def entering(model, data, name=None):
    session = Session(model, Source(data))
    head = find_head(session, name)
    keep = Keep(head.tap)
    session.run([keep])
    return head, keep.all().double()


def logits(head, features):
    return features @ head.weight.T + (0 if head.bias is None else head.bias)


@pytest.mark.parametrize("case", HEADS)
def test_features_and_head_give_the_output(case):
    model, inputs, name, kind, positions = HEADS[case]
    x, y = inputs(), cases.labels()
    head, features = entering(model, [(x[:17], y[:17]), (x[17:], y[17:])])
    assert (head.name, head.kind, head.positions) == (name, kind, positions)
    with torch.no_grad():
        output = model(x)
    output = output["logits"] if isinstance(output, dict) else output
    found = logits(head, features)
    if head.after:
        assert head.after == case
        found = found.log_softmax(1) if case == "log-softmax" else found.softmax(1)
    assert torch.allclose(found, output.double(), rtol=1e-4, atol=1e-5)
    assert len(head.weight) == 4
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())


@pytest.mark.parametrize("case", cases.CASES, ids=str)
def test_every_network_of_the_table_has_its_head(case):
    model = case.model()
    batches = list(case.batches())
    head, features = entering(model, batches)
    given = {k: v for k, v in batches[0].items() if k != "labels"} if case.name == "bert" else None
    with torch.no_grad():
        model.eval()
        output = model(**given).logits if given else model(batches[0][0])
    assert torch.allclose(logits(head, features)[: len(output)], output.double(), atol=1e-5)


def test_the_last_real_token_of_a_padded_batch():
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        vocab_size=50, n_embd=16, n_layer=1, n_head=2, n_positions=8, num_labels=4, pad_token_id=0
    )
    model = transformers.GPT2ForSequenceClassification(config)
    tokens = cases.tokens()
    tokens["input_ids"] = tokens["input_ids"].clamp(min=1) * tokens["attention_mask"]
    head, features = entering(model, [{**tokens, "labels": cases.labels()}])
    assert (head.name, head.positions) == ("score", "last")
    with torch.no_grad():
        model.eval()
        output = model(**tokens).logits
    assert torch.allclose(logits(head, features), output.double(), atol=1e-5)


def test_half_precision_is_near_enough():
    model = chain().to(torch.bfloat16)
    head, _ = entering(model, [(cases.vectors().to(torch.bfloat16), cases.labels())])
    assert head.name == "2"


def test_of_several_heads_one_must_be_named():
    data = [(cases.vectors(), cases.labels())]
    with pytest.raises(ls.LawscopeError, match=r"2 linear heads .*'proj'.*head="):
        entering(TwoHeads(), data)
    assert entering(TwoHeads(), data, "proj")[0].name == "proj"


@pytest.mark.parametrize(
    ("model", "inputs", "name", "sentence"),
    [
        (chain(nn.ReLU()), cases.vectors, None, r"No linear step .*\(11, 4\).*'2' \(linear 5→4\)"),
        (Fully(lambda x: x.amax((2, 3))), cases.images, None, r"'head' \(conv2d 5→4\)"),
        (nn.ReLU(), cases.vectors, None, "no product with a matrix ran"),
        (nn.Linear(6, 1), cases.vectors, None, "has one row"),
        (chain(), cases.vectors, "4", "no module head='4'"),
        (chain(), cases.vectors, "0", r"No linear step of head='0'.*'0' \(linear 6→5\)"),
    ],
)
def test_what_was_looked_at_is_said(model, inputs, name, sentence):
    torch.manual_seed(0)
    with pytest.raises(ls.LawscopeError, match=sentence):
        entering(model, [(inputs(), cases.labels())], name)


@pytest.mark.parametrize("last", [nn.Softmax(1), nn.LogSoftmax(1)])
def test_one_sample_of_two_classes_does_not_make_a_squashed_head_linear(last):
    torch.manual_seed(0)
    body = [nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 2)]
    single = [(x[None], y[None] % 2) for x, y in zip(cases.vectors(), cases.labels(), strict=True)]
    assert entering(nn.Sequential(*body, last), single)[0].scale == 1.0
    with pytest.raises(ls.LawscopeError, match="No linear step"):
        entering(nn.Sequential(*body, nn.Tanh(), last), single)


def test_a_batch_size_the_network_insists_on():
    insisting = cases.Net(lambda net, x: net.head(x.view(60, 6)), head=nn.Linear(6, 4))
    assert entering(insisting, [(cases.vectors(), cases.labels())])[0].name == "head"


@pytest.mark.parametrize("seed", range(20))
def test_a_squashed_head_is_refused_also_in_batches_of_one(seed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2), nn.ReLU())
    batches = [(torch.randn(1, 4), torch.tensor([k % 2])) for k in range(6)]
    with pytest.raises(NotApplicableError):
        find_head(Session(model, Source(batches)))
    plain = nn.Sequential(*list(model)[:3])
    assert find_head(Session(plain, Source(batches))).name == "2"
