"""Generated configs, data, models and losses, most of them odd: each trains, is refused before its first step, or is stopped
by its policy on numbers that are not finite; and nothing is left half written."""

import json
import math
import os
import random
import re
import signal
import warnings
from dataclasses import fields
from functools import partial
from pathlib import Path

import hypothesis
import numpy as np
import torch
import torch._dynamo  # as every first step of an optimizer does: here once for all cases, before they are forked
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.configuration import set_hypothesis_home_dir
from torch import nn
from torture import oddities
from torture.oddities import FAULTS, HARMLESS, LENGTHS, NOT_FINITE, SOUND_LOSSES, SOUND_MODELS, STRANGE, data_of
from torture.tally import Tally
from torture.victims import start

from utils.loop import checkpoint
from utils.loop import training as loop
from utils.loop.config import CHOICES, Config
from utils.loop.log import MEASURED
from utils.loop.signals import SIGTERM_EXIT

PLAIN = {"steps": 4, "batch_size": 4, "device": "cpu", "worker_timeout": 60.0, "log_every": 2, "save_every": 2}
ARGUMENTS = {"dollars_per_hour": 0.0, "peak_flops": 0.0, "progress": False}  # of train, and no fields of Config
MANY_STEPS = 100  # a run of more is sent a SIGTERM in its step number LONG_ENOUGH
LONG_ENOUGH = 5
SOUND = {  # values of each field that can work; some of them not together
    "steps": [1, 2, 3, 4, 6, 10**9], "batch_size": [1, 2, 3, 4, 8], "accumulation": [1, 2, 3], "drop_last": [True, False],
    "seed": [0, 1, 2**63 - 1], "optimizer": ["adamw", "sgd"], "lr": [1e-3, 1e-2, 1], "weight_decay": [0.0, 0.1],
    "momentum": [0.0, 0.9], "beta1": [0.0, 0.9], "beta2": [0.0, 0.999], "warmup": [0, 1, 3],
    "schedule": ["constant", "cosine"], "final_lr": [0, 0.1, 1.0], "clip": [0, 0.5, 1e-30, 1e30], "ema": [0.0, 0.9],
    "precision": ["fp32", "bf16", "fp16"], "device": ["cpu", "auto"], "parallel": ["ddp", "fsdp"],
    "deterministic": [True, False], "nonfinite": ["raise", "skip"], "max_skips": [1, 2, 16], "patience": [0, 1],
    "min_delta": [0.0, 1.0], "val_every": [0, 1, 3], "val_batch_size": [1, 3, 256], "workers": [0, 0, 0, 0, 1, 2],
    "prefetch": [1, 2], "persistent_workers": [True, False], "worker_timeout": [0, 60.0], "log_every": [1, 2, 50],
    "save_every": [0, 1, 3], "keep": [1, 2], "dollars_per_hour": [0, 2.5], "peak_flops": [0, 1e12],
    "progress": [True, False],
}  # fmt: skip
ODD_VALUES = [
    *(-1, 0, 1, 7, 2**31, 10**9, 2**53 + 1, 2**63, 10**30, -(10**30), True, False, None),
    *(-0.0, 0.5, 1.0, -1.0, 1e-320, 1e-30, 1e18, 1e30, 1e38, 1e300, 1.7e308, math.nan, math.inf, -math.inf, 1 - 1e-16),
    *(
        "",
        "0.1",
        "adamw",
        "sgd",
        "cosine",
        "fp16",
        "skip",
        "cpu",
        "cpu:7",
        "cuda:99",
        "meta",
        "mps",
        "hpu",
        "tpu",
        "\0",
    ),
    *(
        b"cpu",
        (1,),
        [],
        {},
        1j,
        np.int64(3),
        np.float64(0.1),
        np.float32(0.1),
        torch.tensor(1),
        torch.device("cpu"),
        int,
    ),
]
RUNS = ("none", "none", "new", "new", "deep", "empty", "strangers", "unset", "a file")
LABELS = ({}, {}, {}, {"data": "drawn", "dropout": 0.1}, {"a": math.nan}, {"a": (1, 2)}, 7)


