"""Every figure, table and theorem of the documents: their numbers, and ours beside them.

The rows stand in the order of each document. Those with ``readme=True`` make the README's table.
"""

from __future__ import annotations

import math
import operator
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from lawscope.formatting import MISSING
from lawscope.studies.panels import Label, Number, brief, collect, group_by
from lawscope.studies.registry import find
from lawscope.studies.result import StudyResult
from lawscope.studies.study import AUTHORS, NETWORK, NOT_TRIED, PROTOCOLS, Judged


class Value(Protocol):
    """What a row takes from a result: of one protocol, numbers by seed or by panel."""

    def __call__(self, result: StudyResult, protocol: str) -> Any: ...


@dataclass(frozen=True)
class Sentence:
    """What a claim, question or check measured: all panels together, or each by itself.

    Attributes:
        begin: how the sentence begins, by which it is found.
        panels: part of the names of the panels taken.
        by_panel: each panel with its name.
    """

    begin: str
    panels: str = ""
    by_panel: bool = False

    def __call__(self, result: StudyResult, protocol: str) -> Any:
        sentences = (*result.claims, *result.questions, *result.checks)
        (found,) = [each for each in sentences if each.text.startswith(self.begin)]
        chosen = self.choose(found.columns[protocol].measured or {})
        if not isinstance(chosen, Mapping):
            return chosen
        if self.by_panel:
            return {self._shorten(name): values for name, values in chosen.items()}
        return [one for values in chosen.values() for one in _as_list(values)]

    def choose(self, measured: Any) -> Any:
        """Return the panels taken, of what has panels."""
        if not isinstance(measured, Mapping):
            return measured
        return {name: values for name, values in measured.items() if self.panels in name}

    def _shorten(self, name: str) -> str:
        """Leave out of a panel's name what all panels taken have in common."""
        return name.replace(self.panels, "").strip(", ") or name


def _as_list(values: Any) -> list[Any]:
    return list(values) if isinstance(values, (list, tuple)) else [values]


@dataclass(frozen=True)
class Row:
    """One thing that a document shows.

    Attributes:
        where: its figure, table, theorem or heading.
        what: the number that stands for it.
        paper: this number there, or the document's words.
        study: which measures it; "" where none does.
        value: ours.
        judged: how the claim begins whose verdict stands here; by default the value's own.
        readme: whether the README has it too.
        why: of what no study covers, or none could measure, in a few words.
    """

    where: str
    what: str
    paper: str
    study: str = ""
    value: Value | None = None
    judged: str = ""
    readme: bool = False
    why: str = ""

    def cells(self, result: StudyResult) -> dict[str, str]:
        """Return ours by protocol, as text; empty where the study has no such protocol."""
        if self.value is None:
            return dict.fromkeys(PROTOCOLS, MISSING)
        untried = {
            protocol: column.why
            for claim in self._judged(result)
            for protocol, column in claim.columns.items()
            if column.verdict == NOT_TRIED and column.why
        }
        found = {
            protocol: untried.get(protocol) or brief(self.value(result, protocol)) or MISSING
            if protocol in result.numbers
            else ""
            for protocol in PROTOCOLS
        }
        if found[AUTHORS] == found[NETWORK]:
            found[NETWORK] = "the same"
        return found

    def verdict(self, result: StudyResult) -> str:
        """Return the verdict where the number is that of a claim, or of a check.

        Of some panels of a claim it is the verdict on these.
        """
        judged = self._judged(result)
        claims = {claim.text: claim for claim in find(result.name).claims}
        if isinstance(self.value, Sentence) and self.value.panels:
            of_panels = {each.text: self.value.choose(each.column.measured) for each in judged}
            departure = result.departure or ""
            return "".join(
                replace(claims[text], value=lambda _, these=these: these)
                .judge({}, result.preset, departure)
                .verdict
                for text, these in of_panels.items()
            )
        return "".join(sentence.verdict for sentence in judged)

    def _judged(self, result: StudyResult) -> list[Judged]:
        own = self.value.begin if isinstance(self.value, Sentence) else ""
        begin = self.judged or own
        sentences = (*result.claims, *result.checks) if begin else ()
        return [sentence for sentence in sentences if sentence.text.startswith(begin)]


def of_frozen(name: str) -> Value:
    """Take a number of the networks that were trained at once, and in two halves."""

    def read(result: StudyResult, protocol: str) -> Mapping[str, Any]:
        kinds = {"at once": "standard", "in two halves": "frozen"}
        numbers = result.numbers[protocol]
        return {label: [_last(row[name]) for row in numbers[kind]["chosen"]]
                for label, kind in kinds.items()}  # fmt: skip

    return read


def of_panel(name: str, **cell: Any) -> Value:
    """Take a number of the chosen networks in the panels of this cell, by seed."""

    def read(result: StudyResult, protocol: str) -> list[Any]:
        panels = result.numbers[protocol]["panels"]
        chosen = [panel for panel in panels if all(panel[k] == v for k, v in cell.items())]
        return [_last(row[name]) for panel in chosen for row in panel["chosen"]]

    return read


def of_rows(
    rows: str, label: Label, value: Number, where: Callable[[Any], bool] = lambda row: True
) -> Value:
    """Take a number of every row of these numbers, by label; see ``panels.collect``."""
    read = collect(rows, label, value, where)
    return lambda result, protocol: read(result.numbers[protocol])


def of_chosen(name: str, label: Label) -> Value:
    """Take a number of the chosen networks, panel by panel."""
    return of_rows("panels", label, lambda panel: [_last(row[name]) for row in panel["chosen"]])


def of_blocks(result: StudyResult, protocol: str) -> list[float]:
    """Take ρ of a network of three-layer blocks over that of one of two-layer blocks, by seed."""
    panels = result.numbers[protocol]["panels"]
    two, three = ([row["rho"] for panel in panels for row in panel["chosen"]
                   if (panel["stations"], panel["kind"]) == ("blocks", kind)]
                  for kind in ("2-layer", "3-layer"))  # fmt: skip
    return [a / b for a, b in zip(three, two, strict=True)]


def of_halves(result: StudyResult, protocol: str) -> dict[str, list[float]]:
    """Take what a lower layer keeps of D over what an upper one keeps, soon and later."""
    found: dict[str, list[float]] = {}
    for network in result.numbers[protocol]["networks"]:
        ratios = network["ratios"]
        for epoch in (2, 20):
            at = network["epochs"].index(epoch)
            lower, upper = (statistics.mean(each[at] for each in those)
                            for those in (ratios[:3], ratios[-3:]))  # fmt: skip
            found.setdefault(f"epoch {epoch}", []).append(lower / upper)
    return found


def of_rate_range(result: StudyResult, protocol: str) -> list[float]:
    """Take the range of log ρ over the learning rates, by seed."""
    rows = [row for panel in result.numbers[protocol]["panels"] for row in panel["chosen"]]
    ratios = [[row["rho"] for row in those] for those in group_by(rows, "seed").values()]
    return [math.log(max(each) / min(each)) for each in ratios]


def of_lawless(result: StudyResult, protocol: str) -> dict[str, float]:
    """Take the best test accuracy of networks without the law less that of those with it."""
    found = {}
    for name, rows in result.numbers[protocol]["groups"].items():
        fitting = [row for row in rows if row["fits"]]
        without, with_it = ([row["test_accuracy"] for row in fitting if (row["r"] > -0.98) is no]
                            for no in (True, False))  # fmt: skip
        if without and with_it:
            found[name] = max(without) - max(with_it)
    return found


def of_eight_layers(result: StudyResult, protocol: str) -> float:
    """Take the mean final D of 8 layers on Fashion-MNIST over that of the best depth."""
    best = result.numbers[protocol]["best"]["fashion-mnist"]
    return best["mean"][best["depths"].index(8)] / min(best["mean"])


def of_steps(result: StudyResult, protocol: str) -> list[float]:
    """Take the lowest step of the cosine between two R below R₀, curve by curve."""
    lowest = []
    for curve in result.numbers[protocol]["curves"]:
        cosines = [cosine for ratio, cosine in zip(curve["ratios"], curve["cosines"], strict=True)
                   if ratio < curve["threshold"]]  # fmt: skip
        lowest.append(min(map(operator.sub, cosines[1:], cosines)))
    return lowest


def of_likeness(decay: float) -> Value:
    """Take the correlation of the pictures after and before the activation, off the diagonal."""

    def read(picture: Mapping[str, Any]) -> float:
        sides = ([one for i, row in enumerate(picture[side]) for j, one in enumerate(row) if i != j]
                 for side in ("before", "after"))  # fmt: skip
        return statistics.correlation(*sides)

    return of_rows("pictures", "{kind}", read, lambda picture: picture["decay"] == decay)


