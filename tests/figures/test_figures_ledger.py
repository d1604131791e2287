"""The picture of the ledger: every count is drawn, at its place."""

import pytest
from helpers.figure_text import legend, texts

from utils.figures import ledger as figures


def test_each_part_is_as_long_as_its_count_and_starts_where_the_one_before_ends():
    rows = {"one": {"a": 4, "b": 0, "c": 1}, "two": {"a": 30, "b": 7, "c": 0}}
    figure = figures.claims_by_lecture(rows)
    bars = [(bar.get_x(), bar.get_width(), bar.get_y() + bar.get_height() / 2) for bar in figure.axes[0].patches]
    assert bars == [(0, 4, 0), (4, 0, 0), (4, 1, 0), (0, 30, 1), (30, 7, 1), (37, 0, 1)]
    assert texts(figure) == ["4", "30", "7"], "what is too narrow for its number has none"
    assert legend(figure) == ["a: 34", "b: 7", "c: 1"]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["one", "two"]


def test_more_parts_than_colours_are_refused():
    with pytest.raises(ValueError, match="5 parts"):
        figures.claims_by_lecture({"one": dict.fromkeys("abcde", 1)})