def _cases() -> st.SearchStrategy[dict]:
    """One case: what to build, by names and numbers, so that it can be read in a report."""
    odd = st.sampled_from(ODD_VALUES) | st.integers() | st.floats() | st.text(max_size=4)
    dataset = st.fixed_dictionaries(
        {
            "kind": st.sampled_from(["tensors"] * 16 + ["rows"] * 32 + ["a list"] * 2 + ["regression", *STRANGE]),
            "n": st.sampled_from([16, 7, 3, 2, 1, 0]),
            "fault": st.sampled_from([""] * 12 + ["y is a list", "y is None", *NOT_FINITE * 3, *FAULTS, *LENGTHS]),
            "at": st.sampled_from([0, 1, 2, 2, 5, 9]),
        }
    )
    return st.fixed_dictionaries(
        {
            "sound": st.booleans(),  # nothing odd but the data
            "config": st.fixed_dictionaries({}, optional={name: st.sampled_from(SOUND[name]) for name in SOUND}),
            "odd": st.dictionaries(st.sampled_from([*SOUND, *["lr", "weight_decay"] * 4]), odd, max_size=2),
            "model": st.sampled_from([*(list(SOUND_MODELS) * 3), *oddities.MODELS]),
            "loss": st.sampled_from([*(list(SOUND_LOSSES) * 12), *oddities.LOSSES]),
            "data": dataset,
            "validation": st.none() | st.just("the same") | dataset,
            "run": st.sampled_from(RUNS),
            "labels": st.sampled_from(LABELS),
        }
    ).map(_settled)


def _settled(case: dict) -> dict:
    """The same, where what it leaves open has been settled."""
    if case["sound"]:
        case |= {"odd": {}, "labels": {}}
        case["model"] = case["model"] if case["model"] in SOUND_MODELS else "linear"
        case["loss"] = case["loss"] if case["loss"] in SOUND_LOSSES else "cross-entropy"
        case["run"] = case["run"] if case["run"] in ("none", "new", "deep", "empty", "strangers") else "new"
    for name, least, most in (("workers", 0, 2), ("worker_timeout", 1, math.inf), ("peak_flops", 1, math.inf)):
        value = case["odd"].get(name)
        if type(value) in (int, float) and (most < value < math.inf or 0 < value < least):
            case["odd"][name] = least or most  # it could be had, and proves nothing
    case["config"] = PLAIN | case["config"] | case["odd"]
    return case


def _settings(case: dict) -> tuple[Config, dict]:
    """What is set in a case: the Config, and the arguments of train that are none of its fields."""
    options = {name: value for name, value in case["config"].items() if name in ARGUMENTS}
    return Config(**{name: value for name, value in case["config"].items() if name not in ARGUMENTS}), options


def fuzz(folder: Path, count: int, seed: int = 0) -> Tally:
    """`count` cases, each in a process of its own."""
    tally = Tally("generated configs and datasets")
    set_hypothesis_home_dir(folder / "hypothesis")

    @hypothesis.seed(seed)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(_cases())
    def try_case(case: dict) -> None:
        here = folder / str(tally.count)
        here.mkdir()
        tally.count += 1
        _try(case, here, tally)

    try_case()
    return tally


def _try(case: dict, here: Path, tally: Tally) -> None:
    try:
        code = start(partial(_judge, case, here), here / "log").end()
    except RuntimeError as error:  # it hangs
        tally.wrong.append(f"{error}: {case}")
        return
    if code:
        tally.wrong.append(f"its process ended with {code} ({(here / 'log').read_text()[-300:]}): {case}")
        return
    verdict = json.loads((here / "verdict").read_text())
    tally.notes[verdict["outcome"]] += 1
    tally.lost += [f"{line}: {case}" for line in verdict["lost"]]
    tally.wrong += [f"{line}: {case}" for line in verdict["wrong"]]


# --- in the process of a case -------------------------------------------------------------------------------


