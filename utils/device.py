"""The device: its choice, random streams, determinism, mixed precision, and a fingerprint of the environment."""

import os
import platform
import random
import re
import subprocess
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from types import ModuleType

import numpy as np
import torch


def accelerator() -> torch.device | None:
    """The accelerator of this machine, without an index: torch.device("cuda"), say; None if there is none."""
    return torch.accelerator.current_accelerator(check_available=True)


def is_accelerator(device: torch.device) -> bool:
    """Whether `device` is this machine's accelerator: False for the CPU and for meta.

    Raises ValueError for an accelerator that this machine does not have.
    """
    if device.type in ("cpu", "meta"):
        return False
    here = accelerator()
    if here is None or here.type != device.type:
        has = f"it has {here.type}" if here else "it has no accelerator"
        raise ValueError(f"device {str(device)!r} is not available here, {has}: try 'auto' or 'cpu'")
    return True


def pick_device(name: str = "auto") -> torch.device:
    """The device called `name`; "auto" is the accelerator (a CUDA GPU, say) if there is one, else the CPU.

    Never MPS, which has no float64: the loop keeps its sums in float64.

    Raises ValueError for a device that this machine does not have, or that has no float64.
    """
    if name == "auto":
        here = accelerator()
        return torch.device("cpu") if here is None or here.type == "mps" else here
    try:
        device = torch.device(name)
        torch.empty(0, device=device, dtype=torch.float64)
    except (
        RuntimeError,
        AssertionError,
        ImportError,
        TypeError,
    ) as error:  # each backend refuses with another exception
        reason = str(error).splitlines()[0].split(". ")[0]  # the rest lists every backend that torch knows
        raise ValueError(f"device {name!r} is not available here ({reason}): try 'auto' or 'cpu'") from error
    return device


def synchronize(device: torch.device) -> None:
    """Wait until everything queued on `device` has run; a CPU has no queue. ValueError if this machine lacks it."""
    if is_accelerator(device):
        torch.accelerator.synchronize(device)


def ask_device(device: torch.device, what: str) -> object:
    """Call torch.cuda.<what>(device), or the same of another accelerator; None if its module has no such function.

    Modules differ: torch.mps, for one, does not report its peak memory.
    """
    function = getattr(torch.get_device_module(device), what, None)
    return function and function(device)


def copies_from_pinned(device: torch.device) -> bool:
    """Whether `device` copies from page-locked memory without waiting. MPS shares the host's memory and refuses."""
    return is_accelerator(device) and device.type != "mps"


def memory_limit(device: torch.device) -> int | None:
    """Total bytes of memory of `device`, or this process's limit if it is lower; None on meta, which has no memory."""
    if device.type == "meta":
        return None
    if is_accelerator(device) and (free_and_total := ask_device(device, "mem_get_info")):
        return free_and_total[1]
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):  # limits of a container
        with suppress(OSError, ValueError):  # no such file, or the word "max"
            limits.append(int(Path(path).read_text()))
    return min(limits)


def seed_everything(seed: int) -> None:
    """Seed the global streams of torch (all devices), NumPy and Python."""
    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002  (the global stream is what user code draws from)
    random.seed(seed)


def rng_state() -> dict:
    """The states of all global random streams as plain values and tensors: a file of them loads without running code.

    Those of an accelerator are under its name: {"cuda": [state of each GPU]}.
    """
    kind, keys, position, has_gauss, gauss = np.random.get_state()  # noqa: NPY002
    return {
        "torch": torch.get_rng_state(),
        "numpy": (kind, torch.from_numpy(keys.astype(np.int64)), position, has_gauss, gauss),
        "python": random.getstate(),
        **accelerator_rng_state(),
    }


def set_rng_state(state: dict) -> None:
    """Restore what rng_state() returned, here or on another machine: skips streams of devices that this one lacks."""
    torch.set_rng_state(state["torch"])
    set_accelerator_rng_state(state)
    kind, keys, position, has_gauss, gauss = state["numpy"]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), position, has_gauss, gauss))  # noqa: NPY002
    random.setstate(state["python"])


