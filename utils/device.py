"""Where the numbers are computed: the device, its random streams, its determinism, and a fingerprint of it all."""

import os
import platform
import random
import re
import subprocess
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

import numpy as np
import torch


def pick_device(name: str = "auto") -> torch.device:
    """The device called `name`; "auto" is the first CUDA GPU if there is one, else the CPU.

    Raises ValueError for a device that this machine does not have.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0].split(". ")[0]  # what follows lists every backend that torch knows
        raise ValueError(f"device {name!r} is not available here ({reason}): try 'auto' or 'cpu'") from error
    return device


def synchronize(device: torch.device) -> None:
    """Wait until everything queued on `device` has run. A CPU has no queue."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def memory_limit(device: torch.device) -> int | None:
    """Bytes of memory that `device` has in all, or that this process may use of them; None on meta, which needs none."""
    if device.type == "meta":
        return None
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):  # a container's
        with suppress(OSError, ValueError):  # no such file, or the word "max"
            limits.append(int(Path(path).read_text()))
    return min(limits)


def seed_everything(seed: int) -> None:
    """Seed the global streams of torch (all devices), NumPy and Python."""
    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002  (the global stream is what user code draws from)
    random.seed(seed)


def rng_state() -> dict:
    """All global random streams as plain values and tensors, so that a file of them loads without running code."""
    kind, keys, position, has_gauss, gauss = np.random.get_state()  # noqa: NPY002
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
        "numpy": (kind, torch.from_numpy(keys.astype(np.int64)), position, has_gauss, gauss),
        "python": random.getstate(),
    }


def set_rng_state(state: dict) -> None:
    """Put back what rng_state() returned."""
    torch.set_rng_state(state["torch"])
    if state["cuda"] and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])
    kind, keys, position, has_gauss, gauss = state["numpy"]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), position, has_gauss, gauss))  # noqa: NPY002
    random.setstate(state["python"])


@contextmanager
def own_random_streams(seed: int | None = None):
    """Run a block on random streams of its own (seeded, if a seed is given) and put the caller's back afterwards."""
    kept = rng_state()
    try:
        if seed is not None:
            seed_everything(seed)
        yield
    finally:
        set_rng_state(kept)


@contextmanager
def deterministic_algorithms(on: bool = True):
    """Within the block, torch uses deterministic kernels or raises; the caller's settings come back afterwards."""
    if not on:
        yield
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads it when it is first used
    kept = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.utils.deterministic.fill_uninitialized_memory,
        torch.backends.cudnn.benchmark,
    )
    try:
        torch.use_deterministic_algorithms(True)
        torch.utils.deterministic.fill_uninitialized_memory = False  # costs time, and is about reading garbage
        torch.backends.cudnn.benchmark = False
        yield
    finally:
        torch.use_deterministic_algorithms(kept[0], warn_only=kept[1])
        torch.utils.deterministic.fill_uninitialized_memory = kept[2]
        torch.backends.cudnn.benchmark = kept[3]


def fingerprint(device: torch.device) -> dict:
    """What a run's exact bits depend on besides its config: versions, hardware, threads, and the code's commit."""
    return {
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "device": device.type,
        "hardware": torch.cuda.get_device_name(device) if device.type == "cuda" else _cpu_name(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        **git_commit(Path(__file__).parent),
    }


def git_commit(folder: Path) -> dict:
    """{"commit": hash or None, "dirty": whether files differ from it or None}, of the repository around `folder`.

    Where there is none, as in a Docker image, of what COURSE_COMMIT says: a hash, or a hash and "-dirty". Raises ValueError
    if that is something else.
    """

    def git(*words: str) -> str | None:
        try:
            done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    commit = git("rev-parse", "HEAD")  # fails outside a repository, and in one without commits
    if commit is None and (passed := os.environ.get("COURSE_COMMIT")):
        if not re.fullmatch(r"[0-9a-f]{40}(-dirty)?", passed):
            raise ValueError(f"COURSE_COMMIT={passed!r} is no commit: 40 hexadecimal digits, or unset it")
        return {"commit": passed[:40], "dirty": passed.endswith("-dirty")}
    changes = git("status", "--porcelain") if commit else None
    return {"commit": commit, "dirty": None if changes is None else bool(changes)}


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


def autocast(device: torch.device, precision: str) -> AbstractContextManager:
    """Mixed precision on `device`: "bf16", "fp16", or "fp32", which changes nothing."""
    if precision not in ("fp32", *AUTOCAST):
        raise ValueError(f"precision {precision!r} is unknown: choose one of fp32, {', '.join(AUTOCAST)}")
    return nullcontext() if precision == "fp32" else torch.autocast(device.type, dtype=AUTOCAST[precision])
