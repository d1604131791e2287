"""Checkpoints: saved completely or not at all, loaded only if no byte has changed.

Each is one file or, if the state is sharded over ranks, one folder (utils/distributed/sharded_checkpoint.py). It is
written under a temporary name, flushed to the disk, and then renamed to a name with the digest of its bytes: the rename
is the commit. A file that a crash truncated never gets such a name, and one that is damaged later no longer matches it.
"""

import contextlib
import hashlib
import os
import re
import shutil
from pathlib import Path

import torch
from torch import Tensor

from utils.distributed import sharded_checkpoint
from utils.distributed.ranks import SINGLE_PROCESS, Ranks

_NAME = re.compile(r"(?P<kind>[a-z]+)-(?P<step>\d{9,})-(?P<digest>[0-9a-f]{16})\.(pt|shards)")


class _Hashing:
    """A file that hashes everything written to it."""

    def __init__(self, file):
        self.file, self.sha256 = file, hashlib.sha256()
        self.error: OSError | None = None

    def write(self, data) -> int:
        self.sha256.update(data)
        try:
            return self.file.write(data)
        except OSError as error:
            self.error = error  # torch raises another error, which hides this one
            raise

    def flush(self) -> None:
        self.file.flush()


def save(folder: Path, step: int, state: dict, kind: str = "step", ranks: Ranks = SINGLE_PROCESS) -> Path:
    """Write `state` as the checkpoint of `step` and return its path; makes `folder` if its parent exists.

    `state` may hold tensors, numbers, strings and containers of these, which load without running code. If tensors are
    sharded, all ranks call this, with a folder that all can write to.

    Raises RuntimeError if it cannot be written (disk full, read-only); earlier checkpoints are not touched.
    """
    in_parts = sharded_checkpoint.in_parts(state)
    temporary = folder / f".tmp-{kind}-{step:09d}-{'shards' if in_parts else os.getpid()}"
    try:
        if in_parts:
            return _save_parts(folder, temporary, state, f"{kind}-{step:09d}", ranks)
        folder.mkdir(exist_ok=True)  # without parents: a deleted run folder is not made again
        digest = _write(state, temporary)
        path = folder / f"{kind}-{step:09d}-{digest[:16]}.pt"
        os.replace(temporary, path)
        _sync(folder)
    except (OSError, RuntimeError) as error:
        _remove(temporary)
        raise RuntimeError(
            f"the checkpoint of step {step} could not be written to {folder}: {error}. Earlier checkpoints are intact: "
            "free space, or make the folder writable, then start again to resume"
        ) from error
    return path


def _save_parts(folder: Path, temporary: Path, state: dict, name: str, ranks: Ranks) -> Path:
    """Save a sharded state: a new folder, which gets its final name when every rank has written."""
    path = None
    if ranks.first:
        _remove(temporary)
        folder.mkdir(exist_ok=True)
        temporary.mkdir()
    ranks.of_first(None)  # wait until the folder exists
    sharded_checkpoint.write(temporary, state, ranks.first)
    if ranks.first:
        path = folder / f"{name}-{sharded_checkpoint.seal(temporary)[:16]}.shards"
        _sync(temporary)
        os.replace(temporary, path)
        _sync(folder)
    return ranks.of_first(path)


def _write(state: dict, path: Path) -> str:
    """Write `state` to `path` and flush it to the disk; return the SHA-256 of the bytes."""
    with open(path, "wb") as file:
        hashing = _Hashing(file)
        try:
            torch.save(state, hashing)
        except RuntimeError as error:
            raise hashing.error or error from error
        file.flush()
        os.fsync(file.fileno())
    return hashing.sha256.hexdigest()


def find(folder: Path, kind: str | None = "step") -> list[Path]:
    """All committed checkpoints of this kind, or of any (None), oldest first, without looking inside them."""
    names = ((path, _NAME.fullmatch(path.name)) for path in Path(folder).glob("*-*"))
    found = [(int(match["step"]), path) for path, match in names if match and kind in (None, match["kind"])]
    return [path for _, path in sorted(found)]


def step_of(path: Path) -> int:
    return int(_NAME.fullmatch(path.name)["step"])


