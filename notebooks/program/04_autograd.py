# The program after lecture 04. Written by make tidy from 04_autograd.ipynb: edit its last program cell.

import time

import torch
import torch.nn.functional as F
from torch import nn

from utils.data import fashion_mnist

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
data = fashion_mnist()
x, y = data.train.x[:10_000].clone().to(device), data.train.y[:10_000].clone().to(device)
x_val, y_val = data.val.x.to(device), data.val.y.to(device)
del data  # and with it the pictures that nobody uses
held = sum(part.untyped_storage().nbytes() for part in (x, y, x_val, y_val))
print(f"the data take {held:,} bytes")

model = nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10)).to(device)
learning_rate, batch_size, epochs = 0.2, 200, 5


def accuracy(model, x, y):
    with torch.no_grad():
        return (model(x).argmax(dim=1) == y).float().mean().item()


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


parameters = sum(p.numel() for p in model.parameters())
work = 4 * parameters * len(x) * epochs  # forward 2, backward 2: nobody needs the slopes of the pictures
peak = speed()
forecast = work / peak
print(f"forecast: {work:.2g} operations, {forecast:.2f} s")

check_gradient(lambda: F.cross_entropy(model(x[:1000]), y[:1000]), list(model.parameters()))
print(f"before: {accuracy(model, x_val, y_val):.0%} right")
losses = []
for epoch in range(epochs):
    start = now()
    for rows in torch.randperm(len(x)).to(device).split(batch_size):
        loss = F.cross_entropy(model(x[rows]), y[rows])
        loss.backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= learning_rate * p.grad
                p.grad = None
        losses.append(loss.detach())
    seconds = now() - start
    print(
        f"epoch {epoch + 1}: right on {accuracy(model, x, y):.1%} of its own pictures,",
        f"{accuracy(model, x_val, y_val):.1%} of new ones;",
        f"{seconds:.2f} s, {work / epochs / seconds / peak:.0%} of what the machine can do",
    )
