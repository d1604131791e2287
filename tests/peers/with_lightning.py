"""Lightning's Trainer, with all its output switched off."""

import logging
from pathlib import Path

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from torchdata.stateful_dataloader import StatefulDataLoader

from peers.job import CLIP, Job, Loop, Trial

QUIET = {
    "accelerator": "cpu",
    "devices": 1,
    "logger": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}
USES = {"Lightning Trainer": "ModelCheckpoint(save_last=True), StatefulDataLoader, detect_anomaly"}

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
    trainer = Trainer(max_steps=job.steps, gradient_clip_val=CLIP, enable_checkpointing=False, **QUIET)
    trainer.fit(Module(job), job.batches())


LOOPS = {"Lightning Trainer": Loop(run, ("clip",), "hooks; no log, bar or checkpoint")}


def newest(trial: Trial) -> Path:
    return trial.folder / "last.ckpt"


def train(trial: Trial) -> None:
    trainer = Trainer(
        max_steps=trial.steps,
        max_epochs=-1,
        accumulate_grad_batches=trial.accumulation,
        gradient_clip_val=None if trial.sgd else CLIP,
        detect_anomaly=True,
        callbacks=[ModelCheckpoint(trial.folder, save_last=True, every_n_train_steps=trial.save_every)],
        **QUIET,
    )
    loader = StatefulDataLoader(trial.data, trial.batch_size, shuffle=True, num_workers=trial.workers)
    trainer.fit(Module(trial), loader, ckpt_path="last")
