"""Ignite: create_supervised_trainer, and an engine with an update function of one's own that clips."""

import torch
from ignite.engine import Engine, Events, create_supervised_trainer
from ignite.handlers import EMAHandler, TerminateOnNan

from peers.job import CLIP, DECAY, Job, Loop


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
