"""Lab 08 · GradScaler and autocast by hand: what students write. See variants.py."""

from variants import variants_of

LAB = variants_of("08_gradscaler_and_autocast")


# Task 1 · The largest scale

wrong, right = LAB.task("window")

wrong(
    "by the norm",
    """
    def largest_scale(gradients):
        total = sum(g.double().square().sum().item() for g in gradients)
        if not math.isfinite(total):
            raise ValueError(f"not finite: {total}")
        if total == 0:
            raise ValueError("zero")
        return 2.0 ** math.floor(math.log2(65519.99 / math.sqrt(total)))
    """,
    says=["it still fits"],
)
wrong("ends at 65504", ("2 * scale * largest < 65520", "2 * scale * largest <= 65504"), says=["it still fits"])
wrong("nan passes", ("not math.isfinite(value)", "math.isinf(value)"), says=["a comparison with nan is never true"])
wrong(
    "only down from 65536",
    ("2.0**-120", "65536.0"),
    (
        """
        while 2 * scale * largest < 65520:
            scale *= 2
        """,
        """
        while scale * largest >= 65520:
            scale /= 2
        """,
    ),
    says=["larger than 2¹⁶"],
)
wrong(
    "positive ones only",
    ("(gradient.max().item(), gradient.min().item())", "(gradient.max().item(),)"),
    says=["negative ones too"],
)
wrong(
    "tried in float32",
    """
    def largest_scale(gradients):
        values = torch.cat([g.flatten() for g in gradients]) if gradients else torch.zeros(1)
        for value in values.tolist():
            if not math.isfinite(value):
                raise ValueError(f"not finite: {value}")
        if not values.any():
            raise ValueError("zero")
        fits = [k for k in range(-120, 170) if not (values * 2.0**k).half().isinf().any()]
        return 2.0 ** max(fits)
    """,
    says=["compute with Python's floats"],
)
wrong(
    "up to 65520 inclusive",
    ("2 * scale * largest < 65520", "2 * scale * largest <= 65520"),
    says=["65520 rounds to infinity"],
)
wrong(
    "zeros have a scale",
    ('raise ValueError("all gradients are zero")', "return 65536.0"),
    says=["zeros fit under every scale"],
)
wrong(
    "names all three",
    ('f"a gradient of {value} has no scale"', '"a gradient is inf, -inf or nan"'),
    says=["the same for all three"],
)
right(
    "by frexp",
    """
    def largest_scale(gradients):
        entries = [abs(value) if value == value else value for g in gradients for value in g.flatten().tolist()]
        for value in (entry for g in gradients for entry in g.flatten().tolist()):
            if not math.isfinite(value):
                raise ValueError(str(value))
        mantissa, exponent = math.frexp(max(entries, default=0.0))
        if mantissa == 0:
            raise ValueError("only zeros (or nothing): zero has no largest scale")
        return math.ldexp(1.0, 16 - exponent if mantissa < 65520 / 65536 else 15 - exponent)
    """,
)

# Task 2 · What is cast, and what is not

wrong, right = LAB.task("cast")

