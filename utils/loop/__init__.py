"""The honest training loop. Read train.py first, then optim, guards, state and metrics."""

from utils.loop.config import Config
from utils.loop.result import Result
from utils.loop.train import Scores, evaluate, forward_backward, train, train_step
