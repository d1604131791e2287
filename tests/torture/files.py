"""Checkpoints that are torn, changed, swapped or hostile: named and skipped, or refused; never loaded without a word."""

import json
import os
import pickle
import random
import shutil
import signal
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path

import torch
from helpers.paths import ROOT
from helpers.resumable_run import same
from torture.tally import Tally
from torture.victims import start, train_to_the_end

from utils.distributed import sharded_checkpoint
from utils.loop import checkpoint

RANKED = ROOT / "tests" / "helpers" / "ranked_run.py"  # saves what two ranks hold in parts


def torn(folder: Path, count: int, seed: int = 0) -> Tally:
    """Cut each file short at `count` offsets and change `count` bytes of each: of a checkpoint of one process, and of one
    that two ranks wrote; take each file of the latter away."""
    tally, draw = Tally("checkpoints cut short or changed"), random.Random(seed)
    here = _trained(folder / "alone")
    for checkpoints in (here / "run" / "checkpoints", _saved_by_two_ranks(folder / "ranks")):
        newest = checkpoint.find(checkpoints)[-1]
        for file in [newest] if newest.is_file() else sorted(newest.iterdir()):
            content = file.read_bytes()
            for _ in range(count):
                file.write_bytes(content[: draw.randrange(len(content))])
                _must_be_skipped(newest, f"{file.name} cut short", tally)
                at = draw.randrange(len(content))
                file.write_bytes(content[:at] + bytes([content[at] ^ draw.randrange(1, 256)]) + content[at + 1 :])
                _must_be_skipped(newest, f"{file.name} changed at {at}", tally)
            if newest.is_dir():
                file.unlink()
                _must_be_skipped(newest, f"{file.name} lost", tally)
            file.write_bytes(content)
        if checkpoint.load_newest(checkpoints, say=tally.wrong.append) is None:
            tally.wrong.append(f"{newest.name} put together again does not load")
    _must_go_on(here, tally)
    return tally


def _must_be_skipped(newest: Path, damage: str, tally: Tally) -> None:
    """load_newest names it and takes the one before it; load refuses it."""
    said = []
    found = checkpoint.load_newest(newest.parent, say=said.append)
    earlier = checkpoint.find(newest.parent)[:-1]
    expected = checkpoint.load(earlier[-1])["progress"]["step"] if earlier else None
    tally.count += 1
    if [newest.name in line for line in said] != [True]:
        tally.wrong.append(f"{damage}: said {said}")
    if (found and found["progress"]["step"]) != expected:
        tally.lost.append(f"{damage}: the one before it was not loaded")
    try:
        checkpoint.load(newest)
        tally.wrong.append(f"{damage}: loaded")
    except ValueError:
        pass


def _must_go_on(here: Path, tally: Tally) -> None:
    """From the one before a damaged one the run ends with the bits that it had."""
    before = torch.load(here / "outcome")
    newest = checkpoint.find(here / "run" / "checkpoints")[-1]
    newest.write_bytes(newest.read_bytes()[:-1])
    if not same(torch.load(_trained(here) / "outcome"), before):
        tally.wrong.append("other bits after the restart from the one before a damaged one")


def swapped(folder: Path, count: int, seed: int = 0) -> Tally:
    """Put the newest checkpoint of another run in the place of this run's: of another config, and of the same."""
    tally, draw = Tally("checkpoints of other runs"), random.Random(seed)
    changes = {"another seed": {"seed": 4}, "another rate": {"lr": 1e-2}, "the same config": {}}
    others = {what: _trained(folder / what, **changed) for what, changed in changes.items()}
    here = _trained(folder / "ours")
    ours = here / "run" / "checkpoints"
    for _ in range(count):
        what = draw.choice(list(others))
        theirs = draw.choice(checkpoint.find(others[what] / "run" / "checkpoints"))
        kept = checkpoint.find(ours, kind=None)  # a best one, too, would be resumed from
        for path in kept:
            path.rename(here / path.name)
        shutil.copy(theirs, ours)
        log = here / "log"
        log.unlink()
        code = start(partial(train_to_the_end, here), log).end()
        tally.count += 1
        tally.notes[f"of {what}"] += 1
        said = log.read_text()
        if code != 1 or ("of another run" not in said and "of another config" not in said):
            tally.wrong.append(f"a checkpoint of {what} was loaded: {said or 'not a word'}")
        (ours / theirs.name).unlink(missing_ok=True)
        for path in kept:
            (here / path.name).rename(path)
    return tally


