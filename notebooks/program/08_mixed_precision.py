# The program after lecture 08. Written by make tidy from 08_mixed_precision.ipynb: edit its last program cell.

import math
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

from utils.data import shakespeare

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
steps, batch_size, context = 400, 16, 64
width, heads, layers = 128, 4, 2
checkpointed = False  # True: each layer forgets what it computed, and computes it again in backward
half = torch.bfloat16 if device == "cuda" else None  # None: all in float32; torch.float16: with the scaler below
learning_rate, warmup, weight_decay, clip = 0.01, 40, 0.1, 1.0

text = shakespeare()
letters = sorted(set(text))
tokens = torch.tensor([letters.index(letter) for letter in text], device=device)
cut = len(tokens) * 9 // 10  # what comes after it is for validation


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

    def attend(self, x):
        q, k, v = in_heads(self.query_key_value(x), heads)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # by each letter, of those up to itself
        return self.out(seen.transpose(1, 2).flatten(2))  # the heads side by side again

    def forward(self, x):
        x = x + self.attend(self.norm_1(x))
        return x + self.feed(self.norm_2(x))


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
optimizer = torch.optim.AdamW(model.parameters(), weight_decay=weight_decay)
scaler = torch.amp.GradScaler(device, enabled=half == torch.float16)  # it changes nothing where it is not enabled


def loss_of(x, y):
    logits = model(x).float()  # the loss in float32: under autocast a GPU would take it in 16 bits
    return F.cross_entropy(logits.flatten(0, 1), y.flatten())


def rate(step):
    """Up in a straight line while it warms up, then down along half a cosine, to nothing after the last step."""
    if step < warmup:
        return learning_rate * (step + 1) / warmup
    return learning_rate * (1 + math.cos(math.pi * (step - warmup) / (steps - warmup))) / 2


def validate():
    with torch.no_grad():
        return sum(loss_of(*batch(step, cut, len(tokens))).item() for step in range(20)) / 20


def write(length=300):
    generator, written = torch.Generator().manual_seed(0), [letters.index("\n")]
    with torch.no_grad():
        for _ in range(length):
            scores = model(torch.tensor([written[-context:]], device=device))[0, -1].cpu()
            written.append(int(torch.multinomial(scores.softmax(dim=0), 1, generator=generator)))
    return "".join(letters[token] for token in written)


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


check_gradient(lambda: loss_of(*(part[:4] for part in batch(0))), list(model.parameters()))
parameters = sum(p.numel() for p in model.parameters())
work = 6 * parameters * batch_size * context  # of one step
peak = speed()
print(f"forecast: {work:.2g} operations a step, {steps * work / peak:.1f} s in all")
hidden, whole = 4 * context * width, (64 * width + 16 + 4 * heads) * context  # of a window: its state, all in a layer
kept = hidden if checkpointed else whole
moments = [batch_size * (layers * kept + 12 * context * len(letters) + 2 * hidden + 24 * context)]  # at the loss
for done in (0, layers - 1):  # in a layer, when backward has gone through so many
    gradients = (len(letters) + 4 * width + 3 + done * (12 * width + 13)) * width
    moments += [batch_size * ((layers - 1 - done) * kept + whole + 5 * hidden + 16 * context) + 4 * gradients]
in_turn = 4 * parameters + 8 * width * max(len(letters), 4 * width)  # a CPU's update: one weight after the other
moments += [8 * parameters if device == "cuda" else in_turn]  # CUDA's: all at once
print(f"forecast: {(12 * parameters + max(moments)) / 1e6:.1f} MB of tensors at most, in float32")
print(f"before: loss {validate():.2f}; ln {len(letters)} = {math.log(len(letters)):.2f}")
if device == "cuda":
    torch.cuda.reset_peak_memory_stats()  # what the stopwatch needed does not count
start = now()
for step in range(steps):
    x, y = batch(step)
    with torch.autocast(device, half, enabled=half is not None):
        loss = loss_of(x, y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)  # the clip must see the gradient itself
    nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.param_groups[0]["lr"] = rate(step)
    scaler.step(optimizer)  # leaves the step out where the gradient is not finite
    scaler.update()
    optimizer.zero_grad()
    if (step + 1) % 100 == 0:
        speed_now = work * (step + 1) / (now() - start)
        print(f"step {step + 1}: loss {validate():.2f}, {speed_now / peak:.0%} of what the machine can do")
print(write())
if device == "cuda":
    print(f"the GPU's tensors took {torch.cuda.max_memory_allocated() / 1e6:.1f} MB at most")