def of_heads(name: str) -> Value:
    """Take a number of all heads at the end of training, by module."""

    def read(result: StudyResult, protocol: str) -> dict[str, list[float]]:
        rows = result.numbers[protocol]["rows"]
        end = max(row["step"] for row in rows)
        return {module: [row[name] for row in rows if (row["module"], row["step"]) == (module, end)]
                for module in "qkv"}  # fmt: skip

    return read


def of_shallowest(result: StudyResult, protocol: str) -> dict[str, float]:
    """Take the mean final D of the shallowest networks tried, over that of the best depth."""
    names = S("Which depth has the lowest", by_panel=True)(result, protocol)
    best = result.numbers[protocol]["best"].values()
    return {f"{name}, {each['depths'][0]} layers": each["mean"][0] / min(each["mean"])
            for name, each in zip(names, best, strict=True)}  # fmt: skip


def of_pretraining(kind: str) -> Value:
    """Take r of the networks that were pretrained, or trained from scratch."""

    def read(result: StudyResult, protocol: str) -> list[float]:
        return [row["r"] for row in result.numbers[protocol][kind]["chosen"]]

    return read


def of_rates(name: str, take: Callable[[Sequence[float]], float]) -> Value:
    """Take of the accuracies along the rates of oversampling, the first of which is none."""

    def read(result: StudyResult, protocol: str) -> dict[str, list[float]]:
        found = {}
        for row in result.numbers[protocol]["rows"]:
            by_seed = zip(*(point["networks"] for point in row["points"]), strict=True)
            values = [[network[name] for network in networks] for networks in by_seed]
            label = f"{row['network']} (K_A = {row['majority']})"
            found[label] = [take(each) for each in values]
        return found

    return read


def of_thresholds(result: StudyResult, protocol: str) -> list[float]:
    """Take the weight decay found by optimisation over the one predicted."""
    rows = result.numbers[protocol]["thresholds"]
    return [row["found"] / row["predicted"] for row in rows]


def of_answer(begin: str) -> Value:
    """Take the answer to a question, in words."""

    def read(result: StudyResult, protocol: str) -> str:
        (found,) = [each for each in result.questions if each.text.startswith(begin)]
        return str(found.columns[protocol].verdict)

    return read


def unjudged(sentence: Sentence) -> Value:
    """Take the number of a claim without its verdict, which is on the words of another place."""
    return lambda result, protocol: sentence(result, protocol)


def of_medians(sentence: Sentence) -> Value:
    """Take the median of each panel, one after the other."""

    def read(result: StudyResult, protocol: str) -> str:
        panels = sentence(result, protocol).values()
        return ", ".join(brief(statistics.median(values)) for values in panels)

    return read


def _last(value: Any) -> Any:
    """Return a number, or the last of a list over layers."""
    return value[-1] if isinstance(value, list) else value


