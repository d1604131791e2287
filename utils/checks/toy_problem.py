"""A toy problem whose examples carry their ids, and a recording of what a training loop does with it."""

import contextlib
import copy
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils.data import Dataset

from utils.data.datasets import IGNORE, TensorData
from utils.device import own_random_streams
from utils.loop.config import Config
from utils.loop.metrics import cross_entropy_sum

Train = Callable  # with the signature of utils.loop.train
EXAMPLES, BATCH, CLASSES = 22, 8, 3
EPOCH = math.ceil(EXAMPLES / BATCH)  # steps
SEED = 0  # of the examples, of the first weights, and of the runs


class NotJudged(Exception):
    """The detector cannot tell whether this loop is right. The message says why: neither a pass nor an alarm."""

    def __str__(self) -> str:
        return f"not judged: {super().__str__()}"


def needs(train: Train, *parameters: str) -> None:
    """Raise NotJudged if `train` was made by `adapt` out of a loop that lacks one of these parameters."""
    missing = [name for name in parameters if not takes(train, name)]
    if missing:
        raise NotJudged(f"the loop takes no {' and no '.join(missing)}")


def takes(train: Train, parameter: str) -> bool:
    """Whether the loop has this parameter. One that was not made by `adapt` is taken to have all."""
    return parameter in getattr(train, "parameters", {parameter})


def options(train: Train, **settings) -> dict:
    """Those of these settings that the loop has: what a detector would like and can do without."""
    return {name: value for name, value in settings.items() if takes(train, name)}


class Returned:
    """What a loop returned, an object or a dict; `value` is that itself. To ask for what is not in it raises NotJudged."""

    def __init__(self, value: object):
        self.value = value

    def __contains__(self, name: str) -> bool:
        return name in self.value if isinstance(self.value, dict) else hasattr(self.value, name)

    def __getattr__(self, name: str):
        if name not in self:
            raise NotJudged(f"the loop returns no {name}")
        return self.value[name] if isinstance(self.value, dict) else getattr(self.value, name)

    @property
    def history(self) -> list["Record"]:
        """The records of the run. Raises NotJudged if there are none, or if they are no list of dicts."""
        history = self.__getattr__("history")
        if not isinstance(history, list) or not all(isinstance(record, dict) for record in history):
            wanted = 'a list of records such as {"step": 1, "loss": 1.1}'
            raise NotJudged(f"the loop returns a history that is not {wanted}: {_brief(history)}")
        return [Record(record) for record in history]


class Record(dict):
    """A record of a history. To ask for a key that it lacks raises NotJudged."""

    def __missing__(self, key: str):
        self.require(key)

    def require(self, *keys: str) -> None:
        for key in keys:
            if key not in self:
                one = _brief(dict(self))
                raise NotJudged(f'your history has no {key}: add "{key}" to its records, of which one is {one}')


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) < 80 else f"{text[:80]}…"