wrong(
    "copies the rest",
    (
        "convert(value, dtype) if value.is_floating_point() and value.dtype != torch.float64 else value",
        """
        convert(value, dtype) if value.is_floating_point() and value.dtype != torch.float64 else value.clone()
        """,
    ),
    says=["no copy of it"],
)
wrong(
    "does not hand convert on",
    (
        "{key: cast(part, dtype, convert) for key, part in value.items()}",
        "{key: cast(part, dtype) for key, part in value.items()}",
    ),
    says=["hand it on"],
)
wrong(
    "doubles too",
    ("value.is_floating_point() and value.dtype != torch.float64", "value.is_floating_point()"),
    says=["float64"],
)
wrong(
    "float32 only",
    ("value.is_floating_point() and value.dtype != torch.float64", "value.dtype == torch.float32"),
    says=["float32, float16 and bfloat16 become"],
)
wrong(
    "forgets dicts",
    (
        """
        if isinstance(value, dict):
            return {key: cast(part, dtype, convert) for key, part in value.items()}
        """,
        "",
    ),
    says=["the values of dicts"],
)
wrong("lists become tuples", ("type(value)", "tuple"), says=["a list of a list"])
wrong(
    "one level deep",
    (
        "(cast(part, dtype, convert) for part in value)",
        """
        (convert(part, dtype)
        if isinstance(part, Tensor) and part.is_floating_point() and part.dtype != torch.float64
        else part for part in value)
        """,
    ),
    says=["wherever they are"],
)
wrong(
    "whole numbers too",
    (
        "convert(value, dtype) if value.is_floating_point() and value.dtype != torch.float64 else value",
        "convert(value, dtype)",
    ),
    says=["floating tensors but float64"],
)
wrong(
    "writes into the list",
    (
        "if isinstance(value, list | tuple):",
        """
        if isinstance(value, list):
            value[:] = [cast(part, dtype, convert) for part in value]
            return value
        if isinstance(value, tuple):
        """,
    ),
    says=["belong to the caller"],
)
right(
    "by a table of kinds",
    """
    def cast(value, dtype, convert=Tensor.to):
        match value:
            case Tensor(dtype=torch.float32 | torch.float16 | torch.bfloat16):
                return convert(value, dtype)
            case dict():
                return dict(zip(value, cast(list(value.values()), dtype, convert)))
            case tuple():
                return tuple(cast(list(value), dtype, convert))
            case list():
                return [cast(each, dtype, convert) for each in value]
        return value
    """,
)

# Task 3 · Autocast

wrong, right = LAB.task("autocast")

wrong(
    "all the rest in float32",
    (
        """
        for names, dtype in ((TO_LOW, self.low), (TO_FP32, torch.float32)):
            if name_of(function) in names:
                args, kwargs = cast((args, kwargs), dtype, self.convert)
        """,
        """
        dtype = self.low if name_of(function) in TO_LOW else torch.float32
        args, kwargs = cast((args, kwargs), dtype, self.convert)
        """,
    ),
    says=["all else runs as it is given"],
)
wrong(
    "convert not used",
    ("cast((args, kwargs), dtype, self.convert)", "cast((args, kwargs), dtype)"),
    says=["task 4 replaces convert"],
)
wrong("detaches", ("self.convert", "lambda tensor, d: self.convert(tensor.detach(), d)"), says=["through"])
wrong(
    "everything in 16 bits",
    (
        """
        for names, dtype in ((TO_LOW, self.low), (TO_FP32, torch.float32)):
            if name_of(function) in names:
                args, kwargs = cast((args, kwargs), dtype, self.convert)
        """,
        """
        dtype = torch.float32 if name_of(function) in TO_FP32 else self.low
        args, kwargs = cast((args, kwargs), dtype, self.convert)
        """,
    ),
    says=["all else runs as it is given"],
)
wrong(
    "losses in 16 bits",
    ("((TO_LOW, self.low), (TO_FP32, torch.float32))", "((TO_LOW, self.low),)"),
    says=["TO_FP32 to float32"],
)
wrong(
    "named arguments left",
    ("args, kwargs = cast((args, kwargs), dtype, self.convert)", "args = cast(args, dtype, self.convert)"),
    says=["arguments by name are in kwargs"],
)
wrong(
    "result cast instead",
    (
        """
        kwargs = kwargs or {}
        for names, dtype in ((TO_LOW, self.low), (TO_FP32, torch.float32)):
            if name_of(function) in names:
                args, kwargs = cast((args, kwargs), dtype, self.convert)
        return function(*args, **kwargs)
        """,
        """
        args, kwargs = (
            cast((args, kwargs or {}), torch.float32)
            if name_of(function) in TO_LOW | TO_FP32
            else (args, kwargs or {})
        )
        result = function(*args, **kwargs)
        return cast(result, self.low, self.convert) if name_of(function) in TO_LOW else result
        """,
    ),
    says=["gets input, weight and bias in `low`"],
)
wrong("stumbles over no names", ("kwargs = kwargs or {}", ""), says=["kwargs"])
right(
    "by a table",
    """
    class Autocast(TorchFunctionMode):
        def __init__(self, low):
            super().__init__()
            self.low = low
            self.wanted = dict.fromkeys(TO_LOW, low) | dict.fromkeys(TO_FP32, torch.float32)

        def convert(self, tensor, dtype):
            return tensor.to(dtype)

        def __torch_function__(self, function, types, args=(), kwargs=None):
            dtype = self.wanted.get(name_of(function))
            if dtype is None:
                return function(*args, **(kwargs or {}))
            names = list(kwargs or {})
            positional = [*args, *(kwargs or {}).values()]
            casted = [cast(each, dtype, self.convert) for each in positional]
            split = len(args)
            return function(*casted[:split], **dict(zip(names, casted[split:])))
    """,
)

