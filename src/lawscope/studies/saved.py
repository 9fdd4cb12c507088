"""Results on disk: one file per study and preset, one summary per family.

::

    <out>/<family>/<name>.<preset>.json   the result
          <family>/<name>.<preset>.png    its figure
          <family>.json                   all studies of the family, compact

Measured in train mode: ``<name>.<preset>.train.json`` and ``<family>.train.json``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lawscope.errors import LawscopeError
from lawscope.report.files import write_whole
from lawscope.studies.entry import today, versions
from lawscope.studies.registry import check_preset, find
from lawscope.studies.result import DIGITS, StudyResult
from lawscope.studies.study import MODES, PRESETS

DEFAULT_OUT = Path("lawscope-studies")


def label(preset: str, mode: str) -> str:
    """What tells the files of a study apart.

    Example:
        >>> label("cpu", "eval"), label("cpu", "train")
        ('cpu', 'cpu.train')
    """
    return preset if mode == "eval" else f"{preset}.{mode}"


def result_file(out: Path, name: str, label: str, form: str = "json") -> Path:
    """Where a result lies, or its figure (``form="png"``).

    Example:
        >>> result_file(Path("out"), "separation/depth", "cpu").as_posix()
        'out/separation/depth.cpu.json'
    """
    return out / f"{name}.{label}.{form}"


def save(result: StudyResult, out: Path, picture: bytes | None = None) -> Path:
    """Write a result and its figure.

    Returns:
        The path of the result.

    Raises:
        LawscopeError: the folder cannot be written.
    """
    kind = label(result.preset, result.mode)
    path = result_file(out, result.name, kind)
    write_whole(json.dumps(result.to_dict(), indent=1, allow_nan=False) + "\n", path)
    figure = result_file(out, result.name, kind, "png")
    if picture is not None:
        write_whole(picture, figure)
    else:
        figure.unlink(missing_ok=True)  # an older figure would not be of these numbers
    return path


def save_family(results: Sequence[StudyResult], out: Path) -> Path:
    """Write the summary of a family: what is committed, rendered, and read by ``show``."""
    family = results[0].name.partition("/")[0]
    document = {
        "family": family,
        "date": today(),
        "versions": versions(),
        "studies": [_short(result) for result in results],
    }
    path = out / f"{label(family, results[0].mode)}.json"
    write_whole(_compact(document) + "\n", path)
    return path


def load(name: str, out: Path, preset: str | None = None, mode: str | None = None) -> StudyResult:
    """The latest result of a study, from its own file or from the summary of its family.

    Args:
        name: ``family/name``.
        out: the folder of results.
        preset: which one; None takes the latest.
        mode: measured in which mode; None takes the latest.

    Raises:
        LawscopeError: there is none, or the file is damaged.
    """
    find(name)  # an unknown name is told apart from one that was never run
    presets = PRESETS if preset is None else (check_preset(preset),)
    modes = MODES if mode is None else (mode,)
    files = [result_file(out, name, label(each, how)) for each in presets for how in modes]
    found = [_read_result(file) for file in files if file.exists()]
    found = found or [
        result
        for how in modes
        for result in _from_summary(name, out, how)
        if result.preset in presets
    ]
    if not found:
        with_preset = f" --preset {preset}" if preset else ""
        raise LawscopeError(
            f"There is no result of {name}{with_preset} in {out}; make one with 'lawscope study "
            f"run {name}{with_preset}', or name another folder with --out."
        )
    return max(found, key=lambda result: result.date)


def _read_result(path: Path) -> StudyResult:
    try:
        return StudyResult.from_dict(_read(path))
    except (KeyError, TypeError) as error:
        raise LawscopeError(
            f"{path} is not a whole result ({error!r} is missing); run the study again."
        ) from error


def _from_summary(name: str, out: Path, mode: str) -> list[StudyResult]:
    path = out / f"{label(name.partition('/')[0], mode)}.json"
    if not path.exists():
        return []
    document = _read(path)
    studies = document.get("studies", [])
    return [
        StudyResult.from_dict({"versions": document["versions"], **study})
        for study in studies
        if study["name"] == name
    ]


def _short(result: StudyResult) -> dict[str, Any]:
    """A result as the summary has it: versions stand once, for all."""
    document = result.to_dict(DIGITS)
    del document["versions"]
    return document


def _compact(document: dict[str, Any]) -> str:
    """JSON with one line per study, so that a new run is a readable change."""
    head = {key: value for key, value in document.items() if key != "studies"}
    lines = ",\n".join(
        json.dumps(study, ensure_ascii=False, allow_nan=False) for study in document["studies"]
    )
    return f'{json.dumps(head)[:-1]}, "studies": [\n{lines}\n]}}'


def _read(path: Path) -> dict[str, Any]:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise LawscopeError(
            f"{path} is not a readable result ({error}); remove it and run the study again."
        ) from error
    if not isinstance(document, dict):
        raise LawscopeError(f"{path} is not a result; remove it and run the study again.")
    return document
