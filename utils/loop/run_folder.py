"""A run's folder: its log, its checkpoints, and what must be known to judge or repeat it."""

import fcntl
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

import torch

from utils.atomic_write import write_text
from utils.device import fingerprint
from utils.distributed import sharded_checkpoint
from utils.distributed.ranks import SINGLE_PROCESS, Ranks
from utils.loop import checkpoint
from utils.loop.config import Config, differences
from utils.loop.inputs import DATA, SHUFFLED, changes
from utils.loop.log import Log
from utils.loop.schedule import BY_CONFIG, name_of_schedule
from utils.loop.state import State

# Of a fingerprint: what a run's bits depend on.
BITS = ("torch", "device", "hardware", "cpu_capability", "threads", "ranks", "parallel", "deterministic")


# Folders in which this process trains: a record lock keeps out other processes only.
_locked_by_this_process: set[Path] = set()


class RunFolder:
    """`path`/run.json, log.jsonl and checkpoints/ of one run: one config, one data set size, one set of labels.

    Opening it reads only; nothing is written before `open_for_writing`. A context manager: from there to its end the
    folder belongs to this process alone. Of several ranks all read it, and rank 0 writes.

    Raises ValueError if the folder holds the run of another config, of other data or labels.
    """

    def __init__(
        self,
        path: str | Path,
        config: Config,
        examples: int | str,
        labels: dict | None = None,
        ranks: Ranks = SINGLE_PROCESS,
        dollars_per_hour: float = 0.0,
    ):
        self.path = _folder(path)
        self.config = config
        self.ranks = ranks
        self.dollars_per_hour = dollars_per_hour
        self.lock: TextIO | None = None
        self.data = {"training examples": examples, **_check_labels(labels)}
        self.handle: int | None = None  # of the folder, from when it is opened for writing
        self.log = Log(self.path / "log.jsonl", ranks, self.writing)
        self.found: str | None = None  # the content of run.json
        self.metadata = self._read_metadata()

    def __enter__(self) -> "RunFolder":
        return self

    def __exit__(self, *error) -> None:
        if self.lock is not None:
            self.lock.close()
            _locked_by_this_process.discard(self.path.resolve())
            self.log.path = self.path / "log.jsonl"
            os.close(self.handle)
            self.handle = None

    @property
    def open_path(self) -> Path:
        """The folder itself, also if it is renamed while the run writes to it: Linux finds it by its handle."""
        by_handle = Path(f"/proc/self/fd/{self.handle}")
        return by_handle if self.handle is not None and by_handle.exists() else self.path

    @property
    def checkpoints(self) -> Path:
        return self.open_path / "checkpoints"

    def resume(self, state: State, inputs: dict[str, str]) -> None:
        """Load the newest complete checkpoint into `state`, if there is one, and open the folder for writing.

        inputs: what the run is given besides its config; says so where it was something else before.

        Raises ValueError if the optimizer or the schedule was another, whose settings a checkpoint holds, or if the order of
        the examples was. And if the run has finished with another model, loss or code of one of them: nothing is trained,
        and its result would pass for that of the new.
        """
        saved = self.load_newest()
        finished = False
        if saved:
            progress = saved["progress"]
            if progress["best"] and not state.additive:
                self._require_same_batches_of_validation()
            finished = progress["step"] == self.config.steps or progress["stopped_early"]
            finished = finished and not progress.get("validation_due")
            if finished:
                checkpoint.require_same_tensors(saved["model"], state.model.state_dict())  # says more than what follows
            steps = self.metadata["config"]["steps"]  # of a run that gets more, these are to have the same rates
            self._compare(inputs | {"schedule": name_of_schedule(state.factors, steps)}, finished)
            state.load_state_dict(saved)
        self.open_for_writing(state.step, state.device, inputs, finished)
        if self.ranks.first:
            self._prune_best(state.best)  # the process before may have been killed when it was about to
        self.log.resume(state.step)

    def _require_same_batches_of_validation(self) -> None:
        """Of a loss that compares the examples of a batch: in batches of another size none is better or worse."""
        before, now = self.metadata["config"].get("val_batch_size", Config.val_batch_size), self.config.val_batch_size
        if before != now:
            raise ValueError(
                f"{self.path} holds a run of another config (val_batch_size: {before} → {now}), whose losses depend on the "
                "size of a batch, since the loss of one is not the sum of its examples': continue with the old value"
            )

    def _compare(self, inputs: dict[str, str], finished: bool) -> None:
        sessions = self.metadata["sessions"]
        saving = [session for session in sessions if "to_step" in session] or sessions
        before = saving[-1].get("inputs", {}) if saving else {}
        if before:
            before = {"order": SHUFFLED} | before  # older versions knew no other
        if sessions:  # the run's steps are as the newest session left them, saved or not, and so is its schedule
            before = before | {"schedule": sessions[-1].get("inputs", {}).get("schedule", BY_CONFIG)}
        changed = changes(before, inputs)
        if any(change.startswith("schedule") for change in changed):
            raise ValueError(
                f"{self.path} holds a run of another schedule ({'; '.join(changed)}): choose another folder, or continue "
                "with the old one. It may get more steps if the values at those that it had stay the same"
            )
        for kind in ("optimizer", "order"):
            if any(change.startswith(kind) for change in changed):
                changed.sort(key=lambda change: not change.startswith(kind))  # these first
                raise ValueError(
                    f"{self.path} holds a run of another {kind} ({'; '.join(changed)}): choose another folder, or continue "
                    "with the old one"
                )
        if finished and not all(change.startswith(DATA) for change in changed):
            raise ValueError(
                f"{self.path} holds a finished run, of something else ({'; '.join(changed)}): nothing would be trained, and "
                "its result is not that of what you give it now. Choose another folder, or give it what it was given"
            )
        if changed and finished and self.ranks.first:
            print(
                f"{self.path}: what the run is given has changed since it was last started ({'; '.join(changed)}): it had "
                "finished, and its result is that of the old; for a run on the new choose another folder"
            )
        elif changed and self.ranks.first:
            print(
                f"{self.path}: what the run is given has changed since it was last started ({'; '.join(changed)}): it goes "
                "on with the new, and is no longer one run; for a run of its own choose another folder"
            )

    def _read_metadata(self) -> dict:
        file = self.path / "run.json"
        try:
            self.found = _text(file)
            if not (self.found or "").strip():  # none, or one that a power cut has emptied: the checkpoints tell
                return {"run": None, "config": asdict(self.config), "data": self.data, "sessions": []}
            metadata = json.loads(self.found)
            changed = differences(metadata["config"], self.config)
            before = metadata["data"]
            changed += [
                f"{name}: {before.get(name)} → {self.data.get(name)}"
                for name in {**self.data, **before}
                if before.get(name) != self.data.get(name)
            ]
            if not isinstance(metadata["run"], str):
                raise TypeError(f"run is {metadata['run']!r}")
            for session in metadata["sessions"]:
                session["fingerprint"]["torch"]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{file} is not the metadata of a run ({error!r}): choose another folder") from error
        if changed:
            raise ValueError(
                f"{self.path} holds a run of another config ({'; '.join(changed)}): choose another folder, or continue "
                "with the old values"
            )
        return metadata

    def load_newest(self) -> dict | None:
        """The newest complete checkpoint; None if nothing was saved yet. Broken ones are named and skipped.

        A best one of an older version counts, too: it holds a full state. Rank 0 says which it is, so that all ranks load
        the same. Where run.json is lost, its run is the folder's.

        Raises ValueError if it is of another run or config.
        """
        if self.ranks.world == 1:
            saved = checkpoint.load_newest(self.checkpoints, kind=None, needs="optimizer")
        else:
            newest = self.ranks.of_first(
                checkpoint.newest_whole(self.checkpoints, None, needs="optimizer") if self.ranks.first else None
            )
            saved = checkpoint.load(newest) if newest else None
        if saved:
            if changed := differences(saved["config"], self.config):
                raise ValueError(
                    f"the newest checkpoint in {self.checkpoints} is of another config ({'; '.join(changed)}): choose "
                    "another folder, or continue with the old values"
                )
            run = self.metadata["run"] or saved.get("run")
            if saved.get("run") != run:
                raise ValueError(
                    f"the newest checkpoint in {self.checkpoints} is of another run ({saved.get('run')}, and this is "
                    f"{run}): was it copied there? Take it out to go on from the one before it"
                )
            self.metadata["run"] = run
        return saved

    def open_for_writing(
        self, step: int, device: torch.device, inputs: dict[str, str] | None = None, finished: bool = False
    ) -> None:
        """Lock the folder, and note that a process starts here at `step`, on which machine; say so if that changes the bits.

        Raises RuntimeError if another process is training in this folder, or has since it was read, or if it cannot be
        written to.
        """
        if not self.ranks.first:
            return
        try:
            if self.found is None:
                self.path.mkdir(parents=True, exist_ok=True)
            self.handle = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
            if self.path.resolve() not in _locked_by_this_process:
                self.lock = open(self.path / ".lock", "w")  # noqa: SIM115  (held until the end of the run)
        except (FileExistsError, NotADirectoryError) as error:
            raise RuntimeError(f"{self.path} is now a file: restore the folder or choose another") from error
        except OSError as error:
            if self.found is not None and not self.path.exists():
                raise RuntimeError(
                    f"{self.path} was moved or removed since it was read: restore it, then start again"
                ) from error
            raise RuntimeError(
                f"the run folder cannot be written to ({error}): make it writable, or choose another one"
            ) from error
        if not (self.lock and _try_lock(self.lock)):
            raise RuntimeError(f"another run is training in {self.path}: wait for it, or choose another folder")
        if _text(self.path / "run.json") != self.found:
            raise RuntimeError(
                f"another run has trained in {self.path} since it was read: start again to resume from where it is"
            )
        _locked_by_this_process.add(self.path.resolve())
        self.log.path = self.open_path / "log.jsonl"
        checkpoint.sweep(self.open_path, ".tmp-run.json.*")  # other files in it may be the user's
        checkpoint.sweep(self.checkpoints)
        own = {"parallel": self.config.parallel, "deterministic": self.config.deterministic}
        now = fingerprint(device) | {"ranks": self.ranks.world} | own
        sessions = self.metadata["sessions"]
        if sessions:
            begun = f"resumed at step {step}" if step else "no usable checkpoint, starts at step 0"
            print(f"{self.path}: {begun}" + ", where it had finished before: nothing was trained" * finished)
        if step and sessions:
            before = {"ranks": 1} | own | sessions[-1]["fingerprint"]
            changed = [f"{key} {before.get(key)} → {now[key]}" for key in BITS if before.get(key) != now[key]]
            if changed:
                print(
                    f"environment changed since the run began ({'; '.join(changed)}): results will not be bit-identical"
                )
        self.metadata["run"] = self.metadata["run"] or secrets.token_hex(8)
        self.metadata["config"] = asdict(self.config)
        sessions.append({"from_step": step, "started": _now(), "fingerprint": now, "inputs": inputs or {}})
        self._write_metadata()

    def save(self, state: dict, step: int, seconds: float, kind: str = "step") -> None:
        """Save a checkpoint, delete those no longer kept, and note how far and at what cost the run has come.

        Best weights are followed by a checkpoint that knows of them, kind="step". Until that is written, those that the
        checkpoint before it knows of are kept.
        """
        if not (self.ranks.first or sharded_checkpoint.in_parts(state)):
            return
        state = state | {"run": self.metadata["run"]}
        with self.writing():
            newest = checkpoint.save(self.checkpoints, step, state, kind, self.ranks)
        if not self.ranks.first:
            return
        if kind == "best":
            checkpoint.prune(newest, keep=2)
            return
        checkpoint.prune(newest, keep=self.config.keep)
        self._prune_best(state["progress"]["best"])
        self.metadata["sessions"][-1] |= {"to_step": step, "saved": _now()}
        self.metadata |= {
            "seconds": seconds,
            "dollars_per_hour": self.dollars_per_hour,
            "dollars": seconds / 3600 * self.dollars_per_hour,
        }
        self._write_metadata()

    def _prune_best(self, best: dict | None) -> None:
        """Keep the best weights that the newest checkpoint knows of, not those before or after them."""
        found = checkpoint.find(self.checkpoints, "best")
        known = [path for path in found if best and checkpoint.step_of(path) <= best["step"]]
        if known:
            checkpoint.prune(known[-1], keep=1)

    def where_it_goes_on(self, step: int) -> str:
        return f"step {step:,} is saved in {self.path}: the same call goes on from there"

    def _write_metadata(self) -> None:
        with self.writing():
            write_text(self.open_path / "run.json", json.dumps(self.metadata, indent=2) + "\n")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Around each write. Raises RuntimeError, with the reason and the next move, if it cannot be done."""
        try:
            yield
        except (OSError, RuntimeError) as error:
            cause = error.__cause__ or error  # checkpoint.save adds a next move of its own
            reason = str(cause).replace(str(self.open_path), str(self.path))
            if not (self.open_path / ".lock").exists():
                reason = f"the folder was removed ({reason})"
            raise RuntimeError(
                f"{self.path} cannot be written to: {reason}. Its checkpoints are intact: free space, make it writable or "
                "restore it, then start again to resume"
            ) from error


def best_weights(run: str | Path) -> dict:
    """The weights (a state_dict) of a run's best validation, by config.select: of the average, if the run kept one.

    Raises FileNotFoundError if the run has saved none.
    """
    saved = checkpoint.load_newest(_folder(run) / "checkpoints", kind="best")
    if saved is None:
        raise FileNotFoundError(
            f"{run} holds no best checkpoint: it needs validation data, and a validation to have run"
        )
    return saved["ema"] or saved["model"]


def _folder(path: str | Path) -> Path:
    if not str(path):
        raise ValueError("run is '': name a folder (is a variable unset?)")
    path = Path(path).expanduser()
    if path.is_file():
        raise ValueError(f"run={str(path)!r} is a file: name a folder")
    return path


def _text(file: Path) -> str | None:
    """What stands in it; None if there is no such file. In one look: it may be taken away between two."""
    try:
        return file.read_text()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _check_labels(labels: dict | None) -> dict:
    """Labels that are the same when they are read back, so that a resumed run finds its own."""
    labels = labels or {}
    if not isinstance(labels, dict) or json.loads(json.dumps(labels, default=str)) != labels:
        raise ValueError(f"labels is {labels!r}: pass a dict of names and strings or finite numbers")
    return labels


def _try_lock(lock: TextIO) -> bool:
    """Lock a file for this process, to its end. False if another process has locked it.

    A record lock, which no forked process inherits: one by flock would be held on by the workers that fetch examples, which
    outlive a killed process by seconds, and a run that is started again at once would be refused.
    """
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError as error:
        raise RuntimeError(
            f"{lock.name} cannot be locked ({error}): its file system has no locks; choose a run folder on another one"
        ) from error
    return True


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
