"""What a law is: a registered description, its settings, its observer and its result.

A law lives in one folder. Being registered, it is measured by ``ls.scan`` and by the command, and
its results are saved, loaded, printed and drawn; nothing else in the package names it.
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import (
    Any,
    Generic,
    Literal,
    Self,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from lawscope.capture.session import Session
from lawscope.capture.taps import Observer
from lawscope.data.source import Source
from lawscope.data.tokens import TokenSource
from lawscope.errors import LawscopeError
from lawscope.formatting import describe_settings, typeset
from lawscope.laws.provenance import Provenance
from lawscope.lazy import pd
from lawscope.result import Result
from lawscope.section import Section
from lawscope.whole_number import LARGEST, whole_number

Need = Literal["labels", "tokens", "loss", "weights", "steps"]
Verdict = Literal["holds", "does not hold", "cannot be told"]
Answer = tuple[bool | None, str]  # certainly so, certainly not or neither, and the sentence
VERDICTS = {"holds": "the law holds", "does not hold": "the law does not hold"}
# The help of settings that several laws have.
CLASS_NAMES = "names of the classes in the order of their sorted labels."
DISTRIBUTED = (
    "merge over the ranks of torch.distributed; by default wherever a process group is "
    "initialised. Every rank must call it."
)
WHOLE = (
    "the data is the whole training set, as in the paper: what is measured is then what there is "
    "to know, without an interval. Samples that the network was trained on say nothing of data it "
    "never saw."
)
# Of every function that measures a law, beside the settings.
ARGUMENTS = ("control", "progress")
F = TypeVar("F", bound=Callable[..., Any])


def option(
    default: Any,
    help: str,  # noqa: A002
    *,
    least: int | None = None,
    lacks: str = "is too few",
    most: int = LARGEST,
    convert: Callable[[Any], Any] | None = None,
) -> Any:
    """Declare a field of :class:`Settings`.

    Args:
        default: its default value.
        help: what it does, in a sentence; shown by ``help()``, ``--help`` and the documentation.
        least: of a whole number.
        lacks: what is wrong with less.
        most: of a whole number.
        convert: checks the value and gives it its final form, or raises a ``LawscopeError``.
    """
    bounds = {"least": least, "lacks": lacks, "most": most}
    return field(default=default, metadata={"help": help, "convert": convert, **bounds})


@dataclass(frozen=True)
class Settings:
    """The settings of a law: keyword arguments, ``--set`` on the command line, JSON, documentation.

    Subclasses declare fields with :func:`option`. Values are checked here and nowhere else: a
    ``Literal`` by its members, an ``int`` as a whole number, anything else by its ``convert``.

    Raises:
        LawscopeError: a value that is not allowed; the sentence says what is.
    """

    def __post_init__(self) -> None:
        hints = get_type_hints(type(self))
        for one in dataclasses.fields(self):
            name, value, hint = one.name, getattr(self, one.name), hints[one.name]
            convert, least = one.metadata.get("convert"), one.metadata.get("least")
            if convert is not None:
                value = convert(value)
            elif choices := _choices(hint):
                if not isinstance(value, str | None) or value not in choices:
                    *others, last = map(repr, choices)
                    raise LawscopeError(
                        f"{name}={value!r} is not known; choose {', '.join(others)} or {last}."
                    )
            elif least is not None and (value is not None or hint is int):
                lacks, most = one.metadata["lacks"], one.metadata["most"]
                value = whole_number(name, value, least, lacks, most)
            elif hint in (bool, bool | None) and not isinstance(value, get_args(hint) or bool):
                allowed = "True or False" if hint is bool else "True, False or None"
                raise LawscopeError(f"{name}={value!r} is not {allowed}.")
            object.__setattr__(self, name, value)

    @classmethod
    def read(cls, law: str, given: Mapping[str, Any]) -> Self:
        """Return the settings with these values; a name that the law does not have is an error."""
        check_names(given, [f.name for f in dataclasses.fields(cls)], f"{law} has no")
        return cls(**given)

    @property
    def takes_targets(self) -> bool:
        """Whether the next tokens of a text can be the labels of its loss."""
        return False

    def open_tokens(self, data: Any, config: Any) -> Source:
        """Return the data as a source of tokens, for a law that needs them."""
        return TokenSource(data, config)


def check_names(
    given: Iterable[str], known: Sequence[str], lack: str, arguments: Sequence[str] = ARGUMENTS
) -> None:
    """Refuse a setting that is not known; the sentence offers the nearest.

    Among these are the arguments of the function itself, which are no settings of a law.
    """
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, [*known, *arguments], n=1, cutoff=0.4)
            hint = f"did you mean {near[0]}=?" if near else f"there are {', '.join(known)}."
            raise LawscopeError(f"{lack} setting {name}=; {hint}")


def _choices(hint: Any) -> list[Any]:
    """Return the values that a ``Literal``, or one of them or None, allows; else nothing."""
    parts = [hint] if get_origin(hint) is Literal else get_args(hint)
    if not all(get_origin(part) is Literal or part is type(None) for part in parts):
        return []
    return [value for part in parts for value in get_args(part) or [None]]


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LawResult(Result):
    """What a law says about one network.

    Attributes:
        verdict: by the law's documented rule.
        reason: the sentence behind the verdict.
        advice: what to do, in sentences, the most important first.
        warnings: what deserves a look, in sentences.
        settings: how it was measured.
        provenance: what was measured with what.
        control: the same law on the same network untrained, where that was measured.
    """

    verdict: str
    reason: str
    advice: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    provenance: Provenance = field(default_factory=Provenance)
    control: LawResult | None = None

    def __post_init__(self) -> None:
        # One typography, wherever a sentence is read.
        object.__setattr__(self, "reason", typeset(self.reason))
        for name in ("advice", "warnings"):
            object.__setattr__(self, name, tuple(map(typeset, getattr(self, name))))

    def measured_on(self, provenance: Provenance) -> Self:
        """Return the result with its provenance."""
        return dataclasses.replace(self, provenance=provenance)

    def table(self) -> pd.DataFrame:
        """Return the first table of the section, as text; a result may have a better one."""
        tables = self.section().tables
        if not tables:
            raise LawscopeError(f"A {type(self).__name__} has no table.")
        return pd.DataFrame(list(tables[0].rows), columns=list(tables[0].columns))

    def _section(self, verdicts: Mapping[str, str] = VERDICTS, **own: Any) -> Section:
        """Return a section of what every law shows, and of what this one adds."""
        return Section(
            verdict=verdicts.get(self.verdict, "undecided"),
            tone={"holds": "good", "does not hold": "bad"}.get(self.verdict, "open"),
            headline=self.reason,
            advice=self.advice,
            warnings=self.warnings,
            settings=describe_settings(self.settings),
            **own,
        )


R = TypeVar("R", bound=LawResult)


class LawObserver(Observer, Generic[R]):
    """An observer that can say what it found."""

    def result(self, control: R | None = None) -> R:
        """Return the result once all passes are done, beside that of the untrained network."""
        raise NotImplementedError


@dataclass(frozen=True)
class Law(Generic[R]):
    """The description of a law.

    Attributes:
        name: of the law, of its public function and of ``report.<name>``.
        title: as people write it.
        papers: the one to cite first; references written out, or names in
            :data:`lawscope.papers.PAPERS`.
        needs: what data and call must bring: "labels", "tokens", a "loss", "weights", "steps".
        settings: its settings.
        observe: makes the observer of an opened session, given settings.
        result: class of its results.
    """

    name: str
    title: str
    papers: tuple[str, ...]
    needs: frozenset[Need]
    settings: type[Settings]
    observe: Callable[[Session, Any], LawObserver[R]]
    result: type[R]


def decide(answers: list[Answer]) -> tuple[Verdict, str]:
    """Return one verdict on several conditions: all must be certain; one certain no decides."""
    for certain, sentence in answers:
        if certain is False:
            return "does not hold", sentence
    for certain, sentence in answers:
        if certain is None:
            return "cannot be told", sentence
    return "holds", "; ".join(sentence for _, sentence in answers)


def with_settings_of(settings: type[Settings]) -> Callable[[F], F]:
    """Give a function of ``**settings`` the signature and documentation of its law's settings."""

    def describe(function: F) -> F:
        signature, fields = inspect.signature(function), dataclasses.fields(settings)
        own, kind = signature.parameters.values(), inspect.Parameter.KEYWORD_ONLY
        positional = [p for p in own if p.kind is p.POSITIONAL_OR_KEYWORD]
        named = [
            inspect.Parameter(f.name, kind, default=f.default, annotation=f.type) for f in fields
        ]
        keywords = [p for p in own if p.kind is kind]
        function.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[*positional, *named, *keywords]
        )
        wrap = textwrap.TextWrapper(96, " " * 4, " " * 8, break_on_hyphens=False)
        lines = [wrap.fill(f"{f.name}: {f.metadata['help']}") for f in fields]
        text = inspect.cleandoc(function.__doc__ or "")
        function.__doc__ = text.replace("    **settings: the settings below.", "\n".join(lines))
        return function

    return describe
