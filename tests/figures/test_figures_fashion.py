"""The pictures of the FashionMNIST lab: the numbers they show are the numbers they were given."""

import numpy as np
import pytest
from helpers.figure_text import legend, texts

from utils.figures import fashion as figures


def test_image_columns_put_each_image_below_its_label():
    images = np.arange(3 * 4).reshape(3, 2, 2)
    figure = figures.image_columns({"one": images[:1], "two": images[1:]})
    top_left, top_right, bottom_left, bottom_right = figure.axes
    assert (top_left.get_title(), top_right.get_title()) == ("one", "two")
    assert np.array_equal(top_right.images[0].get_array(), images[1])
    assert np.array_equal(bottom_right.images[0].get_array(), images[2])
    assert not bottom_left.images


def test_image_columns_with_a_limit_have_one_scale_with_0_in_its_middle():
    figure = figures.image_columns({"small": np.full((1, 2, 2), 0.1), "large": np.full((1, 2, 2), -0.4)}, 0.4)
    assert [panel.images[0].get_clim() for panel in figure.axes] == [(-0.4, 0.4)] * 2


def test_what_comes_out_of_each_part_is_drawn_as_it_was_given():
    image, sums, scores = np.eye(2), np.array([-2.0, 1.0, 3.0]), np.array([0.5, -1.0])
    panels = figures.through_the_network(image, sums, sums.clip(0), scores, ("a", "b")).axes
    bars = [[bar.get_width() for bar in panel.patches] for panel in panels[1:]]
    assert np.array_equal(panels[0].images[0].get_array(), image)
    assert bars == [[-2, 1, 3], [0, 1, 3], [0.5, -1]]
    assert panels[2].get_title() == "ReLU\n2 of 3 stay above 0"
    assert panels[3].patches[0].get_facecolor() != panels[3].patches[1].get_facecolor()


def test_epoch_curves_draw_every_seed_and_name_each_curve_once():
    (axes,) = figures.epoch_curves({"a": [[3, 2], [4, 1]], "b": [[5, 6]]}, "loss").axes
    assert [list(line.get_ydata()) for line in axes.lines] == [[3, 2], [4, 1], [5, 6]]
    assert legend(axes.figure) == ["a", "b"]
    assert list(axes.get_xticks()) == [1, 2]


def test_confusion_prints_counts_and_colours_shares():
    (axes,) = figures.confusion(np.array([[9, 1], [0, 20]]), ("a", "b")).axes
    assert texts(axes.figure) == ["9", "1", "0", "20"]
    assert np.array_equal(axes.images[0].get_array(), [[0.9, 0.1], [0, 1]])


def test_mistakes_caption_each_image():
    figure = figures.mistakes(np.zeros((7, 2, 2)), [f"image {k}" for k in range(7)])
    assert len(figure.axes) == 12
    assert sum(bool(axes.images) for axes in figure.axes) == 7
    assert figure.axes[6].get_title(loc="left") == "image 6"


def test_saliency_lies_below_its_image():
    images, maps = np.arange(12).reshape(3, 2, 2), np.arange(12, 24).reshape(3, 2, 2)
    figure = figures.saliency(images, maps, ["a", "b", "c"])
    upper, lower = figure.axes[:3], figure.axes[3:]
    assert [axes.get_title(loc="left") for axes in upper] == ["a", "b", "c"]
    assert np.array_equal([axes.images[0].get_array() for axes in upper], images)
    assert np.array_equal([axes.images[0].get_array() for axes in lower], maps)


def test_norms_watched_draw_the_limit():
    (axes,) = figures.norms_watched({"a": [1.0, 3.0]}, limit=2.0).axes
    dots, limit = axes.lines
    assert (list(dots.get_xdata()), list(dots.get_ydata())) == ([1, 2], [1.0, 3.0])
    assert list(limit.get_ydata()) == [2.0, 2.0]


def test_luck_marks_the_best_on_the_images_that_choose():
    (axes,) = figures.luck(np.array([0.1, 0.3, 0.2]), np.array([0.2, 0.1, 0.3])).axes
    picked = axes.lines[1]
    assert (picked.get_xdata(), picked.get_ydata()) == (30, 10)


def test_accuracies_draw_95_percent_of_the_binomial():
    (axes,) = figures.accuracies({"a": [0.5]}, images=10_000).axes
    (whisker,) = axes.collections[0].get_segments()
    assert whisker[:, 0] == pytest.approx([100 * (0.5 - 1.96 * 0.005), 100 * (0.5 + 1.96 * 0.005)])


def test_chances_show_each_probability_and_mark_the_label():
    chances = np.array([[0.7, 0.3], [0.1, 0.9]])
    figure = figures.chances(np.zeros((2, 3, 3)), chances, [1, 1], ("one", "two"))
    panels, bars = figure.axes[:2], figure.axes[2:]
    assert [panel.get_title() for panel in panels] == ["two", "two"]
    assert [[patch.get_width() for patch in axes.patches] for axes in bars] == chances.tolist()
    for axes in bars:
        (label,) = {patch.get_facecolor() for patch in axes.patches[1:]}
        assert label != axes.patches[0].get_facecolor()


def test_seeds_draw_each_label_in_percent():
    (axes,) = figures.seeds({"twenty": [0.85, 0.86], "hers": [0.9]}, "% right").axes
    assert [list(line.get_xdata()) for line in axes.lines] == [[85, 86], [90]]
    assert legend(axes.figure) == ["twenty", "hers"]


def test_judges_draw_a_column_for_each_judge_and_the_whiskers_of_run_0():
    scores = np.array([[0.8, 0.9], [0.7, 0.6]])
    (axes,) = figures.judges(scores, [0.01, 0.02], "% right").axes
    assert [list(axes.lines[k].get_ydata()) for k in (0, 1)] == [[80, 90], [70, 60]]
    (bars,) = axes.collections
    assert np.allclose([np.ptp(bar[:, 1]) / 2 for bar in bars.get_segments()], [1, 2])


def test_differences_draw_what_is_here_and_the_mean_of_what_is_kept():
    (axes,) = figures.differences({"a": [1.0, -1.0]}, {"a": [2.0, 4.0, 6.0]}, "points").axes
    assert list(axes.lines[0].get_xdata()) == [1, -1]
    assert list(axes.lines[1].get_xdata()) == [4]
    (bar,) = axes.collections[0].get_segments()
    assert np.isclose(np.ptp(bar[:, 0]) / 2, 1.96 * 2 / 3**0.5)


def test_differences_draw_the_whisker_of_the_pictures_around_that_of_the_seeds():
    (axes,) = figures.differences({"a": [1.0, -1.0]}, {"a": [2.0, 4.0, 6.0]}, "points", {"a": 3.0}).axes
    halves = [np.ptp(each.get_segments()[0][:, 0]) / 2 for each in axes.collections]
    assert np.allclose(halves, [1.96 * 2 / 3**0.5, np.hypot(1.96 * 2 / 3**0.5, 3)])