def load(path: Path) -> dict:
    """The state in one file, tensors on the CPU. Never runs code from the file.

    Raises ValueError if the bytes are not those that were saved, or hold anything but data.
    """
    path = Path(path)
    match = _NAME.fullmatch(path.name)
    if not match:
        raise ValueError(f"{path.name} is not the name of a checkpoint (kind-step-digest.pt): was it renamed?")
    if path.is_dir():
        sharded_checkpoint.verify(path, match["digest"])
        return sharded_checkpoint.read(path)
    with open(path, "rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()[:16]
        if digest != match["digest"]:
            raise sharded_checkpoint.Damaged(
                f"{path.name} is damaged: its bytes have digest {digest}, its name says {match['digest']}"
            )
        file.seek(0)
        try:
            return torch.load(file, map_location="cpu", weights_only=True)
        except Exception as error:  # the unpickler raises many kinds
            raise ValueError(f"{path.name} is not a checkpoint of plain data: {error}") from error


def load_newest(folder: Path, kind: str | None = "step", say=print, needs: str = "") -> dict | None:
    """The newest intact checkpoint, or None if there is none; names each damaged one with `say` and skips it.

    needs: skip those that lack this key: best weights alone have no "optimizer".
    One that is whole and cannot be read is an error: starting from an earlier one would in time delete it.
    """
    newest = _newest(folder, kind, say, needs)
    return newest and newest[1]


def newest_whole(folder: Path, kind: str | None = "step", say=print, needs: str = "") -> Path | None:
    """The path of the checkpoint that load_newest returns."""
    newest = _newest(folder, kind, say, needs)
    return newest and newest[0]


def _newest(folder: Path, kind: str | None, say, needs: str) -> tuple[Path, dict] | None:
    for path in reversed(find(folder, kind)):
        try:
            saved = load(path)
            if not needs or needs in saved:
                return path, saved
        except (sharded_checkpoint.Damaged, FileNotFoundError) as error:
            say(f"skipped a checkpoint: {error}")
    return None


def prune(newest: Path, keep: int) -> None:
    """Delete all checkpoints of its kind except `newest` and the `keep` - 1 before it.

    Any other file of the same or a later step is damaged: a resumed run has named and skipped it. If `newest` is missing,
    nothing is deleted: the folder has been replaced, and its files belong to another run.
    """
    kind, step = _NAME.fullmatch(newest.name).group("kind", "step")
    found = find(newest.parent, kind)
    if newest not in found:
        return
    others = [path for path in found if path != newest]
    earlier = [path for path in others if step_of(path) < int(step)]
    kept = earlier[max(0, len(earlier) - (keep - 1)) :]
    for path in set(others) - set(kept):
        _remove(path)


def sweep(folder: Path, names: str = ".tmp-*") -> None:
    """Delete the leftovers of crashed saves: on a full disk the next save may need their space."""
    for path in folder.glob(names):
        _remove(path)


def require_same_tensors(saved: dict[str, Tensor], current: dict[str, Tensor]) -> None:
    """Raises ValueError, naming the first difference, unless two state_dicts have the same names and shapes."""
    saved_kinds, current_kinds = (
        [(name, tuple(t.shape), t.dtype) for name, t in tensors.items() if isinstance(t, Tensor)]
        for tensors in (saved, current)
    )
    if saved_kinds != current_kinds:
        pairs = zip([*saved_kinds, None], [*current_kinds, None], strict=False)
        first = next((a, b) for a, b in pairs if a != b)
        raise ValueError(
            f"the checkpoint is of another model: where it has {first[0]}, this one has {first[1]}. Build the model that "
            "was saved, or choose another run folder"
        )


def require_same_trained(saved: dict, current: dict) -> None:
    """Raises ValueError unless two state_dicts of optimizers have as many groups, and these as many parameters."""
    before, now = ([len(group["params"]) for group in state["param_groups"]] for state in (saved, current))
    if before != now:
        raise ValueError(
            f"the checkpoint's optimizer trains {sum(before)} parameters (in groups of {before}), this one {sum(now)} (in "
            f"groups of {now}): was a part frozen since, or set free? Do as before, or begin another run with its weights:\n"
            "    from utils.loop.saved_run import read_run\n"
            "    weights, _ = read_run(run).weights()\n"
            "    model.load_state_dict(weights)"
        )


def _sync(folder: Path) -> None:
    """Flush the folder's entries to the disk, so that a rename survives a power cut."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):  # a leftover costs space, not correctness
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
