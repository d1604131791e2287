"""A run that was killed goes on as if it had not been."""

import contextlib
import io
import tempfile
from pathlib import Path

from torch import Tensor

from utils.checks.loop.comparing import assert_same_bits, first_difference, stable_history
from utils.checks.toy_problem import (
    EPOCH,
    NotJudged,
    Recording,
    Returned,
    ToyProblem,
    Train,
    clones,
    needs,
    options,
    plain_config,
    record_run,
    run_until_killed,
)
from utils.loop import checkpoint

# For each state that a resumed run may have lost: settings of a run whose result depends on this state and no other.
RESUMED = {
    "position in the data": {},
    "order of the next epoch": {},  # saved at the end of an epoch
    "optimizer": {"optimizer": "adamw"},
    "momentum": {"momentum": 0.9},  # of SGD
    "schedule": {"schedule": "cosine"},
    "random streams": {},  # with a model that draws random numbers
    "BatchNorm statistics": {},  # with a model that has some
    "average": {"ema": 0.8},
    "early stopping": {"lr": 1.0, "val_every": 1, "patience": 6},
    "loss scale": {"precision": "fp16"},  # with a loss so large that the scale must fall
    "skipped steps": {"nonfinite": "skip", "schedule": "cosine"},  # with an example that is not finite
}
ADVICE = {
    "position in the data": "save the step, and go on behind the batches of this epoch that were seen",
    "order of the next epoch": "save the number of the epoch that comes next",
    "optimizer": "save optimizer.state_dict(), and load it",
    "momentum": "save optimizer.state_dict(), and load it",
    "random streams": "save the states of torch's, NumPy's and Python's streams, and set them",
    "early stopping": "save the best loss and the count of validations since, and load them",
}
INTERRUPTED = EPOCH + 1  # a step in the middle of an epoch, and between two log records
KILLED = 2 * EPOCH + 1  # the step in which a run ends: after a log record that no checkpoint holds


def resumes_exactly(train: Train, what: str = "") -> None:
    """A run that is killed and started again ends with the bits and the history of an uninterrupted run.

    what: a key of RESUMED; all of them by default. Each is a run whose result depends on one part of the state, so that
    AdamW would resume without its state, and noise without the random streams. A loop that starts afresh would end with
    the same bits too, so the steps after resuming are counted. The model itself ends the run, in a forward pass, so any
    format of checkpoints will do; the history is compared if the run's folder is that of utils.loop.train.
    """
    needs(train, "run")
    for name in [what] if what else RESUMED:
        uninterrupted, killed, resumed = (ToyProblem.for_resuming(name) for _ in range(3))
        save_every = EPOCH if name == "order of the next epoch" else INTERRUPTED
        every = options(train, save_every=save_every)
        config = plain_config(steps=3 * EPOCH + 1, log_every=EPOCH, **every, **RESUMED[name])
        val = options(train, val=uninterrupted.val)
        with tempfile.TemporaryDirectory() as folder:
            whole = record_run(train, uninterrupted, config, **val, run=f"{folder}/whole")
            run_until_killed(train, killed, config, KILLED, **val, run=f"{folder}/killed")
            saved = any(path.is_file() for path in Path(folder, "killed").rglob("*"))
            recording = record_run(train, resumed, config, **val, run=f"{folder}/killed")
            log = (
                Path(folder, "killed", "log.jsonl") if checkpoint.find(Path(folder, "killed", "checkpoints")) else None
            )
            best_in_file = any(Path(folder, "killed").rglob("*best*"))
            lines = log and log.read_text().count("\n")
        made, again = whole.passes, recording.passes
        if not saved:
            raise NotJudged(f"the loop, killed in step {KILLED}, had saved nothing")
        assert again < made, (
            f"{name}: the run makes all its {made} steps again, it was not resumed: "
            "begin with the newest checkpoint in the folder, if there is one"
        )
        lost, advice = f"the resumed run has lost its {name}", ADVICE.get(name, "save it with the weights, and load it")
        assert_same_bits(*(clones(p.model.state_dict().values()) for p in (uninterrupted, resumed)), lost, advice)
        if "ema" in RESUMED[name]:
            assert_same_bits(*(_averages(r) for r in (whole, recording)), lost, advice)
        _assert_same_best(whole.result, recording.result, advice, with_weights=not best_in_file)
        if lines is not None:
            one, other = stable_history(whole.result), stable_history(recording.result)
            assert repr(one) == repr(other), f"{lost}: {first_difference(one, other)}: {advice}"
            assert lines == len(one), (
                f"{lost}: {lines} lines in the log of {len(one)} records: cut off those of later steps"
            )


def _assert_same_best(whole: Returned, resumed: Returned, advice: str, with_weights: bool) -> None:
    """The best validation, and its weights if they are in no file, if the loop returns them."""
    if "best" in whole:
        assert repr(whole.best) == repr(resumed.best), (
            f"best is {resumed.best}, without the kill {whole.best}: {advice}"
        )
    weights = whole.best_weights if with_weights and "best_weights" in whole else None
    if isinstance(weights, dict):
        assert resumed.best_weights is not None, "the resumed run returns no best_weights: save them, and load them"
        assert_same_bits(
            [*weights.values()], [*resumed.best_weights.values()], "the resumed run's best_weights", advice
        )


def _averages(recording: Recording) -> list[Tensor]:
    """The averaged weights: those that the loop returns, or that it has validated after its last step."""
    if "ema" in recording.result:
        return clones(recording.result.ema.parameters())
    if recording.last_validation.steps < len(recording.steps):
        raise NotJudged("the loop returns no ema, and validates none after its last step")
    return recording.last_validation.weights


def damaged_checkpoint_is_refused(train: Train) -> None:
    """With one flipped bit in the newest checkpoint the loop names the file, skips it, and ends with the same bits.

    The bit is the sign of a saved weight: the file opens and looks sound. A truncated file would fail by itself.
    """
    uninterrupted, resumed = ToyProblem(), ToyProblem()
    config = plain_config(steps=2 * EPOCH, save_every=INTERRUPTED)
    with tempfile.TemporaryDirectory() as folder:
        uninterrupted.run(train, config, run=folder)
        found = checkpoint.find(Path(folder) / "checkpoints")
        if not found:
            raise NotJudged("the loop keeps its checkpoints in a format of its own")
        newest = found[-1]
        content = bytearray(newest.read_bytes())
        weight = uninterrupted.model[1].weight.detach().numpy().tobytes()
        content[content.find(weight) + 3] ^= 0x80
        newest.write_bytes(content)
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            resumed.run(train, config, run=folder)
    assert_same_bits(
        clones(uninterrupted.model.parameters()),
        clones(resumed.model.parameters()),
        "after a damaged checkpoint, which must be skipped",
    )
    assert newest.name in printed.getvalue(), (
        f"{newest.name} is damaged, and the loop says only {printed.getvalue()!r}: "
        + ("compare a checkpoint with a digest before it is used, and name the file that is damaged")
    )
