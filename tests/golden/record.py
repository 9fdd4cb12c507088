"""Record every number of today's answers, or compare with those recorded.

python -m tests.golden.record --write | --check    half a minute
"""

import argparse
import json
import re
import sys
import warnings
from pathlib import Path

import numpy as np
import torch
from tests import cases, language_models
from tests.golden import pickers
from threadpoolctl import threadpool_limits

import lawscope as ls
from lawscope.studies import registry
from lawscope.studies.lab import Lab
from lawscope.theory.layer_peeled.layers import peel_layers
from lawscope.theory.layer_peeled.q_norm import peel_q_norm
from lawscope.zoo.networks.language import gpt

FOLDER = Path(__file__).parent
# What is known no better than this even on one machine: pattern of the key, rtol, absolute floor.
TOLERANCES = [
    ("/gaps?$", 1e-9, 1e-9),  # rounding of the loss
    # A class has vanished and the loss is flat: an ulp in E_H moves its minimum by 7e-9.
    ("^(collapse|scan)/reused/.*predicted.nc2$", 3e-8, 3e-8),
    ("/(predicted.)?nc[1-4]", 1e-9, 1e-12),  # zero in a simplex, where rounding is left
    ("/condition$", 1e-3, 0.0),  # eigenvalues are found to three digits
    ("/local_loss", 1e-5, 0.0),  # a local search stops where the loss is flat,
    ("/local_cosines$", 1e-9, 2e-3),  # and it is flatter in the cosines
    # Products in float32: their rounding depends on how rows are cut into slices.
    ("precision=fast.*(fit|replicates)", 1e-3, 1e-6),
    ("precision=fast", 1e-6, 0.0),
]
# Recorded again since cc7fdca, with the reason: scan/bert/control. The untrained control of a
# model that knows its configuration is built from it, for every law; BERT's modules were reset by
# torch's own initialisation before, which is not BERT's.
# collapse/*/minority and minority_cosine: classes whose sizes hardly differ are not a minority.
# Separation, collapse and what is read off them: interval, fit_interval and replicates of log D
# gave way to population (D̂ by a jackknife of 1/D over folds dealt by content, with open ends);
# verdict is of the samples now, without an interval, so that 6 no longer "cannot be told". D, fit,
# classwise, ranks, NC numbers and energies were equal to 1e-9, as were all of the other groups.
# separation/*/stations=auto: the blocks of a residual network, where it was whichever line was
# straighter; */stations=blocks/granularities: layers are fitted only where they are measured.
# Products of "fast", and norms and states that transformers computes in float32 whatever the
# weights are: equal on one machine, not on two. The line and its interval magnify it.
FLOAT32 = "next_token/(mamba2?|olmo|bloom|gemma2|jamba)/"
OTHER_MACHINES = [(f"({FLOAT32}).*(fit|replicates)", 1e-3, 1e-6), (FLOAT32, 1e-6, 0.0)]
TRAINED = ("sequential", "convolutional", "residual", "tokens", "bert")  # BatchNorm or dropout
SMOOTHED, ADJUSTED = "label_smoothed", "logit_adjusted"
HISTOGRAMS = {
    "equal": [7] * 4,
    "pair": [100] * 3 + [10] * 3,
    "steep pair": [1000] * 5 + [1] * 5,
    "one small": [50, 50, 50, 2],
    "three sizes": [100, 100, 30, 30, 5, 5],
    "long tail": [int(500 * 0.6**k) for k in range(10)],
    "all different": [90, 41, 77, 12, 3],
}


def exact(shape, seed):
    """Draw multiples of 1/256: torch's normal numbers depend on the instruction set."""
    return torch.from_numpy(np.random.default_rng(seed).integers(-256, 257, tuple(shape)) / 256)


@torch.no_grad()
def redrawn(model, gain=2.0):
    """Give a model float64 weights from :func:`exact`; vectors keep their rounded values too."""
    for seed, p in enumerate(model.double().parameters()):
        size, start = (gain * (3 / p[0].numel()) ** 0.5, 0 * p) if p.dim() > 1 else (0.25, p)
        p.copy_((start * 64).round() / 64 + size * exact(p.shape, seed))
    return model.eval()


