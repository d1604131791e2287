"""How much memory a training step will take, to the byte, from shapes alone: a Timeline of its tensors, in order.

predict_mlp and predict_gpt are arithmetic, and know nothing of the step that rehearsal.py runs under LiveBytes; the two
must agree. They follow torch 2.11 to 2.13, operation by operation; another version may reorder its frees. They are
exact as LiveBytes sees it: without an allocator's rounding, and without what an operation takes and gives back;
check_allocator adds those for a GPU.
"""

from collections.abc import Callable
from itertools import pairwise
from math import prod
from types import SimpleNamespace
from typing import NamedTuple

import torch

from utils.measure.dry_run import PLAN, Plan, check_plan
from utils.measure.memory import AllocatorBytes, ScratchBytes
from utils.measure.memory_timeline import Gradients, Storage, Timeline

FLOAT, LONG, BOOL = 4, 8, 1  # bytes of a value


def _predict(
    parameters: dict[str, tuple[int, ...]],
    data: tuple[int, int],
    plan: Plan,
    forward: Callable[[Timeline], object],
    backward: Callable[[Timeline, Gradients, object], None],
) -> Timeline:
    """The Timeline of training_steps().

    parameters: {name: shape}; data: bytes of inputs and of targets; forward, backward: the model's two halves.
    """
    timeline = Timeline()
    gradients = Gradients(timeline)
    with timeline.phase("parameters"):
        for shape in parameters.values():
            timeline.new(FLOAT * prod(shape), "parameters")
    with timeline.phase("data"):
        for nbytes in data:
            timeline.new(nbytes, "data")
    for step in range(1, plan.steps + 1):
        for _ in range(plan.micro_batches):
            with timeline.phase(f"forward {step}"):
                kept = forward(timeline)
            with timeline.phase(f"backward {step}"):
                backward(timeline, gradients, kept)
        with timeline.phase(f"update {step}"):
            _predict_update(timeline, [FLOAT * prod(shape) for shape in parameters.values()], plan, step)
        with timeline.phase(f"clear {step}"):
            gradients.clear()
    return timeline


def _predict_update(timeline: Timeline, sizes: list[int], plan: Plan, step: int) -> None:
    """SGD works in place. AdamW keeps two averages and a step count, and needs the root of one of them."""
    if plan.optimizer == "sgd":
        return
    if step == 1:
        for size in sizes:
            timeline.new(size, "optimizer state", count=2)
            timeline.new(FLOAT, "optimizer state", on_host=plan.implementation != "fused")  # the count of steps
    if plan.implementation == "foreach":  # one root for each parameter, all at once
        timeline.free(*[timeline.new(size) for size in sizes])
    if plan.implementation == "for-loop":  # a root, and the root divided; that one is a variable until the next is made
        last = timeline.new(0)
        for size in sizes:
            root, divided = timeline.new(size), timeline.new(size)
            timeline.free(root, last)
            last = divided
        timeline.free(last)


def _forward_loss(timeline: Timeline, logits: Storage) -> SimpleNamespace:
    """cross_entropy(logits, targets) / micro_batches: keeps the logarithms of the shares, and the sum of weights."""
    shares = timeline.new(logits.nbytes, "activations")
    mean, weight = timeline.new(FLOAT), timeline.new(FLOAT, "activations")
    timeline.free(logits)
    loss = timeline.new(FLOAT)
    timeline.free(mean)
    return SimpleNamespace(shares=shares, weight=weight, loss=loss)


def _backward_loss(timeline: Timeline, kept: SimpleNamespace) -> Storage:
    """The gradient of the logits. Of the first gradient, a one, `kept.one` keeps hold until the end."""
    kept.one, scale = timeline.new(FLOAT), timeline.new(FLOAT)
    picked = timeline.new(kept.shares.nbytes)
    timeline.free(scale, kept.weight)
    logits = timeline.new(kept.shares.nbytes)
    timeline.free(picked, kept.shares)
    return logits


