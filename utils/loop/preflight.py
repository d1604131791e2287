"""What `train` refuses before its first step: a model and data that do not fit together; preflight_loss.py: a loss."""

from dataclasses import asdict, is_dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.data import Dataset

from utils.data.datasets import IGNORE, TensorData
from utils.data.order import Order, first_examples
from utils.device import own_random_streams
from utils.distributed.parallel import warm_up_buckets
from utils.distributed.ranks import Ranks
from utils.loop.config import Config
from utils.loop.guards import Snapshot, eval_mode
from utils.loop.metrics import count_targets
from utils.loop.preflight_loss import Loss, check_loss, tried
from utils.loop.state import State


def check_kinds(model: object, config: object, loss: object, **functions: object) -> None:
    """Raises ValueError unless they are a model whose weights are there, a Config, and functions; these may be None."""
    if not isinstance(model, nn.Module):
        raise ValueError(f"the model is {model!r}: pass an nn.Module, which calling its class makes")
    if not is_dataclass(config) or isinstance(config, type):  # not isinstance: a copy of the module has its own class
        raise ValueError(f"config is {config!r}: pass a Config")
    if not callable(loss):
        raise ValueError(f"the loss is {loss!r}: pass a function of (outputs, targets)")
    for name, function in functions.items():
        if function is not None and (not callable(function) or isinstance(function, torch.optim.Optimizer)):
            raise ValueError(f"{name} is {function!r}: {ADVICE[name]}")
    check_wrapped(model)
    check_values(model)
    sparse = [name for name, module in model.named_modules() if getattr(module, "sparse", False) is True]
    if sparse:
        raise ValueError(
            f"{sparse[0]} of the model has sparse gradients, which cannot be clipped or fused: sparse=False"
        )


ADVICE = {
    "optimizer": "pass a function that makes one, since the model may be moved before:\n"
    "    train(model, data, optimizer=lambda model: torch.optim.RMSprop(model.parameters(), lr=1e-3))",
    "on_log": "pass a function of (record, model)",
}


def check_wrapped(model: nn.Module) -> None:
    """Raises ValueError for a wrapper that puts its own prefix before the name of every weight."""
    if isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
        raise ValueError(
            f"the model is wrapped in {type(model).__name__}, which renames its weights: pass model.module; on several "
            "GPUs start this script by torchrun --standalone --nproc-per-node=n, and train does the rest"
        )
    if hasattr(model, "_orig_mod"):
        raise ValueError(
            "the model is wrapped by torch.compile, which renames its weights: compile it in place, or have it compiled:\n"
            "    model.compile()  # with options of your own, in place of model = torch.compile(model)\n"
            "    train(model, data, config=Config(compile=True))"
        )


def check_values(model: nn.Module) -> None:
    """Raises ValueError for a tensor without values, and for one that is not finite; a mask may hold infinities."""
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if isinstance(tensor, nn.parameter.UninitializedTensorMixin) or tensor.is_meta:
            raise ValueError(
                f"{name} of the model has no values yet: call a lazy model once, move one on meta by to_empty"
            )
    statistics = [b for module in model.modules() if isinstance(module, _BatchNorm) for b in module.buffers()]
    finite = {id(p) for p in model.parameters() if p.requires_grad} | {id(b) for b in statistics}
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if tensor.itemsize > 1 and not (tensor.isfinite() if id(tensor) in finite else ~tensor.isnan()).all():
            raise ValueError(
                f"{name} of the model is not finite to begin with: look at how it was initialised or loaded"
            )


def check_data(state: State, order: Order, train_data: Dataset, val_data: Dataset | None, loss: Loss) -> None:
    """Raises ValueError unless the model, the data and the loss fit together."""
    check_fit(state, train_data, loss, "train_data")
    check_smallest_part(state, train_data, order)
    if val_data is not None:
        check_fit(state, val_data, loss, "val_data")


def warm_up_ddp(state: State, data: Dataset) -> None:
    """One backward before the first step, so that DDP's bucket order is the same after a resume. Leaves no trace."""
    if state.ranks.world == 1:
        return
    before = Snapshot(state.model)
    with state.autocast:
        warm_up_buckets(state.forward, first_examples(data, 2)[0].to(state.device))
    state.optimizer.zero_grad()
    before.restore()


