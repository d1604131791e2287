"""Detectors of silent bugs in the parts of a training program: models, optimizers, losses, data sets, checkpoints.

Each detector takes the object that it examines and raises AssertionError with the values it saw. It does not change that
object: models are copied before anything is trained or changed. The detectors of a whole training loop are in loop/.
"""

import copy
import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

Loss = Callable[[Tensor, Tensor], Tensor]  # (outputs, targets) → a 0-dim tensor

# Models. x (B, ...): a batch of inputs, y (B, ...) its targets, loss(outputs, targets) → a 0-dim tensor.


def every_parameter_gets_gradient(model: nn.Module, x: Tensor, y: Tensor, loss: Loss) -> None:
    """Every parameter that requires a gradient gets one that is not all zeros.

    Catches `.detach()`, `.data`, `.item()` or a rebuilt tensor in forward, and reentrant checkpointing of a block whose
    input needs no gradient. The loss cannot tell: the layers after the cut still learn. Blind to a gradient that is
    merely wrong (see gradients_match_differences). Embedding rows that x does not use pass; a ReLU layer that is dead for
    all of x looks like a cut.
    """
    model = copy.deepcopy(model)
    loss(model(x), y).backward()
    trained = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    without = [name for name, p in trained if p.grad is None or not p.grad.any()]
    assert not without, f"{len(without)} of {len(trained)} parameters get no gradient: {', '.join(without)}"


def gradients_match_differences(model: nn.Module, x: Tensor, y: Tensor, loss: Loss, tolerance: float = 1e-5) -> None:
    """backward() agrees with (loss(w + h·d) - loss(w - h·d)) / 2h along one random direction d, in float64.

    Catches weights edited through `.data` between forward and backward, which autograd cannot see, and a wrong
    custom backward. The direction is random because along the gradient itself errors in small entries would vanish. The
    model must be deterministic in eval mode. Blind only at kinks (ReLU at 0).
    """
    model = copy.deepcopy(model).double().eval()
    x = x.double() if x.is_floating_point() else x
    y = y.double() if y.is_floating_point() else y
    trained = [p for p in model.parameters() if p.requires_grad]
    start = [p.detach().clone() for p in trained]
    generator = torch.Generator().manual_seed(0)
    direction = [torch.randn(p.shape, generator=generator, dtype=torch.float64).to(p.device) for p in start]

    def loss_at(h: float) -> Tensor:
        for p, w, d in zip(trained, start, direction, strict=True):
            p.data.copy_(w + h * d)  # overwrite any change that the previous forward pass made
        return loss(model(x), y)

    gradients = torch.autograd.grad(loss_at(0.0), trained, allow_unused=True)
    slope = sum((g * d).sum().item() for g, d in zip(gradients, direction, strict=True) if g is not None)
    difference = (loss_at(1e-5) - loss_at(-1e-5)).item() / 2e-5
    error = abs(slope - difference) / max(abs(difference), 1e-6)
    assert error < tolerance, f"along this direction backward gives {slope:.6g}, differences give {difference:.6g}"


def examples_do_not_mix(model: nn.Module, x: Tensor) -> None:
    """In eval mode the output for x[0] does not depend on x[1:].

    Catches softmax over the batch axis, a view or reshape that mixes rows, statistics over the batch. Eval mode, because in
    train mode BatchNorm mixes examples by design. The outputs for x[0] are compared, not the loss, which moves anyway.
    """
    if len(x) < 2:
        raise ValueError(f"x has {len(x)} example: pass two or more, else there is none to mix with")
    model = copy.deepcopy(model).eval()
    other = torch.cat([x[:1], _changed(x)[1:]])
    with torch.no_grad():
        moved = (model(x)[0] - model(other)[0]).abs().max().item()
    assert moved < 1e-5, f"the output for example 0 moves by {moved:.3g} when the other examples change"


