"""Lightning Fabric: a loop of one's own, in which Fabric does the backward pass and the clipping."""

from functools import partial

from lightning.fabric import Fabric

from peers.job import CLIP, Job, Loop


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
