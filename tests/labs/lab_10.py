"""Lab 10 · The honest loop, built by you: what students write. See variants.py."""

from variants import variants_of

LAB = variants_of("10_the_honest_loop")


# Task 1 · A text as a dataset

wrong, right = LAB.task("windows")

wrong("counts from the end", ("not 0 <= i < len(self)", "i >= len(self)"), says=["raise IndexError"])
wrong(
    "keeps the dtype",
    ("self.tokens[i * self.stride :][: self.context + 1].long()", "self.tokens[i * self.stride :][: self.context + 1]"),
    says=["int64"],
)
wrong(
    "never ends",
    (
        """
        if not 0 <= i < len(self):
            raise IndexError(f"window {i} of {len(self)}")
        """,
        "",
    ),
    says=["raise IndexError"],
)
wrong(
    "one window too few",
    (
        "(len(self.tokens) - self.context - 1) // self.stride + 1",
        "(len(self.tokens) - self.context - 1) // self.stride",
    ),
    says=["three windows"],
)
wrong(
    "one window too many",
    ("len(self.tokens) - self.context - 1", "len(self.tokens) - self.context"),
    says=["the last must fit too"],
)
wrong("refuses the smallest text", ("len(tokens) < context + 1", "len(tokens) <= context + 1"), says=["has one window"])
wrong("same place", ("window[1:]", "window[:-1].clone()"), says=["y is x one place on"])
wrong("takes any text", ("len(tokens) < context + 1", "len(tokens) < 1"), says=["refuse"])
wrong(
    "names the length alone",
    (
        'f"context {context} needs {context + 1} tokens, and there are {len(tokens)}"',
        'f"{len(tokens)} tokens are too few"',
    ),
    says=["ValueError that names '9'", "name the context"],
)
wrong("without stride", ("tokens, context, stride", "tokens, context, 1"), says=["windows are stride apart"])
right(
    "unfolded",
    '''
    class Windows(Dataset):
        """All windows as one view of the text."""

        def __init__(self, tokens, context, stride):
            if not context < tokens.numel():
                raise ValueError(f"no window of context {context} in {tokens.numel()} tokens")
            self.rows = tokens.to(torch.int64).unfold(0, context + 1, stride)

        def __len__(self):
            return self.rows.shape[0]

        def __getitem__(self, i):
            if i < 0:
                raise IndexError(i)
            row = self.rows[i]
            return row.narrow(0, 0, len(row) - 1).clone(), row.narrow(0, 1, len(row) - 1).clone()
    ''',
)

# Task 2 · An order without a memory

wrong, right = LAB.task("indices")

