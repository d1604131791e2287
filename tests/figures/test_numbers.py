"""Numbers are written with few digits and the prefix that fits, also where rounding carries them over an edge."""

import math

import pytest

from utils.figures import numbers


@pytest.mark.parametrize(
    ("value", "digits", "shown"),
    [
        (0, 3, "0"), (0.12345, 3, "0.123"), (1.0, 3, "1"), (99.96, 3, "100"), (99.96, 2, "100"), (119.4, 2, "119"),
        (999.6, 3, "1,000"), (999.6, 4, "999.6"), (1234.5, 3, "1,234"), (314_000, 3, "314,000"), (999_999, 3, "999,999"),
        (999_999.5, 3, "1e+06"), (1e15, 3, "1e+15"), (-1234.5, 3, "-1,234"), (-2.5e7, 3, "-2.5e+07"), (1e-5, 3, "1e-05"),
    ],
)  # fmt: skip
def test_significant_digits(value, digits, shown):
    assert numbers.significant(value, digits) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0 B/s"), (1, "1 B/s"), (5.25, "5.25 B/s"), (999.4, "999 B/s"), (999.6, "1 kB/s"), (1_000, "1 kB/s"),
        (31e6, "31 MB/s"), (66.9e12, "66.9 TB/s"), (999.6e9, "1 TB/s"), (1e15, "1 PB/s"), (3.14e23, "314,000 EB/s"),
        (1e30, "1e+12 EB/s"), (-31e6, "-31 MB/s"), (-999.6, "-1 kB/s"), (math.inf, "inf EB/s"), (math.nan, "nan B/s"),
    ],
)  # fmt: skip
def test_the_prefix_that_fits(value, shown):
    assert numbers.prefixed(value, "B/s") == shown


def test_rates_of_processors_have_four_digits():
    rates = [989.5e12, 844.8e9, 4.5e15, 5.0, 999.96e12, 2e6]
    assert [numbers.prefixed(rate, "FLOP/s", 4) for rate in rates] == [
        "989.5 TFLOP/s", "844.8 GFLOP/s", "4.5 PFLOP/s", "5 FLOP/s", "1 PFLOP/s", "2 MFLOP/s",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("nbytes", "unit"),
    [
        (0, (1, "B")), (999, (1, "B")), (1000, (1e3, "kB")), (2_500_000, (1e6, "MB")), (1e9, (1e9, "GB")),
        (7e13, (1e12, "TB")), (1e15, (1e15, "PB")), (1e24, (1e18, "EB")), (-5, (1, "B")),
    ],
)  # fmt: skip
def test_the_unit_of_an_axis_is_the_largest_one_reached(nbytes, unit):
    assert numbers.byte_unit(nbytes) == unit


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0 s"), (3e-9, "3 ns"), (2.5e-12, "0.0025 ns"), (1.2e-5, "12 µs"), (0.9996e-3, "1 ms"), (4.48e-3, "4.48 ms"),
        (0.9999, "1 s"), (90, "90 s"), (119.9, "120 s"), (120, "2 minutes"), (5400, "90 minutes"), (7200, "2 hours"),
        (86_400, "24 hours"), (143.93 * 86_400, "143.9 days"), (730 * 86_400, "2 years"), (1e15, "3.171e+07 years"),
        (999.6 * 365 * 86_400, "999.6 years"), (-90, "-90 s"), (-5400, "-90 minutes"),
    ],
)  # fmt: skip
def test_durations_have_the_unit_that_people_use(seconds, shown):
    assert numbers.duration(seconds) == shown


def test_durations_for_a_glance():
    assert [numbers.duration(s, digits=2) for s in (0.42, 15.2, 93.4, 754, 36_000)] == [
        "420 ms", "15 s", "93 s", "13 minutes", "10 hours",
    ]  # fmt: skip
