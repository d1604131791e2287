"""What a loss is divided by, whether it adds up over examples, and where its classes are: right, or refused."""

import copy
import math
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from helpers.advice import followed, programs
from torch import nn
from torch.utils.data import Dataset, TensorDataset

from utils.data import IGNORE
from utils.device import pick_device
from utils.distributed.launch import on_ranks
from utils.loop import Config, evaluate, train
from utils.loop.metrics import cross_entropy_sum, squared_error_sum

DEVICE = pick_device()
N = 12  # examples: one batch
X = torch.randn(N, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
LABELS = torch.arange(N) % 3
TOKENS = torch.randint(1, 7, (N, 10), generator=torch.Generator().manual_seed(1))
TOKENS[torch.arange(10) > 2 + torch.arange(N)[:, None] % 7] = 0  # padding, in every example
REAL = torch.randn(N, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
SGD = {"optimizer": "sgd", "momentum": 0.0, "lr": 0.1, "batch_size": N, "log_every": 1, "deterministic": False}


def linear(outputs: int) -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(4, outputs).double()


def reader() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(7, 8), nn.Linear(8, 7)).double()


class ClassesFirst(nn.Module):
    """(B, T, K) → (B, K, T), as torch's losses take it."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x).movedim(-1, 1)


def weights(model: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten().cpu() for p in model.parameters()])


def by_hand(model: nn.Module, mean, x: torch.Tensor, y: torch.Tensor) -> tuple[float, torch.Tensor]:
    """The mean loss of one batch, and the weights after one step of plain gradient descent."""
    model = copy.deepcopy(model).to(DEVICE)
    loss = mean(model(x.to(DEVICE)), y.to(DEVICE))
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    pairs = zip(model.parameters(), gradients, strict=True)
    return loss.item(), torch.cat([(p - SGD["lr"] * g).detach().flatten().cpu() for p, g in pairs])


def is_right(model, data, loss, mean, **options) -> None:
    """One step on the whole batch, in one part and in five: the mean loss and the weights are those by hand."""
    expected, moved = by_hand(model, mean, *data.tensors)
    for accumulation in options.pop("accumulations", (1, 5)):
        ours = copy.deepcopy(model)
        config = Config(steps=1, accumulation=accumulation, **SGD, **options)
        result = train(ours, data, data, config, loss=loss)
        assert result.history[0]["loss"] == pytest.approx(expected, rel=1e-12), accumulation
        torch.testing.assert_close(weights(ours), moved, rtol=0, atol=1e-14)
        assert result.history[1]["val_loss"] == pytest.approx(mean(*after(ours, data)).item(), rel=1e-12)


def after(model: nn.Module, data: TensorDataset) -> tuple[torch.Tensor, torch.Tensor]:
    x, y = (part.to(DEVICE) for part in data.tensors)
    with torch.no_grad():
        return model(x), y


def refused(model, data, *words: str, **options) -> str:
    """Refused before a step, naming these; the whole message."""
    given = {name: options.pop(name) for name in ("loss", "collate") if name in options}
    before = weights(model)
    with pytest.raises(ValueError) as error:
        train(model, data, None, Config(steps=1, **SGD | options), **given)
    assert all(word in str(error.value) for word in words), error.value
    assert torch.equal(weights(model), before)
    return str(error.value)


def first_record(message: str, model, data, *names: str, program=0, number=0, through=None, **given) -> dict:
    """The record of the first step of the run that was refused, once it is changed as the message says; see `followed`."""
    call = {"model": model, "train_data": data, "config": Config(steps=1, **SGD)} | given
    return train(**followed(message, call, *names, program=program, number=number, model=through)).history[0]


# ---- what it is divided by -------------------------------------------------------------------------------------------

CLASS_WEIGHTS = torch.tensor([1.0, 3.0, 0.5], dtype=torch.float64, device=DEVICE)
SOFT = torch.rand(N, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64).softmax(1)
MASKED_LABELS = LABELS.where(torch.arange(N) % 4 > 0, IGNORE)
SOME_VOID = LABELS.where(torch.arange(N) % 4 > 0, 255)
BITS = (REAL[:, :3] > 0).double()
COUNTS = torch.arange(N * 3).reshape(N, 3) % 5
SIGNS = torch.where(REAL[:, :3] > 0, 1.0, -1.0).double()
MODULES = {
    "labels": (nn.CrossEntropyLoss, {}, LABELS),
    "padding of -100": (nn.CrossEntropyLoss, {}, MASKED_LABELS),
    "padding of another label": (nn.CrossEntropyLoss, {"ignore_index": 0}, LABELS),
    "void pixels of 255": (nn.CrossEntropyLoss, {"ignore_index": 255}, SOME_VOID),
    "class weights": (nn.CrossEntropyLoss, {"weight": CLASS_WEIGHTS}, LABELS),
    "weights, padding, smoothing": (
        nn.CrossEntropyLoss,
        {"weight": CLASS_WEIGHTS, "label_smoothing": 0.1, "ignore_index": 2},
        LABELS,
    ),
    "soft targets": (nn.CrossEntropyLoss, {}, SOFT),
    "soft targets with weights": (nn.CrossEntropyLoss, {"weight": CLASS_WEIGHTS, "label_smoothing": 0.1}, SOFT),
    "squared error": (nn.MSELoss, {}, REAL[:, :3]),
    "absolute error": (nn.L1Loss, {}, REAL[:, :3]),
    "smooth error": (nn.SmoothL1Loss, {"beta": 0.5}, REAL[:, :3]),
    "Huber": (nn.HuberLoss, {}, REAL[:, :3]),
    "several labels": (nn.BCEWithLogitsLoss, {"pos_weight": CLASS_WEIGHTS}, BITS),
    "counts": (nn.PoissonNLLLoss, {}, COUNTS.double()),
    "counts of whole numbers": (nn.PoissonNLLLoss, {}, COUNTS),
    "margins": (nn.SoftMarginLoss, {}, SIGNS),
    "a margin over classes": (nn.MultiMarginLoss, {"weight": CLASS_WEIGHTS}, LABELS),
    "several labels, by example": (nn.MultiLabelSoftMarginLoss, {}, BITS),
}


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("name", MODULES)
def test_a_module_of_torch_trains_torchs_mean(name, reduction):
    kind, settings, y = MODULES[name]
    is_right(linear(3), TensorDataset(X, y), kind(**settings, reduction=reduction), kind(**settings))


@pytest.mark.filterwarnings("ignore:reduction. 'mean'")  # torch's, that this mean is not the divergence
@pytest.mark.parametrize("reduction", ["mean", "batchmean"])
def test_divergences_and_log_probabilities(reduction):
    model = nn.Sequential(linear(3), nn.LogSoftmax(-1))
    loss = nn.KLDivLoss(reduction=reduction)
    is_right(model, TensorDataset(X, SOFT), loss, loss)
    is_right(model, TensorDataset(X, LABELS), nn.NLLLoss(weight=CLASS_WEIGHTS), nn.NLLLoss(weight=CLASS_WEIGHTS))
    probable = nn.Sequential(linear(3), nn.Sigmoid())
    is_right(probable, TensorDataset(X, BITS), nn.BCELoss(), nn.BCELoss())


def test_sequences_with_the_classes_on_axis_1():
    loss = nn.CrossEntropyLoss(ignore_index=0)
    is_right(ClassesFirst(reader()), TensorDataset(TOKENS, TOKENS), loss, loss)


def test_sequences_with_the_classes_last():
    """Torch's loss would take the steps of time for the classes: refused, and the lines set it right."""
    data, loss, mean = TensorDataset(TOKENS, TOKENS), nn.CrossEntropyLoss(ignore_index=0), partial(flat, ignore_index=0)
    message = refused(reader(), data, "the classes, as axis 1", loss=loss)
    expected, moved = by_hand(reader(), mean, TOKENS, TOKENS)
    for accumulation in (1, 5):
        model = reader()
        config = Config(steps=1, accumulation=accumulation, **SGD)
        record = first_record(message, model, data, "loss", loss=loss, config=config)
        assert record["loss"] == pytest.approx(expected, rel=1e-12)
        torch.testing.assert_close(weights(model), moved, rtol=0, atol=1e-14)


def test_a_short_last_batch_and_a_batch_without_a_target():
    """Batches of 5, 5 and 2, and of one: the record is the mean over all targets that count, weighted."""
    data, loss = TensorDataset(X, MASKED_LABELS), nn.CrossEntropyLoss(weight=CLASS_WEIGHTS)
    expected = loss(linear(3).to(DEVICE)(X.to(DEVICE)), MASKED_LABELS.to(DEVICE)).item()
    for size in (5, 1):
        steps = math.ceil(N / size)
        config = Config(steps=steps, **SGD | {"batch_size": size, "lr": 1e-12, "log_every": steps}, val_batch_size=5)
        history = train(linear(3), data, data, config, loss=loss).history
        assert history[0]["loss"] == pytest.approx(expected, rel=1e-9) == history[1]["val_loss"]
    scores = evaluate(linear(3), data, batch_size=5, loss=loss)
    assert scores.loss == pytest.approx(expected, rel=1e-12) and scores.targets == MASKED_LABELS.ne(IGNORE).sum()


def flat(outputs, targets, **options):
    return F.cross_entropy(outputs.flatten(0, 1), targets.flatten(), **options)


def test_a_pair_says_what_it_is_divided_by():
    """A count as a tensor, an int and a float; in parts of unequal counts; also where a part has none."""
    padded = TensorDataset(TOKENS, TOKENS)

    def tokens(outputs, targets):
        return flat(outputs, targets, ignore_index=0, reduction="sum"), targets.ne(0).sum()

    is_right(reader(), padded, tokens, partial(flat, ignore_index=0), accumulations=(1, 2, 5, 12))
    gaps = TensorDataset(X, REAL.where(torch.rand(N, 6, generator=torch.Generator().manual_seed(4)) < 0.4, math.nan))

    def error(outputs, targets):
        known = targets.isfinite()
        return (outputs - targets)[known].square().sum(), known.sum()

    is_right(linear(6), gaps, error, lambda o, t: (o - t)[t.isfinite()].square().mean(), accumulations=(1, 5, 12))
    pixels = TensorDataset(X, REAL)
    squares = lambda o, t: (o - t).square().mean(1)  # noqa: E731
    is_right(linear(6), pixels, lambda o, t: (squares(o, t).sum(), len(t)), lambda o, t: squares(o, t).mean())
    is_right(linear(6), pixels, lambda o, t: (squares(o, t).sum(), 0.5 * len(t)), lambda o, t: 2 * squares(o, t).mean())


def test_clipping_sees_the_gradient_of_what_the_pair_says():
    data = TensorDataset(TOKENS, TOKENS)
    loss = lambda o, t: (flat(o, t, ignore_index=0, reduction="sum"), t.ne(0).sum())  # noqa: E731
    _, moved = by_hand(reader(), partial(flat, ignore_index=0), TOKENS, TOKENS)
    for accumulation in (1, 3):
        record = train(reader(), data, None, Config(steps=1, accumulation=accumulation, clip=1e-3, **SGD), loss=loss)
        expected = (moved - weights(reader())).norm().item() / SGD["lr"]
        assert record.history[0]["grad_norm"] == pytest.approx(expected, rel=1e-10)
        step = (weights(record.model) - weights(reader())).norm().item()
        assert step == pytest.approx(SGD["lr"] * 1e-3 * expected / (expected + 1e-6), rel=1e-9)


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_a_pair_in_mixed_precision(precision):
    """Close to the same steps in fp32, in parts: a factor that is forgotten would be 2 or more."""
    data, model = TensorDataset(TOKENS, TOKENS), reader().float()
    loss = lambda o, t: (flat(o, t, ignore_index=0, reduction="sum"), t.ne(0).sum())  # noqa: E731
    moved = []
    for kind in ("fp32", precision):
        ours = copy.deepcopy(model)
        train(ours, data, None, Config(steps=10, accumulation=3, precision=kind, **SGD | {"lr": 1.0}), loss=loss)
        moved.append(weights(ours) - weights(model))
    assert (moved[1] - moved[0]).norm() < 0.05 * moved[0].norm()


def nan_free(outputs, targets):
    return (outputs - targets)[targets.isfinite()].square().sum()


def per_row(outputs, targets):
    return (outputs - targets).square().mean(1).sum()


def soft(outputs, targets):
    return -(targets * outputs.log_softmax(1)).sum()


def void(outputs, targets):
    return F.cross_entropy(outputs, targets, ignore_index=255, reduction="sum")


def below_zero(outputs, targets):
    return F.cross_entropy(outputs, targets, ignore_index=-1, reduction="sum")


def sentinel(outputs, targets):
    return ((outputs - targets).square() * (targets != -9)).sum()


GAPS = REAL.clone()
GAPS[:, 4:] = math.nan
MARKED = REAL.clone()
MARKED[:, 4:] = -9
EARLY = REAL.clone()
EARLY[:, 0] = math.nan
LATE = REAL.clone()
LATE[5:, 2] = math.nan  # not in the examples that are tried
UNCOUNTED = {  # sums that cannot be divided by the number of targets: the loss, data, model, and torch's mean
    "padding is label 0": (
        *(partial(flat, ignore_index=0, reduction="sum"), TOKENS, TOKENS, reader),
        *("targets that are 0 cost nothing", partial(flat, ignore_index=0)),
    ),
    "void is 255, in no example yet": (
        *(void, X, LABELS, lambda: linear(3), "targets that are 255 cost nothing", F.cross_entropy),
    ),
    "no label is -1": (
        *(below_zero, X, LABELS, lambda: linear(3), "targets that are -1 cost nothing", F.cross_entropy),
    ),
    "gaps are NaN": (
        *(nan_free, X, GAPS, lambda: linear(6), "targets that are NaN cost nothing"),
        lambda o, t: (o - t)[t.isfinite()].square().mean(),
    ),
    "gaps are NaN, the first target too": (
        *(nan_free, X, EARLY, lambda: linear(6), "targets that are NaN cost nothing"),
        lambda o, t: (o - t)[t.isfinite()].square().mean(),
    ),
    "gaps are NaN, in late examples": (
        *(nan_free, X, LATE, lambda: linear(6), "targets that are NaN cost nothing"),
        lambda o, t: (o - t)[t.isfinite()].square().mean(),
    ),
    "gaps are -9": (
        *(sentinel, X, MARKED, lambda: linear(6), "targets that are -9.0 cost nothing"),
        lambda o, t: (o - t)[t != -9].square().mean(),
    ),
    "soft targets": (soft, X, SOFT, lambda: linear(3), "not a sum over the 3 targets", F.cross_entropy),
    "means over pixels": (per_row, X, REAL, lambda: linear(6), "not a sum over the 6 targets", F.mse_loss),
    "means over tokens": (
        *(lambda o, t: F.cross_entropy(o.movedim(-1, 1), t, reduction="none").mean(1).sum(), TOKENS, TOKENS, reader),
        *("not a sum over the 10 targets", flat),
    ),
}


@pytest.mark.parametrize("name", UNCOUNTED)
def test_a_sum_whose_count_would_be_wrong_is_refused_and_the_lines_set_it_right(name):
    loss, x, y, build, words, mean = UNCOUNTED[name]
    data = TensorDataset(x, y)
    message = refused(build(), data, words, loss=loss)
    expected, moved = by_hand(build(), mean, x, y)
    for accumulation in (1, 5):
        model = build()
        config = Config(steps=1, accumulation=accumulation, **SGD)
        record = first_record(message, model, data, "loss", loss=loss, config=config)
        assert record["loss"] == pytest.approx(expected, rel=1e-12)
        torch.testing.assert_close(weights(model), moved, rtol=0, atol=1e-14)
    with pytest.raises(ValueError, match="Say what to divide by"):
        evaluate(build(), data, loss=loss)


def hinge(outputs, targets):
    return (1 - outputs * targets).clamp(min=0).sum()


def poisson(outputs, targets):
    return (outputs.exp() - targets * outputs).sum()


SUMS = {  # over all targets, of the caller's own: as good as a pair
    "of labels": (partial(F.cross_entropy, reduction="sum"), LABELS, 3, F.cross_entropy),
    "of labels, some masked": (partial(F.cross_entropy, reduction="sum"), MASKED_LABELS, 3, F.cross_entropy),
    "smoothed": (
        *(partial(F.cross_entropy, reduction="sum", label_smoothing=0.1), LABELS, 3),
        partial(F.cross_entropy, label_smoothing=0.1),
    ),
    "of squares": (lambda o, t: (o - t).square().sum(), REAL, 6, F.mse_loss),
    "ours": (squared_error_sum, REAL, 6, F.mse_loss),
    "of hinges": (hinge, SIGNS, 3, lambda o, t: hinge(o, t) / t.numel()),
    "of counts": (poisson, COUNTS, 3, lambda o, t: poisson(o, t) / t.numel()),
    "of bits": (
        *(partial(F.binary_cross_entropy_with_logits, reduction="sum"), BITS, 3),
        F.binary_cross_entropy_with_logits,
    ),
    "that looks at no target": (lambda o, t: o.square().sum(), REAL, 6, lambda o, t: o.square().mean()),
    "of -100 degrees": (
        *(lambda o, t: (o - t).abs().sum(), torch.arange(N * 3).reshape(N, 3) - IGNORE - 200, 3),
        lambda o, t: (o - t).abs().mean(),
    ),
}


@pytest.mark.parametrize("name", SUMS)
def test_a_sum_over_all_targets_needs_no_count(name):
    loss, y, outputs, mean = SUMS[name]
    is_right(linear(outputs), TensorDataset(X, y), loss, mean)


@pytest.mark.parametrize("loss", [nn.MSELoss(), nn.PoissonNLLLoss(), nn.SoftMarginLoss(), squared_error_sum])
@pytest.mark.parametrize(("outputs", "y"), [(1, REAL[:, 0]), (3, REAL[:, :1]), (1, REAL[:, :3])])
def test_outputs_or_targets_that_would_be_broadcast(loss, outputs, y):
    """Each would cost many times what torch's mean says: by evaluate, too."""
    data = TensorDataset(X, y.abs())
    refused(linear(outputs), data, "differ in shape", loss=loss)
    with pytest.raises(ValueError, match="differ in shape"):
        evaluate(linear(outputs), data, loss=loss)


def test_a_complex_output():
    model = nn.Linear(4, 3, dtype=torch.complex128)
    x, y = X.to(torch.complex128), REAL[:, :3].to(torch.complex128)
    loss = lambda o, t: (o - t).abs().square().sum()  # noqa: E731
    is_right(model, TensorDataset(x, y), loss, lambda o, t: (o - t).abs().square().mean())


def test_means_and_the_lines_that_make_sums_of_them():
    labels, tokens, real = TensorDataset(X, MASKED_LABELS), TensorDataset(TOKENS, TOKENS), TensorDataset(X, REAL)
    for build, data, mean in [
        (lambda: linear(3), labels, F.cross_entropy),
        (lambda: linear(3), labels, lambda o, t: F.cross_entropy(o, t)),
        (lambda: linear(6), real, F.mse_loss),
        (lambda: linear(6), real, lambda o, t: (o - t).abs().mean()),
        (lambda: linear(6), TensorDataset(X, REAL[:, :2]), lambda o, t: o.square().mean()),
        (reader, tokens, flat),
        (lambda: linear(6), real, lambda o, t: ((o - t).square().mean(), t.numel())),  # a pair of a mean and its count
    ]:
        message = refused(build(), data, "the loss is a mean", 'reduction="sum"', loss=mean)
        program = 0 if programs(message) else None  # of torch's own function a sentence tells
        first = lambda o, t, mean=mean: value[0] if isinstance(value := mean(o, t), tuple) else value  # noqa: E731
        expected, moved = by_hand(build(), first, *data.tensors)
        for accumulation in (1, 5):
            model = build()
            config = Config(steps=1, accumulation=accumulation, **SGD)
            record = first_record(message, model, data, "loss", program=program, loss=mean, config=config)
            assert record["loss"] == pytest.approx(expected, rel=1e-9)
            torch.testing.assert_close(weights(model), moved, rtol=0, atol=1e-12)


def test_pairs_that_are_none():
    data, total = TensorDataset(X, LABELS), cross_entropy_sum
    for loss, words in [
        (lambda o, t: (total(o, t), o), "a tuple whose second is"),
        (lambda o, t: (total(o, t), -1), "a tuple whose second is -1"),
        (lambda o, t: (total(o, t), math.nan), "a tuple whose second is nan"),
        (lambda o, t: (total(o, t), None), "a tuple whose second is None"),
        (lambda o, t: (total(o, t), 1, 2), "the loss is a tuple"),
        (lambda o, t: (o, 1), "the loss is of shape (2, 3)"),
    ]:
        refused(linear(3), data, words, loss=loss)
    refused(linear(3), data, "must be one real number", loss=nn.CrossEntropyLoss(reduction="none"))


# ---- does it add up? -------------------------------------------------------------------------------------------------


class Towers(nn.Module):
    """Two views (B, 2, 4) of each example → (B, 2, 3). Memory runs out in a backward pass of more than `room` examples."""

    def __init__(self, room: int = N):
        super().__init__()
        torch.manual_seed(1)
        self.one, self.other, self.room = nn.Linear(4, 3).double(), nn.Linear(4, 3).double(), room

    def forward(self, x):
        if torch.is_grad_enabled() and len(x) > self.room:
            raise torch.OutOfMemoryError("simulated")
        return torch.stack([self.one(x[:, 0]), self.other(x[:, 1])], 1)


VIEWS = TensorDataset(torch.stack([X, X.flip(1)], 1), torch.zeros(N, dtype=torch.int64))


def contrast(outputs, targets, reduction="sum"):
    z = F.normalize(outputs, dim=-1)
    answer = torch.arange(len(z), device=z.device)
    return F.cross_entropy(z[:, 0] @ z[:, 1].T / 0.1, answer, reduction=reduction)


def contrast_and_count(outputs, targets):
    return contrast(outputs, targets), len(targets)


def test_a_contrastive_loss_trains_in_one_whole_batch():
    is_right(Towers(), VIEWS, contrast_and_count, partial(contrast, reduction="mean"), accumulations=(1,))


def test_a_contrastive_number_is_refused_and_both_lines_are_right():
    """Nothing tells a sum over examples from their mean here: the reader must."""
    expected, moved = by_hand(Towers(), partial(contrast, reduction="mean"), *VIEWS.tensors)
    for place, reduction in enumerate(("sum", "mean")):
        loss = partial(contrast, reduction=reduction)
        message = refused(Towers(), VIEWS, "the loss is not a sum over the targets", loss=loss)
        model = Towers()
        record = first_record(message, model, VIEWS, "loss", program=place, loss=loss)
        assert record["loss"] == pytest.approx(expected, rel=1e-12)
        torch.testing.assert_close(weights(model), moved, rtol=0, atol=1e-14)


def test_a_contrastive_loss_is_not_computed_in_parts():
    refused(
        Towers(), VIEWS, "accumulation is 3, but the loss of a batch is not", loss=contrast_and_count, accumulation=3
    )
    with pytest.raises(
        torch.OutOfMemoryError, match=r"step 1 with 12 examples, and the loss of a batch is not the sum"
    ):
        train(Towers(room=4), VIEWS, None, Config(steps=1, **SGD), loss=contrast_and_count)


def trained_on_a_rank(kind: str) -> str:
    """What a rank says to a contrastive pair, or what it logs for a loss that adds up: a pair, or a module of torch."""
    import torch
    import torch.nn.functional as F

    from utils.loop import Config, train

    def contrastive(outputs, targets):
        scores = outputs @ outputs.detach().T
        return F.cross_entropy(scores, torch.arange(len(scores)), reduction="sum"), len(targets)

    def masked(outputs, targets):
        kept = targets.ne(0)
        return (outputs - 1).square()[kept].sum(), 3 * kept.sum()

    weighted = torch.nn.CrossEntropyLoss(torch.tensor([1.0, 3.0, 0.5], dtype=torch.float64), ignore_index=0)
    loss = {"contrastive": contrastive, "masked": masked, "weighted": weighted}[kind]

    torch.manual_seed(0)
    x = torch.randn(10, 4, dtype=torch.float64)
    data = torch.utils.data.TensorDataset(x, torch.arange(10) % 3)
    model = torch.nn.Linear(4, 3).double()
    config = Config(
        steps=6, batch_size=3, optimizer="sgd", lr=0.1, log_every=1, device="cpu"
    )  # the last batch is of one
    try:
        history = train(model, data, data, config, loss=loss).history
    except ValueError as error:
        return str(error)
    return repr(
        [[round(record.get(name) or 0, 12) for record in history] for name in ("loss", "grad_norm", "val_loss")]
    )


def test_two_ranks():
    """The contrastive loss is refused; the others log the numbers of one process, also where a rank has no example."""
    for ended in on_ranks(2, trained_on_a_rank, "contrastive", group=False):
        assert "there are 2 ranks, but the loss of a batch is not the sum" in ended.result
    for kind in ("masked", "weighted"):
        alone = trained_on_a_rank(kind)
        assert alone.startswith("[[")
        assert [ended.result for ended in on_ranks(2, trained_on_a_rank, kind, group=False)] == [alone, alone]


class Routed(nn.Module):
    """Two experts, and a loss of its own for a load that is not balanced over the batch."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.router, self.experts = nn.Linear(4, 2).double(), nn.Linear(4, 6).double()

    def forward(self, x):
        shares = self.router(x).softmax(-1)
        self.load = shares.mean(0).square().sum()
        return (shares[..., None] * self.experts(x).unflatten(-1, (2, 3))).sum(1)


def test_terms_that_are_added_once_for_a_batch():
    """A penalty of the weights, and a router's balance read from the model: one whole batch is right, parts are refused."""
    data = TensorDataset(X, LABELS)
    for build, term in [(lambda: linear(3), lambda model: model.weight.square().sum()), (Routed, lambda m: m.load)]:
        model = build()

        def loss(outputs, targets, term=term, model=model):
            return cross_entropy_sum(outputs, targets) + len(targets) * term(model), len(targets)

        def once(outputs, targets, term=term, model=model):
            return cross_entropy_sum(outputs, targets) + term(model), len(targets)

        reference = build().to(DEVICE)
        mean = F.cross_entropy(reference(X.to(DEVICE)), LABELS.to(DEVICE)) + term(reference)
        gradients = torch.autograd.grad(mean, list(reference.parameters()))
        pairs = zip(reference.parameters(), gradients, strict=True)
        moved = torch.cat([(p - SGD["lr"] * g).detach().flatten().cpu() for p, g in pairs])
        refused(model, data, "accumulation is 3", "times the number of targets", loss=once, accumulation=3)
        if build is Routed:
            refused(model, data, "accumulation is 3", loss=loss, accumulation=3)
        record = train(model, data, None, Config(steps=1, **SGD), loss=loss).history[0]
        assert record["loss"] == pytest.approx(mean.item(), rel=1e-12)
        torch.testing.assert_close(weights(model), moved, rtol=0, atol=1e-14)


def test_a_penalty_times_the_number_of_targets_adds_up():
    model = linear(3)
    loss = lambda o, t: (cross_entropy_sum(o, t) + len(t) * model.weight.square().sum(), len(t))  # noqa: E731
    record = train(model, TensorDataset(X, LABELS), None, Config(steps=1, accumulation=5, **SGD), loss=loss).history[0]
    mean = F.cross_entropy(linear(3)(X), LABELS) + linear(3).weight.square().sum()
    assert record["loss"] == pytest.approx(mean.item(), rel=1e-12)


def test_zero_outputs_and_zero_targets_hide_nothing():
    """A head that begins at zero: a mean of zeros is as good a sum as any, if one asks for zeros alone."""
    head = nn.Linear(4, 3).double()
    nn.init.zeros_(head.weight), nn.init.zeros_(head.bias)
    zeros = TensorDataset(X, torch.zeros(N, 3, dtype=torch.float64))
    refused(head, zeros, "the loss is a mean", loss=lambda o, t: (o - t).square().mean())
    spread = lambda o, t: ((o - o.mean(0)).square().sum(), len(o))  # noqa: E731
    refused(head, zeros, "accumulation is 2", loss=spread, accumulation=2)


def test_a_mean_times_the_number_of_rows_is_no_sum_of_tokens():
    """It is the mean of the micro-batches' means, if their masks differ: refused in parts."""
    loss = lambda o, t: (flat(o, t, ignore_index=IGNORE) * len(t), len(t))  # noqa: E731
    data = TensorDataset(TOKENS, TOKENS.where(TOKENS > 0, IGNORE))
    refused(reader(), data, "accumulation is 3", loss=loss, accumulation=3)
    late = TensorDataset(TOKENS, torch.cat([TOKENS[:4].clamp(min=1), TOKENS[4:].where(TOKENS[4:] > 0, IGNORE)]))
    refused(reader(), late, "accumulation is 3", loss=loss, accumulation=3)


# ---- axes ------------------------------------------------------------------------------------------------------------


def convolution() -> nn.Module:
    torch.manual_seed(0)
    return nn.Conv1d(4, 5, 1).double()


SERIES = torch.randn(N, 4, 5, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
SQUARE = TensorDataset(SERIES, torch.randint(5, (N, 5), generator=torch.Generator().manual_seed(6)))


def test_as_many_classes_as_steps_of_time():
    """(B, 5, 5): either axis may be that of the classes, and the sizes do not say which."""
    x, y = SQUARE.tensors
    message = refused(convolution(), SQUARE, "the classes may be axis 1")
    along_1, along_last = F.cross_entropy(convolution()(x), y), F.cross_entropy(convolution()(x).movedim(-1, 1), y)
    for number, expected in enumerate((along_1, along_last)):
        record = first_record(message, convolution(), SQUARE, "loss", number=number)
        assert record["loss"] == pytest.approx(expected.item(), rel=1e-12)
    assert along_1.item() != pytest.approx(along_last.item(), rel=1e-3)


def test_the_accuracy_is_along_the_axis_of_the_loss():
    x, y = (part.to(DEVICE) for part in SQUARE.tensors)
    outputs = convolution().to(DEVICE)(x)
    for loss, axis in [(nn.CrossEntropyLoss(), 1), (cross_entropy_sum, -1)]:
        scores = evaluate(convolution(), SQUARE, loss=loss)
        assert scores.accuracy == outputs.argmax(axis).eq(y).double().mean().item() and scores.targets == y.numel()


def test_the_accuracy_counts_no_label_that_is_ignored():
    data, loss = TensorDataset(X, LABELS), nn.CrossEntropyLoss(ignore_index=0, weight=CLASS_WEIGHTS)
    kept = LABELS > 0
    right = linear(3)(X).argmax(1).eq(LABELS)[kept]
    scores = evaluate(linear(3), data, batch_size=5, loss=loss)
    assert scores.accuracy == right.double().mean().item() and scores.targets == kept.sum()


def test_no_accuracy_where_the_largest_output_is_no_answer():
    for loss, y, outputs in [
        (nn.PoissonNLLLoss(), COUNTS, 3),
        (poisson, COUNTS, 3),
        (lambda o, t: (o - t[:, None]).abs().sum(), torch.arange(N) % 3, 3),  # quantiles of a whole number
        (nn.CrossEntropyLoss(), SOFT, 3),
        (nn.BCEWithLogitsLoss(), BITS, 3),
    ]:
        assert evaluate(linear(outputs), TensorDataset(X, y), loss=loss).accuracy is None
    assert evaluate(Towers(), VIEWS, batch_size=N, loss=contrast_and_count).accuracy is None


def time_first(pairs):
    x, y = zip(*pairs, strict=True)
    return torch.stack(x, 1), torch.stack(y, 1)


class Recurrent(nn.Module):
    """Time first: (T, B, 4) → (T, B, 5)."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.cell, self.out = nn.GRU(4, 8).double(), nn.Linear(8, 5).double()

    def forward(self, x):
        return self.out(self.cell(x)[0])


@pytest.mark.parametrize("length", [2, 7])
def test_a_collate_that_puts_time_first(length):
    """Two steps of time, too, are not two examples."""
    torch.manual_seed(0)
    x, y = torch.randn(N, length, 4, dtype=torch.float64), torch.randint(5, (N, length))
    data = TensorDataset(x, y)
    message = refused(
        *(Recurrent(), data, "the first axis of both must count the examples"),
        loss=cross_entropy_sum,
        collate=time_first,
    )
    expected = F.cross_entropy(Recurrent()(x.transpose(0, 1)).flatten(0, 1), y.T.flatten()).item()
    for accumulation in (1, 5):
        config = Config(steps=1, accumulation=accumulation, **SGD)
        given = {"loss": cross_entropy_sum, "collate": time_first, "config": config}
        record = first_record(message, Recurrent(), data, "collate", through="BatchFirst(model)", **given)
        assert record["loss"] == pytest.approx(expected, rel=1e-12)


class Whimsical(Dataset):
    def __len__(self):
        return N

    def __getitem__(self, i):
        return X[i], LABELS[i], i


def test_a_collate_that_leaves_examples_out():
    """Known in the first batch that is too short, not in the trial."""

    def kept(rows):
        rows = [row for row in rows if row[2] != 7]
        return torch.stack([x for x, _, _ in rows]), torch.stack([y for _, y, _ in rows])

    with pytest.raises(ValueError, match=r"12 examples came as x \(11, 4\) and y \(11,\)"):
        train(linear(3), Whimsical(), None, Config(steps=1, **SGD), collate=kept)
    with pytest.raises(ValueError, match=r"12 examples came as x \(11, 4\)"):
        evaluate(linear(3), Whimsical(), collate=kept)
