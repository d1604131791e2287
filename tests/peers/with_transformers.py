"""transformers' Trainer with its defaults (it clips, schedules and logs)."""

import tempfile
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import IterableDataset, default_collate
from transformers import Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint

from peers.job import CLIP, LR, Job, Loop, Trial

OPTIONS = {"lr_scheduler_type": "constant", "use_cpu": True, "report_to": "none", "disable_tqdm": True}
USES = {
    "transformers Trainer": "save_total_limit=2, resume_from_checkpoint=True; compute_loss_func; underflow_overflow"
}


class Model(nn.Module):
    """Takes a batch by name, as Trainer hands it out; returns the loss first, as Trainer wants it."""

    def __init__(self, job: Job):
        super().__init__()
        self.job, self.model = job, job.model

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor]:
        return (self.job.loss(self.model(x), y),)


class Batches(IterableDataset):
    def __init__(self, job: Job):
        self.job = job

    def __iter__(self):
        return ({"x": x, "y": y} for x, y in self.job.batches())


class OwnBatches(Trainer):
    def get_train_dataloader(self) -> Iterable:
        return self.train_dataset


def run(job: Job) -> None:
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder, max_steps=job.steps, learning_rate=LR, max_grad_norm=CLIP, save_strategy="no", logging_steps=50,
            **OPTIONS,
        )  # fmt: skip
        OwnBatches(Model(job), arguments, train_dataset=Batches(job), optimizers=(job.optimizer(), None)).train()


LOOPS = {"transformers Trainer": Loop(run, ("clip",), "schedule, callbacks, a log every 50 steps, device, precision")}


class Outputs(nn.Module):
    """A model whose loss is computed by Trainer's compute_loss_func."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return self.model(x)


def collate(examples: list) -> dict[str, Tensor]:
    x, labels = default_collate(examples)
    return {"x": x, "labels": labels}


def newest(trial: Trial) -> Path | None:
    found = get_last_checkpoint(trial.folder)
    return found and Path(found)


def train(trial: Trial) -> None:
    def per_target(outputs: Tensor, labels: Tensor, num_items_in_batch: Tensor) -> Tensor:
        return trial.loss.sum(outputs, labels) / num_items_in_batch

    optimizer = trial.optimizer()
    arguments = TrainingArguments(
        str(trial.folder), max_steps=trial.steps, per_device_train_batch_size=trial.batch_size,
        gradient_accumulation_steps=trial.accumulation, dataloader_num_workers=trial.workers, save_strategy="steps",
        save_steps=trial.save_every, save_total_limit=2, learning_rate=optimizer.param_groups[0]["lr"],
        max_grad_norm=0.0 if trial.sgd else CLIP, debug="underflow_overflow", remove_unused_columns=False, **OPTIONS,
    )  # fmt: skip
    trainer = Trainer(
        Outputs(trial.model),
        arguments,
        data_collator=collate,
        train_dataset=trial.data,
        optimizers=(optimizer, torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)),
        compute_loss_func=per_target,
    )
    trainer.train(resume_from_checkpoint=newest(trial) is not None)