class Trap:
    """Unpickled, it leaves a mark in the file system."""

    def __init__(self, mark: Path):
        self.mark = mark

    def __reduce__(self):
        return Path.touch, (self.mark,)


def hostile(folder: Path, count: int, seed: int = 0) -> Tally:
    """Files that would run code and manifests that name files elsewhere, all with the right digests, as a forger can."""
    tally, draw = Tally("hostile files"), random.Random(seed)
    newest = checkpoint.find(_saved_by_two_ranks(folder / "ranks"))[-1]
    mark = folder / "it ran"
    for number in range(count):
        here = folder / str(number)
        here.mkdir()
        attack = draw.choice((_a_file, _a_part, _the_metadata, _the_rest, _a_path_outside))
        path = attack(here, newest, mark)
        tally.count += 1
        tally.notes[f"by {attack.__name__.replace('_', ' ').strip()}"] += 1
        try:
            checkpoint.load(path)
            tally.wrong.append(f"{attack.__name__}: loaded")
        except ValueError:
            pass
        if mark.exists():
            tally.wrong.append(f"{attack.__name__}: it ran")
            mark.unlink()
    pickle.loads(pickle.dumps(Trap(mark)))
    if not mark.exists():
        tally.wrong.append("the trap does not work: nothing was tried")
    control = folder / "control"
    control.mkdir()
    for path in (checkpoint.save(control, 1, {"model": 1}), _forged(control, newest, lambda copy: None)):
        try:
            checkpoint.load(path)
        except ValueError as error:
            tally.wrong.append(f"what holds no trap is refused too, so that nothing was tried: {error}")
    return tally


def _a_file(here: Path, newest: Path, mark: Path) -> Path:
    return checkpoint.save(here, 1, {"model": Trap(mark)})


def _a_part(here: Path, newest: Path, mark: Path) -> Path:
    return _forged(here, newest, lambda copy: torch.save(Trap(mark), next(copy.glob("__*"))))


def _the_metadata(here: Path, newest: Path, mark: Path) -> Path:
    return _forged(here, newest, lambda copy: (copy / ".metadata").write_bytes(pickle.dumps(Trap(mark))))


def _the_rest(here: Path, newest: Path, mark: Path) -> Path:
    return _forged(here, newest, lambda copy: torch.save({"model": Trap(mark)}, copy / sharded_checkpoint.REST))


def _a_path_outside(here: Path, newest: Path, mark: Path) -> Path:
    """All is as it was, but that the manifest also names a file outside the folder, with its right digest."""
    outside = here / "outside"
    outside.write_bytes(b"")
    return _forged(here, newest, lambda copy: None, {"../outside": outside})


def _forged(here: Path, newest: Path, change, extra: dict[str, Path] | None = None) -> Path:
    """A copy of a checkpoint in parts, changed, with a manifest and a name that fit it."""
    copy = Path(shutil.copytree(newest, here / "copy"))
    change(copy)
    (copy / sharded_checkpoint.MANIFEST).unlink()
    digest = sharded_checkpoint.seal(copy)
    if extra:
        manifest = json.loads((copy / sharded_checkpoint.MANIFEST).read_text())
        manifest |= {name: sharded_checkpoint.sha256(path) for name, path in extra.items()}
        (copy / sharded_checkpoint.MANIFEST).write_text(json.dumps(manifest))
        digest = sharded_checkpoint.sha256(copy / sharded_checkpoint.MANIFEST)
    return copy.rename(here / f"{newest.name.rpartition('-')[0]}-{digest[:16]}.shards")


def _trained(here: Path, **changes) -> Path:
    """Train to the end in `here`, from its newest checkpoint if it has one."""
    here.mkdir(exist_ok=True)
    if start(partial(train_to_the_end, here, **changes), here / "log").end():
        raise RuntimeError(f"a run that should have ended did not: {(here / 'log').read_text()}")
    return here


def _saved_by_two_ranks(here: Path) -> Path:
    """The folder of the checkpoints of two processes, each of which holds a part of the model."""
    here.mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    told = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    line = [sys.executable, RANKED, here, "stopped:6:fsdp"]
    places = ({"RANK": rank, "LOCAL_RANK": rank} for rank in "01")
    output = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    ranks = [subprocess.Popen(line, env=os.environ | told | place, **output) for place in places]
    if {rank.wait() for rank in ranks} != {128 + signal.SIGTERM}:
        raise RuntimeError("two ranks that should have saved in parts did not")
    return here / "run" / "checkpoints"
