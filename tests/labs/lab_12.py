"""Lab 12 · FashionMNIST, from nothing to 90 %: what students write. See variants.py."""

from variants import variants_of

LAB = variants_of("12_fashionmnist_from_the_bytes")


# Task 1 · Read the bytes

wrong, right = LAB.task("read")

wrong(
    "a header of sixteen bytes",
    r"""
    def read_idx(content):
        if content[:3] != b"\0\0\x08":
            raise ValueError(f"not IDX: {content[:4].hex(' ')}")
        shape = tuple(int(n) for n in np.frombuffer(content, ">u4", count=content[3], offset=4))
        start = 12 if content[3] == 2 else 16
        if len(content) < start + math.prod(shape) and content[3] == 2:
            raise ValueError(f"{start + math.prod(shape)} bytes expected, {len(content)} found")
        return np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy()
    """,
    says=["its header is 8 bytes long"],
)
wrong(
    "any number of bytes",
    r"""
    def read_idx(content):
        if content[:3] != b"\0\0\x08":
            raise ValueError(f"not IDX: {content[:4].hex(' ')}")
        start = 4 + 4 * content[3]
        shape = tuple(int.from_bytes(content[i : i + 4], "big") for i in range(4, start, 4))
        return np.frombuffer(content, np.uint8, count=math.prod(shape), offset=start).reshape(shape).copy()
    """,
    says=["27"],
)
right(
    "by a list of bytes",
    """
    def read_idx(content):
        zero, empty, kind, axes = content[:4]
        if zero or empty or kind != 8:
            raise ValueError("bytes " + " ".join(f"{byte:02x}" for byte in content[:4]))
        shape = []
        for axis in range(axes):
            a, b, c, d = content[4 + 4 * axis : 8 + 4 * axis]
            shape.append(((a * 256 + b) * 256 + c) * 256 + d)
        whole = 4 + 4 * axes + math.prod(shape)
        if whole != len(content):
            raise ValueError(f"expected {whole}, found {len(content)}")
        return np.array(bytearray(content[4 + 4 * axes :]), dtype=np.uint8).reshape(*shape)
    """,
)

another_way = r"""
def read_idx(content):
    if content[:3] != b"\0\0\x08":
        raise ValueError(f"not IDX: {content[:4].hex(' ')}")
    start = 4 + 4 * content[3]
    shape = tuple(int.from_bytes(content[i : i + 4], "big") for i in range(4, start, 4))
    if len(content) != start + math.prod(shape):
        raise ValueError(f"{start + math.prod(shape)} bytes expected, {len(content)} found")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy()
"""

wrong(
    "read only",
    (
        "np.frombuffer(content, np.uint8, offset=start).reshape(shape).copy()",
        "np.frombuffer(content, np.uint8, offset=start).reshape(shape)",
    ),
    of=another_way,
    says=["copy() what you return"],
)
wrong(
    "takes any type", ('content[:3] != b"\\0\\0\\x08"', 'content[:2] != b"\\0\\0"'), of=another_way, says=["refuse it"]
)
wrong(
    "the least significant byte first",
    ('int.from_bytes(content[i : i + 4], "big")', 'int.from_bytes(content[i : i + 4], "little")'),
    of=another_way,
    says=["the most significant byte first"],
)

wrong(
    "looks at the type alone",
    ('content[:3] != b"\\0\\0\\x08"', "content[2] != 8"),
    of=another_way,
    says=["ValueError to be raised", "still packed by gzip"],
)

# Task 2 · Normalise, by what was learnt from

wrong, right = LAB.task("prepare")

wrong(
    "by torchs std",
    """
    def prepare(learn, *others):
        pixels = torch.from_numpy(learn).float()
        return tuple(
            ((torch.from_numpy(each).float() - pixels.mean()) / pixels.std()).unsqueeze(1)
            for each in (learn, *others)
        )
    """,
    says=["divides by n − 1"],
)
wrong(
    "each by its own numbers",
    """
    def prepare(learn, *others):
        return tuple(
            torch.from_numpy((each - each.mean()) / each.std()).float()[:, None] for each in (learn, *others)
        )
    """,
    says=["by the numbers of the first array"],
)
wrong(
    "in float64",
    """
    def prepare(learn, *others):
        mean, std = learn.mean(), learn.std()
        return tuple(torch.from_numpy((each - mean) / std)[:, None] for each in (learn, *others))
    """,
    says=["float32 for each"],
)
wrong(
    "in uint8",
    """
    def prepare(learn, *others):
        mean, std = learn.mean(), learn.std()
        return tuple(torch.from_numpy((each - np.uint8(mean)) / std).float()[:, None] for each in (learn, *others))
    """,
    says=["mean 0.75"],
)
wrong(
    "no channel",
    """
    def prepare(learn, *others):
        mean, std = learn.mean(), learn.std()
        return tuple(torch.from_numpy((each - mean) / std).float() for each in (learn, *others))
    """,
    says=["a shape (N, 1, H, W)"],
)
wrong(
    "pixel by pixel",
    """
    def prepare(learn, *others):
        mean, std = learn.mean(0), (learn.std(0) + 1e-6)
        return tuple(torch.from_numpy((each - mean) / std).float()[:, None] for each in (learn, *others))
    """,
    says=["mean 0.75"],
)