# ---- an MLP ----------------------------------------------------------------------------------------------------------


def mlp_parameters(sizes: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """{name: shape} of utils.models.MLP(sizes), in its order."""
    shapes = {}
    for i, (wide, narrow) in enumerate(pairwise(sizes)):
        shapes |= {f"weight_{i}": (narrow, wide), f"bias_{i}": (narrow,)}
    return shapes


def predict_mlp(sizes: tuple[int, ...], batch: int, plan: Plan = PLAN) -> Timeline:
    """The Timeline of a training step of MLP(sizes) on micro-batches of `batch` examples (batch, sizes[0])."""
    check_plan(plan, batch=batch, layers=len(sizes) - 1, narrowest=min(sizes, default=0))
    parameters = mlp_parameters(sizes)
    outputs = [FLOAT * batch * size for size in sizes[1:]]  # bytes of each Linear's output
    last = len(outputs) - 1
    again = plan.checkpointed

    def forward(t: Timeline) -> SimpleNamespace:
        hidden = []
        for size in outputs[:-1]:
            linear = t.new(size)
            hidden.append(t.new(size, "activations"))  # ReLU's output: ReLU keeps it, or the next layer does
            t.free(linear)
        kept = _forward_loss(t, t.new(outputs[-1]))
        kept.hidden = hidden
        return kept

    def backward(t: Timeline, gradients: Gradients, kept: SimpleNamespace) -> None:
        flowing = _backward_loss(t, kept)
        for i in range(last, -1, -1):
            below = t.new(outputs[i - 1]) if i else None  # nobody asks for the gradient of the data
            weight, bias = (t.new(FLOAT * prod(parameters[f"{name}_{i}"])) for name in ("weight", "bias"))
            gradients.arrive(**{f"bias_{i}": bias, f"weight_{i}": weight})
            t.free(flowing)
            if below is None:
                break
            hidden = kept.hidden[i - 1]
            if again:
                t.free(hidden)
                linear, hidden = t.new(outputs[i - 1]), t.new(outputs[i - 1], "activations")
                t.free(linear)
            flowing = t.new(outputs[i - 1])
            t.free(below, hidden)
        t.free(kept.one, kept.loss)

    rows = plan.micro_batches * batch
    return _predict(parameters, (rows * sizes[0] * FLOAT, rows * LONG), plan, forward, backward)


# ---- a GPT -----------------------------------------------------------------------------------------------------------


def gpt_parameters(vocabulary: int, context: int, width: int, layers: int) -> dict[str, tuple[int, ...]]:
    """{name: shape} of utils.models.GPT, in its order."""
    norm = {"gain": (width,), "shift": (width,)}
    linears = {"qkv": (3 * width, width), "out": (width, width), "up": (4 * width, width), "down": (width, 4 * width)}
    shapes = {"tokens": (vocabulary, width), "positions": (context, width)}
    for i in range(layers):
        shapes |= {f"norm_{half}_{part}_{i}": shape for half in (1, 2) for part, shape in norm.items()}
        for name, shape in linears.items():
            shapes |= {f"{name}_weight_{i}": shape, f"{name}_bias_{i}": shape[:1]}
    return shapes | {f"norm_{part}": shape for part, shape in norm.items()}


class _GPT:
    """The tensors of one GPT's forward and backward: B sequences of T tokens. The letters are those of shapes."""

    def __init__(self, vocabulary: int, context: int, width: int, heads: int, layers: int, B: int, T: int, again: bool):
        self.parameters = gpt_parameters(vocabulary, context, width, layers)
        self.layers, self.again = layers, again
        self.hidden = FLOAT * B * T * width  # (B, T, D), the unit of nearly everything
        self.rows = FLOAT * B * T  # a mean for each token, or a deviation
        self.scores = FLOAT * B * heads * T * T
        self.mask = BOOL * T * T
        self.logits = FLOAT * B * T * vocabulary
        self.places, self.place_rows = LONG * T, FLOAT * T * width
        # Reshapes are views where they can be. (B, H, T, D) out of the middle of (B, T, 3, H, D) merges B and H only
        # if one of them is 1; the way back to (B, T, H·D) is a copy unless H or T is 1.
        self.copies_heads = B > 1 and heads > 1
        self.copies_merge = heads > 1 and T > 1
        self.copies_merge_gradient = B > 1 and heads > 1 and T > 1
        self.copies_qkv_gradient = B > 1 or T > 1

    # -- forward

    def forward(self, t: Timeline) -> SimpleNamespace:
        """Embeddings, blocks, read-out, loss. What autograd keeps is born as an activation and returned."""
        tokens = t.new(self.hidden)
        places = t.new(self.places, "activations")
        positions = t.new(self.place_rows)
        x = t.new(self.hidden, "activations")
        t.free(positions, tokens)
        inputs, blocks = [x], []
        for _ in range(self.layers):
            kept = self.block(t, keep=not self.again)
            blocks.append(kept)
            inputs.append(kept.output)
        norm, rows = self.norm(t, keep=True)
        logits = t.new(self.logits)
        kept = _forward_loss(t, logits)
        kept.places, kept.inputs, kept.blocks, kept.norm, kept.rows = places, inputs, blocks, norm, rows
        return kept

    def norm(self, t: Timeline, keep: bool) -> tuple[Storage, Storage]:
        """LayerNorm's output, and its means and deviations, which only backward wants."""
        kind = "activations" if keep else "temporaries"
        norm, rows = t.new(self.hidden, kind), t.new(self.rows, kind, count=2)
        t.drop(rows)
        return norm, rows

    def block(self, t: Timeline, keep: bool, stop_early: bool = False) -> SimpleNamespace:
        """One Transformer block, from the LayerNorm of its input to its output, in the order of models.Block.

        keep: autograd keeps what backward will want. stop_early: it runs only to have that, and ends as soon as it
        has it all, before the last Linear.
        """
        kind = "activations" if keep else "temporaries"
        x = self.hidden
        norm_1, rows_1 = self.norm(t, keep)
        # Where q, k and v are views of qkv's output, what keeps them keeps all of it.
        qkv = t.new(3 * x, "temporaries" if self.copies_heads else kind)
        t.drop(norm_1)

        ones = t.new(self.mask)
        mask = t.new(self.mask, kind)
        t.free(ones)
        copies = [t.new(x, kind) for _ in "qk" if self.copies_heads]
        products = t.new(self.scores)
        t.drop(*copies)
        scaled = t.new(self.scores)
        t.free(products)
        filled = t.new(self.scores)
        shares = t.new(self.scores, kind)
        t.free(filled)
        v = [t.new(x, kind) for _ in "v" if self.copies_heads]
        mixed = t.new(x, "temporaries" if self.copies_merge else kind)
        t.drop(*v, mask, scaled, shares)

        merged = t.new(x, kind) if self.copies_merge else mixed
        out = t.new(x)
        if self.copies_merge:
            t.drop(merged)
        middle = t.new(x, kind)
        t.free(out)

        norm_2, rows_2 = self.norm(t, keep)
        wide = t.new(4 * x, kind)
        act = t.new(4 * x, kind)
        t.drop(wide)
        kept = SimpleNamespace(norm_1=norm_1, rows_1=rows_1, mask=mask, qk=copies, shares=shares, v=v, merged=merged)
        kept.middle, kept.norm_2, kept.rows_2, kept.wide, kept.act = middle, norm_2, rows_2, wide, act
        kept.qkv = qkv
        if not stop_early:
            down = t.new(x)
            t.drop(act, norm_2)
            kept.output = t.new(x, "activations")  # the next LayerNorm keeps its input
            t.free(down)
            t.drop(middle)
        t.drop(qkv, mixed)  # q, k, v and mixed are variables until the block returns
        return kept

    # -- backward

    def backward(self, t: Timeline, gradients: Gradients, kept: SimpleNamespace) -> None:
        """The same way back. The table of tokens gets two gradients, its own and the read-out's, and their sum."""
        flowing = _backward_loss(t, kept)
        tokens = self.parameter("tokens")
        read_out = t.new(tokens)
        norm = t.new(self.hidden)
        t.free(flowing, kept.norm)
        flowing = self.norm_backward(t, gradients, "norm_{}", norm, kept.inputs[-1], kept.rows)
        for i in reversed(range(self.layers)):
            block = self.block(t, keep=True, stop_early=True) if self.again else kept.blocks[i]
            flowing = self.block_backward(t, gradients, i, flowing, kept.inputs[i], block)

        places = t.new(self.place_rows)  # summed over the batch
        positions = t.new(self.parameter("positions"))
        gradients.arrive(positions=positions)
        t.free(places, kept.places)
        looked_up = t.new(tokens)
        t.free(flowing)
        both = t.new(tokens)
        t.free(read_out, looked_up)
        gradients.arrive(tokens=both)
        t.free(kept.one, kept.loss)

    def parameter(self, name: str) -> int:
        """Bytes of a parameter, and of its gradient."""
        return FLOAT * prod(self.parameters[name])

    def norm_backward(
        self,
        t: Timeline,
        gradients: Gradients,
        name: str,
        flowing: Storage,
        source: Storage,
        rows: Storage,
        straight: Storage | None = None,
    ) -> Storage:
        """The gradient of LayerNorm's input, and under `name` those of its gain and shift.

        straight: the gradient of the way around it, where its input is a residual; the two are added before the
        gain's and the shift's arrive.
        """
        result = t.new(self.hidden)
        parts = {name.format(part): t.new(self.parameter(name.format(part))) for part in ("gain", "shift")}
        t.free(flowing, source, rows)
        if straight is not None:
            both = t.new(self.hidden)
            t.free(straight, result)
            result = both
        gradients.arrive(**parts)
        return result

    def linear_backward(self, t: Timeline, gradients: Gradients, name: str, below: int, source: Storage) -> Storage:
        """The gradient of a Linear's input, of `below` bytes. The input that was kept for it goes.

        A checkpointed input goes before the bias is summed, as it is handed out for one function; autograd's own is
        let go after that function.
        """
        result = t.new(below)
        weight = t.new(self.parameter(name.format("weight")))
        if self.again:
            t.free(source)
        bias = t.new(self.parameter(name.format("bias")))
        if not self.again:
            t.free(source)
        gradients.arrive(**{name.format("bias"): bias, name.format("weight"): weight})
        return result

    def block_backward(
        self, t: Timeline, gradients: Gradients, i: int, flowing: Storage, source: Storage, kept: SimpleNamespace
    ) -> Storage:
        """From the gradient of block i's output to that of its input, `source`; `kept` is what the forward left."""
        x = self.hidden
        act = self.linear_backward(t, gradients, f"down_{{}}_{i}", 4 * x, kept.act)
        wide = t.new(4 * x)
        t.free(act, kept.wide)
        norm_2 = self.linear_backward(t, gradients, f"up_{{}}_{i}", x, kept.norm_2)
        t.free(wide)
        flowing = self.norm_backward(t, gradients, f"norm_2_{{}}_{i}", norm_2, kept.middle, kept.rows_2, flowing)

        merged = self.linear_backward(t, gradients, f"out_{{}}_{i}", x, kept.merged)
        if self.copies_merge_gradient:
            merged = self.copied(t, merged)
        v, shares = t.new(x), t.new(self.scores)
        t.free(merged, *kept.v)
        scores = t.new(self.scores)
        t.free(shares, kept.shares)
        filled = self.copied(t, scores)
        t.free(kept.mask)
        scaled = self.copied(t, filled)
        k, q = t.new(x), t.new(x)
        t.free(scaled, *(kept.qk if self.copies_heads else [kept.qkv]))
        qkv = t.new(3 * x)  # q, k and v stacked, and then in the order of the Linear's output
        t.free(q, k, v)
        if self.copies_qkv_gradient:
            qkv = self.copied(t, qkv)
        norm_1 = self.linear_backward(t, gradients, f"qkv_{{}}_{i}", x, kept.norm_1)
        t.free(qkv)
        return self.norm_backward(t, gradients, f"norm_1_{{}}_{i}", norm_1, source, kept.rows_1, flowing)

    def copied(self, t: Timeline, storage: Storage) -> Storage:
        """A tensor of the same size takes its place."""
        result = t.new(storage.nbytes)
        t.free(storage)
        return result


def predict_gpt(
    vocabulary: int,
    context: int,
    width: int,
    heads: int,
    layers: int,
    batch: int,
    tokens: int,
    plan: Plan = PLAN,
) -> Timeline:
    """The Timeline of a training step of GPT(vocabulary, context, width, heads, layers, attention="plain").

    On micro-batches of `batch` sequences of `tokens` tokens each. ValueError for sizes below 1, a width that is no
    multiple of heads, more tokens than the context, and heads of width 1, whose reshapes take other paths.
    """
    check_plan(plan, vocabulary=vocabulary, width=width, heads=heads, layers=layers, batch=batch, tokens=tokens)
    if width % heads or width == heads:
        raise ValueError(f"{heads} heads of width {width / heads:g}: a whole number, at least 2")
    if tokens > context:
        raise ValueError(f"{tokens} tokens are more than the context of {context}")
    gpt = _GPT(vocabulary, context, width, heads, layers, batch, tokens, plan.checkpointed)
    rows = plan.micro_batches * batch
    return _predict(gpt.parameters, (rows * tokens * LONG,) * 2, plan, gpt.forward, gpt.backward)


# ---- a GPU's allocator -----------------------------------------------------------------------------------------------


class AllocatorCheck(NamedTuple):
    """A step's peak on a GPU, in bytes.

    requested_least: predicted, less what is on the host. requested: by the allocator's count, before any rounding.
    least, most: predicted, in the allocator's blocks; most also has room for `scratch`. allocated: by its count.
    workspaces: what libraries took in the first run and kept, beyond all of the above (cuBLAS: AllocatorBytes says how
    much). scratch: the most that one operation took and gave back, which no tensor shows.
    """

    requested_least: int
    requested: int
    least: int
    allocated: int
    most: int
    workspaces: int
    scratch: int

    @property
    def agrees(self) -> bool:
        return self.requested_least <= self.requested and self.least <= self.allocated <= self.most


def check_allocator(
    timeline: Timeline, run: Callable[[], object], device: torch.device | str | None = None, allocator: object = None
) -> AllocatorCheck:
    """Compare a prediction with what CUDA's allocator reports of run(), which makes the model, the data and the steps.

    run() is run three times and keeps nothing: to wake the libraries, to see what single operations take (ScratchBytes),
    to be measured. Without an instrument around it, autograd adds the gradients of a residual's two ways in place: where
    the predicted peak is at such a sum, less is requested than predicted. device, allocator: as of AllocatorBytes.
    """
    with AllocatorBytes(device, allocator) as first:
        run()
    with ScratchBytes(device, allocator) as operations:
        run()
    with AllocatorBytes(device, allocator) as memory:
        run()
    scratch = max(operations.bytes.values(), default=0)
    least, most = timeline.blocks
    return AllocatorCheck(
        requested_least=timeline.peak - timeline.on_host,
        requested=memory.requested_peak,
        least=least,
        allocated=memory.peak,
        most=most + scratch,
        workspaces=first.end,
        scratch=scratch,
    )
