"""Lightning's Trainer, with all its output switched off."""

import logging

import torch
from lightning.pytorch import LightningModule, Trainer

from peers.job import CLIP, Job, Loop

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Module(LightningModule):
    def __init__(self, job: Job):
        super().__init__()
        self.job, self.model = job, job.model

    def training_step(self, batch, number: int) -> torch.Tensor:
        x, y = batch
        return self.job.loss(self.model(x), y)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return self.job.optimizer()


def run(job: Job) -> None:
    quiet = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    trainer = Trainer(accelerator="cpu", devices=1, max_steps=job.steps, gradient_clip_val=CLIP, **quiet)
    trainer.fit(Module(job), job.batches())


LOOPS = {"Lightning Trainer": Loop(run, ("clip",), "hooks; no log, bar or checkpoint")}
