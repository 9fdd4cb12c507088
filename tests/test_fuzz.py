"""Wrong values, wrong files and odd networks for everything public: a result or a sentence.

Functions come from the package's own list of public names and commands from the command line's own
list, so that new ones join by themselves. Cases are drawn by a fixed seed.
"""

import inspect
import math
import random
import warnings
from dataclasses import is_dataclass
from importlib import import_module
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from tests import odd_networks
from torch import nn
from torch.nn.parameter import is_lazy

import lawscope as ls
from lawscope.laws.registry import all_laws
from lawscope.statistics.class_scatter import ClassScatter

CASES_PER_PARAMETER = 10
X, Y = odd_networks.vectors(), odd_networks.labels()
LOSS = nn.CrossEntropyLoss()
IDS = [torch.arange(140).reshape(14, 10) * 7 % 23]
COUNTS = [90, 90, 9, 9]
MEANS = np.random.default_rng(0).standard_normal((12, 3, 3)) + 2 * np.eye(3)


WRONG = {
    "None": None,
    "True": True,
    "zero": 0,
    "minus one": -1,
    "10**20": 10**20,
    "10**400": 10**400,
    "half": 0.5,
    "nan": math.nan,
    "inf": math.inf,
    "complex": 1j,
    "empty text": "",
    "text": "nonsense",
    "dots": "..",
    "a long name": "x" * 300,
    "a null byte": "a\0b",
    "bytes": b"nonsense",
    "path": Path("gone/file"),
    "empty list": [],
    "list of None": [None, None],
    "list of texts": ["a", "b"],
    "list of lists": [[1, 2], [3]],
    "list of NaN": [math.nan, math.nan],
    "huge numbers": [10**400, 10**400],
    "tuple": (),
    "pair": (None, 3),
    "dict": {},
    "dict of nonsense": {"nonsense": object()},
    "set": {1, 2},
    "generator": lambda: (i for i in range(3)),
    "object": object(),
    "class": dict,
    "function": math.sin,
    "module": nn.Linear(3, 2),
    "array of texts": np.array(["a", "b"]),
    "array of objects": np.array([None, {}], dtype=object),
    "empty array": np.zeros((0, 3)),
    "scalar array": np.float64(2.0),
    "dates": np.array(["2020-01-01"], dtype="datetime64[D]"),
    "big-endian": np.arange(6.0).astype(">f8"),
    "longdouble": np.arange(6).astype(np.longdouble),
    "uint64": np.array([2**64 - 1, 3], dtype=np.uint64),
    "scalar tensor": torch.tensor(2.0),
    "NaN tensor": torch.full((4, 3), math.nan),
    "meta tensor": torch.empty(4, 3, device="meta"),
    "sparse tensor": torch.eye(4).to_sparse(),
    "complex tensor": torch.zeros(4, 3, dtype=torch.complex64),
    "tensor with history": torch.zeros(4, 3, requires_grad=True) * 2,
    "bool tensor": torch.ones(4, dtype=torch.bool),
    "masked array": np.ma.masked_equal([1, 2, 2], 1),
}


def wrong_value(name):
    value = WRONG[name]
    return value() if name == "generator" else value


