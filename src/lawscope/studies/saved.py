"""Results on disk: one file per study and preset, one summary per family.

::

    <out>/<family>/<name>.<preset>.json   the result
          <family>/<name>.<preset>.png    its figure
          <family>.json                   all studies of the family at ``cpu``, compact
          <family>.<preset>.json          the same at another preset

Measured in train mode: ``<name>.<preset>.train.json`` and ``<family>.train.json``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lawscope.errors import LawscopeError
from lawscope.report.files import write_whole
from lawscope.studies.entry import today, versions
from lawscope.studies.registry import check_mode, check_preset, find
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


def summary_file(out: Path, family: str, preset: str, mode: str) -> Path:
    """Where the summary of a family lies; ``cpu``, whose summary is committed, goes without saying.

    Example:
        >>> [summary_file(Path(), "peeled", each, "eval").name for each in ("cpu", "smoke")]
        ['peeled.json', 'peeled.smoke.json']
        >>> summary_file(Path(), "peeled", "cpu", "train").name
        'peeled.train.json'
    """
    return out / f"{label(family if preset == 'cpu' else f'{family}.{preset}', mode)}.json"


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


def summary_of(result: StudyResult, out: Path) -> Path:
    """Where the summary of a result's family lies."""
    return summary_file(out, result.name.partition("/")[0], result.preset, result.mode)


def save_family(results: Sequence[StudyResult], out: Path) -> Path:
    """Write the summary of a family: what is committed, rendered, and read by ``show``.

    Args:
        results: of one family, preset and mode.
        out: the folder of results.
    """
    family = results[0].name.partition("/")[0]
    document = {
        "family": family,
        "date": today(),
        "versions": versions(),
        "studies": [_short(result) for result in results],
    }
    path = summary_of(results[0], out)
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
        LawscopeError: there is none, or the file is damaged or may not be read.
    """
    find(name)  # an unknown name is told apart from one that was never run
    presets = PRESETS if preset is None else (check_preset(preset),)
    modes = MODES if mode is None else (check_mode(mode),)
    kinds = [(each, how) for each in presets for how in modes]
    found = [r for kind in kinds for r in _read_result(result_file(out, name, label(*kind)))]
    found = found or [r for kind in kinds for r in _from_summary(name, out, *kind)]
    if not found:
        with_preset = f" --preset {preset}" if preset else ""
        raise LawscopeError(
            f"There is no result of {name}{with_preset} in {out}; make one with 'lawscope study "
            f"run {name}{with_preset}', or name another folder with --out."
        )
    return max(found, key=lambda result: result.date)


def _read_result(path: Path) -> list[StudyResult]:
    """The result in a file; none where there is no such file."""
    document = _read(path)
    with _whole(path):
        return [] if document is None else [StudyResult.from_dict(document)]


def _from_summary(name: str, out: Path, preset: str, mode: str) -> list[StudyResult]:
    """The result of a study in the summary of its family; none where it is not there."""
    path = summary_file(out, name.partition("/")[0], preset, mode)
    document = _read(path)
    if document is None:
        return []
    with _whole(path):
        versions, studies = document["versions"], document["studies"]
        return [
            StudyResult.from_dict({"versions": versions, **study})
            for study in studies
            if (study["name"], study["preset"]) == (name, preset)
        ]


@contextmanager
def _whole(path: Path) -> Iterator[None]:
    """What is missing or of another kind in a document is a sentence about its file."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise LawscopeError(
            f"{path} is not a whole result ({error!r}); run the study again."
        ) from error


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


def _read(path: Path) -> dict[str, Any] | None:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError as error:
        raise LawscopeError(
            f"{path} may not be read; change its permissions or name another folder with --out."
        ) from error
    except (OSError, ValueError) as error:
        raise LawscopeError(
            f"{path} is not a readable result ({error}); remove it and run the study again."
        ) from error
    if not isinstance(document, dict):
        raise LawscopeError(f"{path} is not a result; remove it and run the study again.")
    return document
