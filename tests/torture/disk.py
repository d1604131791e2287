"""A disk that fills up or becomes read-only under a run, and run folders that vanish: a clear error, and nothing is lost."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from helpers.resumable_run import same
from torture.kill import RUNS_PER_KILL, STEP_SECONDS, check_newest, finish, last_line
from torture.tally import Tally
from torture.victims import Victim, call_before, start, train_prepared

from utils.loop import checkpoint
from utils.loop.log import Log
from utils.loop.run_folder import RunFolder

SIZE = 1 << 20  # bytes; a run needs some 200 kB
PAGE = 4096  # tmpfs hands out whole ones
CHECKPOINT_PAGES = 9  # about
CAUSES = (
    "No space left on device|Read-only file system|moved or removed|was removed|is (?:now )?a file|of another config|"
    "another run has trained in"
)
NEXT_MOVES = "start again|choose another|name a folder"


class Disk:
    """A small file system in memory, mounted in a namespace of its own: that takes no privileges, and the mount ends with
    the shell that made it, whatever happens to this process.

    Raises OSError where the system does not let one do that.
    """

    def __init__(self, place: Path):
        place.mkdir()
        line = ["unshare", "--user", "--map-root-user", "--mount", "sh"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        self.place, self.shell = place, subprocess.Popen(line, text=True, **pipes)
        self._tell(f"mount -t tmpfs -o size={SIZE} tmpfs {place}")
        self.root = Path(f"/proc/{self.shell.pid}/root{place}")

    def _tell(self, command: str) -> None:
        self.shell.stdin.write(f"{command} && echo done || echo failed\n")
        self.shell.stdin.flush()
        if (said := self.shell.stdout.readline()) != "done\n":
            raise OSError(f"{command}: {said.strip()}")

    def fill(self, left: int = 0) -> None:
        """Take all room but `left` pages."""
        with open(self.root / "ballast", "ab") as ballast:
            ballast.write(bytes(PAGE * max(0, os.statvfs(self.root).f_bfree - left)))

    def empty(self) -> None:
        (self.root / "ballast").unlink()

    def make_read_only(self) -> None:
        """By a second mount over the first, which could not be changed while files are open for writing."""
        self._tell(f"mount --bind {self.place} {self.place} && mount -o remount,bind,ro {self.place}")

    def make_writable(self) -> None:
        self._tell(f"umount --lazy {self.place}")

    def end(self) -> None:
        self.shell.kill()
        self.shell.communicate()


def disk(folder: Path, count: int, seed: int = 0) -> Tally:
    """Each trouble in turn, at a random instant of a run or of its restart: it stops and says why, and so does a restart
    within the trouble; one after it ends with the bits of an undisturbed run."""
    tally, draw = Tally("a disk full or read-only, a folder gone"), random.Random(seed)
    try:
        small = Disk(folder / "disk")
    except OSError as error:
        tally.untried = f"no file system can be mounted here: {error}"
        return tally
    expected = finish(folder / "undisturbed")
    finish(folder / "another", seed=4)
    attempts = 0
    while tally.count < count:
        attempts += 1
        if attempts > RUNS_PER_KILL * (count + 1):
            tally.wrong.append(
                f"{TROUBLES[tally.count % len(TROUBLES)].what}: it never befalls a run: nothing was tried"
            )
            break
        trouble = TROUBLES[tally.count % len(TROUBLES)](small, folder, f"try-{attempts}", draw)
        wrong = trouble.tried(expected, tally)
        tally.wrong += [f"try {attempts}, {trouble.what}: {each}" for each in wrong]
        shutil.rmtree(trouble.run.parent)
    small.end()
    return tally


class Trouble:
    """Begins while a run stands still, at a random instant, and ends after that run has."""

    what: str
    restart: tuple[int, ...] = (1,)  # exit codes that a restart within the trouble may have; none: it is not tried

    def __init__(self, small: Disk, folder: Path, name: str, draw: random.Random):
        self.small, self.draw = small, draw
        self.here, self.run, self.another = folder / name, small.root / name / "run", folder / "another" / "run"
        self.aside = self.run.with_name("aside")
        self.options = {"run": self.run, "workers": draw.choice((0, 0, 2))}
        self.here.mkdir()
        self.run.parent.mkdir()

    def begin(self) -> None: ...

    def harm(self) -> list[str]:
        """What a run has done within the trouble that it should not have."""
        return []

    def end(self) -> None: ...

    def survived(self) -> bool:
        """Whether a run that ended well did so in spite of the trouble."""
        return False

    def meet(self) -> tuple[Victim, int]:
        """Start a run that it befalls; (victim, exit code)."""
        victim = self._start()
        victim.wait_for(self.draw.randrange(5))
        time.sleep(self.draw.random() * 2 * STEP_SECONDS)
        victim.stand_still()
        self.begin()
        return victim, victim.end(signal.SIGCONT)

    def _start(self, prepare: Callable[[], None] = lambda: None) -> Victim:
        return start(partial(train_prepared, prepare, self.here, **self.options), self.here / "log")

    def tried(self, expected: dict, tally: Tally) -> list[str]:
        """What was wrong."""
        saved = []
        if self.draw.random() < 0.3:  # it befalls a restart
            earlier = self._start()
            earlier.wait_for(self.draw.randrange(1, 4))
            earlier.end(signal.SIGKILL)
            saved += earlier.steps
        victim, code = self.meet()
        saved += victim.steps
        if code == 0 and not self.survived():  # the run ended before the trouble came, or began after it
            self.end()
            return []
        tally.count += 1
        tally.notes[self.what] += 1
        wrong = (self._not_explained(code) if code else []) + self.harm()
        if victim.left_behind():
            wrong.append("a worker was left behind")
        if self.restart:
            again = self._start()
            code = again.end()
            saved += again.steps
            if code not in self.restart:
                wrong.append(f"a restart within it ended with {code}: {last_line(self.here)}")
            elif code:
                wrong += self._not_explained(code) + self.harm()
        self.end()
        check_newest(self.run, [] if self.what == Removed.what else saved, tally)
        outcome = finish(self.here, **self.options)
        if outcome is None:
            wrong.append(f"a restart after it failed: {last_line(self.here)}")
        elif not same(outcome, expected):
            wrong.append("other bits than the undisturbed run's")
        return wrong + _half_written(self.run)

    def _not_explained(self, code: int) -> list[str]:
        """A clear error says what it is about, why, and what to do."""
        said = last_line(self.here)
        clear = f"(RuntimeError|ValueError): (?=.*{re.escape(str(self.run))})(?=.*({CAUSES})).*({NEXT_MOVES})"
        return [] if code == 1 and re.match(clear, said) else [f"it ended with {code}: {said}"]


class Full(Trouble):
    what = "full at any instant"
    restart = (0, 1)  # what room is left may be enough

    def begin(self) -> None:
        self.small.fill(left=self.draw.randrange(CHECKPOINT_PAGES))

    def harm(self) -> list[str]:
        return _half_written(self.run)

    def end(self) -> None:
        self.small.empty()


class FullBefore(Full):
    """The disk is full just before a write of a certain kind: the run itself fills it."""

    place: tuple[type, str]  # which function writes

    def meet(self) -> tuple[Victim, int]:
        victim = self._start(partial(call_before, *self.place, self.draw.randrange(6), self.begin))
        return victim, victim.end()


class FullCheckpoint(FullBefore):
    what = "full in a checkpoint"
    place = checkpoint, "save"


class FullLog(FullBefore):
    what = "full in the log"
    place = Log, "add"

    def begin(self) -> None:
        """Also fills the log's last page with empty lines, but for a part of a record."""
        log = self.run / "log.jsonl"
        size = log.stat().st_size if log.exists() else 0
        with open(log, "a") as file:
            file.write("\n" * max(0, -size % PAGE - self.draw.randrange(100)))
        self.small.fill()


