"""Lab 09 · A loop with silent bugs: what students write. See variants.py."""

from variants import variants_of

from utils.lab.silent_bugs import planted, with_bugs

LAB = variants_of("09_silent_bugs")


# Task 1 · Every example once

wrong, right = LAB.task("examples")

wrong(
    "fails itself",
    """
    def each_example_once(train) -> None:
        steps = watch(train, bed(), steps=9).steps
        assert len(steps) == 9
    """,
    says=["the instrument itself fails"],
)
wrong(
    "first epoch only",
    ("(0, 3, 6)", "(0,)"),
    ('assert len({tuple(epoch) for epoch in epochs}) == 3, f"three epochs, and their orders are {epochs}"', "pass"),
    says=["compare the epochs with each other"],
)
wrong(
    "examples of the first epoch only",
    ("for number, epoch in enumerate(epochs):", "for number, epoch in enumerate(epochs[:1]):"),
    says=["one example short from the second epoch on", "count the examples of each epoch"],
)
wrong(
    "none twice", ("sorted(epoch) == list(range(1, 23))", "len(set(epoch)) == len(epoch)"), says=["count the examples"]
)
wrong(
    "one order expected",
    (
        'assert len({tuple(epoch) for epoch in epochs}) == 3, f"three epochs, and their orders are {epochs}"',
        """
        wanted = torch.randperm(22, generator=torch.Generator().manual_seed(0)) + 1
        assert epochs[0] == wanted.tolist()
        assert len({tuple(epoch) for epoch in epochs}) == 3, f"three epochs, and their orders are {epochs}"
        """,
    ),
    says=["its own business"],
)
wrong("only counted", ("sorted(epoch) == list(range(1, 23))", "len(epoch) == 22"), says=["22 different ones"])
wrong("orders compared sorted", ("tuple(epoch)", "tuple(sorted(epoch))"), says=["its own business"])
wrong(
    "over all epochs",
    (
        """
        for number, epoch in enumerate(epochs):
            assert sorted(epoch) == list(range(1, 23)), f"epoch {number} uses the examples {sorted(epoch)}"
        """,
        "assert {i for epoch in epochs for i in epoch} == set(range(1, 23))",
    ),
    says=["an AssertionError, for in this loop"],
)
wrong(
    "says false",
    (
        'assert sorted(epoch) == list(range(1, 23)), f"epoch {number} uses the examples {sorted(epoch)}"',
        """
        if sorted(epoch) != list(range(1, 23)):
            return False
        """,
    ),
    says=["an AssertionError"],
)
wrong(
    "some twice",
    """
    def each_example_once(train) -> None:
        steps = watch(train, *bed(), steps=9).steps
        epochs = [[i for step in steps[k : k + 3] for i in step.ids] for k in (0, 3, 6)]
        for epoch in epochs:
            assert set(epoch) == set(range(1, 23))
        assert len({tuple(epoch) for epoch in epochs}) == 3
    """,
    says=["batches that overlap by an example", "some of them twice"],
)
right(
    "by counting",
    """
    def each_example_once(train):
        model, data, val = bed(noise=True)
        seen, orders = {}, []
        for number, step in enumerate(watch(train, model, data, val, 6, size=11, parts=1, lr=0.01).steps):
            for i in step.ids:
                key = (number // 2, i)
                seen[key] = seen.get(key, 0) + 1
            if number % 2 == 0:
                orders.append([])
            orders[-1] += step.ids
        steps = watch(train, *bed(), steps=3).steps
        if sum(len(step.ids) for step in steps) != 22 or len({i for step in steps for i in step.ids}) != 22:
            raise AssertionError("with a short last batch")
        if seen != {(epoch, i): 1 for epoch in range(3) for i in range(1, 23)}:
            raise AssertionError(f"{seen}")
        if orders[0] == orders[1] or orders[1] == orders[2] or orders[0] == orders[2]:
            raise AssertionError(f"{orders}")
    """,
)
wrong(
    "compares neighbours alone",
    ("assert len({tuple(epoch) for epoch in epochs}) == 3", "assert epochs[0] != epochs[1] != epochs[2]"),
    says=["compare each with each"],
)
wrong(
    "counts all epochs together",
    (
        'assert sorted(epoch) == list(range(1, 23)), f"epoch {number} uses the examples {sorted(epoch)}"',
        "assert sorted(sum(epochs, [])) == sorted(3 * [*range(1, 23)]), number",
    ),
    says=["each example three times in three epochs"],
)

# Task 2 · The gradient that a step should have

wrong, right = LAB.task("oracle")