def future_does_not_leak(model: nn.Module, tokens: Tensor) -> None:
    """Output t does not depend on tokens after t, for every t: tokens (B, T) → outputs (B, T, ...).

    Catches a missing or shifted causal mask, targets among the inputs, a normalisation over time. The loss cannot tell:
    it gets better. Blind to a leak from position t itself into its own target (the inputs not shifted against the
    targets): that is the data's bug, not the model's.
    """
    model = copy.deepcopy(model).eval()
    with torch.no_grad():
        outputs = model(tokens)
        for t in range(tokens.shape[1] - 1):
            other = torch.cat([tokens[:, : t + 1], _changed(tokens)[:, t + 1 :]], dim=1)
            moved = (outputs[:, : t + 1] - model(other)[:, : t + 1]).abs().max().item()
            assert moved < 1e-5, f"outputs up to position {t} move by {moved:.3g} when tokens after it change"


def eval_is_deterministic(model: nn.Module, x: Tensor) -> None:
    """In eval mode the same x gives the same output twice, bit for bit.

    Catches F.dropout or scaled_dot_product_attention(dropout_p=…) called without regard to self.training. Blind at
    dropout 0, and to whether BatchNorm's statistics are frozen (see validates_in_eval_mode in loop/validation.py).
    """
    model = copy.deepcopy(model).eval()
    with torch.no_grad():
        first, second = model(x), model(x)
    differing = int((first != second).sum())
    assert differing == 0, f"{differing} of {first.numel()} outputs differ between two calls in eval mode"


def outputs_are_logits(model: nn.Module, x: Tensor) -> None:
    """The outputs (..., K) are logits, not probabilities: cross_entropy applies the softmax itself.

    Catches a softmax as the model's last layer: the loss falls slowly and stops above 0. Blind to log_softmax, which is
    harmless: applied twice it gives the same as applied once.
    """
    with torch.no_grad():
        outputs = copy.deepcopy(model).eval()(x).float()
    sums = outputs.sum(-1)
    probabilities = bool((outputs >= 0).all()) and torch.allclose(sums, torch.ones_like(sums), atol=1e-3)
    assert not probabilities, (
        f"outputs are in [0, 1] and sum to {sums.mean().item():.4f}: a softmax before cross_entropy"
    )


def weights_are_tied(model: nn.Module, one: str, other: str) -> None:
    """The parameters named `one` and `other` are the same object, so one step moves both.

    Catches a tie that copies values, and one that load_state_dict(assign=True) breaks. Equal values or equal outputs prove
    nothing before the next step.
    """
    parameters = dict(model.named_parameters(remove_duplicate=False))
    a, b = parameters[one], parameters[other]
    assert a is b, f"{one} and {other} are two tensors (equal at the moment: {torch.equal(a, b)})"


# Optimizers and schedulers.


