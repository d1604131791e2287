"""Lab 05 · A Transformer from bare Parameters: what students write. See variants.py."""

from variants import variants_of

LAB = variants_of("05_a_block_from_parameters")


# Task 1 · A linear layer

wrong, right = LAB.task("linear")

wrong(
    "as wide as randn",
    ("0.02 * torch.randn(outputs, inputs)", "torch.randn(outputs, inputs)"),
    says=["multiply by 0.02"],
)
wrong("bias drawn", ("torch.zeros(outputs)", "0.02 * torch.randn(outputs)"), says=["starts at zero"])
wrong(
    "from the shelf",
    ("nn.Module", "nn.Linear"),
    ("super().__init__()", "super().__init__(inputs, outputs)"),
    says=["none inherited from"],
)
wrong(
    "inputs first",
    ("torch.randn(outputs, inputs)", "torch.randn(inputs, outputs)"),
    ("self.weight.T", "self.weight"),
    says=["Outputs come first"],
)
wrong(
    "matrices only",
    ("x @ self.weight.T + self.bias", "torch.addmm(self.bias, x.view(-1, x.shape[-1]), self.weight.T)"),
    says=["any number of axes"],
)
wrong(
    "plain tensors",
    ("nn.Parameter(0.02 * torch.randn(outputs, inputs))", "(0.02 * torch.randn(outputs, inputs)).requires_grad_()"),
    says=["'weight' missing", "must be an nn.Parameter"],
)
wrong(
    "scaled after it was wrapped",
    ("nn.Parameter(0.02 * torch.randn(outputs, inputs))", "0.02 * nn.Parameter(torch.randn(outputs, inputs))"),
    says=["times a number is a plain tensor again"],
)
wrong(
    "variance for std",
    ("0.02 * torch.randn(outputs, inputs)", "0.02**0.5 * torch.randn(outputs, inputs)"),
    says=["standard deviation 0.02"],
)
wrong("without bias", ("x @ self.weight.T + self.bias", "x @ self.weight.T"), says=["then comes the bias"])
wrong("without super", ("super().__init__()", ""), says=["AttributeError", "super().__init__() first"])
wrong(
    "uniform",
    ("0.02 * torch.randn(outputs, inputs)", "0.02 * math.sqrt(12) * (torch.rand(outputs, inputs) - 0.5)"),
    says=["torch.rand is uniform"],
)
right(
    "by einsum and empty",
    """
    class Linear(nn.Module):
        def __init__(self, inputs, outputs):
            nn.Module.__init__(self)
            self.register_parameter("bias", nn.Parameter(torch.empty(outputs)))
            self.weight = nn.Parameter(torch.empty(outputs, inputs))
            nn.init.normal_(self.weight, std=0.02)
            nn.init.zeros_(self.bias)

        def forward(self, x):
            return torch.einsum("...i,oi->...o", x, self.weight) + self.bias
    """,
)

# Task 2 · A layer norm

wrong, right = LAB.task("norm")

wrong(
    "F.layer_norm",
    """
    class LayerNorm(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(width))
            self.bias = nn.Parameter(torch.zeros(width))

        def forward(self, x):
            return F.layer_norm(x, self.weight.shape, self.weight, self.bias)
    """,
    says=["['layer_norm']", "the whole work of this task"],
)
wrong(
    "x in place",
    """
    class LayerNorm(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(width))
            self.bias = nn.Parameter(torch.zeros(width))

        def forward(self, x):
            x -= x.mean(-1, keepdim=True)
            variance = x.square().mean(-1, keepdim=True)
            return x / torch.sqrt(variance + 1e-5) * self.weight + self.bias
    """,
    says=["x belongs to the caller"],
)