wrong(
    "torch's own inside",
    """
    class Autocast(TorchFunctionMode):
        def __init__(self, low):
            super().__init__()
            self.low = low

        def convert(self, tensor, dtype):
            return tensor.to(dtype)

        def __torch_function__(self, function, types, args=(), kwargs=None):
            with torch.autocast("cpu", self.low, cache_enabled=False):
                return function(*args, **(kwargs or {}))
    """,
    says=["torch.autocast is what you build here"],
)

# Task 4 · A cache that does not lie

wrong, right = LAB.task("cache")

wrong(
    "by id",
    ("(tensor, torch.is_grad_enabled())", "(id(tensor), torch.is_grad_enabled())"),
    says=["Is id(tensor) the key?"],
)
wrong(
    "copies without a graph",
    ("self.copies[key] = tensor.to(dtype)", "self.copies[key] = tensor.detach().to(dtype)"),
    says=["with its graph"],
)
wrong(
    "forgets before each cast",
    ("self.copies[key] = tensor.to(dtype)", "self.forget()\nself.copies[key] = tensor.to(dtype)"),
    says=["both uses must go through one copy"],
)
wrong(
    "forgets half",
    ("self.copies.clear()", "self.copies = {key: copy for key, copy in self.copies.items() if not key[1]}"),
    says=["still alive"],
)
wrong(
    "keeps frozen ones",
    (
        "tensor.dtype == torch.float32 and tensor.is_leaf and tensor.requires_grad",
        "tensor.dtype == torch.float32 and tensor.is_leaf",
    ),
    says=["is no weight"],
)
wrong(
    "keeps what was computed",
    (
        "tensor.dtype == torch.float32 and tensor.is_leaf and tensor.requires_grad",
        "tensor.dtype == torch.float32 and tensor.requires_grad",
    ),
    says=["no leaf"],
)
wrong("never forgets", ("self.copies.clear()", "pass"), says=["forget the copies when a block ends"])
wrong("no cache", ("not is_weight or dtype == torch.float32", "True"), says=["one and the same copy"])
wrong(
    "one copy for all dtypes",
    ("not is_weight or dtype == torch.float32", "not is_weight"),
    says=["it must not get the copy of 16 bits"],
)
wrong(
    "one copy for no grad too",
    ("(tensor, torch.is_grad_enabled())", "tensor"),
    says=["torch.is_grad_enabled() in the key"],
)
wrong(
    "keeps leaves of 16 bits",
    (
        "tensor.dtype == torch.float32 and tensor.is_leaf and tensor.requires_grad",
        "tensor.is_leaf and tensor.requires_grad",
    ),
    says=["a leaf of float16"],
)
right(
    "asks nothing of it under no grad",
    """
    class CachedAutocast(Autocast):
        def __init__(self, low):
            super().__init__(low)
            self.copies = []

        def convert(self, tensor, dtype):
            if dtype != self.low or not torch.is_grad_enabled():
                return tensor.to(dtype)
            if tensor.dtype != torch.float32 or tensor.grad_fn is not None or not tensor.requires_grad:
                return tensor.to(dtype)
            for weight, copy in self.copies:
                if weight is tensor:
                    return copy
            self.copies.append((tensor, tensor.to(dtype)))
            return self.copies[-1][1]

        def forget(self):
            self.copies = []

        def __exit__(self, *error):
            try:
                self.forget()
            finally:
                super().__exit__(*error)
    """,
)

# Task 5 · Look, then unscale

wrong, right = LAB.task("unscale")

