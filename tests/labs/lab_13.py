"""Lab 13 · One graph, three graphs, one file: what students write. See variants.py."""

from variants import variants_of

LAB = variants_of("13_one_graph")


# Task 1 · A backend that counts

wrong, right = LAB.task("watch")

wrong(
    "all nodes",
    ('[node for node in module.graph.nodes if node.op.startswith("call_")]', "[node for node in module.graph.nodes]"),
    says=["by hand: one list of names"],
)
wrong(
    "counts only changes",
    (
        "counts.append(len(graphs))",
        """
        if len(graphs) not in counts:
            counts.append(len(graphs))
        """,
    ),
    says=["by hand: one list of names"],
)
wrong(
    "functions only", ('node.op.startswith("call_")', 'node.op == "call_function"'), says=["by hand: one list of names"]
)
wrong(
    "graphs of each call",
    (
        """
        compiled(*call)
        counts.append(len(graphs))
        """,
        """
        before = len(graphs)
        compiled(*call)
        counts.append(len(graphs) - before)
        """,
    ),
    says=["by hand: one list of names"],
)
wrong(
    "names of nodes",
    ('getattr(node.target, "__name__", str(node.target))', 'node.name.rstrip("_0123456789")'),
    says=["names of the nodes whose op starts with call_"],
)
wrong(
    "one list for all",
    (
        "def watch",
        """
        seen = []


        def watch
        """,
    ),
    ("graphs, counts = [], []", "counts = []"),
    ("graphs.append", "seen.append"),
    ("len(graphs)", "len(seen)"),
    ("return graphs, counts", "return seen, counts"),
    says=["start each time with torch.compiler.reset() and an empty list"],
)
wrong(
    "settings left out",
    ("torch.compile(function, backend=backend, **settings)", "torch.compile(function, backend=backend)"),
    says=["hand the settings to torch.compile"],
)
wrong(
    "targets as strings",
    ('getattr(node.target, "__name__", str(node.target))', "str(node.target)"),
    says=["by hand: one list of names"],
)
wrong("without reset", ("torch.compiler.reset()", ""), says=["start each time with torch.compiler.reset()"])
right(
    "as a class",
    """
    class Notes:
        def __init__(self):
            self.graphs = []

        def __call__(self, module, inputs):
            names = []
            for node in module.graph.nodes:
                if node.op in ("call_function", "call_method", "call_module"):
                    names.append(node.target if isinstance(node.target, str) else node.target.__name__)
            self.graphs.append(names)
            return module


    def watch(function, calls, **settings):
        torch._dynamo.reset()
        notes, counts = Notes(), []
        compiled = torch.compile(function, backend=notes, **settings)
        for arguments in calls:
            compiled(*arguments)
            counts += [len(notes.graphs)]
        return notes.graphs, counts
    """,
)
wrong(
    "resets at the end",
    (
        """
        torch.compiler.reset()
        graphs, counts = [], []
        """,
        "graphs, counts = [], []",
    ),
    ("return graphs, counts", "torch.compiler.reset()\nreturn graphs, counts"),
    says=["start each time with torch.compiler.reset()"],
)


# Task 2 · A branch on the data

wrong, right = LAB.task("limited")

