"""Lightning Fabric: a loop of one's own, in which Fabric does the backward pass, the clipping, and the checkpoint."""

from functools import partial
from pathlib import Path

from lightning.fabric import Fabric
from torchdata.stateful_dataloader import StatefulDataLoader

from peers.job import CLIP, Job, Loop, Trial

USES = {"Fabric": "fabric.save of a new file each time, with a StatefulDataLoader; clip_gradients raises"}


def run(job: Job, clip: bool) -> None:
    fabric = Fabric(accelerator="cpu", devices=1)
    model, optimizer = fabric.setup(job.model, job.optimizer())
    for x, y in job.batches():
        optimizer.zero_grad()
        fabric.backward(job.loss(model(x), y))
        if clip:
            fabric.clip_gradients(model, optimizer, max_norm=CLIP)
        optimizer.step()


LOOPS = {
    "Fabric": Loop(partial(run, clip=False), has="device, precision"),
    "Fabric, clipping": Loop(partial(run, clip=True), ("clip",), "device, precision, error if not finite"),
}


def newest(trial: Trial) -> Path | None:
    return max(trial.folder.glob("*.ckpt"), default=None)


def train(trial: Trial) -> None:
    fabric = Fabric(accelerator="cpu", devices=1)
    model, optimizer = fabric.setup(trial.model, trial.optimizer())
    loader = StatefulDataLoader(trial.data, trial.batch_size, shuffle=True, num_workers=trial.workers)
    state = {"model": model, "optimizer": optimizer, "loader": loader, "done": 0}
    if newest(trial):
        fabric.load(newest(trial), state)
    while state["done"] < trial.micro_batches:
        for x, y in loader:
            state["done"] += 1
            accumulating = state["done"] % trial.accumulation != 0
            with fabric.no_backward_sync(model, enabled=accumulating):
                fabric.backward(trial.loss(model(x), y) / trial.accumulation)
            if not accumulating:
                if not trial.sgd:
                    fabric.clip_gradients(model, optimizer, max_norm=CLIP)
                optimizer.step()
                optimizer.zero_grad()
            if state["done"] % trial.save_every == 0:
                fabric.save(trial.folder / f"{state['done']:09d}.ckpt", state)
            if state["done"] == trial.micro_batches:
                break