wrong(
    "all tokens together",
    (
        "x - x.mean(-1, keepdim=True)",
        "x - x.flatten(1).mean(1)[:, None, None] if x.ndim == 3 else x - x.mean(-1, keepdim=True)",
    ),
    says=["with three axes"],
)
wrong("eps outside the root", ("torch.sqrt(variance + 1e-5)", "(torch.sqrt(variance) + 1e-5)"), says=["under the root"])
wrong(
    "never shifts",
    (
        "deviations / torch.sqrt(variance + 1e-5) * self.weight + self.bias",
        "deviations / torch.sqrt(variance + 1e-5) * self.weight",
    ),
    says=["plus bias"],
)
wrong("rms only", ("x - x.mean(-1, keepdim=True)", "x"), says=["by hand"])
wrong("unbiased", ("deviations.square().mean", "x.var"), says=["divide by width"])
wrong(
    "weighs before it divides by the batch",
    ("x.mean(-1, keepdim=True)", "(x.mean(0, keepdim=True) if x.ndim > 1 else x.mean())"),
    says=["along the last axis"],
)
wrong("weight not registered", ("nn.Parameter(torch.ones(width))", "torch.ones(width)"), says=["two Parameters"])
wrong("weight of zeros", ("torch.ones", "torch.zeros"), says=["a weight of ones"])
wrong("without eps", ("variance + 1e-5", "variance"), says=["1e-5"])
right(
    "by moments",
    """
    class LayerNorm(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.weight, self.bias = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

        def forward(self, x):
            variance, mean = torch.var_mean(x, dim=-1, keepdim=True, correction=0)
            return torch.addcmul(self.bias, (x - mean) * (variance + 1e-5).rsqrt(), self.weight)
    """,
)

wrong(
    "F.instance_norm",
    """
    class LayerNorm(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(width))
            self.bias = nn.Parameter(torch.zeros(width))

        def forward(self, x):
            rows = x.reshape(1, -1, x.shape[-1])
            return F.instance_norm(rows).view(x.shape) * self.weight + self.bias
    """,
    says=["['instance_norm']", "torch's ready norms"],
)
wrong(
    "F.rms_norm",
    """
    class LayerNorm(nn.Module):
        def __init__(self, width):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(width))
            self.bias = nn.Parameter(torch.zeros(width))

        def forward(self, x):
            return F.rms_norm(x - x.mean(-1, keepdim=True), self.weight.shape, self.weight, 1e-5) + self.bias
    """,
    says=["['rms_norm']", "torch's ready norms"],
)

# Task 3 · Causal attention

wrong, right = LAB.task("attention")

wrong(
    "F.scaled_dot_product_attention",
    """
    class Attention(nn.Module):
        def __init__(self, width, heads, context):
            super().__init__()
            if width % heads:
                raise ValueError(f"{heads} heads do not divide a width of {width}")
            self.heads = heads
            self.qkv, self.out = Linear(width, 3 * width), Linear(width, width)
            mask = torch.ones(context, context, dtype=torch.bool).tril()
            self.register_buffer("mask", mask, persistent=False)

        def forward(self, x):
            B, T, width = x.shape
            q, k, v = self.qkv(x).view(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out(mixed.transpose(1, 2).reshape(B, T, width))
    """,
    says=["['scaled_dot_product_attention']", "the whole work of this task"],
)

