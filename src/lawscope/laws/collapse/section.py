"""What a measurement of neural collapse shows people."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from lawscope.formatting import MISSING, as_sentence, between, count, fixed, many, number, percent
from lawscope.laws.collapse.result import Collapse, number_rows
from lawscope.laws.collapse.verdict import RULE, find_facts
from lawscope.laws.learned import say_not_learned
from lawscope.section import HeatMap, KeyNumber, Section, Table

VERDICTS = {"holds": "collapsed as predicted", "does not hold": "not collapsed as predicted"}
MOST_CLASSES = 60
LARGE_BIAS = 0.1  # share of the logits worth a remark
ROUNDING, SOLVED = 1e-12, 1e-9  # what is smaller is 0: of a measured number, of a predicted one
KEY = {
    "NC1 Papyan": "D/K: spread of a class over the distance between classes",
    "NC2 means angle_error": "mean distance of cosines from −1/(K−1)",
    "NC2 classifiers angle_error": "mean distance of cosines from −1/(K−1)",
    "NC3": "distance between classifiers and class means",
    "NC4": "samples where classifier and nearest class mean disagree",
}


def section_of(result: Collapse) -> Section:
    """Return the section of a result."""
    said = "" if result.learned else say_not_learned(result.accuracy, result.counts)
    section = result._section(
        VERDICTS,
        title=f"Neural collapse at {result.head.name}",
        numbers=_numbers(result),
        facts=(
            f"accuracy {percent(result.accuracy)}",
            many(int(result.counts.sum()), "sample"),
            many(len(result.classes), "class"),
        ),
        charts=_charts(result),
        tables=[_number_table(result), _class_table(result)],
        findings=[*find_facts(result), _head_sentence(result), *_prediction_sentence(result)],
        rule=RULE,
        papers=("collapse", "layer_peeled"),
        about=(
            "At the end of training the features of a class are expected to shrink to one point, "
            "and class means and classifiers to spread as far as they can. Rare classes may share "
            "a classifier instead.",
            "Predicted: the same numbers at the optimum of the Layer-Peeled Model.",
        ),
    )
    return dataclasses.replace(section, headline=f"{said} {as_sentence(section.headline)}".strip())


def _numbers(result: Collapse) -> list[KeyNumber]:
    rows, control = (
        {} if found is None else {row.metric: row for row in number_rows(found)}
        for found in (result, result.control)
    )
    numbers = [
        KeyNumber(
            name.removesuffix(" angle_error").removesuffix(" Papyan"),
            write(rows[name].value),
            meaning,
            between((rows[name].low, rows[name].high), write),
            write(control[name].value) if control else "",
            _write(rows[name].predicted, SOLVED, ""),
        )
        for name, meaning in KEY.items()
        for write in [percent if name == "NC4" else _write]
    ]
    cosine = rows[f"{result.cosine_name} of classifiers"]
    if math.isfinite(cosine.value):
        few = f"the {len(result.minority)} smallest classes"
        whose = few if _has_minority(result) else "all classes"
        beside = fixed(control[cosine.metric].value, 3) if control else ""
        predicted = "" if math.isnan(cosine.predicted) else fixed(cosine.predicted, 3)
        about = f"mean between the classifiers of {whose}"
        value = fixed(cosine.value, 3)
        numbers.append(KeyNumber("cosine", value, about, control=beside, predicted=predicted))
    return numbers


def _write(value: float, zero: float = ROUNDING, missing: str = MISSING) -> str:
    return missing if math.isnan(value) else number(value, zero=zero)


def _has_minority(result: Collapse) -> bool:
    return len(result.minority) < len(result.classes)


def _charts(result: Collapse) -> list[HeatMap]:
    order = np.arange(len(result.classes))
    if _has_minority(result):
        order = np.argsort(-result.training_counts, kind="stable")
    names = [result.class_names[k] for k in order]
    how = ", largest first" if _has_minority(result) else ""
    cosines = {"measured": result.classifier_cosines}
    if result.predicted is not None:
        cosines["predicted"] = result.predicted.cosines
    return [
        HeatMap(
            title=f"Cosines between classifiers, {kind}",
            rows=names,
            columns=names,
            values=square[np.ix_(order, order)],
            low=-1.0,
            high=1.0,
            scale_label=f"cosine; {many(len(names), 'class')}{how}",
        )
        for kind, square in cosines.items()
    ]


def _number_table(result: Collapse) -> Table:
    rows = []
    for row in number_rows(result):
        name = row.metric.replace("_", " ") if row.metric.startswith("NC2") else row.metric
        ends = between((row.low, row.high), lambda end: number(end, zero=ROUNDING))
        rows.append([name, row.convention, _write(row.value), ends, _write(row.predicted, SOLVED)])
    return Table("Numbers", ["number", "convention", "value", "95 %", "predicted"], rows, words=2)


def _class_table(result: Collapse) -> Table:
    table, caption = result.by_class(), "Classes at the head"
    if len(table) > MOST_CLASSES:
        table = table.sort_values("cosine", ascending=False).head(MOST_CLASSES)
        caption += f": the {MOST_CLASSES} whose classifier has the nearest rival"
    rows = [
        [
            row["class"],
            row["nearest classifier"],
            fixed(row["cosine"], 2),
            count(round(row["training samples"])),
            percent(row["accuracy"]),
            row["predicted phase"] or MISSING,
        ]
        for row in table.to_dict("records")
    ]
    columns = ["class", "nearest classifier", "cosine", "samples", "accuracy", "predicted"]
    return Table(caption, columns, rows, words=2)


def _head_sentence(result: Collapse) -> str:
    head, share = result.head, percent(result.bias_share)
    bias = f"a bias that makes {share} of the logits" if head.bias else "no bias"
    more = f", {head.positions} of positions" if head.positions else ""
    more += f", under a {head.after}" if head.after else ""
    more += "; NC2, NC3 and the prediction are about weights alone" * (
        result.bias_share > LARGE_BIAS
    )
    return (
        f"The head ({head.kind}) has {many(head.features, 'feature')}, {many(head.rows, 'row')} "
        f"and {bias}{more}."
    )


def _prediction_sentence(result: Collapse) -> list[str]:
    if result.no_prediction:
        return [f"No prediction: {result.no_prediction}"]
    sizes, energies, centred = result.training_counts, result.energies, result.centred_energies
    least, most = f"{sizes.min():g}", f"{sizes.max():g}"
    words = f"{most} sample{'' if most == '1' else 's'} each"
    if least != most:
        words = f"{least} to {most} samples, a ratio of {number(float(sizes.max() / sizes.min()))}"
    return [
        f"The prediction is for {len(sizes)} classes of {words}, with the energies of this "
        f"network, E_W = {number(energies.weight)} and E_H = {number(energies.feature)}. Without "
        f"the means that all classes share they are {number(centred.weight)} and "
        f"{number(centred.feature)}: take those to ask from which ratio on classes merge "
        "(lawscope peel), and for rates of oversampling."
    ]
