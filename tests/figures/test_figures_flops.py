"""The pictures of work and time: what they compute is right, what they cannot draw they refuse."""

import itertools

import numpy as np
import pytest
from helpers.figure_text import legend, texts
from matplotlib.transforms import Bbox

from utils.figures import flops as figures


def test_three_products_are_drawn_in_proportion_with_their_sizes():
    figure = figures.three_products(tokens=2, inputs=8, outputs=4)
    rectangles = [(patch.get_height(), patch.get_width()) for patch in figure.axes[0].patches]
    assert rectangles == [(2, 8), (8, 4), (2, 4), (8, 2), (2, 4), (8, 4), (2, 4), (4, 8), (2, 8)]
    assert sum("128 FLOPs" in text for text in texts(figure)) == 3


def test_shares_fill_each_bar_to_100_percent():
    figure = figures.shares({"work": {"a": 1, "b": 3}, "time": {"a": 5.0, "b": 0.04}})
    widths = np.array([bar.get_width() for bar in figure.axes[0].patches]).reshape(2, 2)  # part, row
    assert widths[:, 0].tolist() == [25, 75]
    assert widths.sum(axis=0) == pytest.approx([100, 100])
    assert texts(figure) == ["25.0 %", "99.2 %", "75.0 %"]  # a sliver is not labelled
    assert legend(figure) == ["a", "b"]


def test_anatomy_stacks_parts_and_writes_the_sum():
    figure = figures.anatomy({"plain": {"forward": 2, "backward": 4}, "frozen": {"forward": 2, "input": 2}})
    bars = [(bar.get_x(), bar.get_width()) for bar in figure.axes[0].patches]
    assert bars == [(0, 2), (0, 2), (2, 4), (2, 0), (6, 0), (2, 2)]
    assert texts(figure) == ["6", "4"] and legend(figure) == ["forward", "backward", "input"]


def test_where_6nd_bends_draws_percent_over_the_law():
    figure = figures.where_6nd_bends({"counted": ([0.5, 6], [0.0833, 1.0])}, {"model": (16, 2.47)})
    line, dots, mark = figure.axes[0].lines[:3]
    assert np.allclose(line.get_ydata(), 100 * np.asarray(line.get_xdata()) / 6)
    assert line.get_xdata()[0] < 0.5 and line.get_xdata()[-1] > 16
    assert list(dots.get_ydata()) == pytest.approx([8.33, 100])
    assert list(mark.get_ydata()) == pytest.approx([247])
    assert "model" in texts(figure)


def test_the_timeline_holds_launches_kernels_and_what_the_clock_reads():
    figure = figures.launch_timeline([(0, 5), (5, 10)], [(5, 40), (40, 75)], {"too early": 10, "waited": 75})
    bars = [(bar.get_x(), bar.get_width()) for bar in figure.axes[0].patches]
    assert bars == [(0, 5), (5, 5), (5, 35), (40, 35)]
    assert texts(figure) == ["1", "2", "1", "2", "too early: 10 µs", "waited: 75 µs"]
    assert figure.axes[0].get_xlim()[1] > 75


def test_once_and_each_add_up_to_the_line_beside_the_dots():
    figure = figures.once_and_each({1: 2.1e-4, 100: 5e-4}, once=2e-4, each=3e-6)
    both, flat, work, dots = figure.axes[0].lines
    batches = np.asarray(both.get_xdata())
    assert batches[0] == 1 and batches[-1] > 100
    assert np.allclose(both.get_ydata(), 200 + 3 * batches) and np.allclose(work.get_ydata(), 3 * batches)
    assert set(flat.get_ydata()) == {200} and list(dots.get_ydata()) == pytest.approx([210, 500])
    assert legend(figure) == ["once + batch · each", "once: 200 µs", "batch · each: 3 µs for a picture", "timed"]
    with pytest.raises(ValueError, match=r"seconds\[1\]"):
        figures.once_and_each({1: 0.0}, once=2e-4, each=3e-6)


def test_roofline_bends_at_the_ridge_and_holds_its_points():
    figure = figures.roofline({"chip": (1e12, 1e11), "other": (1e12, 2e11)}, {"add": (0.1, 5e9)}, title="roofs")
    roof = figure.axes[0].lines[0]
    x, y = map(np.asarray, (roof.get_xdata(), roof.get_ydata()))
    assert y[0] / x[0] == pytest.approx(1e11) and x[1:].tolist()[0] == 10 and y[1:].tolist() == [1e12, 1e12]
    assert figure.axes[0].get_ylim()[0] < 5e9, "the point is in the frame"
    assert legend(figure) == [
        "chip: 1 TFLOP/s, 100 GB/s, ridge at 10",
        "other: 1 TFLOP/s, 200 GB/s, ridge at 5",
    ]
    assert texts(figure) == ["add"] and list(figure.axes[0].lines[-1].get_xdata()) == [0.1]
    assert figure.axes[0].get_xlim()[0] <= 0.05


