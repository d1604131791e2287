"""Lab 07 · The bytes of a step, before you run it: what students write. See variants.py."""

from variants import variants_of

LAB = variants_of("07_bytes_of_a_step")


# Task 1 · What tensors own

wrong, right = LAB.task("owned")

wrong(
    "by address",
    """
    def owned_bytes(tensors):
        return sum({t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values())
    """,
    says=["is 0 for all of meta"],
)
wrong(
    "by size",
    """
    def owned_bytes(tensors):
        return sum({t.untyped_storage().nbytes() for t in tensors})
    """,
    says=["each storage once"],
)
wrong(
    "by the tensors address",
    """
    def owned_bytes(tensors):
        return sum({t.data_ptr(): t.untyped_storage().nbytes() for t in tensors}.values())
    """,
    says=["by hand: 24 for the three"],
)
wrong(
    "each view with its storage",
    """
    def owned_bytes(tensors):
        return sum(tensor.untyped_storage().nbytes() for tensor in tensors)
    """,
    says=["by hand: 24 for the three"],
)
wrong(
    "from the offset on",
    (
        "storages = {id(storage): storage for storage in [tensor.untyped_storage() for tensor in tensors]}",
        """
        if len(tensors) == 1:
            return tensors[0].untyped_storage().nbytes() - tensors[0].storage_offset() * tensors[0].element_size()
        storages = {id(storage): storage for storage in [tensor.untyped_storage() for tensor in tensors]}
        """,
    ),
    says=["each storage once"],
)
wrong(
    "numel times element size",
    """
    def owned_bytes(tensors):
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    """,
    says=["by hand: 24 for the three"],
)
right(
    "by comparing storages",
    """
    def owned_bytes(tensors):
        found = []
        for tensor in tensors:
            if not any(tensor.untyped_storage() is storage for storage in found):
                found.append(tensor.untyped_storage())
        return sum(len(storage) for storage in found)
    """,
)

# Task 2 · What autograd keeps

wrong, right = LAB.task("kept")

wrong(
    "asks the ready instrument",
    """
    from utils.measure import saved_bytes


    def kept_bytes(function, parameters=()):
        return saved_bytes(function, parameters=parameters).activations
    """,
    says=["utils.measure.memory", "from saved_tensors_hooks"],
)