wrong(
    "draws with replacement",
    (
        "np.random.default_rng([seed, epoch]).permutation(examples)",
        "np.random.default_rng([seed, epoch]).integers(0, examples, examples)",
    ),
    says=["once in steps"],
)
wrong("drops the rest", ("math.ceil(examples / batch)", "examples // batch"), says=["no example is left out"])
wrong(
    "global stream",
    (
        "order = np.random.default_rng([seed, epoch]).permutation(examples)",
        """
        np.random.seed((seed * 1_000_003 + epoch) % 2**32)
        order = np.random.permutation(examples)
        """,
    ),
    says=["not a global stream"],
)
wrong(
    "one number of two",
    ("np.random.default_rng([seed, epoch])", "np.random.default_rng(seed * 10007 + epoch)"),
    says=["no late epoch of the seed before", "both numbers, as a list"],
)
wrong(
    "numbers of numpy",
    ("order[place * batch : (place + 1) * batch].tolist()", "list(order[place * batch : (place + 1) * batch])"),
    says=["['list', 'int64', 'int64', 'int64']", "array.tolist() Python's"],
)
wrong("in order", ("np.random.default_rng([seed, epoch]).permutation", "np.arange"), says=["of 5 seeds"])
wrong(
    "remembers its generator",
    (
        "def indices",
        """
        MEMORY = []


        def indices
        """,
    ),
    (
        "order = np.random.default_rng([seed, epoch]).permutation(examples)",
        """
        if step == 0 or len(MEMORY) != examples:
            MEMORY[:] = np.random.default_rng(seed).permutation(examples)
        elif place == 0:
            MEMORY[:] = np.random.default_rng([seed, *MEMORY]).permutation(examples)
        order = np.array(MEMORY)
        """,
    ),
    says=["whatever was drawn or asked before"],
)
wrong("same order every epoch", ("[seed, epoch]", "seed"), says=["25 different orders"])
wrong("seed plus epoch", ("[seed, epoch]", "seed + epoch"), says=["give the generator both, not their sum"])
wrong("seed times a thousand", ("[seed, epoch]", "1000 * seed + epoch"), says=["both numbers"])
wrong(
    "shuffles batches",
    (
        """
        order = np.random.default_rng([seed, epoch]).permutation(examples)
        return order[place * batch : (place + 1) * batch].tolist()
        """,
        """
        order = np.random.default_rng([seed, epoch]).permutation(math.ceil((examples) / batch))
        epoch_order = [i for b in order if b != order.max() for i in range(b * batch, (b + 1) * batch)]
        epoch_order += range(order.max() * batch, examples)
        return epoch_order[place * batch : (place + 1) * batch]
        """,
    ),
    says=["not the batches"],
)
wrong(
    "tensors",
    (
        "np.random.default_rng([seed, epoch]).permutation(examples)",
        "torch.from_numpy(np.random.default_rng([seed, epoch]).permutation(examples))",
    ),
    ("order[place * batch : (place + 1) * batch].tolist()", "order[place * batch : (place + 1) * batch]"),
    says=["list of ints"],
)
right(
    "by a seeded sort",
    """
    import hashlib


    def indices(examples, batch, seed, step):
        per_epoch = -(-examples // batch)
        key = hashlib.sha256(f"{seed}/{step // per_epoch}".encode()).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(key[:7], "big"))
        ranks = torch.rand(examples, dtype=torch.float64, generator=generator).argsort()
        start = step % per_epoch * batch
        return [int(i) for i in ranks[start : start + batch]]
    """,
)
wrong(
    "the global stream",
    (
        "order = np.random.default_rng([seed, epoch]).permutation(examples)",
        """
        torch.manual_seed(seed * 2**32 + epoch)
        order = torch.randperm(examples)
        """,
    ),
    says=["not a global stream"],
)
wrong(
    "more bits than a generator keeps",
    (
        "np.random.default_rng([seed, epoch]).permutation(examples)",
        "torch.randperm(examples, generator=torch.Generator().manual_seed(seed * 2**32 + epoch))",
    ),
    says=["keeps the lowest 32 bits of its seed"],
)
wrong("digits in a row", ("[seed, epoch]", 'int(f"{seed}{epoch}")'), says=["both numbers, as a list"])

# Task 3 · Workers

wrong, right = LAB.task("loader")

wrong(
    "epoch 0 again",
    (
        "indices(len(data), config.batch, config.seed, step)",
        "indices(len(data), config.batch, config.seed, step - first)",
    ),
    says=["the first of"],
)
wrong("from the first", ("range(first, last)", "range(last)"), says=["one batch for each step"])
wrong("global base seed", ("generator=torch.Generator().manual_seed(config.seed),", ""), says=["generator of its own"])
wrong("in this process", ("num_workers=config.workers", "num_workers=0"), says=["num_workers is config.workers"])
wrong(
    "rebatches",
    (
        "batch_sampler=[indices(len(data), config.batch, config.seed, step) for step in range(first, last)],",
        """
        sampler=sum((indices(len(data), config.batch, config.seed, s) for s in range(first, last)), []),
        batch_size=config.batch,
        """,
    ),
    says=["in this order"],
)
wrong(
    "shuffles",
    (
        "batch_sampler=[indices(len(data), config.batch, config.seed, step) for step in range(first, last)],",
        """
        sampler=torch.utils.data.SubsetRandomSampler(
            sum((indices(len(data), config.batch, config.seed, s) for s in range(first, last)), []),
            generator=torch.Generator(),
        ),
        batch_size=config.batch,
        """,
    ),
    says=["in this order"],
)
wrong(
    "skips by reading",
    """
    class Skipping(DataLoader):
        skip = 0

        def __len__(self):
            return super().__len__() - self.skip

        def __iter__(self):
            stream = super().__iter__()
            for _ in range(self.skip):
                next(stream)
            return stream


    def loader(data, config, first, last, device):
        order = [indices(len(data), config.batch, config.seed, step) for step in range(last)]
        made = Skipping(
            data,
            batch_sampler=order,
            num_workers=config.workers,
            pin_memory=device.type == "cuda",
            generator=torch.Generator(),
        )
        object.__setattr__(made, "skip", first)
        return made
    """,
    says=["begin there"],
)
right(
    "with a lazy sampler",
    """
    class Steps:
        def __init__(self, examples, config, first, last):
            self.examples, self.config, self.steps = examples, config, range(first, last)

        def __len__(self):
            return len(self.steps)

        def __iter__(self):
            for step in self.steps:
                yield indices(self.examples, self.config.batch, self.config.seed, step)


    def loader(data, config, first, last, device):
        own = torch.Generator()
        own.manual_seed(17)
        more = {"prefetch_factor": 4, "multiprocessing_context": "fork"} if config.workers else {}
        return DataLoader(
            data,
            batch_sampler=Steps(len(data), config, first, last),
            num_workers=config.workers,
            pin_memory=torch.device(device).type == "cuda",
            generator=own,
            **more,
        )
    """,
)
wrong("never pins", ('device.type == "cuda"', "False"), says=["for a CUDA device pin_memory is True"])

