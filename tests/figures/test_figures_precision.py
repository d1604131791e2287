"""The pictures of mixed precision: what they draw is what they were given, what they cannot draw they refuse."""

import numpy as np
import pytest
import torch
from helpers.figure_text import legend, texts, words
from matplotlib.colors import to_hex

from utils.figures import precision as figures


def test_dtype_table_colours_each_box_by_its_dtype():
    columns = {
        "fp32 in": {"matmul": torch.bfloat16, "exp": torch.float32},
        "bf16 in": {"matmul": torch.bfloat16, "exp": torch.int64},
    }
    figure = figures.dtype_table(columns)
    boxes = figure.axes[0].patches[:4]
    expected = [figures.DTYPES["bfloat16"], figures.DTYPES["float32"], figures.DTYPES["bfloat16"], figures.GREY]
    assert [to_hex(box.get_facecolor()).upper() for box in boxes] == expected
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["matmul", "exp"]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["fp32 in", "bf16 in"]
    assert sorted(legend(figure)) == ["bfloat16", "float32", "int64"]


def test_dtype_table_refuses_columns_of_different_operations():
    with pytest.raises(ValueError, match="fp32, bf16"):
        figures.dtype_table({"fp32": {"exp": torch.float32}, "bf16": {"log": torch.float32}})


def test_step_dtypes_gives_each_station_its_dtype_and_colour():
    dtypes = dict.fromkeys(figures.STATIONS, torch.float32) | {"logits": torch.bfloat16}
    figure = figures.step_dtypes(dtypes)
    boxes = {text.get_text(): text for text in figure.axes[0].texts if text.get_bbox_patch()}
    assert list(boxes) == [f"{name}\n{'bfloat16' if name == 'logits' else 'float32'}" for name in figures.STATIONS]
    face = to_hex(boxes["logits\nbfloat16"].get_bbox_patch().get_facecolor()).upper()
    assert face == figures.DTYPES["bfloat16"]
    labels = [text.get_text() for text in figure.axes[0].texts if text.get_text() and not text.get_bbox_patch()]
    assert labels == list(figures.OPERATIONS)


def test_step_dtypes_refuses_a_step_with_other_stations():
    with pytest.raises(ValueError, match="the stations of a step are 'weights'"):
        figures.step_dtypes({"weights": torch.float32})


def test_gradient_histogram_gives_the_share_in_each_zone():
    values = np.array([-30.0, -25.0, -24.0, -20.0, -14.0, -13.0, 0.0, 3.0])
    figure = figures.gradient_histogram({"one": values, "two": values + 20}, {"zero": -25.0, "subnormal": -14.0})
    above, below = figure.axes
    assert [axes.get_title(loc="left") for axes in (above, below)] == ["one", "two"]
    shares = [text.split("\n") for text in texts(figure)]
    assert shares[:3] == [["0 in fp16", "25.0%"], ["subnormal", "37.5%"], ["normal", "37.5%"]]
    assert shares[3:] == [["0 in fp16", "0.0%"], ["subnormal", "0.0%"], ["normal", "75.0%"]]
    assert [line.get_xdata()[0] for line in above.lines] == [-25.0, -14.0, 16.0]
    counts = [patch.get_height() for patch in above.patches if patch.get_width() == 0.5]
    assert sum(counts) == len(values)


def test_loss_curves_draws_each_and_names_its_last_value():
    figure = figures.loss_curves({"fp32": [1.0, 0.5], "fp16": [1.0, 0.25]}, dashed=("fp16",))
    solid, dashed = figure.axes[0].lines
    assert [list(line.get_ydata()) for line in (solid, dashed)] == [[1.0, 0.5], [1.0, 0.25]]
    assert list(solid.get_xdata()) == [1, 2]
    assert (solid.get_linestyle(), dashed.get_linestyle()) == ("-", "--")
    assert legend(figure) == ["fp32: 0.5", "fp16: 0.25"]


def test_scale_history_marks_the_skipped_steps_at_their_scale():
    figure = figures.scale_history([4, 8, 4, 8], [1, 3])
    scale, skips = figure.axes[0].lines
    assert list(scale.get_ydata()) == [2, 3, 2, 3]
    assert (list(skips.get_xdata()), list(skips.get_ydata())) == ([1, 3], [3, 3])
    assert legend(figure) == ["scale", "skipped: 2 steps"]


def test_scale_film_follows_the_scale_to_its_last_step():
    shown = figures.scale_film([4.0, 8.0, 4.0, 8.0], [1, 3], np.linspace(-30, -10, 50), frames=2)
    assert shown.captions == ["step 0, scale 2^2", "step 3, scale 2^3"] and len(set(shown.frames)) == 2


def test_scaling_errors_draws_the_amax_and_every_error():
    figure = figures.scaling_errors({"current": [0.1, 0.2], "delayed": [0.1, 0.9]}, [1.0, 8.0])
    above, below = figure.axes
    assert list(above.lines[0].get_ydata()) == [1.0, 8.0]
    assert [list(line.get_ydata()) for line in below.lines] == [[0.1, 0.2], [0.1, 0.9]]
    assert legend(figure) == ["current", "delayed"]
    assert words(figure) == ""


def test_precision_bars_hatches_what_was_not_measured():
    figure = figures.precision_bars({"float32": (1.0, True), "fp8": (0.25, False)}, {"float32": 24_000_000})
    left, right = figure.axes
    assert [(bar.get_height(), bar.get_hatch()) for bar in left.patches] == [(1.0, None), (0.25, "///")]
    assert [bar.get_height() for bar in right.patches] == [24]
    assert [text.get_text() for axes in (left, right) for text in axes.texts] == ["1.00", "0.25", "24.0"]


def test_apart_from_draws_the_mean_distance_over_a_window():
    figure = figures.apart_from([1.0, 1.0, 1.0], {"bf16": [1.0, 2.0, 3.0]}, [1.0, 1.0, 2.0], window=2)
    another, bf16, zero = figure.axes[0].lines
    assert list(bf16.get_ydata()) == [0.5, 1.5] and list(another.get_ydata()) == [0, 0.5]
    assert list(bf16.get_xdata()) == [2, 3] and list(zero.get_ydata()) == [0, 0]
    assert legend(figure) == ["float32, another start", "bf16"]