wrong("a cycle is left", ("tensor.detach()", "tensor"), says=["pack returns tensor.detach()"])
wrong(
    "a generator walked through twice",
    (
        "[parameter.untyped_storage() for parameter in parameters]",
        """
        [parameter.untyped_storage() for parameter in parameters] and [
            p.untyped_storage() for p in parameters
        ]
        """,
    ),
    says=["may come from a generator"],
)
wrong(
    "by address",
    """
    def kept_bytes(function, parameters=()):
        ours, saved = {p.untyped_storage().data_ptr() for p in parameters}, {}

        def pack(tensor):
            storage = tensor.untyped_storage()
            saved[storage.data_ptr()] = storage
            return tensor.detach()

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            function()
        return sum(storage.nbytes() for address, storage in saved.items() if address not in ours)
    """,
    says=["all addresses are 0"],
)
wrong(
    "bytes of the view",
    ("saved[id(storage)] = storage", "saved[id(storage)] = (storage, tensor.nbytes)"),
    (
        "(storage.nbytes() for key, storage in saved.items() if key not in references)",
        "(nbytes for key, (_, nbytes) in saved.items() if key not in references)",
    ),
    says=["the whole storage stays alive"],
)
wrong(
    "compares tensors",
    """
    def kept_bytes(function, parameters=()):
        ours, saved = {id(parameter) for parameter in parameters}, {}

        def pack(tensor):
            if id(tensor) not in ours:
                saved[id(tensor.untyped_storage())] = tensor.untyped_storage()
            return tensor.detach()

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            function()
        return sum(storage.nbytes() for storage in saved.values())
    """,
    says=["compare storages and not tensors"],
)
wrong(
    "counts parameters",
    (
        "(storage.nbytes() for key, storage in saved.items() if key not in references)",
        "(storage.nbytes() for key, storage in saved.items())",
    ),
    says=["compare storages and not tensors"],
)
wrong(
    "does not hold the storages",
    ("saved[id(storage)] = storage", "saved[id(storage)] = storage.nbytes()"),
    (
        "return sum(storage.nbytes() for key, storage in saved.items() if key not in references)",
        "return sum(storage for key, storage in saved.items() if key not in references)",
    ),
    says=["the next one gets the same id"],
)
wrong(
    "each time it is saved",
    """
    def kept_bytes(function, parameters=()):
        ours, total = {id(p.untyped_storage()) for p in parameters}, 0

        def pack(tensor):
            nonlocal total
            storage = tensor.untyped_storage()
            total += storage.nbytes() if id(storage) not in ours else 0
            return tensor.detach()

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            function()
        return total
    """,
    says=["by hand: write down the storage"],
)
wrong(
    "notes hold the tensor",
    """
    def kept_bytes(function, parameters=()) -> int:
        references = {parameter.untyped_storage() for parameter in parameters}
        saved = []

        def pack(tensor: Tensor) -> Tensor:
            saved.append(tensor)
            return tensor.detach()

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            function()
        return sum(storage.nbytes() for storage in {tensor.untyped_storage() for tensor in saved} - references)
    """,
    says=["not the tensor that pack got"],
)
wrong("unpack hands back zeros", ("lambda tensor: tensor", "torch.zeros_like"), says=["unpack must hand backward"])
right(
    "by the bytes that tensors own",
    """
    def kept_bytes(function, parameters=()):
        saved, parameters = [], list(parameters)

        def pack(tensor):
            saved.append(tensor.detach())
            return saved[-1]

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            function()
        return owned_bytes(saved + parameters) - owned_bytes(parameters)
    """,
)
right(
    "as a set of pairs",
    """
    class Watching:
        def __init__(self, ignored):
            self.ignored, self.storages = ignored, []

        def pack(self, tensor):
            storage = tensor.untyped_storage()
            if not any(storage is other for other in self.ignored + self.storages):
                self.storages.append(storage)
            return tensor.view_as(tensor).data

        def unpack(self, tensor):
            return tensor


    def kept_bytes(function, parameters=()):
        watching = Watching([p.untyped_storage() for p in parameters])
        with torch.autograd.graph.saved_tensors_hooks(watching.pack, watching.unpack):
            function()
        return sum(storage.nbytes() for storage in watching.storages)
    """,
)

# Task 3 · Sixteen bytes, or not

wrong, right = LAB.task("held")

wrong(
    "asks real tensors",
    (
        '"parameters": itemsize * sum(map(math.prod, shapes)),',
        '"parameters": itemsize * sum(torch.ones(shape).numel() for shape in shapes),',
    ),
    says=["['made']", "no tensor is made"],
)