S = Sentence
STRAIGHT = "lines in a picture"
HE_SU_2023 = [
    Row("Figure 1", "r, nine panels of figure 1", "−1.000 to −0.997", "separation/optimizers",
        S("straight lines"), readme=True),
    Row("Figure 1, SGD", "r of 4, 8, 20 layers", "−1.000, −0.998, −0.997",
        "separation/optimizers", S("straight lines", "SGD", by_panel=True)),
    Row("Figure 1, momentum", "r of 4, 8, 20 layers", "−0.999, −0.998, −0.998",
        "separation/optimizers", S("straight lines", "momentum", by_panel=True)),
    Row("Figure 1, Adam", "r of 4, 8, 20 layers", "−1.000, −0.997, −0.999",
        "separation/optimizers", S("straight lines", "Adam", by_panel=True)),
    Row("Talk", "ρ of 8 layers", "0.53 (talk)", "separation/optimizers", S("ρ of 8 layers"),
        readme=True),
    Row("Talk", "half-life of 8 layers", "1.1", "separation/optimizers",
        of_panel("half_life", optimizer="adam", depth=8), "ρ of 8 layers"),
    Row("Figure 1", "ρ of 20 layers", "0.818", "separation/optimizers", S("ρ of 20 layers"),
        readme=True),
    Row("Figure 1", "half-life of 20 layers", "3.45", "separation/optimizers",
        of_panel("half_life", optimizer="adam", depth=20), "ρ of 20 layers"),
    Row("Figure 1", "final D, 20 layers over 8", "above 1", "separation/optimizers",
        S("20 layers end with a larger D", by_panel=True)),
    Row("Figure 2, CIFAR-10", "r of 4, 8, 20 layers", STRAIGHT, "separation/datasets",
        S("on CIFAR-10 median r", by_panel=True)),
    Row("Text, MNIST", "r of 4, 8, 20 layers", "“irrespective of datasets”",
        "separation/datasets", S("Is r ≤ −0.98 at every depth on MNIST", by_panel=True)),
    Row("Figure 2, learning rate", "r with 0.01, 0.03, 0.1", STRAIGHT,
        "separation/learning-rate", S("median r ≤ −0.98 with every", by_panel=True)),
    Row("Figure 2, architecture", "r layer by layer", STRAIGHT, "separation/convnets",
        S("r ≤ −0.97 layer by layer", by_panel=True)),
    Row("Figure 2, imbalance", "r of 4, 8, 20 layers", "“also emerges”", "separation/imbalance",
        S("on imbalanced data r", by_panel=True)),
    Row("Figure 2, imbalance", "half-life, imbalanced over balanced, 20 layers",
        "“significantly larger”", "separation/imbalance",
        S("on imbalanced data the half-life", "20 layers"), readme=True),
    Row("Figure 2, imbalance", "the same, 4 layers", "“significantly larger”",
        "separation/imbalance", S("on imbalanced data the half-life", "4 layers")),
    Row("Figure 2, imbalance", "the same, 8 layers, by class sizes",
        "“significantly larger” (500 : 100)", "separation/imbalance",
        S("on imbalanced data the half-life", "8 layers", by_panel=True)),
    Row("Figure 3", "depth of the lowest final D (MNIST, Fashion-MNIST, CIFAR-10)", "6, 10, 12",
        "separation/depth", S("Which depth has the lowest", by_panel=True), readme=True),
    Row("Figure 3", "best depth: the smallest within one standard error of it", "6, 10, 12",
        "separation/depth", S("Which is the best depth", by_panel=True)),
    Row("Figure 3", "by how much that grows from one dataset to the next", "4, 2",
        "separation/depth", S("no easier dataset", by_panel=True)),
    Row("Figure 3", "layers from the best depth to the nearest end of those tried", "above 0",
        "separation/depth", S("on each dataset the best depth is neither", by_panel=True)),
    Row("Figure 3", "r, every depth of every dataset", STRAIGHT, "separation/depth",
        of_panel("r")),
    Row("Network architecture", "final D of 8 layers over the lowest, Fashion-MNIST",
        "“an 8-layer network will suffice”", "separation/depth", of_eight_layers),
    Row("Network architecture", "final D of 3 layers, the shallowest tried, over the lowest",
        "L = 2, 3 “unlikely to separate the data well”", "separation/depth", of_shallowest),
    Row("Figure 4, width", "r", STRAIGHT, "separation/width", of_chosen("r", "width {width}")),
    Row("Figure 4, width", "final D, width 20 over 100", "“does not separate the data well”",
        "separation/width", S("width 20 ends")),
    Row("Figure 4, width", "final D, width 1000 over 100", "“about the same”",
        "separation/width", S("width 1000 ends")),
    Row("Figure 4, shape", "r", STRAIGHT, "separation/shape", of_chosen("r", "{shape}")),
    Row("Figure 4, shape", "final D over that of wide-narrow", "above 1", "separation/shape",
        S("the other shapes end", by_panel=True)),
    Row("Figure 5", "r, trained at once and in two halves", "−0.997, −0.971",
        "separation/frozen", of_frozen("r"), "standard training is straighter"),
    Row("Figure 5", "r in two halves", "−0.971: “not in the right network”", "separation/frozen",
        S("frozen training has no law")),
    Row("Figure 5; talk", "test accuracy, trained at once and in two halves",
        "0.2385, 0.1967; talk: 0.2146, 0.1825", "separation/frozen",
        of_frozen("test_accuracy"), "standard training tests better", readme=True),
    Row("Figure 5", "training loss of the two", "0.0021, 0.0019: “about the same”",
        "separation/frozen", of_frozen("loss")),
    Row("Figure 5", "training accuracy of the two", "1, 1", "separation/frozen",
        of_frozen("accuracy"), "both kinds of training fit"),
    Row("Talk, frozen training", "final D of the two", "“about the same”", "separation/frozen",
        of_frozen("D")),
    Row("Figure 6", "r block by block", STRAIGHT, "separation/resnet",
        S("block by block r", by_panel=True)),
    Row("Figure 6", "r by blocks less r by layers", "“no longer manifests” by layers",
        "separation/resnet", S("the line is straighter by blocks", by_panel=True)),
    Row("Figure 6, mixed", "r of the two lines", STRAIGHT, "separation/resnet",
        S("with mixed blocks r", by_panel=True)),
    Row("Figure 6, mixed", "ρ of a block, three layers over two", "below 1", "separation/resnet",
        S("in the mixed network")),
    Row("Figure 6", "ρ of a block, network of three-layer blocks over that of two-layer ones",
        "below 1", "separation/resnet", of_blocks),
    Row("Figure 7", "r of every sample size", STRAIGHT, "separation/sample-size",
        S("r ≤ −0.98 for every sample size")),
    Row("Figure 7", "half-life, most samples over 1000", "“can be larger”",
        "separation/sample-size", S("the half-life with the most")),
    Row("Figure 8", "classes with r ≤ −0.95, of 10", "“emerges for each class”",
        "separation/classwise", S("r ≤ −0.95 for at least 8")),
    Row("Figure 8", "median r of the classes less r of all together", "above 0: “noisy”",
        "separation/classwise", S("the law is noisier by class")),
    Row("Figure 9", "r before training", "no law",
        "separation/emergence", S("there is no law before")),
    Row("Talk, “A sharp comparison”", "before and after training", "a picture",
        why="a title without words; figure 9 has both"),
    Row("Figure 9", "lowest r along training", "“gradually emerges”", "separation/emergence",
        S("the law emerges: r")),
    Row("Figure 9", "change of ρ from then to the end", "“decreased”", "separation/emergence",
        S("once the law has emerged, ρ")),
    Row("Text; talk", "epochs from the law to neural collapse", "“earlier”",
        "separation/emergence", S("r ≤ −0.98 is reached at an earlier checkpoint than NC1")),
    Row("Text", "epochs from the law to minority collapse", "“earlier”", "separation/emergence",
        S("on imbalanced data r ≤ −0.98 is reached")),
    Row("Figure 10", "rank correlation of layer and time of settling",
        "“bottom layers converges earlier”", "separation/layer-rates",
        S("higher layers converge later")),
    Row("Figure 10", "epochs by which the upper three layers settle later than the lower three",
        "above 0", "separation/layer-rates", S("the upper three")),
    Row("Figure 10", "what the lower three layers keep of D over the upper three, means",
        "“faster”: first below 1; “the top layers catch up”", "separation/layer-rates", of_halves),
    Row("Figure 11", "rank correlation of layer and silhouette",
        "a picture", "separation/pca", S("the silhouette of the classes rises")),
    Row("Talk, “Chaotic patterns”", "the same", "a picture", "separation/pca",
        unjudged(S("the silhouette of the classes rises"))),
    Row("Figure 11",
        "silhouette in the plane of the picture, last layer less input", "above 0",
        "separation/pca", S("in the plane of the picture")),
    Row("Figure 12", "r on test data", "“a fuzzy version”", "separation/test-data",
        S("How straight is the line on test")),
    Row("Figure 12", "r on test data less r on training data", "above 0: “fuzzy”",
        "separation/test-data", S("the line is less straight on test")),
    Row("Figure 13a", "r of the pretrained 20 layers", STRAIGHT, "separation/pretraining",
        of_pretraining("pretrained")),
    Row("Figure 13b", "r of 15 layers from scratch", STRAIGHT, "separation/pretraining",
        S("15 layers from scratch")),
    Row("Figure 13c", "r of the five new layers", "“the equi-separation law also emerges”",
        "separation/pretraining", S("the new layers obey")),
    Row("Figure 13c", "gain of two lines over one (information criterion)", "“quite different”",
        "separation/pretraining", S("kept and new layers together")),
    Row("Figure 14", "r in a sentence encoder (not BERT), first token", "“does not exist”",
        "separation/text-encoder", S("no network that fits", "first token", by_panel=True)),
    Row("Figure 14", "the same, mean of the tokens", "“does not exist”",
        "separation/text-encoder", S("no network that fits", "mean of the tokens", by_panel=True)),
    Row("Text; talk", "r, linear network less plain",
        "“The nonlinearity of neural networks is vital”",
        "separation/ablations", S("in the linear network, fitting")),
    Row("Text", "last D of a linear network over its first", "“roughly invariant”: not below 1",
        "separation/ablations", S("in the linear network D does not fall")),
    Row("Text", "r, without BatchNorm less plain", "a setting, with BatchNorm",
        "separation/ablations", S("Without BatchNorm")),
    Row("Text", "range of log ρ by factor, over that by optimiser", "above 1",
        "separation/decay-factors", S("every other factor", by_panel=True)),
    Row("Text", "range of log ρ over learning rates", "“to a lesser extent”",
        "separation/learning-rate", of_rate_range),
    Row("Text", "neural tangent kernel", "“not capable of capturing the effect of depth”",
        why="an argument without an experiment"),
    Row("Text", "range of log ρ by factor", "“depth is more crucial”", "separation/decay-factors",
        S("By how much does each factor", by_panel=True),
        why="shape at equal depth is not among them"),
    Row("Text; talk", "very wide networks", "“should not be recommended”",
        why="for their time, which is not measured; their D is in figure 4"),
    Row("Text", "width from which on nothing changes", "“may vary with respect to the datasets”",
        why="width is studied on one dataset"),
    Row("Imbalanced data", "cause of the longer half-life",
        "“might be caused by the collapse of minority classifiers”",
        why="in the network itself it is hardly longer: the batches of train mode make it so"),
    Row("Interpretation", "a few neurons in a single layer", "“are unlikely to explain”",
        why="an argument without an experiment"),
    Row("Talk, intermediate layers", "neural collapse", "“Seems chaotic”",
        why="NC2 to NC4 are measured at the head only; NC1 is D"),
    Row("Training", "rank correlation of r with test accuracy (upper end)",
        "“indicative of good model performance”", "separation/performance",
        S("within an architecture", by_panel=True)),
    Row("Training", "best test accuracy of networks that fit, r > −0.98 less r ≤ −0.98",
        "“sometimes not observed in neural networks with good test performance”",
        "separation/performance", of_lawless),
    Row("Training; talk", "change of R predicted from perturbed ratios, error",
        "O(ε²)", "separation/robustness", S("at the smallest noise", by_panel=True)),
    Row("Training", "change of R by equal noise on the weights, log of with over without the law",
        "“not very sensitive”: below 0", "separation/robustness", S("Does equal noise")),
    Row("Training", "excess sensitivity, with the law less without", "least with equal ratios",
        "separation/robustness", S("the sensitivity is nearer")),
    Row("Training", "excess sensitivity, once the law holds less at the start",
        "“at least until the law … comes into effect”", "separation/robustness",
        S("along training the excess")),
    Row("Training", "r of frozen training, fine-tuned less before", "“reactivate the law”",
        "separation/reactivation", S("fine-tuning with the earlier")),
    Row("Training", "r fine-tuned less the highest of standard training", "“reactivate the law”",
        "separation/reactivation", S("fine-tuned with the best")),
    Row("Training", "test accuracy, fine-tuned less before",
        "“about the same or better”", "separation/reactivation",
        S("test accuracy of the straightest")),
    Row("Training (proposed)", "accuracy lost at the balanced share", "no number",
        "separation/transfer", S("Does the share nearest to balance", by_panel=True)),
]  # fmt: skip