wrong("blind to itself", ("self.mask[:T, :T]", "self.mask[:T, :T].tril(-1)"), says=["may not see itself"])
wrong(
    "forbids after the softmax",
    ("scores.masked_fill(~self.mask[:T, :T], -math.inf).softmax(-1)", "scores.softmax(-1) * self.mask[:T, :T]"),
    says=["forbid before the softmax"],
)
wrong("forbids by zero", ("-math.inf", "0.0"), says=["forbid"])
wrong("full contexts only", ("self.mask[:T, :T]", "self.mask"), says=["first T rows and columns"])
wrong(
    "heads by a view alone",
    ("part.view(B, T, self.heads, -1).transpose(1, 2)", "part.reshape(B, self.heads, T, -1)"),
    says=["view, then transpose"],
)
wrong(
    "heads interleaved",
    ("part.view(B, T, self.heads, -1).transpose(1, 2)", "part.view(B, T, -1, self.heads).permute(0, 3, 1, 2)"),
    ("(shares @ v).transpose(1, 2)", "(shares @ v).permute(0, 2, 3, 1)"),
    says=["right with one head"],
)
wrong("keys first", ("q, k, v", "k, v, q"), says=["in this order"])
wrong("keys for queries", ("q, k, v", "k, q, v"), says=["in this order"])
wrong(
    "mask is a parameter",
    (
        'self.register_buffer("mask", torch.ones(context, context).tril().bool(), persistent=False)',
        "self.mask = nn.Parameter(torch.ones(context, context).tril().bool(), requires_grad=False)",
    ),
    says=["no more"],
)
wrong(
    "mask is a plain tensor",
    (
        'self.register_buffer("mask", torch.ones(context, context).tril().bool(), persistent=False)',
        "self.mask = torch.ones(context, context).tril().bool()",
    ),
    says=["register_buffer"],
)
wrong(
    "mask is saved",
    (
        'self.register_buffer("mask", torch.ones(context, context).tril().bool(), persistent=False)',
        'self.register_buffer("mask", torch.ones(context, context).tril().bool())',
    ),
    says=["persistent=False"],
)
wrong(
    "mask upside down",
    ("torch.ones(context, context).tril()", "torch.ones(context, context).triu(1)"),
    ("~self.mask[:T, :T]", "self.mask[:T, :T]"),
    says=["True on and below the diagonal"],
)
wrong(
    "names no heads",
    ('f"a width of {width} does not split into {heads} heads"', 'f"a width of {width} does not split into heads"'),
    says=["names the heads"],
)
wrong(
    "put together without the way back",
    ("(shares @ v).transpose(1, 2)", "(shares @ v)"),
    says=["transpose, then reshape"],
)
wrong("scaled by the whole width", ("width // self.heads", "width"), says=["d is width/heads"])
wrong("sees the future", ("scores.masked_fill(~self.mask[:T, :T], -math.inf)", "scores"), says=["forbid"])
wrong(
    "softmax over queries",
    (
        "scores.masked_fill(~self.mask[:T, :T], -math.inf).softmax(-1)",
        "scores.masked_fill(~self.mask[:T, :T], -math.inf).softmax(-2)",
    ),
    says=["by hand"],
)
wrong("takes any heads", ("width % heads", "False"), says=["ValueError"])
wrong(
    "torchs linear",
    ("Linear(width, 3 * width), Linear(width, width)", "nn.Linear(width, 3 * width), nn.Linear(width, width)"),
    says=["no layer of torch.nn"],
)
wrong(
    "unscaled",
    ("q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)", "q @ k.transpose(-2, -1)"),
    says=["scores over √d"],
)
wrong("values first", ("q, k, v", "v, k, q"), says=["the first third"])
wrong(
    "without out",
    (
        "self.out((shares @ v).transpose(1, 2).reshape(B, T, width))",
        "(shares @ v).transpose(1, 2).reshape(B, T, width)",
    ),
    says=["then out"],
)
right(
    "by einops",
    """
    from einops import rearrange


    class Attention(nn.Module):
        def __init__(self, width, heads, context):
            super().__init__()
            if width % heads != 0:
                raise ValueError(f"width={width}, heads={heads}")
            self.heads = heads
            self.qkv = Linear(width, 3 * width)
            self.out = Linear(width, width)
            self.register_buffer("mask", ~torch.ones(context, context, dtype=torch.bool).triu(1), persistent=False)

        def forward(self, x):
            T = x.shape[1]
            q, k, v = rearrange(self.qkv(x), "b t (three h d) -> three b h t d", three=3, h=self.heads)
            bias = torch.zeros(T, T, device=x.device, dtype=x.dtype).masked_fill(
                self.mask[:T, :T].logical_not(), -torch.inf
            )
            scores = torch.einsum("bhid,bhjd->bhij", q / q.shape[-1] ** 0.5, k) + bias
            return self.out(rearrange(torch.softmax(scores, dim=3) @ v, "b h t d -> b t (h d)"))
    """,
)
right(
    "head by head",
    """
    class Attention(nn.Module):
        def __init__(self, width, heads, context):
            super().__init__()
            self.d = width // heads
            if self.d * heads != width:
                raise ValueError(f"{heads} heads, width {width}")
            self.out = Linear(width, width)
            self.qkv = Linear(width, 3 * width)
            place = torch.arange(context)
            self.register_buffer("mask", place[:, None] >= place, persistent=False)

        def forward(self, x):
            T, width = x.shape[-2:]
            everything = self.qkv(x) * 1.0
            gathered = []
            for start in range(0, width, self.d):
                q, k, v = (
                    everything[..., start + shift : start + shift + self.d] for shift in (0, width, 2 * width)
                )
                powers = torch.exp(
                    torch.einsum("bid,bjd->bij", q, k) * self.d**-0.5
                )  # small scores: no overflow here
                powers = torch.where(self.mask[:T, :T], powers, torch.zeros_like(powers))
                gathered.append(powers @ v / powers.sum(-1, keepdim=True))
            return self.out(torch.cat(gathered, dim=-1))
    """,
)