# Task 3 · Hold out, and shuffle

wrong, right = LAB.task("batches")

wrong(
    "batches of neighbours",
    (
        """
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
        for piece in order.split(size):
        """,
        """
        pieces = torch.arange(len(x)).split(size)
        full = len(x) // size
        order = torch.randperm(full, generator=torch.Generator().manual_seed(seed)).tolist()
        for piece in [pieces[k] for k in order] + list(pieces[full:]):
        """,
    ),
    says=["shuffle the examples, not whole batches"],
)
wrong(
    "draw with replacement",
    (
        """
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
        for piece in order.split(size):
        """,
        """
        order = torch.randint(0, len(x), (len(x),), generator=torch.Generator().manual_seed(seed))
        for start in range(0, len(x), size):
            piece = order[start : start + size]
        """,
    ),
    says=["exactly once in an epoch"],
)
wrong(
    "seed the global generator",
    (
        """
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
        for piece in order.split(size):
        """,
        """
        torch.manual_seed(seed)
        order = torch.randperm(len(x))
        for start in range(0, len(x), size):
            piece = order[start : start + size]
        """,
    ),
    says=["is global"],
)
wrong(
    "shuffle labels by themselves",
    (
        """
        for piece in order.split(size):
            yield x[piece], y[piece]
        """,
        """
        generator = torch.Generator().manual_seed(seed + 1)
        other = torch.randperm(len(x), generator=generator)
        for start in range(0, len(x), size):
            piece = order[start : start + size]
            yield x[piece], y[other[start : start + size]]
        """,
    ),
    says=["same piece of the same order"],
)
wrong(
    "split holds out the last",
    """
    def split(n, held, seed):
        return torch.arange(n - held), torch.arange(n - held, n)


    def batches(x, y, size, seed):
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
        for start in range(0, len(x), size):
            piece = order[start : start + size]
            yield x[piece], y[piece]
    """,
    says=["hold out by lot"],
)
wrong(
    "split overlaps",
    """
    def split(n, held, seed):
        generator = torch.Generator().manual_seed(seed)
        return torch.randperm(n, generator=generator)[held:], torch.randperm(n, generator=generator)[:held]


    def batches(x, y, size, seed):
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
        for start in range(0, len(x), size):
            piece = order[start : start + size]
            yield x[piece], y[piece]
    """,
    says=["cut one torch.randperm(n) in two"],
)

another_way = """
def split(n, held, seed):
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    return order[held:], order[:held]


def batches(x, y, size, seed):
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    for start in range(0, len(x), size):
        piece = order[start : start + size]
        yield x[piece], y[piece]
"""

wrong(
    "drop the rest",
    ("range(0, len(x), size)", "range(0, len(x) - size + 1, size)"),
    of=another_way,
    says=["neither dropped nor filled up"],
)
wrong(
    "in the order of the file",
    ("torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))", "torch.arange(len(x))"),
    of=another_way,
    says=["shuffle"],
)

wrong(
    "holds out neighbours",
    (
        "return order[held:], order[:held]",
        "order = (torch.arange(n) + order[0]) % n\nreturn order[held:], order[:held]",
    ),
    of=another_way,
    says=["neighbours"],
)

# Task 4 · Judge

wrong, right = LAB.task("evaluate")

wrong(
    "softmax first",
    ('F.cross_entropy(scores, labels, reduction="sum")', 'F.cross_entropy(scores.softmax(1), labels, reduction="sum")'),
    says=["no softmax"],
)