wrong("at the models weights", ("p.copy_(w)", "pass"), says=["at the weights that are given"])
wrong(
    "by backward",
    """
    def batch_gradient(model, weights, x, y):
        was, mode = [p.detach().clone() for p in model.parameters()], model.training
        model.eval()
        for p, w in zip(model.parameters(), weights):
            p.data.copy_(w)
        model.zero_grad()
        F.cross_entropy(model(x), y).backward()
        found = [p.grad.clone() for p in model.parameters()]
        for p, w in zip(model.parameters(), was):
            p.data.copy_(w)
        model.train(mode)
        return found
    """,
    says=[".grad has changed"],
)
wrong("in training mode", ("copy.deepcopy(model).eval()", "copy.deepcopy(model)"), says=["in evaluation mode"])
wrong(
    "mean over all",
    ("F.cross_entropy(own(x), y)", 'F.cross_entropy(own(x), y, reduction="sum") / len(y)'),
    says=["the mean over the targets that count"],
)
wrong(
    "sum",
    ("F.cross_entropy(own(x), y)", 'F.cross_entropy(own(x), y, reduction="sum")'),
    says=["the mean over the targets that count"],
)
wrong(
    "switches the model", ("copy.deepcopy(model).eval()", "copy.deepcopy(model.eval())"), says=["call eval on a copy"]
)
wrong(
    "writes weights",
    (
        """
        with torch.no_grad():
            for p, w in zip(own.parameters(), weights, strict=True):
                p.copy_(w)
        """,
        """
        for p, q, w in zip(own.parameters(), model.parameters(), weights):
            p.data.copy_(w)
            q.data.copy_(w)
        """,
    ),
    says=["have changed"],
)
wrong(
    "back to training",
    """
    def batch_gradient(model, weights, x, y):
        names = [name for name, _ in model.named_parameters()]
        leaves = [w.detach().clone().requires_grad_() for w in weights]
        model.eval()
        outputs = torch.func.functional_call(model, dict(zip(names, leaves)), (x,))
        model.train()
        return list(torch.autograd.grad(F.cross_entropy(outputs, y), leaves))
    """,
    says=["['evaluation mode']", "put it back as it was"],
)
right(
    "functional",
    """
    def batch_gradient(model, weights, x, y):
        names = [name for name, _ in model.named_parameters()]
        leaves = [w.detach().clone().requires_grad_() for w in weights]
        own = copy.deepcopy(model)
        own.eval()
        outputs = torch.func.functional_call(own, dict(zip(names, leaves)), (x[y != IGNORE],))
        loss = -outputs.log_softmax(-1).gather(1, y[y != IGNORE][:, None]).mean()
        loss.backward()
        return tuple(leaf.grad for leaf in leaves)
    """,
)

# Task 3 · Gradients

wrong, right = LAB.task("gradients")

wrong("at the last weights", ("step.weights", "list(model.parameters())"), says=["by its own ids and weights"])
wrong(
    "first step only",
    ("watch(train, model, (x, y), val, steps=6).steps", "watch(train, model, (x, y), val, steps=6).steps[:1]"),
    says=["look at every step"],
)
wrong(
    "full batches only",
    ("watch(train, model, (x, y), val, steps=6).steps", "watch(train, model, (x, y), val, steps=2).steps"),
    says=["the short batch of an epoch weighs less", "watch whole epochs"],
)
wrong(
    "nan passes",
    (
        'assert torch.allclose(got, want, rtol=1e-9, atol=1e-12), f"step {number}: {got} in place of {want}"',
        """
        if (got - want).norm() > want.norm():
            raise AssertionError("off")
        """,
    ),
    says=["an AssertionError, for in this loop"],
)
wrong(
    "of all targets",
    (
        "wanted = batch_gradient(model, step.weights, x[rows], y[rows])",
        """
        counted = (y[rows] != IGNORE).double().mean().item()
        wanted = [g * counted for g in batch_gradient(model, step.weights, x[rows], y[rows])]
        """,
    ),
    says=["this loop is right"],
)
wrong(
    "one part",
    ("watch(train, model, (x, y), val, steps=6)", "watch(train, model, (x, y), val, steps=6, parts=1)"),
    says=["an AssertionError, for in this loop"],
)
wrong(
    "roughly",
    ("torch.allclose(got, want, rtol=1e-9, atol=1e-12)", "torch.allclose(got, want, rtol=0.5, atol=0.1)"),
    says=["an AssertionError, for in this loop"],
)
wrong(
    "rows off by one", ("[i - 1 for i in step.ids]", "[i % 22 for i in step.ids]"), says=["by its own ids and weights"]
)
wrong(
    "to the last bit",
    ("torch.allclose(got, want, rtol=1e-9, atol=1e-12)", "torch.equal(got, want)"),
    says=["not to the last bit"],
)
wrong(
    "to the tolerance of allclose",
    ("torch.allclose(got, want, rtol=1e-9, atol=1e-12)", "torch.allclose(got, want)"),
    says=["every gradient a millionth too long", "unless you give it rtol=1e-9"],
)
wrong(
    "norms alone",
    (
        "torch.allclose(got, want, rtol=1e-9, atol=1e-12)",
        "math.isclose(got.norm().item(), want.norm().item(), rel_tol=1e-9)",
    ),
    says=["the wrong sign", "tensor by tensor, number by number"],
)
wrong(
    "to two digits",
    """
    def gradients_are_of_the_batch(train) -> None:
        model, (x, y), val = bed()
        for t, step in enumerate(watch(train, model, (x, y), val, steps=6).steps):
            rows = [i - 1 for i in step.ids]
            for got, want in zip(
                step.gradients, batch_gradient(model, step.weights, x[rows], y[rows]), strict=True
            ):
                assert torch.allclose(got, want, atol=1e-2), f"step {t}"
    """,
    says=["every gradient 0.1 % too long"],
)
right(
    "by relative norms",
    """
    def gradients_are_of_the_batch(train):
        for parts in (2, 3, 5):
            model, data, val = bed()
            x, y = data
            off = []
            for step in watch(train, model, data, val, 7, parts=parts).steps:
                rows = torch.tensor(step.ids, device=x.device) - 1
                wanted = torch.cat([g.flatten() for g in batch_gradient(model, step.weights, x[rows], y[rows])])
                got = torch.cat([g.flatten() for g in step.gradients])
                off.append(((got - wanted).norm() / wanted.norm()).item())
            assert all(error < 1e-8 for error in off), off
    """,
)
wrong(
    "begins with the second step",
    (".steps):", ".steps):\n    if number == 0:\n        continue"),
    says=["the first one too"],
)
wrong(
    "compares one tensor",
    ("zip(step.gradients, wanted, strict=True)", "zip(step.gradients[:1], wanted)"),
    says=["compare all tensors"],
)