wrong("always scaled", ("min=limit", "min=1e-6"), says=["by hand: scaled to the norm 1, unchanged"])
wrong(
    "as found",
    """
    def limited(x, limit):
        norm = x.norm()
        if norm > limit:
            x = x * (limit / norm)
        return x
    """,
    says=["in the line: if norm > limit:", "the choice must be an operation"],
)
wrong("clamps at 1", ("min=limit", "min=1.0"), says=["the norm of all numbers"])
wrong("detached", ("x.norm().clamp", "x.detach().norm().clamp"), says=["so do not detach it"])
wrong(
    "each number",
    """
    def limited(x, limit):
        return x.clamp(-limit, limit)
    """,
    says=["by hand: scaled to the norm 1"],
)
wrong(
    "each row", ("x.norm().clamp", "x.norm(dim=-1, keepdim=True).clamp"), says=["the norm of all numbers of x together"]
)
wrong(
    "item",
    """
    def limited(x, limit):
        norm = x.norm().item()
        return x * (limit / norm) if norm > limit else x
    """,
    says=["the choice must be an operation"],
)
wrong(
    "where divides by 0",
    """
    def limited(x, limit):
        norm = x.norm()
        return torch.where(norm > limit, x * (limit / norm), x)
    """,
    says=["NaN at 0"],
)
wrong(
    "with a small epsilon",
    """
    def limited(x, limit):
        return x * (limit / (x.norm() + 1e-6)).clamp(max=1)
    """,
    says=["the norm of all numbers"],
)
right(
    "by cond",
    """
    def limited(x, limit):
        norm = x.norm()
        return torch.cond(norm > limit, lambda x: x * (limit / x.norm()), lambda x: x.clone(), (x,))
    """,
)
right(
    "by where twice",
    """
    def limited(x, limit):
        norm = x.norm()
        above = norm > limit
        safe = torch.where(above, norm, torch.ones_like(norm))
        return torch.where(above, x * limit / safe, x)
    """,
)

# Task 3 · Four breaks in a model

wrong, right = LAB.task("reader")

wrong(
    "a list of notes",
    (
        'self.register_buffer("bad", torch.zeros((), dtype=torch.long))',
        """
        self.register_buffer("bad", torch.zeros((), dtype=torch.long))
        self.sizes = []
        """,
    ),
    ("self.bad += x.isnan().any()", "self.sizes.append(len(x))\nself.bad += x.isnan().any()"),
    (
        """
        means = torch.where(real[..., None], h, 0.0).sum(1) / lengths[:, None]
        return self.outer(means)
        """,
        "return self.outer(torch.where(real[..., None], h, 0.0).sum(1) / lengths[:, None])",
    ),
    says=["at most 2 graphs"],
)
wrong(
    "a loop over the texts",
    (
        """
        real = torch.arange(x.shape[1], device=x.device) < lengths[:, None]
        means = torch.where(real[..., None], h, 0.0).sum(1) / lengths[:, None]
        """,
        """
        place = torch.arange(x.shape[1], device=x.device)
        means = torch.stack([(h[i] * (place < lengths[i])[:, None]).sum(0) / lengths[i] for i in range(len(x))])
        """,
    ),
    says=["at most 2 graphs"],
)
wrong("always divided", ("torch.where(top > 0.5, top, 1.0)", "top"), says=["if that is above one half"])
wrong(
    "as found",
    """
    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.outer = nn.Linear(8, 16), nn.Linear(16, 3)
            self.register_buffer("bad", torch.zeros((), dtype=torch.long))

        def forward(self, x, lengths):
            print(f"{len(x)} texts", end="; ")
            if x.isnan().any():
                self.bad += 1
                x = torch.where(x.isnan(), 0.0, x)
            h = self.inner(x).tanh()
            top = h.abs().max().item()
            h = h / top if top > 0.5 else h
            means = [row[:length].mean(0) for row, length in zip(h, lengths.tolist(), strict=True)]
            return self.outer(torch.stack(means))
    """,
    says=["this line still breaks the graph"],
)
wrong(
    "bad after the cure",
    (
        """
        self.bad += x.isnan().any()
        x = torch.where(x.isnan(), 0.0, x)
        """,
        """
        x = torch.where(x.isnan(), 0.0, x)
        self.bad += x.isnan().any()
        """,
    ),
    says=["before the NaN are replaced"],
)
wrong("bad counts numbers", ("x.isnan().any", "x.isnan().sum"), says=["1 a batch"])
wrong("check left out", ("self.bad += x.isnan().any()", ""), says=["bad counts the batches"])
wrong(
    "clamped at a half", ("torch.where(top > 0.5, top, 1.0)", "top.clamp(min=0.5)"), says=["if that is above one half"]
)
wrong(
    "disabled",
    (
        "def forward(self, x: Tensor, lengths: Tensor) -> Tensor:",
        """
        @torch.compiler.disable
        def forward(self, x, lengths):
        """,
    ),
    (
        """
        means = torch.where(real[..., None], h, 0.0).sum(1) / lengths[:, None]
        return self.outer(means)
        """,
        "return self.outer(torch.where(real[..., None], h, 0.0).sum(1) / lengths[:, None])",
    ),
    says=["this line still breaks the graph"],
)
wrong(
    "mean over all places",
    ("torch.where(real[..., None], h, 0.0).sum(1) / lengths[:, None]", "torch.where(real[..., None], h, 0.0).mean(1)"),
    says=["the first lengths[i] places"],
)
wrong("nan left in", ("x = torch.where(x.isnan(), 0.0, x)", ""), says=["after dividing by the largest size"])
wrong(
    "number left in",
    ("h.detach().abs().max", "h.abs().max().item"),
    ("h / torch.where(top > 0.5, top, 1.0)", "h / top if top > 0.5 else h"),
    says=["this line still breaks the graph"],
)
wrong("top not detached", ("h.detach()", "h"), says=["cut the largest size off from the graph"])
wrong(
    "top of each text",
    ("h.detach().abs().max()", "h.detach().abs().amax((1, 2), keepdim=True)"),
    says=["the largest size of *all* places"],
)
right(
    "by a product of masks",
    """
    class Reader(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.outer = nn.Linear(8, 16), nn.Linear(16, 3)
            self.register_buffer("bad", torch.zeros((), dtype=torch.long))

        def forward(self, x, lengths):
            self.bad = self.bad + x.isnan().any().long()
            h = self.inner(x.masked_fill(x.isnan(), 0)).tanh()
            with torch.no_grad():
                top = h.abs().amax()
                factor = 1 / torch.where(top > 0.5, top, torch.ones_like(top))
            weights = (torch.arange(x.size(1), device=x.device)[None] < lengths[:, None]).to(h.dtype) / lengths[
                :, None
            ]
            return self.outer(torch.einsum("bt,btd->bd", weights, h * factor))
    """,
)
wrong(
    "bad as a float",
    ("self.bad += x.isnan().any()", "self.bad = self.bad + x.isnan().any().float()"),
    says=["a count is a whole number"],
)
wrong(
    "infinities too",
    ("torch.where(x.isnan(), 0.0, x)", "torch.nan_to_num(x)"),
    says=["an infinity is no NaN"],
)