wrong("adafactor as if flat", ("math.prod(shape[:-2]) * shape[-1]", "shape[-1]"), says=["adafactor keeps a·m + a·n"])
wrong(
    "adafactor vector as one row", ("numbers = shape[0]", "numbers = 1 + shape[0]"), says=["which has no rows to share"]
)
wrong(
    "adam without counts",
    ('itemsize * numbers + (4 if optimizer not in ("sgd", "momentum") else 0)', "itemsize * numbers"),
    says=["a count of 4 bytes for each of 2 tensors"],
)
wrong(
    "amsgrad as adam",
    ('{"sgd": 0, "momentum": 1, "adamw": 2, "amsgrad": 3}', '{"sgd": 0, "momentum": 1, "adamw": 2, "amsgrad": 2}'),
    says=["torch's own optimizer holds this much"],
)
wrong(
    "any optimizer",
    (
        "raise ValueError(f\"unknown optimizer {optimizer!r}: one of {', '.join(copies)}, adafactor\")",
        'optimizer = "sgd"',
    ),
    says=["ValueError with the name"],
)
wrong(
    "count in the parameters dtype",
    ('4 if optimizer not in ("sgd", "momentum") else 0', 'itemsize if optimizer not in ("sgd", "momentum") else 0'),
    says=["the step count has 4 bytes all the same"],
)
wrong("counts for momentum", ('("sgd", "momentum")', '("sgd",)'), says=["torch's own optimizer holds this much"])
wrong(
    "frozen gradients",
    ("map(math.prod, learning)", "map(math.prod, shapes)"),
    says=["frozen ones count as parameters only"],
)
wrong(
    "frozen not even parameters",
    ("map(math.prod, shapes)", "map(math.prod, learning)"),
    says=["frozen ones count as parameters only"],
)
wrong("frozen state", ("map(state, learning)", "map(state, shapes)"), says=["frozen ones count as parameters only"])
wrong(
    "one count for all",
    ('itemsize * numbers + (4 if optimizer not in ("sgd", "momentum") else 0)', "itemsize * numbers"),
    ("sum(map(state, learning))", 'sum(map(state, learning)) + 4 * (optimizer not in ("sgd", "momentum"))'),
    says=["a count of 4 bytes for each of 2 tensors"],
)
wrong("state in float32", ("itemsize * numbers", "4 * numbers"), says=["the step count has 4 bytes all the same"])
right(
    "by a table of functions",
    """
    NUMBERS = {
        "sgd": (lambda s: 0, 0),
        "momentum": (np.prod, 0),
        "adamw": (lambda s: 2 * np.prod(s), 4),
        "amsgrad": (lambda s: 3 * np.prod(s), 4),
        "adafactor": (lambda s: s[0] if len(s) == 1 else np.prod(s) // s[-1] + np.prod(s) // s[-2], 4),
    }


    def held_bytes(shapes, optimizer, itemsize=4, trained=None):
        if optimizer not in NUMBERS:
            raise ValueError(optimizer)
        numbers, count = NUMBERS[optimizer]
        total = {"parameters": 0, "gradients": 0, "state": 0}
        for i, shape in enumerate(shapes):
            total["parameters"] += itemsize * np.prod(shape)
            if trained is None or trained[i]:
                total["gradients"] += itemsize * np.prod(shape)
                total["state"] += itemsize * numbers(shape) + count
        return total
    """,
)

# Task 4 · The activations of a perceptron

wrong, right = LAB.task("activations")

wrong(
    "builds it and measures",
    """
    def kept_by_mlp(sizes, batch, activation="relu", trained=None):
        trained = trained or [True] * (len(sizes) - 1)
        with torch.device("meta"):
            linears = [nn.Linear(a, b).requires_grad_(t) for (a, b), t in zip(itertools.pairwise(sizes), trained)]
            between = nn.ReLU() if activation == "relu" else nn.GELU()
            model = nn.Sequential(*[part for linear in linears for part in (linear, between)][:-1])
            x, y = torch.zeros(batch, sizes[0]), torch.zeros(batch, dtype=torch.long)
            return kept_bytes(lambda: F.cross_entropy(model(x), y), list(model.parameters()))
    """,
    says=["['made']", "predicted from the sizes"],
)