class Trial:
    """One case, built and tried, and what was found wrong with it."""

    def __init__(self, case: dict, here: Path):
        self.case, self.run = case, _run_of(case["run"], here)
        self.folder = self.run if isinstance(self.run, Path) else None
        self.begun = self.made = 0  # steps
        self.outcome, self.lost, self.wrong = "", [], []
        self.result = None

    def go(self) -> None:
        """Train, and judge what came of it."""
        case = self.case
        torch.manual_seed(5)
        self.model = oddities.MODELS[case["model"]][1]()
        self.before = _tensors(self.model)
        self.files = _files(self.folder)
        random.seed(6), np.random.seed(7), torch.manual_seed(8)  # noqa: NPY002
        around = _surroundings()
        try:
            self.result = self._train()
            self._judge_result()
        except (Exception, SystemExit) as error:
            self._judge_error(error)
        if _surroundings() != around:
            self.wrong.append("it leaves the caller's random streams or settings changed")
        if any(m._forward_hooks for m in (self.model.modules() if isinstance(self.model, nn.Module) else ())):
            self.wrong.append("hooks are left on the model")
        self._judge_folder()

    def _train(self) -> loop.Result:
        case, kind = self.case, oddities.MODELS[self.case["model"]][0]
        config, options = _settings(case)
        data = data_of(case["data"], kind)
        validation = (
            data if case["validation"] == "the same" else case["validation"] and data_of(case["validation"], kind)
        )
        made = loop.train_step

        def counted(*arguments) -> None:
            self.begun += 1
            if config.steps > MANY_STEPS and self.begun == LONG_ENOUGH:
                os.kill(os.getpid(), signal.SIGTERM)
            made(*arguments)
            self.made += 1

        loop.train_step = counted
        try:
            return loop.train(
                self.model,
                data,
                validation,
                config,
                run=self.run,
                labels=case["labels"],
                loss=oddities.LOSSES[case["loss"]],
                **options,
            )
        finally:
            loop.train_step = made

    def _judge_result(self) -> None:
        result, (config, _) = self.result, _settings(self.case)
        self.outcome = "trained"
        if reason := _hopeless(self.case):
            self.wrong.append(f"it trained, though {reason}")
        if not (self.made == result.steps == config.steps or (result.stopped_early and config.patience)):
            self.wrong.append(f"{self.made} steps made, {result.steps} reported, {config.steps} asked for")
        logged = [record["step"] for record in result.history if "loss" in record]
        due = [s for s in range(1, result.steps + 1) if s % config.log_every == 0 or s == config.steps]
        if logged != due:
            self.wrong.append(f"logged after steps {logged}, not after {due}")
        self._judge_numbers(result.history)
        for name, tensor in {**_tensors(result.model), **_tensors(result.ema)}.items():
            if name != "mask" and not tensor.isfinite().all():
                self.wrong.append(f"trained, and {name} is not finite")
        if self.model is not result.model or not all(
            torch.equal(self.before[name], p) for name, p in self.model.named_parameters() if not p.requires_grad
        ):
            self.wrong.append("another model, or frozen parameters moved")

    def _judge_numbers(self, history: list[dict]) -> None:
        """All finite; but where steps may be skipped, the norm of a skipped one and a validation on such data say so."""
        skips = self.case["config"].get("nonfinite") == "skip" or self.case["config"].get("precision") == "fp16"
        for record in history:
            numbers = {**record, **record.get(MEASURED, {})}
            for name, value in numbers.items():
                excused = skips and (name == "val_loss" or (name == "grad_norm" and record["skipped"]))
                if isinstance(value, float) and not math.isfinite(value) and not excused:
                    self.wrong.append(f"{name} is {value} after step {record['step']}")

    def _judge_error(self, error: BaseException) -> None:
        said = "; ".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", [])])
        unmoved = _same(_tensors(self.model), self.before)
        if isinstance(error, SystemExit):
            self.outcome = "asked to stop"
            if error.code != SIGTERM_EXIT or self.made != LONG_ENOUGH:
                self.wrong.append(f"it ends with {error.code} after {self.made} steps")
        elif isinstance(error, ValueError) and self.begun == 0:
            self.outcome = "refused"
            if not unmoved:
                self.wrong.append(f"refused, but the model was changed: {said}")
            if _files(self.folder) != self.files:
                self.wrong.append(f"refused, but files were written: {said}")
            if _must_train(self.case):
                self.wrong.append(f"refused without reason: {said}")
            if not str(error) or len(said) > 2000:
                self.wrong.append(f"a refusal of {len(said)} characters: {said[:200]}")
        elif isinstance(error, FloatingPointError):
            self.outcome = "not finite"
            if _must_train(self.case) or _hopeless(self.case):
                self.wrong.append(f"stopped without reason, or not refused: {said}")
            if " step " not in said:
                self.wrong.append(f"no step is named: {said}")
            may_be = {"mask"} | {name for name, _ in self.model.named_buffers() if "the buffer " in said}
            finite = all(tensor.isfinite().all() for name, tensor in _tensors(self.model).items() if name not in may_be)
            if not unmoved and not finite and "a weight is not finite" not in said:
                self.wrong.append(f"the weights are not finite any more: {said}")
        elif "detached" in (self.case["model"], self.case["loss"]) and isinstance(error, ValueError) and unmoved:
            self.outcome = "refused in its first backward"
            if self.made or (self.folder and checkpoint.find(self.folder / "checkpoints")):
                self.wrong.append(f"after {self.made} steps {said}")
        elif self.begun == 0 and "in a trial before the first step (" in said and unmoved:
            self.outcome = "stopped by an error of its own, in a trial"
            if _files(self.folder) != self.files or _must_train(self.case):
                self.wrong.append(f"files were written, or without reason: {said}")
        elif unread := _unread(self.case):
            self.outcome = "stopped at an example"
            numbers = map(int, re.findall(r"\d+", said.partition("example")[2]))
            if not any(number in some for number in numbers for some in unread):
                self.wrong.append(f"of {unread} none is named: {said}")
        else:
            self.wrong.append(f"after {self.made} steps {said}")

    def _judge_folder(self) -> None:
        """Whatever lies in the folder loads, and holds what was reported."""
        if self.folder is None or not self.folder.is_dir():
            return
        steps = []
        for path in sorted(self.folder.rglob("*")):
            if "tmp" in path.name:
                self.lost.append(f"{path.name} is left half written")
            if path.parent.name == "checkpoints":
                saved = checkpoint.load(path)
                if path.name.startswith("step"):
                    steps.append(saved["progress"]["step"])
                if not all(tensor.isfinite().all() for name, tensor in saved["model"].items() if name != "mask"):
                    self.lost.append(f"{path.name} holds weights that are not finite")
        if (self.folder / "run.json").exists():
            json.loads((self.folder / "run.json").read_text())
        log = self.folder / "log.jsonl"
        records = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        if self.result and (str(records) != str(self.result.history) or max(steps, default=0) != self.result.steps):
            self.lost.append(
                f"{self.result.steps} steps, saved {steps}; {len(records)} of {len(self.result.history)} records"
            )

    def go_again(self) -> None:
        """The same once more, in the folder of a run that has ended: the same weights, and not a step."""
        first, self.begun = _tensors(self.model), 0
        torch.manual_seed(9)
        self.model = oddities.MODELS[self.case["model"]][1]()
        try:
            self._train()
        except Exception as error:
            self.wrong.append(f"it cannot be called again: {type(error).__name__}: {error}")
            return
        if self.begun or not _same(_tensors(self.model), first):
            self.wrong.append(f"called again, it makes {self.begun} steps, or has other weights")


