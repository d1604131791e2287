"""The honest training loop. Read train.py first."""

from utils.loop.config import Config
from utils.loop.train import Result, Scores, evaluate, micro_batches, train, train_step

__all__ = ["Config", "Result", "Scores", "evaluate", "micro_batches", "train", "train_step"]