def optimizer_holds_parameters(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """The optimizer holds exactly the model's trainable parameters: the same objects, not copies.

    Catches parameters replaced or added after the optimizer was built (`layer.weight = nn.Parameter(…)`, a new head,
    load_state_dict(assign=True), .to("meta")). Equal values prove nothing: the orphan was a copy. Passes after
    .half() and .to(device), which keep the objects.
    """
    names = {id(p): name for name, p in model.named_parameters() if p.requires_grad}
    in_optimizer = {id(p) for group in optimizer.param_groups for p in group["params"]}
    missing = [name for key, name in names.items() if key not in in_optimizer]
    frozen = {id(p) for p in model.parameters() if not p.requires_grad}
    orphans = len(in_optimizer - set(names) - frozen)
    assert not missing and not orphans, (
        f"not in the optimizer: {missing}; in it, but not in the model: {orphans} tensors"
    )


def stale_graph_raises(make_optimizer: Callable[[list[nn.Parameter]], torch.optim.Optimizer]) -> None:
    """After backward and step, a second backward through the same graph raises, since the weights have changed.

    Catches optimizers whose step autograd does not notice (torch's with fused=True, measured in 2.11 and 2.13): with them
    a graph used after a step silently gives wrong gradients. A loop with such an optimizer must not use a graph twice;
    gradients_are_fresh in loop/gradients.py detects it. The graph is w·w, because an operation that saves no tensor (a
    sum) has nothing that could be stale.
    """
    w = nn.Parameter(torch.tensor([2.0]))
    optimizer = make_optimizer([w])
    total = (w * w).sum()
    total.backward(retain_graph=True)
    optimizer.step()
    optimizer.zero_grad()
    try:
        total.backward()
    except RuntimeError:
        return
    raise AssertionError(f"backward through w² at w = 2, after a step, gives {w.grad.item():.4g} and no error; it is 4")


def small_updates_arrive(make_optimizer: Callable[[list[nn.Parameter]], torch.optim.Optimizer], dtype) -> None:
    """A weight of 1.0 stored as `dtype` moves under an update of 0.001, and one step from tiny gradients stays finite.

    Catches weights kept in bfloat16 (1 - 0.001 rounds back to 1, for any number of steps) and in float16 under Adam (its
    eps of 1e-8 is 0 there: 0/0). make_optimizer must use a learning rate of 0.001. Gradients are 1, 1e-3 and 0: with 1
    alone float16 passes, and a rate of 2^-8 or more moves even bfloat16.
    """
    w = nn.Parameter(torch.ones(3, dtype=dtype))
    w.grad = torch.tensor([1.0, 1e-3, 0.0], dtype=dtype)
    make_optimizer([w]).step()
    after = w.detach().float().tolist()
    assert all(map(math.isfinite, after)), f"one step from gradients (1, 0.001, 0) leaves {after}"
    assert after[0] < 1, f"an update of 0.001 leaves a weight of 1 at {after[0]} in {dtype}"


def decay_is_decoupled(make_optimizer: Callable[[list[nn.Parameter]], torch.optim.Optimizer]) -> None:
    """With zero gradients every weight shrinks by the same share in one step (in decoupled decay: lr · weight_decay).

    Catches Adam(weight_decay=…) where AdamW was meant: Adam divides the decay by the root of the second moment, so every
    weight shrinks by the same amount, lr. Weights of two sizes, 1 and 5, show the difference; one size could not. Blind for
    SGD, where the two are the same.
    """
    w = nn.Parameter(torch.tensor([1.0, 5.0], dtype=torch.float64))  # float32 would round a share of 1e-6 away
    w.grad = torch.zeros_like(w)
    make_optimizer([w]).step()
    shares = [1 - w[0].item(), 1 - w[1].item() / 5]
    assert shares[0] > 1e-12, f"nothing decays: {shares}"
    assert math.isclose(*shares, rel_tol=1e-2), (
        f"weights 1 and 5 shrink by the shares {shares[0]:.4g} and {shares[1]:.4g}"
    )


def rate_holds_while_improving(scheduler: torch.optim.lr_scheduler.ReduceLROnPlateau, improving: list[float]) -> None:
    """A metric that improves every time does not change the learning rate.

    Catches ReduceLROnPlateau(mode="min") fed an accuracy. `improving` must be longer than the scheduler's patience.
    """
    groups = scheduler.optimizer.param_groups
    rates = [groups[0]["lr"]]
    for metric in improving:
        scheduler.step(metric)
        rates.append(groups[0]["lr"])
    assert rates[-1] == rates[0], f"the learning rate falls while the metric improves: {rates}"


# Losses: loss(outputs, targets) → a 0-dim tensor.


def loss_is_a_mean(loss: Loss, outputs: Tensor, targets: Tensor) -> None:
    """The same batch twice costs as much as once.

    Catches reduction="sum" where a mean was meant: the gradient, and so the step, grows with the batch. Adam would hide it.
    """
    once, twice = _once_and_twice(loss, outputs, targets)
    assert math.isclose(once, twice, rel_tol=1e-4), f"the batch costs {once:.6g}, the batch twice {twice:.6g}"


def loss_is_a_sum(loss: Loss, outputs: Tensor, targets: Tensor) -> None:
    """The same batch twice costs twice as much. utils.loop.train needs such a loss, since it divides by the count.

    Catches a mean where a sum was meant: divided twice, it gives every example a weight of 1/B².
    """
    once, twice = _once_and_twice(loss, outputs, targets)
    assert math.isclose(2 * once, twice, rel_tol=1e-4), f"the batch costs {once:.6g}, the batch twice {twice:.6g}"


def perfection_costs_nothing(loss: Loss, perfect: Tensor, targets: Tensor) -> None:
    """Perfect outputs cost 0: for cross-entropy, logits of 100 at the target; for regression, the targets themselves.

    Catches a softmax before cross_entropy (floor 0.55 for 3 classes) and (B, 1) predictions against (B,) targets, whose
    difference is (B, B). Shifting the logits by a constant cannot show the first (softmax ignores it), and B = 1 cannot
    show the second. Label smoothing has a floor by design.
    """
    cost = loss(perfect, targets).item()
    assert abs(cost) < 1e-6, (
        f"perfect outputs {tuple(perfect.shape)} for targets {tuple(targets.shape)} cost {cost:.4g}"
    )


def loss_survives_no_targets(loss: Loss, outputs: Tensor, targets: Tensor) -> None:
    """A batch whose targets are all ignored has a finite loss.

    Catches a mean over the targets that count: 0/0 is NaN. The gradients are 0, so the weights look fine; but the epoch's
    mean loss is NaN, and so is every choice made by it.
    """
    cost = loss(outputs, targets).item()
    assert math.isfinite(cost), f"a batch in which every target is ignored costs {cost}"


# Data sets and loaders.


def draws_are_fresh(loader: Iterable[Tensor], epochs: int = 2) -> None:
    """Random numbers that the loader's examples draw are never repeated: all values of all epochs are different.

    loader: batches of the random numbers themselves, any shape. Catches a generator made in Dataset.__init__ (each worker
    copies it, each epoch repeats it) and a worker_init_fn with a constant seed (each epoch repeats). To see these it needs
    two epochs and two workers or more. A test for "the same on every run" would pass: the buggy loader repeats itself.
    """
    each = [[value for batch in loader for value in torch.as_tensor(batch).flatten().tolist()] for _ in range(epochs)]
    assert all(each), f"draws by epoch: {[len(values) for values in each]}: pass a loader that can be read again"
    drawn = [value for values in each for value in values]
    assert len(set(drawn)) == len(drawn), f"{len(drawn)} draws in {epochs} epochs, only {len(set(drawn))} different"


def epochs_differ(loader: Iterable[Tensor], epochs: int = 3) -> None:
    """No two epochs have the same order. The loader must yield batches of ids.

    Catches shuffle=False and a DistributedSampler without set_epoch. One epoch proves nothing; nor do two of 3 examples.
    """
    orders = [tuple(id for batch in loader for id in torch.as_tensor(batch).flatten().tolist()) for _ in range(epochs)]
    assert len(set(orders)) == epochs, f"{len(set(orders))} different orders in {epochs} epochs: {orders[0][:8]}…"


def batches_mix_classes(loader: Iterable[tuple[Tensor, Tensor]]) -> None:
    """Every batch (x, y) of three or more examples has at least two classes.

    Catches sorted data that the loader does not shuffle. Blind if the stored data are already shuffled. A small batch may
    have a single class by chance: use batches of 8 or more.
    """
    fewest = min(len(y.unique()) for _, y in loader if len(y) >= 3)
    assert fewest >= 2, "a batch has a single class: the data are sorted and not shuffled: load them with shuffle=True"


def every_example_once(loader: Iterable[Tensor], examples: int) -> None:
    """One epoch yields each of the ids 0 … examples - 1 once. The loader must yield batches of ids.

    Catches next(iter(loader)) at every step (the first batch of a new shuffle each time), a dropped remainder, drop_last
    with fewer examples than a batch (no batch at all), overlapping shards. `examples` should not be a multiple of the batch.
    """
    seen = sorted(id for batch in loader for id in torch.as_tensor(batch).flatten().tolist())
    missing, twice = examples - len(set(seen)), len(seen) - len(set(seen))
    assert seen == list(range(examples)), (
        f"of {examples} examples {missing} never appear, {twice} more than once: an epoch takes each batch of one order, "
        "the last short one too"
    )


def order_is_kept(loader: Iterable[Tensor]) -> None:
    """One epoch yields the ids in order. The loader must yield batches of ids.

    Catches a shuffled validation loader whose predictions are later matched to ids by position. Loss and accuracy
    cannot tell.
    """
    seen = [id for batch in loader for id in torch.as_tensor(batch).flatten().tolist()]
    assert seen == sorted(seen), f"the ids come as {seen[:8]}…: load these data without shuffling"


def ranks_share_each_batch(order: Callable[[int, int], object]) -> None:
    """At each step of two epochs the batches of 2 ranks, or of 3, together are the batch of a single rank.

    order(rank, world) gives an object with steps_per_epoch and indices(step), such as utils.data.order.Order. Catches an
    order that depends on the rank (some examples twice, others never) and shards that overlap. The batch size should not be
    a multiple of 3: with equal batches on all ranks a dropped remainder would not show.
    """
    alone = order(0, 1)
    for world in (2, 3):
        ranks = [order(rank, world) for rank in range(world)]
        for step in range(2 * alone.steps_per_epoch):
            together = sorted(i for rank in ranks for i in rank.indices(step).tolist())
            expected = sorted(alone.indices(step).tolist())
            assert together == expected, f"step {step}: {world} ranks have {together}, a single rank has {expected}"


def splits_are_disjoint(*splits: Iterable[int]) -> None:
    """No index is in two splits. Each split is a list of indices into the same data set.

    Catches two splits drawn with two seeds. Blind to an example stored twice under different indices.
    """
    sets = [{int(i) for i in split} for split in splits]
    shared = sum(map(len, sets)) - len(set().union(*sets))
    assert shared == 0, f"{shared} indices are in more than one of the splits of {[len(s) for s in sets]}"


def statistics_ignore(fit: Callable[[Tensor, Tensor], object], train: Tensor, val: Tensor) -> None:
    """fit(train, val) gives the same statistics when val is moved by 1000.

    Catches a normalisation fitted on training and validation data together. Comparing the statistics without
    moving val would show nothing: the two sets are alike.
    """
    before, after = fit(train, val), fit(train, val + 1000)
    assert str(before) == str(after), f"the statistics {before} become {after} when only the validation data change"


# Checkpoints.


def names_are_portable(state_dict: dict[str, Tensor]) -> None:
    """No name has a wrapper's prefix: the weights load into the plain model.

    Catches state_dict() of a model compiled by torch.compile (`_orig_mod.`) or wrapped by DistributedDataParallel
    (`module.`): save the inner model's instead.
    """
    marked = [name for name in state_dict if "_orig_mod." in name or name.startswith("module.")]
    assert not marked, f"{len(marked)} of {len(state_dict)} names have a wrapper's prefix, such as {marked[0]}"


def is_a_copy(saved: dict[str, Tensor], model: nn.Module) -> None:
    """The saved weights share no memory with the model's, so further training does not change them.

    Catches `best = model.state_dict()`, whose tensors are the live ones. Equal values prove nothing before the next step.
    """
    live = {t.untyped_storage().data_ptr() for t in model.state_dict().values() if t.numel()}
    shared = [name for name, t in saved.items() if t.numel() and t.untyped_storage().data_ptr() in live]
    assert not shared, (
        f"{len(shared)} of {len(saved)} saved tensors are the model's own, such as {shared[0]}: "
        "keep copy.deepcopy(model.state_dict())"
    )


def _changed(x: Tensor) -> Tensor:
    """A tensor like x in which every entry differs; integers are still values that occur in x."""
    if x.is_floating_point():
        return x + 1 + x.abs()
    values, positions = x.unique(return_inverse=True)
    if len(values) < 2:
        raise ValueError(
            f"every entry is {values.tolist()}: pass inputs with at least two values, else nothing changes"
        )
    return values[(positions + 1) % len(values)]


def _once_and_twice(loss: Loss, outputs: Tensor, targets: Tensor) -> tuple[float, float]:
    with torch.no_grad():
        return loss(outputs, targets).item(), loss(torch.cat([outputs] * 2), torch.cat([targets] * 2)).item()