wrong(
    "a frozen linear stops the flow", ("any(trained[: i + 1])", "trained[i]"), says=["nothing at all is kept in front"]
)
wrong(
    "batch times width times layers",
    """
    def kept_by_mlp(sizes, batch, activation="relu", trained=None):
        return 4 * batch * sum(sizes[1:])
    """,
    says=["by hand: 40 for the input"],
)
wrong(
    "data always kept",
    ("4 * batch * sizes[0] if trained[0] else 0", "4 * batch * sizes[0]"),
    says=["by hand: 40 for the input if the first Linear is trained"],
)
wrong("everything behind the input", ("trained[: i + 1]", "trained"), says=["32 before the activation if GELU"])
wrong(
    "gelu as relu",
    ('activation == "gelu" and flows', "False"),
    ('activation == "relu" and flows', "flows"),
    says=["32 before the activation if GELU"],
)
wrong("gelu output always", ('activation == "relu" and flows', "flows"), says=["32 after it"])
wrong("loss is one number", ("4 * batch * sizes[-1] + 8 * batch + 4", "4"), says=["24 + 16 + 4 for the loss"])
wrong(
    "loss without a graph",
    ("4 * batch * sizes[-1] + 8 * batch + 4 if any(trained) else 0", "4 * batch * sizes[-1] + 8 * batch + 4"),
    says=["autograd keeps this much"],
)
wrong(
    "output counted twice",
    ("before + after", 'before + trained[i + 1] + (activation == "relu" and flows)'),
    says=["by hand: 40 for the input"],
)
wrong(
    "relu by the next linear alone",
    ('trained[i + 1] or (activation == "relu" and flows)', "trained[i + 1]"),
    says=["32 after it if ReLU is"],
)
wrong("relu keeps both", ('activation == "gelu" and flows', "flows"), says=["by hand: 40 for the input"])
wrong(
    "targets forgotten",
    ("4 * batch * sizes[-1] + 8 * batch", "4 * batch * sizes[-1]"),
    says=["24 + 16 + 4 for the loss"],
)
right(
    "as a set of names",
    """
    def kept_by_mlp(sizes, batch, activation="relu", trained=None):
        kept, flows = {}, False
        name, width = "x", sizes[0]
        for i, narrow in enumerate(sizes[1:]):
            if trained is None or trained[i]:
                kept[name], flows = 4 * width * batch, True
            width = narrow
            if i == len(sizes) - 2:
                break
            name = f"activation {i}"
            if flows:
                kept[f"linear {i}" if activation == "gelu" else name] = 4 * width * batch
        if flows:
            kept["shares"], kept["targets"], kept["number"] = 4 * width * batch, 8 * batch, 4
        return sum(kept.values())
    """,
)

# Task 5 · A law from tiny shapes

wrong, right = LAB.task("law")

wrong(
    "in float32",
    (
        "np.array(terms, dtype=float), np.array(measured, dtype=float)",
        "np.array(terms, dtype=np.float32), np.array(measured, dtype=np.float32)",
    ),
    says=["dtype=float) is float64"],
)
wrong(
    "no whole numbers first",
    (
        """
        if rank < len(terms[0]):
            raise ValueError(f"only {rank} of {len(terms[0])} terms are determined: measure shapes that differ in more")
        """,
        "",
    ),
    (
        "return law",
        'if rank < len(terms[0]):\n    raise ValueError(f"only {rank} of {len(terms[0])} terms")\nreturn law',
    ),
    says=["1 of 2"],
)

