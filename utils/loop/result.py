"""The result of a run."""

from utils.loop.log import Log
from utils.loop.state import State


class Result:
    """The result of `train`, which trains the model in place.

    history: log and validation records, in order; only values under "measured" differ from run to run. ema: the averaged
    model, or None. steps: the number made. skipped: how many of these had a blocked update. best: {"step", "val_loss"} of
    the best validation, or None. best_weights: the state_dict validated then; None if it is in the run folder.
    """

    def __init__(self, log: Log, state: State):
        self._log = log  # reads a resumed run's earlier records at the first access
        self.model, self.ema = state.gathered(state.model), state.gathered(state.ema and state.evaluated)
        self.steps, self.skipped, self.stopped_early = state.step, int(state.guard.blocked), state.stopped_early
        self.best, self.best_weights = state.best, state.best_weights

    @property
    def history(self) -> list[dict]:
        return self._log.records