# What to call a function with when one parameter is wrong. A name that is missing here is called
# with wrong values for all that it requires.
VALID = {
    "advise_depth": lambda: {"data": (X, Y), "depths": [2, 3], "seeds": 2, "width": 4, "epochs": 1},
    "alignment": lambda: {"model": odd_networks.plain(), "loader": (X, Y), "loss": LOSS},
    "ChargeLedger": lambda: _trained(),
    "charges": lambda: {"model": odd_networks.plain(), "example": X},
    "collapse": lambda: {"model": odd_networks.plain(), "loader": (X, Y)},
    "conservation": lambda: {"model": odd_networks.plain(), "loader": (X, Y), "loss": LOSS},
    "completeness": lambda: {"block": nn.Linear(3, 2), "example": X[:, :3]},
    "collapse_outlook": lambda: {"labels": Y},
    "collapse_threshold": lambda: {"counts": COUNTS},
    "ElasticSDE": lambda: {"alpha": 1.0, "beta": 0.0, "K": 3},
    "elastic_phases": lambda: {
        "sde": ls.ElasticSDE(1.0, 0.0, 3, noise=0.1),
        "times": [1.0, 2.0],
        "n": 3,
        "repeats": 2,
    },
    "fit_elastic": lambda: {"trajectory": MEANS, "window": 5},
    "relative_difference": lambda: {"genuine": MEANS, "imitated": MEANS},
    "elasticity": lambda: {"model": odd_networks.plain(), "loader": (X, Y), "loss": LOSS},
    "find_symmetries": lambda: {"model": odd_networks.plain(), "example": X},
    "fix_classifier": lambda: {"model": odd_networks.plain()},
    "fuzziness": lambda: {"features": X, "labels": Y},
    "next_token": lambda: {"model": odd_networks.language(), "batches": IDS, "control": None},
    "noise_equilibrium": lambda: {
        "model": odd_networks.plain(),
        "loader": (X, Y),
        "loss": nn.functional.cross_entropy,
    },
    "oversampling_weights": lambda: {"counts": COUNTS},
    "peel": lambda: {"counts": COUNTS},
    "peel_sweep": lambda: {"ratios": [1, 10]},
    "prediction_residual": lambda: {"features": X, "target": Y},
    "scan": lambda: {"model": odd_networks.plain(), "loader": (X, Y)},
    "separation": lambda: {"model": odd_networks.plain(), "loader": (X, Y)},
    "stations": lambda: {"model": odd_networks.plain(), "example": (X, Y)},
    "teleport": lambda: {
        "model": odd_networks.plain(),
        "loader": (X, Y),
        "target": "noise-equilibrium",
        "loss": nn.functional.cross_entropy,
    },
    "compress": lambda: {"model": odd_networks.plain(), "loader": (X, Y)},
    "impose_symmetry": lambda: {"model": odd_networks.plain()},
    "mirror": lambda: {
        "model": odd_networks.plain(),
        "loader": (X, Y),
        "loss": nn.functional.cross_entropy,
        "layer": "0",
        "units": (0, 1),
    },
    "mode_connectivity": lambda: {
        "model_a": odd_networks.plain(),
        "model_b": odd_networks.plain(),
        "loader": (X, Y),
        "loss": nn.functional.cross_entropy,
    },
    "remove_symmetry": lambda: {"optimizer_or_model": odd_networks.plain()},
    "symmetry": lambda: {"model": odd_networks.plain(), "loader": (X, Y)},
    "transfer_balance": lambda: {"model": odd_networks.plain(), "loader": (X, Y)},
    "Session": lambda: {"model": odd_networks.plain(), "source": _source()},
    "StopWhenLawHolds": lambda: {"model": odd_networks.plain(), "loader": (X, Y), "every": 1},
    "studies.load": lambda: {"name": "separation/depth", "out": "."},
    "studies.run": lambda: {"name": "nonsense", "preset": "smoke"},
    "studies.run_many": lambda: {"target": "nonsense", "preset": "smoke"},
    "lawscope.theory.layer_peeled.layers.peel_layers": lambda: {"counts": COUNTS, "starts": 1},
    "lawscope.theory.layer_peeled.q_norm.peel_q_norm": lambda: {
        "counts": COUNTS,
        "q": 3,
        "starts": 1,
    },
    "lawscope.theory.landscapes.critical_decay": lambda: {"kind": "square", "x": 1, "y": 1},
    "lawscope.theory.landscapes.find_minimum": lambda: {
        "kind": "square",
        "x": 1,
        "y": 1,
        "gamma": 1,
    },
    "lawscope.theory.landscapes.depth_transition": lambda: {"depth": 3},
    "lawscope.theory.landscapes.soft_threshold": lambda: {"M": np.eye(2), "gamma": 0.5},
    "lawscope.theory.latent.contrastive_modes": lambda: {
        "signal": [2, 1],
        "augmentation": [1, 1],
        "gamma": 0.5,
    },
    "lawscope.theory.latent.vae_modes": lambda: {"eigenvalues": [2, 1], "beta": 1, "noise": 0.5},
    "lawscope.theory.equilibrium.deep_linear": lambda: {
        "V": np.eye(2),
        "input_covariance": np.eye(2),
        "noise_covariance": np.eye(2),
        "depth": 3,
    },
    "lawscope.theory.equilibrium.geometric_mean": lambda: {"P": np.eye(2), "Q": np.eye(2)},
    "lawscope.theory.equilibrium.rescaling_fixed_point": lambda: {
        "generator": [1, -1],
        "noise": [2, 1],
    },
    "lawscope.theory.equilibrium.rank_one": lambda: {
        "beta": [2, 1],
        "input_covariance": np.eye(2),
    },
}
SYMMETRY = tuple(f"lawscope.theory.{room}." for room in ("landscapes", "latent", "equilibrium"))
# Not at the root, but named in the documentation.
FURTHER = (
    "lawscope.integrations.torchmetrics.Fuzziness",
    "lawscope.statistics.class_scatter.ClassScatter",
    "lawscope.theory.layer_peeled.layers.peel_layers",
    "lawscope.theory.layer_peeled.q_norm.peel_q_norm",
    *(name for name in VALID if name.startswith(SYMMETRY)),
)
# Settings of how much work to do: as much as is asked for, so that none is enormous here.
WORK = {
    "seeds",
    "epochs",
    "per_class",
    "width",
    "starts",
    "dimension",
    "depths",
    "classes",
    "majority",
    "n",
    "repeats",
}
ENORMOUS = {"10**20", "10**400"}


