"""How people read numbers, settings and names: one way for every output."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby, takewhile
from typing import Any

MISSING = "–"
MOST_ENTRIES = 8  # of a list of settings that are shown
ARROW = " → "  # between the parts of a station's name, as are dots
_JOINTS = re.compile(rf"\.|{ARROW}")
_WORDS = re.compile(r"[a-z]{2}|a [a-z]{2}")
_PERCENT = re.compile(r"(?<=\d)%")
_MINUS = re.compile(r"(?:(?<=^)|(?<=[\s(\[,;:<>≤≥≈]))-(?=[\d.∞])|(?<=\de)-(?=\d)")


def number(value: float, digits: int = 3, zero: float = 0.0) -> str:
    """Return a number with ``digits`` significant digits; up to ``zero`` it is rounding, and 0.

    Example:
        >>> number(12.0), number(0.04567), number(-1.5e-7), number(float("inf"))
        ('12.0', '0.0457', '−1.50e−7', '∞')
        >>> number(99.97), number(1.13e-16), number(1.13e-16, zero=1e-12)
        ('100', '1.13e−16', '0')
    """
    if math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    if abs(value) <= zero:
        return "0"
    # As it is after rounding: 99.96 has as many digits before the point as 100.
    size = abs(float(f"{value:.{digits - 1}e}"))
    if not 1e-3 <= size < 1e5:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        text = f"{mantissa}e{int(exponent)}"
    else:
        text = f"{value:.{max(0, digits - 1 - math.floor(math.log10(size)))}f}"
    return _minus(text)


def fixed(value: float, decimals: int) -> str:
    """Return a number with a fixed number of decimals, for values that live near 1.

    Example:
        >>> fixed(-0.99871, 4), fixed(-1e-9, 2), fixed(float("nan"), 3)
        ('−0.9987', '0.00', '–')
    """
    if not math.isfinite(value):
        return number(value)
    # Adding 0 turns a rounded −0.0 into 0.0.
    return _minus(f"{round(value, decimals) + 0.0:.{decimals}f}")


def signed(value: float, decimals: int = 3) -> str:
    """Return a number with fixed decimals that shows its sign.

    Example:
        >>> signed(0.0213), signed(-0.4)
        ('+0.021', '−0.400')
    """
    return _minus(f"{value:+.{decimals}f}") if math.isfinite(value) else number(value)


def percent(share: float) -> str:
    """Return a share as a percentage; from ten times the whole on as so many times.

    Example:
        >>> percent(0.452), percent(0.00417), percent(1.31), percent(252.14)
        ('45.2 %', '0.417 %', '131 %', '252 times')
    """
    if not math.isfinite(share):
        return number(share)
    return f"{number(100 * share)} %" if abs(share) < 10 else f"{number(share)} times"


def between(
    ends: Sequence[float] | None,
    write: Callable[[float], str] = number,
    empty: str = "",
    limits: tuple[float, float] = (-math.inf, math.inf),
) -> str:
    """Return an interval in words; an end at a limit of the quantity says nothing and is left out.

    ``empty`` stands where there is no interval, or one without both ends.

    Example:
        >>> between((0.5, 2.0)), between((12.3, math.inf)), between((0.0, 0.4), limits=(0, math.inf))
        ('0.500 to 2.00', 'at least 12.3', 'at most 0.400')
        >>> between((math.inf, math.inf)), between((-1.0, 1.0), limits=(-1, 1)), between(None)
        ('', '', '')
    """  # noqa: E501
    if ends is None or any(map(math.isnan, ends)):
        return empty
    low, high = (("" if write(end) in map(write, limits) else write(end)) for end in ends)
    if low and high:
        return f"{low} to {high}"
    return f"at least {low}" if low else f"at most {high}" if high else empty


def count(value: int) -> str:
    """Return a whole number in groups of three digits, with thin spaces.

    Example:
        >>> count(60000)
        '60\u202f000'
    """
    return f"{value:,}".replace(",", "\u202f")


def many(amount: int, noun: str) -> str:
    """Return how many there are of something.

    Example:
        >>> many(1, "class"), many(2, "class"), many(60000, "sample"), many(3, "symmetry")
        ('1 class', '2 classes', '60\u202f000 samples', '3 symmetries')
    """
    if amount != 1 and noun.endswith(("ry", "dy")):
        noun = f"{noun[:-1]}ie"
    ending = "" if amount == 1 else "es" if noun.endswith("s") else "s"
    return f"{count(amount)} {noun}{ending}"


def shorten(text: str, width: int, dots: str = "…") -> str:
    """Cut a long name in the middle; the end of a module path says more than its beginning.

    Example:
        >>> shorten("encoder.layers.11.output.dense", 20)
        'encode….output.dense'
    """
    if len(text) <= width:
        return text
    letters = width - len(dots)
    head = letters // 3
    return f"{text[:head]}{dots}{text[len(text) - (letters - head) :]}"


def name_some(names: Sequence[str], most: int) -> str:
    """Return names in quotation marks, the first ``most`` of them.

    Example:
        >>> name_some(["a", "b", "c"], 2)
        "'a', 'b' …"
    """
    return ", ".join(f"'{name}'" for name in names[:most]) + (" …" if len(names) > most else "")


def join_words(words: Sequence[str]) -> str:
    """Return words as a list in a sentence.

    Example:
        >>> join_words(["a", "b", "c"])
        'a, b and c'
    """
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def one_of(granularity: str) -> str:
    """Return what one station stands for, in the singular.

    Example:
        >>> one_of("layers"), one_of("chosen")
        ('layer', 'station')
    """
    return {"layers": "layer", "blocks": "block"}.get(granularity, "station")


def name_station(name: str, layer: str) -> str:
    """Return how a station is shown: after the layer it completes, where its name is another.

    A station that is that layer, lies in it or contains it keeps its name.

    Example:
        >>> name_station("relu#2", "conv2"), name_station("fc#2", "fc"), name_station("input", "")
        ('conv2 → relu#2', 'fc#2', 'input')
        >>> name_station("blocks.0.relu()", "blocks.0.conv"), name_station("up.relu()", "up")
        ('blocks.0.conv → relu()', 'up.relu()')
    """
    own, of_layer = name.partition("#")[0].removesuffix("()").split("."), layer.split(".")
    shared = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(own, of_layer, strict=False))))
    if not layer or shared in (len(own), len(of_layer)):
        return name
    return layer + ARROW + name.split(".", shared)[shared]


def short_names(names: Sequence[str], room: float = math.inf) -> list[str]:
    """Return the names without the leading and trailing parts that all long names share.

    A number keeps the part before it; a name of one part ("input") stays as it is and takes no
    part in the comparison. Where a name is still longer than ``room``, what follows arrows goes if
    the rest says enough. The short names are as different from one another as the given ones.

    Example:
        >>> short_names(["input", "bert.encoder.layer.0.output.norm", "bert.encoder.layer.1.output.norm"])
        ['input', 'layer.0', 'layer.1']
        >>> short_names(["conv1 → relu", "conv2 → relu#2"], room=10)
        ['conv1', 'conv2']
    """  # noqa: E501
    shorter = list(names)
    while shorter != (again := _drop_shared(shorter)):
        shorter = again
    if len(set(shorter)) < len(set(names)):
        shorter = list(names)
    heads = [name.split(ARROW)[0] for name in names]
    if max(map(len, shorter), default=0) > room and len(set(heads)) == len(set(names)):
        return short_names(heads)
    return shorter


def typeset(sentence: str) -> str:
    """Return a sentence with percent signs set apart and real minus signs before numbers.

    Example:
        >>> typeset("r = -0.99 [-1e-3, 2], 42% of x-1, --set a=-1")
        'r = −0.99 [−1e−3, 2], 42 % of x-1, --set a=-1'
    """
    return _MINUS.sub("−", _PERCENT.sub(" %", sentence))


def as_sentence(words: str) -> str:
    """Return words as a sentence; one that begins with a symbol, as "r = 1 is high.", keeps it.

    Example:
        >>> as_sentence("a step moves it"), as_sentence("a = 1 is high"), as_sentence("r = 1")
        ('A step moves it.', 'a = 1 is high.', 'r = 1.')
    """
    if not words:
        return ""
    first = words[0].upper() if _WORDS.match(words) else words[0]
    return f"{first}{words[1:]}{'' if words.endswith(('.', '!', '?')) else '.'}"


def describe_settings(settings: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Return settings as names and words, nested ones by their dotted name.

    Example:
        >>> describe_settings({"strategy": ["held"] * 5, "memory_bytes": 512_000_000})
        [('strategy', 'held × 5'), ('memory', '512 MB')]
        >>> describe_settings({"frame": {"before": [], "loss": 0.001257842}})
        [('frame.before', 'none'), ('frame.loss', '0.001258')]
    """
    rows: list[tuple[str, str]] = []
    for key, value in settings.items():
        if isinstance(value, Mapping):
            rows += describe_settings(value, f"{prefix}{key}.")
            continue
        name, words = str(key), _describe(value)
        if name.endswith("_bytes") and isinstance(value, int | float):
            name, words = name.removesuffix("_bytes"), size_text(value)
        rows.append((prefix + name.replace("_", " "), words))
    return rows


