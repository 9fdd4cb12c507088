"""What a law is: a registered description, its settings, its observer and its result.

A law lives in one folder. Being registered, it is measured by ``ls.scan`` and by the command, and
its results are saved, loaded, printed and drawn; nothing else in the package names it.
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import (
    Any,
    ClassVar,
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
from lawscope.formatting import describe_settings
from lawscope.laws.provenance import Provenance
from lawscope.result import Result
from lawscope.section import Section
from lawscope.whole_number import whole_number

Need = Literal["labels", "tokens", "loss", "weights", "steps"]
Verdict = Literal["holds", "does not hold", "cannot be told"]
Answer = tuple[bool | None, str]  # certainly so, certainly not or neither, and the sentence
VERDICTS = {"holds": "the law holds", "does not hold": "the law does not hold"}
F = TypeVar("F", bound=Callable[..., Any])


def option(
    default: Any,
    help: str,  # noqa: A002
    *,
    least: int | None = None,
    lacks: str = "is too few",
    convert: Callable[[Any], Any] | None = None,
) -> Any:
    """Declare a field of :class:`Settings`.

    Args:
        default: its default value.
        help: what it does, in a sentence; shown by ``help()``, ``--help`` and the documentation.
        least: of a whole number.
        lacks: what is wrong with less.
        convert: checks the value and gives it its final form, or raises a ``LawscopeError``.
    """
    metadata = {"help": help, "least": least, "lacks": lacks, "convert": convert}
    return field(default=default, metadata=metadata)


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
            value, hint = getattr(self, one.name), hints.get(one.name, Any)
            convert = one.metadata.get("convert")
            least = one.metadata.get("least")
            if convert is not None:
                object.__setattr__(self, one.name, convert(value))
            elif choices := _choices(hint):
                _check_choice(one.name, value, choices)
            elif least is not None and (value is not None or hint is int):
                number = whole_number(one.name, value, least, one.metadata["lacks"])
                object.__setattr__(self, one.name, number)
            elif hint in (bool, bool | None) and not isinstance(value, get_args(hint) or bool):
                allowed = "True or False" if hint is bool else "True, False or None"
                raise LawscopeError(f"{one.name}={value!r} is not {allowed}.")

    @classmethod
    def read(cls, law: str, given: Mapping[str, Any]) -> Self:
        """Return the settings with these values.

        Raises:
            LawscopeError: a name that the law does not have; the sentence offers the nearest.
        """
        known = [f.name for f in dataclasses.fields(cls)]
        for name in given:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
                hint = f"did you mean {near[0]}=?" if near else f"it has {', '.join(known)}."
                raise LawscopeError(f"{law} has no setting {name}=; {hint}")
        return cls(**given)

    def open_tokens(self, data: Any, config: Any) -> Source:
        """Return the data as a source of tokens, for a law that needs them."""
        return TokenSource(data, config)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings by name."""
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}


def _choices(hint: Any) -> list[Any]:
    """Return the values that a ``Literal``, or one of them or None, allows; else nothing."""
    parts = [hint] if get_origin(hint) is Literal else get_args(hint)
    allowed = [[None] if part is type(None) else get_args(part) for part in parts]
    literal = all(get_origin(part) is Literal or part is type(None) for part in parts)
    return [value for values in allowed for value in values] if literal else []


def _check_choice(name: str, value: Any, choices: list[Any]) -> None:
    if not isinstance(value, str | None) or value not in choices:
        listed = [repr(choice) for choice in choices]
        raise LawscopeError(
            f"{name}={value!r} is not known; choose {', '.join(listed[:-1])} or {listed[-1]}."
        )


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

    law: ClassVar[str] = ""
    verdict: str
    reason: str
    advice: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    provenance: Provenance = field(default_factory=Provenance)
    control: LawResult | None = None

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
        """Return the result once all passes are done.

        Args:
            control: the result of the untrained network.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Law:
    """The description of a law.

    Attributes:
        name: of the law, of its public function and of ``report.<name>``.
        title: as people write it.
        papers: names in :data:`lawscope.papers.PAPERS`.
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
    observe: Callable[[Session, Any], LawObserver[Any]]
    result: type[LawResult]


def decide(answers: list[Answer]) -> tuple[Verdict, str]:
    """Return one verdict on several conditions: all must be certain; one certain no decides.

    Example:
        >>> decide([(True, "it falls"), (None, "r is uncertain")])
        ('cannot be told', 'r is uncertain')
    """
    for certain, sentence in answers:
        if certain is False:
            return "does not hold", sentence
    for certain, sentence in answers:
        if certain is None:
            return "cannot be told", sentence
    return "holds", "; ".join(sentence for _, sentence in answers)


def with_settings_of(settings: type[Settings]) -> Callable[[F], F]:
    """Give a public function the signature and documentation of its law's settings.

    The function takes them as ``**settings``; ``help()``, completion and the documentation show
    every one of them with its default.
    """

    def described(function: F) -> F:
        signature = inspect.signature(function)
        own, fields = list(signature.parameters.values()), dataclasses.fields(settings)
        kind = inspect.Parameter.KEYWORD_ONLY
        named = [
            inspect.Parameter(f.name, kind, default=f.default, annotation=f.type) for f in fields
        ]
        positional = [p for p in own if p.kind is p.POSITIONAL_OR_KEYWORD]
        keywords = [p for p in own if p.kind is kind]
        function.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[*positional, *named, *keywords]
        )
        lines = "\n".join(f"        {f.name}: {f.metadata['help']}" for f in fields)
        text = function.__doc__ or ""
        function.__doc__ = text.replace("        **settings: the settings below.", lines)
        return function

    return described
