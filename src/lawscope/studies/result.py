"""What a study found, in memory and on disk.

::

    <out>/<family>/<name>.<preset>.json   the result of one study
          <family>/<name>.<preset>.png    its figure
          <family>.json                   all studies of the family at ``cpu``, compact
          <family>.<preset>.json          the same at another preset
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

from lawscope.checks import checked
from lawscope.documents import parse_json
from lawscope.errors import LawscopeError
from lawscope.files import write_whole
from lawscope.formatting import describe_settings, number
from lawscope.lazy import Figure, pd
from lawscope.result import Result
from lawscope.section import Section, Table
from lawscope.studies.entry import today, versions
from lawscope.studies.panels import brief
from lawscope.studies.registry import check_preset, find, names
from lawscope.studies.study import (
    BROKEN,
    DONE,
    FAILED,
    FAILED_CHECK,
    FAILS,
    HOLDS,
    NOT_TRIED,
    OPEN,
    PRESETS,
    PROTOCOLS,
    Column,
    Judged,
    Judgement,
    JudgingError,
    count_verdicts,
)

DEFAULT_OUT = Path("lawscope-studies")
DIGITS = 6
TONES = {HOLDS: "good", FAILS: "bad", OPEN: "open", BROKEN: "bad"}


@dataclass(frozen=True, eq=False, repr=False)
class StudyResult(Result):
    """The outcome of one study at one preset.

    Attributes:
        name: ``family/name``.
        preset: smoke, cpu or paper.
        settings: of the preset, with ``seeds`` as asked for.
        numbers: what was measured, by protocol.
        seconds: core-seconds of its trainings, also of those found in the store, and of measuring.
        date: when it was measured, UTC.
        claims: what the paper says, judged, with a column per protocol.
        questions: ours, likewise.
        checks: how the study tests itself, likewise.
        departure: what the run did otherwise than the paper; None of files of earlier versions.
        versions: of lawscope, torch, numpy and Python.
        status: ``"done"``; ``"failed check"`` where the study's own check fails; ``"not tried"``
            where a dataset is absent; ``"failed"``.
        why: of a study that is not done, one sentence.
        trace: of a failed one, where; not kept in files.
    """

    schema: ClassVar[str] = "lawscope.study/1"
    name: str
    preset: str
    settings: Mapping[str, Any]
    numbers: Mapping[str, Mapping[str, Any]]
    seconds: float
    date: str
    claims: tuple[Judged, ...] = ()
    questions: tuple[Judged, ...] = ()
    checks: tuple[Judged, ...] = ()
    departure: str | None = None
    versions: Mapping[str, str] = field(default_factory=versions)
    status: str = DONE
    why: str = ""
    trace: str = field(default="", metadata={"saved": False})

    @property
    def verdicts(self) -> dict[str, str]:
        """The verdict on every claim, under the authors' protocol where there is one."""
        return {claim.text: claim.verdict for claim in self.claims}

    def table(self) -> pd.DataFrame:
        """Return one row per claim and protocol: the paper's number, ours, the verdict."""
        rows = [
            [claim.text, claim.paper, protocol, column.measured, column.verdict, column.why]
            for claim in self.claims
            for protocol, column in claim.columns.items()
        ]
        columns = ["claim", "paper", "protocol", "measured", "verdict", "why"]
        return pd.DataFrame(rows, columns=columns)

    # A figure of several axes, like the paper's.
    def plot(self, protocol: str | None = None) -> Figure:  # type: ignore[override]
        """Draw the study's figure.

        Args:
            protocol: of which numbers; by default of those that decide.

        Raises:
            LawscopeError: nothing was measured.
        """
        if not self.numbers:
            raise LawscopeError(f"{self.name} has no figure: {self.why or 'it has no numbers'}.")
        numbers = dict(self.main_numbers(protocol))
        try:
            return find(self.name).figure(numbers)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise LawscopeError(
                f"The numbers of {self.name} are not whole, so that its figure cannot be drawn "
                f"({error!r}); run the study again."
            ) from error

    def main_numbers(self, protocol: str | None = None) -> Mapping[str, Any]:
        """Return the numbers of one protocol; by default of the study's first."""
        wanted = (protocol,) if protocol else (*find(self.name).protocols, *self.numbers)
        for each in wanted:
            if each in self.numbers:
                return self.numbers[each]
        raise LawscopeError(f"{self.name} was not measured under the protocol {protocol!r}.")

    @property
    def facts(self) -> list[str]:
        """How it was measured, in a few words each."""
        # Studies that train nothing have none.
        seeds = {0: [], None: ["1 seed"], 1: ["1 seed"]}
        given = self.settings.get("seeds")
        facts = [self.preset, *seeds.get(given, [f"{given} seeds"])]
        took = [f"{number(self.seconds)} core-seconds"] if self.numbers else []
        return [*facts, *took, self.date]

    def section(self) -> Section:
        """Return claims, questions and checks, each with its number; and the paper's table."""
        study = find(self.name)
        lists = {"claim": "verdict", "question": "answer", "check": ""}
        tables = [
            _table(title, last, sentences)
            for title, last in lists.items()
            if (sentences := getattr(self, f"{title}s"))
        ]
        if self.numbers and study.table is not None:
            titles, *rows = study.table(dict(self.main_numbers()))
            tables.append(Table(study.source, titles, rows, main=True))
        warnings = ["A smoke run shows that the study works; its numbers mean nothing."]
        warnings = warnings if self.preset == "smoke" and self.numbers else []
        return Section(
            title=f"{self.name}: {study.title}",
            headline=self._outcome(),
            facts=self.facts,
            tables=tables if self.numbers and self.status != FAILED else (),
            findings=self._findings(),
            warnings=warnings + ([self.why] if self.why and self.status == DONE else []),
            settings=describe_settings({**self.settings, **self.versions}),
        )

    def _findings(self) -> list[str]:
        """Say what the paper has, and where the run departs from it and from today's preset."""
        study = find(self.name)
        findings = [f"The paper: {study.paper} ({study.source})."]
        if self.departure:
            findings.append(f"Departs from the paper: {self.departure}.")
        ours, preset = (
            to_json(each, DIGITS) for each in (self.settings, study.settings[self.preset])
        )
        if other := [key for key in sorted({*ours, *preset}) if ours.get(key) != preset.get(key)]:
            names = ", ".join(other)
            findings.append(f"Settings that differ from today's {self.preset} preset: {names}.")
        return findings

    def __str__(self) -> str:
        return f"{self.name} ({self.preset}): {self._outcome()}"

    def _outcome(self) -> str:
        if self.status != DONE:
            return f"{self.status}: {' '.join(self.why.split())}"
        return count_verdicts(self.claims)