# Task 4 · The block

wrong, right = LAB.task("block")

wrong(
    "adds in place",
    ("x = x + self.attention(self.norm_1(x))", "x += self.attention(self.norm_1(x))"),
    says=["changes the one that the caller has"],
)
wrong(
    "as wide inside as outside",
    ("Linear(width, 4 * width), Linear(4 * width, width)", "Linear(width, width), Linear(width, width)"),
    says=["up.weight"],
)
wrong("attention unnormalised", ("self.norm_1(x)", "x"), says=["norm_1 before the attention"])
wrong(
    "feed forward replaces",
    ("x + self.down(F.gelu(self.up(self.norm_2(x))))", "self.down(F.gelu(self.up(self.norm_2(x))))"),
    says=["comes back to the bit"],
)
wrong("first norm twice", ("self.norm_2(x)", "self.norm_1(x)"), says=["norm_2 before up"])
wrong(
    "gelu by tanh",
    ("F.gelu(self.up(self.norm_2(x)))", 'F.gelu(self.up(self.norm_2(x)), approximate="tanh")'),
    says=["as it is"],
)
wrong(
    "normalised afterwards",
    ("x + self.attention(self.norm_1(x))", "self.norm_1(x + self.attention(x))"),
    ("x + self.down(F.gelu(self.up(self.norm_2(x))))", "self.norm_2(x + self.down(F.gelu(self.up(x))))"),
    says=["no norm"],
)
wrong(
    "one norm for both",
    (
        "self.norm_1, self.norm_2 = LayerNorm(width), LayerNorm(width)",
        """
        self.norm_1 = LayerNorm(width)
        self.norm_2 = self.norm_1
        """,
    ),
    says=["of its own"],
)
wrong("relu", ("F.gelu(self.up(self.norm_2(x)))", "torch.relu(self.up(self.norm_2(x)))"), says=["F.gelu"])
wrong(
    "side by side",
    (
        """
        x = x + self.attention(self.norm_1(x))
        return x + self.down(F.gelu(self.up(self.norm_2(x))))
        """,
        """
        first = self.attention(self.norm_1(x))
        return x + first + self.down(F.gelu(self.up(self.norm_2(x))))
        """,
    ),
    says=["to which the first has been added"],
)
wrong(
    "stream normalised",
    ("x = x + self.attention(self.norm_1(x))", "x = self.norm_1(x)\nx = x + self.attention(x)"),
    says=["no norm"],
)
right(
    "branches of their own",
    """
    class Block(nn.Module):
        def __init__(self, width, heads, context):
            super().__init__()
            for name, part in {
                "down": Linear(4 * width, width),
                "up": Linear(width, 4 * width),
                "attention": Attention(width, heads, context),
                "norm_2": LayerNorm(width),
                "norm_1": LayerNorm(width),
            }.items():
                self.add_module(name, part)

        def feed(self, x):
            hidden = self.up(self.norm_2(x))
            return self.down(hidden * (1 + torch.erf(hidden / math.sqrt(2))) / 2)

        def forward(self, x):
            y = self.attention(self.norm_1(x)) + x
            return torch.add(y, self.feed(y))
    """,
)

# Task 5 · The whole model

wrong, right = LAB.task("model")

