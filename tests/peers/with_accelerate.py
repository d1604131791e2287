"""Accelerate: a loop of one's own with accumulate, backward, clip_grad_norm_, save_state."""

from itertools import islice
from pathlib import Path

from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration, ProjectConfiguration
from torch.utils.data import DataLoader

from peers.job import CLIP, Job, Loop, Trial

USES = {
    "Accelerate": "save_state, automatic names; seedable sampler, set_epoch, skip_first_batches; num_items_in_batch"
}


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


class Done:
    """How many steps are done: an object that Accelerate saves with the rest."""

    steps = 0

    def state_dict(self) -> dict:
        return {"steps": self.steps}

    def load_state_dict(self, saved: dict) -> None:
        self.steps = saved["steps"]


def newest(trial: Trial) -> Path | None:
    saved = (trial.folder / "checkpoints").glob("checkpoint_*")
    return max(saved, key=lambda path: int(path.name.split("_")[1]), default=None)


def train(trial: Trial) -> None:
    accelerator = Accelerator(
        cpu=True,
        gradient_accumulation_steps=trial.accumulation,
        dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True),
        project_config=ProjectConfiguration(trial.folder, automatic_checkpoint_naming=True, total_limit=3),
    )
    loader = DataLoader(trial.data, trial.batch_size, shuffle=True, num_workers=trial.workers)
    model, optimizer, loader = accelerator.prepare(trial.model, trial.optimizer(), loader)
    done = Done()
    accelerator.register_for_checkpointing(done)
    if newest(trial):
        accelerator.load_state()
        accelerator.project_configuration.iteration = int(newest(trial).name.split("_")[1]) + 1
    per_epoch = len(loader) // trial.accumulation
    while done.steps < trial.steps:
        epoch, step = divmod(done.steps, per_epoch)
        loader.set_epoch(epoch)
        stream = iter(accelerator.skip_first_batches(loader, step * trial.accumulation))
        while done.steps < trial.steps and (window := list(islice(stream, trial.accumulation))):
            targets = sum((y != -100).sum() for _, y in window)
            for x, y in window:
                loss = trial.loss.sum(model(x), y) * trial.accumulation / targets
                accelerator.backward(loss)  # divides by accumulation
            if not trial.sgd:
                accelerator.clip_grad_norm_(model.parameters(), CLIP)
            optimizer.step()
            optimizer.zero_grad()
            done.steps += 1
            if done.steps % trial.save_every == 0:
                accelerator.save_state()
