# The program after lecture 03. Written by make tidy from 03_flops_and_the_roofline.ipynb: edit its last program cell.

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