def judge(result: StudyResult) -> StudyResult:
    """Judge the numbers of a result by today's claims, but by what its own run departed in.

    A sentence whose evaluation raises makes the study a failed one; its numbers are kept. Without
    numbers nothing changes.
    """
    if not result.numbers:
        return result
    study = find(result.name)
    if result.departure is None or result.settings == study.settings[result.preset]:
        result = replace(result, departure=study.departures.get(result.preset, ""))
    numbers = {p: dict(result.numbers[p]) for p in study.protocols if p in result.numbers}
    try:
        judgement = study.judge(numbers, result.preset, result.departure)
    except JudgingError as error:
        return replace(result, **vars(Judgement()), status=FAILED, why=str(error))
    status, why = DONE, ""
    if judgement.broken:
        status, why = FAILED_CHECK, f"{'; '.join(judgement.broken)}: this must be so and is not"
    return replace(result, **vars(judgement), status=status, why=why)


def without_numbers(
    name: str, preset: str, settings: Mapping[str, Any], status: str, why: str, trace: str = ""
) -> StudyResult:
    """Return the result of a study that could not be measured: no claim is tried, and why."""
    study = find(name)
    column = {study.protocols[0]: Column(None, NOT_TRIED, why)}
    claims = tuple(Judged(c.text, column, c.paper, c.figure) for c in study.claims)
    result = StudyResult(name, preset, settings, {}, 0.0, today(), claims)
    return replace(result, status=status, why=why, trace=trace)