def _judge(case: dict, here: Path) -> None:
    warnings.simplefilter("error")
    # Python 3.12 and later: DataLoader forks its workers, from a process in which torch has threads.
    warnings.filterwarnings("ignore", message="This process .* is multi-threaded", category=DeprecationWarning)
    trial = Trial(case, here)
    trial.go()
    if trial.result and trial.folder:
        trial.go_again()
    (here / "verdict").write_text(json.dumps({"outcome": trial.outcome, "lost": trial.lost, "wrong": trial.wrong}))


def _run_of(kind: str, here: Path) -> object:
    run = here / "run"
    if kind in ("empty", "strangers"):
        run.mkdir()
    if kind == "strangers":
        (run / "notes.txt").write_text("mine")
        (run / "checkpoints").mkdir()
    if kind == "a file":
        run.write_text("mine")
    if kind == "deep":
        return here / "run" / "er" / "and deeper"
    return {"none": None, "unset": ""}.get(kind, run)


def _tensors(model: object) -> dict[str, torch.Tensor]:
    if not isinstance(model, nn.Module):
        return {}
    return {
        name: tensor.detach().clone()
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]
        if not isinstance(tensor, nn.parameter.UninitializedTensorMixin)
    }


def _same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    """Bit for bit: a NaN is the same as itself."""
    return a.keys() == b.keys() and all(
        a[name].is_meta or torch.equal(*(kept[name].flatten().view(torch.uint8) for kept in (a, b))) for name in a
    )