another_way = """
@torch.no_grad()
def evaluate(model, x, y, size=1000):
    mode = model.training
    model.eval()

    loss = right = 0.0
    for start in range(0, len(x), size):
        scores, labels = model(x[start : start + size]), y[start : start + size]
        loss += F.cross_entropy(scores, labels).item() * len(labels)
        right += (scores.argmax(1) == labels).double().sum().item()
    model.train(mode)
    return loss / len(x), right / len(x)
"""

wrong("all at once", ("model.eval()", "model.eval()\nsize = len(x)"), of=another_way, says=["x.split(size)"])
wrong("always back to training", ("model.train(mode)", "model.train()"), of=another_way, says=["model.train(mode)"])
wrong("leaves the model in evaluation", ("model.train(mode)", ""), of=another_way, says=["model.train(mode)"])
wrong(
    "means of means",
    ("F.cross_entropy(scores, labels).item() * len(labels)", "F.cross_entropy(scores, labels).item()"),
    ("loss / len(x)", "loss / math.ceil(len(x) / size)"),
    of=another_way,
    says=["Sums, divided once"],
)
wrong(
    "with a graph",
    ("@torch.no_grad()\ndef evaluate(model, x, y, size=1000):", "def evaluate(model, x, y, size=1000):"),
    of=another_way,
    says=["inside torch.no_grad()"],
)
wrong("with dropout", ("model.eval()", ""), of=another_way, says=["model.eval() first"])

# Task 5 · Count before you build

wrong, right = LAB.task("plan")

wrong(
    "looks at one side of the padding",
    ("min(free) < 0", "kernel > min(shape[1:]) + padding"),
    says=["both sides: 1 + 2 · 2"],
)

another_way = """
def plan(layers, shape):
    result = []
    for i, (kind, *n) in enumerate(layers):
        p = m = 0
        if kind == "conv":
            if len(shape) != 3:
                raise ValueError(f"layer {i} needs (C, H, W)")
            c, h, w = shape
            h, w = h + 2 * n[3], w + 2 * n[3]
            if n[1] > min(h, w):
                raise ValueError(f"layer {i} does not fit")
            h, w = (h - n[1]) // n[2] + 1, (w - n[1]) // n[2] + 1
            p = n[0] * (c * n[1] * n[1] + 1)
            m = h * w * n[0] * c * n[1] * n[1]
            shape = (n[0], h, w)
        elif kind == "pool":
            if len(shape) != 3 or n[0] > min(shape[1:]):
                raise ValueError(f"layer {i} does not fit {shape}")
            shape = (shape[0], shape[1] // n[0], shape[2] // n[0])
        elif kind == "flatten":
            shape = (math.prod(shape),)
        elif kind == "linear":
            if len(shape) != 1:
                raise ValueError(f"layer {i} needs (n,)")
            p, m, shape = (shape[0] + 1) * n[0], shape[0] * n[0], (n[0],)
        elif kind not in ("relu", "dropout"):
            raise ValueError(f"layer {i}: {kind}?")
        result.append((shape, p, m))
    return result
"""

wrong(
    "built and counted",
    """
    def plan(layers, shape):
        kinds = {"pool": nn.MaxPool2d, "relu": nn.ReLU, "dropout": nn.Dropout, "flatten": nn.Flatten}
        rows, x = [], torch.zeros(1, *shape)
        for place, (kind, *numbers) in enumerate(layers):
            try:
                if (kind in ("conv", "pool") and x.dim() != 4) or (kind == "linear" and x.dim() != 2):
                    raise RuntimeError("axes")
                if kind in ("conv", "linear"):
                    module = (nn.Conv2d if kind == "conv" else nn.Linear)(x.shape[1], *numbers)
                else:
                    module = kinds[kind](*numbers)
                x = module(x)
            except (RuntimeError, KeyError) as error:
                raise ValueError(f"layer {place}: {error}") from None
            weights = [p.numel() for p in module.parameters()]
            products = weights[0] * math.prod(x.shape[2:]) if weights else 0
            rows.append((tuple(x.shape[1:]), sum(weights), products))
        return rows
    """,
    says=["count by the table, and build nothing"],
)
right("branch by branch", another_way)
wrong(
    "forgets the channels that come in",
    ("c * n[1] * n[1] + 1", "n[1] * n[1] + 1"),
    ("h * w * n[0] * c", "h * w * n[0]"),
    of=another_way,
    says=["the shape that comes in"],
)
wrong("looks at the height only", ("min(h, w)", "h"), of=another_way, says=["but not into the width of 7"])
wrong("multiplies once", ("h * w * n[0]", "n[0]"), of=another_way, says=["at each of the 14 · 14 places"])
wrong("no bias", ("c * n[1] * n[1] + 1", "c * n[1] * n[1]"), of=another_way, says=["biases are parameters"])
wrong(
    "padding on one side",
    ("h + 2 * n[3], w + 2 * n[3]", "h + n[3], w + n[3]"),
    of=another_way,
    says=["biases are parameters but no multiply-adds"],
)
wrong("passes unknown layers", ('kind not in ("relu", "dropout")', 'kind == ""'), of=another_way, says=["blur"])
wrong(
    "square pictures only",
    ("(w - n[1]) // n[2]", "(h - n[1]) // n[2]"),
    of=another_way,
    says=["height and width each by itself"],
)
wrong("windows that do not fit", ("n[1] > min(h, w)", "h < 1"), of=another_way, says=["a kernel of 8 does not fit"])