FANG_2021 = [
    Row("Derivation, ansatz", "features with Σ‖h‖²/n_k ≤ C₂′ for weights with ‖W‖² ≤ C₂",
        "an assumption", why="why it predicts well is an open question of the talk"),
    Row("Theorem, balanced training", "cosine of classifiers, error against −1/(K−1)", "0",
        "peeled/balanced", S("classifiers form a simplex")),
    Row("K-simplex ETF, K = 2, 3, 4", "the same, by K", "0", "peeled/balanced",
        S("classifiers form a simplex", by_panel=True)),
    Row("Theorem, balanced training", "loss at the optimum over that at C′ = √E_H, less 1", "0",
        "peeled/balanced", S("the loss is that of the closed form")),
    Row("Theorem, balanced training", "h_k against √(E_H/E_W) w_k, error", "0", "peeled/balanced",
        S("features are classifiers")),
    Row("Theorem, balanced training", "spread of free features in a class, of their length", "0",
        "peeled/balanced", S("features free to differ")),
    Row("Neural collapse", "epoch from which on all of it holds", "the end of training",
        "collapse/terminal", S("From which checkpoint"), "all four measures fall"),
    Row("Neural collapse, animation and snapshot", "what is left of NC1 to NC4 (ratio)", "0",
        "collapse/terminal", S("Is less than a tenth left", by_panel=True)),
    Row("Neural collapse, implications; concurrent works",
        "generalization, large margin, robustness; other models", "named", why="named, not shown"),
    Row("Theorem, q ≠ 2 (talk of 2024: Proposition)",
        "loss over that of neural collapse, less 1; q = 1.5, 3, 4",
        "below 0: no collapse", "peeled/q-norm", S("for q ≠ 2")),
    Row("With the ansatz, q = 2", "the same, q = 2", "0: collapse", "peeled/q-norm",
        S("for q = 2")),
    Row("Remarks on the model", "rank correlation of E_W, E_H and weight decay",
        "“depend on weight decay”", "collapse/energies",
        S("both energies fall", by_panel=True)),
    Row("Lemma, convex relaxation", "largest gap between the loss and its dual bound", "0",
        "peeled/minority-angle", S("every program is certified")),
    Row("Class means and classifiers", "largest angle between the two, smallest over R (degrees)",
        "“no longer collapse”: above 0", "peeled/minority-angle", S("for every R > 1")),
    Row("Competition for space",
        "R from which rare classifiers vanish, over R₀ (none with K_A = 3, 5)",
        "a drawing: not asked", "peeled/minority-angle",
        S("Is there a third phase", by_panel=True)),
    Row("Illustration of Minority Collapse", "angles between classifiers", "a drawing",
        why="the angles themselves are those of the next rows"),
    Row("A numerical surprise, 1", "steps of the cosine below R₀, the lowest",
        "“smaller as R increases”: above 0", "peeled/minority-angle", of_steps,
        "the angle between minority"),
    Row("A numerical surprise, 2; Proposition, R → ∞; Chen 2023",
        "R₀ over the R at which the cosine is 1", "1", "peeled/minority-angle",
        S("from R₀ on minority")),
    Row("A numerical surprise", "imbalance R₀ from which on rare classes merge, K_A = 3 of 10",
        "a curve", "peeled/minority-angle", S("At which R₀", "K_A = 3", by_panel=True)),
    Row("A numerical surprise", "imbalance R₀ from which on rare classes merge, K_A = 5 of 10",
        "a curve", "peeled/minority-angle", S("At which R₀", "K_A = 5", by_panel=True),
        readme=True),
    Row("A numerical surprise", "imbalance R₀ from which on rare classes merge, K_A = 7 of 10",
        "a curve", "peeled/minority-angle", S("At which R₀", "K_A = 7", by_panel=True)),
    Row("A numerical surprise", "R₀ at E_H = 10 over that at E_H = 5", "above 1",
        "peeled/minority-angle", S("a larger E_H", by_panel=True)),
    Row("Proposition, R → ∞", "choice among minority classes: excess over chance that is left",
        "“completely at random”: 0; the bar is 1", "collapse/fairness",
        S("accuracy among minority classes", by_panel=True)),
    Row("Proposition, R → ∞", "accuracy among minority classes over chance, largest R", "1",
        "collapse/fairness", S("How many times chance", by_panel=True)),
    Row("Minority Collapse in experiments", "cosine of minority classifiers, largest R less R = 1",
        "rises", "collapse/minority", S("the angle between minority", by_panel=True)),
    Row("Minority Collapse in experiments", "minority accuracy, largest R less R = 1", "falls",
        "collapse/minority", S("minority test accuracy is lower", by_panel=True)),
    Row("Minority Collapse in experiments",
        "VGG11, ResNet18 on Fashion-MNIST; VGG13, ResNet18 on CIFAR-10", "rises",
        "collapse/minority", why="networks of this size need `--preset paper`"),
    Row("Predictions match experiments", "ratios R at which network and model differ", "0",
        "collapse/minority", S("classifiers merge", by_panel=True)),
    Row("Predictions match experiments", "cosine, network against model, mean difference over R",
        "a figure", "collapse/minority", S("How far is the cosine", by_panel=True)),
    Row("Theorem, oversampling", "1 − cosine one percent below w_r = R/R₀", "0",
        "peeled/oversampling", S("one percent below")),
    Row("Theorem, oversampling", "1 − cosine one percent above it", "above 0",
        "peeled/oversampling", S("one percent above")),
    Row("Theorem, oversampling", "cosine at w_r = R, error against −1/(K−1)", "0",
        "peeled/oversampling", S("at w_r = R the simplex")),
    Row("Effect of oversampling, in theory", "steps of the cosine as w_r grows, the highest",
        "not above 0", "peeled/oversampling", S("the angle between minority")),
    Row("Oversampling mitigates", "cosine of minority classifiers, largest w_r less none",
        "falls", "collapse/oversampling", S("on training data minority", by_panel=True)),
    Row("Table, original (minority)", "minority accuracy at R = 1000, K_A = 3, 5, 7",
        "VGG11 0.153, 0.203, 0.170; ResNet18 0.307, 0.343, 0.055", "collapse/oversampling",
        of_rates("minority_accuracy", operator.itemgetter(0))),
    Row("Table, original (minority)", "test accuracy of rare classes at the largest R",
        "0.055 to 0.343", "collapse/minority", S("What minority test accuracy"), readme=True),
    Row("Table, oversampling (minority)", "minority accuracy at the best w_r, K_A = 3, 5, 7",
        "VGG11 0.411, 0.572, 0.305; ResNet18 0.379, 0.535, 0.081", "collapse/oversampling",
        of_rates("minority_accuracy", max)),
    Row("Table, improvement (minority)", "minority accuracy gained, K_A = 3, 5, 7",
        "VGG11 0.258, 0.369, 0.135; ResNet18 0.072, 0.192, 0.026", "collapse/oversampling",
        S("minority test accuracy rises", by_panel=True)),
    Row("Table, original (overall)", "overall accuracy at R = 1000, K_A = 3, 5, 7",
        "VGG11 0.401, 0.576, 0.691; ResNet18 0.509, 0.649, 0.661", "collapse/oversampling",
        of_rates("test_accuracy", operator.itemgetter(0))),
    Row("Table, oversampling (overall)", "overall accuracy at the best w_r, K_A = 3, 5, 7",
        "VGG11 0.583, 0.762, 0.734; ResNet18 0.559, 0.746, 0.671", "collapse/oversampling",
        of_rates("test_accuracy", max)),
    Row("Table, improvement (overall)", "overall accuracy gained, K_A = 3, 5, 7",
        "VGG11 0.182, 0.186, 0.043; ResNet18 0.050, 0.097, 0.010", "collapse/oversampling",
        S("overall test accuracy rises", by_panel=True)),
    Row("Table", "best w_r over the largest", "below 1", "collapse/oversampling",
        S("the w_r of the best", by_panel=True)),
    Row("Remarks on oversampling", "minority accuracy at the largest w_r less that at the best",
        "“might degrade test accuracy”", "collapse/oversampling",
        of_rates("minority_accuracy", lambda along: along[-1] - max(along))),
    Row("Remarks on oversampling", "the same, overall accuracy", "“might degrade test accuracy”",
        "collapse/oversampling",
        of_rates("test_accuracy", lambda along: along[-1] - max(along))),
    Row("Remarks on oversampling", "how to select the rate", "“remains open”",
        why="`ls.oversampling_weights` gives the model's rate, tried in "
        "[a story with numbers](../collapse.md#a-story-with-numbers)"),
    Row("Remarks on oversampling", "minority accuracy of a fixed classifier less plain",
        "an open question", "collapse/fixed-classifier",
        S("Is minority test accuracy higher than with plain", by_panel=True)),
    Row("Remarks on oversampling", "and less oversampling at w_r = R", "an open question",
        "collapse/fixed-classifier",
        S("Is minority test accuracy higher than with oversampling", by_panel=True)),
    Row("Future directions, imbalance", "classifiers that vanish in a long tail",
        "an open question", "peeled/long-tail",
        S("Do classifiers of rare classes vanish", by_panel=True)),
    Row("Future directions, losses", "R₀ over that of cross-entropy, class weights 1/n",
        "an open question", "peeled/losses", S("Does weighting classes by 1/n")),
    Row("Future directions, losses", "the same, logit adjustment", "an open question",
        "peeled/losses", S("Does logit adjustment")),
    Row("Future directions, losses", "the same, label smoothing", "an open question",
        "peeled/losses", S("Does label smoothing")),
    Row("Future directions, losses", "the same, squared loss", "an open question",
        "peeled/losses", S("Does the squared loss")),
    Row("Future directions, fairness", "growth of the gap in accuracy, majority less minority",
        "an open question", "collapse/fairness", S("Does the gap between", by_panel=True)),
    Row("Multiple Layer-Peeled Model", "best loss over that of neural collapse, less 1",
        "an open question", "peeled/two-layer", S("Is the simplex still", by_panel=True)),
    Row("Future directions", "training dynamics and test performance", "an open question",
        why="the model says nothing of either"),
]  # fmt: skip

