# The program after lecture 01. Written by make tidy from 01_tensors_and_strides.ipynb: edit its last program cell.

import time

import torch
import torch.nn.functional as F
from torch import nn

from utils.data import fashion_mnist

torch.manual_seed(0)
data = fashion_mnist()
x, y = data.train.x[:10_000].clone(), data.train.y[:10_000].clone()
x_val, y_val = data.val.x, data.val.y
del data  # and with it the pictures that nobody uses
held = sum(part.untyped_storage().nbytes() for part in (x, y, x_val, y_val))
print(f"the data take {held:,} bytes")

model = nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))
learning_rate, batch_size, epochs = 0.1, 50, 5


def accuracy(model, x, y):
    with torch.no_grad():
        return (model(x).argmax(dim=1) == y).float().mean().item()


def speed(n=1000):
    """Multiplications and additions a second, in a large product of matrices: the best of five."""
    a, seconds = torch.ones(n, n), []  # no random numbers: the run stays the same
    for _ in range(5):
        start = time.perf_counter()
        a @ a
        seconds.append(time.perf_counter() - start)
    return 2 * n**3 / min(seconds)


parameters = sum(p.numel() for p in model.parameters())
work = 6 * parameters * len(x) * epochs  # forward 2, backward 4, for each parameter and picture
forecast = work / speed()
print(f"forecast: {work:.2g} operations, {forecast:.2f} s")

print(f"before: {accuracy(model, x_val, y_val):.0%} right")
losses = []
start = time.perf_counter()
for epoch in range(epochs):
    for rows in torch.randperm(len(x)).split(batch_size):
        loss = F.cross_entropy(model(x[rows]), y[rows])
        loss.backward()
        with torch.no_grad():
            for p in model.parameters():
                p -= learning_rate * p.grad
                p.grad = None
        losses.append(loss.item())
    print(
        f"epoch {epoch + 1}: right on {accuracy(model, x, y):.1%} of its own pictures,",
        f"{accuracy(model, x_val, y_val):.1%} of new ones",
    )
seconds = time.perf_counter() - start
print(f"it took {seconds:.2f} s, {seconds / forecast:.1f} times the forecast")