def _trained():
    model = odd_networks.plain()
    return {"model": model, "optimizer": torch.optim.SGD(model.parameters(), lr=0.1)}


def _source():
    from lawscope.data.source import Source

    return Source((X, Y))


def public_callables():
    """Return everything public that takes arguments, by name; results are made by the library."""
    found = {name: getattr(ls, name) for name in ls.__all__}
    found |= {f"studies.{name}": getattr(ls.studies, name) for name in ls.studies.__all__}
    for path in FURTHER:
        module, _, name = path.rpartition(".")
        found[path] = getattr(import_module(module), name)
    return {
        name: value
        for name, value in found.items()
        if callable(value) and not (is_dataclass(value) or _is_error(value))
    }


def _is_error(value):
    return isinstance(value, type) and issubclass(value, Exception)


def parameters_of(function):
    """Return required and optional names; those of ``**settings`` are of all laws."""
    required, optional = [], []
    for one in inspect.signature(function).parameters.values():
        if one.kind is one.VAR_KEYWORD and one.name in ("settings", "shared"):
            settings = (inspect.signature(law.settings).parameters for law in all_laws().values())
            optional += sorted({name for names in settings for name in names})
        elif one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            (required if one.default is one.empty else optional).append(one.name)
    return required, optional


def draw(seed, name, parameter):
    """Return names of wrong values for a parameter, the same in every run."""
    names = [n for n in WRONG if not (parameter in WORK and n in ENORMOUS)]
    return random.Random(f"{seed} {name} {parameter}").sample(names, CASES_PER_PARAMETER)


def complaint(call, *models):
    """Return what is wrong with how a call ended; nothing where it is a result or a sentence."""
    before = [odd_networks.snapshot(model) for model in models]
    said = ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = call()
            if hasattr(result, "undo"):
                result.undo()  # a fixed classifier
            if isinstance(result, ls.ChargeLedger):
                result.close()
    except ls.LawscopeError as error:
        said = "" if str(error).strip() else "an empty sentence"
    except Exception as error:
        said = f"{type(error).__name__}: {str(error)[:120]}{_where(error)}"
    if [odd_networks.snapshot(model) for model in models] != before:
        said += " THE MODEL WAS CHANGED"
    return said


def _where(error):
    trace, at = error.__traceback__, ""
    while trace is not None:
        path = Path(trace.tb_frame.f_code.co_filename)
        at = f" in {path.name}:{trace.tb_lineno}" if "lawscope" in path.parts else at
        trace = trace.tb_next
    return at