def data_of(case):
    """Give unbalanced batches of a case, real inputs drawn again around class centres."""
    made = []
    for seed, batch in enumerate(case.batches(samples=80)):
        y = batch["labels"] if isinstance(batch, dict) else batch[1]
        kept = (y < 3) | (torch.arange(len(y)) % 3 == 0)  # the last class is smaller
        if isinstance(batch, dict):
            made.append({name: rows[kept] for name, rows in batch.items()})
        else:
            shape = batch[0].shape[1:]
            x = 2 * exact((len(y), *shape), seed) + exact((cases.CLASSES, *shape), 99)[y]
            made.append((x[kept], y[kept]))
    return made


def one_by_one(**options):
    """Give the default settings, then each value of each option on its own."""
    return [{}, *({name: value} for name, values in options.items() for value in values)]


def key_of(*parts):
    """Name a question by what is asked for."""
    *names, how = parts
    settings = ",".join(f"{name}={value}" for name, value in how.items())
    return "/".join(map(str, (*names, settings or "default")))


def separation():
    for case in cases.CASES:
        settings = one_by_one(
            uncertainty=[None],
            weighting=["class"],
            folds=[3],
            mode=["train"] if case.name in TRAINED else [],
            strategy=["held", "scatter", "two-pass"],
            memory=["140KB" if case.inputs is cases.images else "20KB"],  # two passes, in rounds
            stations=["blocks", "auto", "*.*"] if case.blocks else [],
            pooling=["first", "last", "flatten"] if case.name in ("tokens", "bert") else [],
        )
        if case.name == "tokens":
            settings.append({"mode": "train", "strategy": "two-pass"})
        for how in settings:
            torch.manual_seed(0)  # dropout in train mode draws from torch's generator
            # Recorded when layers were the default of every network, and eight folds always.
            asked = {"stations": "layers", **how} | ({"folds": 8} if "memory" in how else {})
            answer = ls.separation(redrawn(case.model(), 1.0), data_of(case), **asked)
            whole = not how or how.get("stations") == "blocks"
            yield key_of(case, how), pickers.numbers_of_separation(answer, whole)
        read_once = iter(data_of(case))
        answer = ls.separation(redrawn(case.model(), 1.0), read_once, stations="layers")
        yield f"{case}/read once", pickers.numbers_of_separation(answer, False)


def collapse():
    for case in cases.CASES:
        mode = ["train"] if case.name in TRAINED else []
        for how in one_by_one(memory=["1KB"], counts=[[100, 50, 5, 5]], mode=mode):
            torch.manual_seed(0)
            uncertainty = None if "memory" in how else "jackknife"
            model = redrawn(case.model(), 1.0)
            answer = ls.collapse(model, data_of(case), uncertainty=uncertainty, **how)
            yield key_of(case, how), pickers.numbers_of_collapse(answer)


def scan():
    for case in cases.CASES:
        how = {"control": "auto", "stations": "blocks" if case.blocks else "layers"}
        answer = ls.scan(redrawn(case.model(), 1.0), data_of(case), **how)
        yield case.name, pickers.numbers_of_scan(answer)


