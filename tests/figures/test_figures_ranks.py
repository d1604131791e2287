"""The pictures of many ranks: what they draw is what they were given."""

from helpers.figure_text import legend, texts
from matplotlib.colors import to_hex

from utils.figures import ranks as figures
from utils.figures.style import BLUE, ORANGE, PALE, RED, SKY, YELLOW


def test_ring_steps_draws_every_chunk_of_every_rank_at_every_step():
    figure = figures.ring_steps([[[1, 1], [1, 1]], [[1, 2], [1, 1]], [[2, 2], [1, 1]]])
    assert len(figure.axes) == 3
    assert texts(figure) == list("1111" + "1211" + "2211")
    assert [axes.get_title(loc="center") for axes in figure.axes] == ["start", "step 1", "step 2"]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["rank 0", "rank 1"]
    assert [to_hex(box.get_facecolor()).upper() for box in figure.axes[1].patches] == [PALE, BLUE, PALE, PALE]


def test_ring_film_shows_one_step_more_in_each_frame_and_frames_what_has_arrived():
    states = [[[1, 1], [1, 1]], [[1, 2], [1, 1]], [[2, 2], [1, 1]]]
    assert figures.ring_film(states).captions == ["start", "after step 1", "after step 2"]
    start, second, third = figures.ring_steps(states, shown=2).axes
    assert (len(start.patches), len(second.patches), len(third.patches)) == (4, 4, 0)


def test_bucket_timeline_draws_what_is_sent_after_the_backward_in_red():
    figure = figures.bucket_timeline({"fast": [(5, 5, 6), (10, 10, 11)], "slow": [(5, 5, 12), (10, 12, 19)]}, 10)
    fast, slow = figure.axes
    assert (fast.get_title(loc="left"), slow.get_title(loc="left")) == (
        "fast: 1.00 ms not hidden",
        "slow: 9.00 ms not hidden",
    )
    assert texts(figure) == ["0", "1"] * 2
    red = {
        axes: [(box.get_x(), box.get_width()) for box in axes.patches if to_hex(box.get_facecolor()).upper() == RED]
        for axes in (fast, slow)
    }
    assert red[fast] == [(6, 0), (10, 1)] and red[slow] == [(10, 2), (12, 7)]
    backward = [(box.get_x(), box.get_width()) for box in slow.patches if box.get_y() < 0]
    assert backward == [(0, 5), (5, 5)]
    assert [line.get_xdata()[0] for line in slow.lines] == [10]


def test_collective_grids_draws_each_number_in_the_colour_of_its_rank_and_sums_in_yellow():
    own = [[0, 1], [10, 11]]
    figure = figures.collective_grids(own, {"all-reduce": [[10, 12]] * 2, "all-gather": [[0, 1, 10, 11]] * 2})
    before, reduced, gathered = figure.axes
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["before", "all-reduce", "all-gather"]
    assert texts(figure) == ["0", "1", "10", "11"] + ["10", "12"] * 2 + ["0", "1", "10", "11"] * 2
    colours = {axes: [to_hex(box.get_facecolor()).upper() for box in axes.patches] for axes in figure.axes}
    assert colours[before] == [SKY, SKY, ORANGE, ORANGE]
    assert colours[gathered] == [SKY, SKY, ORANGE, ORANGE] * 2
    assert colours[reduced][1] == colours[reduced][3] == YELLOW
    assert [label.get_text() for label in before.get_yticklabels()] == ["rank 0", "rank 1"]


def test_padded_shares_hatches_what_is_dealt_a_second_time():
    figure = figures.padded_shares([[0, 2], [1, 0]], examples=3)
    (axes,) = figure.axes
    assert axes.get_title(loc="left") == "3 examples, 4 dealt" and texts(figure) == ["0", "1", "2", "0"]
    assert [box.get_hatch() for box in axes.patches] == [None, None, None, "////"]


def test_sharding_stages_draws_what_each_rank_holds():
    figure = figures.sharding_stages(2, {"weights": 2, "gradients": 2, "optimizer": 12})
    assert len(figure.axes) == 8 and legend(figure) == ["weights", "gradients", "optimizer"]
    totals = [axes.get_xlabel() for axes in figure.axes[::2]]
    assert totals == ["16 bytes", "10 bytes", "9 bytes", "8 bytes"]
    full, last = figure.axes[1], figure.axes[7]  # rank 1 under DDP and under ZeRO-3
    held = {
        axes: [(box.get_x(), box.get_width()) for box in axes.patches if to_hex(box.get_facecolor()).upper() != PALE]
        for axes in (full, last)
    }
    assert held[full] == [(0, 2), (2, 2), (4, 12)] and held[last] == [(1, 1), (3, 1), (10, 6)]


def test_backward_and_buckets_draws_a_segment_for_each_gradient_and_a_bar_for_each_message():
    steps = {"first": ([1, 3, 4], [(3, 5, 7)], 7), "second": ([1, 3, 4], [(2, 3, 5), (3, 4, 6)], 6)}
    first, second = figures.backward_and_buckets(steps, buckets_of=[0, 0, 1]).axes
    bars = [[(box.get_x(), box.get_width()) for box in axes.patches] for axes in (first, second)]
    assert bars == [[(0, 1), (1, 2), (3, 1), (5, 2)], [(0, 1), (1, 2), (3, 1), (3, 2), (4, 2)]]
    colours = [to_hex(box.get_facecolor()).upper() for box in second.patches]
    assert colours == [SKY, SKY, ORANGE, SKY, ORANGE]
    assert to_hex(first.patches[-1].get_facecolor()).upper() == PALE


def test_memory_of_stages_stacks_what_a_gpu_holds_against_its_limit():
    stages = {"DDP": {"weights": 30.0, "averages": 60.0}, "ZeRO-1": {"weights": 30.0, "averages": 10.0}}
    figure = figures.memory_of_stages({"small": stages, "large": stages}, limit=("80 GB", 80))
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["small", "large"]
    assert [(box.get_x(), box.get_width()) for box in figure.axes[0].patches] == [(0, 30), (30, 60), (0, 30), (30, 10)]
    assert [text.strip() for text in texts(figure)] == ["90", "40", "90", "40", "80 GB"]
    assert legend(figure) == ["weights", "averages"]
