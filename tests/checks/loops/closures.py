"""A right loop as generators and closures: batches come without an end, and the optimizer is written by hand."""

import copy
import math
import pickle
from contextlib import contextmanager, nullcontext
from itertools import islice
from pathlib import Path

import torch
from torch.utils.data import default_collate

from utils.checks.any_loop import adapt
from utils.device import rng_state, seed_everything, set_rng_state


def batches(data, size, seed, start):
    """(x, y) from place `start` = (epoch, batch) on, without an end; with each the place after it."""
    epoch, first = start
    while True:
        order = torch.randperm(len(data), generator=torch.Generator().manual_seed(31 * seed + epoch))
        parts = order.split(size)
        for batch, part in islice(enumerate(parts), first, None):
            after = (epoch, batch + 1) if batch + 1 < len(parts) else (epoch + 1, 0)
            yield *default_collate([data[i] for i in part.tolist()]), after
        epoch, first = epoch + 1, 0


def early_stopping(patience):
    """A function that is told each validation loss: (whether it is the best so far, whether to stop)."""
    lowest, waited = math.inf, 0

    def tell(loss):
        nonlocal lowest, waited
        better = loss < lowest
        waited = 0 if better else waited + 1
        if better:
            lowest = loss
        return better, bool(patience) and waited >= patience

    return tell


class ByHand(torch.optim.Optimizer):
    """SGD with momentum."""

    def __init__(self, parameters, lr, momentum):
        super().__init__(parameters, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    velocity = self.state[p].get("velocity", 0) * group["momentum"] + p.grad
                    self.state[p]["velocity"] = velocity
                    p -= group["lr"] * velocity


@adapt
def loop(
    *, model, data, val, run, loss, steps, batch_size, accumulation, seed, lr, momentum, schedule, ema, val_every,
    save_every, patience,
):  # fmt: skip
    optimizer, number, place, records = ByHand(model.parameters(), lr, momentum), 0, (0, 0), []
    shadow = {name: p.detach().clone() for name, p in model.named_parameters()}
    best, best_weights, tell = None, None, early_stopping(patience)
    losses = []

    def rate(n):
        return lr * (0.5 + 0.5 * math.cos(math.pi * n / steps)) if schedule == "cosine" else lr

    def mean(x, y):
        """The mean loss over the targets, and their number."""
        return loss(model(x), y), (y != -100).sum().item()

    def gradient(x, y):
        optimizer.zero_grad(set_to_none=True)
        whole = (y != -100).sum().item()
        for xs, ys in zip(torch.tensor_split(x, accumulation), torch.tensor_split(y, accumulation), strict=True):
            if ys.numel():
                value, part = mean(xs, ys)
                torch.autograd.backward(value * part / whole)

    def update():
        for group in optimizer.param_groups:
            group["lr"] = rate(number)
        optimizer.step()
        for name, p in model.named_parameters():
            shadow[name].lerp_(p.detach(), 1 - ema)

    def exchange():
        for name, p in model.named_parameters():
            p.data, shadow[name] = shadow[name], p.data

    @contextmanager
    def averaged():
        exchange()
        yield
        exchange()

    @torch.no_grad()
    def validation():
        model.eval()
        parts = torch.arange(len(val)).split(6)
        with averaged() if ema else nullcontext():
            pairs = [mean(*default_collate([val[i] for i in part.tolist()])) for part in parts]
        model.train()
        return sum(value.item() * n for value, n in pairs) / sum(n for _, n in pairs)

    seed_everything(seed)
    saved = Path(run, "state.pkl") if run else None
    if saved and saved.exists():
        state = pickle.loads(saved.read_bytes())
        number, place, shadow, losses = state["number"], state["place"], state["shadow"], state["losses"]
        best, best_weights = state["best"]
        model.load_state_dict(state["weights"])
        optimizer.load_state_dict(state["optimizer"])
        set_rng_state(state["random"])
        for earlier in losses:
            tell(earlier)
    for x, y, after in batches(data, batch_size, seed, place):
        gradient(x, y)
        update()
        number, place, stop = number + 1, after, False
        if val is not None and number % (val_every or steps) == 0:
            losses.append(validation())
            records.append({"step": number, "val_loss": losses[-1]})
            better, stop = tell(losses[-1])
            if better:
                best, best_weights = losses[-1], copy.deepcopy(model.state_dict())
        if saved and number % save_every == 0:
            state = {"number": number, "place": place, "shadow": shadow, "losses": losses}
            state |= {"best": (best, best_weights)}
            state |= {"weights": model.state_dict(), "optimizer": optimizer.state_dict(), "random": rng_state()}
            saved.parent.mkdir(parents=True, exist_ok=True)
            saved.write_bytes(pickle.dumps(state))
        if stop or number == steps:
            break
    return {"history": records, "best": best, "best_weights": best_weights}