# Task 4 · Steps: the clip and the rate

wrong, right = LAB.task("steps")

wrong("clips each tensor", ("0.05 / norm", "0.05 / want.norm().item()"), says=["this loop is right"])
wrong(
    "counted from 1",
    ("min((t + 1) / 5, math.sqrt(5 / (t + 1)))", "min((t + 2) / 5, math.sqrt(5 / (t + 2)))"),
    says=["steps count from 0"],
)
wrong("limit never binds", ("clip=0.05", "clip=50.0"), ("0.05 / norm", "50.0 / norm"), says=["the limit must bind"])
wrong(
    "norm only",
    """
    def steps_follow_the_plan(train):
        for t, step in enumerate(watch(train, *bed(), steps=9, clip=0.05, lr=0.1, warmup=5).steps):
            norm = math.sqrt(sum(g.square().sum().item() for g in step.gradients))
            assert math.isclose(norm, 0.05, rel_tol=1e-4), norm
            assert math.isclose(step.rate, 0.1 * min((t + 1) / 5, math.sqrt(5 / (t + 1))), rel_tol=1e-9)
    """,
    says=["its direction is not"],
)
wrong(
    "one epoch",
    """
    def steps_follow_the_plan(train) -> None:
        model, (x, y), val = bed()
        for t, step in enumerate(watch(train, model, (x, y), val, steps=3, clip=0.05, lr=0.1, warmup=4).steps):
            rows = [i - 1 for i in step.ids]
            wanted = batch_gradient(model, step.weights, x[rows], y[rows])
            norm = math.sqrt(sum(g.square().sum().item() for g in wanted))
            for got, want in zip(step.gradients, wanted, strict=True):
                assert torch.allclose(got, want * min(1, 0.05 / norm), rtol=1e-4, atol=1e-8), f"step {t}"
            assert math.isclose(step.rate, 0.1 * min((t + 1) / 4, math.sqrt(4 / (t + 1))), rel_tol=1e-9)
    """,
    says=["no decay after the warm-up", "watch more steps than warmup"],
)
wrong("rate not looked at", ("math.isclose(step.rate, planned, rel_tol=1e-9)", "planned"), says=["step.rate of step 0"])
wrong(
    "rate of the first only",
    ("math.isclose(step.rate, planned, rel_tol=1e-9)", "t > 0 or math.isclose(step.rate, planned, rel_tol=1e-09)"),
    says=["compare each step"],
)
wrong(
    "to the last digit",
    ("torch.allclose(got, want, rtol=1e-4, atol=1e-8)", "torch.allclose(got, want, rtol=1e-12, atol=1e-15)"),
    says=["torch's clip differs"],
)
wrong(
    "gradient of the first only",
    (
        "torch.allclose(got, want, rtol=1e-4, atol=1e-8)",
        "t > 0 or torch.allclose(got, want, rtol=1e-4, atol=1e-8)",
    ),
    says=["the limit is 1 % higher with each epoch", "the gradient of every step"],
)
right(
    "by cosines",
    """
    def steps_follow_the_plan(train):
        model, (x, y), val = bed()
        notes = watch(train, model, (x, y), val, 8, clip=0.02, lr=0.7, warmup=4)
        assert len(notes.steps) == 8
        for t in range(8):
            step = notes.steps[t]
            rows = [i - 1 for i in step.ids]
            flat, wanted = (
                torch.cat([g.flatten() for g in each])
                for each in (step.gradients, batch_gradient(model, step.weights, x[rows], y[rows]))
            )
            cosine = (flat @ wanted / flat.norm() / wanted.norm()).item()
            assert cosine > 1 - 1e-9 and abs(flat.norm().item() / 0.02 - 1) < 1e-3, (cosine, flat.norm())
            share = (t + 1) / 4 if t < 4 else (4 / (t + 1)) ** 0.5
            assert abs(step.rate - 0.7 * share) < 1e-9, step.rate
    """,
)
wrong("rates within a fifth", ("rel_tol=1e-9", "rel_tol=0.1"), says=["a rate is a formula"])
wrong(
    "without a warm-up",
    ("warmup=5", "warmup=1"),
    ("min((t + 1) / 5, math.sqrt(5 / (t + 1)))", "math.sqrt(1 / (t + 1))"),
    says=["choose a warmup of several steps"],
)

