"""Charges along training: conserved by gradient flow, and moved by every optimizer in its own way.

``lawscope study run conservation/charges``: the Noether charges of Ziyin et al. 2024 and Kunin et
al. 2021 in a feed-forward network with ReLU, a small residual network and a layer of attention, all
in float64, on 64 random samples of 3 classes, 3 seeds. ``ls.ChargeLedger`` keeps the exact
recursion beside the charges as measured. Gradient descent runs with two learning rates over the
same time ηT: its drift is of first order in η and vanishes in the flow, that of Adam does not. The
drift is the largest change of a charge over Σθ² of its parameters at the start. Blocks with and
without a skip connection are counted by ``ls.completeness``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lawscope as ls
from lawscope.formatting import number
from lawscope.lazy import Tensor, nn, torch
from lawscope.studies.figures import COLOURS, grid, legend_below, plain_axis
from lawscope.studies.panels import collect, each_median, middle, presets, yes_or_no
from lawscope.studies.study import Check, Claim, Figure, Lab, Numbers, Question, Study

MLP, RESNET, ATTENTION = "MLP", "residual network", "attention"
NETWORKS = (MLP, RESNET, ATTENTION)
FULL, FINE, ADAM, FINE_ADAM = "GD", "GD, η/10", "Adam", "Adam, η/10"
# Batch size (None: all samples), how many times fewer and larger steps, torch's optimizer, options.
OPTIMIZERS: dict[str, tuple[int | None, int, str, dict[str, Any]]] = {
    FULL: (None, 1, "SGD", {}),
    FINE: (None, 10, "SGD", {}),
    "SGD": (4, 1, "SGD", {}),
    "SGD, decay": (4, 1, "SGD", {"weight_decay": 0.01}),
    "momentum": (4, 1, "SGD", {"momentum": 0.9}),
    "momentum, decay": (4, 1, "SGD", {"momentum": 0.9, "weight_decay": 0.01}),
    "Nesterov, decay": (4, 1, "SGD", {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    ADAM: (4, 1, "Adam", {}),
    FINE_ADAM: (4, 10, "Adam", {}),
}
RATES = {"SGD": 0.05, "Adam": 0.005}
EXACT = 1e-10
SETTINGS: dict[str, Any] = {"steps": 200, "every": 10, "seeds": 3}
SMOKE = {"steps": 10, "every": 5, "seeds": 1}


def build(name: str) -> nn.Module:
    """Return one of the networks, of inputs (n, 16)."""

    class Residual(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Tensor) -> Tensor:
            moved: Tensor = x + self.inner(x)
            return moved

    class Attention(nn.Module):
        """One head of width 4 on tokens of width 4, with a skip connection."""

        def __init__(self) -> None:
            super().__init__()
            self.q, self.k, self.v, self.o = (nn.Linear(4, 4, bias=False) for _ in range(4))

        def forward(self, x: Tensor) -> Tensor:
            scores = self.q(x) @ self.k(x).transpose(-1, -2) / 2
            return torch.as_tensor(x + self.o(torch.softmax(scores, dim=-1) @ self.v(x)))

    def convolution(before: int) -> nn.Module:
        return nn.Conv2d(before, 4, 3, padding=1)

    def block() -> nn.Module:
        return Residual(nn.Sequential(convolution(4), nn.ReLU(), convolution(4)))

    if name == MLP:
        layers = nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 10), nn.ReLU(), nn.Linear(10, 3)
        return nn.Sequential(*layers)
    if name == RESNET:
        body = convolution(1), nn.ReLU(), block(), nn.ReLU(), block(), nn.ReLU()
        head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)
        return nn.Sequential(nn.Unflatten(1, (1, 4, 4)), *body, *head)
    return nn.Sequential(nn.Unflatten(1, (4, 4)), Attention(), nn.Flatten(), nn.Linear(16, 3))


def follow(network: str, how: str, seed: int, settings: Any) -> Numbers:
    """Train one network and return what its ledger says."""
    batch, finer, kind, options = OPTIMIZERS[how]
    torch.manual_seed(seed)
    model = build(network).double()
    x, y = torch.randn(64, 16, dtype=torch.float64), torch.randint(3, (64,))
    found = ls.find_symmetries(model, x, mode="eval")
    rate = RATES[kind] / finer
    optimizer = getattr(torch.optim, kind)(model.parameters(), lr=rate, **options)
    every = settings["every"] * finer
    with ls.ChargeLedger(model, optimizer, symmetries=found, every=every) as ledger:
        for _ in range(settings["steps"] * finer):
            rows = slice(None) if batch is None else torch.randint(64, (batch,))
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()
    history = ledger.history()
    # A translation is linear: no noise moves it, whatever the optimizer's batches.
    quadratic = [i for i, one in enumerate(found.continuous) if one.kind != "translation"]
    drift = history.drift[:, quadratic].max(axis=1)
    return {
        "network": network, "how": how, "seed": seed, "charges": len(history.names),
        "time": (history.steps / finer).tolist(), "path": [float(f"{v:.5g}") for v in drift],
        "drift": float(drift[-1]), "error": None if kind == ADAM else history.worst,
    }  # fmt: skip


def count() -> list[Numbers]:
    """Count the conserved functions of small blocks, without and with a skip connection."""

    class Block(nn.Module):
        def __init__(self, inner: nn.Module, skip: bool) -> None:
            super().__init__()
            self.inner, self.skip = inner, skip

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.inner(x)
            return x + y if self.skip else y

    makers: dict[str, Callable[[], list[nn.Module]]] = {
        "linear": lambda: [nn.Linear(3, 2, bias=False), nn.Linear(2, 3, bias=False)],
        "ReLU": lambda: [nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3)],
    }
    rows = []
    for name, make in makers.items():
        torch.manual_seed(0)
        found = {
            skip: ls.completeness(
                Block(nn.Sequential(*make()), skip), torch.randn(8, 3), loss="mse"
            )
            for skip in (False, True)
        }
        rows.append({"block": name, "plain": found[False].conserved, "skip": found[True].conserved})
    return rows


def measure(lab: Lab) -> Numbers:
    rows = []
    for network in NETWORKS:
        for how in OPTIMIZERS:
            lab.tell(f"{network}, {how}")
            rows += [follow(network, how, s, lab.settings) for s in range(lab.settings["seeds"])]
    return {"rows": rows, "blocks": count()}


def ratio(over: str, under: str) -> Callable[[Numbers], dict[str, list[float]]]:
    """Return the drift under one optimizer over that under another, seed by seed."""

    def read(numbers: Numbers) -> dict[str, list[float]]:
        drift = {(r["network"], r["how"], r["seed"]): r["drift"] for r in numbers["rows"]}
        found: dict[str, list[float]] = {}
        for network, how, seed in drift:
            if how == over:
                value = drift[network, over, seed] / drift[network, under, seed]
                found.setdefault(network, []).append(value)
        return found

    return read


def table(numbers: Numbers) -> list[list[str]]:
    """Return the drift of charges by optimizer and network, median over seeds."""
    rows = [["optimizer", *(f"drift, {network}" for network in NETWORKS), "largest error"]]
    for how in OPTIMIZERS:
        own = [row for row in numbers["rows"] if row["how"] == how]
        drifts = [
            middle(r["drift"] for r in own if r["network"] == network) for network in NETWORKS
        ]
        errors = [row["error"] for row in own if row["error"] is not None]
        error = number(max(errors)) if errors else "no recursion"
        rows.append([how, *map(number, drifts), error])
    return rows


def figure(numbers: Numbers) -> Figure:
    drawing, axes = grid(1, len(NETWORKS), "Largest drift of a charge", (3.4, 3.2))
    for axis, network in zip(axes[0], NETWORKS, strict=True):
        for index, how in enumerate(OPTIMIZERS):
            own = [r for r in numbers["rows"] if (r["network"], r["how"]) == (network, how)]
            style = "--" if index >= len(COLOURS) else "-"
            color = COLOURS[index % len(COLOURS)]
            for row in own:
                label = how if row is own[0] else None
                axis.plot(row["time"], row["path"], style, color=color, lw=0.8, label=label)
        plain_axis(axis, network, yscale="log")
        axis.set_xlabel("step (tenths are finer)", fontsize=8)
    legend_below(drawing, ncols=5)
    return drawing


STUDY = Study(
    title="Charges along training: exact under SGD, drifting under Adam",
    source="Ziyin et al. 2024; Kunin et al. 2021; Marcotte et al. 2023",
    paper="dC/dt = 0 under gradient flow; under SGD dC/dt = Tr[ΣA]",
    minutes={"smoke": 0.2, "cpu": 2, "paper": 2},
    settings=presets(SETTINGS, smoke=SMOKE),
    measure=measure,
    claims=(
        Claim(
            "gradient flow conserves charges: with a tenth of the rate over the same time the "
            "drift of gradient descent is a fifth or less (ratio)",
            "under continuous-time GD dC/dt = 0",
            ratio(FINE, FULL),
            lambda left: left <= 0.2,
        ),
        Claim(
            "SGD does not conserve charges: its drift is at least twice that of gradient descent "
            "with the same rate",
            "in actual training, which is stochastic, Noether's theorem is no longer applicable",
            ratio("SGD", FULL),
            lambda times: times >= 2,
        ),
    ),
    questions=(
        Question(
            "Does the drift of Adam vanish with its rate, as that of gradient descent does? (a "
            "fifth or less at η/10 of that at η)",
            ratio(FINE_ADAM, ADAM),
            yes_or_no(lambda left: left <= 0.2),
        ),
        Question(
            "Do skip connections add a conserved function? (how many more)",
            collect("blocks", "{block} block", lambda row: row["skip"] - row["plain"]),
            lambda found: "no" if not any(v for each in found.values() for v in each) else "yes",
        ),
        Question(
            "How many charges do the networks have?",
            collect("rows", "{network}", "charges"),
            each_median(),
        ),
    ),
    checks=(
        Check(
            "recursion and measured charges agree to 1e-10 under GD, SGD, decay, momentum and "
            "Nesterov (relative to Σθ²)",
            collect("rows", "{network}, {how}", "error",
                    where=lambda row: row["error"] is not None),
            lambda error: error <= EXACT,
        ),
    ),
    figure=figure,
    table=table,
)  # fmt: skip
