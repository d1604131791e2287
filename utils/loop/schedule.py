"""A learning rate schedule of the caller's own: a function of the step, asked for every step before the first."""

import hashlib
import math
from array import array
from collections.abc import Callable

from utils.device import own_random_streams
from utils.loop.config import Config

Schedule = Callable[[int, int], float]  # (step from 0, steps of the run) → the rate as a fraction of the peak

BY_CONFIG = "by the config"
REPLACED = ("schedule", "warmup", "final_lr")  # fields of Config


def factors_of(schedule: Schedule | None, config: Config) -> array | None:
    """schedule(step, config.steps) of each step: the run reads these, so that it is the same however often it stops.

    None for no schedule: the config decides. No random stream moves.

    Raises ValueError unless all are finite, at least 0, not all 0, and the same at a second call, and if the config has a
    schedule, too.
    """
    if schedule is None:
        return None
    if not callable(schedule):
        raise ValueError(
            f"schedule is {schedule!r}: pass a function of (step, steps), or name one of the config's, "
            "Config(schedule='cosine')"
        )
    for name in REPLACED:
        if (value := getattr(config, name)) != getattr(Config, name):
            raise ValueError(
                f"schedule is a function, which replaces {', '.join(REPLACED)} of the config, and {name} is {value!r} "
                "there: leave it out. A function may begin with a warm-up, here of 100 steps; pass schedule=warmed_up:\n"
                "    def warmed_up(step, steps):\n"
                "        return min(1.0, (step + 1) / 100) * schedule(step, steps)"
            )
    with own_random_streams():
        factors = array("d", (_factor(schedule, step, config.steps) for step in range(config.steps)))
        for step in reversed(range(config.steps)):
            again = _factor(schedule, step, config.steps)
            if again != factors[step]:
                raise ValueError(
                    f"schedule({step}, {config.steps}) is {factors[step]} at one call and {again} at another: it must "
                    "depend on the step and the steps alone, since a resumed run asks again"
                )
    if not any(factors):
        raise ValueError(f"schedule is 0 at each of the {config.steps} steps: nothing would train")
    return factors


def _factor(schedule: Schedule, step: int, steps: int) -> float:
    try:
        value = schedule(step, steps)
    except Exception as error:
        raise ValueError(
            f"schedule({step}, {steps}) raises {type(error).__name__}: {error}. It is called with the step, from 0 to "
            f"{steps - 1}, and the number of steps"
        ) from error
    try:
        factor = math.nan if isinstance(value, str | bytes) else float(value)
    except (TypeError, ValueError, RuntimeError):  # a complex number, None, several numbers
        factor = math.nan
    if not 0 <= factor < math.inf:
        raise ValueError(
            f"schedule({step}, {steps}) is {value!r}: it must be a finite number, at least 0, by which the peak rate is "
            "multiplied at this step"
        )
    return factor


def name_of_schedule(factors: array | None, steps: int) -> str:
    """What tells schedules apart by their first `steps` values."""
    return BY_CONFIG if factors is None else hashlib.sha256(factors[:steps].tobytes()).hexdigest()[:16]