class ToyProblem:
    """A model, training data and validation data.

    Each example carries its id in x: column 0 is id / 64. The ids of validation examples are negative.
    """

    def __init__(self, dropout=0.0, norm=False, draws=False, tokens=False, noise=False, dtype=torch.float32):
        with own_random_streams(7 + SEED):
            self.tokens = tokens
            make = _texts if tokens else _points
            self.data, self.val = make(+1, dtype, draws), make(-1, dtype, draws)
            if tokens:
                self.model = _Model(nn.Embedding(2 * EXAMPLES + 1, 6), nn.Tanh(), nn.Linear(6, CLASSES))
            else:
                middle = [nn.BatchNorm1d(8)] if norm else []
                middle += [nn.Tanh()] + ([nn.Dropout(dropout)] if dropout else [])
                self.model = _Model(
                    _Noise() if noise else nn.Identity(), nn.Linear(4, 8), *middle, nn.Linear(8, CLASSES)
                )
            self.model.to(dtype)
        self.loss = None
        self.initial_model = copy.deepcopy(self.model)

    @classmethod
    def adverse(cls) -> "ToyProblem":
        """The validation data are the training data with other labels: a better fit makes the validation loss worse."""
        problem = cls()
        problem.val = TensorData(problem.data.x * torch.tensor([-1.0, 1, 1, 1]), (problem.data.y + 1) % CLASSES)
        return problem

    @classmethod
    def for_resuming(cls, case: str) -> "ToyProblem":
        """The problem for one case of RESUMED in checks/loop/resuming.py."""
        if case == "early stopping":
            return cls.adverse()
        problem = cls(noise=case == "random streams", norm=case == "BatchNorm statistics")
        if case == "skipped steps":
            problem.data.x[3, 1] = math.nan
        if case == "loss scale":
            problem.loss = lambda outputs, y: 1_000 * cross_entropy_sum(outputs, y)
        return problem

    def run(self, train: Train, config: Config, val=None, run=None, loss=None, **options) -> Returned:
        """Call train(…) on this model and data, with the loop's default loss unless `loss` is given.

        options: other arguments of train, peak_flops for one.
        """
        loss = loss or self.loss
        if loss:
            options["loss"] = loss
        return Returned(train(self.model, self.data, val, config, run=run, **options))

    def ids(self, x: Tensor) -> Tensor:
        """The ids (B,) of inputs x; those of validation data are -1, -2, …"""
        if self.tokens:
            return torch.where(x[:, 0] < EXAMPLES, x[:, 0], EXAMPLES - 1 - x[:, 0])
        return (x[:, 0].double() * 64).round().long()

    def targets(self, x: Tensor) -> Tensor:
        return self.data.y[self.ids(x)]

    def gradient(self, weights: list[Tensor], x: Tensor) -> list[Tensor]:
        """The gradient of the mean loss over all targets of x, at `weights`, computed in one batch."""
        weights = [w.clone().requires_grad_() for w in weights]
        y = self.targets(x)
        return list(
            torch.autograd.grad(self._loss_sum(weights, x, y, self.initial_model) / y.ne(IGNORE).sum(), weights)
        )

    def mean_loss(self, weights: list[Tensor], x: Tensor, y: Tensor, buffers: dict[str, Tensor] | None = None) -> float:
        """The mean loss over all targets, in one batch, in float64 and eval mode; with these buffers, or the first ones."""
        model = copy.deepcopy(self.initial_model)
        model.load_state_dict(buffers or {}, strict=False)
        model.double().eval()
        x = x.double() if x.is_floating_point() else x
        with torch.no_grad():
            total = self._loss_sum([w.double() for w in weights], x, y, model)
        return (total / y.ne(IGNORE).sum()).item()

    def accuracy(self, weights: list[Tensor], x: Tensor, y: Tensor) -> float:
        """The share of the targets that the model predicts correctly at `weights`."""
        with torch.no_grad():
            right = self._outputs(weights, x, self.initial_model).argmax(-1).eq(y)
        return (right.sum() / y.ne(IGNORE).sum()).item()

    def _loss_sum(self, weights, x, y, model) -> Tensor:
        return F.cross_entropy(self._outputs(weights, x, model).flatten(0, -2), y.flatten(), reduction="sum")

    @staticmethod
    def _outputs(weights, x, model) -> Tensor:
        names = [name for name, _ in model.named_parameters()]
        return torch.func.functional_call(model, dict(zip(names, weights, strict=True)), (x,))


def _points(sign: int, dtype, draws: bool) -> Dataset:
    ids = torch.arange(EXAMPLES) if sign > 0 else -1 - torch.arange(EXAMPLES)
    y = torch.arange(EXAMPLES) * 7 % CLASSES
    x = torch.cat([ids[:, None] / 64, F.one_hot(y, CLASSES) + 0.5 * torch.randn(EXAMPLES, CLASSES)], dim=1)
    return _Drawing(x, y) if draws else TensorData(x.to(dtype), y)


def _texts(sign: int, dtype, draws: bool) -> TensorData:
    """Texts of 8 tokens. The first token is the example's id; 1 to 7 of the 8 targets count."""
    x = torch.randint(2 * EXAMPLES + 1, (EXAMPLES, 8))
    x[:, 0] = torch.arange(EXAMPLES) + (0 if sign > 0 else EXAMPLES)
    y = torch.randint(CLASSES, (EXAMPLES, 8))
    lengths = 1 + torch.arange(EXAMPLES) * 5 % 7
    return TensorData(x, y.masked_fill(torch.arange(8) >= lengths[:, None], IGNORE))


class _Drawing(Dataset):
    """Examples with three random inputs, drawn at each access from torch's, NumPy's and Python's global streams."""

    def __init__(self, x: Tensor, y: Tensor):
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, i: int):
        draws = torch.rand(()).item(), np.random.rand(), random.random()  # noqa: NPY002  (the global stream)
        return torch.cat([self.x[i, :1], torch.tensor(draws) + self.y[i]]), self.y[i]