# Task 4 · A look that leaves no trace

wrong, right = LAB.task("evaluate")

wrong("always back to training", ("module.training = mode", "module.train()"), says=["keep the mode of each"])
wrong("always fp32", ("autocast(device, precision)", 'autocast(device, "fp32")'), says=["autocast(device, precision)"])
wrong(
    "draws a base seed",
    ("DataLoader(data, batch_size=batch, generator=torch.Generator())", "DataLoader(data, batch_size=batch)"),
    says=["generator of its own"],
)
wrong(
    "drops the last",
    (
        "DataLoader(data, batch_size=batch, generator=torch.Generator())",
        "DataLoader(data, batch_size=batch, drop_last=True, generator=torch.Generator())",
    ),
    says=["the last one may be shorter"],
)
wrong("in training mode", ("model.eval()", ""), says=["model.eval() before the first forward"])
wrong("loss of rounded logits", ("logits.float()", "logits"), says=["logits.float()"])
wrong(
    "mean of batches",
    ('reduction="sum"', 'reduction="mean"'),
    ("(logits.argmax(-1) == y).sum", "(logits.argmax(-1) == y).float().mean"),
    ("y.numel()", "1"),
    says=["a mean of batch means"],
)
wrong("shuffles nothing but counts sequences", ("y.numel()", "len(x)"), says=["B · T targets"])
wrong("stays in evaluation mode", ("module.training = mode", "pass"), says=["in the mode in which it came"])
wrong(
    "tensors",
    ('F.cross_entropy(logits, y, reduction="sum").item()', 'F.cross_entropy(logits, y, reduction="sum")'),
    ("(logits.argmax(-1) == y).sum().item", "(logits.argmax(-1) == y).sum"),
    says=["plain floats"],
)
wrong("with a graph", ("with torch.no_grad():", "if True:"), says=["torch.no_grad"])
right(
    "without a loader",
    """
    @torch.inference_mode()
    def evaluate(model, data, batch, precision, device):
        modes = {module: module.training for module in model.modules()}
        model.train(False)
        losses, hits = [], []
        for start in range(0, len(data), batch):
            pairs = [data[i] for i in range(start, min(start + batch, len(data)))]
            x, y = (torch.stack(parts).to(device) for parts in zip(*pairs))
            with autocast(device, precision):
                logits = model(x)
            shares = logits.float().log_softmax(-1)
            losses.append(-shares.gather(-1, y.unsqueeze(-1)).flatten().double())
            hits.append((shares.argmax(-1) == y).flatten().double())
        for module, mode in modes.items():
            module.training = mode
        return {"loss": float(torch.cat(losses).mean()), "accuracy": float(torch.cat(hits).mean())}
    """,
)
wrong(
    "wakes what was frozen",
    ("modes = [(module, module.training) for module in model.modules()]", "was_training = model.training"),
    (
        """
        for module, mode in modes:
            module.training = mode
        """,
        "model.train(was_training)",
    ),
    says=["keep the mode of each of model.modules()"],
)
wrong(
    "switches graphs off for good",
    ("with torch.no_grad():", "torch.set_grad_enabled(False)\nif True:"),
    says=["which ends with its block"],
)

# Task 5 · One step

wrong, right = LAB.task("step")

