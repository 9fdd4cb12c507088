"""How the page and the terminal write numbers."""

from __future__ import annotations

import math

MISSING = "–"


def number(value: float, digits: int = 3) -> str:
    """A number with ``digits`` significant digits, as people write it.

    Args:
        value: any float; what is not a number becomes a dash.
        digits: significant digits.

    Returns:
        The text, with a real minus sign.

    Example:
        >>> number(12.0), number(0.04567), number(-1.5e-7), number(float("inf"))
        ('12.0', '0.0457', '−1.50e−7', '∞')
    """
    if math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    size = abs(value)
    if size == 0:
        return "0"
    if not 1e-3 <= size < 1e5:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        text = f"{mantissa}e{int(exponent)}"
    else:
        text = f"{value:.{max(0, digits - 1 - math.floor(math.log10(size)))}f}"
    return text.replace("-", "−")


def fixed(value: float, decimals: int) -> str:
    """A number with a fixed number of decimals, for values that live near 1.

    Example:
        >>> fixed(-0.99871, 4), fixed(float("nan"), 3)
        ('−0.9987', '–')
    """
    return f"{value:.{decimals}f}".replace("-", "−") if math.isfinite(value) else number(value)


def signed(value: float) -> str:
    """A number with three decimals that shows its sign.

    Example:
        >>> signed(0.0213), signed(-0.4)
        ('+0.021', '−0.400')
    """
    return f"{value:+.3f}".replace("-", "−") if math.isfinite(value) else number(value)


def percent(share: float) -> str:
    """A share as a percentage.

    Example:
        >>> percent(0.452), percent(0.00417), percent(1.31)
        ('45.2 %', '0.417 %', '131 %')
    """
    return f"{number(100 * share)} %" if math.isfinite(share) else number(share)


def count(value: int) -> str:
    """A whole number in groups of three digits, with thin spaces.

    Example:
        >>> count(60000)
        '60\u202f000'
    """
    return f"{value:,}".replace(",", "\u202f")


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


def one_of(granularity: str) -> str:
    """What one station stands for, in the singular.

    Example:
        >>> one_of("layers"), one_of("chosen")
        ('layer', 'station')
    """
    return {"layers": "layer", "blocks": "block"}.get(granularity, "station")