wrong("looks at the width only", ("min(h, w)", "w"), of=another_way, says=["but not into the height of 7"])
wrong(
    "pool looks at the height only",
    ("n[0] > min(shape[1:])", "n[0] > shape[1]"),
    of=another_way,
    says=["a window of 8 fits into the height"],
)
wrong(
    "pool looks at the width only",
    ("n[0] > min(shape[1:])", "n[0] > shape[2]"),
    of=another_way,
    says=["a window of 8 fits into the width"],
)
wrong("pool must be smaller", ("n[0] > min", "n[0] >= min"), of=another_way, says=["a window of 3 just fits"])
wrong(
    "pool takes what is flat",
    ("len(shape) != 3 or n[0] > min(shape[1:])", "n[0] > min(shape[-2:])"),
    of=another_way,
    says=["a pool takes (C, H, W)"],
)

# Task 6 · Build

wrong, right = LAB.task("build")

wrong("dropout of a half", ("nn.Dropout", "lambda p: nn.Dropout()"), says=["nn.Dropout(p)"])

another_way = """
def build(layers, shape):

    made, shapes = [], [shape, *(out for out, _, _ in plan(layers, shape))]
    for (kind, *n), come in zip(layers, shapes):
        if kind == "conv":
            made.append(nn.Conv2d(come[0], n[0], n[1], stride=n[2], padding=n[3]))
        elif kind == "linear":
            made.append(nn.Linear(come[0], n[0]))
        else:
            made.append(
                {"pool": nn.MaxPool2d, "relu": nn.ReLU, "dropout": nn.Dropout, "flatten": nn.Flatten}[kind](*n)
            )
    return nn.Sequential(*made)
"""

wrong(
    "always the same weights",
    (
        "made, shapes = [], [shape, *(out for out, _, _ in plan(layers, shape))]",
        """
        torch.manual_seed(0)
        made, shapes = [], [shape, *(out for out, _, _ in plan(layers, shape))]
        """,
    ),
    of=another_way,
    says=["no seed of your own"],
)
wrong(
    "forgets the stride",
    ("nn.Conv2d(come[0], n[0], n[1], stride=n[2], padding=n[3])", "nn.Conv2d(come[0], n[0], n[1], padding=n[3])"),
    of=another_way,
    says=["(stride 2, padding 1)"],
)
wrong(
    "softmax at the end",
    ("nn.Sequential(*made)", "nn.Sequential(*made, nn.Softmax(1))"),
    of=another_way,
    says=["none behind the last"],
)
wrong(
    "weights of size one",
    (
        "return nn.Sequential(*made)",
        """
        for module in made:
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight)
        return nn.Sequential(*made)
        """,
    ),
    of=another_way,
    says=["leave the weights as the module made them"],
)
wrong(
    "without biases",
    (
        "nn.Conv2d(come[0], n[0], n[1], stride=n[2], padding=n[3])",
        "nn.Conv2d(come[0], n[0], n[1], stride=n[2], padding=n[3], bias=False)",
    ),
    ("nn.Linear(come[0], n[0])", "nn.Linear(come[0], n[0], bias=False)"),
    of=another_way,
    says=["with their biases"],
)

wrong(
    "the picture's channels for each conv",
    ("nn.Conv2d(come[0],", "nn.Conv2d(shape[0],"),
    of=another_way,
    says=["the second conv"],
)
wrong(
    "weights for relu in the convs",
    (
        "return nn.Sequential(*made)",
        """
        for module in made:
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
        return nn.Sequential(*made)
        """,
    ),
    of=another_way,
    says=["leave the weights as the module made them"],
)