# Task 4 · From eleven graphs to three

wrong, right = LAB.task("loop")

wrong(
    "as found",
    """
    def train(model, optimizer, batches, held_out, epochs: int, compile) -> dict:
        rows = []

        def loss_of(x, y, phase):
            rows.append(len(x))
            loss = F.cross_entropy(model(x.float()), y)
            return loss.detach() if "valid" in phase else loss

        loss_of = compile(loss_of)

        def validate(phase, without_gradients) -> float:
            model.eval()
            total = count = 0
            with without_gradients():
                for x, y in held_out:
                    total += loss_of(x, y, phase).item() * len(y)
                    count += len(y)
            return total / count

        history = {"train": [], "valid": [], "rows": rows}
        for epoch in range(epochs):
            model.train()
            total = count = 0
            for x, y in batches:
                optimizer.zero_grad()
                loss = loss_of(x, y, f"train {epoch}")
                loss.backward()
                optimizer.step()
                total += loss.item() * len(y)
                count += len(y)
            history["train"].append(total / count)
            history["valid"].append(validate(f"valid {epoch}", torch.no_grad))
        history["final"] = validate("final valid", torch.inference_mode)
        return history
    """,
    says=["One more at every call"],
)
wrong(
    "final reused",
    ('history["final"] = validate()', 'history["final"] = history["valid"][-1]'),
    says=["rows has one number for each batch"],
)
wrong(
    "inference mode at the end",
    ("def validate() -> float:", "def validate(off=torch.no_grad) -> float:"),
    ("with torch.no_grad():", "with off():"),
    ('history["final"] = validate()', 'history["final"] = validate(torch.inference_mode)'),
    says=["inference_mode is not no_grad"],
)
wrong(
    "last batch left out",
    ("for x, y in batches:", "for x, y in [pair for pair in batches if len(pair[1]) == len(batches[0][1])]:"),
    says=["rows has one number for each batch"],
)
wrong(
    "list left in",
    (
        "loss_of = compile(lambda x, y: F.cross_entropy(model(x), y))",
        """
        def loss_of(x, y):
            rows.append(len(x))
            return F.cross_entropy(model(x), y)

        loss_of = compile(loss_of)
        """,
    ),
    (
        """
        for x, y in held_out:
            rows.append(len(x))
        """,
        "for x, y in held_out:",
    ),
    (
        """
        for x, y in batches:
            rows.append(len(x))
        """,
        "for x, y in batches:",
    ),
    says=["One more at every call"],
)
wrong(
    "mean of means",
    (
        """
        total += loss.item() * len(y)
        count += len(y)
        """,
        """
        total += loss.item()
        count += 1
        """,
    ),
    says=["means over examples, not over batches"],
)
wrong(
    "names left in",
    (
        "lambda x, y: F.cross_entropy(model(x), y)",
        "lambda x, y, name: F.cross_entropy(model(x), y) * (1 if name else 0)",
    ),
    ("loss_of(x.float(), y)", 'loss_of(x.float(), y, f"valid {len(rows)}")'),
    ("for _ in range(epochs):", "for epoch in range(epochs):"),
    ("loss_of(x, y)", 'loss_of(x, y, f"train {epoch}")'),
    says=["a string changes"],
)
wrong("no eval", ("model.eval()", ""), says=["model.eval() for each validation"])
wrong(
    "train once",
    (
        """
        for _ in range(epochs):
            model.train()
        """,
        """
        model.train()
        for _ in range(epochs):
        """,
    ),
    says=["model.train() after it"],
)
wrong(
    "validation goes around",
    ("loss_of(x.float(), y)", "F.cross_entropy(model(x.float()), y)"),
    says=["send every batch through what compile returned"],
)
right(
    "compiles the model",
    """
    def train(model, optimizer, batches, held_out, epochs, compile):
        forward, rows = compile(model), []

        def through(pairs):
            losses = []
            for x, y in pairs:
                rows.append(x.shape[0])
                optimizer.zero_grad(set_to_none=True)
                loss = F.cross_entropy(forward(x.to(torch.float32)), y, reduction="none")
                if model.training:
                    loss.mean().backward()
                    optimizer.step()
                losses.append(loss.detach())
            return torch.cat(losses).mean().item()

        result = {"train": [], "valid": []}
        for _ in range(epochs):
            result["train"].append(through(batches) if model.train() else None)
            with torch.no_grad():
                result["valid"].append(through(held_out) if model.eval() else None)
        with torch.no_grad():
            result["final"] = through(held_out)
        return {**result, "rows": rows}
    """,
)
right(
    "sizes marked beforehand",
    (
        "optimizer.zero_grad()",
        """
        optimizer.zero_grad()
        torch._dynamo.maybe_mark_dynamic(x, 0)
        torch._dynamo.maybe_mark_dynamic(y, 0)
        """,
    ),
)