class _Model(nn.Sequential):
    """Hooks go with a copy in memory, and are left out of a file: those of the recording cannot be pickled."""

    def __deepcopy__(self, memo: dict) -> "_Model":
        copied = _Model()
        copied.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return copied

    def __getstate__(self) -> dict:
        return self.__dict__ | {name: type(hooks)() for name, hooks in self.__dict__.items() if name.endswith("_hooks")}


class _Noise(nn.Module):
    """In train mode: adds noise from all three global streams."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        return x + 0.1 * (torch.rand_like(x) + np.random.rand() + random.random())  # noqa: NPY002


# ---- the recording ---------------------------------------------------------------------------------------------------


@dataclass
class Step:
    """What the optimizers were given at one step, and the forward passes that led to it."""

    x: Tensor  # the inputs of all forward passes of the step, concatenated
    sizes: list[int]  # the number of examples in each forward pass
    in_train_mode: bool  # whether every module was in train mode in every forward pass
    weights: list[Tensor]  # before the first forward pass of the step
    gradients: list[Tensor | None]  # of each parameter; None: it has none, or no optimizer holds it
    rates: list[float]  # the learning rate of each group of parameters
    settings: list[dict]  # of each group of parameters, as its optimizer has them

    @property
    def finite(self) -> bool:
        return all_finite(self.gradients)


@dataclass
class Validation:
    """The forward passes on validation data with no training step between them."""

    steps: int  # made before it
    weights: list[Tensor]  # of the model that was validated: the one that is trained, or an average of it
    buffers: dict[str, Tensor]  # of the same
    buffers_in_training: dict[str, Tensor]  # of the one that is trained
    ids: list[int] = field(default_factory=list)  # of the examples, from 0
    graphs: list[bool] = field(default_factory=list)  # of each forward pass: whether its outputs had a graph


@dataclass
class Recording:
    """What went through the model and into the optimizers during a run, in order."""

    steps: list[Step] = field(default_factory=list)
    validations: list[Validation] = field(default_factory=list)
    in_16_bits: bool = False  # whether a model's outputs were bfloat16 or float16
    # The forward passes since the last step: (inputs, whether in train mode, weights before it).
    forwards: list[tuple[Tensor, bool, list[Tensor]]] = field(default_factory=list)
    passes: int = 0  # the forward passes of all steps, those that were skipped among them
    spoiled: int = 0  # how many of these there were when a gradient was last seen not to be finite
    result: Returned | None = None

    def tolerance(self, in_float32: float) -> float:
        """The relative error that rounding explains: of bfloat16, where the loop computes in it unasked."""
        return 0.05 if self.in_16_bits else in_float32

    @property
    def last_validation(self) -> Validation:
        if not self.validations:
            raise NotJudged("no validation data went through the model")
        return self.validations[-1]


def record_run(train: Train, problem: ToyProblem, config: Config, **arguments) -> Recording:
    """Run the loop on the problem and record what it does.

    A step is what the optimizers do between two forward passes: one optimizer, or several with parameters of their own,
    called after backward, within it, or with a closure. The ids in the inputs tell a training pass from a validation
    pass. The mode cannot: it may be the bug.
    """
    recording = Recording()
    parameters = list(problem.model.parameters())
    names_of_buffers = [name for name, _ in problem.model.named_buffers()]
    weights_before: list[list[Tensor]] = []
    stepped: set[int] = set()  # the parameters that the newest step has moved

    def before_forward(module, inputs):
        weights_before[:] = [clones(parameters)]

    def on_forward(module, inputs, outputs):  # also called for the EMA: a copy of the model, hooks included
        x = inputs[0].detach().clone()
        ids = problem.ids(x)
        recording.in_16_bits |= outputs.dtype in (torch.bfloat16, torch.float16)
        if bool((ids < 0).any()):
            record_validation(module, (-1 - ids).tolist(), outputs.requires_grad)
        elif torch.is_grad_enabled():  # a forward pass without gradients is preflight, not training
            recording.passes += 1
            recording.forwards.append((x, all(m.training for m in module.modules()), weights_before.pop()))

    def record_validation(module, ids, has_graph):
        if not recording.validations or recording.validations[-1].steps != len(recording.steps):
            buffers, trained = (
                dict(zip(names_of_buffers, clones(m.buffers()), strict=True)) for m in (module, problem.model)
            )
            recording.validations.append(
                Validation(len(recording.steps), clones(module.parameters()), buffers, trained)
            )
        recording.validations[-1].ids.extend(ids)
        recording.validations[-1].graphs.append(has_graph)

    def after_backward(parameter):
        if not all_finite([parameter.grad]):
            recording.spoiled = len(recording.forwards)

    def before_step(optimizer, args, kwargs):
        if not _has_closure(args, kwargs):
            record_step(optimizer)

    def after_step(optimizer, args, kwargs):  # with a closure, forward and backward are a part of the step
        if _has_closure(args, kwargs):
            if isinstance(optimizer, torch.optim.LBFGS):
                raise NotJudged("LBFGS makes several forward passes in a step")
            record_step(optimizer)

    def record_step(optimizer):
        in_optimizer = {id(p) for group in optimizer.param_groups for p in group["params"]}
        held = [id(p) in in_optimizer for p in parameters]
        if not any(held):
            return  # the optimizer of another model
        gradients = [
            p.grad.detach().clone() if own and p.grad is not None else None
            for p, own in zip(parameters, held, strict=True)
        ]
        rates = [float(group["lr"]) for group in optimizer.param_groups]
        settings = [
            {name: value for name, value in group.items() if name != "params"} for group in optimizer.param_groups
        ]
        if recording.forwards:
            if all_finite(gradients) and recording.spoiled < len(recording.forwards):
                del recording.forwards[: recording.spoiled]  # of a step that was skipped by not calling the optimizer
            x, modes, weights = zip(*recording.forwards, strict=True)
            ids = problem.ids(torch.cat(x))
            if len(ids.unique()) < len(ids) and not all(map(torch.equal, weights[0], weights[-1])):
                raise NotJudged("the loop makes several forward passes of a batch in a step, with other weights")
            recording.forwards.clear()
            recording.spoiled = 0
            stepped.clear()
            recording.steps.append(
                Step(torch.cat(x), [len(part) for part in x], all(modes), weights[0], gradients, rates, settings)
            )
        elif any(gradient is not None for gradient in gradients):  # without gradients a step moves nothing
            again = not recording.steps or stepped & in_optimizer
            assert not again, (
                f"step {len(recording.steps) + 1} was made without a forward pass of its own: "
                "call optimizer.step() once for each"
            )
            step = recording.steps[-1]
            step.gradients = [a if b is None else b for a, b in zip(step.gradients, gradients, strict=True)]
            step.rates += rates
            step.settings += settings
        stepped.update(in_optimizer)

    handles = [
        problem.model.register_forward_pre_hook(before_forward),
        problem.model.register_forward_hook(on_forward),
        *(p.register_post_accumulate_grad_hook(after_backward) for p in parameters if p.requires_grad),
        register_optimizer_step_pre_hook(before_step),
        register_optimizer_step_post_hook(after_step),
    ]
    try:
        recording.result = problem.run(train, config, **arguments)
    finally:
        for handle in handles:
            handle.remove()
    if not recording.steps and not all(map(torch.equal, parameters, problem.initial_model.parameters())):
        raise NotJudged(
            "the loop moves the weights without an optimizer of torch.optim, whose steps the detectors read"
        )
    assert recording.steps, (
        "the loop never stepped an optimizer over the model's parameters: make one of model.parameters(), and call "
        "optimizer.step()"
    )
    return recording


class _Killed(BaseException):
    """In place of the end of the process: no `except Exception` stops it."""


def run_until_killed(train: Train, problem: ToyProblem, config: Config, step: int, **arguments) -> None:
    """Run until the forward pass of training step `step`, in which the run ends."""
    calls = []

    def kill(module, inputs):
        if torch.is_grad_enabled() and bool((problem.ids(inputs[0]) >= 0).all()):
            calls.append(None)
            if len(calls) == step:
                raise _Killed

    handle = problem.model.register_forward_pre_hook(kill)
    with contextlib.suppress(_Killed):
        problem.run(train, config, **arguments)
    handle.remove()


def _has_closure(args: tuple, kwargs: dict) -> bool:
    return kwargs.get("closure", args[1] if len(args) > 1 else None) is not None


# ---- helpers ---------------------------------------------------------------------------------------------------------


def plain_config(**changes) -> Config:
    plain = {"steps": 2 * EPOCH, "batch_size": BATCH, "optimizer": "sgd", "momentum": 0.0, "lr": 0.1, "device": "cpu"}
    return Config(**plain | {"seed": SEED} | changes)


def clones(tensors) -> list[Tensor]:
    return [t.detach().clone() for t in tensors]


def all_finite(tensors: list[Tensor | None]) -> bool:
    """Written again, not that of utils.loop.guards: the detectors examine the loop that stands on it."""
    return all(bool(t.isfinite().all()) for t in tensors if t is not None)


def norm_of(tensors: list[Tensor | None]) -> float:
    return math.sqrt(sum(t.double().square().sum().item() for t in tensors if t is not None))