wrong("any length", ("count > context", "False"), says=["compare T"])
wrong("blocks backwards", ("for block in self.blocks:", "for block in reversed(self.blocks):"), says=["in their order"])
wrong(
    "copies of one block",
    (
        "self.blocks = nn.ModuleList(Block(width, heads, context) for _ in range(layers))",
        """
        self.blocks = nn.ModuleList()
        first = Block(width, heads, context)
        for _ in range(layers):
            again = Block(width, heads, context)
            again.load_state_dict(first.state_dict())
            self.blocks.append(again)
        """,
    ),
    says=["draws numbers of its own"],
)
wrong("full contexts only", ("self.positions[:count]", "self.positions"), says=["the first T rows of positions"])
wrong("last positions", ("self.positions[:count]", "self.positions[-count:]"), says=["the first T rows of positions"])
wrong(
    "norm before the blocks",
    ("self.tokens[ids] + self.positions[:count]", "self.norm(self.tokens[ids] + self.positions[:count])"),
    ("self.norm(x)", "(x if len(self.blocks) else x)"),
    says=["then norm"],
)
wrong(
    "one block many times",
    (
        '''
        """Token ids (B, T) → logits (B, T, vocabulary), with one table for the way in and the way out."""

        def __init__(self, vocabulary: int, context: int, width: int, heads: int, layers: int):
        ''',
        '''
        """Token ids (B, T) → logits (B, T, vocabulary), with one table for the way in and the way out."""
        def __init__(self, vocabulary: int, context: int, width: int, heads: int, layers: int):
        ''',
    ),
    (
        "self.blocks = nn.ModuleList(Block(width, heads, context) for _ in range(layers))",
        "self.blocks = nn.ModuleList([Block(width, heads, context)] * layers)",
    ),
    says=["made anew"],
)
wrong(
    "plain list",
    (
        "nn.ModuleList(Block(width, heads, context) for _ in range(layers))",
        "[Block(width, heads, context) for _ in range(layers)]",
    ),
    says=["a plain list registers nothing"],
)
wrong(
    "probabilities",
    ("self.norm(x) @ self.tokens.T", "(self.norm(x) @ self.tokens.T).softmax(-1)"),
    says=["times each row"],
)
wrong("readout cut off", ("self.tokens.T", "self.tokens.detach().T"), says=["the sum of both uses"])
wrong(
    "readout of its own",
    (
        "self.norm = LayerNorm(width)",
        """
        self.norm = LayerNorm(width)
        self.head = nn.Parameter(0.02 * torch.randn(vocabulary, width))
        """,
    ),
    ("self.tokens.T", "self.head.T"),
    says=["the LM head uses self.tokens itself"],
)
wrong(
    "table under two names",
    ("self.norm = LayerNorm(width)", "self.norm = LayerNorm(width)\nself.head = self.tokens"),
    ("self.tokens.T", "self.head.T"),
    says=["saved twice"],
)
wrong(
    "tables as wide as randn",
    ("0.02 * torch.randn(vocabulary, width)", "torch.randn(vocabulary, width)"),
    says=["0.02 * torch.randn"],
)
wrong(
    "torchs embedding",
    ("nn.Parameter(0.02 * torch.randn(vocabulary, width))", "nn.Embedding(vocabulary, width)"),
    ("self.tokens[ids]", "self.tokens(ids)"),
    ("self.tokens.T", "self.tokens.weight.T"),
    says=["no module"],
)
wrong("without positions", ("self.tokens[ids] + self.positions[:count]", "self.tokens[ids]"), says=["add positions"])
wrong("without the last norm", ("self.norm(x)", "x"), says=["normalised to"])
wrong(
    "uniform tables",
    ("0.02 * torch.randn(vocabulary, width)", "0.02 * math.sqrt(12) * (torch.rand(vocabulary, width) - 0.5)"),
    says=["torch.rand is uniform"],
)
right(
    "sequential and one hot",
    """
    class Transformer(nn.Module):
        def __init__(self, vocabulary, context, width, heads, layers):
            super().__init__()
            self.norm = LayerNorm(width)
            self.blocks = nn.Sequential(*[Block(width, heads, context) for _ in range(layers)])
            self.positions = nn.Parameter(torch.empty(context, width).normal_(std=0.02))
            self.tokens = nn.Parameter(torch.empty(vocabulary, width).normal_(std=0.02))

        def forward(self, ids):
            vocabulary = len(self.tokens)
            if not ids.shape[1] <= len(self.positions):
                raise ValueError(f"no room for {ids.shape[1]} tokens")
            places = torch.arange(ids.shape[1], device=ids.device)
            x = F.one_hot(ids, vocabulary).to(self.tokens.dtype) @ self.tokens + self.positions[places]
            return F.linear(self.norm(self.blocks(x)), self.tokens)
    """,
)

# Task 6 · Counted twice

wrong, right = LAB.task("count")