def lawful():
    """Ask about a network on which the law holds: each layer shrinks the features with noise."""
    y = torch.arange(200) % 4
    signal, noise = torch.eye(4).double()[y], exact((2, 200, 4), 1)
    data = 3 + torch.cat([signal + noise[0] / 64, signal / 2 + noise[1]], 1), y
    layers = [part for _ in range(4) for part in (torch.nn.Linear(8, 8), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(8, 4)).double()
    for layer in model[::2]:
        layer.weight.data = torch.diag(torch.tensor([1.0] * 4 + [0.75] * 4)).double()
        layer.bias.data.zero_()
    model[-1].weight.data = torch.eye(4, 8).double() - 0.25
    yield "separation", pickers.numbers_of_separation(ls.separation(model, data))
    yield "collapse", pickers.numbers_of_collapse(ls.collapse(model, data))
    for how in one_by_one(split=[1]):
        answer = ls.transfer_balance(model, data, **how)
        yield key_of("balance", how), pickers.numbers_of_balance(answer)


def next_token():
    from transformers import BertConfig, BertForMaskedLM, T5Config, T5ForConditionalGeneration

    text = language_models.token_batches(8)
    padded = [{"input_ids": b, "attention_mask": (b.cumsum(1) < 900).long()} for b in text]
    both = [{"input_ids": b[:, :9], "decoder_input_ids": b} for b in text]
    # torch has no grouped products of float64 matrices for Jamba's experts.
    own = {"jamba": {"experts_implementation": "eager"}}
    families = language_models.CAUSAL
    models = {f: redrawn(language_models.build(f, **own.get(f, {}))) for f in families}
    models["gpt"] = redrawn(gpt(60, 16, 4, 2, 64))
    sizes = {"vocab_size": 60, "hidden_size": 16, "num_hidden_layers": 4, "intermediate_size": 24}
    models["bert"] = redrawn(BertForMaskedLM(BertConfig(**sizes, num_attention_heads=2)))
    sizes = {"vocab_size": 60, "d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 4}
    t5 = T5Config(**sizes, num_heads=2, decoder_start_token_id=0)
    models["t5"] = redrawn(T5ForConditionalGeneration(t5))
    asked = [(name, text, how) for name in families for how in one_by_one(precision=["fast"])]
    for how in one_by_one(
        normalization=["none", "layer-norm", "rms-norm"],
        targets=[("next", "next-next", "current", "previous")],
        folds=[1, 3],
        onehot=[False],
        memory=["2KB"],  # codings
        every=[2],
    ):
        asked.append(("gpt", text, how))
    for how in ({"normalization": "none"}, {"normalization": "layer-norm", "memory": "2KB"}):
        asked.append(("llama", text, how))
    # Not of llama: transformers draws the weights of an untrained twin in float32.
    asked += [("gpt", text, {"control": "auto"}), ("gpt", padded, {"folds": 4})]
    asked += [("gpt", iter(text), {"folds": 5}), ("t5", both, {"task": "encoder-decoder"})]
    for how in ({}, {"special_tokens": (0, 1), "seed": 3}):
        asked.append(("bert", padded, {"task": "masked", "mask_token": 59, **how}))
    for name, batches, how in asked:
        answer = ls.next_token(models[name], batches, **{"control": None, **how})
        yield key_of(name, how), pickers.numbers_of_next_token(answer)
    answer = ls.next_token(models["gpt2"], text, control=models["opt"])
    yield "gpt2/control", pickers.numbers_of_next_token(answer)


def plain():
    for n, d, classes in ((60, 6, 4), (40, 100, 5), (30, 2, 6), (200, 12, 2)):
        y = torch.arange(n) ** 2 % classes
        x = exact((n, d), 3) + exact((classes, d), 4)[y]
        for kind, given in {"independent": x, "dependent": torch.cat([x, x[:, :1]], 1)}.items():
            numbers = {w: ls.fuzziness(given, y, weighting=w) for w in ("count", "class")}
            if n > 2 * d:
                numbers["residual"] = ls.prediction_residual(given, x[:, 0] + exact((n,), 6))
            yield f"{n}x{d}/{kind}", numbers


def peel():
    settings = one_by_one(
        feature_energy=[1.0, 25.0],
        loss=["class_weighted", ADJUSTED, SMOOTHED, "mse"],
        oversampling=[20.0],
    )
    settings += [{"loss": SMOOTHED, "smoothing": 0.3}, {"loss": ADJUSTED, "adjustment": 0.5}]
    weighted = ls.peel([9, 9, 4, 4, 1], loss="class_weighted", class_weights=[1, 1, 2, 2, 9])
    yield "weighted", pickers.numbers_of_peel(weighted)
    for name, counts in HISTOGRAMS.items():
        for how in settings:
            # Their thresholds take seconds each.
            slow = how.get("loss") in (SMOOTHED, ADJUSTED) and name != "one small"
            yield key_of(name, how), pickers.numbers_of_peel(ls.peel(counts, **how), not slow)


def peeled():
    for loss in ("cross_entropy", "class_weighted"):
        sweep = ls.peel_sweep(np.geomspace(1, 1e4, 17), 8, 3, feature_energy=4.0, loss=loss)
        yield f"sweep/{loss}", pickers.numbers_of_sweep(sweep)
    for name, counts in HISTOGRAMS.items():
        report = ls.collapse_outlook(np.repeat(np.arange(len(counts)), counts))
        yield f"report/{name}", pickers.numbers_of_report(report)
        yield f"threshold/{name}", {"threshold": ls.collapse_threshold(counts, 1.0, 2.0)}
        plan = ls.oversampling_weights(counts, margin=0.2)
        yield f"oversampling/{name}", pickers.numbers_of_plan(plan)
    for counts in ([1, 1, 1], [10, 10, 1, 1]):
        for how in one_by_one(q=[1.5, 2.0]):
            answer = peel_q_norm(counts, starts=2, **how)
            yield key_of("q norm", counts, how), pickers.numbers_of_local(answer)
        for how in one_by_one(activation=["relu"]):
            answer = peel_layers(counts, starts=2, **how)
            yield key_of("layers", counts, how), pickers.numbers_of_local(answer)


def studies():
    """Ask studies of certified optima: what is trained in float32 is another on another machine."""
    for name in ("peeled/long-tail", "peeled/losses", "peeled/oversampling"):
        study = registry.find(name)
        found = flattened(name, study.measure(Lab(study.settings["smoke"], None)))
        yield from ((key, numbers) for key, numbers in found if not key.endswith("/seconds"))


ASKED = (separation, collapse, scan, lawful, next_token, plain, peel, peeled, studies)
GROUPS = {ask.__name__: ask for ask in ASKED}


def answers(group):
    """Ask all of a group on one thread, since sums on several differ; give the numbers by key."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return dict(flattened(group, dict(GROUPS[group]())))
    finally:
        torch.set_num_threads(threads)


def flattened(key, value):
    """Yield keys, each with a flat list of numbers and texts."""
    rows = isinstance(value, list) and any(isinstance(row, dict) for row in value)
    if isinstance(value, dict) or rows:
        for name, inside in enumerate(value) if rows else value.items():
            yield from flattened(f"{key}/{name}", inside)
    else:
        yield key, list(leaves(value))


def leaves(value):
    """Yield what nested sequences hold, as JSON has it."""
    value = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    if isinstance(value, list | tuple | dict):
        for inside in value.values() if isinstance(value, dict) else value:
            yield from leaves(inside)
    else:
        yield value


def differences(kept, found, tolerances=TOLERANCES):
    """Yield a sentence for every key whose numbers are not those that were kept."""
    for key in sorted(kept.keys() | found.keys()):
        rtol, floor = next((t for pattern, *t in tolerances if re.search(pattern, key)), (1e-9, 0))
        if key not in kept or key not in found:
            yield f"{key} is {'new' if key in found else 'gone'}"
        elif not same(kept[key], found[key], rtol, floor):
            yield f"{key} was {kept[key]}, is {found[key]}"


def same(kept, found, rtol, floor):
    """Compare texts and whole numbers exactly, others by the scale of their list."""
    if [x for x in kept if type(x) is not float] != [x for x in found if type(x) is not float]:
        return False
    kept, found = (np.array([x for x in side if type(x) is float]) for side in (kept, found))
    atol = max(floor, 1e-12 * np.abs(kept[np.isfinite(kept)]).max(initial=0.0))
    return len(kept) == len(found) and np.allclose(found, kept, rtol, atol, equal_nan=True)


def main():
    """Record or compare, as asked for on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("--write", "--check"):
        parser.add_argument(option, action="store_true")
    asked = parser.parse_args()
    file, found = FOLDER / "answers.json", {}
    for group in GROUPS:
        found |= answers(group)
    if asked.write:
        dumps = json.JSONEncoder(separators=(",", ":")).encode
        lines = (f"{dumps(key)}: {dumps(found[key])}" for key in sorted(found))
        file.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    if asked.check:
        kept = json.loads(file.read_text())
        told = list(differences(kept, found))
        print(*told, f"{len(told)} of {len(found)} differ", sep="\n")
        sys.exit(bool(told))


if __name__ == "__main__":
    main()