@pytest.mark.parametrize("name", public_callables())
def test_wrong_values_end_in_a_result_or_a_sentence(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAWSCOPE_STORE", str(tmp_path / "store"))
    function = public_callables()[name]
    required, optional = parameters_of(function)
    bad = []
    for parameter in required + optional:
        for wrong in draw(0, name, parameter):
            given = VALID.get(name, dict)()
            for missing in set(required) - set(given):
                given[missing] = wrong_value(draw(1, name, f"{parameter} {wrong} {missing}")[0])
            models = [v for v in given.values() if isinstance(v, nn.Module)]
            given[parameter] = wrong_value(wrong)
            said = complaint(lambda given=given: function(**given), *models)
            bad += [f"{name}({parameter}={wrong}): {said}"] if said else []
    assert not bad, "\n".join(bad)


# Methods that take something, each as a function of one wrong value.
METHODS = {
    "StopWhenLawHolds()": lambda v: ls.StopWhenLawHolds(odd_networks.plain(), (X, Y))(v),
    "Peeled.save": lambda v: ls.peel(COUNTS).save(v),
    "OversamplingPlan.sampler": lambda v: ls.oversampling_weights(COUNTS).sampler(v),
    "ClassScatter.update": lambda v: ClassScatter().update(v, Y),
    "ClassScatter.update labels": lambda v: ClassScatter().update(X, v),
    "ClassScatter.merge": lambda v: ClassScatter().merge(v),
    "ClassScatter.load_state_dict": lambda v: ClassScatter().load_state_dict(v),
}


@pytest.mark.parametrize("name", METHODS)
def test_methods_too(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bad = []
    for wrong in WRONG:
        said = complaint(lambda wrong=wrong: METHODS[name](wrong_value(wrong)))
        bad += [f"{name}({wrong}): {said}"] if said else []
    assert not bad, "\n".join(bad)


MEASURES = {
    "separation": ls.separation,
    "collapse": ls.collapse,
    "symmetry": ls.symmetry,
    "compress": ls.compress,
    "impose_symmetry": lambda model, data: ls.impose_symmetry(model),
    "mirror": lambda model, data: ls.mirror(model, data, nn.functional.cross_entropy, "0", (0, 1)),
    "remove_symmetry": lambda model, data: ls.remove_symmetry(model).penalty(),
    "scan": lambda model, data: ls.scan(model, data, control="auto"),
    "scan of gradients": lambda model, data: ls.scan(
        model, data, loss=nn.functional.cross_entropy, mode="train"
    ),
    "stations": ls.stations,
    "charges": ls.charges,
    "transfer_balance": ls.transfer_balance,
    "next_token": lambda model, data: ls.next_token(model, [torch.arange(60).reshape(6, 10) % 23]),
    "fix_classifier": lambda model, data: ls.fix_classifier(model),
    "StopWhenLawHolds": lambda model, data: ls.StopWhenLawHolds(model, data, every=1)(1),
}
DATA = {
    "pair": lambda: (X.clone(), Y),
    "empty batch first": lambda: [(X[:0], Y[:0]), (X[:13] * 1, Y[:13]), (X[13:] * 1, Y[13:])],
    "with history": lambda: [(X.clone().requires_grad_() * 1, Y)],
}

# Each with every form of data, where it takes data.
NO_DATA = ("impose_symmetry", "remove_symmetry", "next_token", "fix_classifier")
CALLS = [(m, d) for m, d in product(MEASURES, DATA) if m not in NO_DATA or d == "pair"]


@pytest.mark.filterwarnings("ignore::UserWarning")  # of torch, at complex or empty layers
@pytest.mark.parametrize("network", odd_networks.NETWORKS)
def test_odd_networks_end_in_a_result_or_a_sentence_and_are_left_as_found(network):
    bad = []
    for measure, data in CALLS:
        torch.manual_seed(0)
        model = odd_networks.NETWORKS[network]()
        for parameter in model.parameters():
            # A head that is fixed drops its gradient for good.
            if not (measure == "fix_classifier" or is_lazy(parameter)):
                parameter.grad = torch.ones_like(parameter)
        given, before = DATA[data](), torch.get_rng_state()
        said = complaint(lambda: MEASURES[measure](model, given), model)  # noqa: B023
        said += "" if torch.equal(before, torch.get_rng_state()) else " RANDOM NUMBERS WERE DRAWN"
        bad += [f"{measure}, {data}: {said}"] if said else []
    assert not bad, "\n".join(bad)


# How to call a command quickly; options and arguments are then given wrong values, one at a time.
COMMANDS = {
    "scan": ["net.py"],
    "charges": ["net.py"],
    "stations": ["net.py"],
    "show": ["deep.json"],
    "demo": ["--epochs", "1", "--per-class", "2", "--depth", "3"],
    "demo-imbalanced": ["--epochs", "1", "--common", "4", "--rare", "2", "--seeds", "1"],
    "depth": ["--data", "odd.npz", "--depths", "2,3", "--seeds", "2", "--epochs", "1"],
    "peel": ["--counts", "90x2,9x2"],
    "init": ["net.py"],
    "study list": [],
    "study run": ["nonsense"],
    "study show": ["separation/depth"],
    "study figure": ["separation/depth"],
    "study judge": ["deep.json"],
    "study keep": ["deep.json"],
    "study status": [],
    "study gc": [],
    "elastic fit": ["means.npz", "--window", "5"],
    "elastic simulate": ["--times", "1,2", "--samples", "3", "--repeats", "2"],
}
WORDS = ["", "nonsense", "-1", "0.5", "nan", "x" * 300, "10" * 30, ".", "gone/file", "~"]
FILES = {
    "deep.json": b"[" * 100_000,
    "empty.json": b"",
    "page.html": b"<script type='application/json' id='lawscope'>{</script>",
    "cut.npz": b"PK\x03\x04 cut",
    "cut.npy": b"\x93NUMPY\x01\x00v",
    "junk.pt": b"\x80\x02junk",
    "junk.safetensors": b"\xff" * 40,
    "junk.py": b"model = \x00",
    "odd.py": b"model, data = dict, 3",
}
WORDS += [*FILES, "odd.npz"]
NET = """
from tests import odd_networks
model, data = odd_networks.plain(), (odd_networks.vectors(), odd_networks.labels())
"""


def commands(group=None):
    """Return all commands of the command line by name."""
    from typer.main import get_command

    from lawscope.cli.app import app

    found = {}
    for name, command in (group or get_command(app)).commands.items():
        inner = commands(command) if hasattr(command, "commands") else {"": command}
        found |= {f"{name} {below}".strip(): one for below, one in inner.items()}
    return found


def variants(command):
    """Return what to say after a command: each option with a wrong word, each wrong argument."""
    usual, parameters = COMMANDS[command], commands()[command].params
    options = [one.opts[0] for one in parameters if one.opts[0].startswith("--")]
    takes_value = {one.opts[0]: not getattr(one, "is_flag", False) for one in parameters}
    for option in filter(takes_value.get, options):
        for word in random.Random(f"{command} {option}").sample(WORDS, 5):
            yield [*usual, option, word]
    if len(options) < len(parameters):
        yield from ([word, *usual[1:]] for word in WORDS)
    if not parameters:
        yield usual


@pytest.mark.parametrize("command", commands())
def test_wrong_words_on_the_command_line_end_in_a_sentence(
    command, tmp_path, monkeypatch, call_lawscope
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAWSCOPE_STORE", str(tmp_path / "store"))
    Path("net.py").write_text(NET)
    for name, content in FILES.items():
        Path(name).write_bytes(content)
    np.savez("odd.npz", x=X.numpy().astype(">f8"), y=Y.numpy().astype(np.uint64))
    np.savez("means.npz", steps=np.arange(12), means=MEANS)
    bad = []
    for arguments in variants(command):
        shown = " ".join(word[:20] for word in arguments)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                code, _, err = call_lawscope(*command.split(), *arguments)
        except Exception as error:
            bad.append(f"{shown}: {type(error).__name__}: {error}{_where(error)}")
        else:
            if code not in (0, 1, 2) or "Traceback" in err or (code and not err.strip()):
                bad.append(f"{shown}: exit code {code}: {err[-200:]}")
    assert not bad, "\n".join(bad)


def test_there_are_many_cases():
    found = map(parameters_of, public_callables().values())
    wrong = CASES_PER_PARAMETER * sum(len(required + optional) for required, optional in found)
    odd = len(odd_networks.NETWORKS) * len(CALLS)
    said = sum(len(list(variants(command))) for command in commands())
    assert min(wrong, odd, said) > 250
    assert wrong + odd + said + len(METHODS) * len(WRONG) > 4000
