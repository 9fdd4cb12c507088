"""Pick the numbers of each kind of answer; nothing else in this folder knows their attributes."""

from operator import attrgetter

import numpy as np


def pick(result, names):
    """Read attributes by path: "D=fit.slope" picks ``result.fit.slope`` as "D"."""
    pairs = ((name.partition("=")[0], name.rpartition("=")[2]) for name in names.split())
    return {name: attrgetter(path)(result) for name, path in pairs}


def numbers_of_fit(fit):
    names = ("slope", "intercept", "pearson", "rho", "half_life")
    ends = [fit.interval[name] for name in names] if fit.interval else None
    return {"fit": [getattr(fit, name) for name in names], "fit_interval": ends}


def numbers_of_replicates(replicates):
    curves = None if replicates is None else replicates.curves
    return {} if curves is None else {"replicates": [len(curves), curves.mean(0), curves.std(0)]}


def numbers_of_population(found):
    if found is None:
        return {"population": None}
    ends = [found.fit.interval[name] for name in ("slope", "pearson", "rho", "half_life")]
    numbers = {"interval": found.interval, "fit_interval": ends}
    return {"population": pick(found, "values settled needed verdict") | numbers}


def numbers_of_separation(result, whole=True):
    """Leave out what hardly depends on the settings unless ``whole``."""
    how = [result.settings["passes"], *result.settings["strategy"]]
    found = pick(result, "D=values verdict granularity") | {"how": how}
    found |= {"fit": numbers_of_fit(result.fit)["fit"], **numbers_of_population(result.population)}
    if not whole:
        return found
    others = {name: numbers_of_fit(fit)["fit"] for name, fit in result.granularities.items()}
    found |= pick(result, "stations classwise classes counts dims ranks")
    found |= pick(result, "reduction sensitivity least_sensitivity")
    return {**found, "granularities": others}


def numbers_of_collapse(result):
    pairs = np.triu_indices(len(result.classes), 1)
    names = (
        "nc1 nc2_means=nc2.means nc2_classifiers=nc2.classifiers nc3 nc4 minority minority_cosine "
        "energies centred_energies bias_share interval head=head.name counts training_counts "
        "accuracy nearest_accuracy class_accuracy verdict"
    )
    how = [result.settings["passes"], result.settings["strategy"]]
    found = {**pick(result, names), "how": how, **numbers_of_population(result.population)}
    found["cosines"] = [result.classifier_cosines[pairs], result.mean_cosines[pairs]]
    if result.predicted is not None:
        names = (
            "predicted.nc2 predicted.nc3 predicted.minority_cosine predicted.loss=prediction.loss"
        )
        found |= pick(result, names) | {"predicted.cosines": result.predicted.cosines[pairs]}
    return found


# Laws of text, and of a loss: skipped in every scan here, and not in the kept numbers.
NEED_MORE = {"next_token", "elasticity", "alignment", "conservation"}


def numbers_of_scan(report):
    beside = report.separation.control
    control = {} if beside is None else numbers_of_separation(beside, whole=False)
    collapse = {} if report.collapse is None else numbers_of_collapse(report.collapse)
    found = {
        "control": control,
        "collapse": collapse,
        "skipped": sorted({*report.skipped} - NEED_MORE),
    }
    return {**found, "separation": numbers_of_separation(report.separation, whole=False)}


def numbers_of_next_token(result, whole=True):
    found = pick(result, "pr pr_cv pr_onehot n d rank verdict") | numbers_of_fit(result.fit)
    if whole:
        found |= pick(result, "blocks target final_norm pr_adjusted onehot_error condition")
        found |= numbers_of_replicates(result.replicates)
    others = {**result.others, **({} if result.control is None else {"control": result.control})}
    return found | {name: numbers_of_next_token(other, False) for name, other in others.items()}


def numbers_of_peel(result, thresholds=True):
    found = pick(result, "loss gap price minority_cosine")
    if thresholds:
        found |= pick(result, "threshold vanishing oversampling_needed")
    groups = [[g.count, g.classes, g.cosine] for g in result.groups]
    phases = [group.phase for group in result.groups]
    return {**found, "groups": groups, "phases": phases, "logits": result.logits[0]}


def numbers_of_sweep(result):
    return pick(result, "losses cosines phases threshold gaps")


def numbers_of_local(result):
    names = "local_losses=losses local_loss=collapsed_loss local_cosines=minority_cosines"
    return pick(result, names)


def numbers_of_report(result):
    names = "minority_cosine threshold rate collapsed phase".split()
    each = {name: [getattr(outlook, name) for outlook in result.outlooks] for name in names}
    return {**pick(result, "classes counts ratio"), **each}


def numbers_of_plan(plan):
    phases = [group.phase for half in (plan.before, plan.after) for group in half.groups]
    return {**pick(plan, "rates balancing before.loss after.loss"), "phases": phases}


def numbers_of_balance(result):
    return pick(result, "bottom top difference balance interval split verdict")
