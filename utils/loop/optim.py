"""How weights change: the optimizer, by config or of the caller's own, and the learning rate schedule."""

import io
import math
from collections.abc import Callable, Sequence
from inspect import signature
from types import MethodType

import torch
from torch import Tensor, nn

from utils.distributed.parallel import sgd_class, to_local
from utils.loop.config import Config

HALF = {torch.float16: "fp16", torch.bfloat16: "bf16"}  # and the precision that computes in it


def make_optimizer(model: nn.Module, config: Config) -> torch.optim.Optimizer:
    """AdamW or SGD over the trainable parameters, fused where that is right; weight decay on matrices only.

    Its step is left out while its `found_inf` is set, as the Guard does.

    Raises ValueError if no parameter is trainable, or if one cannot be trained in place.
    """
    trained = [p for p in model.parameters() if p.requires_grad]
    if not trained:
        raise ValueError(
            "the model has no parameter that trains: free all by model.requires_grad_(True), or some of its modules so"
        )
    for dtype, precision in HALF.items():
        if any(p.dtype == dtype for p in trained):
            raise ValueError(
                f"the model has {str(dtype).removeprefix('torch.')} parameters, which small updates do not survive: keep "
                f"them in float32 and set precision={precision!r}"
            )
    require_own_memory(model)
    if config.weight_decay:
        matrices = [p for p in trained if p.ndim >= 2]
        others = [p for p in trained if p.ndim < 2]
        groups = [{"params": matrices, "weight_decay": config.weight_decay}, {"params": others, "weight_decay": 0.0}]
        groups = [group for group in groups if group["params"]]
    else:
        groups = [{"params": trained, "weight_decay": 0.0}]
    fused = all(map(takes_fused_step, trained)) or None  # None: torch chooses among the others
    if config.optimizer == "adamw":
        optimizer = torch.optim.AdamW(groups, lr=config.lr, betas=(config.beta1, config.beta2), fused=fused)
    else:
        optimizer = sgd_class(trained)(groups, lr=config.lr, momentum=config.momentum, fused=fused)
        if config.momentum:
            for p in trained:  # a blocked first step leaves fused SGD's buffers unset; zeros give the same bits
                optimizer.state[p]["momentum_buffer"] = torch.zeros_like(p)
    if not fused:
        leave_out_blocked_steps(optimizer)
    return optimizer


def takes_fused_step(parameter: Tensor) -> bool:
    """Whether torch's fused kernels are right for it: they take real numbers, and walk memory from end to end.

    A slice of a larger tensor has gaps, in which they write, and would take its neighbours' numbers for its own.
    """
    (local,) = to_local([parameter])
    return local.is_floating_point() and fills_its_memory(local)


