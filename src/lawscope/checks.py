"""Arguments of the wrong type, said by the types they are declared with: one mechanism for all."""

from __future__ import annotations

import functools
import inspect
import os
import types
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from lawscope.errors import LawscopeError
from lawscope.whole_number import is_whole

F = TypeVar("F", bound=Callable[..., Any])
SHOWN = 60  # letters of a value in a sentence
_ONE = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "text",
    Path: "a path",
    type(None): "None",
}
_SEVERAL = {int: "whole numbers", float: "numbers", str: "names", Path: "paths"}


def checked(function: F) -> F:
    """Say in a sentence that an argument is of another type than its annotation, where that fails.

    A function's own sentences come first, since they know the remedy; what is left are the errors
    that Python or a library raises at a text in place of a number. Texts, numbers, flags, paths,
    choices and lists of these are looked at.

    Example:
        >>> @checked
        ... def draw(seed: int, path: str | Path | None = None) -> range:
        ...     return range(seed)
        >>> draw(0.5)
        Traceback (most recent call last):
        lawscope.errors.LawscopeError: seed=0.5 is not a whole number.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError:  # too few or unknown ones, which Python says best
            given = {}
        try:
            return function(*args, **kwargs)
        except LawscopeError:
            raise
        except Exception as error:
            hints = _find_hints(function)
            for name, value in given.items():
                if not _fits(value, hint := hints.get(name, Any)):
                    said = f"{name}={_show(value)} {_refuse(hint)}."
                    raise LawscopeError(said) from error
            raise

    return cast(F, run)


@functools.cache
def _find_hints(function: Callable[..., Any]) -> dict[str, Any]:
    variadic = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    parameters = inspect.signature(function).parameters.values()
    names = {one.name for one in parameters if one.kind not in variadic}
    return {name: hint for name, hint in get_type_hints(function).items() if name in names}


def _fits(value: Any, hint: Any) -> bool:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, each) for each in inner)
    if origin is Literal:
        return any(type(value) is type(each) and value == each for each in inner)
    if isinstance(origin, type) and issubclass(origin, Collection) and len(set(inner)) == 1:
        return is_list(value) and all(_fits(each, inner[0]) for each in value)
    if hint is int:
        return is_whole(value)
    if hint is float:
        return _is_number(value)
    if hint is Path:
        return isinstance(value, os.PathLike)
    if hint in _ONE or getattr(hint, "__module__", "").startswith("lawscope."):
        return not isinstance(hint, type) or isinstance(value, hint)
    return True


def is_list(value: object) -> bool:
    """Return whether it is a row of entries: a list, a set, an array; not a text, not a dict.

    Example:
        >>> is_list([1, 2]), is_list("layers"), is_list({}), is_list(3)
        (True, False, False, False)
    """
    other = isinstance(value, str | bytes | Mapping) or getattr(value, "ndim", 1) != 1
    return isinstance(value, Collection) and not other


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # the last is torch's
        return False
    return not isinstance(value, str | bytes | bool)


def _refuse(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return f"is not known; choose {_describe(hint)}"
    return f"is not {_describe(hint)}"


def _describe(hint: Any) -> str:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        *first, last = [_describe(each) for each in inner]
        return f"{', '.join(first)} or {last}"
    if origin is Literal:
        return " or ".join(map(repr, inner))
    if inner:
        return f"a list of {_SEVERAL.get(inner[0], 'values')}"
    return _ONE.get(hint, f"a {getattr(hint, '__name__', hint)}")


def _show(value: Any) -> str:
    try:
        text = repr(value)
    except Exception:  # a value that does not even say what it is
        text = "\n"
    return text if len(text) <= SHOWN and "\n" not in text else f"a {type(value).__name__}"
