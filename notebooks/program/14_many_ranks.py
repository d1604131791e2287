# The program after lecture 14. Written by make tidy from 14_many_ranks.ipynb: edit its last program cell.

import io
import math
import os
import signal
import sys
import time
from contextlib import contextmanager

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from utils.data import shakespeare

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))  # torchrun sets them
if ranks > 1:
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if device == "cuda" else "gloo")
if rank > 0:
    sys.stdout = io.StringIO()  # only rank 0 speaks
steps, batch_size, context = 400, 16, 64
width, heads, layers = 128, 4, 2
compiled = False  # True: torch.compile writes kernels for the model as a whole; this takes it some time
checkpointed = False  # True: each layer forgets what it computed, and computes it again in backward
half = torch.bfloat16 if device == "cuda" else None  # None: all in float32; torch.float16: with the scaler below
learning_rate, warmup, weight_decay, clip, dropout = 0.01, 40, 0.1, 1.0, 0.1
state_file = os.environ.get("STATE_FILE")  # STATE_FILE=gpt.pt python program.py: kept there, and gone on from there
parts = 1  # of a batch, computed one after the other: fewer bytes, the same gradient

text = shakespeare()
letters = sorted(set(text))
tokens = torch.tensor([letters.index(letter) for letter in text], device=device)
cut = len(tokens) * 9 // 10  # what comes after it is for validation


def of_all_ranks(value):
    values = [value] * ranks
    if ranks > 1:
        dist.all_gather_object(values, value)
    return values


def batch(step, first=0, last=cut):
    """Windows of the text, and for each letter the one that follows: drawn by the number of the step alone."""
    generator = torch.Generator().manual_seed(step)
    starts = torch.randint(first, last - context, (batch_size, 1), generator=generator)
    windows = tokens[(starts + torch.arange(context + 1)).to(device)]
    return windows[:, :-1], windows[:, 1:]


def in_heads(joint, heads):
    """q, k and v side by side (B, T, 3 · D) -> q, k and v in heads (3, B, heads, T, D / heads)."""
    B, T, _ = joint.shape
    return joint.view(B, T, 3, heads, -1).permute(2, 0, 3, 1, 4)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.drop = nn.Dropout(dropout)  # in training alone

    def attend(self, x):
        q, k, v = in_heads(self.query_key_value(x), heads)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # by each letter, of those up to itself
        return self.out(seen.transpose(1, 2).flatten(2))  # the heads side by side again

    def forward(self, x):
        x = x + self.drop(self.attend(self.norm_1(x)))
        return x + self.drop(self.feed(self.norm_2(x)))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.letter, self.place = nn.Embedding(len(letters), width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*[Block() for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        for part in self.modules():
            if isinstance(part, nn.Linear | nn.Embedding):
                nn.init.normal_(part.weight, std=0.02)
            if isinstance(part, nn.Linear):
                nn.init.zeros_(part.bias)

    def forward(self, x):
        places = torch.arange(x.shape[1], device=x.device)
        x = self.letter(x) + self.place(places)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if checkpointed else block(x)
        return self.norm(x) @ self.letter.weight.T  # a score for each letter that may come next


model = GPT().to(device)
network = DistributedDataParallel(model) if ranks > 1 else model  # what trains; they share their parameters
network = torch.compile(network) if compiled else network
if ranks > 1:
    torch.manual_seed(1 + rank)  # each rank drops other numbers
optimizer = torch.optim.AdamW(model.parameters(), weight_decay=weight_decay)
scaler = torch.amp.GradScaler(device, enabled=half == torch.float16)  # it changes nothing where it is not enabled


def loss_of(x, y):
    """The sum of the losses of all letters, and how many they are: sums can be added, means cannot."""
    logits = network(x).float()  # the loss in float32: under autocast a GPU would take it in 16 bits
    return F.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="sum"), (y != -100).sum()


def rate(step):
    """Up in a straight line while it warms up, then down along half a cosine, to nothing after the last step."""
    if step < warmup:
        return learning_rate * (step + 1) / warmup
    return learning_rate * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup))) / 2


