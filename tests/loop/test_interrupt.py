"""Whatever ends a run early, Ctrl-C or an error, leaves its history and its best weights at hand."""

import os
import queue
import re
import signal
import time

import pytest
import torch
from helpers.notebook_shell import notebook_shell
from helpers.resumable_run import Noisy, outcome, same
from jupyter_client import KernelManager
from torch import nn

from utils.loop import Config, evaluate, train
from utils.loop import checkpoint as checkpoints
from utils.loop.checkpoint import find, load_newest
from utils.loop.run_folder import best_weights
from utils.loop.training import KEPT

CONFIG = Config(steps=12, batch_size=16, seed=3, lr=3e-2, ema=0.9, log_every=2, val_every=2)


def build() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2))


class Trouble:
    """A loss that calls `happens` in this training step of the process, and counts the steps."""

    def __init__(self, step: int, happens):
        self.at, self.happens, self.step = step, happens, 0

    def __call__(self, outputs, targets):
        total = nn.functional.cross_entropy(outputs, targets, reduction="sum")
        if outputs.requires_grad and len(targets) == 16:
            self.step += 1
            if self.step == self.at:
                total = self.happens(total) or total
        return total


def ctrl_c(total=None):
    os.kill(os.getpid(), signal.SIGINT)


def raises(error: BaseException):
    def happens(total):
        raise error

    return happens


def ended(kind, happens, step: int = 7, run=None, config: Config = CONFIG):
    """The error that ends a run in this step."""
    with pytest.raises(kind) as left:
        train(build(), Noisy(), Noisy(), config, run=run, loss=Trouble(step, happens))
    return left.value


def run(**options):
    return train(build(), Noisy(), Noisy(), CONFIG, loss=Trouble(0, None), **options)


def of_history(result) -> list[dict]:
    return outcome(result)["history"]


def lowest(result) -> float:
    return min(record["val_loss"] for record in result.history if "val_loss" in record)


def test_ctrl_c_ends_the_run_after_the_step_and_hands_out_what_it_has_made(capsys):
    whole = run()
    error = ended(KeyboardInterrupt, ctrl_c)
    result = error.result
    assert result.steps == 7 and of_history(result) == of_history(whole)[: len(result.history)]
    assert len(result.history) == 3 + 3 and result.best["val_loss"] == lowest(result)
    again = build()
    again.load_state_dict(result.best_weights)
    assert evaluate(again, Noisy(), batch_size=CONFIG.val_batch_size).loss == result.best["val_loss"]
    assert error.__notes__ == [KEPT] and "the run ends after this step" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_weights_after_ctrl_c_are_those_of_a_whole_step():
    short = train(
        build(), Noisy(), None, Config(steps=7, batch_size=16, seed=3, lr=3e-2, ema=0.9), loss=Trouble(0, None)
    )
    result = ended(KeyboardInterrupt, ctrl_c).result
    for ours, theirs in ((result.model, short.model), (result.ema, short.ema)):
        assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))


def test_ctrl_c_saves_the_step_in_a_run_folder(tmp_path):
    error = ended(KeyboardInterrupt, ctrl_c, run=tmp_path)
    assert error.__notes__ == [f"step 7 is saved in {tmp_path}: the same call goes on from there"]
    assert load_newest(tmp_path / "checkpoints")["progress"]["step"] == 7 and error.result.steps == 7
    assert same(outcome(run(run=tmp_path)), outcome(run()))


def test_a_second_ctrl_c_ends_it_at_once(tmp_path):
    error = ended(KeyboardInterrupt, lambda total: (ctrl_c(), ctrl_c()), run=tmp_path)
    assert error.result.steps == 6 and not find(tmp_path / "checkpoints")
    assert same(outcome(run(run=tmp_path)), outcome(run()))


def test_ctrl_c_after_the_last_step_hands_out_the_whole_result():
    """It comes in on_step, when all is done but the return."""

    def last(record, model):
        if record["step"] == 12:
            ctrl_c()

    with pytest.raises(KeyboardInterrupt) as left:
        train(build(), Noisy(), None, CONFIG, loss=Trouble(0, None), on_step=last)
    whole = train(build(), Noisy(), None, CONFIG, loss=Trouble(0, None))
    assert same(outcome(left.value.result), outcome(whole))