HE_SU_2024 = [
    Row("Experiments", "r of next-token prediction, stories-260K on stories", STRAIGHT,
        "next-token/law", S("stories-260K: r", "text.txt"), readme=True),
    Row("Experiments", "the same, on text that it wrote itself", STRAIGHT,
        "next-token/law", S("stories-260K: r", "itself")),
    Row("Experiments", "r of next-token prediction, SmolLM2-135M on the King James Bible",
        STRAIGHT, "next-token/law", S("SmolLM2-135M: r")),
    Row("Experiments, GPT-2 XL", "r", STRAIGHT, "next-token/law",
        S("openai-community/gpt2-xl")),
    Row("Experiments, Llama-3-8B", "r", STRAIGHT, "next-token/law",
        S("meta-llama/Meta-Llama-3-8B")),
    Row("Experiments, Mistral-7B-v0.1", "r", STRAIGHT, "next-token/law",
        S("mistralai/Mistral-7B-v0.1")),
    Row("Experiments", "GPT-1; Llama-1-13B; Llama-2-13B and its Chat; Llama-3-8B-Instruct; "
        "Mistral-7B-v0.2, v0.3, Instruct-v0.1 and Instruct-v0.2", STRAIGHT,
        "next-token/law", why="their weights were not at hand"),
    Row("Non-Transformer architectures", "RWKV-7B; RWKV-Raven-1.5B, 3B, 7B; Mamba-130M, 370M, "
        "790M, 1.4B, 2.8B", STRAIGHT, "next-token/law", why="their weights were not at hand"),
    Row("Experiments; RWKV, Mamba", "r of models trained here", STRAIGHT,
        "next-token/architectures", S("How straight are the lines", by_panel=True)),
    Row("Experiments; RWKV, Mamba", "slope of log PR of models trained here", "below 0",
        "next-token/architectures", S("PR falls with depth", by_panel=True)),
    Row("Experiments", "r of a GPT trained here", STRAIGHT, "next-token/training",
        S("at the end of training PR falls")),
    Row("Raw embeddings are chaotic", "rank correlation of block and silhouette", "a picture",
        "next-token/pictures", S("the pictures show no order")),
    Row("Raw embeddings are chaotic",
        "silhouette in the plane of the picture, last block less embedding", "a picture",
        "next-token/pictures", S("In the plane of the picture")),
    Row("Varying model sizes", "r of GPTs trained here", STRAIGHT, "next-token/model-size",
        S("r ≤ −0.9 at every size", by_panel=True)),
    Row("Tasks matter", "r of a masked model with its own task", "a picture", "next-token/tasks",
        S("a masked model measured with its own")),
    Row("Tasks matter", "r of the same with next tokens", "a picture", "next-token/tasks",
        S("a masked model measured with next")),
    Row("The paper, not the talk: information flow", "slope of log PR of the next token", "below 0",
        "next-token/information-flow", S("PR of the next token falls")),
    Row("The paper, not the talk: information flow", "slope of log PR of the current token",
        "above 0", "next-token/information-flow", S("PR of the current token rises")),
    Row("The metric", "shuffled vocabularies in which PR falls (share)", "not asked",
        "next-token/vocabulary", S("Does PR fall with depth in at least")),
]  # fmt: skip