wrong(
    "formula builds the model on meta",
    """
    def formula(vocabulary, context, width, layers):
        with torch.device("meta"):
            return counted(Transformer(vocabulary, context, width, 1, layers))


    def counted(model):
        words = {"tokens": "embedding", "positions": "positions", "attention": "attention", "up": "ffn", "down": "ffn"}
        words |= {"norm_1": "norms", "norm_2": "norms", "norm": "norms"}
        parts = dict.fromkeys(words.values(), 0)
        for name, p in model.named_parameters():
            found = [word for word in name.split(".") if word in words]
            if not found:
                raise ValueError(name)
            parts[words[found[0]]] += p.numel()
        return parts
    """,
    says=["build no model"],
)

wrong(
    "buffers too",
    ("model.named_parameters()", "[*model.named_parameters(), *model.named_buffers()]"),
    says=["every named parameter once"],
)
wrong(
    "by letters",
    """
    PARTS = {
        "tokens": "embedding",
        "positions": "positions",
        "attention": "attention",
        "up": "ffn",
        "down": "ffn",
        "norm": "norms",
    }


    def formula(vocabulary, context, width, layers):
        return {
            "embedding": vocabulary * width,
            "positions": context * width,
            "attention": layers * (4 * width**2 + 4 * width),
            "ffn": layers * (8 * width**2 + 5 * width),
            "norms": layers * 4 * width + 2 * width,
        }


    def counted(model):
        found = dict.fromkeys(PARTS.values(), 0)
        for name, p in model.named_parameters():
            for letters, part in PARTS.items():
                if letters in name:
                    found[part] += p.numel()
                    break
            else:
                raise ValueError(f"{name} belongs to no part")
        return found
    """,
    says=["compare the words between the dots"],
)
wrong(
    "leaves out strangers",
    ('raise ValueError(f"{name} belongs to no part of the model")', "continue"),
    says=["silently too small"],
)
wrong(
    "parts that occur only",
    ("dict.fromkeys(part_of.values(), 0)", "{}"),
    (
        "counts[part_of[words[0]]] += p.numel()",
        "counts[part_of[words[0]]] = counts.get(part_of[words[0]], 0) + p.numel()",
    ),
    says=["all five are there"],
)
wrong("rows for numbers", ("p.numel()", "len(p)"), says=["numel"])
wrong(
    "strangers are norms",
    ('raise ValueError(f"{name} belongs to no part of the model")', 'words = ["norm"]'),
    says=["ValueError"],
)
wrong("tied table twice", ("vocabulary * width", "2 * vocabulary * width"), says=["'embedding'"])
wrong(
    "trained only",
    (
        'words = [word for word in name.split(".") if word in part_of]',
        """
        if not p.requires_grad:
            continue
        words = [word for word in name.split(".") if word in part_of]
        """,
    ),
    says=["frozen parameters are parameters"],
)
wrong("twelve d squared alone", ("5 * width", "4 * width"), says=["'ffn'"])
wrong(
    "without biases",
    ("4 * width**2 + 4 * width", "4 * width**2"),
    ("8 * width**2 + 5 * width", "8 * width**2"),
    says=["biases count"],
)
wrong(
    "without the last norm",
    ("layers * 4 * width + 2 * width", "layers * 4 * width"),
    says=["one more stands at the end"],
)
wrong(
    "by the layer alone",
    ('"attention": "attention", "up"', '"qkv": "attention", "out": "attention", "up"'),
    says=["all that is in an attention"],
)
right(
    "by patterns",
    r"""
    import re

    PATTERNS = {
        "embedding": r"tokens",
        "positions": r"positions",
        "attention": r"blocks\.\d+\.attention\..*",
        "ffn": r"blocks\.\d+\.(up|down)\..*",
        "norms": r"(blocks\.\d+\.norm_[12]|norm)\..*",
    }


    def formula(vocabulary, context, width, layers):
        def linear(inputs, outputs):
            return (inputs + 1) * outputs

        return dict(
            norms=(2 * layers + 1) * 2 * width,
            ffn=layers * (linear(width, 4 * width) + linear(4 * width, width)),
            attention=layers * (linear(width, 3 * width) + linear(width, width)),
            positions=context * width,
            embedding=vocabulary * width,
        )


    def counted(model):
        left = {name: math.prod(p.shape) for name, p in model.named_parameters()}
        result = {}
        for part, pattern in PATTERNS.items():
            result[part] = sum(left.pop(name) for name in list(left) if re.fullmatch(pattern, name))
        if left:
            raise ValueError(f"in no part: {', '.join(left)}")
        return result
    """,
)

