"""Ignite: create_supervised_trainer, and an engine with an update function of one's own that clips."""

from pathlib import Path

import torch
from ignite.engine import Engine, Events, create_supervised_trainer
from ignite.handlers import Checkpoint, EMAHandler, ModelCheckpoint, TerminateOnNan
from torch.utils.data import DataLoader

from peers.job import CLIP, DECAY, Job, Loop, Trial

USES = {"Ignite": "deterministic trainer; ModelCheckpoint of 2; TerminateOnNan"}


def run_supervised(job: Job) -> None:
    trainer = create_supervised_trainer(job.model, job.optimizer(), job.loss)
    trainer.run(job.batches(), max_epochs=1, epoch_length=job.steps)


def run_engine(job: Job) -> None:
    optimizer = job.optimizer()

    def update(engine: Engine, batch) -> float:
        x, y = batch
        optimizer.zero_grad()
        loss = job.loss(job.model(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(job.model.parameters(), CLIP)
        optimizer.step()
        return loss.item()

    trainer = Engine(update)
    EMAHandler(job.model, momentum=1 - DECAY).attach(trainer)
    trainer.add_event_handler(Events.ITERATION_COMPLETED, TerminateOnNan())
    trainer.run(job.batches(), max_epochs=1, epoch_length=job.steps)


LOOPS = {
    "Ignite, supervised trainer": Loop(run_supervised, has="events, the loss's value"),
    "Ignite, engine": Loop(run_engine, ("clip", "ema"), "events, the loss's value, stops at NaN"),
}


def newest(trial: Trial) -> Path | None:
    return max(trial.folder.glob("*.pt"), key=lambda path: int(path.stem.split("_")[-1]), default=None)


def train(trial: Trial) -> None:
    optimizer = trial.optimizer()
    loader = DataLoader(trial.data, trial.batch_size, shuffle=True, num_workers=trial.workers)
    trainer = create_supervised_trainer(
        trial.model, optimizer, trial.loss, deterministic=True, gradient_accumulation_steps=trial.accumulation
    )
    saved = {"model": trial.model, "optimizer": optimizer, "trainer": trainer}
    saver = ModelCheckpoint(trial.folder, "run", n_saved=2, require_empty=False)
    trainer.add_event_handler(Events.ITERATION_COMPLETED, TerminateOnNan())
    trainer.add_event_handler(Events.ITERATION_COMPLETED(every=trial.save_every), saver, saved)
    if newest(trial):
        Checkpoint.load_objects(saved, torch.load(newest(trial), weights_only=False))
    trainer.run(loader, max_iters=trial.micro_batches)