K2 = "CIFAR-10, K = 2: "
K3 = "CIFAR-10, K = 3: "
ZHANG_2021 = [
    Row("Local elasticity", "gap of own class and others, after learning less before, shapes",
        "above 0", "elasticity/emergence", S("shapes: the gap of relative")),
    Row("Local elasticity", "the same, CIFAR-10", "above 0", "elasticity/emergence",
        S(f"{K3}the gap of relative")),
    Row("Separation theorem, part 1", "draws that are separable, γ = 1/√t", "1",
        "elasticity/separation-theorem", S("with γ = 1/√t and β = 0")),
    Row("Separation theorem, part 2", "pairs that are separable, γ = 0.3/(t ln t)", "0",
        "elasticity/separation-theorem", S("with γ = 0.3/(t ln t) and β = 0")),
    Row("Separation theorem, part 2", "pairs that are separable, γ = 2/(t ln t), by n per class",
        "0 as n → ∞", "elasticity/separation-theorem",
        S("What share of pairs is separable late", by_panel=True)),
    Row("Separation theorem, any β", "part 1 with a constant negative β", "1",
        "elasticity/separation-theorem", S("with a constant negative")),
    Row("Separation theorem, any β", "part 2 with a constant positive β", "0",
        "elasticity/separation-theorem", S("with a constant positive")),
    Row("Neural collapse of the LE-ODE", "largest cosine error, ∫β = −∞", "0",
        "elasticity/ode-collapse", S("with β < 0 whose integral diverges")),
    Row("Neural collapse of the LE-ODE", "largest cosine error, β = −1/t²", "0",
        "elasticity/ode-collapse", S("with β < 0 whose integral is finite", by_panel=True)),
    Row("Figure 1, GeoMNIST", "cosine error at the end over half of that at step 1000, or over 0.8",
        "“tend to form equiangular tight frames”: below 1",
        "elasticity/ode-collapse", S("shapes: genuine class means")),
    Row("Figure 1, CIFAR", "cosine error at the end over half of that at step 1000, or over 0.8",
        "“tend to form equiangular tight frames”: below 1",
        "elasticity/ode-collapse", S(f"{K3}genuine")),
    Row("Figure 1", "cosine error at the end, shapes and CIFAR-10", "an ETF has 0",
        "elasticity/ode-collapse", S("Are genuine class means an ETF", by_panel=True)),
    Row("Linearization 1 of 5", "relative error of decoupling near the start, shapes", "small",
        "elasticity/linearization", S("shapes: decoupling is off")),
    Row("Linearization 1 of 5", "the same, CIFAR-10", "small", "elasticity/linearization",
        S(f"{K3}decoupling is off")),
    Row("Linearization 2 of 5", "relative error of the linearised softmax there, shapes", "small",
        "elasticity/linearization", S("shapes: the linearised softmax")),
    Row("Linearization 2 of 5", "the same, CIFAR-10", "small", "elasticity/linearization",
        S(f"{K3}the linearised softmax")),
    Row("Linearization 3 of 5", "relative error of the drift with −J, and with the other sign",
        "the slide seems to have the other", "elasticity/linearization",
        S("With +J", by_panel=True)),
    Row("Linearization 4 of 5", "change of the residue near the start, shapes",
        "“constant residue”", "elasticity/linearization", S("shapes: the residue is constant")),
    Row("Linearization 4 of 5", "the same, CIFAR-10", "“constant residue”",
        "elasticity/linearization", S(f"{K3}the residue is constant")),
    Row("Linearization 4 and 5 of 5", "residue at convergence, of its first value, shapes",
        "“vanishing residue”", "elasticity/linearization", S("shapes: at convergence")),
    Row("Linearization 4 and 5 of 5", "the same, CIFAR-10", "“vanishing residue”",
        "elasticity/linearization", S(f"{K3}at convergence")),
    Row("Setup, GeoMNIST", "test accuracy, of networks with a loss under 0.01",
        "losses to zero", "elasticity/estimation", S("networks on shapes reach")),
    Row("Setup, CIFAR", "validation accuracy", "above 0.9", "elasticity/estimation",
        S("Do networks on CIFAR-10 reach", by_panel=True)),
    Row("Figure 2a, c", "Â − B̂ of the I-model at the end", "curves; above 0",
        "elasticity/estimation", of_rows("networks", "{world}", lambda row: row["I"]["gap"])),
    Row("Figure 2e, g", "Â − B̂ of the L-model at the end", "curves; above 0",
        "elasticity/estimation", S("Is Â − B̂", by_panel=True)),
    Row("Figure 2b, GeoMNIST, I-model", "steps with α̂ > β̂ (share)", "curves: α̂ above β̂",
        "elasticity/estimation", S("shapes: α̂ > β̂ (I-model)")),
    Row("Figure 2f, GeoMNIST, L-model", "steps with α̂ > β̂ (share)", "curves: α̂ above β̂",
        "elasticity/estimation", S("shapes: α̂ > β̂ (L-model)")),
    Row("Figure 2d, CIFAR, I-model", "steps with α̂ > β̂ (share), K = 3", "curves: α̂ above β̂",
        "elasticity/estimation", S(f"{K3}α̂ > β̂ (I-model)")),
    Row("Figure 2d, CIFAR, I-model", "the same, K = 2", "curves: α̂ above β̂",
        "elasticity/estimation", S(f"{K2}α̂ > β̂ (I-model)")),
    Row("Figure 2h, CIFAR, L-model", "steps with α̂ > β̂ (share), K = 3", "curves: α̂ above β̂",
        "elasticity/estimation", S(f"{K3}α̂ > β̂ (L-model)")),
    Row("Figure 2h, CIFAR, L-model", "the same, K = 2", "curves: α̂ above β̂",
        "elasticity/estimation", S(f"{K2}α̂ > β̂ (L-model)")),
    Row("Figure 3", "share of wrong labels at which learning reverses", "2/3",
        "elasticity/label-noise", of_answer("Where does U change its sign"), readme=True),
    Row("Figure 3a", "validation loss over its first value, p = 0.6 and more", "1 or more",
        "elasticity/label-noise", S("from p = 0.6 on", by_panel=True)),
    Row("Figure 3b", "validation accuracy up to p = 0.3", "high", "elasticity/label-noise",
        S("up to p = 0.3", by_panel=True)),
    Row("Figure 3b", "validation accuracy from p = 0.4 to 2/3", "“separation fails” above 2/3",
        "elasticity/label-noise",
        of_rows("networks", lambda row: f"p = {row['share']:.3g}", "accuracy",
                lambda row: 0.3 < row["share"] < 0.67)),
    Row("Figure 3b", "validation accuracy above p = 2/3", "“separation fails”",
        "elasticity/label-noise", S("above p = 2/3", by_panel=True)),
    Row("Figure 3c",
        "lead of the tail index that should be larger (β̂’s from p = 2/3 on), I-model",
        "above 0", "elasticity/label-noise", S("I-model: the tail index", by_panel=True)),
    Row("Figure 3d", "the same, L-model",
        "“does not exhibit a clear phase transition”; “begins to dominate”: above 0",
        "elasticity/label-noise", S("L-model: the tail index", by_panel=True)),
    Row("Figures 4 and 5, GeoMNIST", "RD of the L- over the I-estimates, late", "below 1",
        "elasticity/imitation", S("shapes: RD of the L-estimates is below")),
    Row("Figures 4 and 5, GeoMNIST", "steps at which it is below 1 (share)",
        "“throughout training”", "elasticity/imitation", S("shapes: at 90 % or more")),
    Row("Figures 4 and 5, GeoMNIST", "RD of the L-estimates, end less middle", "“decreasing RD”",
        "elasticity/imitation", S("shapes: RD of the L-estimates falls")),
    Row("Figures 4 and 5, CIFAR", "RD of the L- over the I-estimates, late, K = 3", "below 1",
        "elasticity/imitation", S(f"{K3}RD of the L-estimates is below")),
    Row("Figures 4 and 5, CIFAR", "steps at which it is below 1 (share), K = 3",
        "“throughout training”", "elasticity/imitation", S(f"{K3}at 90 % or more")),
    Row("Figures 4 and 5, CIFAR", "RD of the L-estimates, end less middle, K = 3",
        "“decreasing RD”", "elasticity/imitation", S(f"{K3}RD of the L-estimates falls")),
    Row("Figures 4 and 5, CIFAR", "RD of the L- over the I-estimates, late, K = 2", "below 1",
        "elasticity/imitation", S(f"{K2}RD of the L-estimates is below")),
    Row("Figures 4 and 5, CIFAR", "steps at which it is below 1 (share), K = 2",
        "“throughout training”", "elasticity/imitation", S(f"{K2}at 90 % or more")),
    Row("Figures 4 and 5, CIFAR", "RD of the L-estimates, end less middle, K = 2",
        "“decreasing RD”", "elasticity/imitation", S(f"{K2}RD of the L-estimates falls")),
    Row("Figures 4 and 5", "RD of the L-estimates in the last quarter", "“reasonably well”",
        "elasticity/imitation", S("How large is RD of the L-estimates", by_panel=True)),
    Row("Figures 4 and 5", "the same, begun after the plateau", "“reasonably well”",
        "elasticity/imitation", S("How large is this RD when both", by_panel=True)),
    Row("Figures 4 and 5", "from t₀ on, without the filter", "“reasonably well”",
        "elasticity/imitation", S("How large is this RD without", by_panel=True)),
    Row("Figures 4 and 5", "RD of the I-estimates in the last quarter", "curves",
        "elasticity/imitation",
        of_rows("networks", "{world}", lambda row: (row["I"] or {}).get("late"))),
    Row("Future works, general E", "pairs separable, symmetric E with a negative eigenvalue",
        "“may be expected”", "elasticity/sampling", of_answer("Do symmetric E")),
    Row("Future works, mini-batches", "U = Σ d_k·Xᵏ at the end, by kind of network",
        "“can be used to model various sampling effects”",
        "elasticity/sampling", of_answer("At which U do mini-batches")),
    Row("Future works, imbalance", "RD with P_kl = π_l over that without",
        "“can be used to model various sampling effects”: below 1", "elasticity/sampling",
        S("Does the sampling matrix")),
    Row("Future works, label corruption", "where learning reverses",
        "“can be used to model various sampling effects”",
        "elasticity/label-noise", of_answer("Where does U change its sign")),
    Row("Future works, beyond the L-model", "share of the means' energy along the ETF",
        "“other directions”", "elasticity/ode-collapse", S("What share of the energy")),
    Row("Future works", "covariance; two-stage behaviour; exit times", "proposed",
        why="the document names them and shows nothing"),
]  # fmt: skip