# Task 7 · What an activation takes away

wrong, right = LAB.task("gain")

wrong(
    "all z alike",
    ("torch.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) / 1000", "torch.full_like(z, 1 / len(z))"),
    says=["weights that add up to 1"],
)
wrong(
    "by chance",
    """
    def gain(activation) -> float:
        z = torch.randn(10_000, generator=torch.Generator().manual_seed(0)).double()
        weights = torch.full_like(z, 1 / len(z))
        return (weights * activation(z) ** 2).sum().item() ** -0.5
    """,
    says=["too coarse"],
)
wrong(
    "density without its factor",
    ("torch.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)", "torch.exp(-(z**2) / 2)"),
    says=["weights that add up to 1"],
)
wrong(
    "factor of the variance",
    ("(weights * activation(z) ** 2).sum().item() ** -0.5", "(weights * activation(z) ** 2).sum().item() ** -1"),
    says=["then 1/√"],
)
wrong(
    "narrow grid",
    ("torch.linspace(-10, 10, 20_001, dtype=torch.float64)", "torch.linspace(-3, 3, 6_001, dtype=torch.float64)"),
    says=["weights that add up to 1"],
)
wrong(
    "square of the mean",
    ("(weights * activation(z) ** 2).sum().item() ** -0.5", "1 / abs((weights * activation(z)).sum().item())"),
    says=["the sum of z²"],
)
wrong(
    "upside down",
    ("(weights * activation(z) ** 2).sum().item() ** -0.5", "(weights * activation(z) ** 2).sum().item() ** 0.5"),
    says=["√"],
)
wrong(
    "variance",
    (
        "return (weights * activation(z) ** 2).sum().item() ** -0.5",
        """
        y = activation(z)
        mean = (weights * y).sum()
        return (weights * (y - mean) ** 2).sum().item() ** -0.5
        """,
    ),
    says=["not the variance"],
)
wrong(
    "grid of float32",
    ("torch.linspace(-10, 10, 20_001, dtype=torch.float64)", "torch.linspace(-10, 10, 20_001)"),
    says=["float64"],
)
wrong("returns a tensor", (".sum().item() ** -0.5", ".sum() ** -0.5"), says=["a plain float"])
right(
    "by gauss hermite",
    """
    def gain(activation):
        nodes, weights = np.polynomial.hermite.hermgauss(200)
        z = torch.tensor(nodes) * math.sqrt(2)
        return 1 / math.sqrt(float((torch.tensor(weights) * activation(z).square()).sum()) / math.sqrt(math.pi))
    """,
)
right(
    "by quantiles",
    """
    def gain(activation):
        shares = (torch.arange(2_000_000, dtype=torch.float64) + 0.5) / 2_000_000
        return float(activation(torch.special.ndtri(shares)).pow(2).mean().rsqrt())
    """,
)

# Task 8 · Where the numbers start

wrong, right = LAB.task("init")