# Task 7 · The loop

wrong, right = LAB.task("train")

wrong("by adamw", ("torch.optim.Adam", "torch.optim.AdamW"), says=["torch.optim.Adam,"])
right(
    "by a scheduler",
    """
    def train(model, stream, steps, lr):
        model.train()
        optimizer = torch.optim.Adam(model.parameters(), lr, foreach=False)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: 1 - t / steps)
        losses = []
        while len(losses) < steps:
            try:
                x, y = next(stream)
            except StopIteration:
                raise ValueError(f"the stream ended after {len(losses)}") from None
            loss = -F.log_softmax(model(x), 1)[range(len(y)), y].mean()
            loss.backward()
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        return losses
    """,
)

another_way = """
def train(model, stream, steps, lr):
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr)
    losses = []
    for x, y in itertools.islice(stream, steps):
        optimizer.param_groups[0]["lr"] = lr * (1 - len(losses) / steps)
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    if len(losses) < steps:
        raise ValueError(f"only {len(losses)} of {steps} batches came")
    return losses
"""

wrong(
    "an optimizer a step",
    ("optimizer = torch.optim.Adam(model.parameters(), lr)", ""),
    (
        'optimizer.param_groups[0]["lr"] = lr * (1 - len(losses) / steps)',
        "optimizer = torch.optim.Adam(model.parameters(), lr * (1 - len(losses) / steps))",
    ),
    of=another_way,
    says=["keep one optimizer"],
)
wrong(
    "at a constant rate",
    ('optimizer.param_groups[0]["lr"] = lr * (1 - len(losses) / steps)', ""),
    of=another_way,
    says=["the rate of step t is lr"],
)
wrong("by sgd", ("torch.optim.Adam", "torch.optim.SGD"), of=another_way, says=["From [1] on"])
wrong(
    "content with less",
    (
        """
        if len(losses) < steps:
            raise ValueError(f"only {len(losses)} of {steps} batches came")
        """,
        "",
    ),
    of=another_way,
    says=["5 batches came"],
)
wrong(
    "first rate lowered", ("len(losses) / steps", "(len(losses) + 1) / steps"), of=another_way, says=["the whole rate"]
)
wrong("in the mode it finds", ("model.train()", ""), of=another_way, says=["model.train() first"])
wrong("keeps the graphs", ("loss.item()", "loss"), of=another_way, says=["keep its whole graph alive"])
wrong("never zeroes", ("optimizer.zero_grad()", ""), of=another_way, says=["zero the gradients"])
wrong(
    "rate ends at nothing",
    ("len(losses) / steps", "len(losses) / (steps - 1)"),
    of=another_way,
    says=["the rate of step t is lr"],
)
wrong(
    "softmax twice",
    ("F.cross_entropy(model(x), y)", "F.cross_entropy(model(x).softmax(1), y)"),
    of=another_way,
    says=["no softmax before it"],
)
wrong(
    "takes one too many",
    ("x, y in itertools.islice(stream, steps)", "(x, y), t in zip(stream, range(steps))"),
    ("len(losses) / steps", "t / steps"),
    of=another_way,
    says=["zip(stream, range(steps)) takes one too many"],
)
wrong("the whole stream", ("itertools.islice(stream, steps)", "stream"), of=another_way, says=["7 of 9 batches"])

# Task 8 · Where it is wrong

wrong, right = LAB.task("confusion")

wrong(
    "forgets a class that never occurs",
    """
    def confusion(labels, answers, classes):
        classes = int(max(labels.max(), answers.max())) + 1
        return torch.bincount(classes * labels + answers, minlength=classes**2).reshape(classes, classes).cpu()


    def hardest_pair(counts):
        n, best, most = len(counts), (0, 1), -1
        for a in range(n):
            for b in range(a + 1, n):
                both = int(counts[a, b]) + int(counts[b, a])
                if both > most:
                    best, most = (a, b), both
        return best
    """,
    says=["even if the last class never occurs"],
)
wrong(
    "pair from the diagonal",
    """
    def confusion(labels, answers, classes):
        counts = torch.zeros(classes, classes, dtype=torch.int64)
        counts.index_put_((labels.cpu(), answers.cpu()), torch.tensor(1), accumulate=True)
        return counts


    def hardest_pair(counts):
        both = counts + counts.T
        place = int(both.argmax())
        return tuple(sorted((place // len(counts), place % len(counts))))
    """,
    says=["the first of them"],
)