# Task 5 · Reports

wrong, right = LAB.task("reports")

wrong(
    "as far as they go",
    (
        """
        def loss_at(weights, x, y):
            names = [name for name, _ in model.named_parameters()]
            outputs = torch.func.functional_call(model.eval(), dict(zip(names, weights, strict=True)), (x,))
            return F.cross_entropy(outputs, y).item()
        """,
        """
        own = copy.deepcopy(model).eval()

        def loss_at(weights, x, y):
            with torch.no_grad():
                for p, w in zip(own.parameters(), weights, strict=True):
                    p.copy_(w)
                return F.cross_entropy(own(x), y).item()
        """,
    ),
    (
        """
        got = notes.result["log"][name]
        same = len(got) == len(wanted) and all(
            math.isclose(a, b, rel_tol=1e-6) for a, b in zip(got, wanted, strict=True)
        )
        assert same, f"the log has {name} {got}, and it was {wanted}"
        """,
        """
        for got, want in zip(notes.result["log"][name], wanted, strict=False):
            assert math.isclose(got, want, rel_tol=1e-6), f"{name}: {got} in place of {want}"
        """,
    ),
    says=["one validation loss is not logged", "compare the lengths, too"],
)
wrong("limit never binds", ("clip=0.05", "clip=50.0"), says=["with a limit that binds"])
wrong(
    "loss after the step",
    ("for step in notes.steps:", "for k, step in enumerate(notes.steps):"),
    ("loss_at(step.weights, x[rows], y[rows])", "loss_at(weights[k + 1], x[rows], y[rows])"),
    says=["at the weights before the step"],
)
wrong(
    "only that they fall",
    """
    def reports_are_true(train):
        log = watch(train, *bed(), steps=60, clip=0.05).result["log"]
        assert log["loss"][-1] < log["loss"][0] and log["val_loss"][-1] < 10
        assert all(map(math.isfinite, log["norm"] + log["rate"]))
    """,
    says=["an AssertionError, for in this loop"],
)
wrong(
    "only the lengths",
    (
        """
        same = len(got) == len(wanted) and all(
            math.isclose(a, b, rel_tol=1e-6) for a, b in zip(got, wanted, strict=True)
        )
        """,
        "same = len(got) == len(wanted)",
    ),
    says=["an AssertionError, for in this loop"],
)
wrong(
    "rate of the plan",
    ("for step in notes.steps:", "for k, step in enumerate(notes.steps):"),
    ('told["rate"].append(step.rate)', 'told["rate"].append(0.1 * min((k + 1) / 3, math.sqrt(3 / (k + 1))))'),
    says=["this log is true", "be it the planned one or not"],
)
wrong(
    "rate not looked at",
    (
        '{"loss": [], "norm": [], "rate": [], "val_loss": [loss_at(weights[k], *val) for k in (3, 6)]}',
        '{"loss": [], "norm": [], "val_loss": [loss_at(weights[k], *val) for k in (3, 6)]}',
    ),
    ('told["rate"].append(step.rate)', "pass"),
    says=["compare the log's rates"],
)
wrong(
    "validation before the step",
    ("[loss_at(weights[k], *val) for k in (3, 6)]", "[loss_at(weights[k], *val) for k in (2, 5)]"),
    says=["at those after it"],
)
wrong(
    "validation by batches",
    (
        "loss_at(weights[k], *val)",
        "(loss_at(weights[k], val[0][:8], val[1][:8]) + loss_at(weights[k], val[0][8:], val[1][8:])) / 2",
    ),
    says=["this log is true"],
)
wrong(
    "first of each list",
    (
        """
        same = len(got) == len(wanted) and all(
            math.isclose(a, b, rel_tol=1e-6) for a, b in zip(got, wanted, strict=True)
        )
        """,
        "same = len(got) == len(wanted) and math.isclose(got[0], wanted[0], rel_tol=1e-6)",
    ),
    says=["0.0005 % too high from the second epoch on", "compare every entry, not the first"],
)
wrong(
    "first of the norms",
    (
        """
        got = notes.result["log"][name]
        same = len(got) == len(wanted) and all(
        """,
        """
        got = notes.result["log"][name]
        same = math.isclose(got[0], wanted[0], rel_tol=1e-6) if name == "norm" else len(got) == len(wanted) and all(
        """,
    ),
    says=["norm is logged 0.0005 % too high"],
)
wrong(
    "to five digits",
    ("math.isclose(a, b, rel_tol=1e-6)", "math.isclose(a, b, rel_tol=1e-5)"),
    says=["0.0005 % too high from the second epoch on", "to a relative 10⁻⁶"],
)
wrong(
    "second validation as told",
    (
        "[loss_at(weights[k], *val) for k in (3, 6)]",
        '[loss_at(weights[3], *val), notes.result["log"]["val_loss"][-1]]',
    ),
    says=["val_loss is logged 0.0005 % too high"],
)
right(
    "one epoch at a time",
    """
    def reports_are_true(train):
        model, (x, y), val = bed()
        own = copy.deepcopy(model)
        notes = watch(train, model, (x, y), val, 9, clip=0.1, lr=0.05)
        log = notes.result["log"]

        def put(weights):
            for p, w in zip(own.parameters(), weights):
                p.data.copy_(w)
            return own.eval()

        def close(got, want, what):
            assert abs(got - want) <= 1e-6 * abs(want), f"{what}: {got}, {want}"

        assert [len(log[name]) for name in ("loss", "norm", "rate", "val_loss")] == [9, 9, 9, 3]
        for k, step in enumerate(notes.steps):
            rows = [i - 1 for i in step.ids]
            net = put(step.weights)
            net.zero_grad()
            loss = F.cross_entropy(net(x[rows]), y[rows])
            loss.backward()
            close(log["loss"][k], loss.item(), "loss")
            close(log["norm"][k], torch.cat([p.grad.flatten() for p in net.parameters()]).norm().item(), "norm")
            close(log["rate"][k], step.rate, "rate")
            if k % 3 == 0 and k:
                close(log["val_loss"][k // 3 - 1], F.cross_entropy(net(val[0]), val[1]).item(), "validation")
        close(
            log["val_loss"][2], F.cross_entropy(put(list(model.parameters()))(val[0]), val[1]).item(), "validation"
        )
    """,
)