def fills_its_memory(tensor: Tensor) -> bool:
    """Whether its entries lie side by side in some order of its axes: no gaps, and none of them twice."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1 and stride != expected:
            return tensor.numel() == 0
        expected *= size
    return True


def require_own_memory(model: nn.Module) -> None:
    """Raises ValueError for a parameter of which two entries are one number in memory: no step can move them apart."""
    for name, parameter in model.named_parameters():
        (local,) = to_local([parameter])
        if not parameter.requires_grad or fills_its_memory(local):
            continue
        places = torch.zeros((), dtype=torch.int64)
        for stride, size in zip(local.stride(), local.shape, strict=True):
            places = places[..., None] + stride * torch.arange(size)
        if len(places.unique()) < local.numel():
            raise ValueError(
                f"{name} of the model is a tensor by `expand`, of which several entries are one number in memory: give each "
                "its own:\n"
                "    parameter = torch.nn.Parameter(tensor.clone(memory_format=torch.contiguous_format))"
            )


def require_numbers_that_last(trained: list[Tensor], config: Config) -> None:
    """Raises ValueError for parameters whose average, or whose scaled gradients, their type cannot hold."""
    if config.ema and any(p.dtype in HALF for p in trained):
        raise ValueError(
            f"ema is {config.ema!r}, and the model has parameters of 16 bits, in which small steps of an average are lost: "
            "keep them in float32"
        )
    if config.precision == "fp16" and any(p.is_complex() for p in trained):
        raise ValueError(
            "precision is 'fp16', whose scaler cannot unscale the gradients of the model's complex parameters: choose fp32"
        )


def lr_factor(config: Config, step: int, factors: Sequence[float] | None = None) -> float:
    """The learning rate of `step` (from 0) as a fraction of the peak: linear warm-up, then as config.schedule says.

    factors: of each step, where the caller has a schedule of their own. Constant after its end, where torch's
    CosineAnnealingLR would rise again.
    """
    if factors is not None:
        return factors[min(step, len(factors) - 1)]
    warmup = config.warmup_steps
    if step < warmup:
        return (step + 1) / warmup
    if config.schedule == "constant":
        return 1.0
    done = min(1.0, (step - warmup) / (config.steps - warmup))
    if config.schedule == "linear":
        return config.final_lr + (1 - config.final_lr) * (1 - done)
    return config.final_lr + (1 - config.final_lr) * (1 + math.cos(math.pi * done)) / 2


class Rates:
    """The rate of each group of an optimizer: its own at first, times the factor of the step.

    This is torch's LambdaLR, with its names, but for what that asks at every step of how it is used, which takes several
    times as long as setting the rates.

    base_lrs: the rates at first. last_epoch: the step, from 0, whose rates are set.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, factor: Callable[[int], float]):
        self.optimizer, self.factor = optimizer, factor
        for group in optimizer.param_groups:  # a rate may be a tensor, which is written to below
            group.setdefault("initial_lr", group["lr"] + 0)
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = -1
        self.step()

    def step(self) -> None:
        self.last_epoch += 1
        factor = self.factor(self.last_epoch)
        for group, base in zip(self.optimizer.param_groups, self.base_lrs, strict=True):
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(base * factor)
            else:
                group["lr"] = base * factor

    def state_dict(self) -> dict:
        return {"base_lrs": self.base_lrs, "last_epoch": self.last_epoch}

    def load_state_dict(self, saved: dict) -> None:
        """saved: a state_dict, also one of LambdaLR, which older run folders hold."""
        self.base_lrs, self.last_epoch = saved["base_lrs"], saved["last_epoch"]


# ---- an optimizer of the caller's own --------------------------------------------------------------------------------

CLOSURE = (
    "the optimizer's step wants a closure, to take gradients as often as it likes, and this loop takes them once a step: "
    "choose one that needs no closure, AdamW say, or write the loop by hand as lecture 09 does"
)
SETTINGS = ("lr", "weight_decay", "momentum")  # fields of Config that an optimizer's groups may have


def optimizer_from(
    factory: Callable[[nn.Module], torch.optim.Optimizer], model: nn.Module, config: Config
) -> torch.optim.Optimizer:
    """The optimizer factory(model), whose step is left out while its `found_inf` is set, as the Guard does.

    Its groups decide about rates and weight decay; the schedule scales each group's rate.

    Raises ValueError unless it is an optimizer over exactly the parameters of `model` that train, and if `config` has a
    setting that no group has.
    """
    try:
        optimizer = factory(model)
    except TypeError as error:
        if call := call_with_parameters(factory):
            raise ValueError(
                f"the optimizer is called with the model, not with parameters: pass optimizer=lambda model: {call}"
            ) from error
        raise
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise ValueError(
            f"the function that makes the optimizer has returned {optimizer!r}: it must return a torch.optim.Optimizer (is "
            "its return missing?)"
        )
    in_groups = {id(p) for group in optimizer.param_groups for p in group["params"]}
    left_out = [name for name, p in model.named_parameters() if p.requires_grad and id(p) not in in_groups]
    if left_out:
        raise ValueError(
            f"{left_out[0]} of the model is in no group of the optimizer: add it, or freeze it by requires_grad_(False)"
        )
    foreign = in_groups - {id(p) for p in model.parameters()}
    if foreign:
        raise ValueError(
            f"{len(foreign)} of the optimizer's {len(in_groups)} parameters are not the model's: the function must take the "
            "model that it is called with, which may be a copy"
        )
    for name in SETTINGS:
        wanted = getattr(config, name)
        if wanted != getattr(Config, name) and not any(group.get(name) == wanted for group in optimizer.param_groups):
            raise ValueError(f"{name} is {wanted!r} in the config, but in no group of the optimizer: set it there")
    _, *arguments = signature(type(optimizer).step).parameters.values()  # of the class: an earlier run has wrapped it
    required = [each for each in arguments if each.default is each.empty]
    if any(each.kind is each.POSITIONAL_OR_KEYWORD for each in required) or hasattr(optimizer, "second_step"):
        raise ValueError(CLOSURE)
    require_plain(optimizer)
    require_own_memory(model)
    for group in optimizer.param_groups:
        if group.get("fused") and not all(map(takes_fused_step, group["params"])):
            raise ValueError(
                "the optimizer is fused, and a parameter of the model is a slice of a larger tensor: a fused step walks "
                "through memory and overwrites its neighbours. Make the optimizer with fused=False"
            )
    # A fused optimizer reads found_inf on the device and leaves a blocked step out; SGD's first step leaves a trace.
    # There is no public way to ask whether it does: "fused" may be a setting of an optimizer that does not know found_inf.
    if isinstance(optimizer, torch.optim.SGD) or not getattr(optimizer, "_step_supports_amp_scaling", False):
        leave_out_blocked_steps(optimizer)
    return optimizer


