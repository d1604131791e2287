"""`train` of this course."""

from peers.job import CLIP, LR, Trial
from utils.loop import checkpoint
from utils.loop import train as train_honestly
from utils.loop.config import Config

USES = {"train": "run=folder"}


def newest(trial: Trial):
    return checkpoint.find(trial.folder / "checkpoints")[-1]


def train(trial: Trial) -> None:
    config = Config(
        steps=trial.steps, batch_size=trial.batch_size * trial.accumulation, accumulation=trial.accumulation,
        save_every=trial.save_every, workers=trial.workers, device="cpu",
        **{"optimizer": "sgd", "momentum": 0.0, "lr": 1.0} if trial.sgd else {"lr": LR, "clip": CLIP},
    )  # fmt: skip
    train_honestly(trial.model, trial.data, None, config, run=trial.folder, loss=trial.loss.sum)