# Task 6 · Validation, and the best weights

wrong, right = LAB.task("validation")

wrong("best is the end", ("3 * (losses.index(min(losses)) + 1)", "-1"), says=["right after the epoch"])
wrong("highest", ("min(losses)", "max(losses)"), says=["with the lowest validation loss"])
wrong("mode not looked at", ("modes and not any(modes)", "modes"), says=["notes.validations has"])
wrong(
    "modes only",
    (
        """
        assert all(map(torch.equal, best, wanted)), f"validation losses {losses}: best has {best}, not {wanted}"
        """,
        "assert best and wanted",
    ),
    says=["best has to be compared"],
)
wrong(
    "one epoch",
    ("watch(train, model, data, val, steps=9)", "watch(train, model, data, val, steps=3)"),
    says=["look at step.training in later ones"],
)
wrong(
    "training not looked at",
    ("all(step.training for step in notes.steps)", "notes.steps"),
    says=["look at step.training in later ones"],
)
wrong(
    "weights before the last step",
    ("3 * (losses.index(min(losses)) + 1)", "3 * (losses.index(min(losses)) + 1) - 1"),
    says=["right after the epoch"],
)
wrong(
    "other than the last",
    ("3 * (losses.index(min(losses)) + 1)", "-1"),
    ("assert all(map(torch.equal, best, wanted))", "assert not all(map(torch.equal, best, wanted))"),
    says=["the first validation is never the best", "not merely others than the last"],
)
wrong(
    "mode of the first validation",
    ("modes and not any(modes)", "modes and not modes[0]"),
    says=["in training mode from the second epoch on", "every entry of notes.validations"],
)
right(
    "over many epochs",
    """
    def validation_is_apart(train):
        for settings in ({"lr": 0.5}, {"lr": 0.05, "size": 11}):
            model, data, val = bed(adverse=True, noise=True)
            notes = watch(train, model, data, val, 12, **settings)
            starts = [step.weights for step in notes.steps] + [[p.detach() for p in model.parameters()]]
            each = 12 // len(notes.result["log"]["val_loss"])
            lowest, at = math.inf, None
            for k, loss in enumerate(notes.result["log"]["val_loss"]):
                if loss < lowest:
                    lowest, at = loss, starts[each * (k + 1)]
            names = [name for name, _ in model.named_parameters()]
            assert not [1 for name, w in zip(names, at) if not torch.equal(notes.result["best"][name], w)]
            assert {step.training for step in notes.steps} == {True}
            assert {mode for _, mode in notes.validations} == {False}
    """,
)
wrong("looks at the last validation", ("not any(modes)", "not modes[-1]"), says=["look at every entry"])
wrong(
    "compares one tensor of best",
    ("all(map(torch.equal, best, wanted))", "torch.equal(best[0], wanted[0])"),
    says=["compare every tensor of best"],
)

