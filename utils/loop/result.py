"""What a run returns."""

from utils.loop.log import Log
from utils.loop.state import State


class Result:
    """What `train` returns. The model itself was trained in place.

    history: log and validation records, in order; what is under "measured" differs from run to run.
    ema: the averaged model, or None. steps: made. skipped: of these, with a blocked update. best: {"step", "val_loss"} of
    the best validation, or None. best_weights: the state_dict that was validated then; None if it is in the run folder.
    """

    def __init__(self, log: Log, state: State):
        self._log = log  # a resumed run's earlier records are read when they are first asked for
        self.model, self.ema = state.gathered(state.model), state.gathered(state.ema and state.evaluated)
        self.steps, self.skipped, self.stopped_early = state.step, state.skipped, state.stopped_early
        self.best, self.best_weights = state.best, state.best_weights

    @property
    def history(self) -> list[dict]:
        return self._log.records