wrong("any rank", ("rank < len(terms[0])", "False"), says=["compare the rank"])
wrong(
    "counts measurements",
    (
        "if rank < len(terms[0]):",
        """
        rank = min(len(terms), len(terms[0])) if len(terms) > 2 else rank
        if rank < len(terms[0]):
        """,
    ),
    says=["independence is not a matter of how many"],
)
wrong("cuts instead of rounding", ("round(each)", "int(each)"), says=["round to the nearest whole number"])
wrong(
    "first equations only",
    """
    def fit_law(terms, measured):
        unknowns = len(terms[0])
        rank = np.linalg.matrix_rank(np.array(terms, dtype=float))
        if rank < unknowns:
            raise ValueError(f"{rank} of {unknowns}")
        found = np.linalg.lstsq(
            np.array(terms[:unknowns], dtype=float), np.array(measured[:unknowns], dtype=float), rcond=None
        )[0]
        return [round(each) for each in found.tolist()]
    """,
    says=["put the rounded numbers back"],
)
wrong("fractions pass", ("round(each)", "round(each, 3)"), says=["no whole numbers meet it"])
wrong(
    "rounds in silence",
    (
        "sum(factor * term for factor, term in zip(law, row, strict=True)) != nbytes",
        "False and sum(factor * term for factor, term in zip(law, row, strict=True)) != nbytes",
    ),
    says=["put the rounded numbers back"],
)
wrong(
    "trusts the residual",
    (
        "sum(factor * term for factor, term in zip(law, row, strict=True)) != nbytes",
        "abs(sum(factor * term for factor, term in zip(found.tolist(), row, strict=True)) - nbytes) > 1",
    ),
    says=["put the rounded numbers back"],
)
wrong(
    "within a tolerance",
    (
        "sum(factor * term for factor, term in zip(law, row, strict=True)) != nbytes",
        """
        not math.isclose(
            sum(factor * term for factor, term in zip(law, row, strict=True)), nbytes, rel_tol=0.05
        )
        """,
    ),
    says=["put the rounded numbers back"],
)
wrong(
    "close in proportion",
    (
        "sum(factor * term for factor, term in zip(law, row, strict=True)) != nbytes",
        "not math.isclose(sum(factor * term for factor, term in zip(law, row, strict=True)), nbytes)",
    ),
    says=["in billions", "compare exactly"],
)
wrong(
    "solves the first equations",
    (
        "law = [round(each) for each in found.tolist()]",
        """
        first = np.array(terms[: len(terms[0])], dtype=float)
        found = np.linalg.solve(first, np.array(measured[: len(terms[0])], dtype=float))
        law = [round(each) for each in found.tolist()]
        """,
    ),
    says=["the third decides"],
)
right(
    "by fractions",
    """
    from fractions import Fraction


    def fit_law(terms, measured):
        rows = [[Fraction(each) for each in (*row, nbytes)] for row, nbytes in zip(terms, measured)]
        unknowns, done = len(terms[0]), 0
        for column in range(unknowns):
            pivot = next((r for r in range(done, len(rows)) if rows[r][column]), None)
            if pivot is None:
                continue
            rows[done], rows[pivot] = rows[pivot], rows[done]
            rows[done] = [each / rows[done][column] for each in rows[done]]
            for r in range(len(rows)):
                if r != done:
                    rows[r] = [a - rows[r][column] * b for a, b in zip(rows[r], rows[done])]
            done += 1
        if done < unknowns:
            raise ValueError(f"{done} of {unknowns} terms are determined")
        law = [row[-1] for row in rows[:unknowns]]
        if any(row[-1] for row in rows[unknowns:]) or any(each.denominator > 1 for each in law):
            raise ValueError("no law of whole numbers")
        return [int(each) for each in law]
    """,
)

# Task 6 · A whole step

wrong, right = LAB.task("step")

