"""Results as JSON and back, from the fields of a dataclass.

Encoding follows the values, decoding follows the type hints, so that a document stays plain JSON
that other programs can read: arrays are lists, named tuples and dataclasses are objects, and the
floats that JSON cannot say are the strings "NaN", "Infinity" and "-Infinity".
"""

from __future__ import annotations

import dataclasses
import json
import math
import types
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from lawscope.errors import LawscopeError
from lawscope.lazy import np

ASIDE_ENTRIES = 256  # arrays of at least so many entries may be stored beside the document
_NAMES = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def parse_json(text: str | bytes) -> Any:
    """Return what JSON says; nesting beyond what Python can follow is a ``ValueError`` too."""
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def encode(value: Any, aside: dict[str, Any] | None = None, path: str = "") -> Any:
    """Return ``value`` as JSON values; long arrays go into ``aside``, by their path, if given."""
    if isinstance(value, np.generic):
        return encode(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if value is None or isinstance(value, bool | str | int | float):
        return value
    if isinstance(value, np.ndarray):
        return _encode_array(value, aside, path)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [f for f in dataclasses.fields(value) if f.metadata.get("saved", True)]
        body = {f.name: encode(getattr(value, f.name), aside, f"{path}{f.name}.") for f in fields}
        schema = getattr(type(value), "schema", None)
        # Read off the fields, for who reads the document; decoding leaves them out.
        derived = getattr(type(value), "derived", ())
        body |= {name: encode(getattr(value, name)) for name in derived}
        return body if schema is None else {"schema": schema, **body}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return {k: encode(v, aside, f"{path}{k}.") for k, v in value._asdict().items()}
    if isinstance(value, Mapping):
        return {str(k): encode(v, aside, f"{path}{k}.") for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        items = sorted(value) if isinstance(value, set | frozenset) else value
        return [encode(item, aside, f"{path}{i}.") for i, item in enumerate(items)]
    if isinstance(value, PurePath) or type(value).__module__ == "torch":
        return str(value)
    if callable(value):
        return getattr(value, "__name__", type(value).__name__)
    raise LawscopeError(f"A {type(value).__name__} cannot be written as JSON; leave it out.")


def decode(value: Any, hint: Any, aside: Mapping[str, Any] | None = None) -> Any:
    """Return the value of type ``hint`` from which :func:`encode` made this one."""
    if isinstance(value, Mapping) and set(value) == {"array"}:
        if aside is None or value["array"] not in aside:
            raise LawscopeError(
                f"The array '{value['array']}' is missing: it was saved in the .safetensors file "
                "beside this one; keep the two together."
            )
        return np.asarray(aside[value["array"]])
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _decode_union(value, inner, aside)
    if hint is Any or isinstance(hint, str):
        if isinstance(value, Mapping):
            return {k: decode(v, Any, aside) for k, v in value.items()}
        if isinstance(value, list):
            return [decode(item, Any, aside) for item in value]
        return _NAMES.get(value, value) if isinstance(value, str) else value
    if origin is Literal:
        return value
    if hint is float:
        return float(value)  # which knows the names as well
    if origin is np.ndarray or hint is np.ndarray:
        dtype = get_args(inner[1])[0] if inner else Any
        dtype = np.float64 if dtype is Any else dtype
        # numpy reads the names of what is not finite as float() does.
        empty = isinstance(value, Mapping)
        return np.empty(value["shape"], dtype) if empty else np.array(value, dtype)
    if origin is tuple:
        kinds = inner[:1] * len(value) if inner[-1] is Ellipsis else inner
        return tuple(decode(v, kind, aside) for v, kind in zip(value, kinds, strict=True))
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return {k: decode(v, inner[1], aside) for k, v in value.items()}
    if origin is not None and isinstance(value, list):
        return [decode(v, inner[0] if inner else Any, aside) for v in value]
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        schema = value.get("schema")
        if schema not in (None, getattr(hint, "schema", None)):
            from lawscope.result import find_schema

            hint = find_schema(schema)  # a subclass of the hint
        return decode_fields(value, hint, aside)
    if isinstance(hint, type) and hasattr(hint, "_fields"):
        hints = get_type_hints(hint)
        return hint(**{name: decode(value[name], hints[name], aside) for name in value})
    return value


def decode_fields(
    document: Mapping[str, Any], kind: type, aside: Mapping[str, Any] | None = None
) -> Any:
    """Return the dataclass ``kind`` made of a document; what the document lacks has its default."""
    hints = get_type_hints(kind)
    known = {f.name for f in dataclasses.fields(kind) if f.init}
    return kind(**{n: decode(v, hints[n], aside) for n, v in document.items() if n in known})


def _encode_array(array: Any, aside: dict[str, Any] | None, path: str) -> Any:
    # The names in the file beside the document are text; a class read from a folder may not be.
    name = path.removesuffix(".").encode("utf-8", "backslashreplace").decode()
    if aside is not None and array.size >= ASIDE_ENTRIES and array.dtype.kind in "fiub":
        aside[name] = np.ascontiguousarray(array)
        return {"array": name}
    if not array.size and array.ndim > 1:
        return {"shape": list(array.shape)}
    finite = array.dtype.kind != "f" or np.isfinite(array).all()
    return array.tolist() if finite else encode(array.tolist())


def _decode_union(value: Any, kinds: tuple[Any, ...], aside: Mapping[str, Any] | None) -> Any:
    if value is None:
        return None
    rest = [kind for kind in kinds if kind is not type(None)]
    if len(rest) == 1:
        return decode(value, rest[0], aside)
    if isinstance(value, str) and str in rest and value not in _NAMES:
        return value
    for kind in rest:
        try:
            return decode(value, kind, aside)
        except LawscopeError:  # a part is missing: no other kind would find it
            raise
        except (TypeError, ValueError, AttributeError, KeyError):
            continue
    return value


def drop_non_finite(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the same structure with None for every float that is not finite."""

    def clean(value: Any) -> Any:
        if isinstance(value, float):
            return value if math.isfinite(value) else None
        if isinstance(value, dict):
            return drop_non_finite(value)
        if isinstance(value, list | tuple):
            return [clean(item) for item in value]
        return value

    return {key: clean(value) for key, value in numbers.items()}
