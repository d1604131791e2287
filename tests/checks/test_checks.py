"""Expected errors, asserts that explain themselves, and the detectors of all that is not a loop."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from helpers.caught import assert_caught
from IPython.core.interactiveshell import InteractiveShell
from torch import nn
from torch.optim import SGD, Adam, AdamW
from torch.optim.lr_scheduler import ReduceLROnPlateau
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset, DistributedSampler

from utils import checks
from utils.checks import explain_asserts, not_verified, raises
from utils.checks.planting import Change, Copy, Seam, in_place, module
from utils.data import IGNORE
from utils.data.order import Order
from utils.loop.metrics import cross_entropy_sum
from utils.proof_text import NOT_VERIFIED

# ---- expected errors, asserts, the ledger's line ---------------------------------------------------------------------


def assert_names(error: AssertionError, *values: str) -> None:
    assert [value for value in values if value not in str(error)] == [], str(error)


def test_raises_passes_on_the_expected_error_and_hands_it_out():
    with raises(ValueError, "no such") as caught:
        raise ValueError("there is no such thing")
    assert str(caught[0]) == "there is no such thing"
    with raises((KeyError, IndexError)):
        [].pop()


def test_raises_fails_if_nothing_is_raised():
    with pytest.raises(AssertionError) as failed, raises((KeyError, IndexError)):
        pass
    assert_names(failed.value, "KeyError", "IndexError")


def test_raises_fails_if_the_message_is_another():
    with pytest.raises(AssertionError) as failed, raises(ValueError, "lr"):
        raise ValueError("steps is 0")
    assert_names(failed.value, "'lr'", "ValueError", "steps is 0")
    assert isinstance(failed.value.__cause__, ValueError)


def test_raises_says_which_other_error_came_and_lets_an_interrupt_through():
    with (
        pytest.raises(AssertionError, match="expected ValueError, got ZeroDivisionError") as failed,
        raises(ValueError),
    ):
        1 / 0  # noqa: B018
    assert isinstance(failed.value.__cause__, ZeroDivisionError)
    with pytest.raises(KeyboardInterrupt), raises(Exception):
        raise KeyboardInterrupt


def test_not_verified_prints_the_line_that_the_ledger_reads(capsys):
    not_verified("needs a CUDA GPU")
    assert capsys.readouterr().out == f"{NOT_VERIFIED} needs a CUDA GPU\n"


def test_explain_asserts_does_nothing_outside_ipython():
    assert "get_ipython" not in globals()
    explain_asserts()


def test_explain_asserts_shows_the_values_in_ipython_and_is_there_once():
    shell = InteractiveShell()
    shell.run_cell("from utils.checks.asserts import explain_asserts; explain_asserts(); explain_asserts()")
    assert [type(t).__name__ for t in shell.ast_transformers] == ["ExplainAsserts"]
    result = shell.run_cell("x = 2\nassert x == 1 + 2")
    assert str(result.error_in_exec) == "claimed:  x == 1 + 2\nmeasured: 2"
    assert shell.run_cell("assert x == 2").success
    shell.run_cell("from dataclasses import dataclass")
    decorated = "\n@dataclass\nclass Point:\n    x: int = 1\n"
    assert shell.run_cell(f"{decorated}assert Point().x == 1").success
    assert "measured: 1" in str(shell.run_cell(f"{decorated}assert Point().x == 2").error_in_exec)


# ---- the detectors of models, data, losses, optimizers: what each is given, right and wrong ------------------


@dataclass(frozen=True)
class Beside:
    """A bug of something else than the loop: what the detector is given, right and wrong (each made when it is needed)."""

    bug: int | None
    name: str
    detector: Callable
    right: Callable[[], tuple]
    wrong: Callable[[], tuple]


def seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)


X, Y = torch.randn(12, 4, generator=seeded()), torch.arange(12) % 3
TOKENS = torch.randint(11, (3, 8), generator=seeded())
PERFECT, CLASSES = 100 * torch.eye(3), torch.arange(3)
IDS = torch.arange(10)


class Cut(nn.Module):
    """Two layers; `cut` is what happens between them."""

    def __init__(self, cut: Callable = lambda x: x):
        super().__init__()
        self.first, self.last, self.cut = nn.Linear(4, 8), nn.Linear(8, 3), cut

    def forward(self, x):
        return self.last(self.cut(self.first(x)).tanh())


class Recomputed(Cut):
    def __init__(self, reentrant: bool):
        super().__init__()
        self.reentrant = reentrant

    def forward(self, x):
        return self.last(checkpoint(self.first, x, use_reentrant=self.reentrant).tanh())


class Edited(nn.Module):
    """w² with w edited through .data after it was used."""

    def __init__(self, edit: float):
        super().__init__()
        self.w, self.edit = nn.Parameter(torch.tensor([2.0])), edit

    def forward(self, x):
        squares = self.w * self.w * x
        self.w.data.mul_(self.edit)
        return squares


class Softmax(nn.Module):
    def __init__(self, axis: int):
        super().__init__()
        self.axis = axis

    def forward(self, x):
        return x.softmax(self.axis)


class AlwaysDropout(nn.Module):
    def __init__(self, heeds_mode: bool):
        super().__init__()
        self.heeds_mode = heeds_mode

    def forward(self, x):
        return F.dropout(x, 0.5, self.training if self.heeds_mode else True)


class Tied(nn.Module):
    def __init__(self, tie: str):
        super().__init__()
        self.embedding, self.head = nn.Embedding(11, 4), nn.Linear(4, 11, bias=False)
        if tie == "copied":
            self.head.weight.data.copy_(self.embedding.weight)
        else:
            self.head.weight = self.embedding.weight
        if tie == "lost":
            self.load_state_dict({name: t.clone() for name, t in self.state_dict().items()}, assign=True)


class OwnGenerator(Dataset):
    """One draw per example: from the global stream, or from a generator that every worker copies."""

    def __init__(self, own: bool):
        self.draw = np.random.default_rng(0).random if own else np.random.rand

    def __len__(self):
        return 8

    def __getitem__(self, i):
        return self.draw()


def constant_seed(worker: int) -> None:
    np.random.seed(worker)  # noqa: NPY002


def drawing(own: bool = False, worker_init_fn=None) -> DataLoader:
    options = {"num_workers": 2, "worker_init_fn": worker_init_fn, "multiprocessing_context": "fork"}
    return DataLoader(OwnGenerator(own), batch_size=2, generator=seeded(), **options)


class Distributed:
    """Epochs of a DistributedSampler, told which epoch it is, or not."""

    def __init__(self, told: bool):
        self.sampler, self.told, self.epoch = DistributedSampler(IDS, num_replicas=2, rank=0), told, 0

    def __iter__(self):
        if self.told:
            self.sampler.set_epoch(self.epoch)
            self.epoch += 1
        return iter([torch.tensor(list(self.sampler))])


def loader(shuffle: bool, data=IDS, **options) -> DataLoader:
    return DataLoader(data, batch_size=4, shuffle=shuffle, generator=seeded(), **options)


def ordered_by_rank(rank: int, world: int) -> Order:
    return Order(22, 8, seed=rank, rank=rank, world=world)


def replaced(how: str) -> tuple[nn.Module, torch.optim.Optimizer]:
    model = Cut()
    optimizer = SGD(model.parameters(), lr=0.1)
    if how == "half":
        model.half()  # the same parameters, in another type
    elif how == "replaced":
        model.last.weight = nn.Parameter(model.last.weight.detach().clone())
    elif how == "added":
        model.extra = nn.Linear(3, 3)
    elif how == "assigned":
        model.load_state_dict({name: t.clone() for name, t in model.state_dict().items()}, assign=True)
    return model, optimizer


def plateau(mode: str) -> ReduceLROnPlateau:
    return ReduceLROnPlateau(SGD([nn.Parameter(torch.zeros(1))], lr=1.0), mode=mode, patience=2)


def cross_entropy_of_softmax(logits, targets):
    return F.cross_entropy(logits.softmax(-1), targets)


def squared_error(outputs, targets):
    return (outputs - targets).square().mean()


def fitted_on(train, val, both: bool) -> tuple[float, float]:
    values = torch.cat([train, val]) if both else train
    return values.mean().item(), values.std().item()


def image_statistics(package: Callable[[str], object]) -> Callable:
    """fit(train, val) through the package's own reading of images, which holds out `val` itself."""
    data = package("data.datasets")
    kept, held_out = data.split_indices(10, (6, 4), seed=0)

    def fit(train, val):
        images = torch.zeros(10, 2, 2, dtype=torch.uint8)
        images[kept], images[held_out] = train.to(torch.uint8), (val % 256).to(torch.uint8)
        splits = data._image_splits(
            (images.numpy(), np.zeros(10, dtype=np.uint8)), (images.numpy(), np.zeros(10, np.uint8)), 4, 0, True, ()
        )
        return splits.mean, splits.std

    return fit