wrong(
    "by the last",
    ("not all(g.isfinite().all() for g in gradients)", "False"),
    ("g.div_(scale)", "overflow = not g.isfinite().all()\ng.div_(scale)"),
    says=["nor be forgotten at the next one"],
)
wrong(
    "by the sum",
    ("all(g.isfinite().all() for g in gradients)", "math.isfinite(sum(g.sum() for g in gradients))"),
    says=["look at the entries"],
)
wrong("changes a copy", ("g.div_(scale)", "g = g / scale"), says=["divide every gradient"])
wrong("multiplies", ("g.div_(scale)", "g.mul_(scale)"), says=["divide"])
wrong("refuses bf16", ("g.dtype == torch.float16", "g.dtype != torch.float32"), says=["bf16 gradients are allowed"])
wrong(
    "refuses too late",
    """
    def unscale(parameters, scale: float) -> bool:
        gradients = [p.grad for p in parameters if p.grad is not None]
        overflow = not all(g.isfinite().all() for g in gradients)
        for g in gradients:
            if g.dtype == torch.float16:
                raise ValueError("float16")
            g.div_(scale)
        return overflow
    """,
    says=["before you divide the first"],
)
wrong(
    "returns in the loop",
    ("overflow = not all(g.isfinite().all() for g in gradients)", ""),
    (
        "for g in gradients:",
        """
        for g in gradients:
            finite = bool(g.isfinite().all())
        """,
    ),
    (
        "return overflow",
        """
            if not finite:
                return True
        return False
        """,
    ),
    says=["must neither end the loop"],
)
wrong(
    "sees no nan",
    ("not all(g.isfinite().all() for g in gradients)", "any(g.isinf().any() for g in gradients)"),
    says=["NaN is an overflow too"],
)
wrong(
    "stops at the first",
    (
        "for g in gradients:",
        """
        if overflow:
            return True
        for g in gradients:
        """,
    ),
    ("return overflow", "return False"),
    says=["divide every gradient"],
)
wrong(
    "stumbles over none",
    ("[p.grad for p in parameters if p.grad is not None]", "[p.grad for p in parameters]"),
    says=["AttributeError", "is left out"],
)
wrong(
    "takes fp16",
    (
        """
        if any(g.dtype == torch.float16 for g in gradients):
            raise ValueError("gradients of dtype float16: keep the parameters in float32 under autocast")
        """,
        "",
    ),
    says=["ask each gradient for its dtype"],
)
wrong(
    "walks a generator twice",
    (
        """
        for g in gradients:
            g.div_(scale)
        """,
        """
        for p in parameters:
            if p.grad is not None:
                p.grad.div_(scale)
        """,
    ),
    says=["divide every gradient"],
)
right(
    "new gradients",
    """
    def unscale(parameters, scale):
        parameters = [p for p in parameters if p.grad is not None]
        for p in dict.fromkeys(parameters):
            if p.grad.dtype is torch.half:
                raise ValueError(f"cannot unscale {p.grad.dtype}")
        bad = torch.zeros((), dtype=torch.bool)
        for p in dict.fromkeys(parameters):
            bad = bad | ((p.grad - p.grad) != 0).any().cpu()
            p.grad = p.grad * (1 / scale)
        return bool(bad)
    """,
)
wrong(
    "divides in float32",
    ("g.div_(scale)", "g.copy_(g.float() / scale)"),
    says=["each gradient keeps its dtype, and is divided in it"],
)

# Task 6 · The next scale

wrong, right = LAB.task("next")

