"""SIGTERM, SIGINT, preemption twice in a row, two runs on one folder, $TMPDIR elsewhere: nothing is lost, the bits stay."""

import json
import os
import random
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from helpers.resumable_run import same
from torture.kill import RUNS_PER_KILL, STEP_SECONDS, check_newest, finish, last_line
from torture.tally import Tally
from torture.victims import STEPS, Victim, call_before, lines_of_a_save, start, train_prepared

from utils.loop import checkpoint
from utils.loop import training as loop
from utils.loop.run_folder import RunFolder
from utils.loop.signals import SIGTERM_EXIT

LOGGED = {"log_every": 1}  # so that the log tells each step made
REFUSED = "RuntimeError: another run "
VALIDATIONS = 5


def _nothing() -> None: ...


class Try:
    """One run in a folder of its own, to be disturbed."""

    def __init__(self, here: Path, lines: int, draw: random.Random):
        self.here, self.run, self.lines, self.draw = here, here / "run", lines, draw
        self.options = LOGGED | {"workers": draw.choice((0, 0, 2))}
        self.saved: list[int] = []  # steps whose checkpoint was said to be saved
        self.wrong: list[str] = []
        here.mkdir()

    def start(self, prepare: Callable[[], None] = _nothing, log: str = "log", **instant) -> Victim:
        self.legs = self.legs_begun()
        return start(partial(train_prepared, prepare, self.here, **self.options), self.here / log, **instant)

    def start_and_wait(self, prepare: Callable[[], None] = _nothing) -> Victim:
        """Until a random instant."""
        victim = self.start(prepare)
        victim.wait_for(self.draw.randrange(5))
        time.sleep(self.draw.random() * 2 * STEP_SECONDS)
        return victim

    def ended(self, victim: Victim, number: int = 0, alone: bool = True) -> int:
        """Send it, or its workers too, this signal; its exit status."""
        if not alone:
            os.killpg(victim.pid, number)
        try:
            code = victim.end(number if alone else 0)
        except RuntimeError as hangs:
            self.wrong.append(str(hangs))
            code = -signal.SIGKILL
        if victim.left_behind():
            self.wrong.append("a worker was left behind")
        self.saved += victim.steps
        return code

    def steps_logged(self) -> int:
        """The last step that is whole in the log."""
        with suppress(FileNotFoundError):
            lines = (self.run / "log.jsonl").read_text().splitlines(keepends=True)
            return max((json.loads(line)["step"] for line in lines if line.endswith("\n")), default=0)
        return 0

    def legs_begun(self) -> int:
        file = self.run / "run.json"
        return len(json.loads(file.read_text())["sessions"]) if file.exists() else 0

    def steps_saved(self) -> int:
        newest = checkpoint.find(self.run / "checkpoints")
        return int(newest[-1].name.split("-")[1]) if newest else 0

    def must_have_saved(self, code: int, made: int | None = None) -> bool:
        """After SIGTERM, with so many steps logged then."""
        if code == -signal.SIGTERM and self.legs_begun() == self.legs:
            return True  # before the loop listened: as any process ends
        if code != SIGTERM_EXIT:
            self.wrong.append(f"it ended with {code}: {last_line(self.here)}")
        elif self.steps_saved() != self.steps_logged():
            self.wrong.append(f"{self.steps_logged()} steps were made and {self.steps_saved()} saved")
        elif (
            made is not None and self.steps_saved() > made + 2
        ):  # the one under way, or, if it is all but over, the next
            self.wrong.append(f"told after step {made}, it went on to step {self.steps_saved()}")
        return True