wrong(
    "appends itself",
    (
        'return {"loss": loss.item(), "norm": norm.item(), "rate": rate(run.step, config)}',
        """
        record = {"loss": loss.item(), "norm": norm.item(), "rate": rate(run.step, config)}
        run.log.append(record)
        return record
        """,
    ),
    says=["who appends it"],
)
wrong(
    "casts the model",
    (
        """
        with autocast(run.device, config.precision):
            logits = run.model(x)
        """,
        """
        dtype = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[config.precision]
        run.model.to(dtype)
        logits = run.model(x.to(dtype))
        """,
    ),
    says=["stay in float32"],
)
wrong(
    "clips after the step",
    (
        "nn.utils.clip_grad_norm_(run.model.parameters(), config.clip)",
        "nn.utils.get_total_norm([p.grad for p in run.model.parameters()])",
    ),
    (
        "run.scaler.update()",
        """
        run.scaler.update()
        nn.utils.clip_grad_norm_(run.model.parameters(), config.clip)
        """,
    ),
    says=["does the clipping stand between"],
)
wrong(
    "clips scaled gradients",
    (
        """
        run.scaler.unscale_(run.optimizer)
        norm = nn.utils.clip_grad_norm_(run.model.parameters(), config.clip)
        """,
        """
        norm = nn.utils.clip_grad_norm_(run.model.parameters(), config.clip)
        run.scaler.unscale_(run.optimizer)
        """,
    ),
    says=["was measured before"],
)
wrong("first group only", ("run.optimizer.param_groups", "run.optimizer.param_groups[:1]"), says=["every group"])
wrong("fp32 always", ("config.precision", '"fp32"'), says=["autocast(run.device"])
wrong(
    "keeps the graph",
    (
        '{"loss": loss.item(), "norm": norm.item(), "rate": rate(run.step, config)}',
        '{"loss": loss, "norm": norm, "rate": rate(run.step, config)}',
    ),
    says=["plain floats"],
)
wrong(
    "looks at the loss only",
    (
        """
        if not run.scaler.is_enabled() and not norm.isfinite():
            raise FloatingPointError(f"the gradient of step {run.step} has a norm of {norm.item()}")
        """,
        "",
    ),
    says=["look at the gradient"],
)
wrong("loss of rounded logits", ("logits.float()", "logits"), says=["logits.float()"])
wrong(
    "never looks at the loss",
    (
        """
        if not loss.isfinite():
            raise FloatingPointError(f"the loss of step {run.step} is {loss.item()}")
        """,
        "",
    ),
    says=["look at the loss"],
)
wrong("never scales", ("run.scaler.scale(loss)", "loss"), says=["scaled before the backward"])
wrong("never updates the scale", ("run.scaler.update()", ""), says=["each step ends with update()"])
wrong("never zeroes", ("run.optimizer.zero_grad()", ""), says=["If only later steps are off"])
wrong(
    "norm after clipping",
    (
        '{"loss": loss.item(), "norm": norm.item(), "rate": rate(run.step, config)}',
        '{"loss": loss.item(), "norm": min(norm.item(), config.clip), "rate": rate(run.step, config)}',
    ),
    says=["the norm before clipping"],
)
wrong(
    "raises in fp16 too",
    ("not run.scaler.is_enabled() and not norm.isfinite()", "not norm.isfinite()"),
    says=["an infinite gradient is no error"],
)
wrong(
    "raises too late",
    (
        """
        if not run.scaler.is_enabled() and not norm.isfinite():
            raise FloatingPointError(f"the gradient of step {run.step} has a norm of {norm.item()}")
        """,
        "",
    ),
    (
        "run.scaler.update()",
        """
        run.scaler.update()
        if not run.scaler.is_enabled() and not norm.isfinite():
            raise FloatingPointError(f"step {run.step}: {norm.item()}")
        """,
    ),
    says=["the weights stay"],
)
wrong(
    "rate after the step",
    (
        """
        for group in run.optimizer.param_groups:
            group["lr"] = rate(run.step, config)
        """,
        "",
    ),
    (
        "run.scaler.update()",
        """
        run.scaler.update()
        for group in run.optimizer.param_groups:
            group["lr"] = rate(run.step, config)
        """,
    ),
    says=["is the rate set"],
)
wrong("stays in evaluation mode", ("run.model.train()", ""), says=["it may come from a validation"])
wrong(
    "sums the loss",
    (
        "F.cross_entropy(logits.float().flatten(0, -2), y.flatten())",
        'F.cross_entropy(logits.float().flatten(0, -2), y.flatten(), reduction="sum")',
    ),
    says=["the mean loss per target"],
)
wrong(
    "zeroes after backward",
    ("run.optimizer.zero_grad()", ""),
    (
        "run.scaler.scale(loss).backward()",
        """
        run.scaler.scale(loss).backward()
        run.optimizer.zero_grad(set_to_none=False)
        """,
    ),
    says=["the norm before clipping"],
)
wrong(
    "zeroes only afterwards",
    ("run.optimizer.zero_grad()", ""),
    ("run.scaler.update()", "run.scaler.update()\nrun.optimizer.zero_grad()"),
    says=["after a step that raised"],
)
wrong(
    "zeroes only afterwards and before it raises",
    ("run.optimizer.zero_grad()", ""),
    (
        'raise FloatingPointError(f"the gradient',
        'run.optimizer.zero_grad()\nraise FloatingPointError(f"the gradient',
    ),
    ("run.scaler.update()", "run.scaler.update()\nrun.optimizer.zero_grad()"),
    says=["gradients were there before the step"],
)
wrong(
    "zeroes at the first step only",
    ("run.optimizer.zero_grad()", "if not run.log:\n    run.optimizer.zero_grad()"),
    ("run.scaler.update()", "run.scaler.update()\nrun.optimizer.zero_grad()"),
    says=["after a step that raised"],
)
right(
    "clips by hand",
    """
    def train_step(run, x, y):
        now = rate(run.step, run.config)
        for group in run.optimizer.param_groups:
            group.update(lr=now)
        run.model.train()
        for p in run.model.parameters():
            p.grad = None
        with autocast(run.device, run.config.precision):
            logits = run.model(x)
            classes = logits.shape[-1]
        loss = F.nll_loss(torch.log_softmax(logits.float().reshape(-1, classes), -1), y.reshape(-1))
        value = float(loss.detach())
        if value != value or abs(value) == math.inf:
            raise FloatingPointError(f"step {run.step}: loss {value}")
        run.scaler.scale(loss).backward()
        run.scaler.unscale_(run.optimizer)
        grads = [p.grad for p in run.model.parameters() if p.grad is not None]
        length = torch.stack([g.double().square().sum() for g in grads]).sum().sqrt().item()
        finite = math.isfinite(length)
        if not finite and run.config.precision != "fp16":
            run.optimizer.zero_grad()
            raise FloatingPointError(f"step {run.step}: gradient {length}")
        if finite and length > run.config.clip:
            for g in grads:
                g *= run.config.clip / length
        run.scaler.step(run.optimizer)
        run.scaler.update()
        run.optimizer.zero_grad(set_to_none=True)
        return {"rate": now, "norm": length, "loss": value}
    """,
)
wrong(
    "returns the scaled loss",
    ("run.scaler.scale(loss).backward()", "loss = run.scaler.scale(loss)\nloss.backward()"),
    says=["this is the loss times the scale"],
)
wrong(
    "looks for NaN alone in the loss",
    ("if not loss.isfinite():", "if loss.isnan():"),
    says=["infinite loss, not finite"],
)
wrong(
    "looks for infinity alone in the norm", ("not norm.isfinite()", "norm.isinf()"), says=["NaN gradient, not finite"]
)
wrong(
    "does not clip in bf16",
    ("config.clip)", 'math.inf if config.precision == "bf16" else config.clip)'),
    says=["clipped then, in every precision"],
)

