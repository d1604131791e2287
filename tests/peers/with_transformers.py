"""transformers' Trainer with its defaults (it clips, schedules and logs), on batches that are made elsewhere."""

import tempfile
from collections.abc import Iterable

from torch import Tensor, nn
from torch.utils.data import IterableDataset
from transformers import Trainer, TrainingArguments

from peers.job import CLIP, LR, Job, Loop


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
            folder, max_steps=job.steps, learning_rate=LR, max_grad_norm=CLIP, lr_scheduler_type="constant", use_cpu=True,
            save_strategy="no", report_to="none", disable_tqdm=True, logging_steps=50,
        )  # fmt: skip
        OwnBatches(Model(job), arguments, train_dataset=Batches(job), optimizers=(job.optimizer(), None)).train()


LOOPS = {"transformers Trainer": Loop(run, ("clip",), "schedule, callbacks, a log every 50 steps, device, precision")}