def result_file(out: str | Path, name: str, preset: str, form: str = "json") -> Path:
    """Return where a result lies, or its figure (``form="png"``)."""
    return Path(out) / f"{name}.{preset}.{form}"


def summary_file(out: str | Path, name: str, preset: str) -> Path:
    """Return where the summary of a study's family lies; that of ``cpu`` has the plain name."""
    family = name.partition("/")[0]
    return Path(out) / (f"{family}.json" if preset == "cpu" else f"{family}.{preset}.json")


def save(result: StudyResult, out: str | Path, picture: bytes | None = None) -> Path:
    """Write a result and its figure, and return the path of the result."""
    path = result_file(out, result.name, result.preset)
    _write(result, path)
    figure = path.with_suffix(".png")
    if picture is not None:
        write_whole(picture, figure)
    else:
        figure.unlink(missing_ok=True)  # an older figure would not be of these numbers
    return path


def save_family(results: Sequence[StudyResult], path: Path) -> None:
    """Write the summary of a family: what is committed, rendered, and read by ``show``.

    Versions stand once, those of the latest, and again at studies that were run with others; one
    line per study, so that a new run is a readable change.
    """
    family = results[0].name.partition("/")[0]
    latest = dict(max(results, key=lambda result: result.date).versions)
    head = {"family": family, "date": today(), "versions": latest}
    documents = [to_json(result.to_dict(), DIGITS) for result in results]
    for each in documents:
        if each["versions"] == latest:
            del each["versions"]
    lines = ",\n".join(json.dumps(d, ensure_ascii=False, allow_nan=False) for d in documents)
    write_whole(f'{json.dumps(head)[:-1]}, "studies": [\n{lines}\n]}}\n', path)


def keep(results: Sequence[StudyResult], out: str | Path) -> list[Path]:
    """Put results into the summaries of their families, and return these.

    A result replaces that of the same study, but for one without numbers, which replaces only its
    like; the others stay, each with its own date.
    """
    written = []
    for path in dict.fromkeys(summary_file(out, r.name, r.preset) for r in results):
        kept = {r.name: r for r in load_results(path)}
        for result in results:
            own = summary_file(out, result.name, result.preset) == path
            if own and (result.numbers or not (result.name in kept and kept[result.name].numbers)):
                kept[result.name] = result
        save_family([kept[name] for name in names() if name in kept], path)
        written.append(path)
    return written


@checked
def load(name: str, out: str | Path, preset: str | None = None) -> StudyResult:
    """Return the latest result of a study, from its own file or from the summary of its family.

    Args:
        name: ``family/name``.
        out: the folder of results.
        preset: which one; None takes the latest, a smoke run only where there is no other.

    Raises:
        LawscopeError: there is none, or the file is damaged or may not be read.
    """
    find(name)  # an unknown name is not the same as one that was never run
    presets = PRESETS if preset is None else (check_preset(preset),)
    files = (file(out, name, each) for each in presets for file in (result_file, summary_file))
    if found := [r for file in files for r in load_results(file) if r.name == name]:
        return max(found, key=lambda result: (result.preset != "smoke", result.date))
    at = f" at preset {preset}" if preset else ""
    raise LawscopeError(
        f"There is no result of {name}{at} in {out}; run the study first, or point --out to "
        "another folder, for example results in a clone of the repository."
    )