# Task 6 · All of it, or nothing

wrong, right = LAB.task("save")

wrong(
    "asks for the rate alone",
    ("in asdict(run.config).items():", 'in [("lr", run.config.lr)]:'),
    says=["ValueError that names batch", "every field of the config counts"],
)
wrong(
    "arrays inside",
    ("rng_state()", '{"torch": torch.get_rng_state(), "numpy": np.random.get_state()}'),
    ("weights_only=True", "weights_only=False"),
    (
        'set_rng_state(state["random"])',
        """
        torch.set_rng_state(state["random"]["torch"])
        np.random.set_state(state["random"]["numpy"])
        """,
    ),
    says=["must read it"],
)
wrong(
    "copies over",
    ("os.replace(temporary, path)", "Path(path).write_bytes(temporary.read_bytes())\ntemporary.unlink()"),
    says=["one move"],
)
wrong(
    "deletes first",
    (
        'temporary = Path(f"{path}.part")',
        """
        temporary = Path(f"{path}.part")
        Path(path).unlink(missing_ok=True)
        """,
    ),
    says=["os.replace"],
)
wrong("from another folder", ('Path(f"{path}.part")', 'Path(tempfile.mkdtemp()) / "part"'), says=["another folder"])
wrong(
    "leaves its traces",
    ("os.replace(temporary, path)", "Path(path).write_bytes(temporary.read_bytes())"),
    says=["nothing else left"],
)
wrong("no log", ('run.log = state["log"]', ""), says=["its length"])
wrong(
    "no random streams",
    (
        """
        state = {
            "config": asdict(run.config),
            "model": run.model.state_dict(),
            "optimizer": run.optimizer.state_dict(),
            "scaler": run.scaler.state_dict(),
            "log": run.log,
            "random": rng_state(),
        }
        """,
        """
        state = {
            "config": asdict(run.config),
            "model": run.model.state_dict(),
            "optimizer": run.optimizer.state_dict(),
            "scaler": run.scaler.state_dict(),
            "log": run.log,
        }
        """,
    ),
    ('set_rng_state(state["random"])', ""),
    says=["streams"],
)
wrong(
    "no scaler",
    (
        """
        state = {
            "config": asdict(run.config),
            "model": run.model.state_dict(),
            "optimizer": run.optimizer.state_dict(),
            "scaler": run.scaler.state_dict(),
            "log": run.log,
            "random": rng_state(),
        }
        """,
        """
        state = {
            "config": asdict(run.config),
            "model": run.model.state_dict(),
            "optimizer": run.optimizer.state_dict(),
            "log": run.log,
            "random": rng_state(),
        }
        """,
    ),
    ('run.scaler.load_state_dict(state["scaler"])', ""),
    says=["scaler"],
)
wrong(
    "over the old file",
    (
        """
        temporary = Path(f"{path}.part")
        torch.save(state, temporary)
        os.replace(temporary, path)
        """,
        "torch.save(state, path)",
    ),
    says=["os.replace"],
)
wrong(
    "parameters without buffers",
    ("run.model.state_dict()", "dict(run.model.named_parameters())"),
    ('run.model.load_state_dict(state["model"])', 'run.model.load_state_dict(state["model"], strict=False)'),
    says=["weights and buffers"],
)
wrong(
    "refuses too late",
    (
        """
        for field, value in asdict(run.config).items():
            if state["config"][field] != value:
                raise ValueError(f"{field} is {value!r}, and {state['config'][field]!r} in {path}")
        """,
        "",
    ),
    (
        'set_rng_state(state["random"])',
        """
        set_rng_state(state["random"])
        for field, value in asdict(run.config).items():
            if state["config"][field] != value:
                raise ValueError(f"{field} is {value!r}")
        """,
    ),
    says=["before anything is loaded"],
)
wrong(
    "removes then renames",
    ("os.replace(temporary, path)", "Path(path).unlink(missing_ok=True)\nos.rename(temporary, path)"),
    says=["one move"],
)
wrong(
    "swallows the error",
    (
        """
        torch.save(state, temporary)
        os.replace(temporary, path)
        """,
        """
        try:
            torch.save(state, temporary)
            os.replace(temporary, path)
        except Exception as error:
            print(error)
        """,
    ),
    says=["do not swallow"],
)
wrong(
    "takes any config",
    (
        """
        for field, value in asdict(run.config).items():
            if state["config"][field] != value:
                raise ValueError(f"{field} is {value!r}, and {state['config'][field]!r} in {path}")
        """,
        "",
    ),
    says=["compare it field by field"],
)
wrong(
    "torchs stream only",
    ("rng_state()", "torch.get_rng_state()"),
    ("set_rng_state", "torch.set_rng_state"),
    says=["random streams"],
)
wrong(
    "weights only",
    (
        """
        state = {
            "config": asdict(run.config),
            "model": run.model.state_dict(),
            "optimizer": run.optimizer.state_dict(),
            "scaler": run.scaler.state_dict(),
            "log": run.log,
            "random": rng_state(),
        }
        """,
        """
        state = {
            "config": asdict(run.config),
            "model": run.model.state_dict(),
            "scaler": run.scaler.state_dict(),
            "log": run.log,
            "random": rng_state(),
        }
        """,
    ),
    ('run.optimizer.load_state_dict(state["optimizer"])', ""),
    says=["From the second on: the optimizer"],
)
right(
    "through bytes",
    """
    import io


    def save(run, path):
        held = io.BytesIO()
        parts = [run.model.state_dict(), run.optimizer.state_dict(), run.scaler.state_dict()]
        torch.save([asdict(run.config), parts, list(run.log), rng_state()], held)
        with tempfile.NamedTemporaryFile(dir=Path(path).parent, delete=False) as file:
            file.write(held.getbuffer())
            file.flush()
            os.fsync(file.fileno())
        Path(file.name).replace(path)


    def load(run, path):
        config, parts, log, random = torch.load(
            io.BytesIO(Path(path).read_bytes()), map_location="cpu", weights_only=True
        )
        wrong = [name for name, value in vars(run.config).items() if config.get(name) != value]
        if wrong:
            raise ValueError(f"another config: {', '.join(wrong)} differ")
        for part, state in zip((run.model, run.optimizer, run.scaler), parts):
            part.load_state_dict(state)
        run.log[:] = log
        set_rng_state(random)
    """,
)
wrong("loads where it was", ('map_location="cpu", ', ""), says=["map_location='cpu'"])
wrong(
    "compares two fields",
    ("asdict(run.config).items()", '(("lr", run.config.lr), ("batch", run.config.batch))'),
    says=["every field of the config counts"],
)

