"""The README's pictures: `make figures` writes them to notebooks/figures/, the same bytes each time.

Each is drawn from what the course itself computes: the claims in the notebooks, the bytes of a step, the
datasheets, a run of the loop.
"""

import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from matplotlib.figure import Figure
from torch._subclasses.fake_tensor import FakeTensorMode

from utils import facts, napkin
from utils.atomic_write import write_bytes
from utils.course import ROOT, two_cores
from utils.course.notebooks.notebook import is_lecture, notebooks_in, read
from utils.data.datasets import spiral
from utils.figures import flops, loop, memory
from utils.figures.style import svg
from utils.loop import checkpoint
from utils.loop.config import Config
from utils.loop.training import evaluate, train
from utils.measure.lifetimes import Lifetimes, bytes_by_kind
from utils.models import GPT, MLP

FOLDER = ROOT / "notebooks" / "figures"
CHIPS = {"A100": "NVIDIA A100-SXM4-80GB", "H100": "NVIDIA H100 80GB HBM3", "H200": "NVIDIA H200"}
GPT2 = {"vocabulary": 50_257, "context": 1024, "width": 768, "heads": 12, "layers": 12, "batch": 12}
EPOCHS, EPOCH = (1, 6, 30), 22  # the epochs of the spiral that are drawn; steps per epoch
POINTS = 100  # of the validation data that are drawn
TOGETHER = 6  # births of a tensor per strip of the picture
EXTENT = 1.2  # of the plane around it


def claims_picture() -> Figure:
    """The ledger, which `make tidy` writes too."""
    return two_cores.picture(read(path) for path in notebooks_in(ROOT / "notebooks") if is_lecture(path))


def memory_picture() -> Figure:
    """The second step of GPT-2 with AdamW, as lecture 07 counts it on fake tensors: live bytes by kind."""
    steps = []
    with FakeTensorMode(), Lifetimes() as seen:
        model = GPT(*(GPT2[size] for size in ("vocabulary", "context", "width", "heads", "layers")), attention="fused")
        optimizer = torch.optim.AdamW(model.parameters())
        x, y = (torch.zeros(GPT2["batch"], GPT2["context"], dtype=torch.long) for _ in range(2))
        for _ in range(2):
            steps.append({"forward": seen.now})
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            steps[-1]["backward"] = seen.now
            loss.backward()
            steps[-1]["update"] = seen.now
            optimizer.step()
            optimizer.zero_grad()
            steps[-1]["end"] = seen.now
    logits = 4 * GPT2["batch"] * GPT2["context"] * GPT2["vocabulary"]
    parts, begins = bytes_by_kind(seen, steps, logits)[1], steps[1]
    total = [sum(alive) for alive in zip(*parts.values(), strict=True)]
    groups = [range(start, min(start + TOGETHER, len(total))) for start in range(0, len(total), TOGETHER)]
    shown = [max(group, key=total.__getitem__) for group in groups]
    phases = {phase: (begins[phase] - begins["forward"]) // TOGETHER for phase in ("forward", "backward", "update")}
    figure = memory.step_timeline({kind: [alive[at] for at in shown] for kind, alive in parts.items()}, phases)
    figure.axes[0].set(xticks=[], xlabel=f"the step, from left to right: each strip the highest of {TOGETHER} births")
    return figure


def roofline_picture() -> Figure:
    """The roofs of three GPUs in bf16, and the least that five programs cost under the H100's."""
    roofs = {
        f"{name}, bf16": (facts.peak_flops(chip, "bf16"), facts.memory_bandwidth(chip)) for name, chip in CHIPS.items()
    }
    peak, bandwidth = roofs["H100, bf16"]
    work = {"a + b": (1, 3 * 2)} | {  # FLOPs, and bytes in bf16
        label: (napkin.matmul_flops(m, k, n), napkin.matmul_bytes(m, k, n, 2))
        for label, (m, k, n) in {
            "8192² · vector": (8192, 8192, 1),
            "8192² · 64 columns": (8192, 8192, 64),
            "512³": (512, 512, 512),
            "8192³": (8192, 8192, 8192),
        }.items()
    }
    points = {label: (n / size, min(peak, bandwidth * n / size)) for label, (n, size) in work.items()}
    return flops.roofline(roofs, points)


def spiral_picture() -> Figure:
    """Predictions of a small network over the plane after some epochs on the spiral: the settings of lecture 09."""
    data = spiral()
    torch.manual_seed(0)
    every = {"log_every": EPOCH, "val_every": EPOCH, "save_every": EPOCH, "keep": EPOCHS[-1]}
    config = Config(
        steps=EPOCHS[-1] * EPOCH,
        batch_size=64,
        lr=2e-3,
        warmup=EPOCH,
        schedule="cosine",
        clip=1.0,
        device="cpu",
        **every,
    )
    model = MLP((2, 64, 64, 3))
    frames = {}
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(None):
        train(model, data.train, data.val, config, run=folder)
        saved = checkpoint.find(Path(folder) / "checkpoints")
        for epoch in EPOCHS:
            model.load_state_dict(checkpoint.load(saved[epoch - 1])["model"])
            frames[f"epoch {epoch}"] = (class_probabilities(model), evaluate(model, data.val).accuracy)
    return loop.decision_panels(frames, data.val.x[:POINTS].numpy(), data.val.y[:POINTS].numpy(), EXTENT)


def class_probabilities(model: torch.nn.Module, side: int = 56) -> np.ndarray:
    """The probabilities (side, side, 3) that a classifier of points gives over the plane, of two digits."""
    ticks = torch.linspace(-EXTENT, EXTENT, side)
    with torch.no_grad():
        plane = model(torch.cartesian_prod(ticks, ticks)).softmax(-1).view(side, side, 3).transpose(0, 1)
    return plane.numpy().round(2)


PICTURES: dict[str, Callable[[], Figure]] = {
    "ledger": claims_picture,
    "memory": memory_picture,
    "roofline": roofline_picture,
    "spiral": spiral_picture,
}


def figures(folder: Path = FOLDER, names: tuple[str, ...] = tuple(PICTURES)) -> None:
    """Write the pictures called `names` to `folder`, and say which have changed."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        path, text = folder / f"{name}.svg", svg(PICTURES[name]())
        if not path.exists() or path.read_bytes() != text:
            write_bytes(path, text)
            print(f"{path}: written, {len(text):,} bytes")
