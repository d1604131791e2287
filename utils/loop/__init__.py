"""The honest training loop. Read training.py first, then state, guards and metrics."""

from utils.loop.config import Config
from utils.loop.metrics import Scores
from utils.loop.training import Result, evaluate, forward_backward, train, train_step