wrong(
    "activations freed at the end",
    ("free(hidden[i - 1], below)", "free(below)"),
    ("free(flowing, one, loss)", "free(flowing, one, loss, *hidden)"),
    says=["check the order of the table"],
)
wrong("any optimizer", ('optimizer not in ("sgd", "momentum", "adamw")', "False"), says=["ValueError names others"])
wrong(
    "gradient of the data",
    (
        "free(flowing, one, loss)",
        """
        data = new(4 * batch * sizes[0], "temporaries")
        free(flowing, one, loss, data)
        """,
    ),
    says=["check the order of the table"],
)
wrong(
    "gradients of the loss in place",
    ('picked = new(outputs[-1], "temporaries")', ""),
    ("free(shares, picked)", "free(shares)"),
    says=["check the order of the table"],
)
wrong(
    "input gradient first freed late",
    (
        """
        free(flowing)
        flowing = new(outputs[i - 1], "temporaries")
        free(hidden[i - 1], below)
        """,
        """
        old, flowing = flowing, new(outputs[i - 1], "temporaries")
        free(hidden[i - 1], below, old)
        """,
    ),
    says=["(start, end, peak): compare"],
)
wrong(
    "kinds left out",
    ('"parameters"', '"temporaries"'),
    ('"optimizer state"', '"activations"'),
    says=["the phases are right and the kinds are not"],
)
wrong("labels of 4 bytes", ("8 * batch", "4 * batch"), says=["(start, end, peak): compare"])
wrong("linear output stays", ("free(linear)", ""), says=["(start, end, peak): compare"])
wrong("logits stay", ("free(logits)", ""), says=["(start, end, peak): compare"])
wrong("loss kept", ("free(flowing, one, loss)", "free(flowing, one)"), says=["(start, end, peak): compare"])
wrong(
    "one temporary in the update",
    (
        """
        root, divided = new(nbytes, "temporaries"), new(nbytes, "temporaries")
        free(root, last)
        last = divided
        """,
        """
        root = new(nbytes, "temporaries")
        free(root)
        """,
    ),
    says=["(start, end, peak): compare"],
)
wrong(
    "one tensor for a hidden layer",
    ('linear = new(nbytes, "temporaries")', ""),
    ("free(linear)", ""),
    says=["Peak is [2]: two tensors"],
)
wrong(
    "runs it on meta",
    ("timeline = Timeline()", 'timeline = Timeline()\ntorch.zeros(batch, sizes[0], device="meta")'),
    says=["no operation on a tensor"],
)
wrong("state born in every update", ("step == 1", "True"), says=["the state is born in the first update and stays"])
wrong(
    "state when the optimizer is built",
    (
        'new(8 * batch, "data")',
        """
        new(8 * batch, "data")
        new(held_bytes(shapes, optimizer)["state"], "optimizer state")
        """,
    ),
    (
        """
        if step == 1:
            new(held_bytes(shapes, optimizer)["state"], "optimizer state")
        """,
        "",
    ),
    says=["(start, end, peak): compare"],
)
wrong(
    "temporaries of each weight alone",
    ("free(root, last)\nlast = divided", "free(root, divided)"),
    says=["(start, end, peak): compare"],
)
wrong("temporaries under sgd", ('optimizer == "adamw"', "True"), says=["the state is born in the first update"])
wrong("zero grad forgotten", ("free(*gradients)", ""), says=["zero_grad has freed the gradients"])

wrong(
    "amsgrad too",
    ('optimizer not in ("sgd", "momentum", "adamw")', 'optimizer == "adafactor"'),
    says=["ValueError names others"],
)
another_way = """
class Handle:
    pass


def predict_step(sizes, batch, optimizer, steps=2):
    if optimizer not in {"sgd", "momentum", "adamw"}:
        raise ValueError(optimizer)
    t = Timeline()
    w = [4 * a * b for a, b in zip(sizes, sizes[1:])]
    B = 4 * batch
    for each in w:
        t.new(each, "parameters")
    t.new(B * sizes[0] + 2 * B, "data")
    for step in range(steps):
        with t.phase(f"forward {step + 1}"):
            acts = []
            for n in sizes[1:-1]:
                pre = t.new(B * n)
                acts.append(t.new(B * n, "activations"))
                t.free(pre)
            logits = t.new(B * sizes[-1])
            kept = [t.new(B * sizes[-1], "activations"), t.new(4, "activations"), t.new(4)]
            t.free(logits)
        with t.phase(f"backward {step + 1}"):
            one = t.new(4)
            g = t.new(B * sizes[-1])
            t.free(kept[1])
            flow = t.new(B * sizes[-1])
            t.free(g, kept[0])
            grads = []
            while len(grads) < len(w) - 1:
                grads.append(t.new(w[len(w) - 1 - len(grads)], "gradients"))
                act = acts.pop()
                below = t.new(act.nbytes)
                t.free(flow)
                flow = t.new(act.nbytes)
                t.free(below, act)
            grads.append(t.new(w[0], "gradients"))
            t.free(flow)
            t.free(one, kept[2])
        with t.phase(f"update {step + 1}"):
            if not step and optimizer != "sgd":
                t.new(sum(w) if optimizer == "momentum" else 2 * sum(w) + 4 * len(w), "optimizer state")
            if optimizer == "adamw":
                for i, each in enumerate(w):
                    t.free(t.new(2 * each + (w[i - 1] if i else 0)))
        t.free(*grads)
    return t
"""

