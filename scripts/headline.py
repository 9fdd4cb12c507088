"""The table of the README: numbers that the documents print, and ours beside them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lawscope.studies.panels import brief
from lawscope.studies.result import StudyResult
from lawscope.studies.study import PROTOCOLS

Value = Callable[[StudyResult, str], Any]  # of one protocol: numbers by seed, or by panel


@dataclass(frozen=True)
class Row:
    """What was measured, what the document says of it, and where ours is."""

    what: str
    paper: str
    study: str
    value: Value


def of_sentence(begin: str, panels: str = "") -> Value:
    """Take what a claim or question measured, found by how it begins; panels by part of a name."""

    def read(result: StudyResult, protocol: str) -> Any:
        sentences = (*result.claims, *result.questions)
        (found,) = [each for each in sentences if each.text.startswith(begin)]
        measured = found.columns[protocol].measured
        return {name: values for name, values in measured.items() if panels in name}

    return read


def pooled(value: Value) -> Value:
    """Take the numbers of all panels together."""
    return lambda *of: [one for panel in value(*of).values() for one in panel]


def alone(value: Value) -> Value:
    """Take the numbers of the only panel, without its name."""
    return lambda *of: next(iter(value(*of).values()))


def of_frozen(name: str) -> Value:
    """Take a number of the networks that were trained at once, and in two halves."""

    def read(result: StudyResult, protocol: str) -> Mapping[str, Any]:
        kinds = {"at once": "standard", "in two halves": "frozen"}
        numbers = result.numbers[protocol]
        return {label: [row[name] for row in numbers[kind]["chosen"]]
                for label, kind in kinds.items()}  # fmt: skip

    return read


ROWS = (
    Row("r, nine panels of figure 1", "−1.000 to −0.997", "separation/optimizers",
        pooled(of_sentence("straight lines"))),
    Row("ρ of 8 layers", "0.53", "separation/optimizers", alone(of_sentence("ρ of 8 layers"))),
    Row("ρ of 20 layers", "0.818", "separation/optimizers", alone(of_sentence("ρ of 20 layers"))),
    Row("r, trained at once and in two halves", "−0.997, −0.971", "separation/frozen",
        of_frozen("r")),
    Row("test accuracy of the two", "0.2385, 0.1967", "separation/frozen",
        of_frozen("test_accuracy")),
    Row("half-life, imbalanced over balanced, 20 layers", "“significantly larger”",
        "separation/imbalance", pooled(of_sentence("the half-life is larger", "20 layers"))),
    Row("best depth", "6, 10, 12", "separation/depth", of_sentence("Which depth is best")),
    Row("R₀ beyond which rare classes merge, K_A = 5", "finite, larger with E_H",
        "peeled/minority-angle",
        of_sentence("At which R₀", "K_A = 5")),
    Row("minority accuracy at the largest R", "0.055 to 0.343", "collapse/minority",
        pooled(of_sentence("What minority test accuracy"))),
    Row("r of next-token prediction, stories-260K on stories", "“straight lines”",
        "next-token/law", alone(of_sentence("stories-260K: r", "text.txt"))),
    Row("r of next-token prediction, SmolLM2", "“straight lines”", "next-token/law",
        alone(of_sentence("SmolLM2-135M: r"))),
    Row("share of wrong labels at which learning turns round", "2/3", "elasticity/label-noise",
        lambda result, protocol: result.questions[0].columns[protocol].verdict),
    Row("weight decay at which a symmetry collapses, found over predicted", "1",
        "symmetry/landscape", lambda result, protocol: [
            row["found"] / row["predicted"] for row in result.numbers[protocol]["thresholds"]]),
    Row("what SGD leaves of a spread of starts", "0", "conservation/equilibrium",
        pooled(of_sentence("SGD forgets its start"))),
    Row("exponent of H against G, queries in layers 1 to 6", "3, 2, 1, 1, 1, 1",
        "representation/transformer", pooled(of_sentence("What is α of sorted", "q, layer"))),
)  # fmt: skip


def headline(result_of: Callable[[str], StudyResult]) -> list[list[str]]:
    """Return the table: the titles, then one row each."""
    table = [["", "paper", *PROTOCOLS.values()]]
    for row in ROWS:
        result = result_of(row.study)
        ours = [
            brief(row.value(result, protocol)) if protocol in result.numbers else ""
            for protocol in PROTOCOLS
        ]
        table.append([row.what, row.paper, *ours])
    return table