wrong(
    "ceiling keeps the count",
    ("(grown if grown <= 2.0**127 else scale), 0", "(grown, 0) if grown <= 2.0**127 else (scale, good)"),
    says=["2¹²⁷"],
)
wrong(
    "ceiling of fp16",
    ("grown if grown <= 2.0**127 else scale", "min(grown, 65504.0)"),
    says=["torch's scaler goes elsewhere"],
)
wrong("ceiling too low", ("grown <= 2.0**127", "grown < 2.0**127"), says=["2¹²⁷"])
wrong(
    "constants",
    ("scale * backoff", "scale * 0.5"),
    ("scale * growth", "scale * 2.0"),
    says=["torch's scaler goes elsewhere"],
)
wrong("grows one late", ("good + 1 < interval", "good < interval"), says=["the third good step completes the interval"])
wrong(
    "growth keeps the count",
    ("(grown if grown <= 2.0**127 else scale), 0", "(grown if grown <= 2.0**127 else scale), good + 1"),
    says=["growth and overflow both set good to 0"],
)
wrong(
    "growth up to the ceiling",
    (
        """
        grown = scale * growth
        return (grown if grown <= 2.0**127 else scale), 0
        """,
        "return (min(scale * growth, 2.0**127)), 0",
    ),
    says=["it does not go up to the ceiling"],
)
wrong("never below 1", ("scale * backoff", "max(scale * backoff, 1.0)"), says=["torch's scaler goes elsewhere"])
wrong("no ceiling", ("grown if grown <= 2.0**127 else scale", "grown"), says=["2¹²⁷"])
wrong(
    "overflow keeps the count",
    ("scale * backoff, 0", "scale * backoff, good"),
    says=["growth and overflow both set good to 0"],
)
right(
    "by logarithms",
    """
    def next_scale(scale, good, overflow, growth, backoff, interval):
        factor = 1.0
        good = 0 if overflow else good + 1
        if overflow:
            factor = backoff
        elif good >= interval:
            good, factor = 0, growth
        if factor > 1 and math.log2(scale) + math.log2(factor) > 127:
            factor = 1.0
        return [scale * factor, good]
    """,
)

# Task 7 · The scaler

wrong, right = LAB.task("scaler")

