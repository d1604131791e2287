"""Any training loop in front of the detectors in loop/: `adapt` makes it callable for them, `examine` runs them all.

README.md shows both in one screen.
"""

import contextlib
import inspect
import io
import traceback
from collections.abc import Callable
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from types import ModuleType

from utils.checks import loop as detectors_of_loops
from utils.checks import toy_problem
from utils.checks.toy_problem import NotJudged, Train, needs, plain_config
from utils.device import own_random_streams
from utils.loop.config import Config
from utils.loop.metrics import cross_entropy_sum, or_one, sum_and_count

HERE = Path(__file__).parent
OBJECTS = ("model", "data", "val", "run", "loss", "peak_flops")
UNSEEN = {"log_every"}  # a loop without this setting has no records, or one of each step


def adapt(loop: Callable) -> Train:
    """`loop` as the `train` that a detector calls. The names of its parameters say what it can do.

    model and data: a module to train in place, and a dataset of (x, y). Of the rest, those that the loop has:
    val: a dataset to validate on. run: a folder for its checkpoints, from which the same call goes on.
    loss: (outputs, targets) → the mean over the targets; without this parameter the loop uses cross-entropy.
    peak_flops: peak FLOP/s of the device, for the MFU in its records; 0: none is asked for.
    steps, batch_size, lr, seed, clip, …: any setting of utils.loop.Config, with the meaning that it has there.

    A detector that needs another parameter raises NotJudged. Raises ValueError for a name that no detector knows.
    """
    names = set(inspect.signature(loop).parameters)
    unknown = sorted(names - {*OBJECTS, *(field.name for field in fields(Config))})
    if unknown or not {"model", "data"} <= names:
        wrong = f"takes {', '.join(unknown)}" if unknown else "does not take model and data"
        raise ValueError(
            f"{loop.__name__} {wrong}: its parameters are model, data, and any of {', '.join(OBJECTS[2:])} and the "
            "settings of utils.loop.Config"
        )

    def train(model, data, val=None, config=None, *, run=None, loss=None, peak_flops=0.0):
        settings = asdict(config or Config())
        plain = asdict(plain_config())
        asked = {name for name, value in settings.items() if value != plain[name]} - UNSEEN
        asked |= {name for name, value in (("val", val), ("run", run), ("loss", loss)) if value is not None}
        asked |= {"peak_flops"} if peak_flops else set()
        needs(train, *sorted(asked))
        given = settings | {"model": model, "data": data, "val": val, "run": run, "peak_flops": peak_flops}
        given["loss"] = _mean(loss or cross_entropy_sum)
        return loop(**{name: given[name] for name in names})

    train.parameters = names
    train.file = getattr(getattr(loop, "__code__", None), "co_filename", None)
    return train


def _mean(loss: Callable) -> Callable:
    def mean(outputs, targets):
        total, count = sum_and_count(loss, outputs, targets)
        return total / or_one(count)

    return mean


def examine(train: Train) -> dict[str, str]:
    """The verdict of each detector on `train`, by its name.

    "passes"; "ALARM: …", what the detector saw and what to do; "not judged: …", what it lacks; or "RAISED: …", what the
    loop raised and in which line. Each detector has its own verdict, whatever becomes of the others.
    """
    return {name: _verdict(detector, train) for name, detector in detectors().items()}


def _verdict(detector: Callable[[Train], None], train: Train) -> str:
    with own_random_streams(toy_problem.SEED), contextlib.redirect_stdout(io.StringIO()):
        try:
            detector(train)
        except NotJudged as error:
            return str(error)
        except Exception as error:
            in_detector = Path(traceback.extract_tb(error.__traceback__)[-1].filename).is_relative_to(HERE)
            if isinstance(error, AssertionError) and in_detector:
                return f"ALARM: {error}"
            return f"RAISED: {type(error).__name__}: {error} ({_place(error, train)})"
    return "passes"


def _place(error: Exception, train: Train) -> str:
    """The innermost line of the loop's own file that led to the error, or else the line that raised it."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename == getattr(train, "file", None)]
    innermost = (own or frames)[-1]
    return f"in {innermost.name}, line {innermost.lineno}: {innermost.line}".rstrip(": ")


def detectors() -> dict[str, Callable[[Train], None]]:
    """The detectors in loop/, by name; that of resuming once for each state that can be lost."""
    found = public_functions(detectors_of_loops)
    resumes = found.pop("resumes_exactly")
    return found | {f"resumes_exactly: {what}": partial(resumes, what=what) for what in detectors_of_loops.RESUMED}


def public_functions(module: ModuleType) -> dict[str, Callable]:
    """The functions of a module by name, without those that begin with an underscore: what it defines, or, if it is a
    package, what it shows of its own modules."""
    functions = inspect.getmembers(module, inspect.isfunction)
    within = f"{module.__name__}."
    return {name: f for name, f in functions if f"{f.__module__}.".startswith(within) and name[0] != "_"}