another_way = """
def confusion(labels, answers, classes):
    counts = torch.zeros(classes, classes, dtype=torch.int64)
    counts.index_put_((labels.cpu(), answers.cpu()), torch.tensor(1), accumulate=True)
    return counts


def hardest_pair(counts):
    n, best, most = len(counts), (0, 1), -1
    for a in range(n):
        for b in range(a + 1, n):
            both = int(counts[a, b]) + int(counts[b, a])
            if both > most:
                best, most = (a, b), both
    return best
"""

right("by index put and loops", another_way)
wrong(
    "adds at indices once",
    (
        "counts.index_put_((labels.cpu(), answers.cpu()), torch.tensor(1), accumulate=True)",
        "counts[labels.cpu(), answers.cpu()] += 1",
    ),
    of=another_way,
    says=["an index that occurs twice"],
)
wrong(
    "answers in rows",
    ("(labels.cpu(), answers.cpu())", "(answers.cpu(), labels.cpu())"),
    of=another_way,
    says=["rows are labels"],
)
wrong(
    "pair found in the caller's counts",
    ("n, best, most = len(counts), (0, 1), -1", "n, best, most = len(counts.fill_diagonal_(0)), (0, 1), -1"),
    of=another_way,
    says=["counts is the caller's"],
)
wrong(
    "pair one way only",
    ("int(counts[a, b]) + int(counts[b, a])", "max(int(counts[a, b]), int(counts[b, a]))"),
    of=another_way,
    says=["add both directions"],
)

pair_by_loops = """
n, best, most = len(counts), (0, 1), -1
for a in range(n):
    for b in range(a + 1, n):
        both = int(counts[a, b]) + int(counts[b, a])
        if both > most:
            best, most = (a, b), both
return best
"""

wrong(
    "of equal pairs the smaller b",
    (
        pair_by_loops,
        """
        b, a = divmod(int((counts + counts.T).tril(-1).argmax()), len(counts))
        return a, b
        """,
    ),
    of=another_way,
    says=["the smallest a"],
)
wrong(
    "no pair without a confusion",
    (pair_by_loops, "return divmod(int((counts + counts.T).triu(1).argmax()), len(counts))"),
    of=another_way,
    says=["nothing was confused"],
)

# Task 9 · Your network

wrong, right = LAB.task("recipe")

wrong(
    "a rate too high",
    ("[(96, 3e-3), (96, 3e-3), (96, 3e-3), (96, 3e-3), (96, 2e-3)]", "[(512, 1.0)]"),
    says=["near 10 %: the rate is too high"],
)
wrong("a wide head", ('("linear", 128)', '("linear", 256)'), says=["shrink the layer behind flatten"])
wrong(
    "an mlp",
    """
    def my_layers():
        return [("flatten",), ("linear", 256), ("relu",), ("linear", 10)]


    def my_stages():
        return [(96, 2e-3)] * 5
    """,
    says=["begin with convolutions"],
)
wrong(
    "at full size",
    ('("conv", 16, 5, 2, 2),', '("conv", 16, 5, 1, 2),'),
    ('("conv", 32, 3, 2, 1),', '("pool", 2),\n("conv", 32, 3, 2, 1),'),
    says=["halve the picture earlier"],
)
wrong("forgets the classes", ('("linear", 10)', '("linear", 9)'), says=["the last layer is"])
wrong(
    "forgets the flatten",
    (
        """
        return [
            ("conv", 16, 5, 2, 2),
            ("relu",),
            ("conv", 32, 3, 2, 1),
            ("relu",),
            ("flatten",),
            ("linear", 128),
            ("relu",),
            ("linear", 10),
        ]
        """,
        """
        return [
            ("conv", 16, 5, 2, 2),
            ("relu",),
            ("conv", 32, 3, 2, 1),
            ("relu",),
            ("linear", 128),
            ("relu",),
            ("linear", 10),
        ]
        """,
    ),
    says=["flatten"],
)
wrong(
    "twenty epochs",
    ("[(96, 3e-3), (96, 3e-3), (96, 3e-3), (96, 3e-3), (96, 2e-3)]", "[(96, 2e-3)] * 20"),
    says=["five epochs are enough"],
)
wrong(
    "batches of 32",
    ("[(96, 3e-3), (96, 3e-3), (96, 3e-3), (96, 3e-3), (96, 2e-3)]", "[(32, 2e-3)] * 5"),
    says=["batches of 64 or more", "here 64 is the least"],
)
