"""What the calculators about a step answer, against the memory model, the loop's own schedule, and by hand."""

import pytest

from utils.facts import MODELS
from utils.loop import Config
from utils.loop.optim import lr_factor
from utils.measure.dry_run import Plan
from utils.measure.memory_model import predict_gpt
from utils.napkin import step_answers

GPT2 = {"vocabulary": 50_257, "context": 1024, "width": 768, "heads": 12, "layers": 12}
FOREACH = Plan("adamw", implementation="foreach")  # as on a GPU by default


@pytest.mark.parametrize(("step", "number"), [("first", 1), ("second", 2)])
@pytest.mark.parametrize("batch", [1, 8])
def test_the_peak_of_a_step_is_that_of_the_model_that_counts_every_tensor(step, number, batch):
    answer = step_answers.step_memory("GPT-2", batch, 1024, "AdamW", "none", step)
    phases = predict_gpt(**GPT2, batch=batch, tokens=1024, plan=FOREACH).phases
    exact = max(phases[f"{what} {number}"].peak for what in ("backward", "update"))
    assert answer.peak[1] == pytest.approx(exact, rel=0.01)
    other = step_answers.step_memory("GPT-2", batch, 1024, "AdamW", "none", {"first": "second"}.get(step, "first"))
    assert answer.other_peak == other.peak[1] != answer.peak[1]


def test_a_step_begins_and_ends_as_its_optimizer_has_it():
    for optimizer, state in (("SGD", 0), ("SGD with momentum", 4), ("AdamW", 8)):
        weights = 4 * 124_439_808
        first, second = (
            step_answers.step_memory("GPT-2", 8, 1024, optimizer, "none", step).moments for step in ("first", "second")
        )
        assert sum(first[0][1].values()) == weights and sum(second[0][1].values()) == weights * (1 + state // 4)
        spare = optimizer == "AdamW"  # foreach: the roots for all weights at once
        assert first[-1][1] == second[-1][1] and sum(first[-1][1].values()) == weights * (2 + state // 4 + spare)
        if spare:
            exact = predict_gpt(**GPT2, batch=8, tokens=1024, plan=FOREACH).phases["update 2"].peak
            assert sum(second[-1][1].values()) == pytest.approx(exact, rel=0.001)


def test_checkpointing_keeps_the_input_of_each_layer():
    plain, cut = (
        dict(step_answers.step_memory("GPT-2", 8, 1024, "AdamW", how, "second").moments)
        for how in ("none", "every layer")
    )
    assert cut["forward of layer 12"]["activations, temporaries"] == 12 * 4 * 8 * 1024 * 768
    again = cut["backward of layer 1"]["activations, temporaries"] - 4 * 8 * 1024 * 768
    assert (
        again == plain["backward of layer 1"]["activations, temporaries"]
    )  # one layer, as if it had not been checkpointed


def test_buckets_wait_for_the_one_before_and_for_their_gradients():
    answer = step_answers.overlap(1_000_000, 10, 1, 2, 1)  # 4 MB: 1 MB takes 2 · (0.5 MB / 1 GB/s + 5 µs) = 1.01 ms
    expected = [(2.5, 2.5, 3.51), (5.0, 5.0, 6.01), (7.5, 7.5, 8.51), (10.0, 10.0, 11.01)]
    assert [tuple(round(1e3 * each, 6) for each in bucket) for bucket in answer.buckets] == expected
    assert round(1e3 * answer.at_once, 6) == 10 + 4.01
    slow = step_answers.overlap(1_000_000, 1, 1, 2, 1)  # the network is the limit: one after the other
    assert [round(1e3 * begins, 6) for _, begins, _ in slow.buckets] == [0.25, 1.26, 2.27, 3.28]


def test_one_rank_sends_nothing():
    answer = step_answers.overlap("1B", 100, 25, 1, 100)
    assert answer.end == answer.backward == 0.1 and "100 %" in answer.words[1]


@pytest.mark.parametrize(("shape", "schedule"), [("cosine", "cosine"), ("constant", "constant")])
@pytest.mark.parametrize("warmup", [0, 7])
def test_the_schedule_is_the_loops(shape, schedule, warmup):
    config = Config(steps=50, lr=1e-3, warmup=warmup, schedule=schedule, final_lr=0.1)
    rates = step_answers.schedule(shape, 1e-3, 50, warmup, 0.1).rates
    assert rates == pytest.approx([1e-3 * lr_factor(config, step) for step in range(50)])


def test_straight_lines_end_one_step_after_the_last():
    assert step_answers.schedule("linear", 1, 10, 0, 0).rates == pytest.approx([1 - n / 10 for n in range(10)])
    late = step_answers.schedule("constant, then down", 1, 10, 2, 0).rates
    assert late == pytest.approx([0.5, 1, 1, 1, 1, 1, 1, 1, 1, 0.5])


@pytest.mark.parametrize(
    ("answer", "inputs", "words"),
    [
        (step_answers.step_memory, ("LLaMA-3 8B", 1, 1, "AdamW", "none", "first"), "unknown model"),
        (step_answers.step_memory, ("GPT-2", 0, 1, "AdamW", "none", "first"), "batch=0"),
        (step_answers.overlap, ("1B", 0, 25, 8, 100), "backward_ms must be above zero"),
        (step_answers.schedule, ("cosine", 1, 10, 2.5, 0), "warmup=2.5"),
        (step_answers.schedule, ("cosine", 1, 10, 2, 3), "last=3 is no share"),
        (step_answers.schedule, ("cosine", 1, "2M", 2, 0), "more than a million"),
    ],
)
def test_nonsense_is_refused_in_words(answer, inputs, words):
    with pytest.raises(ValueError, match=words):
        answer(*inputs)


def test_every_model_has_an_answer():
    assert set(step_answers.GPTS) <= set(MODELS)
    for model in step_answers.GPTS:
        assert step_answers.step_memory(model, 1, 128, "AdamW", "every layer", "second").peak[1] > 0
