"""The honest training loop. Read train.py first, then optim, guards, state and metrics."""

from utils.loop.config import Config
from utils.loop.train import Result, evaluate, train, train_step