@contextmanager
def evaluating():
    """No dropout and no graph in here; after it the model is in the mode that it was in before."""
    mode = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(mode)


def validate():
    """The mean loss of a letter, over all of the text that was kept back."""
    x, y = tokens[cut:-1], tokens[cut + 1 :]
    short = -len(x) % context  # what the last window lacks; cross_entropy does not count a y of -100
    x, y = F.pad(x, (0, short)).view(-1, context), F.pad(y, (0, short), value=-100).view(-1, context)
    with evaluating():
        pairs = [loss_of(*pair) for pair in zip(x.split(batch_size), y.split(batch_size), strict=True)]
    return (sum(total for total, _ in pairs) / sum(count for _, count in pairs)).item()


def write(length=300):
    generator, written = torch.Generator().manual_seed(0), [letters.index("\n")]
    with evaluating():
        for _ in range(length):
            scores = model(torch.tensor([written[-context:]], device=device))[0, -1].cpu()
            written.append(int(torch.multinomial(scores.softmax(dim=0), 1, generator=generator)))
    return "".join(letters[token] for token in written)


def save(done):
    """What the next step reads and an earlier one has changed: the old file stands until the new one is whole."""
    gpu = of_all_ranks(torch.cuda.get_rng_state() if device == "cuda" else None)
    state = {"done": done, "random": of_all_ranks(torch.get_rng_state()), "random_gpu": gpu}
    if rank > 0:
        return
    state |= {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}
    with open(f"{state_file}.new", "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())  # on the disk, not only on its way there
    os.replace(f"{state_file}.new", state_file)


def resume():
    """How many steps are done: those of the run that was kept, or none."""
    if not state_file or not os.path.exists(state_file):
        return 0
    state = torch.load(state_file, map_location="cpu", weights_only=True)
    for name, part in (("model", model), ("optimizer", optimizer), ("scaler", scaler)):
        part.load_state_dict(state[name])
    torch.set_rng_state(state["random"][rank])
    if device == "cuda":
        torch.cuda.set_rng_state(state["random_gpu"][rank])
    return state["done"]


def promised_change(gradient, move):
    return (gradient * move).sum()


def check_gradient(loss_now, tensors, distance=5e-4, tolerance=0.1):
    """Move each tensor a little at random, up and down: the loss must change as its gradient promises."""
    generator = torch.Generator().manual_seed(0)  # its own: the training draws what it drew before
    gradients = torch.autograd.grad(loss_now(), tensors)
    with torch.no_grad():
        for p, g in zip(tensors, gradients, strict=True):
            start, size, off = p.clone(), 0, 0
            for _ in range(5):
                move = distance * torch.randn(p.shape, generator=generator).to(p)
                p.copy_(start + move)
                up = loss_now()
                p.copy_(start - move)
                change, promised = (up - loss_now()) / 2, promised_change(g, move)
                size, off = size + abs(promised), off + abs(change - promised)
            p.copy_(start)  # back to the bit
            rounding = 5 * torch.finfo(up.dtype).eps * abs(up)  # what float32 may add to five losses
            if not off <= tolerance * size + rounding:
                raise ValueError(f"wrong slopes of {tuple(p.shape)}: off by {off:.2g} where {size:.2g} is promised")
    print(f"gradient checked: {len(tensors)} tensors")


def loss_of_four():
    total, count = loss_of(*(part[:4] for part in batch(0)))
    return total / count


def check_model():
    """What a right GPT does before its first step: it guesses, looks at no later letter, and keeps texts apart."""
    x, _ = (part[:4] for part in batch(0))
    one_letter = torch.eye(x.shape[1], dtype=int, device=device)
    changed = (x[0] + one_letter) % len(letters)  # the first text, once for each place: with that letter changed
    with evaluating():
        scores, guess, knows = model(x), math.log(len(letters)), loss_of_four().item()
        assert abs(knows - guess) < 0.2, f"before training the loss is {knows:.2f}, and a guess has {guess:.2f}"
        alone = torch.cat([model(window[None]) for window in x])
        assert torch.allclose(alone, scores, atol=1e-4), "a text sees the others of its batch"
        moved = (model(changed) - scores[0]).abs().amax(dim=-1) > 1e-4  # (place that was changed, place that moved)
        assert not moved.tril(-1).any(), "a letter sees later ones"
    gradients = torch.autograd.grad(loss_of_four(), list(model.parameters()), allow_unused=True)
    still = [n for (n, _), g in zip(model.named_parameters(), gradients, strict=True) if g is None or not g.any()]
    assert not still, f"no gradient reaches {still}"
    updated = {p for group in optimizer.param_groups for p in group["params"]}
    left_out = [name for name, p in model.named_parameters() if p not in updated]
    assert not left_out, f"the optimizer lacks {left_out}"
    print("model checked")


def now():
    """Seconds, when all that was asked for is done: a GPU works on after Python has gone on."""
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def speed(n=4000 if device == "cuda" else 500):
    """Multiplications and additions a second, in one large product of matrices: the best of ten."""
    a, seconds = torch.ones(n, n, device=device), []  # no random numbers: the run stays the same
    for _ in range(10):  # the first one is slower, and neighbours can only add to a time
        start = now()
        a @ a
        seconds.append(now() - start)
    return 2 * n**3 / min(seconds)


model.eval()  # dropout would draw anew at each call
check_model()
check_gradient(loss_of_four, list(model.parameters()))
model.train()
parameters = sum(p.numel() for p in model.parameters())
work = 6 * parameters * batch_size * context  # of one step
peak = speed()
print(f"forecast: {work:.2g} operations a step, {steps * work / peak:.1f} s in all")
print(f"before: loss {validate():.2f}; ln {len(letters)} = {math.log(len(letters)):.2f}")
if device == "cuda":
    torch.cuda.reset_peak_memory_stats()  # what the stopwatch needed does not count
asked_to_stop = []
if state_file:
    signal.signal(signal.SIGTERM, lambda *_: asked_to_stop.append(True))
first, start = resume(), now()
for step in range(first, steps):
    x, y = batch(step)
    count = (y != -100).sum()  # of the whole batch
    x, y = x.tensor_split(ranks)[rank], y.tensor_split(ranks)[rank]  # of this rank
    for x_part, y_part in zip(x.tensor_split(parts), y.tensor_split(parts), strict=True):
        with torch.autocast(device, half, enabled=half is not None):
            total, _ = loss_of(x_part, y_part)
        scaler.scale(ranks * total / count).backward()  # DDP takes the mean over the ranks, and we want the sum
    scaler.unscale_(optimizer)  # the clip must see the gradient itself
    norm = nn.utils.clip_grad_norm_(model.parameters(), clip)  # as it was before
    optimizer.param_groups[0]["lr"] = rate(step)
    scaler.step(optimizer)  # leaves the step out where the gradient is not finite
    scaler.update()
    optimizer.zero_grad()
    if (step + 1) % 100 == 0:
        share = work * (step + 1 - first) / (now() - start) / peak
        print(f"step {step + 1}: loss {validate():.2f}, norm {norm:.2f}, {share:.0%} of what the machine can do")
    stop = (step + 1) % 10 == 0 and any(of_all_ranks(bool(asked_to_stop)))  # all ranks must agree on the step
    if state_file and ((step + 1) % 100 == 0 or stop):
        save(step + 1)
    if stop:
        raise SystemExit(f"stopped after {step + 1} steps; the same line goes on from there")
print(write())
if device == "cuda":
    print(f"the GPU's tensors took {torch.cuda.max_memory_allocated() / 1e6:.1f} MB at most")
if ranks > 1:
    del network  # DDP goes before its group: the other way round a rank may hang
    dist.destroy_process_group()
