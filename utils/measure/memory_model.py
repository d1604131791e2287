"""Predicts the memory of a training step to the byte, from shapes alone: a Timeline of its tensors, in order.

predict_mlp and predict_gpt are arithmetic, independent of the step that dry_run.py runs under LiveBytes; both must give
the same bytes. They follow the versions of torch that utils/versions.py names, operation by operation; another may free
tensors in another order. Like LiveBytes, they leave out an allocator's rounding and the scratch memory of an operation;
check_allocator adds both for a GPU.
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
    forward: Callable[[Timeline], SimpleNamespace],
    backward: Callable[[Timeline, Gradients, SimpleNamespace], None],
) -> Timeline:
    """The Timeline of training_steps().

    parameters: {name: shape}; data: bytes of inputs and of targets; forward: the model's, up to the logits, which it returns
    among what is saved; backward: that of the loss and the model.
    """
    timeline = Timeline()
    gradients = Gradients(timeline)
    named = []  # the logits that a variable of the loop holds
    with timeline.phase("parameters"):
        for shape in parameters.values():
            timeline.new(FLOAT * prod(shape), "parameters")
    with timeline.phase("data"):
        for nbytes in data:
            timeline.new(nbytes, "data")
    for step in range(1, plan.steps + 1):
        for _ in range(plan.micro_batches):
            with timeline.phase(f"forward {step}"):
                saved = forward(timeline)
                if plan.named_logits:
                    timeline.free(*named)
                    named = [saved.logits]
                _forward_loss(timeline, saved, plan)
            with timeline.phase(f"backward {step}"):
                backward(timeline, gradients, saved)
        with timeline.phase(f"update {step}"):
            _predict_update(timeline, [FLOAT * prod(shape) for shape in parameters.values()], plan, step)
        with timeline.phase(f"clear {step}"):
            gradients.clear()
    return timeline


def _predict_update(timeline: Timeline, sizes: list[int], plan: Plan, step: int) -> None:
    """SGD works in place. AdamW keeps two averages and a step count, and computes the square root of one of them."""
    if plan.optimizer == "sgd":
        return
    if step == 1:
        for size in sizes:
            timeline.new(size, "optimizer state", count=2)
            timeline.new(FLOAT, "optimizer state", on_host=plan.implementation != "fused")  # the step count
    if plan.implementation == "foreach":  # the roots for all parameters, at the same time
        timeline.free(*[timeline.new(size) for size in sizes])
    if plan.implementation == "for-loop":  # a root and its quotient; a variable holds the quotient until the next
        last = timeline.new(0)
        for size in sizes:
            root, divided = timeline.new(size), timeline.new(size)
            timeline.free(root, last)
            last = divided
        timeline.free(last)


def _forward_loss(timeline: Timeline, saved: SimpleNamespace, plan: Plan) -> None:
    """cross_entropy(logits, targets) / micro_batches: saves the log-probabilities and the sum of the weights."""
    saved.shares = timeline.new(saved.logits.nbytes, "activations")
    mean, saved.weight = timeline.new(FLOAT), timeline.new(FLOAT, "activations")
    if not plan.named_logits:
        timeline.free(saved.logits)
    saved.loss = timeline.new(FLOAT)
    timeline.free(mean)


def _backward_loss(timeline: Timeline, saved: SimpleNamespace) -> Storage:
    """The gradient of the logits. `saved.one`, the gradient of the loss itself, lives until the end of backward."""
    saved.one, scale = timeline.new(FLOAT), timeline.new(FLOAT)
    picked = timeline.new(saved.shares.nbytes)
    timeline.free(scale, saved.weight)
    logits = timeline.new(saved.shares.nbytes)
    timeline.free(picked, saved.shares)
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
    recompute = plan.checkpointed

    def forward(t: Timeline) -> SimpleNamespace:
        hidden = []
        for size in outputs[:-1]:
            linear = t.new(size)
            hidden.append(t.new(size, "activations"))  # ReLU's output, saved by ReLU and by the next layer
            t.free(linear)
        return SimpleNamespace(hidden=hidden, logits=t.new(outputs[-1]))

    def backward(t: Timeline, gradients: Gradients, saved: SimpleNamespace) -> None:
        grad = _backward_loss(t, saved)
        for i in range(last, -1, -1):
            below = t.new(outputs[i - 1]) if i else None  # the data need no gradient
            weight, bias = (t.new(FLOAT * prod(parameters[f"{name}_{i}"])) for name in ("weight", "bias"))
            gradients.accumulate(**{f"bias_{i}": bias, f"weight_{i}": weight})
            t.free(grad)
            if below is None:
                break
            hidden = saved.hidden[i - 1]
            if recompute:
                t.free(hidden)
                linear, hidden = t.new(outputs[i - 1]), t.new(outputs[i - 1], "activations")
                t.free(linear)
            grad = t.new(outputs[i - 1])
            t.free(below, hidden)
        t.free(saved.one, saved.loss)

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
    """The tensors of one GPT's forward and backward, for B sequences of T tokens. Capital letters are axes."""

    def __init__(
        self, vocabulary: int, context: int, width: int, heads: int, layers: int, B: int, T: int, recompute: bool
    ):
        self.parameters = gpt_parameters(vocabulary, context, width, layers)
        self.layers, self.recompute = layers, recompute
        self.hidden = FLOAT * B * T * width  # (B, T, D), the size of most tensors
        self.rows = FLOAT * B * T  # a mean or a standard deviation for each token
        self.scores = FLOAT * B * heads * T * T
        self.mask = BOOL * T * T
        self.logits = FLOAT * B * T * vocabulary
        self.places, self.place_rows = LONG * T, FLOAT * T * width
        # Reshapes are views where they can be. (B, H, T, D) out of the middle of (B, T, 3, H, D) merges B and H only
        # if one of them is 1; the reshape back to (B, T, H·D) is a copy unless H or T is 1.
        self.copies_heads = B > 1 and heads > 1
        self.copies_merge = heads > 1 and T > 1
        self.copies_merge_gradient = B > 1 and heads > 1 and T > 1
        self.copies_qkv_gradient = B > 1 or T > 1

    # -- forward

    def forward(self, t: Timeline) -> SimpleNamespace:
        """Embeddings, blocks, LM head. Tensors that autograd saves are activations; they and the logits are returned."""
        tokens = t.new(self.hidden)
        places = t.new(self.places, "activations")
        positions = t.new(self.place_rows)
        x = t.new(self.hidden, "activations")
        t.free(positions, tokens)
        inputs, blocks = [x], []
        for _ in range(self.layers):
            saved = self.block(t, keep=not self.recompute)
            blocks.append(saved)
            inputs.append(saved.output)
        norm, rows = self.norm(t, keep=True)
        logits = t.new(self.logits)
        return SimpleNamespace(places=places, inputs=inputs, blocks=blocks, norm=norm, rows=rows, logits=logits)

    def norm(self, t: Timeline, keep: bool) -> tuple[Storage, Storage]:
        """LayerNorm's output, and its means and deviations, which only backward needs."""
        kind = "activations" if keep else "temporaries"
        norm, rows = t.new(self.hidden, kind), t.new(self.rows, kind, count=2)
        t.drop(rows)
        return norm, rows

    def block(self, t: Timeline, keep: bool, stop_early: bool = False) -> SimpleNamespace:
        """One Transformer block, from the LayerNorm of its input to its output, in the order of models.Block.

        keep: autograd saves what backward needs. stop_early: a recomputation for backward, which ends as soon as
        everything is saved, before the last Linear.
        """
        kind = "activations" if keep else "temporaries"
        x = self.hidden
        norm_1, rows_1 = self.norm(t, keep)
        # If q, k and v are views of qkv's output, saving one of them keeps all of it.
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
        saved = SimpleNamespace(norm_1=norm_1, rows_1=rows_1, mask=mask, qk=copies, shares=shares, v=v, merged=merged)
        saved.middle, saved.norm_2, saved.rows_2, saved.wide, saved.act = middle, norm_2, rows_2, wide, act
        saved.qkv = qkv
        if not stop_early:
            down = t.new(x)
            t.drop(act, norm_2)
            saved.output = t.new(x, "activations")  # saved by the next LayerNorm
            t.free(down)
            t.drop(middle)
        t.drop(qkv, mixed)  # q, k, v and mixed are variables until the block returns
        return saved

    # -- backward

    def backward(self, t: Timeline, gradients: Gradients, saved: SimpleNamespace) -> None:
        """The blocks in reverse order. The token embedding gets two gradients, one from the LM head, and their sum."""
        grad = _backward_loss(t, saved)
        tokens = self.parameter("tokens")
        read_out = t.new(tokens)
        norm = t.new(self.hidden)
        t.free(grad, saved.norm)
        grad = self.norm_backward(t, gradients, "norm_{}", norm, saved.inputs[-1], saved.rows)
        for i in reversed(range(self.layers)):
            block = self.block(t, keep=True, stop_early=True) if self.recompute else saved.blocks[i]
            grad = self.block_backward(t, gradients, i, grad, saved.inputs[i], block)

        places = t.new(self.place_rows)  # summed over the batch
        positions = t.new(self.parameter("positions"))
        gradients.accumulate(positions=positions)
        t.free(places, saved.places)
        looked_up = t.new(tokens)
        t.free(grad)
        both = t.new(tokens)
        t.free(read_out, looked_up)
        gradients.accumulate(tokens=both)
        t.free(saved.one, saved.loss)

    def parameter(self, name: str) -> int:
        """Bytes of a parameter, or of its gradient."""
        return FLOAT * prod(self.parameters[name])

    def norm_backward(
        self,
        t: Timeline,
        gradients: Gradients,
        name: str,
        grad: Storage,
        source: Storage,
        rows: Storage,
        skip_grad: Storage | None = None,
    ) -> Storage:
        """The gradient of LayerNorm's input; its gain's and shift's accumulate under `name`.

        skip_grad: the gradient through the skip connection, if its input is a residual; the two are added before those
        of the gain and the shift accumulate.
        """
        result = t.new(self.hidden)
        parts = {name.format(part): t.new(self.parameter(name.format(part))) for part in ("gain", "shift")}
        t.free(grad, source, rows)
        if skip_grad is not None:
            both = t.new(self.hidden)
            t.free(skip_grad, result)
            result = both
        gradients.accumulate(**parts)
        return result

    def linear_backward(self, t: Timeline, gradients: Gradients, name: str, below: int, source: Storage) -> Storage:
        """The gradient of a Linear's input, of `below` bytes. Frees the saved input `source`.

        A checkpointed input is freed before the bias gradient is summed; one that autograd saved, after the whole
        function.
        """
        result = t.new(below)
        weight = t.new(self.parameter(name.format("weight")))
        if self.recompute:
            t.free(source)
        bias = t.new(self.parameter(name.format("bias")))
        if not self.recompute:
            t.free(source)
        gradients.accumulate(**{name.format("bias"): bias, name.format("weight"): weight})
        return result

    def block_backward(
        self, t: Timeline, gradients: Gradients, i: int, grad: Storage, source: Storage, saved: SimpleNamespace
    ) -> Storage:
        """From the gradient of block i's output to that of its input, `source`; `saved` is from the forward."""
        x = self.hidden
        act = self.linear_backward(t, gradients, f"down_{{}}_{i}", 4 * x, saved.act)
        wide = t.new(4 * x)
        t.free(act, saved.wide)
        norm_2 = self.linear_backward(t, gradients, f"up_{{}}_{i}", x, saved.norm_2)
        t.free(wide)
        grad = self.norm_backward(t, gradients, f"norm_2_{{}}_{i}", norm_2, saved.middle, saved.rows_2, grad)

        merged = self.linear_backward(t, gradients, f"out_{{}}_{i}", x, saved.merged)
        if self.copies_merge_gradient:
            merged = self.copied(t, merged)
        v, shares = t.new(x), t.new(self.scores)
        t.free(merged, *saved.v)
        scores = t.new(self.scores)
        t.free(shares, saved.shares)
        filled = self.copied(t, scores)
        t.free(saved.mask)
        scaled = self.copied(t, filled)
        k, q = t.new(x), t.new(x)
        t.free(scaled, *(saved.qk if self.copies_heads else [saved.qkv]))
        qkv = t.new(3 * x)  # q, k and v stacked, and then in the order of the Linear's output
        t.free(q, k, v)
        if self.copies_qkv_gradient:
            qkv = self.copied(t, qkv)
        norm_1 = self.linear_backward(t, gradients, f"qkv_{{}}_{i}", x, saved.norm_1)
        t.free(qkv)
        return self.norm_backward(t, gradients, f"norm_1_{{}}_{i}", norm_1, source, saved.rows_1, grad)

    def copied(self, t: Timeline, storage: Storage) -> Storage:
        """A copy of the same size replaces the tensor."""
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

    On micro-batches of `batch` sequences of `tokens` tokens each. ValueError for sizes below 1, a width that is not
    a multiple of heads, more tokens than the context, and heads of width 1, which torch reshapes differently.
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

    requested_least: predicted, without bytes on the host. requested: counted by the allocator, before any rounding.
    least, most: predicted, in the allocator's blocks; most includes `scratch`. allocated: counted by the allocator.
    workspaces: bytes that libraries allocated in the first run and kept, in addition to all of the above (for cuBLAS see
    AllocatorBytes). scratch: the most that one operation allocated and freed, which no tensor shows.
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

    Calls run() three times: to load the libraries, to measure the scratch memory of single operations (ScratchBytes), and
    to measure the step. run() must keep nothing. Without LiveBytes around it, autograd sums the two gradients of a
    residual in place: if the predicted peak is at such a sum, less is requested than predicted. device, allocator: as in
    AllocatorBytes.
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