# Task 5 · Which half is at fault?

wrong, right = LAB.task("fault")

wrong("absolute", ("rounding * b.norm()", "rounding"), says=["Each tensor is compared with its own norm"])
wrong(
    "number by number",
    ("(a - b).norm() <= rounding * b.norm()", "((a - b).abs() <= rounding * b.abs()).all()"),
    says=["and not number by number"],
)
wrong(
    "all tensors in one",
    (
        "if len(tensors) != len(plain) or not all(alike(a, b) for a, b in zip(tensors, plain, strict=True)):",
        """
        if (
            len(tensors) != len(plain)
            or [a.shape for a in tensors] != [b.shape for b in plain]
            or not alike(torch.cat([a.flatten() for a in tensors]), torch.cat([b.flatten() for b in plain]))
        ):
        """,
    ),
    says=["Each tensor is compared with its own norm"],
)
wrong(
    "every nan is a fault",
    ("finite | (a == b) | (a.isnan() & b.isnan())", "finite | (a == b)"),
    says=["excused only where the compiled one has the same"],
)
wrong("exceptions come through", ("Exception", "ZeroDivisionError"), says=["catch the exception"])
wrong(
    "infinities of any sign",
    ("finite | (a == b)", "finite | (a.isinf() & b.isinf())"),
    says=["excused only where the compiled one has the same"],
)
wrong(
    "nan excused anywhere",
    ("a.isnan() & b.isnan()", "b.isnan()"),
    says=["excused only where the compiled one has the same"],
)
wrong(
    "nan passes",
    """
    def stage_at_fault(step, backends, rounding=1e-5):
        plain = step(lambda function: function)
        for name, backend in backends.items():
            torch.compiler.reset()
            try:
                tensors = step(lambda function, backend=backend: torch.compile(function, backend=backend))
            except Exception:
                return name
            if len(tensors) != len(plain):
                return name
            for a, b in zip(tensors, plain):
                if a.shape != b.shape or (a - b).norm() > rounding * b.norm():
                    return name
        return None
    """,
    says=["every comparison with NaN is False"],
)
wrong(
    "outputs only",
    (
        "len(tensors) != len(plain) or not all(alike(a, b) for a, b in zip(tensors, plain, strict=True))",
        "not alike(tensors[0], plain[0])",
    ),
    says=["compare gradients too"],
)
wrong(
    "shapes broadcast",
    (
        """
        if a.shape != b.shape:
            return False
        """,
        "a, b = torch.broadcast_tensors(a, b)",
    ),
    says=["shapes and numbers of tensors count"],
)
wrong(
    "to the bit",
    ("bool((a - b).norm() <= rounding * b.norm())", "torch.equal(a, b)"),
    says=["reset before each backend"],
)
wrong(
    "without reset",
    """
    def stage_at_fault(step, backends: dict, rounding: float = 1e-5) -> str | None:
        def alike(a: Tensor, b: Tensor) -> bool:
            if a.shape != b.shape:
                return False
            finite = a.isfinite() & b.isfinite()
            if not (finite | (a == b) | (a.isnan() & b.isnan())).all():
                return False
            a, b = a[finite].double(), b[finite].double()
            return bool((a - b).norm() <= rounding * b.norm())

        torch.compiler.reset()
        plain = step(lambda function: function)
        for name, backend in backends.items():
            try:
                tensors = step(lambda function, backend=backend: torch.compile(function, backend=backend))
            except Exception:
                return name
            if len(tensors) != len(plain) or not all(alike(a, b) for a, b in zip(tensors, plain, strict=True)):
                return name
        return None
    """,
    says=["reset before each backend"],
)
right(
    "by torchs testing",
    """
    def stage_at_fault(step, backends, rounding=1e-5):
        def wrong(got, want):
            if got.shape != want.shape:
                return True
            odd = ~(got.isfinite() & want.isfinite())
            if not torch.equal(torch.nan_to_num(got[odd], 7.0), torch.nan_to_num(want[odd], 7.0)):
                return True
            if not torch.equal(got[odd].isnan(), want[odd].isnan()):
                return True
            distance = torch.linalg.vector_norm(torch.where(odd, 0, got - want).double())
            return not distance <= rounding * torch.linalg.vector_norm(torch.where(odd, 0, want).double())

        plain = step(lambda function: function)
        for name in backends:
            torch._dynamo.reset()

            def compiler(function, name=name):
                return torch.compile(function, backend=backends[name])

            try:
                found = step(compiler)
            except Exception:
                return name
            if len(found) != len(plain) or any(map(wrong, found, plain)):
                return name
    """,
)
wrong(
    "norms in float32",
    ("a[finite].double(), b[finite].double()", "a[finite], b[finite]"),
    says=["A norm in float32 is infinite for 1e30"],
)
wrong(
    "more tensors pass",
    ("len(tensors) != len(plain)", "len(tensors) < len(plain)"),
    ("strict=True", "strict=False"),
    says=["shapes and numbers of tensors count"],
)
wrong("shapes flattened", ("if a.shape", "a, b = a.flatten(), b.flatten()\nif a.shape"), says=["shapes and numbers"])


