"""Every picture that these tests draw is looked at: its words can be read."""

import matplotlib.pyplot as plt
import pytest
from helpers.readable import unreadable


@pytest.fixture(autouse=True)
def words_can_be_read(monkeypatch):
    drawn, subplots = [], plt.subplots

    def kept(*args, **kwargs):
        figure, axes = subplots(*args, **kwargs)
        drawn.append(figure)
        return figure, axes

    monkeypatch.setattr(plt, "subplots", kept)
    yield
    assert [problem for figure in drawn for problem in unreadable(figure)] == []