def call_with_parameters(factory: Callable) -> str | None:
    """How the class of an optimizer, or a partial of it, is called; None for any other function."""
    kind = getattr(factory, "func", factory)
    if not (isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)):
        return None
    name = f"torch.optim.{kind.__name__}" if kind.__module__.startswith("torch.optim.") else kind.__name__
    settings = "".join(f", {name}={value!r}" for name, value in getattr(factory, "keywords", {}).items())
    return f"{name}(model.parameters(){settings})"


def leave_out_blocked_steps(optimizer: torch.optim.Optimizer) -> None:
    """Have the host read `found_inf` before each step, for an optimizer that does not know it: it waits for the device.

    Once: the function that makes the optimizer may return the one of an earlier run.
    """
    if hasattr(optimizer, "leaves_out_blocked_steps"):
        return
    optimizer.leaves_out_blocked_steps = True
    step = optimizer.step

    def step_unless_blocked(optimizer: torch.optim.Optimizer) -> None:
        blocked = getattr(optimizer, "found_inf", None)
        optimizer.found_inf = None  # some refuse to see it
        if blocked is None or not blocked:
            try:
                step()
            except Exception as error:
                if "closure" in str(error) or "'NoneType' object is not callable" in str(error):
                    raise ValueError(CLOSURE) from error
                raise

    optimizer.step = MethodType(step_unless_blocked, optimizer)


def unsaved_tensors(optimizer: torch.optim.Optimizer) -> list[str]:
    """The names of its attributes that hold tensors which state_dict() lacks: a resumed run would lose them.

    Not those that hold parameters only.
    """
    parameters = {p.data_ptr() for group in optimizer.param_groups for p in group["params"]}
    saved = tensors_in(optimizer.state_dict())
    others = vars(optimizer).keys() - {"state", "param_groups", "defaults", "found_inf"}
    return sorted(
        name
        for name in others
        for tensor in tensors_in(getattr(optimizer, name))
        if tensor.data_ptr() not in parameters
        and not any(tensor.shape == each.shape and torch.equal(tensor, each) for each in saved)
    )


def tensors_in(value: object) -> list[Tensor]:
    """The tensors in nested containers, and in the state of optimizers in them."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, torch.optim.Optimizer):
        value = value.state
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple | set) else ()
    return [tensor for part in parts for tensor in tensors_in(part)]


def require_all_saved(optimizer: torch.optim.Optimizer) -> None:
    """Raises ValueError if a checkpoint would lack a tensor of the optimizer."""
    if names := unsaved_tensors(optimizer):
        raise ValueError(
            f"the optimizer keeps tensors in {names[0]}, which its state_dict() lacks: a resumed run would lose them. Keep "
            "them in its state, self.state[parameter][name], or train without run="
        )


def has_modes(optimizer: torch.optim.Optimizer) -> bool:
    """Whether it trains at other weights than are to be evaluated and saved, as a schedule-free one does."""
    return callable(getattr(optimizer, "train", None)) and callable(getattr(optimizer, "eval", None))


def require_plain(optimizer: torch.optim.Optimizer) -> None:
    """Raises ValueError for a setting that a checkpoint could not give back: it loads without running code."""
    for group in optimizer.state_dict()["param_groups"]:
        for name, value in group.items():
            file = io.BytesIO()
            try:
                torch.save(value, file)
                file.seek(0)
                torch.load(file, weights_only=True)
            except Exception as error:  # pickle and its readers raise many kinds
                raise ValueError(
                    f"{name} of the optimizer is {value!r}, a {type(value).__name__}, which no checkpoint can hold: pass a "
                    "plain number or string, float(lr) in place of one of NumPy's, say"
                ) from error