def accelerator_rng_state() -> dict[str, list[torch.Tensor]]:
    """The random streams of this machine's accelerators: {"cuda": [state of each GPU]}; {} if there is none."""
    device, module = _with_streams()
    if device is None:
        return {}
    return {device.type: [module.get_rng_state(number) for number in range(module.device_count())]}


def set_accelerator_rng_state(state: dict) -> None:
    """Restore what accelerator_rng_state() returned, for the devices that this machine has."""
    device, module = _with_streams()
    if device is not None:
        for number, stream in zip(range(module.device_count()), state.get(device.type, []), strict=False):
            module.set_rng_state(stream, number)


def _with_streams() -> tuple[torch.device | None, ModuleType | None]:
    """The accelerator and its torch module. (None, None) in a process forked after the accelerator was used.

    Only a private name tells that; the public way is to use the device, and to see that raise.
    """
    device = accelerator()
    module = torch.get_device_module(device) if device else None
    return (None, None) if module is None or module._is_in_bad_fork() else (device, module)


@contextmanager
def own_random_streams(seed: int | None = None):
    """Run a block with its own random streams (seeded if `seed` is given) and restore the caller's afterwards."""
    kept = rng_state()
    try:
        if seed is not None:
            seed_everything(seed)
        yield
    finally:
        set_rng_state(kept)


@contextmanager
def deterministic_algorithms(on: bool = True):
    """Within the block, torch uses deterministic kernels or raises; the caller's settings are restored afterwards."""
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
        torch.utils.deterministic.fill_uninitialized_memory = False  # slow, and only for reads of unset memory
        torch.backends.cudnn.benchmark = False
        yield
    finally:
        torch.use_deterministic_algorithms(kept[0], warn_only=kept[1])
        torch.utils.deterministic.fill_uninitialized_memory = kept[2]
        torch.backends.cudnn.benchmark = kept[3]


def fingerprint(device: torch.device) -> dict:
    """Everything besides the config that the exact bits of a run depend on: versions, hardware, threads, commit."""
    return {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "device": device.type,
        "hardware": (ask_device(device, "get_device_name") or device.type) if is_accelerator(device) else _cpu_name(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        **git_commit(Path(__file__).parent),
    }


def git_commit(folder: Path) -> dict:
    """{"commit": hash or None, "dirty": whether files differ from it or None}, for the repository that contains `folder`.

    Without a repository, as in a Docker image, the value of COURSE_COMMIT: a hash, or a hash and "-dirty". Raises
    ValueError if it is something else.
    """
    commit = git(folder, "rev-parse", "HEAD")  # fails outside a repository, and in one without commits
    if commit is None and (passed := os.environ.get("COURSE_COMMIT")):
        if not re.fullmatch(r"[0-9a-f]{40}(-dirty)?", passed):
            raise ValueError(f"COURSE_COMMIT={passed!r} is not a commit: 40 hexadecimal digits, or unset it")
        return {"commit": passed[:40], "dirty": passed.endswith("-dirty")}
    changes = git(folder, "status", "--porcelain") if commit else None
    return {"commit": commit, "dirty": None if changes is None else bool(changes)}


def git(folder: Path, *words: str) -> str | None:
    """The output of git in `folder`, stripped; None if git fails, is missing or takes over 30 s."""
    try:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


AUTOCAST = {"bf16": torch.bfloat16, "fp16": torch.float16}


def autocast(device: torch.device, precision: str) -> AbstractContextManager:
    """Mixed precision on `device`: "bf16", "fp16", or "fp32", which changes nothing. ValueError without autocast."""
    if precision not in ("fp32", *AUTOCAST):
        raise ValueError(f"precision {precision!r} is unknown: choose one of fp32, {', '.join(AUTOCAST)}")
    if precision == "fp32":
        return nullcontext()
    if not torch.amp.is_autocast_available(device.type):
        raise ValueError(f"precision is {precision!r}, but device {device.type!r} has no autocast: choose fp32")
    return torch.autocast(device.type, dtype=AUTOCAST[precision])