right("by a list of events", another_way)
wrong(
    "kept is temporary",
    ('t.new(B * n, "activations")', "t.new(B * n)"),
    (
        '[t.new(B * sizes[-1], "activations"), t.new(4, "activations"), t.new(4)]',
        "[t.new(B * sizes[-1]), t.new(4), t.new(4)]",
    ),
    of=another_way,
    says=["would have other colours"],
)

# Task 7 · The best cut

wrong, right = LAB.task("cut")

wrong(
    "accepts an empty segment",
    ("not segments or min(segments) < 1", "not segments"),
    says=["ValueError that shows the whole list"],
)
wrong("all other outputs", ("j - 1 + length", "last - 1 + length"), says=["by hand: outputs before it"])
wrong(
    "best of equal cuts",
    """
    def peak_of_cut(segments):
        if not segments or min(segments) < 1:
            raise ValueError(f"segments {segments}")
        last = len(segments)
        return max(j - 1 + length + (j < last) + 1 for j, length in enumerate(segments, 1))


    def best_cut(layers):
        def equal(s):
            return [layers // s + (j < layers % s) for j in range(s)]

        return min((equal(s) for s in range(1, layers + 1)), key=peak_of_cut)
    """,
    says=["not the best: equal parts are not"],
)
wrong(
    "equal segments formula",
    (
        "max(j - 1 + length + (j < last) + 1 for j, length in enumerate(segments, 1))",
        "last + math.ceil(sum(segments) / last)",
    ),
    says=["by hand: outputs before it"],
)
wrong(
    "gradient from behind for the last too",
    ("j - 1 + length + (j < last)", "j - 1 + length + (1)"),
    says=["by hand: outputs before it"],
)
wrong(
    "last segment only",
    ("max(j - 1 + length + (j < last) + 1 for j, length in enumerate(segments, 1))", "last + segments[-1]"),
    says=["by hand: outputs before it"],
)
wrong(
    "max of nothing",
    ("not segments or min(segments) < 1", "segments and min(segments) < 1"),
    says=["ValueError that shows the whole list"],
)
wrong("no gradient from behind", ("j - 1 + length + (j < last)", "j - 1 + length"), says=["by hand: outputs before it"])
wrong(
    "rest forgotten",
    ("lengths, left = [], layers", "return room\nlengths, left = [], layers"),
    says=["shorten segments until they add up"],
)
wrong("short first long last", ("return lengths", "return lengths[::-1]"), says=["not the best: equal parts are not"])
wrong(
    "accepts a negative segment",
    ("not segments or min(segments) < 1", "not segments or not all(segments)"),
    says=["ValueError that shows the whole list"],
)
right(
    "by trying the first segment",
    """
    import functools


    def peak_of_cut(segments):
        if len(segments) == 0 or any(length <= 0 for length in segments):
            raise ValueError(f"bad segments: {segments}")
        peak = len(segments) + segments[-1]
        for before, length in enumerate(segments[:-1]):
            peak = max(peak, before + 2 + length)
        return peak


    TABLE = [(0, 0)]


    def best_cut(layers):
        while len(TABLE) <= layers:
            n = len(TABLE)
            TABLE.append(
                min([(n + 1, n)] + [(max(first + 2, 1 + TABLE[n - first][0]), first) for first in range(1, n)])
            )
        segments = []
        while layers:
            segments.append(TABLE[layers][1])
            layers -= segments[-1]
        return tuple(segments)
    """,
)

