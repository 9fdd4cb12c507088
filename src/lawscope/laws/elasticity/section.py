"""What a measurement of local elasticity shows people."""

from __future__ import annotations

import dataclasses

import numpy as np

from lawscope.formatting import as_sentence, between, fixed, many, percent
from lawscope.laws.elasticity.result import Elasticity
from lawscope.laws.elasticity.verdict import RULE
from lawscope.laws.learned import say_not_learned
from lawscope.section import HeatMap, KeyNumber, Section, Table
from lawscope.statistics.class_pairs import PairGap

VERDICTS = {"holds": "locally elastic", "does not hold": "not locally elastic"}
MEANINGS = {
    "gap": "effect on the same class less that on others, as shares of the effect on x itself",
    "same": "effect of a step on x upon samples of its class",
    "other": "effect of a step on x upon samples of other classes",
}


def section_of(result: Elasticity) -> Section:
    """Return the section of a result."""
    said = say_not_learned(result.accuracy, result.counts) if result.learned is False else ""
    facts = [many(int(result.counts.sum()), "sample"), many(len(result.classes), "class")]
    if not np.isnan(result.accuracy):
        facts.insert(0, f"accuracy {percent(result.accuracy)}")
    section = result._section(
        VERDICTS,
        title="Local elasticity",
        numbers=_numbers(result),
        facts=facts,
        charts=[_chart(result)],
        tables=[_table(result)],
        findings=_findings(result),
        rule=RULE,
        papers=("elasticity",),
        about=(
            "A network is locally elastic if a training step on one sample moves its prediction on "
            "similar samples more than on dissimilar ones. Here similar means of the same class.",
            "Relative: |Δf(x′)|/|Δf(x)| of a step on x. Signed: along Δf(x). Kernel: cosine of the "
            "gradients of the logits. Linear classifier: the relative one of Wx + b.",
        ),
    )
    return dataclasses.replace(section, headline=f"{said} {as_sentence(section.headline)}".strip())


def _numbers(result: Elasticity) -> list[KeyNumber]:
    def number(symbol: str, name: str, kind: str, meaning: str) -> KeyNumber:
        found, beside = (
            None if r is None else r.similarities.get(kind) for r in (result, result.control)
        )
        assert found is not None
        control = "" if beside is None else fixed(getattr(beside, name), 3)
        return KeyNumber(
            symbol, fixed(getattr(found, name), 3), meaning, _ends(found, name), control
        )

    numbers = [number(name, name, "relative", meaning) for name, meaning in MEANINGS.items()]
    numbers.append(number("signed gap", "gap", "signed", "the same along the effect on x itself"))
    numbers.append(number("kernel gap", "gap", "kernel", "the same of the gradients of the logits"))
    if result.linear is not None:
        meaning = "the gap of a linear classifier on these inputs"
        numbers.append(number("linear gap", "gap", "linear classifier", meaning))
    return numbers


def _ends(found: PairGap, name: str) -> str:
    return between(found.interval.get(name), lambda end: fixed(end, 3))


def _names(result: Elasticity) -> list[str]:
    return [result.class_names[k] for k in result.probed]


def _chart(result: Elasticity) -> HeatMap:
    names = _names(result)
    return HeatMap(
        title="Effect of a step on a class (row) upon others (column)",
        rows=names,
        columns=names,
        values=result.classwise,
        low=0.0,
        high=max(1.0, float(result.classwise.max())),
        scale_label="|Δf(x′)|/|Δf(x)|, mean over pairs of probes",
    )


def _table(result: Elasticity) -> Table:
    rows = [
        [name, fixed(f.same, 3), fixed(f.other, 3), fixed(f.gap, 3), _ends(f, "gap")]
        for name, f in result.similarities.items()
    ]
    columns = ["similarity", "same class", "other classes", "gap", "95 %"]
    return Table("Pairs of the same and of other classes", columns, rows)


def _findings(result: Elasticity) -> list[str]:
    names, probes = _names(result), int(result.probes.sum())
    among = "" if len(names) == len(result.classes) else f", of {len(result.classes)} in the data"
    sentences = [
        f"Steps were taken on {many(probes, 'probe')} of {many(len(names), 'class')}{among}."
    ]
    off = result.classwise - np.diag(np.full(len(names), np.inf))
    k, most = np.unravel_index(np.argmax(off), off.shape)
    sentences.append(
        f"A step on '{names[k]}' moves '{names[most]}' by {fixed(off[k, most], 2)} of its effect "
        f"on its own sample, the most of all pairs of classes, and '{names[k]}' itself by "
        f"{fixed(result.classwise[k, k], 2)}."
    )
    if result.one_by_one:
        sentences.append(
            "Gradients of single samples were computed one after the other, because "
            f"torch.func.vmap cannot run this network ({result.one_by_one})."
        )
    return sentences