wrong(
    "always the same seed",
    ("torch.Generator().manual_seed(seed)", "torch.Generator().manual_seed(0)"),
    says=["use the argument"],
)
wrong(
    "biases left",
    (
        'p.fill_(0 if name.endswith("bias") else 1)',
        """
        if "norm" in name:
            p.fill_(0 if name.endswith("bias") else 1)
        """,
    ),
    says=["biases 0"],
)
wrong("branches are layers", ("2 * len(model.blocks)", "len(model.blocks)"), says=["N = 2"])
wrong("fan out", ("p.shape[1] ** -0.5", "p.shape[0] ** -0.5"), says=["the fan-in is shape[1]"])
wrong(
    "gain under the root",
    (
        '(gain(F.gelu) if name.endswith("down.weight") else 1) / math.sqrt(p.shape[1] * branches)',
        'math.sqrt((gain(F.gelu) if name.endswith("down.weight") else 1) / (p.shape[1] * branches))',
    ),
    says=["outside of the root"],
)
wrong(
    "gain where it reads",
    ("p.shape[1] ** -0.5", '(gain(F.gelu) if "up" in name else 1) * p.shape[1] ** -0.5'),
    says=["the std of all up.weight"],
)
wrong(
    "global stream",
    ("generator = torch.Generator().manual_seed(seed)", "torch.manual_seed(seed)"),
    ("torch.randn(p.shape, generator=generator)", "torch.randn(p.shape)"),
    says=["a generator of your own"],
)
wrong("gpt 2 everywhere", ("p.shape[1] ** -0.5", "0.02"), says=["1/√(fan-in)"])
wrong(
    "new parameters",
    ("model.named_parameters()", "list(model.named_parameters())"),
    (
        "p.copy_(std * torch.randn(p.shape, generator=generator))",
        """
        owner = model.get_submodule(name.rpartition(".")[0])
        setattr(
            owner, name.rpartition(".")[2], nn.Parameter(std * torch.randn(p.shape, generator=generator))
        )
        """,
    ),
    says=["change the numbers in place"],
)
wrong("norms of zero", ('0 if name.endswith("bias") else 1', "0"), says=["lets nothing through"])
wrong(
    "one over n", ("math.sqrt(p.shape[1] * branches)", "(math.sqrt(p.shape[1]) * branches)"), says=["1/√(fan-in · N)"]
)
wrong(
    "other memory",
    """
    def initialise(model: nn.Module, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        branches = 2 * len(model.blocks)
        for name, p in model.named_parameters():
            if p.ndim == 1:
                p.data.fill_(0 if name.endswith("bias") else 1)
                continue
            if name in ("tokens", "positions"):
                std = 0.02
            elif name.endswith(("qkv.weight", "up.weight")):
                std = p.shape[1] ** -0.5
            else:
                std = (gain(F.gelu) if name.endswith("down.weight") else 1) / math.sqrt(p.shape[1] * branches)
            p.data = std * torch.randn(p.shape, generator=generator)
    """,
    says=["other memory"],
)
wrong("readers share too", ("p.shape[1] ** -0.5", "(p.shape[1] * branches) ** -0.5"), says=["It reads, and has no N"])
wrong(
    "reseeded for each",
    ("if p.ndim == 1:", "generator.manual_seed(seed)\nif p.ndim == 1:"),
    says=["seed the generator once"],
)
wrong("tables by their width", ("std = 0.02", "std = p.shape[1] ** -0.5"), says=["both tables have 0.02"])
wrong("with a graph", ("with torch.no_grad():", "if True:"), says=["inside torch.no_grad()"])
wrong("without the gain", ('gain(F.gelu) if name.endswith("down.weight") else 1', "1"), says=["gain(F.gelu)"])
wrong(
    "uniform",
    (
        "torch.randn(p.shape, generator=generator)",
        "math.sqrt(12) * (torch.rand(p.shape, generator=generator) - 0.5)",
    ),
    says=["torch.rand is uniform"],
)
wrong("for a width of 64", ("p.shape[1] ** -0.5", "0.125"), says=["another width"])
wrong(
    "reseeded for each block",
    (
        "if p.ndim == 1:",
        """
        if name.startswith("blocks"):
            generator.manual_seed(seed + 1 + int(name.split(".")[1]))
        if p.ndim == 1:
        """,
    ),
    says=["seed the generator once"],
)
wrong(
    "a seed for each parameter",
    (
        "for name, p in model.named_parameters():",
        "for i, (name, p) in enumerate(model.named_parameters()):\n    generator.manual_seed(seed + i)",
    ),
    says=["seed the generator once"],
)
right(
    "module by module",
    """
    def initialise(model, seed):
        generator = torch.Generator("cpu")
        generator.manual_seed(seed)

        def fill(p, std):
            with torch.no_grad():
                fresh = torch.empty(p.shape)
                fresh.normal_(0, std, generator=generator)
                p.data.copy_(fresh)

        for part in model.modules():
            if isinstance(part, LayerNorm):
                nn.init.ones_(part.weight)
            if isinstance(part, (LayerNorm, Linear)):
                nn.init.zeros_(part.bias)
        fill(model.positions, 0.02)
        fill(model.tokens, 0.02)
        for block in model.blocks:
            width = block.up.weight.shape[1]
            share = 1 / math.sqrt(2 * len(model.blocks))
            for linear, std in (
                (block.down, 1.5336 * share / math.sqrt(4 * width)),
                (block.up, 1 / math.sqrt(width)),
                (block.attention.out, share / math.sqrt(width)),
                (block.attention.qkv, 1 / math.sqrt(width)),
            ):
                fill(linear.weight, std)
    """,
)