# Task 7 · The loop

wrong, right = LAB.task("train")

wrong(
    "a loader for every step",
    ("batches = iter(loader(data, config, run.step, config.steps, run.device))", ""),
    ("next(batches)", "next(iter(loader(data, config, step, config.steps, run.device)))"),
    says=["starts all its workers again"],
)
wrong(
    "a loader for every step that draws",
    ("config = run.config", "config = run.config\nfirst_seed = torch.randint(2**31, ()).item()"),
    says=["draw from the global streams"],
)
wrong(
    "always from the start",
    ("loader(data, config, run.step, config.steps, run.device)", "loader(data, config, 0, config.steps, run.device)"),
    ("range(run.step, config.steps)", "range(config.steps)"),
    says=["A second call"],
)
wrong(
    "batches of the first steps",
    (
        "loader(data, config, run.step, config.steps, run.device)",
        "loader(data, config, 0, config.steps - run.step, run.device)",
    ),
    says=["with the batches of these steps"],
)
wrong(
    "clock includes validation",
    ('record["bytes"] = peak_memory_bytes(run.device)', ""),
    (
        "run.log.append(record)",
        """
        record |= {"seconds": time.perf_counter() - asked, "bytes": peak_memory_bytes(run.device)}
        run.log.append(record)
        """,
    ),
    says=["read the clock before"],
)
wrong(
    "clock starts after the batch",
    ("asked = time.perf_counter()", ""),
    ("came = time.perf_counter()", "asked = came = time.perf_counter()"),
    says=["before"],
)
wrong("counts examples of a full batch", ("y.numel()", "config.batch"), says=["batch of step s"])
wrong(
    "counts from zero",
    ("made % config.val_every", "step % config.val_every"),
    ("made % config.save_every", "step % config.save_every"),
    says=["By hand: val and accuracy"],
)
wrong("counts sequences", ("y.numel()", "len(y)"), says=["y.numel()"])
wrong("keeps tensors", ('scores["loss"]', 'torch.tensor(scores["loss"])'), says=["plain numbers"])
wrong(
    "never saves the last",
    ("last or made % config.save_every == 0", "made % config.save_every == 0"),
    says=["by hand: saved after"],
)
wrong(
    "never validates the last",
    ("last or made % config.val_every == 0", "made % config.val_every == 0"),
    says=["By hand: val and accuracy"],
)
wrong(
    "own shuffled loader",
    (
        "iter(loader(data, config, run.step, config.steps, run.device))",
        "itertools.cycle(DataLoader(data, batch_size=config.batch, shuffle=True))",
    ),
    says=["the batch of step s"],
)
wrong(
    "saves before the record",
    (
        "run.log.append(record)",
        """
        if last or made % config.save_every == 0:
            save(run, folder / f"{run.step + 1}.pt")
        run.log.append(record)
        """,
    ),
    (
        """
        if last or made % config.save_every == 0:
            save(run, folder / f"{run.step}.pt")
        """,
        "",
    ),
    says=["appended before the save"],
)
wrong(
    "val after the save",
    (
        """
        if last or made % config.val_every == 0:
            scores = evaluate(run.model, val, config.batch, config.precision, run.device)
            record |= {"val": scores["loss"], "accuracy": scores["accuracy"]}
        """,
        "",
    ),
    (
        """
        if last or made % config.save_every == 0:
            save(run, folder / f"{run.step}.pt")
        """,
        """
        if last or made % config.save_every == 0:
            save(run, folder / f"{run.step}.pt")
        if last or made % config.val_every == 0:
            scores = evaluate(run.model, val, config.batch, config.precision, run.device)
            run.log[-1] |= {"val": scores["loss"], "accuracy": scores["accuracy"]}
        """,
    ),
    says=["its val included"],
)
wrong("validates all at once", ("config.batch", "len(val)"), says=["config.batch"])
wrong("validates in fp32", ("config.precision", '"fp32"'), says=["config.precision"])
wrong(
    "validates on the training data",
    (
        "evaluate(run.model, val, config.batch, config.precision, run.device)",
        "evaluate(run.model, data, config.batch, config.precision, run.device)",
    ),
    says=["validated after it on all of val"],
)
wrong("waited is all", ("came - asked", "time.perf_counter() - asked"), says=["waited ended"])
right(
    "while there are steps",
    """
    def timed(batches):
        stream = iter(batches)
        while True:
            begun = time.monotonic()
            try:
                pair = next(stream)
            except StopIteration:
                return
            yield begun, time.monotonic() - begun, pair


    def due(made, every, config):
        return made == config.steps or not made % every


    def train(run, data, val, folder):
        config = run.config
        if run.step >= config.steps:
            return
        for begun, waited, (x, y) in timed(loader(data, config, run.step, config.steps, run.device)):
            record = train_step(run, x.to(run.device), y.to(run.device))
            record["seconds"] = time.monotonic() - begun
            record.update(
                step=run.step, targets=math.prod(y.shape), waited=waited, bytes=peak_memory_bytes(run.device)
            )
            run.log.append(record)
            if due(run.step, config.val_every, config):
                scores = evaluate(run.model, val, config.batch, config.precision, run.device)
                record["val"], record["accuracy"] = scores["loss"], scores["accuracy"]
            if due(run.step, config.save_every, config):
                save(run, Path(folder, f"{run.step}.pt"))
    """,
)
wrong(
    "a constant for the memory", ("peak_memory_bytes(run.device)", "1"), says=["bytes is peak_memory_bytes(run.device)"]
)

