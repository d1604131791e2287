"""The honest training loop. Read train.py first, then optim, guards, state and metrics."""

from utils.loop.config import Config
from utils.loop.metrics import Scores
from utils.loop.result import Result
from utils.loop.train import evaluate, forward_backward, train, train_step
