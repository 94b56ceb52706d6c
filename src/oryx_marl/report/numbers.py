"""Numbers as people read them."""

import math
from collections.abc import Sequence

MISSING = "–"
"""Stands where there is no finite number."""


def together(values: Sequence[float], extra: int = 0) -> list[str]:
    """Numbers that belong together, with as many decimals as the largest of them needs.

    Three significant figures, so 0.98 and 1.00, 12.3, 1,234; `extra` adds decimals below 1,000.
    """
    sizes = [abs(value) for value in values if math.isfinite(value)]
    largest = max(sizes, default=0.0)
    if largest == 0.0:
        decimals = 2 + extra
    elif largest >= 999.5:
        decimals = 0
    else:
        # A share keeps two decimals on both sides of 1: 0.98 beside 1.00.
        decimals = extra + max(0, 2 - math.floor(math.log10(max(largest, 1.0))))
        decimals += max(0, -1 - math.floor(math.log10(largest)))
    return [_fixed(value, decimals) for value in values]


def one(value: float) -> str:
    """A number on its own: no idle zeros, and powers of ten where they are shorter."""
    if not math.isfinite(value):
        return "not finite"
    if value == round(value) and abs(value) < 1e15:
        return f"{round(value):,}".replace("-", "−")
    if abs(value) < 1e-3 or abs(value) >= 1e6:
        mantissa, exponent = f"{value:.1e}".split("e")
        return f"{mantissa.removesuffix('.0')}e{int(exponent)}".replace("-", "−")
    text = f"{value:,.{max(0, 2 - math.floor(math.log10(abs(value))))}f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text).replace("-", "−")


def short(value: float) -> str:
    """A number for an axis: 20k for 20,000."""
    for start, unit, letter in ((1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if abs(value) >= start:
            return one(value / unit) + letter
    return one(round(value, 12))


def duration(seconds: float) -> str:
    """A time in the two largest units that matter."""
    if not math.isfinite(seconds):
        return MISSING
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def _fixed(value: float, decimals: int) -> str:
    """A number with so many decimals and a true minus sign."""
    if not math.isfinite(value):
        return MISSING
    text = f"{value:,.{decimals}f}"
    is_zero = not text.strip("-0.,")
    return text.lstrip("-") if is_zero else text.replace("-", "−")