def check_fit(state: State, data: Dataset, loss: Loss, name: str) -> None:
    """Two examples through the model, in eval mode and without a trace: the model, the data and the loss fit together.

    Raises ValueError saying what of `name` does not, with shapes and types.
    """
    if len(data) == 0:
        raise ValueError(f"{name}: the dataset is empty")
    x, y = _pair(tried(lambda: first_examples(data, 2), f"{name} cannot be read"), name)
    what = f"{name}: x {tuple(x.shape)} {x.dtype}, y {tuple(y.shape)} {y.dtype}"
    x, y = x.to(state.device), y.to(state.device)
    with eval_mode(state.model), own_random_streams(), torch.no_grad(), state.autocast:
        outputs = tried(lambda: state.model(x), f"the model does not take the data ({what})")
        if not isinstance(outputs, Tensor):
            raise ValueError(
                f"the model returns a {type(outputs).__name__} ({what}): it must return one tensor{_taken_out(outputs)}"
            )
        check_loss(state, loss, outputs, y, _targets(data, y), what)
    if name == "val_data" and count_targets(_targets(data, y)) == 0 and (len(data) <= 2 or _targets(data, y) is not y):
        raise ValueError(f"val_data: all targets are {IGNORE}, which count nowhere: there is nothing to validate on")


def check_smallest_part(state: State, data: Dataset, order: Order) -> None:
    """BatchNorm cannot train on one example, and a short last batch may hold no more.

    Raises ValueError if that will come up; tried, without a trace, where there is reason to doubt.
    """
    config = state.config
    normed = any(isinstance(module, _BatchNorm) and module.training for module in state.model.modules())
    if not normed or order.smallest_part(config.steps, config.accumulation) > 1:
        return
    x = first_examples(data, 1)[0].to(state.device)
    before = Snapshot(state.model)
    try:
        with own_random_streams(), torch.no_grad(), state.autocast:
            tried(
                lambda: state.model(x),
                "a micro-batch of one example would come up, which BatchNorm cannot train on: set drop_last, or another "
                f"batch_size than {config.batch_size} or accumulation than {config.accumulation}",
            )
    finally:
        before.restore()


def _targets(data: Dataset, first: Tensor) -> Tensor:
    """All targets of a TensorData; the first of any other dataset."""
    return data.y if isinstance(data, TensorData) else first


def check_ranks(ranks: Ranks, config: Config, order: Order, val_data: Dataset | None, run: str | Path | None) -> None:
    """Raises ValueError, on every rank, unless all ranks were asked for the same run."""
    if ranks.world == 1:
        return
    asked = {
        "training examples": order.examples,
        "validation examples": None if val_data is None else len(val_data),
        "run folder": run,
    }
    ranks.require_same("the run", asdict(config) | asked)


def _pair(batch: object, name: str) -> tuple[Tensor, Tensor]:
    if isinstance(batch, tuple | list) and len(batch) == 2 and all(isinstance(part, Tensor) for part in batch):
        return batch[0], batch[1]
    shown, advice = f"a {type(batch).__name__}", ""
    if isinstance(batch, dict):
        shown = f"a dict with {', '.join(map(str, batch))}"
        advice = _collate_of(batch)
    if isinstance(batch, tuple | list):
        shown += f" of {', '.join(type(part).__name__ for part in batch)}"
        advice = COLLATE.format(x="batch[0]", y="batch[1]") if len(batch) > 2 else ""
    raise ValueError(
        f"{name}: an example must be a pair (x, y) of tensors or numbers; two of them came as {shown}{advice}"
    )


COLLATE = """. Say what of them is x and what is y, each one tensor:
    def collate(examples):
        batch = torch.utils.data.default_collate(examples)
        return {x}, {y}
    train(model, data, config=config, collate=collate)"""


def _collate_of(batch: dict) -> str:
    """The lines that make pairs of dicts: y is what is called so, x the first of the others."""
    y = next((name for name in ("labels", "label", "targets", "target", "y") if name in batch), None)
    x = next((name for name in batch if name != y), None)
    return COLLATE.format(x=f"batch[{x!r}]", y=f"batch[{y!r}]")


def _taken_out(outputs: object) -> str:
    """The lines that take the one tensor out of what a model returns."""
    attributes = [name for name, value in getattr(outputs, "__dict__", {}).items() if isinstance(value, Tensor)]
    if hasattr(outputs, "logits") or attributes:
        part = ".logits" if hasattr(outputs, "logits") else f".{attributes[0]}"
    elif isinstance(outputs, dict | tuple | list) and len(outputs):
        part = f"[{next(iter(outputs))!r}]" if isinstance(outputs, dict) else "[0]"
    else:
        return ""
    return f"""; a wrapper takes it out:
    class Wrapped(torch.nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model
        def forward(self, x):
            return self.model(x){part}"""