# Task 7 · Resuming

wrong, right = LAB.task("resuming")

wrong(
    "best not compared",
    ('assert torch.equal(p, q), f"best: resumed {p}, in one piece {q}"', "pass"),
    says=["compare best"],
)
wrong(
    "cut before anything",
    ("train(other, data, val, 4)", "train(other, data, val, 0)"),
    says=["an AssertionError, for in this loop"],
)
wrong(
    "differently seeded",
    (
        """
        other, _, _ = bed(noise=True, adverse=True)
        torch.manual_seed(1)
        """,
        """
        other, _, _ = bed(noise=True, adverse=True)
        torch.manual_seed(2)
        """,
    ),
    says=["seed both runs alike"],
)
wrong(
    "of the log the loss alone",
    (
        """
        for name, told in whole["log"].items():
            parts = first["log"][name] + second["log"][name]
            assert parts == told, f"{name}: resumed {parts}, in one piece {told}"
        """,
        """
        told, parts = whole["log"]["loss"], first["log"]["loss"] + second["log"]["loss"]
        assert parts == told, f"resumed {parts}, in one piece {told}"
        """,
    ),
    says=["not the loss alone"],
)
wrong("state used once", ('train(other, data, val, 9, state=first["state"])', ""), says=["state"])
wrong(
    "stream goes on",
    ('train(other, data, val, 9, state=first["state"])', ""),
    ("torch.manual_seed(99)", ""),
    says=["an AssertionError, for in this loop"],
)
wrong(
    "weights only roughly",
    """
    def resumes_exactly(train):
        model, data, val = bed(noise=True)
        torch.manual_seed(1)
        train(model, data, val, 9)
        fresh, _, _ = bed(noise=True)
        torch.manual_seed(1)
        state = train(fresh, data, val, 4)["state"]
        torch.manual_seed(99)
        train(fresh, data, val, 9, state=state)
        assert all(torch.allclose(p, q, atol=0.5) for p, q in zip(fresh.parameters(), model.parameters()))
    """,
    says=["an AssertionError, for in this loop"],
)
wrong(
    "without noise",
    """
    def resumes_exactly(train):
        model, data, val = bed(adverse=True)
        whole = train(model, data, val, 9)
        other, _, _ = bed()
        first = train(other, data, val, 4)
        train(other, data, val, 9, state=first["state"])
        fresh, _, _ = bed()
        second = train(fresh, data, val, 9, state=first["state"])
        assert all(map(torch.equal, fresh.parameters(), model.parameters()))
        assert all(first["log"][name] + second["log"][name] == told for name, told in whole["log"].items())
        assert all(map(torch.equal, second["best"].values(), whole["best"].values()))
    """,
    says=["bed(noise=True)"],
)
wrong(
    "without the state",
    ('train(fresh, data, val, 9, state=first["state"])', "train(fresh, data, val, 9)"),
    says=["this loop is right"],
)
right(
    "cut everywhere",
    """
    def resumes_exactly(train):
        def start():
            torch.manual_seed(5)
            return bed(noise=True, adverse=True)

        model, data, val = start()
        whole = train(model, data, val, 8)
        for cut in (3, 5, 7):
            one, _, _ = start()
            first = train(one, data, val, cut)
            state = first["state"]
            endings = []
            for run in (one, bed(noise=True)[0], bed()[0]):
                torch.rand(17)
                noisy = copy.deepcopy(model)
                noisy.load_state_dict(run.state_dict())
                target = run if run is one else noisy
                result = train(target, data, val, 8, state=state)
                endings.append((result, target))
            for result, ended in endings:
                if any(not torch.equal(p, q) for p, q in zip(ended.parameters(), model.parameters())):
                    raise AssertionError("weights")
                if {k: first["log"][k] + result["log"][k] for k in whole["log"]} != whole["log"]:
                    raise AssertionError("log")
                if any(not torch.equal(result["best"][k], whole["best"][k]) for k in whole["best"]):
                    raise AssertionError("best")
    """,
)
right(
    "at many seeds",
    """
    def resumes_exactly(train):
        for seed, late in [(seed, late) for seed in range(10) for late in (False, True)]:

            def run(seed, steps, state=None, model=None):
                torch.manual_seed(seed)
                fresh, data, val = bed(noise=True, adverse=True)
                if late:
                    torch.manual_seed(seed)
                model = model or fresh
                return train(model, data, val, steps, state=state), model

            whole, model = run(seed, 9)
            first, cut = run(seed, 4)
            state = first["state"]
            run(seed + 100, 9, state, cut)
            second, resumed = run(seed + 100, 9, state)
            assert all(map(torch.equal, resumed.parameters(), model.parameters())), "weights"
            assert all(first["log"][k] + second["log"][k] == told for k, told in whole["log"].items()), "log"
            assert all(map(torch.equal, second["best"].values(), whole["best"].values())), "best"
    """,
)
wrong(
    "does not compare the weights",
    (
        """
        for p, q in zip(fresh.parameters(), model.parameters(), strict=True):
            assert torch.equal(p, q), f"resumed {p}, in one piece {q}"
        """,
        "",
    ),
    says=["the weights at the end are not: compare them too"],
)
wrong(
    "cuts at the end of an epoch",
    ("train(other, data, val, 4)", "train(other, data, val, 3)"),
    says=["cut the run within an epoch"],
)