wrong(
    "a skipped step is none",
    ("self.stepped.add(optimizer)", ""),
    ("optimizer.step()", "optimizer.step()\nself.stepped.add(optimizer)"),
    says=["the first step was skipped"],
)
wrong(
    "divides twice",
    (
        """
        if optimizer not in self.overflows:
            self.unscale(optimizer)
        """,
        """
        self.overflows.pop(optimizer, None)
        self.unscale(optimizer)
        """,
    ),
    says=["gradients are divided once"],
)
wrong("first group only", ("optimizer.param_groups", "optimizer.param_groups[:1]"), says=["several param_groups"])
wrong(
    "loads half",
    ('self.factor, self.good = state["scale"], state["good"]', 'self.factor = state["scale"]'),
    says=["load both"],
)
wrong(
    "one flag for all",
    ("if not self.overflows[optimizer]:", "if not any(self.overflows.values()):"),
    ("return not self.overflows[optimizer]", "return not any(self.overflows.values())"),
    says=["only its own optimizer"],
)
wrong(
    "state without the count",
    ('{"scale": self.factor, "good": self.good}', '{"scale": self.factor}'),
    says=["after eight good steps"],
)
wrong(
    "step forgets to unscale",
    ("self.unscale(optimizer)", "self.overflows[optimizer] = False"),
    says=["unscale in step"],
)
wrong("step says nothing", ("return not self.overflows[optimizer]", ""), says=["stepped"])
wrong(
    "steps all the same",
    (
        """
        if not self.overflows[optimizer]:
            optimizer.step()
        """,
        "optimizer.step()",
    ),
    says=["no optimizer.step() after an overflow"],
)
wrong(
    "steps twice",
    (
        """
        if optimizer in self.stepped:
            raise RuntimeError("step: this optimizer was stepped already since the last update")
        """,
        "",
    ),
    says=["a second step before update"],
)
wrong(
    "the last optimizer decides",
    ("any(self.overflows.values())", "list(self.overflows.values())[-1]"),
    says=["for both, once"],
)
wrong(
    "unscales twice",
    (
        """
        if optimizer in self.overflows:
            raise RuntimeError("unscale: this optimizer was unscaled or stepped already since the last update")
        """,
        "",
    ),
    says=["a second unscale would divide twice"],
)
wrong("update does not forget", ("self.overflows.clear()", ""), says=["update forgets"])
wrong(
    "update of nothing",
    (
        """
        if not self.overflows:
            raise RuntimeError("update: no optimizer was unscaled or stepped since the last update")
        """,
        "",
    ),
    says=["refuse it"],
)
wrong(
    "torchs own",
    """
    class Scaler:
        def __init__(self, scale=65536.0, growth=2.0, backoff=0.5, interval=2000):
            self.torchs = torch.amp.GradScaler("cpu", scale, growth, backoff, interval)
            self.torchs.scale(torch.zeros(()))

        @property
        def factor(self):
            return self.torchs.get_scale()

        @property
        def good(self):
            return self.torchs._get_growth_tracker()

        def scale(self, loss):
            return self.torchs.scale(loss)

        def unscale(self, optimizer):
            self.torchs.unscale_(optimizer)

        def step(self, optimizer):
            try:
                self.torchs.unscale_(optimizer)
            except RuntimeError as error:
                if "since the last update" not in str(error):
                    raise
            bad = self.torchs._per_optimizer_states[id(optimizer)]["found_inf_per_device"]
            self.torchs.step(optimizer)
            return not any(found.item() for found in bad.values())

        def update(self):
            try:
                self.torchs.update()
            except AssertionError as error:
                raise RuntimeError("update") from error

        def state_dict(self):
            return {"scale": self.factor, "good": self.good}

        def load_state_dict(self, state):
            self.torchs._scale.fill_(state["scale"])
            self.torchs._growth_tracker.fill_(state["good"])
    """,
    says=["['torch.amp.", "the ready scaler"],
)
wrong(
    "updates after steps only",
    ("if not self.overflows:", "if not self.stepped:"),
    says=["unscaled and not stepped"],
)
wrong(
    "overflows of the stepped only",
    ("any(self.overflows.values())", "any(self.overflows[optimizer] for optimizer in self.stepped)"),
    says=["unscaled and not stepped"],
)
wrong(
    "growth by two always",
    ("self.growth, self.backoff, self.interval)", "2.0, 0.5, self.interval)"),
    says=["times self.growth"],
)
right(
    "one record for each",
    """
    class Scaler:
        def __init__(self, scale=65536.0, growth=2.0, backoff=0.5, interval=2000):
            self.factor, self.good = scale, 0
            self.rule = (growth, backoff, interval)
            self.done = []

        def scale(self, loss):
            return self.factor * loss

        def record(self, optimizer):
            return next((record for record in self.done if record["of"] is optimizer), None)

        def unscale(self, optimizer):
            if self.record(optimizer):
                raise RuntimeError("no second unscale")
            parameters = []
            for group in optimizer.param_groups:
                parameters += group["params"]
            self.done.append({"of": optimizer, "overflow": unscale(parameters, self.factor), "stepped": False})

        def step(self, optimizer):
            record = self.record(optimizer)
            if record and record["stepped"]:
                raise RuntimeError("no second step")
            if not record:
                self.unscale(optimizer)
                record = self.done[-1]
            record["stepped"] = True
            if record["overflow"]:
                return False
            optimizer.step()
            return True

        def update(self):
            if len(self.done) == 0:
                raise RuntimeError("nothing to update from")
            self.factor, self.good = next_scale(
                self.factor, self.good, any(r["overflow"] for r in self.done), *self.rule
            )
            self.done = []

        def state_dict(self):
            return dict(good=self.good, scale=self.factor)

        def load_state_dict(self, state):
            self.good = state["good"]
            self.factor = state["scale"]
    """,
)

# Task 8 · The right verbs in the wrong places

wrong, right = LAB.task("loop")