# Task 8 · The report

wrong, right = LAB.task("report")

wrong("first step for free", ('total("seconds", 0) / 3600', 'total("seconds", 1) / 3600'), says=["the cost is of all"])
wrong("last bytes", ('max(record["bytes"] for record in log)', 'log[-1]["bytes"]'), says=["wherever they stand"])
wrong(
    "mean of rates",
    ('total("targets", 1) / total("seconds", 1)', 'sum(r["targets"] / r["seconds"] for r in log[1:]) / (len(log) - 1)'),
    says=["sums divided by sums"],
)
wrong("nan is the best", ('not math.isnan(record.get("val", math.nan))', '"val" in record'), says=["NaN is left out"])
wrong("needs a validation", ("min(scores, default=(None, None))", "min(scores)"), says=["by hand"])
wrong(
    "place in the list",
    (
        '[(record["val"], record["step"]) for record in log if not math.isnan(record.get("val", math.nan))]',
        """
        [
            (record["val"], place)
            for place, record in enumerate(log)
            if not math.isnan(record.get("val", math.nan))
        ]
        """,
    ),
    says=["not its place"],
)
wrong("seconds for hours", ('total("seconds", 0) / 3600', 'total("seconds", 0)'), says=["the cost is of all"])
wrong(
    "takes one record",
    ("len(log) < 2", "len(log) < 1"),
    ('total("targets", 1) / total("seconds", 1)', 'total("targets", 1) / max(total("seconds", 1), 1e-9)'),
    ('total("waited", 1) / total("seconds", 1)', 'total("waited", 1) / max(total("seconds", 1), 1e-9)'),
    says=["refuse fewer than two"],
)
wrong(
    "the later of two",
    ("min(scores, default=(None, None))", "min(scores, key=lambda pair: (pair[0], -pair[1]), default=(None, None))"),
    says=["the earlier counts"],
)
wrong(
    "waiting share",
    ('1 - total("waited", 1) / total("seconds", 1)', 'total("waited", 1) / total("seconds", 1)'),
    says=["sums divided by sums"],
)
wrong(
    "with the first step",
    ('total("targets", 1) / total("seconds", 1)', 'total("targets", 0) / total("seconds", 0)'),
    says=["all steps but the first"],
)
wrong(
    "nan is infinite",
    (
        """
        scores = [(record["val"], record["step"]) for record in log if not math.isnan(record.get("val", math.nan))]
        best_val, best_step = min(scores, default=(None, None))
        """,
        """
        scores = [(record["val"], record["step"]) for record in log if "val" in record]
        scores = [(math.inf if math.isnan(value) else value, step) for value, step in scores]
        best_val, best_step = min(scores, default=(None, None))
        """,
    ),
    says=["where all are NaN", "None"],
)
right(
    "by arrays",
    """
    def report(log, flops, peak, price):
        if len(log) <= 1:
            raise ValueError(f"a log of {len(log)} is too short")
        table = {
            key: np.array([record[key] for record in log], dtype=float)
            for key in ("targets", "seconds", "waited", "bytes")
        }
        later = {key: column[1:].sum() for key, column in table.items()}
        best = None
        for record in log:
            if "val" in record and record["val"] == record["val"] and (best is None or record["val"] < best["val"]):
                best = record
        return {
            "best_val": best and best["val"],
            "best_step": best and best["step"],
            "peak_bytes": table["bytes"].max(),
            "mfu": later["targets"] * flops / (peak * later["seconds"]),
            "utilisation": (later["seconds"] - later["waited"]) / later["seconds"],
            "throughput": later["targets"] / later["seconds"],
            "dollars": price * table["seconds"].sum() / 60 / 60,
            "seconds": table["seconds"].sum(),
            "targets": int(table["targets"].sum()),
            "steps": len(log),
        }
    """,
)