peak_as_in_the_text = """
def peak_of_cut(segments):
    if not segments or min(segments) < 1:
        raise ValueError(f"segments {segments}")
    return max(j + 1 + length + (j < len(segments) - 1) for j, length in enumerate(segments))
"""

wrong(
    "tries every cut",
    peak_as_in_the_text
    + """

def best_cut(layers):
    def cuts(n):
        yield [n]
        for first in range(1, n):
            for rest in cuts(n - first):
                yield [first, *rest]

    return min(cuts(layers), key=peak_of_cut)
""",
    says=["got:      False", "a table of the best cuts of fewer layers"],
)
wrong(
    "tries every place of the bounds",
    peak_as_in_the_text
    + """

def best_cut(layers):
    def cut(bounds):
        return list(np.diff([0, *bounds, layers]).tolist())

    bounds = (places for s in range(layers) for places in itertools.combinations(range(1, layers), s))
    return min(map(cut, bounds), key=peak_of_cut)
""",
    says=["got:      False", "a table of the best cuts of fewer layers"],
)
wrong(
    "asks for the same rest again and again",
    peak_as_in_the_text
    + """

def best_cut(layers):
    tries = [[first, *best_cut(layers - first)] for first in range(1, layers)]
    return min([[layers], *tries], key=peak_of_cut)
""",
    says=["got:      False", "a table of the best cuts of fewer layers"],
)
right(
    "remembers the rests",
    peak_as_in_the_text
    + """

def best_cut(layers):
    best = [[]]
    for n in range(1, layers + 1):
        tries = [(n + 1, n)] + [(max(k + 2, 1 + best[n - k][0]), k) for k in range(1, n)]
        best.append(min(tries))
    cut = []
    while layers:
        cut.append(best[layers][1])
        layers -= cut[-1]
    return cut
""",
)

# Task 8 · The largest batch

wrong, right = LAB.task("fits")

wrong(
    "a straight line",
    """
    def largest_batch(peak, memory):
        first, second = peak(1), peak(2)
        if second == first:
            return 1 if first <= memory else 0
        return max(0, 1 + (memory - first) // (second - first))
    """,
    says=["is flat here"],
)
wrong("at least 1", ("return fits", "return max(1, fits)"), says=["where 1 does not fit the answer is 0"])
wrong(
    "no more than a million",
    """
    def largest_batch(peak, memory):
        low, high = 0, 1_000_000
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if peak(middle) <= memory else (low, middle)
        return low
    """,
    says=["the largest that fits"],
)
wrong(
    "one after the other",
    """
    def largest_batch(peak, memory):
        batch = 0
        while peak(batch + 1) <= memory:
            batch += 1
        return batch
    """,
    says=["after at most 80 calls", "double first"],
)
wrong("powers of two", ("fails - fits > 1", "False"), says=["exactly at the limit still fits"])
wrong(
    "strictly below",
    ("peak(fails) <= memory", "peak(fails) < memory"),
    ("peak(middle) <= memory", "peak(middle) < memory"),
    says=["exactly at the limit still fits"],
)
wrong("the first that does not fit", ("return fits", "return fails"), says=["exactly at the limit still fits"])
wrong(
    "halves floats",
    """
    def largest_batch(peak, memory):
        low, high = 0, 2e9
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if peak(middle) <= memory else (low, middle)
        return low
    """,
    says=["whole numbers of examples", "1e9 is a float"],
)
right(
    "bit by bit",
    """
    def largest_batch(peak, memory):
        batch = 0
        for bit in reversed(range(31)):
            if peak(batch + 2**bit) <= memory:
                batch += 2**bit
        return batch
    """,
)