class FullMetadata(FullBefore):
    what = "full in run.json"
    place = RunFolder, "_write_metadata"

    def begin(self) -> None:
        self.small.fill()


class ReadOnly(Trouble):
    what = "read-only"

    def begin(self) -> None:
        self.small.make_read_only()

    def end(self) -> None:
        self.small.make_writable()


class Removed(Trouble):
    what = "folder removed"
    restart = (0,)

    def begin(self) -> None:
        shutil.rmtree(self.run, ignore_errors=True)  # it may not be there yet

    def harm(self) -> list[str]:
        return [f"{self.run} was made anew"] if self.run.exists() else []


class Moved(Trouble):
    what = "folder moved away"
    restart = ()

    def meet(self) -> tuple[Victim, int]:
        self.earlier = self._sessions()
        return super().meet()

    def begin(self) -> None:
        self.run.mkdir(exist_ok=True)  # it may not be there yet
        self.had_begun = self._sessions() > self.earlier  # one that finds no folder rightly makes a new one
        self.run.rename(self.aside)

    def _sessions(self) -> int:
        """How many processes have begun in the folder."""
        metadata = self.run / "run.json"
        return len(json.loads(metadata.read_text())["sessions"]) if metadata.exists() else 0

    def harm(self) -> list[str]:
        return [f"{self.run} was made anew"] if self.run.exists() else []

    def end(self) -> None:
        shutil.rmtree(self.run, ignore_errors=True)
        self.aside.rename(self.run)

    def survived(self) -> bool:
        """The run has continued in its folder, wherever that is now."""
        return self.had_begun and bool(checkpoint.find(self.aside / "checkpoints"))


class AnotherRun(Moved):
    what = "another run in its place"
    restart = (1,)

    def begin(self) -> None:
        super().begin()
        shutil.copytree(self.another, self.run)

    def harm(self) -> list[str]:
        before, now = (
            {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
            for folder in (self.another, self.run)
        )
        return [f"{name} of the other run was changed" for name in before | now if before.get(name) != now.get(name)]


class AFile(Moved):
    what = "a file in its place"
    restart = (1,)

    def begin(self) -> None:
        super().begin()
        self.run.write_text("mine")

    def harm(self) -> list[str]:
        return [] if self.run.read_text() == "mine" else ["the file was changed"]

    def end(self) -> None:
        self.run.unlink()
        super().end()


TROUBLES = (FullCheckpoint, FullLog, ReadOnly, Moved, FullMetadata, AnotherRun, Removed, Full, AFile)


def _half_written(run: Path) -> list[str]:
    left = [path.name for path in run.rglob("*") if "tmp" in path.name]
    return [f"half-written files were left behind: {', '.join(left)}"] if left else []