def test_roofline_without_points_draws_the_roofs():
    assert len(figures.roofline({"chip": (1e12, 1e11)}).axes[0].lines) == 1


def test_roofline_draws_a_curve_through_its_places_and_refuses_one_that_is_not_positive():
    places = [(0.1, 1e9), (1.0, 8e9), (10.0, 4e10)]
    figure = figures.roofline({"chip": (1e12, 1e11)}, {"step": (1.0, 8e9)}, curves={"paid": places})
    curve = figure.axes[0].lines[1]
    assert list(zip(curve.get_xdata(), curve.get_ydata(), strict=True)) == places
    assert legend(figure)[1:] == ["paid"]
    with pytest.raises(ValueError, match=r"paid\[1\]"):
        figures.roofline({"chip": (1e12, 1e11)}, curves={"paid": [(1.0, 0.0)]})


def boxes(figure) -> dict[str, Bbox]:
    """Where each label of a point lies, in pixels of the finished figure."""
    figure.draw_without_rendering()
    return {text.get_text(): text.get_window_extent() for text in figure.axes[0].texts}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_no_label_of_the_roofline_hides_another_whatever_was_measured(seed):
    rng = np.random.default_rng(seed)
    crowd = {f"program {n}": (10 ** rng.uniform(-1, 0), 10 ** rng.uniform(9.8, 10.3)) for n in range(5)}
    points = crowd | {"4096² · vector": (0.5, 7e9), "sum": (0.25, 3.4e9), "far": (100.0, 9e10)}
    figure = figures.roofline({"here": (1e11, 1.4e10), "H100": (1e15, 3e12)}, points)
    placed = boxes(figure)
    assert list(placed) == list(points)
    pairs = [(a, b) for a, b in itertools.combinations(placed, 2) if placed[a].overlaps(placed[b])]
    assert pairs == []
    centres = {label: figure.axes[0].transData.transform(point) for label, point in points.items()}
    hidden = [(a, b) for a in placed for b in centres if placed[a].contains(*centres[b])]
    assert hidden == []
    frame = figure.axes[0].get_window_extent()
    assert all(frame.x0 <= box.x0 and box.x1 <= frame.x1 for box in placed.values())


def test_a_label_that_must_move_hides_no_roof_and_keeps_to_its_own_point():
    points = {
        "at the ridge": (8.0, 0.8e11),
        "4096² · vector": (0.5, 5e9),
        "softmax": (0.625, 2e9),
        "sum": (0.25, 2.5e9),
    }
    figure = figures.roofline({"here": (1e11, 1e10)}, points)
    roof = figure.axes[0].transData.transform_path(figure.axes[0].lines[0].get_path())
    placed = boxes(figure)
    assert not roof.intersects_bbox(placed["at the ridge"], filled=False)
    marks = {label: figure.axes[0].transData.transform(point) for label, point in points.items()}
    for label, box in placed.items():
        assert min(marks, key=lambda other: figures._distance(box, *marks[other])) == label


def test_a_label_is_not_as_near_to_another_point_as_to_its_own():
    points = {
        "a + b": (1 / 12, 1.7e9),
        "layer, 16 tokens": (8.0, 4.2e10),
        "layer, 1,024 tokens": (341.0, 9.23e10),
        "96³": (16.0, 1.65e10),
        "96³, Python": (8.0, 3.5e7),
    }
    machines = {"here": (92.3e9, 20.4e9), "A100": (312e12, 2.04e12), "H100": (990e12, 3.35e12)}
    figure = figures.roofline(machines, points)
    placed = boxes(figure)
    marks = [figure.axes[0].transData.transform(points[label]) for label in ("96³", "layer, 16 tokens")]
    own, other = (figures._distance(placed["96³"], *mark) for mark in marks)
    assert other > 1.5 * own


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        (lambda: figures.roofline({"chip": (1e12, -1.0)}), r"chip\[1\]: roofline value -1.0"),
        (lambda: figures.roofline({"chip": (float("nan"), 1e11)}), r"chip\[0\]: roofline value nan"),
        (lambda: figures.roofline({"chip": (1e12, 1e11)}, {"copy": (0.0, 1e9)}), r"copy\[0\]: roofline value 0.0"),
    ],
)
def test_what_a_logarithmic_axis_cannot_hold_is_refused(draw, message):
    with pytest.raises(ValueError, match=message):
        draw()