def signals(folder: Path, count: int, seed: int = 0) -> Tally:
    """Each trouble in turn at a random instant; the last restart ends with the bits of an undisturbed run."""
    tally, draw = Tally("SIGTERM, SIGINT, two runs, $TMPDIR"), random.Random(seed)
    lines = lines_of_a_save(folder / "measured")
    expected = finish(folder / "undisturbed", **LOGGED)
    attempts = 0
    while tally.count < count:
        attempts += 1
        what = list(TROUBLES)[tally.count % len(TROUBLES)]
        if attempts > RUNS_PER_KILL * (count + 1):
            tally.wrong.append(f"{what}: it never befalls a run: nothing was tried")
            break
        one = Try(folder / f"try-{attempts}", lines, draw)
        counted = TROUBLES[what](one)
        tally.count += counted
        tally.notes[what] += counted
        check_newest(one.run, one.saved, tally)
        outcome = finish(one.here, **one.options)
        if outcome is None:
            one.wrong.append(f"the last restart failed: {last_line(one.here)}")
        elif not same(outcome, expected):
            one.wrong.append("other bits than the undisturbed run's")
        if left := [path.name for path in one.run.rglob(".tmp-*")]:
            one.wrong.append(f"half-written files are left behind: {', '.join(left)}")
        tally.wrong += [f"try {attempts}, {what}: {each}" for each in one.wrong]
    return tally


def _sigterm(one: Try) -> bool:
    """At any instant; every second time its workers get it too, as when a scheduler ends a whole job."""
    victim = one.start_and_wait()
    victim.stand_still()
    made = one.steps_logged()
    one.draw.choice((os.kill, os.killpg))(victim.pid, signal.SIGTERM)
    code = one.ended(victim, signal.SIGCONT, alone=False)
    return code != 0 and one.must_have_saved(code, made)


def _sigterm_within(one: Try) -> bool:
    """In a save, or just before a validation, the one after the last step included."""
    if one.draw.random() < 0.5:
        asks = partial(
            call_before, loop, "score", one.draw.randrange(VALIDATIONS), partial(_send_myself, signal.SIGTERM)
        )
        return one.must_have_saved(one.ended(one.start(asks)))
    instant = (one.draw.randrange(12), one.draw.randrange(one.lines), signal.SIGTERM)
    code = one.ended(one.start(signal_in_save=instant))
    return code != 0 and one.must_have_saved(code)


def _sigterm_twice(one: Try) -> bool:
    victim = one.start_and_wait()
    os.kill(victim.pid, signal.SIGTERM)
    time.sleep(one.draw.random() * STEP_SECONDS)
    code = one.ended(victim, signal.SIGTERM)
    if code == -signal.SIGTERM:
        code = SIGTERM_EXIT  # the second met a process that had saved, and no longer listened
    return code != 0 and one.must_have_saved(code)


def _preempted_twice(one: Try) -> bool:
    """The second comes before the restart has made a step, about."""
    victim = one.start_and_wait()
    code = one.ended(victim, signal.SIGTERM)
    if code == 0:
        return False
    one.must_have_saved(code)
    before = one.steps_saved()
    victim = one.start()
    time.sleep(one.draw.random() * 2 * STEP_SECONDS)
    code = one.ended(victim, signal.SIGTERM)
    if one.steps_saved() < before:
        one.wrong.append(f"of {before} steps saved {one.steps_saved()} are left")
    return code != 0 and one.must_have_saved(code)


def _sigint(one: Try) -> bool:
    """Ctrl-C, in a save or anywhere, sometimes again while it cleans up: a terminal sends it to the workers too."""
    if one.draw.random() < 0.5:
        instant = (one.draw.randrange(12), one.draw.randrange(one.lines), signal.SIGINT)
        code = one.ended(one.start(signal_in_save=instant))
    else:
        victim = one.start_and_wait()
        if one.draw.random() < 0.5:
            os.killpg(victim.pid, signal.SIGINT)
            time.sleep(one.draw.random() * STEP_SECONDS)
        code = one.ended(victim, signal.SIGINT, alone=False)
    if code == 0:
        return False
    if code not in (1, -signal.SIGINT) or (code == 1 and "KeyboardInterrupt" not in (one.here / "log").read_text()):
        one.wrong.append(f"it ended with {code}: {last_line(one.here)}")
    return True