def _describe(value: Any) -> str:
    if value is None or value in ((), [], ""):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return count(value) if abs(value) >= 10_000 else str(value)
    if isinstance(value, float):
        return number(value, 4) if not value.is_integer() else _minus(f"{value:.4g}")
    if isinstance(value, Sequence) and not isinstance(value, str):
        runs = [(name, len(list(run))) for name, run in groupby(map(_describe, value))]
        words = [name if times == 1 else f"{name} × {times}" for name, times in runs]
        more = len(words) - MOST_ENTRIES
        return ", ".join(words[:MOST_ENTRIES]) + (f" and {more} more" if more > 0 else "")
    return str(value)


def time_text(minutes: float) -> str:
    """Return how long something takes, roughly.

    Example:
        >>> time_text(0.1), time_text(6.2), time_text(600)
        ('6 s', '6 min', '10 h')
    """
    if minutes < 1:
        return f"{max(1, round(60 * minutes))} s"
    return f"{minutes:.0f} min" if minutes < 120 else f"{minutes / 60:.0f} h"


def size_text(size: float) -> str:
    """Return bytes as people say them: 512 bytes, 3.4 MB."""
    power = next((power for power in range(4) if size < 1000 ** (power + 1)), 4)
    return f"{size / 1000**power:.4g} {('bytes', 'kB', 'MB', 'GB', 'TB')[power]}"


def _minus(text: str) -> str:
    return text.replace("-", "−")


def _drop_shared(names: list[str]) -> list[str]:
    """Drop what all names of several parts share; nothing from the others."""
    parts = [_JOINTS.split(name) for name in names]
    long = [each for each in parts if len(each) > 1]
    if len(long) < 2 or all(each == long[0] for each in long):
        return names
    room = min(map(len, long)) - 1
    head = min(_count_shared(long), room)
    if any(each[head].isdigit() for each in long):
        head = max(0, head - 1)
    tail = min(_count_shared([each[::-1] for each in long]), room - head)
    return [
        name if len(each) == 1 else _cut(name, head, tail)
        for name, each in zip(names, parts, strict=True)
    ]


def _cut(name: str, head: int, tail: int) -> str:
    joints = list(_JOINTS.finditer(name))
    start = joints[head - 1].end() if head else 0
    return name[start : joints[-tail].start() if tail else len(name)]


def _count_shared(parts: list[list[str]]) -> int:
    """Return how many first parts are the same everywhere."""
    columns = zip(*parts, strict=False)
    return len(list(takewhile(lambda column: len(set(column)) == 1, columns)))