def _files(folder: Path | None) -> dict[str, bytes] | None:
    if folder is None or not folder.is_dir():
        return None
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in folder.rglob("*")}


def _surroundings() -> str:
    """The caller's random streams and settings."""
    states = (torch.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate())  # noqa: NPY002
    deterministic = torch.are_deterministic_algorithms_enabled(), torch.utils.deterministic.fill_uninitialized_memory
    return str((states, deterministic, torch.is_grad_enabled(), signal.getsignal(signal.SIGTERM)))


# --- what must come of a case, said without asking utils -----------------------------------------------------


def _hopeless(case: dict) -> str | None:
    """Why a case cannot be sound; None if it may be."""
    for name, default in ({field.name: field.default for field in fields(Config)} | ARGUMENTS).items():
        value, kind = case["config"].get(name, default), type(default)
        if type(value) is not kind and not (kind is float and type(value) is int):
            return f"{name} is of type {type(value).__name__}"
        if kind is not str and not 0 <= value < math.inf:
            return f"{name} is {value}"
        if name in CHOICES and value not in CHOICES[name]:
            return f"{name} is {value}"
    wholes = ("steps", "batch_size", "accumulation", "val_batch_size", "log_every", "keep", "prefetch", "max_skips")
    if zero := next((name for name in wholes if case["config"].get(name) == 0), None):
        return f"{zero} is 0"
    for name, odd in (("model", oddities.ODD_MODELS), ("loss", oddities.ODD_LOSSES), ("run", RUNS[7:])):
        if case[name] in odd and case[name] != "mean":  # a mean of equal parts may pass for a sum
            return f"{name} is {case[name]}"
    if case["data"]["n"] == 0 or case["data"]["kind"] in STRANGE:
        return "of its data"
    return None


def _contradictory(case: dict) -> bool:
    """Whether sound values do not go together."""
    config = {field.name: field.default for field in fields(Config)} | case["config"]
    n, batch = case["data"]["n"], config["batch_size"]
    batches = [batch] * (n // batch) + ([n % batch] if n % batch and not config["drop_last"] else [])
    lone = any(size // min(size, config["accumulation"]) == 1 for size in batches)
    return (
        config["accumulation"] > batch
        or config["warmup"] >= config["steps"]
        or not batches
        or (case["model"] == "batchnorm" and lone)
        or (config["precision"] == "fp16" and config["max_skips"] < 16)  # until its scale is found
    )


def _tame(data: dict, case: dict) -> bool:
    faulty = data["fault"] not in HARMLESS and (
        data["kind"] == "rows" or data["fault"] in (*NOT_FINITE, "label too large")
    )
    return data["kind"] in ("tensors", "rows", "a list") and data["n"] > 0 and not faulty and data["fault"] != "ignored"


def _must_train(case: dict) -> bool:
    validation = case["validation"]
    return (
        not case["odd"]
        and not _hopeless(case)
        and not _contradictory(case)
        and case["model"] in SOUND_MODELS
        and case["loss"] in SOUND_LOSSES
        and case["labels"] in LABELS[:4]
        and case["run"] in ("none", "new", "deep", "empty", "strangers")
        and _tame(case["data"], case)
        and (validation in (None, "the same") or _tame(validation, case))
    )


def _unread(case: dict) -> list[range]:
    """The examples that cannot be known before they are read: behind the first two of a dataset that reads one by one."""
    found = []
    for data in (case["data"], case["validation"]):
        if isinstance(data, dict) and data["kind"] == "rows":
            if data["fault"] in ("longer", "endless"):
                found.append(range(data["n"], 2**62))
            if data["fault"] in FAULTS and data["at"] > 1:
                found.append(range(data["at"], data["at"] + 1))
    return found