ZIYIN_2024 = [
    Row("Theories of AI?", "six results of others", "cited", why="named, not shown"),
    Row("Landscape, theorem", "weight decay at which a symmetry collapses, found over predicted",
        "1", "symmetry/landscape", of_thresholds, "(w²x − y)²"),
    Row("Landscape, (w²x − y)² + γw²", "|γ found − γ predicted|", "0",
        "symmetry/landscape", S("(w²x − y)²")),
    Row("Table of symmetries, rescaling", "|γ found − γ predicted|", "0",
        "symmetry/landscape", S("rescaling, (uwx")),
    Row("Table of symmetries, rotation", "|γ found − γ predicted|", "0",
        "symmetry/landscape", S("rotation, ‖UW")),
    Row("Table of symmetries, permutation", "|γ found − γ predicted|", "0",
        "symmetry/landscape", S("exchange, two tanh")),
    Row("Arbitrary discrete group", "spread of three exchangeable weights above the threshold",
        "0", "symmetry/landscape", S("three exchangeable neurons")),
    Row("Rescaling → sparsity", "dead units (share), largest decay less none", "above 0",
        "symmetry/weight-decay", S("the share of dead units", by_panel=True)),
    Row("Rotation → low rankness; activation pattern of ResNet18, rank",
        "effective rank, largest decay less none", "below 0", "symmetry/weight-decay",
        S("the effective rank of the last", by_panel=True)),
    Row("Permutation → identical neurons", "copies (share), largest decay less none", "above 0",
        "symmetry/weight-decay", S("the share of copies", by_panel=True)),
    Row("Mirror surface, ℓ(s)", "oddness of the loss across the mirror", "0", "symmetry/mirror",
        S("exchange of two units")),
    Row("Mirror surface, sign of c₀", "c₀ of merged units", "above 0", "symmetry/mirror",
        S("merged tanh units")),
    Row("Mirror surface, sign of c₀", "c₀ of distinct units", "below 0", "symmetry/mirror",
        S("distinct units")),
    Row("Figure 5, upper", "units in blocks before the activation, decay 0.001 (share)",
        "“homogeneous blocks”", "symmetry/weight-decay",
        S("before the activation, with decay", by_panel=True)),
    Row("Figure 5, lower", "units in blocks after the activation, decay 0.001 (share)",
        "“homogeneous blocks”", "symmetry/weight-decay",
        S("after the activation, with decay", by_panel=True)),
    Row("Figure 5, inset", "units in blocks without decay (share)", "“very rare”",
        "symmetry/weight-decay", S("without decay at most 10 %", by_panel=True)),
    Row("Figure 5, upper against lower", "correlation of the two matrices, decay 0.001, one seed",
        "“the patterns are similar for post-activation values”", "symmetry/weight-decay",
        of_likeness(0.001)),
    Row("Figure 5, upper against lower", "the same without decay", "not asked",
        "symmetry/weight-decay", of_likeness(0.0)),
    Row("Self-supervised learning; posterior collapse", "rotations of the loss", "a symmetry",
        why="an identity; its consequences are in the next rows"),
    Row("Self-supervised learning", "modes left and predicted, difference, linear", "0",
        "symmetry/contrastive", S("linear: as many modes")),
    Row("Self-supervised learning", "strengths of modes, error over the largest, linear", "0",
        "symmetry/contrastive", S("linear: strengths are", by_panel=True)),
    Row("Self-supervised learning", "effective rank on images, largest decay less none", "falls",
        "symmetry/contrastive", S("images: the effective rank", by_panel=True)),
    Row("Figure 3, posterior collapse", "modes left and predicted, difference, linear", "0",
        "symmetry/posterior-collapse", S("linear β-VAE: as many modes")),
    Row("Figure 3, posterior collapse", "strengths of modes, error over the largest, linear", "0",
        "symmetry/posterior-collapse", S("linear β-VAE: strengths")),
    Row("Figure 3, posterior collapse",
        "latents at work and predicted, difference without sign, on MNIST", "0",
        "symmetry/posterior-collapse", S("small VAE: latent variables", by_panel=True)),
    Row("Figure 3, posterior collapse", "variance of decoded pictures, of the data's",
        "“lose diversity”", "symmetry/posterior-collapse",
        S("Small VAE: how varied", by_panel=True)),
    Row("Figure 3, posterior collapse", "the same where no mode is predicted", "0",
        "symmetry/posterior-collapse", S("small VAE: where no mode")),
    Row("Removing symmetry", "effective rank of W − θ₀, removed less plain", "above 0",
        "symmetry/removal",
        S("with symmetry removed, the effective rank of what", by_panel=True)),
    Row("Removing symmetry", "effective rank of activations, removed less plain", "above 0",
        "symmetry/removal",
        S("with symmetry removed, the effective rank of the last hidden layer's activations",
          by_panel=True)),
    Row("Algorithms by symmetry", "u∘v and UV against the L1 and nuclear penalty, error", "0",
        "symmetry/compression", S("linear regression on u∘v", by_panel=True)),
    Row("Takeaways, compression", "weights left at a test accuracy within 2 points (share)",
        "“compress”", "symmetry/compression", S("u∘v: at most a quarter")),
    Row("Takeaways, compression", "ranks left at such an accuracy (share)", "“compress”",
        "symmetry/compression", S("UV: at most half")),
    Row("Noether’s theorem", "drift of a charge at a tenth of the rate",
        "dC/dt = 0: a tenth",
        "conservation/charges", S("gradient flow conserves")),
    Row("Two common continuous symmetries", "conserved charges found", "|u|² − |w|²; UᵀU − WWᵀ",
        "conservation/charges", of_answer("How many charges")),
    Row("An example, (uwx − 1)²", "share of the range of u² − w² that gradient descent leaves",
        "1: “does not change”", "conservation/equilibrium",
        S("gradient descent does not", "(uwx − 1)²")),
    Row("An example, (uwx − 1)²", "share that SGD leaves", "0", "conservation/equilibrium",
        S("SGD forgets its start", "(uwx − 1)²")),
    Row("Breakdown of the theorem", "drift under SGD over gradient descent", "above 1",
        "conservation/charges", S("SGD does not", by_panel=True)),
    Row("General theory, dC/dt", "predicted against measured charges, error", "0",
        "conservation/charges", S("recursion and measured")),
    Row("Theorem 4.3", "distance of SGD’s end from C*", "0", "conservation/equilibrium",
        S("SGD ends at the predicted")),
    Row("Theorem 4.3", "share of the spread between initialisations that SGD leaves", "0",
        "conservation/equilibrium", S("SGD forgets its start"), readme=True),
    Row("Message", "share of the spread between initialisations that gradient descent leaves", "1",
        "conservation/equilibrium", S("gradient descent does not")),
    Row("Scale invariance", "|w|⁴ over 2η²Gt, our formula",
        "“A systematic flow towards infinity”: 1", "conservation/scale-invariance",
        S("under SGD |w|⁴")),
    Row("Scale invariance", "|w|⁴ under gradient descent, of its first value", "1",
        "conservation/scale-invariance", S("gradient descent without noise")),
    Row("Deep linear network, orthogonality", "spread of singular values over their mean, MNIST",
        "0", "conservation/deep-linear", S("MNIST: interior layers are multiples", by_panel=True)),
    Row("Deep linear network, alignment", "cosine, MNIST", "1",
        "conservation/deep-linear", S("MNIST: W₄", by_panel=True)),
    Row("Deep linear network, balance", "norms against the predicted, largest error, MNIST", "0",
        "conservation/deep-linear", S("MNIST: all norms", by_panel=True)),
    Row("Figure 8", "largest over smallest norm of interior layers, MNIST", "1",
        "conservation/deep-linear", S("MNIST: interior layers reach one norm", by_panel=True)),
    Row("Figure 8", "norms of first and last layer against theirs, smallest difference, MNIST",
        "“are different”", "conservation/deep-linear",
        S("MNIST: norms of the first", by_panel=True)),
    Row("Sharpness up and down", "Tr H at the end against the predicted, error", "0",
        "conservation/sharpness", S("Tr H ends within")),
    Row("Sharpness up and down", "Tr H, end over start, where it should rise", "above 1",
        "conservation/sharpness", S("where the equilibrium is sharper")),
    Row("Sharpness up and down", "Tr H, end over start, where it should fall", "below 1",
        "conservation/sharpness", S("where the equilibrium is flatter")),
    Row("Figure 3, warm-up", "runs with lr 0.008 at once that stay finite (share)", "0: diverges",
        "conservation/warm-up", S("SGD from Kaiming with lr 0.008")),
    Row("Figure 3, warm-up", "and after 5000 steps at 0.001 (share)", "1: stable",
        "conservation/warm-up", S("after 5000 steps")),
    Row("Figure 3, stability", "S of SGD from Kaiming, end over start", "“improves”",
        "conservation/warm-up", S("SGD from Kaiming at least halves")),
    Row("Figure 3, stability", "S of gradient descent from Kaiming, end over start",
        "“increases only slightly”", "conservation/warm-up", S("gradient descent from Kaiming")),
    Row("Figure 3, stability", "S of SGD from Xavier, end over start",
        "“increases only slightly”", "conservation/warm-up", S("SGD from Xavier changes")),
    Row("Figure 3, stability", "S of SGD at the end over the predicted", "1",
        "conservation/warm-up", S("SGD from Kaiming and from Xavier", by_panel=True)),
    Row("Figure 4", "cosine of the layers, SGD less gradient descent, tanh", "above 0",
        "conservation/features", S("tanh: the cosine")),
    Row("Figure 4, appendix", "the same, other activations", "above 0", "conservation/features",
        S("linear, ReLU, SiLU", by_panel=True)),
    Row("Figure 4", "the cosine itself, tanh", "“similar” under SGD, “dissimilar under GD”",
        "conservation/features", S("How high is the cosine", "tanh", by_panel=True)),
    Row("Latent representation", "growth of the six alignments in training, hidden layers",
        "“highly structured”", "representation/alignment",
        S("the excess of each of the six alignments rises in training, mean", by_panel=True)),
    Row("Latent representation", "the same, at the head", "“highly structured”",
        "representation/alignment",
        S("the excess of each of the six alignments rises in training, at", by_panel=True)),
    Row("Neural collapse", "correlation of H_a and WᵀW where NC1 is small", "1",
        "representation/neural-collapse-nfa", S("where NC1")),
    Row("Table 1, NC", "all six alignments at collapse, least over seeds", "✓ in the CRH",
        "representation/neural-collapse-nfa", S("How large are all six", by_panel=True)),
    Row("Neural feature ansatz; Table 1, NFA", "excess of WᵀW with E[∇ℓ∇ℓᵀ], decay 0.01", "above 0",
        "representation/neural-collapse-nfa",
        S("neural feature ansatz of the talk", by_panel=True)),
    Row("Neural feature ansatz", "the same with gradients of outputs", "above 0",
        "representation/neural-collapse-nfa",
        S("neural feature ansatz of the literature", by_panel=True)),
    Row("Neural feature ansatz", "excess without decay, gradients of the loss", "above 0",
        "representation/neural-collapse-nfa",
        S("Without decay, how large is the excess of WᵀW with gradients of the loss",
          by_panel=True)),
    Row("Neural feature ansatz", "excess without decay, gradients of the outputs", "above 0",
        "representation/neural-collapse-nfa",
        S("Without decay, how large is the excess of WᵀW with gradients of the outputs",
          by_panel=True)),
    Row("Figure 1", "deviations above the null of each alignment, residual network",
        "“significantly”", "representation/alignment",
        S("in both fully connected layers", by_panel=True)),
    Row("Section C.7", "smaller of cosine/0.5 and deviations/5, of −E[g_b h_bᵀ] and WWᵀ",
        "“well aligned”: above 1",
        "representation/alignment", S("with decay 0.01 the cosine")),
    Row("Section C.7", "the cosine itself, averaged over time", "“well aligned”",
        "representation/fluctuation-dissipation",
        S("averaged over time, cos", by_panel=True)),
    Row("Meaning of the hypothesis, 1", "cost along H_b over random directions", "above 1",
        "representation/neural-collapse-nfa", S("neuron variation", by_panel=True)),
    Row("Meaning of the hypothesis, 2", "cost across H_b over random directions", "below 1",
        "representation/neural-collapse-nfa", S("a move along the last", by_panel=True)),
    Row("Meaning of the hypothesis, 2", "directions of H_b needed, over random ones",
        "“fully compact”", "representation/neural-collapse-nfa", S("compact: the", by_panel=True)),
    Row("Meaning of the hypothesis, 3", "1 − error of inverting a layer over that of a rotated W",
        "“invertible”", "representation/neural-collapse-nfa", S("invertible: with", by_panel=True)),
    Row("Einstein’s relation", "D over μ⟨x²⟩, noise ⟨ξξ⟩ = 2δ", "1",
        "representation/fluctuation-dissipation", S("for noise ⟨ξ(t)ξ(t′)⟩")),
    Row("Einstein’s relation", "the same with unit noise, ⟨ξξ⟩ = δ", "1",
        "representation/fluctuation-dissipation", of_answer("With unit noise")),
    Row("Fluctuation–dissipation", "Δ(h_b h_bᵀ) at a step", "an expansion",
        why="the balance of the next rows is that of WWᵀ"),
    Row("Fluctuation–dissipation", "identity of dissipation, noise and drift, error", "0",
        "representation/fluctuation-dissipation", S("E[g_b h_bᵀ + h_b g_bᵀ] + 2λZ_b")),
    Row("Fluctuation–dissipation", "what is left of the balance, over 2λZ_b", "0",
        "representation/fluctuation-dissipation",
        S("at stationarity dissipation", by_panel=True)),
    Row("Theorem 1, equation 7", "what is left, over Z", "0",
        "representation/fluctuation-dissipation", S("stationary: Z_b", by_panel=True)),
    Row("Theorem 1, equation 8", "least of six alignments near a minimum", "1",
        "representation/fluctuation-dissipation", S("near a local minimum", by_panel=True)),
    Row("Noise and regularization", "99 % rank of H_b, largest decay less none, equal steps",
        "falls", "representation/weight-decay",
        S("the 99 % rank of H_b is lower with the largest decay than without, at equal steps",
          by_panel=True)),
    Row("Noise and regularization", "the same, smallest batches less largest", "falls",
        "representation/weight-decay",
        S("the 99 % rank of H_b is lower in the smallest batches, with the most noise, than in "
          "the largest, at equal steps", by_panel=True)),
    Row("Summary", "mean excess of six alignments, largest decay less none, equal steps", "above 0",
        "representation/weight-decay",
        S("the mean excess of the six alignments is higher with the largest decay than without, "
          "at equal steps", by_panel=True)),
    Row("Summary", "the same, smallest batches less largest", "above 0",
        "representation/weight-decay",
        S("the mean excess of the six alignments is higher in the smallest batches than in the "
          "largest, at equal steps", by_panel=True)),
    Row("Figure 3, alignment",
        "exponent of the spectra of H against those of G, queries in layers 1 to 6",
        "3, 2, 1, 1, 1, 1", "representation/transformer",
        of_medians(S("What is α of sorted", "q, layer", by_panel=True)), readme=True),
    Row("Figure 3, alignment", "exponent in the first layer", "3", "representation/transformer",
        S("first layer of the transformer", by_panel=True)),
    Row("Figure 3, alignment", "exponent in the second layer", "2", "representation/transformer",
        S("second layer of the transformer", by_panel=True)),
    Row("Figure 3, alignment", "exponent in further layers", "1", "representation/transformer",
        S("further layers of the transformer", by_panel=True)),
    Row("Figure 3, alignment", "medians of exponents, by module and layer", "−1 to 3 (Table 1)",
        "representation/transformer", of_answer("What is α of sorted")),
    Row("Figure 3, alignment", "R² of the power law, by head", "“power-laws of each other”",
        "representation/transformer", S("sorted eigenvalues of H_b and G_b", by_panel=True)),
    Row("Polynomial alignment", "R² of H_a in the singular directions of W against z, heads",
        "“power-laws of each other”", "representation/transformer", of_heads("r2_p")),
    Row("Polynomial alignment", "R² of G_b in the singular directions of W against z, heads",
        "“power-laws of each other”", "representation/transformer", of_heads("r2_q")),
    Row("Figure 3, alignment", "phases of heads and layers", "5, 8, 6 (by Table 1: 6, 8, 5)",
        "representation/transformer", of_answer("Which heads and layers are in a phase")),
    Row("Table 1, llm", "nearest phase", "layer 1: 6; layer 2: 8; layers 3 to 6: 1, 5, forward CRH",
        "representation/transformer", of_answer("Which phase is nearest")),
    Row("Section C.8", "R² of the power law in fully connected networks", "a figure",
        "representation/transformer", S("in hidden layers of fully connected", by_panel=True)),
    Row("Violation", "layers with all six alignments (share)", "less than half",
        "representation/phases", S("in trained networks fewer than half")),
    Row("Theorem 2, part 1", "least cosine of the third alignment", "1", "representation/phases",
        S("two alignments of a side")),
    Row("Theorem 2, part 2; table 1", "exponents of synthetic layers, largest error", "0",
        "representation/phases", S("on synthetic layers of phases")),
    Row("Theorem 2, part 2; table 1, phases 1 to 3", "spread of ln z", "0",
        "representation/phases", S("phases 1, 2 and 3")),
    Row("Theorem 2, part 3", "least cosine of six", "1", "representation/phases",
        S("one alignment of each side")),
    Row("Theorem 2, part 4", "spread of the spectra", "0", "representation/phases",
        S("all six alignments make")),
    Row("Table 1, CU", "alignment of H_a and WᵀW over chance, 5 and 20 steps after the start",
        "above 0", "representation/neural-collapse-nfa",
        S("a few steps after the start", by_panel=True)),
    Row("Table 1, CU", "alignment of h_a and the change of W (gain; 64 is the most)", "above 1",
        "representation/neural-collapse-nfa", S("Is the change of W aligned", by_panel=True)),
    Row("Table 1, phases", "layers of trained networks, by phase",
        "“a possible phase for the layer during actual training”",
        "representation/phases", S("Which phases are layers", by_panel=True)),
]  # fmt: skip

