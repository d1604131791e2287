"""The loop that tutorials show, saved as tutorials save: each trial must be able to tell it from one that is careful."""

import torch
from torch.utils.data import DataLoader

from peers.job import Trial

USES = {"by hand": "one file: weights, optimizer, step"}


def newest(trial: Trial):
    return trial.folder / "checkpoint.pt"


def train(trial: Trial) -> None:
    optimizer, done = trial.optimizer(), 0
    loader = DataLoader(trial.data, trial.batch_size, shuffle=True, num_workers=trial.workers)
    if newest(trial).exists():
        saved = torch.load(newest(trial))
        trial.model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        done = saved["done"]
    while done < trial.micro_batches:
        for x, y in loader:
            (trial.loss(trial.model(x), y) / trial.accumulation).backward()
            done += 1
            if done % trial.accumulation == 0:
                optimizer.step()
                optimizer.zero_grad()
            if done % trial.save_every == 0:
                torch.save(
                    {"model": trial.model.state_dict(), "optimizer": optimizer.state_dict(), "done": done},
                    newest(trial),
                )
            if done == trial.micro_batches:
                break