def _a_second_run(one: Try) -> bool:
    """While the first stands still and holds the folder, the second is refused and changes nothing; when the first is killed
    another may begin at once."""
    victim = one.start_and_wait()
    victim.stand_still()
    if not (one.run / "run.json").exists() or one.steps_logged() == STEPS:
        one.ended(victim, signal.SIGCONT)
        return False
    before = _bytes_in(one.run)
    code = one.ended(one.start(log="second"))
    said = (one.here / "second").read_text()
    if code != 1 or REFUSED not in said:
        one.wrong.append(f"a second run ended with {code}: {said}")
    if _bytes_in(one.run) != before:
        one.wrong.append("a second run changed something")
    if one.draw.random() < 0.5:
        one.ended(victim, signal.SIGCONT)
    else:
        victim.end(signal.SIGKILL)
        one.saved += victim.steps
    return True


def _another_between(one: Try) -> bool:
    """While one has looked at the folder, and has not yet begun in it, another trains there and is killed."""
    stop = partial(_send_myself, signal.SIGSTOP)
    late = one.start(partial(call_before, RunFolder, "open_for_writing", 0, stop), log="second")
    os.waitid(os.P_PID, late.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    victim = one.start_and_wait()
    if one.ended(victim, signal.SIGKILL) == 0 or not (one.run / "run.json").exists():
        one.ended(late, signal.SIGKILL)
        return False
    before = _bytes_in(one.run)
    code = one.ended(late, signal.SIGCONT)
    said = (one.here / "second").read_text()
    if code != 1 or REFUSED not in said or _bytes_in(one.run) != before:
        one.wrong.append(f"it ended with {code} and has changed {_bytes_in(one.run) != before}: {said}")
    return True


def _two_at_once(one: Try) -> bool:
    victims = [one.start(log=name) for name in ("log", "second")]
    codes = sorted(one.ended(victim) for victim in victims)
    said = (one.here / "log").read_text() + (one.here / "second").read_text()
    if codes != [0, 1] or REFUSED not in said:
        one.wrong.append(f"two at once ended with {codes}: {said}")
    return True


def _another_tmpdir(one: Try) -> bool:
    """On another file system; it stays empty, however the run ends: only what is killed between making the folder for its
    workers' sockets and starting the first of them has nobody to remove it. Every restart has the usual one."""
    if os.stat("/dev/shm").st_dev == os.stat(one.here).st_dev:
        raise RuntimeError(f"/dev/shm is the file system of {one.here}: set TMPDIR to a disk")
    one.options["workers"] = 2
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="torture-") as elsewhere:
        victim = one.start_and_wait(partial(_set_tmpdir, elsewhere))
        used = bool(os.listdir(elsewhere))  # by its workers, if they have begun
        number = one.draw.choice((0, signal.SIGTERM, signal.SIGINT, signal.SIGKILL))
        if number == signal.SIGKILL:
            victim.stand_still()
        had_workers = victim.has_others()
        code = one.ended(victim, number)
        if code not in (0, -number, SIGTERM_EXIT) and number != signal.SIGINT:
            one.wrong.append(f"it ended with {code}: {last_line(one.here)}")
        left = os.listdir(elsewhere)
        if number == signal.SIGKILL and not had_workers and len(left) == 1:
            Path(elsewhere, left.pop()).rmdir()  # an empty folder, or this fails
        if left:
            one.wrong.append(f"left in $TMPDIR: {', '.join(left)}")
    return used


TROUBLES = {
    "SIGTERM": _sigterm,
    "in a save or validation": _sigterm_within,
    "twice": _sigterm_twice,
    "preempted twice": _preempted_twice,
    "SIGINT": _sigint,
    "second runs": _a_second_run,
    "between look and start": _another_between,
    "two at once": _two_at_once,
    "$TMPDIR elsewhere": _another_tmpdir,
}


def _send_myself(number: int) -> None:
    os.kill(os.getpid(), number)


def _set_tmpdir(path: str) -> None:
    os.environ["TMPDIR"], tempfile.tempdir = path, None


def _bytes_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
