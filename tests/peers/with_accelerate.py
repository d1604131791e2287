"""Accelerate: a loop of one's own with accumulate, backward, clip_grad_norm_."""

from accelerate import Accelerator

from peers.job import CLIP, Job, Loop


def run(job: Job) -> None:
    accelerator = Accelerator(cpu=True)
    model, optimizer = accelerator.prepare(job.model, job.optimizer())
    for x, y in job.batches():
        with accelerator.accumulate(model):
            optimizer.zero_grad()
            accelerator.backward(job.loss(model(x), y))
            accelerator.clip_grad_norm_(model.parameters(), CLIP)
            optimizer.step()


LOOPS = {"Accelerate": Loop(run, ("clip",), "device, precision, accumulation")}