# Task 6 · A file that needs no class

wrong, right = LAB.task("freeze")

wrong(
    "eval before it looks",
    """
    def freeze(model: nn.Module, example: tuple, file, ranges: tuple) -> None:
        dims, sizes = {}, {}
        modes = [(module, module.training) for module in model.modules()]
        model.eval()
        for tensor, free in zip(example, ranges, strict=True):
            for axis, (name, least, most) in free.items():
                size = tensor.shape[axis]
                if size < 2 or not least <= size <= most:
                    raise ValueError(f"{name} is {size} in the example: at least 2, and from {least} to {most}")
                if sizes.setdefault(name, size) != size:
                    raise ValueError(f"{name} is {sizes[name]} and {size} in the example: one name, one size")
                dims.setdefault(name, Dim(name, min=least, max=most))
        shapes = tuple({axis: dims[name] for axis, (name, _, _) in free.items()} for free in ranges)
        try:
            program = torch.export.export(model, example, dynamic_shapes=shapes)
        finally:
            for module, training in modes:
                module.training = training
        torch.export.save(program, file)
    """,
    says=["a refused example changes nothing"],
)
wrong(
    "everything frozen",
    ("torch.export.export(model, example, dynamic_shapes=shapes)", "torch.export.export(model, example)"),
    says=["no file that can be loaded and called"],
)
wrong("in training mode", ("model.eval()", ""), says=["model.eval() comes before the export"])
wrong(
    "no finally",
    (
        """
        try:
            program = torch.export.export(model, example, dynamic_shapes=shapes)
        finally:
            for module, training in modes:
                module.training = training
        """,
        """
        program = torch.export.export(model, example, dynamic_shapes=shapes)
        for module, training in modes:
            module.training = training
        """,
    ),
    says=["put them back in a finally"],
)
wrong(
    "left in eval",
    (
        """
        for module, training in modes:
            module.training = training
        """,
        "pass",
    ),
    says=["the modes after freeze"],
)
wrong(
    "modes by train",
    (
        """
        for module, training in modes:
            module.training = training
        """,
        "model.train()",
    ),
    says=["the modes after freeze"],
)
wrong(
    "ones pass",
    ("size < 2 or not least <= size <= most", "not least <= size <= most"),
    says=["a short ValueError that names"],
)
wrong("ranges without ends", ("Dim(name, min=least, max=most)", "Dim(name)"), says=["65 sequences, 257 tokens"])
wrong(
    "returns the program",
    ("torch.export.save(program, file)", "torch.export.save(program, file)\nreturn str(file)"),
    says=["the file is the result"],
)
wrong(
    "saves the weights",
    ("torch.export.save(program, file)", "torch.save(model.state_dict(), file)"),
    says=["no file that can be loaded and called"],
)
wrong(
    "torch judges the example",
    ("size < 2 or not least <= size <= most", "False"),
    says=["a short ValueError that names"],
)
wrong(
    "two dims of one name",
    (
        "({axis: dims[name] for axis, (name, _, _) in free.items()} for free in ranges)",
        """
        (
            {axis: Dim(f"{name}{i}", min=least, max=most) for axis, (name, least, most) in free.items()}
            for i, free in enumerate(ranges)
        )
        """,
    ),
    says=["the same Dim"],
)
wrong("two sizes pass", ("sizes.setdefault(name, size) != size", "False"), says=["a short ValueError that names"])
right(
    "on a copy",
    """
    import copy


    def freeze(model, example, file, ranges):
        found = {}
        for tensor, free in zip(example, ranges):
            for axis, (name, least, most) in free.items():
                found.setdefault(name, set()).add((tensor.shape[axis], least, most))
        for name, kinds in found.items():
            if len(kinds) > 1:
                raise ValueError(f"{name} has more than one size")
            ((size, least, most),) = kinds
            if size in (0, 1) or size < least or size > most:
                raise ValueError(f"{name}: {size}")
        dims = {name: Dim(name, min=least, max=most) for name, ((_, least, most),) in found.items()}
        shapes = [{axis: dims[triple[0]] for axis, triple in free.items()} for free in ranges]
        torch.export.save(torch.export.export(copy.deepcopy(model).eval(), example, dynamic_shapes=shapes), file)
    """,
)
wrong("no least", ("not least <= size <= most", "size > most"), says=["a short ValueError that names T"])
wrong("only a 1 is special", ("size < 2", "size == 1"), says=["a short ValueError that names B"])
wrong(
    "error without a name",
    (
        'f"{name} is {size} in the example: at least 2, and from {least} to {most}"',
        '"Bad example: The sizes are special"',
    ),
    says=["a short ValueError that names B, a word by itself"],
)