IMAGES = torch.arange(24).view(6, 2, 2), torch.arange(16).view(4, 2, 2)

BESIDE = (
    Beside(
        13,
        "normalisation fitted on validation data too",
        checks.statistics_ignore,
        lambda: (partial(fitted_on, both=False), X[:8], X[8:]),
        lambda: (partial(fitted_on, both=True), X[:8], X[8:]),
    ),
    Beside(
        14,
        "overlapping splits",
        checks.splits_are_disjoint,
        lambda: tuple(torch.randperm(50, generator=seeded()).split([30, 20])),
        lambda: (torch.randperm(50)[:30], torch.randperm(50)[:20]),
    ),
    Beside(
        15,
        "shuffled validation matched to ids",
        checks.order_is_kept,
        lambda: (loader(shuffle=False),),
        lambda: (loader(shuffle=True),),
    ),
    Beside(
        16,
        "sorted data not shuffled",
        checks.batches_mix_classes,
        lambda: (loader(shuffle=True, data=list(zip(IDS, IDS // 5, strict=True))),),
        lambda: (loader(shuffle=False, data=list(zip(IDS, IDS // 5, strict=True))),),
    ),
    Beside(
        21,
        "worker_init_fn with a constant seed",
        checks.draws_are_fresh,
        lambda: (drawing(),),
        lambda: (drawing(worker_init_fn=constant_seed),),
    ),
    Beside(
        22,
        "a generator of its own in Dataset.__init__",
        checks.draws_are_fresh,
        lambda: (drawing(),),
        lambda: (drawing(own=True),),
    ),
    *(
        Beside(
            26,
            f"{name} in forward",
            checks.every_parameter_gets_gradient,
            lambda: (Cut(), X, Y, F.cross_entropy),
            lambda cut=cut: (Cut(cut), X, Y, F.cross_entropy),
        )
        for name, cut in {
            "detach": torch.Tensor.detach,
            ".data": lambda x: x.data,
            "a rebuilt tensor": lambda x: torch.tensor(x.tolist()),
        }.items()
    ),
    Beside(
        27,
        "reduction='sum'",
        checks.loss_is_a_mean,
        lambda: (F.cross_entropy, X[:, :3], Y),
        lambda: (partial(F.cross_entropy, reduction="sum"), X[:, :3], Y),
    ),
    Beside(
        27,
        "a mean where the loop wants a sum",
        checks.loss_is_a_sum,
        lambda: (cross_entropy_sum, X[:, :3], Y),
        lambda: (F.cross_entropy, X[:, :3], Y),
    ),
    Beside(
        28,
        "softmax before cross-entropy",
        checks.perfection_costs_nothing,
        lambda: (F.cross_entropy, PERFECT, CLASSES),
        lambda: (cross_entropy_of_softmax, PERFECT, CLASSES),
    ),
    Beside(
        28,
        "softmax as the model's last layer",
        checks.outputs_are_logits,
        lambda: (nn.Sequential(nn.Linear(4, 3)), X),
        lambda: (nn.Sequential(nn.Linear(4, 3), nn.Softmax(-1)), X),
    ),
    Beside(
        29,
        "(B, 1) against (B,), by hand",
        checks.perfection_costs_nothing,
        lambda: (squared_error, Y.float(), Y.float()),
        lambda: (squared_error, Y.float()[:, None], Y.float()),
    ),
    Beside(
        29,
        "(B, 1) against (B,), torch's",
        checks.perfection_costs_nothing,
        lambda: (F.mse_loss, Y.float(), Y.float()),
        lambda: (F.mse_loss, Y.float()[:, None], Y.float()),
    ),
    Beside(
        30,
        "a tie lost in loading",
        checks.weights_are_tied,
        lambda: (Tied("tied"), "embedding.weight", "head.weight"),
        lambda: (Tied("lost"), "embedding.weight", "head.weight"),
    ),
    Beside(
        31,
        "tied by copying",
        checks.weights_are_tied,
        lambda: (Tied("tied"), "embedding.weight", "head.weight"),
        lambda: (Tied("copied"), "embedding.weight", "head.weight"),
    ),
    Beside(
        32,
        ".data edited after it was used",
        checks.gradients_match_differences,
        lambda: (Edited(1.0), torch.ones(1), torch.zeros(1), F.l1_loss),
        lambda: (Edited(10.0), torch.ones(1), torch.zeros(1), F.l1_loss),
    ),
    *(
        Beside(
            34,
            f"parameters {how} after the optimizer was built",
            checks.optimizer_holds_parameters,
            lambda: replaced("half"),
            lambda how=how: replaced(how),
        )
        for how in ("replaced", "added", "assigned")
    ),
    Beside(
        35,
        "a DistributedSampler without set_epoch",
        checks.epochs_differ,
        lambda: (Distributed(told=True),),
        lambda: (Distributed(told=False),),
    ),
    Beside(38, "softmax over the batch", checks.examples_do_not_mix, lambda: (Softmax(1), X), lambda: (Softmax(0), X)),
    Beside(
        40,
        "Adam(weight_decay) for AdamW",
        checks.decay_is_decoupled,
        lambda: (partial(AdamW, lr=0.01, weight_decay=0.1),),
        lambda: (partial(Adam, lr=0.01, weight_decay=0.1),),
    ),
    Beside(
        43,
        "F.dropout without training=",
        checks.eval_is_deterministic,
        lambda: (AlwaysDropout(True), X),
        lambda: (AlwaysDropout(False), X),
    ),
    Beside(
        44,
        "next(iter(loader)) at every step",
        checks.every_example_once,
        lambda: (loader(shuffle=True), 10),
        lambda: ([next(iter(loader(shuffle=True))) for _ in range(3)], 10),
    ),
    Beside(
        45,
        "drop_last with fewer examples than a batch",
        checks.every_example_once,
        lambda: (loader(shuffle=True), 10),
        lambda: (DataLoader(IDS, batch_size=16, drop_last=True), 10),
    ),
    Beside(
        46,
        "state_dict of the compiled model",
        checks.names_are_portable,
        lambda: (Cut().state_dict(),),
        lambda: (torch.compile(Cut(), backend="eager").state_dict(),),
    ),
    Beside(
        47,
        "a fused step does not count as a change",
        checks.stale_graph_raises,
        lambda: (partial(SGD, lr=0.1),),
        lambda: (partial(SGD, lr=0.1, fused=True),),
    ),
    Beside(
        48,
        "reentrant checkpointing of the first block",
        checks.every_parameter_gets_gradient,
        lambda: (Recomputed(False), X, Y, F.cross_entropy),
        lambda: (Recomputed(True), X, Y, F.cross_entropy),
    ),
    Beside(
        49,
        "float16 weights under Adam",
        checks.small_updates_arrive,
        lambda: (partial(Adam, lr=1e-3), torch.float32),
        lambda: (partial(Adam, lr=1e-3), torch.float16),
    ),
    Beside(
        50,
        "bfloat16 weights",
        checks.small_updates_arrive,
        lambda: (partial(SGD, lr=1e-3), torch.float32),
        lambda: (partial(SGD, lr=1e-3), torch.bfloat16),
    ),
    Beside(
        51,
        "ReduceLROnPlateau(mode='min') on an accuracy",
        checks.rate_holds_while_improving,
        lambda: (plateau("max"), [0.5, 0.6, 0.7, 0.8, 0.9]),
        lambda: (plateau("min"), [0.5, 0.6, 0.7, 0.8, 0.9]),
    ),
    Beside(
        52,
        "the mean of a batch without targets",
        checks.loss_survives_no_targets,
        lambda: (cross_entropy_sum, X[:, :3], torch.full((12,), IGNORE)),
        lambda: (F.cross_entropy, X[:, :3], torch.full((12,), IGNORE)),
    ),
    Beside(
        25,
        "best weights are an alias",
        checks.is_a_copy,
        lambda: (lambda m: ({k: v.clone() for k, v in m.state_dict().items()}, m))(Cut()),
        lambda: (lambda m: (m.state_dict(), m))(Cut()),
    ),
    Beside(
        None,
        "an order that depends on the rank",
        checks.ranks_share_each_batch,
        lambda: (lambda rank, world: Order(22, 8, rank=rank, world=world),),
        lambda: (ordered_by_rank,),
    ),
)


@pytest.mark.parametrize("bug", BESIDE, ids=lambda bug: f"{bug.bug or 'own'}: {bug.name}")
def test_a_bug_beside_the_loop_is_caught(bug):
    torch.manual_seed(0)
    bug.detector(*bug.right())
    assert_caught(bug.detector, *bug.wrong())


# Bugs of other modules of ours: (detector, what it is given out of a package, the bug).
ELSEWHERE = {
    "13: normalised by validation data too": (
        checks.statistics_ignore,
        lambda package: (image_statistics(package), *IMAGES),
        Change("data/datasets.py", "pixel_statistics(images[chosen])", "pixel_statistics(images)"),
    ),
    "14: splits drawn one by one": (
        checks.splits_are_disjoint,
        lambda package: package("data").split_indices(50, (30, 20), seed=0),
        Change(
            "data/datasets.py",
            "return tuple(part.sort().values for part in parts)",
            "return tuple(torch.randperm(n)[:size].sort().values for size in sizes)",
        ),
    ),
    "28: softmax before cross-entropy": (
        checks.perfection_costs_nothing,
        lambda package: (package("loop.metrics").cross_entropy_sum, PERFECT, CLASSES),
        Seam("loop.metrics.cross_entropy_sum", lambda right, logits, targets: right(logits.softmax(-1), targets)),
    ),
    "39: the future leaks": (
        checks.future_does_not_leak,
        lambda package: (package("models").GPT(11, context=8, width=8, heads=2), TOKENS),
        Seam(
            "models.F.scaled_dot_product_attention",
            lambda right, *args, **options: right(*args, **options | {"is_causal": False}),
        ),
    ),
    "43: dropout in attention heeds no mode": (
        checks.eval_is_deterministic,
        lambda package: (package("models").GPT(11, context=8, width=8, heads=2, dropout=0.5), TOKENS),
        Change("models.py", "self.dropout if self.training else 0.0", "self.dropout"),
    ),
    "own: a rank's order of its own": (
        checks.ranks_share_each_batch,
        lambda package: (lambda rank, world: package("data.order").Order(22, 8, rank=rank, world=world),),
        Seam(
            "data.order.Order.batch",
            lambda right, order, step: right(replace(order, seed=order.seed + order.rank), step),
        ),
    ),
    "own: ranks that overlap": (
        checks.ranks_share_each_batch,
        lambda package: (lambda rank, world: package("data.order").Order(22, 8, rank=rank, world=world),),
        Seam(
            "data.order.Order.indices",
            lambda right, order, step: order.batch(step)[order.rank :: max(1, order.world - 1)],
        ),
    ),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_bug_planted_in_another_module_is_caught(name, tmp_path):
    detector, examined, bug = ELSEWHERE[name]
    torch.manual_seed(0)
    detector(*examined(module))
    torch.manual_seed(0)
    if isinstance(bug, Seam):
        with in_place(bug, bug=name):
            assert_caught(detector, *examined(module))
    else:
        with Copy(tmp_path, bug, bug=name) as copy:
            assert_caught(detector, *examined(copy.module))


def test_33_an_edit_of_a_leaf_in_place_is_loud():
    w = nn.Parameter(torch.ones(2))
    with raises(RuntimeError, "in-place"):
        w.mul_(2)
    w.data.mul_(2)  # this one is silent: bug 32
    assert w.tolist() == [2, 2]
