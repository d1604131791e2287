"""The pictures that end the labs draw what they are given and refuse what does not fit."""

import numpy as np
import pytest
import torch
from pictures import words  # noqa: F401  (no window)

from utils.figures import labs as figures


def test_an_attention_map_has_a_panel_for_each_head_and_marks_each_rows_largest():
    weights = torch.tensor([[[1.0, 0.0], [0.2, 0.8]], [[1.0, 0.0], [0.6, 0.4]]])
    figure = figures.attention_map(weights, ["to", "be"])
    assert [axes.get_title() for axes in figure.axes] == ["head 0", "head 1"]
    assert [axes.lines[0].get_xdata().tolist() for axes in figure.axes] == [[0, 1], [0, 0]]
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == ["to", "be"]
    assert np.array_equal(figure.axes[1].images[0].get_array(), weights[1])


def test_an_attention_map_refuses_words_that_do_not_fit():
    with pytest.raises(ValueError, match=r"\(1, 2, 2\) for 3 words"):
        figures.attention_map(np.ones((1, 2, 2)), ["a", "b", "c"])