wrong(
    "an argument without ranges is left out",
    (" for free in ranges)\nmodes", " for free in ranges if free)\nmodes"),
    says=["{} for an argument without a free axis"],
)
wrong(
    "the others are free too",
    (
        "tuple({axis: dims[name] for axis, (name, _, _) in free.items()} for free in ranges)",
        """
        tuple(
            {
                axis: dims[free[axis][0]] if axis in free else Dim(f"free{place}_{axis}", min=2, max=512)
                for axis in range(tensor.ndim)
            }
            for place, (tensor, free) in enumerate(zip(example, ranges, strict=True))
        )
        """,
    ),
    says=["all other axes are frozen"],
)


# Task 7 · In another process

wrong, right = LAB.task("elsewhere")

wrong("first line of stderr", ("-1", "0"), says=["raise with the last line"])
wrong(
    "first load only",
    (
        'torch.save([model(*load) for load in torch.load("loads.pt")], "outputs.pt")',
        'torch.save([model(*torch.load("loads.pt")[0])], "outputs.pt")',
    ),
    says=["one output for each load"],
)
wrong(
    "in this process",
    """
    def elsewhere(file, loads):
        model = torch.export.load(file).module()
        with torch.no_grad():
            return [model(*load) for load in loads]
    """,
    says=["it is called by the program in the string"],
)
wrong(
    "relative path",
    (
        "model = torch.export.load({str(Path(file).resolve())!r}).module()",
        "model = torch.export.load({str(file)!r}).module()",
    ),
    says=["Path(file).resolve()"],
)
wrong("returncode not looked at", ("if done.returncode:", "if False:"), says=["look at the returncode"])
right(
    "through the pipes",
    r'''
    import io

    PROGRAM = """
    import io, sys, torch
    program = torch.export.load(sys.argv[1]).module()
    loads = torch.load(io.BytesIO(sys.stdin.buffer.read()))
    with torch.inference_mode():
        outputs = [program(*load).clone() for load in loads]
    torch.save(outputs, sys.stdout.buffer)
    """


    def elsewhere(file, loads):
        message = io.BytesIO()
        torch.save(loads, message)
        command = [sys.executable, "-I", "-c", PROGRAM, str(Path(file).absolute())]
        done = subprocess.run(command, input=message.getvalue(), capture_output=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.decode().strip().rpartition("\n")[2])
        return torch.load(io.BytesIO(done.stdout))
    ''',
)
wrong(
    "in the same folder",
    """
    def elsewhere(file, loads):
        with tempfile.TemporaryDirectory() as folder:
            given, made = Path(folder, "loads.pt"), Path(folder, "outputs.pt")
            torch.save(loads, given)
            code = (
                f"import torch\\nmodel = torch.export.load({str(Path(file).resolve())!r}).module()\\n"
                f"with torch.no_grad():\\n"
                f"    torch.save([model(*load) for load in torch.load({str(given)!r})], {str(made)!r})"
            )
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(done.stderr.strip().splitlines()[-1])
            return torch.load(made)
    """,
    says=["torch.py of your own folder", "-I, and a working folder of its own"],
)
wrong(
    "a folder that stays",
    ("with tempfile.TemporaryDirectory() as folder:", "folder = tempfile.mkdtemp()\nif True:"),
    says=["what you made among the temporary files is still there"],
)
wrong(
    "a folder that stays after an error",
    ("with tempfile.TemporaryDirectory() as folder:", "import shutil\n\nfolder = tempfile.mkdtemp()\nif True:"),
    (
        'return torch.load(Path(folder) / "outputs.pt")',
        'outputs = torch.load(Path(folder) / "outputs.pt")\nshutil.rmtree(folder)\nreturn outputs',
    ),
    says=["here the other process failed"],
)