def load_results(path: Path) -> list[StudyResult]:
    """Return the results in a file: one, or those of a family; none where there is no such file."""
    document = _read(path)
    if document is None:
        return []
    try:
        # Files of earlier versions name no schema.
        shared = {"schema": StudyResult.schema, "versions": document["versions"]}
        studies = document["studies"] if "family" in document else [document]
        results = [StudyResult.from_dict({**shared, **from_json(study)}) for study in studies]
        for result in results:
            datetime.fromisoformat(result.date)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise LawscopeError(
            f"{path} is not a whole result of a study; run the study again."
        ) from error
    known = names()
    for result in results:
        if result.name not in known or result.preset not in PRESETS:
            raise LawscopeError(
                f"{path} is of {result.name} at {result.preset}, which this version of lawscope "
                "does not have; name another file or folder."
            )
    return results


def judge_file(path: Path) -> list[StudyResult]:
    """Judge the stored numbers of a file again by today's claims, and write them back.

    Where a sentence cannot be judged, the file stays as it is.
    """
    stored = load_results(path)
    results = [judge(result) for result in stored]
    if not results:
        raise LawscopeError(f"There are no results in {path}.")
    if any(r.status == FAILED != s.status for r, s in zip(results, stored, strict=True)):
        return results
    if "family" in (_read(path) or {}):
        save_family(results, path)
    else:
        _write(results[0], path)
    return results


def to_json(value: Any, digits: int | None = None) -> Any:
    """Return plain JSON values: scalars as numbers, arrays as lists, NaN by its name."""
    if isinstance(value, Mapping):
        return {str(key): to_json(inside, digits) for key, inside in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(inside, digits) for inside in value]
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            return str(float(value))
        return float(value) if digits is None else float(f"{value:.{digits}g}")
    if hasattr(value, "tolist"):
        return to_json(value.tolist(), digits)
    raise LawscopeError(
        f"A study measured a {type(value).__name__}; its numbers must be JSON values (numbers, "
        "texts, lists, dictionaries)."
    )


def from_json(value: Any) -> Any:
    """Return the inverse of :func:`to_json`."""
    if isinstance(value, dict):
        return {key: from_json(inside) for key, inside in value.items()}
    if isinstance(value, list):
        return [from_json(inside) for inside in value]
    return float(value) if value in ("nan", "inf", "-inf") else value


def measured_text(column: Column) -> str:
    """Return what was measured and why the verdict is not a plain one."""
    if column.measured is None:
        return column.why
    return brief(column.measured) + (f"; {column.why}" if column.why else "")


def _table(title: str, last: str, sentences: Sequence[Judged]) -> Table:
    """Return one row per sentence and protocol; the sentence stands once."""
    several = ["protocol"] if any(len(sentence.columns) > 1 for sentence in sentences) else []
    paper = ["paper"] if any(sentence.paper for sentence in sentences) else []
    rows = []
    for sentence in sentences:
        words = [sentence.text, *([sentence.paper] if paper else [])]
        for protocol, column in sentence.columns.items():
            how = [PROTOCOLS[protocol]] if several else []
            rows.append([*words, *how, measured_text(column), column.verdict])
            words = [""] * len(words)
    columns = [title, *paper, *several, "measured", last]
    caption = f"{title.capitalize()}s"
    return Table(caption, columns, rows, words=len(columns), main=True, tones=TONES)


def _write(result: StudyResult, path: Path) -> None:
    write_whole(json.dumps(result.to_dict(), indent=1, allow_nan=False) + "\n", path)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        document = parse_json(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except PermissionError as error:
        raise LawscopeError(
            f"{path} may not be read; change its permissions or name another folder of results."
        ) from error
    except IsADirectoryError as error:
        raise LawscopeError(f"{path} is a folder; name the results in it.") from error
    except (OSError, ValueError) as error:
        raise LawscopeError(
            f"{path} is not a readable result of a study ({error}); name another file, or run the "
            "study again."
        ) from error
    if not isinstance(document, dict):
        raise LawscopeError(f"{path} is not a result of a study; name another file.")
    return document