wrong(
    "brake counts all",
    ("skips = 0 if stepped else skips + 1", "skips += not stepped"),
    says=["sets the counter back to 0"],
)
wrong(
    "brakes before the next step only",
    (
        "for batches in steps:",
        """
        for batches in steps:
            if skips >= max_skips:
                raise FloatingPointError(f"{max_skips} skipped steps in a row")
    """,
    ),
    ("if skips == max_skips", "if False"),
    says=["there may be none"],
)
wrong(
    "clips before unscaling",
    ("scaler.unscale(optimizer)", ""),
    ("stepped = scaler.step(optimizer)", "scaler.unscale(optimizer)\nstepped = scaler.step(optimizer)"),
    says=["unscale before you clip"],
)
wrong(
    "loss outside the block",
    ("loss = loss_function(model(x), y) / len(batches)", "out = model(x)"),
    (
        "scaler.scale(loss).backward()",
        """
        loss = loss_function(out, y) / len(batches)
        scaler.scale(loss).backward()
        """,
    ),
    says=["computed in the block"],
)
wrong("never zeroes", ("optimizer.zero_grad()", ""), says=["nobody zeroed"])
wrong(
    "norm after clipping",
    (
        "norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm).item()",
        """
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        norm = nn.utils.get_total_norm([p.grad for p in model.parameters()]).item()
        """,
    ),
    says=["3"],
)
wrong(
    "notes tensors",
    ("loss.item()", "loss"),
    (
        "nn.utils.clip_grad_norm_(model.parameters(), max_norm).item()",
        "nn.utils.clip_grad_norm_(model.parameters(), max_norm)",
    ),
    says=["a plain number or a bool"],
)
wrong(
    "notes the next rate",
    ("(total, norm, rate, scale, not stepped)", '(total, norm, optimizer.param_groups[0]["lr"], scale, not stepped)'),
    says=["noted before the schedule moves"],
)
wrong(
    "notes the next scale",
    ("(total, norm, rate, scale, not stepped)", "(total, norm, rate, scaler.factor, not stepped)"),
    says=["before update"],
)
wrong(
    "only the last micro batch",
    ("optimizer.zero_grad()", ""),
    ("scaler.scale(loss).backward()", "optimizer.zero_grad()\nscaler.scale(loss).backward()"),
    says=["all micro-batches but the last are lost"],
)
wrong(
    "optimizer steps by itself",
    ("stepped = scaler.step(optimizer)", "optimizer.step()\nstepped = math.isfinite(norm)"),
    says=["scaler.step(optimizer), not optimizer.step()"],
)
wrong(
    "schedule never waits",
    (
        """
        if stepped:
            schedule.step()
        """,
        "schedule.step()",
    ),
    says=["leaves the schedule alone"],
)
wrong(
    "sums the micro batches",
    ("loss_function(model(x), y) / len(batches)", "loss_function(model(x), y)"),
    says=["the mean over the micro-batches"],
)
wrong(
    "update forgotten",
    ("scaler.update()", "scaler.overflows.clear()\nscaler.stepped.clear()"),
    says=["scaler.update() once"],
)
wrong(
    "without a brake",
    (
        """
        if skips == max_skips:
            raise FloatingPointError(f"{max_skips} updates in a row were skipped: look at the data and the rate")
        """,
        "",
    ),
    says=["the brake"],
)
wrong(
    "torchs autocast",
    ("CachedAutocast(low)", 'torch.autocast("cpu", low, enabled=low.itemsize == 2)'),
    says=["['torch.amp.", "your own CachedAutocast"],
)
right(
    "divides after scaling",
    """
    def train(
        model, optimizer, scaler, schedule, steps, max_norm, low, loss_function=F.cross_entropy, max_skips=16
    ):
        loss, norm, rate, scale, skipped = notes = [], [], [], [], []
        for batches in steps:
            for p in model.parameters():
                p.grad = None
            losses = []
            scale.append(scaler.factor)
            rate.append(optimizer.param_groups[0]["lr"])
            for x, y in batches:
                with CachedAutocast(low):
                    value = loss_function(model(x), y)
                losses.append(value.detach() / len(batches))
                (scaler.scale(value) / len(batches)).backward()
            scaler.unscale(optimizer)
            norm.append(float(nn.utils.clip_grad_norm_(model.parameters(), max_norm)))
            skipped.append(not scaler.step(optimizer))
            loss.append(float(sum(losses)))
            scaler.update()
            if not skipped[-1]:
                schedule.step()
            elif len(skipped) >= max_skips and all(skipped[-max_skips:]):
                raise FloatingPointError(f"stopped after {max_skips} skipped steps")
        return dict(zip(["loss", "norm", "rate", "scale", "skipped"], notes))
    """,
)
right(
    "one block for all micro batches",
    (
        """
        for x, y in batches:
            with CachedAutocast(low):
                loss = loss_function(model(x), y) / len(batches)
            scaler.scale(loss).backward()
            total += loss.item()
        """,
        """
        with CachedAutocast(low):
            for x, y in batches:
                loss = loss_function(model(x), y) / len(batches)
                scaler.scale(loss).backward()
                total += loss.item()
        """,
    ),
)