def test_a_program_that_handles_ctrl_c_itself_still_does():
    told = []
    before = signal.signal(signal.SIGINT, lambda *_: told.append("Ctrl-C"))
    try:
        result = train(build(), Noisy(), Noisy(), CONFIG, loss=Trouble(7, ctrl_c))
    finally:
        signal.signal(signal.SIGINT, before)
    assert told == ["Ctrl-C"] and result.steps == 12


@pytest.mark.parametrize(
    "happens",
    [
        lambda total: total * torch.nan,
        raises(ZeroDivisionError("of the loss's own")),
        raises(SystemExit(3)),
    ],
    ids=["not finite", "an error in the loss", "an exit"],
)
def test_any_error_hands_out_what_the_run_has_made(happens):
    error = ended(BaseException, happens)
    assert error.result.history[:6] == error.result.history and lowest(error.result) == error.result.best["val_loss"]
    assert len(error.result.history) == 6 and error.result.best_weights and KEPT in error.__notes__


def test_an_error_saves_the_best_weights_that_no_checkpoint_has(tmp_path):
    error = ended(FloatingPointError, lambda total: total * torch.nan, run=tmp_path)
    assert error.result.best["step"] in (2, 4, 6) and not hasattr(error, "__notes__")
    again = build()
    again.load_state_dict(best_weights(tmp_path))
    assert evaluate(again, Noisy(), batch_size=CONFIG.val_batch_size).loss == error.result.best["val_loss"]


def test_an_error_is_told_also_where_nothing_can_be_saved(tmp_path, monkeypatch):
    def fail(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoints, "_write", fail)
    error = ended(ZeroDivisionError, raises(ZeroDivisionError("of the loss's own")), run=tmp_path)
    assert error.result.best_weights and error.result.best["val_loss"] == lowest(error.result)


def advised(error: BaseException) -> str:
    """The lines that its note prints."""
    (note,) = error.__notes__
    return "\n".join(re.findall(r"^    (.*)", note, re.MULTILINE))


@pytest.mark.parametrize("happens", [ctrl_c, lambda total: total * torch.nan], ids=["Ctrl-C", "not finite"])
def test_the_printed_lines_work_in_the_next_cell(happens, capsys):
    with notebook_shell() as shell:
        shell.user_ns["begin"] = lambda: train(build(), Noisy(), Noisy(), CONFIG, loss=Trouble(7, happens))
        failed = shell.run_cell("begin()")
        assert "result = sys.last_value.result" in capsys.readouterr().out  # the note is shown
        error = failed.error_in_exec
        assert shell.run_cell(advised(error)).success
        assert shell.user_ns["result"] is error.result


LONG = """
import torch
from helpers.resumable_run import Noisy
from utils.loop import Config, train
config = Config(steps=10**9, log_every=1, deterministic=False)

def look(record, model):
    if record["step"] == 3:
        print("begun")

train(torch.nn.Linear(5, 2), Noisy(), None, config, on_step=look)
"""


@pytest.mark.slow
def test_the_stop_button_of_a_notebook(monkeypatch):
    """A kernel of its own, interrupted as Jupyter does it."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(("tests", ".")))
    kernel = KernelManager()
    kernel.start_kernel()
    client = kernel.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=120)

        def until(kind: str, field: str) -> object:
            deadline = time.monotonic() + 120
            while time.monotonic() < deadline:
                try:
                    message = client.get_iopub_msg(timeout=10)
                except queue.Empty:
                    continue
                if message["msg_type"] == kind and message["content"].get("name") != "stderr":
                    return message["content"][field]
            raise AssertionError(f"no {kind}")

        cell = client.execute(LONG)
        assert "begun" in until("stream", "text")
        kernel.interrupt_kernel()
        assert until("error", "ename") == "KeyboardInterrupt"
        while client.get_shell_msg(timeout=60)["parent_header"]["msg_id"] != cell:
            pass  # with the answer to this one it takes the next cell
        lines = "\n".join(re.findall(r"^    (.*)", KEPT, re.MULTILINE))
        client.execute(f"{lines}\nprint([record['step'] for record in result.history][:3], result.steps >= 3)")
        assert until("stream", "text") == "[1, 2, 3] True\n"
    finally:
        client.stop_channels()
        kernel.shutdown_kernel(now=True)
