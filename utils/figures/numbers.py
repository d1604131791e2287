"""Numbers as people write them: a few digits, and the prefix or the unit that fits."""

from collections.abc import Callable

PREFIXES = ("", "k", "M", "G", "T", "P", "E")
DAY = 86_400  # seconds
SPANS = ((365 * DAY, 365 * DAY, "years"), (2 * DAY, DAY, "days"), (7_200, 3_600, "hours"), (120, 60, "minutes"))
INSTANTS = ((1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def significant(value: float, digits: int) -> str:
    """`value` with so many significant digits: 1234.5 with 3 → "1,235", for no digit before the point is dropped.

    From a million up it is a power of ten: "1.23e+06".
    """
    if abs(value) >= 999_999.5:
        return f"{value:.{digits}g}"
    return f"{value:,.0f}" if abs(_rounded(value, digits)) >= 10**digits else f"{value:.{digits}g}"


def prefixed(value: float, unit: str, digits: int = 3) -> str:
    """`value` with the SI prefix that fits: 31e6, "FLOP/s" → "31 MFLOP/s"; below a thousand, none."""
    scaled, prefix = _scaled(value, lambda each: _rounded(each, digits))
    return f"{significant(scaled, digits)} {prefix}{unit}"


def byte_unit(nbytes: float) -> tuple[float, str]:
    """The largest decimal unit that `nbytes` reaches, as (bytes in it, its name), for an axis: 2.5e6 → (1e6, "MB")."""
    power = next((power for power in range(len(PREFIXES) - 1, 0, -1) if nbytes >= 1000**power), 0)
    return 1000.0**power, f"{PREFIXES[power]}B"


def duration(seconds: float, digits: int = 4) -> str:
    """A time in the unit that people would use: "4.48 ms", "90 s", "143.9 days".

    digits: of minutes and longer units; what is shorter has three at most.
    """
    size = abs(seconds)
    for least, unit, name in SPANS:
        if size >= least:
            return f"{significant(seconds / unit, digits)} {name}"
    digits = min(digits, 3)
    for unit, name in INSTANTS:
        if _rounded(size / unit, digits) >= 1:
            return f"{significant(seconds / unit, digits)} {name}"
    return f"{seconds / 1e-9:.{digits}g} ns" if seconds else "0 s"


def _scaled(value: float, rounded: Callable[[float], float]) -> tuple[float, str]:
    """`value` in steps of a thousand, and the prefix of that step: the first in which it is, rounded, below a thousand."""
    power = 0
    while abs(rounded(value)) >= 1000 and power < len(PREFIXES) - 1:
        value, power = value / 1000, power + 1
    return value, PREFIXES[power]


def _rounded(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")