# What is about which document; a family of studies is a file of results and a page.
DOCUMENTS = {
    "He & Su 2023": HE_SU_2023,
    "Fang et al. 2021": FANG_2021,
    "He & Su 2024": HE_SU_2024,
    "Zhang et al. 2021": ZHANG_2021,
    "Ziyin et al. 2024": ZIYIN_2024,
}


def readme_table(result_of: Callable[[str], StudyResult]) -> list[list[str]]:
    """Return the README's table: the titles, then one row each."""
    table = [["document", "number", "paper", *PROTOCOLS.values()]]
    for name, rows in DOCUMENTS.items():
        for row in (row for row in rows if row.readme):
            cells = row.cells(result_of(row.study))
            ours = (cells[protocol] for protocol in PROTOCOLS)
            table.append([name, row.what, row.paper, *ours])
            name = ""  # it stands once
    return table


def document_table(
    name: str, result_of: Callable[[str], StudyResult], link: Callable[[StudyResult], str]
) -> list[list[str]]:
    """Return all rows of a document: where, what, its number, ours, the verdict, the study."""
    known = any(AUTHORS in result_of(row.study).numbers for row in DOCUMENTS[name] if row.study)
    ours = PROTOCOLS if known else {NETWORK: "ours"}
    table = [["in the document", "what", "there", *ours.values(), "verdict", "study"]]
    for row in DOCUMENTS[name]:
        there = [row.where, row.what, row.paper]
        if not row.study:
            table.append([*there, *[MISSING] * len(ours), "no study", row.why])
            continue
        result = result_of(row.study)
        cells = row.cells(result)
        numbers = [cells[protocol] for protocol in ours]
        verdict = NOT_TRIED if row.value is None else row.verdict(result)
        study = ": ".join(filter(None, (link(result), row.why)))
        table.append([*there, *numbers, verdict, study])
    return table