# Task 8 · The repair

wrong, right = LAB.task("repair")

wrong("a new order at every step", ("seed + epoch", "seed + step"), says=["each_example_once should see this"])
wrong(
    "each batch is one example short",
    ("(at + 1) * size", "(at + 1) * size - 1"),
    says=["each_example_once should see this"],
)
wrong("every epoch in the same order", ("seed + epoch", "seed"), says=["each_example_once should see this"])
wrong("gradients are never zeroed", ("optimizer.zero_grad()", ""), says=["gradients_are_of_the_batch"])
wrong(
    "gradients are zeroed for each part",
    ("optimizer.zero_grad()", ""),
    ("error.backward()", "optimizer.zero_grad()\nerror.backward()"),
    says=["gradients_are_of_the_batch"],
)
wrong(
    "resumed with a schedule that begins anew",
    ('schedule.load_state_dict(state["schedule"])', ""),
    says=["resumes_exactly should see this"],
)
wrong(
    "resumed without the optimizers state",
    ('optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))', ""),
    says=["resumes_exactly should see this"],
)
wrong(
    "resumed without the random stream",
    ('torch.set_rng_state(state["random"])', ""),
    says=["resumes_exactly should see this"],
)
wrong(
    "resumed without what was best",
    ('begun, best, lowest = state["step"], state["best"], state["lowest"]', 'begun = state["step"]'),
    says=["resumes_exactly should see this"],
)
wrong(
    "targets that do not count are counted",
    ("(y[chosen] != IGNORE).sum()", "len(chosen)"),
    says=["gradients_are_of_the_batch"],
)
wrong(
    "the best are always the newest",
    ("lowest, best = held_out, copy.deepcopy(model.state_dict())", "best = copy.deepcopy(model.state_dict())"),
    says=["validation_is_apart should see this"],
)
wrong(
    "the best weights go on changing",
    ("held_out, copy.deepcopy(model.state_dict())", "held_out, model.state_dict()"),
    says=["validation_is_apart should see this"],
)
wrong(
    "the last short batch of an epoch is left out",
    ("math.ceil(len(x) / size)", "len(x) // size"),
    says=["each_example_once should see this"],
)
wrong(
    "the loss of the last part is logged",
    ('log["loss"].append(summed)', 'log["loss"].append(error.item() * parts)'),
    says=["reports_are_true should see this"],
)
wrong(
    "the mean of the parts means",
    (
        'F.cross_entropy(model(x[chunk]), y[chunk], reduction="sum") / labelled',
        "F.cross_entropy(model(x[chunk]), y[chunk]) / parts",
    ),
    says=["gradients_are_of_the_batch"],
)
wrong(
    "the momentum in the state goes on changing",
    ('copy.deepcopy(state["optimizer"])', 'state["optimizer"]'),
    says=["resumes_exactly should see this"],
)
wrong(
    "the norm is logged as it is after clipping",
    ("magnitude.item()", "min(magnitude.item(), clip)"),
    says=["reports_are_true should see this"],
)
wrong(
    "the rate is logged as it is after the step",
    ('log["rate"].append(schedule.get_last_lr()[0])', ""),
    ("schedule.step()", 'schedule.step()\nlog["rate"].append(schedule.get_last_lr()[0])'),
    says=["reports_are_true should see this"],
)
wrong(
    "the schedule moves once an epoch",
    ("schedule.step()", ""),
    ("costs, sizes = [], []", "schedule.step()\ncosts, sizes = [], []"),
    says=["steps_follow_the_plan"],
)
wrong(
    "the validation loss is a mean of means",
    ("sum(costs) / sum(sizes)", "sum(a / b for a, b in zip(costs, sizes, strict=True)) / len(costs)"),
    says=["reports_are_true should see this"],
)
wrong("the warm up begins with a rate of 0", ("(step + 1) / warmup", "(step) / warmup"), says=["steps_follow_the_plan"])
wrong(
    "the weights in the state go on changing",
    ('"model": copy.deepcopy(model.state_dict()),', '"model": model.state_dict(),'),
    says=["resumes_exactly should see this"],
)
wrong("validated in training mode", ("model.eval()", ""), says=["validation_is_apart should see this"])
wrong(
    "clipped after the step",
    ("magnitude = nn.utils.clip_grad_norm_(model.parameters(), clip)", ""),
    ('log["norm"].append(magnitude.item())', ""),
    (
        "optimizer.step()",
        """
        optimizer.step()
        magnitude = nn.utils.clip_grad_norm_(model.parameters(), clip)
        log["norm"].append(magnitude.item())
        """,
    ),
    says=["steps_follow_the_plan"],
)
wrong(
    "each part is clipped",
    ("magnitude = nn.utils.clip_grad_norm_(model.parameters(), clip)", ""),
    ("error.backward()", "error.backward()\nmagnitude = nn.utils.clip_grad_norm_(model.parameters(), clip)"),
    says=["steps_follow_the_plan"],
)
wrong(
    "trained in evaluation mode from the second epoch on",
    ("model.train()", ""),
    ("for step in range(begun, steps):", "model.train()\nfor step in range(begun, steps):"),
    says=["validation_is_apart should see this"],
)
wrong(
    "the ready loop pasted",
    with_bugs(),
    says=["the loop of your variant, with at most 10 lines changed", "- per_epoch"],
)
wrong("the ready loop imported", "train = loop_from(silent_bugs.with_bugs())", says=["beginning with def train"])
wrong("the ready loop by its name", "train = silent_bugs.train", says=["at most 10 lines changed"])
wrong(
    "the ready loop called",
    ("x, y = data", "return silent_bugs.train(model, data, val, steps, lr, size, parts, clip, warmup, seed, state)"),
    says=["without silent_bugs"],
)
wrong(
    "the ready loop imported within",
    (
        "x, y = data",
        "from utils.lab.silent_bugs import train as ready\nreturn ready(model, data, val, steps, lr, size)",
    ),
    says=["without import"],
)
wrong("the loop as it was given", planted(0), says=["each_example_once should see this"])
wrong("of another variant", planted(1), says=["the loop of your variant"])
wrong(
    "another loop that is right",
    """
    def train(model, data, val, steps, lr=0.1, size=8, parts=3, clip=math.inf, warmup=3, seed=0, state=None):
        (x, y), n = data, len(data[0])
        parameters = list(model.parameters())
        done, best, lowest = 0, None, math.inf
        if state:
            done, best, lowest = state["step"], state["best"], state["lowest"]
            model.load_state_dict(state["model"])
            torch.set_rng_state(state["random"])
        log = {name: [] for name in ("loss", "norm", "rate", "val_loss")}
        optimizer = torch.optim.SGD(parameters, lr=1.0, momentum=0.9, foreach=False)
        if state:
            optimizer.load_state_dict(copy.deepcopy(state["optimizer"]))
        while done < steps:
            epoch = done // -(-n // size)
            stream = torch.Generator().manual_seed(1_000_003 * seed + epoch)
            batches = torch.rand(n, generator=stream).argsort().split(size)
            for place in range(done % len(batches), min(len(batches), steps - epoch * len(batches))):
                batch, sums, told = batches[place], [0.0] * len(parameters), 0.0
                for part in batch.chunk(parts):
                    model.train()
                    loss = F.cross_entropy(model(x[part]), y[part], reduction="sum", ignore_index=IGNORE)
                    sums = [s + g for s, g in zip(sums, torch.autograd.grad(loss, parameters))]
                    told += loss.item()
                count = int((y[batch] != IGNORE).sum())
                for p, s in zip(parameters, sums):
                    p.grad = s / count
                log["norm"].append(float(nn.utils.clip_grad_norm_(parameters, clip)))
                log["loss"].append(told / count)
                rate = lr * min((done + 1) / warmup, (warmup / (done + 1)) ** 0.5)
                log["rate"].append(rate)
                optimizer.param_groups[0]["lr"] = rate
                optimizer.step()
                optimizer.zero_grad(set_to_none=False)
                done += 1
            if done % len(batches) == 0:
                model.eval()
                with torch.inference_mode():
                    outputs = torch.cat([model(each) for each in val[0].split(4)])
                log["val_loss"].append(F.cross_entropy(outputs, val[1]).item())
                if log["val_loss"][-1] < lowest:
                    lowest = log["val_loss"][-1]
                    best = {name: t.clone() for name, t in model.state_dict().items()}
        saved = {
            "step": done,
            "best": best,
            "lowest": lowest,
            "optimizer": copy.deepcopy(optimizer.state_dict()),
            "random": torch.get_rng_state(),
        }
        saved["model"] = {name: t.clone() for name, t in model.state_dict().items()}
        return {"log": log, "best": best, "state": saved}
    """,
    says=["the loop of your variant"],
)
right("whoever counts apart", ("(y[chosen] != IGNORE).sum()", "sum(int(label != -100) for label in y[chosen])"))
right(
    "with comments and other breaks",
    (
        "epoch, at = divmod(step, per_epoch)",
        """
        # where are we?
        epoch, at = (
            step // per_epoch,  # all of its steps
            step % per_epoch,
        )

        """,
    ),
)
