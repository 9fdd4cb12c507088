"""Selectors: which of a network's stations to measure."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Sequence

from lawscope.capture.stations import Station, Stations
from lawscope.errors import LawscopeError

GRANULARITIES = ("layers", "blocks")


def select(
    stations: Stations, selector: str | Sequence[str], module_names: Sequence[str]
) -> tuple[Station, ...]:
    """Stations chosen by "layers", "blocks", a glob such as ``encoder.*.mlp``, or a list of names.

    Args:
        stations: all that can be measured.
        selector: what to choose. In a list, names and globs may be mixed.
        module_names: every module path of the network, to tell "never ran" from "no such thing".

    Returns:
        The chosen stations in the order the data meets them.

    Raises:
        LawscopeError: nothing matches, or something asked for never ran; the message offers the
            nearest names.
    """
    if isinstance(selector, str) and selector in GRANULARITIES:
        return _granularity(stations, selector)
    patterns = [selector] if isinstance(selector, str) else list(selector)
    if not patterns:
        raise LawscopeError("The list of stations is empty; name at least two.")
    chosen: set[str] = set()
    for pattern in patterns:
        matched = [n for n in stations.names if n == pattern or fnmatch.fnmatchcase(n, pattern)]
        if not matched:
            raise LawscopeError(_nothing(pattern, stations, module_names))
        chosen.update(matched)
    return tuple(s for s in stations if s.name in chosen)


def _granularity(stations: Stations, name: str) -> tuple[Station, ...]:
    chosen = stations.granularity(name)
    if len(chosen) > 1:
        return chosen
    if name == "blocks":
        raise LawscopeError(
            "The network has no repeated composite modules to call blocks; select "
            "stations='layers', a glob, or a list of names (lawscope.stations shows them all)."
        )
    raise LawscopeError(
        "The network shows fewer than two layers (a linear or convolutional module with what "
        "follows it); select stations by a glob or a list of names: "
        f"{', '.join(stations.names[:12]) or 'none ran'}."
    )


def _nothing(pattern: str, stations: Stations, module_names: Sequence[str]) -> str:
    ran_not = [n for n in module_names if n and (n == pattern or fnmatch.fnmatchcase(n, pattern))]
    if ran_not:
        return (
            f"Station '{ran_not[0]}' was asked for and never ran (or made no float activations "
            "with one row per sample) in the forward pass; drop it from stations=, or feed data "
            "that reaches it."
        )
    near = difflib.get_close_matches(pattern, stations.names, n=3, cutoff=0.3)
    hint = f" Near it: {', '.join(near)}." if near else ""
    return (
        f"No station matches '{pattern}'.{hint} lawscope.stations(model, batch) lists all "
        f"{len(stations)}; 'layers', 'blocks' and 'auto' choose for you."
    )
