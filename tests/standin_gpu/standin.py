"""Build the stand-in GPU, and make it a device of this process: torch.device("gpu").

That cannot be undone: from then on torch.accelerator names it as this machine's. So it is for processes of its own.
"""

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from functools import lru_cache
from pathlib import Path
from types import ModuleType

import torch

NAME = "gpu"
COUNT = "STANDIN_GPU_COUNT"  # names a file: all processes that find it in their environment count operators there
SOURCE = Path(__file__).with_name("standin.cpp")
BUILT = Path(__file__).parents[2] / "build" / "standin_gpu"
OPTIONS = ("-O1", "-std=c++20", "-shared", "-fPIC", "-DTORCH_EXTENSION_NAME=standin")
LIBRARIES = ("c10", "torch_cpu", "torch_python")  # torch has loaded them already


def compiler() -> str | None:
    """The C++ compiler: what CXX says, else the first that is found."""
    return next(filter(None, map(shutil.which, filter(None, (os.environ.get("CXX"), "c++", "g++", "clang++")))), None)


def why_not() -> str | None:
    """Why it cannot be built here, for a test to be skipped; None if it can."""
    if sys.platform != "linux":
        return f"the stand-in GPU is built on Linux only, and this is {sys.platform}"
    if compiler() is None:
        return "the stand-in GPU needs a C++ compiler, and there is none (install g++, or set CXX)"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return "the stand-in GPU needs Python.h, and it is missing (install python3-dev)"
    return None


def build() -> Path:
    """The library, built if there is none yet of this source for this torch and Python; that takes half a minute.

    Raises RuntimeError, with the compiler's words, if it cannot be built.
    """
    torch_home = Path(torch.__file__).parent
    key = [SOURCE.read_text(), torch.__version__, sys.implementation.cache_tag, *OPTIONS, *LIBRARIES]
    library = BUILT / hashlib.sha256("\n".join(key).encode()).hexdigest()[:16] / "standin.so"
    if library.exists():
        return library
    library.parent.mkdir(parents=True, exist_ok=True)
    headers = [torch_home / "include", torch_home / "include/torch/csrc/api/include", sysconfig.get_path("include")]
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:  # another process may be building it too
        made = Path(folder, library.name)
        line = [compiler() or "c++", *OPTIONS, *(f"-I{path}" for path in headers), str(SOURCE), "-o", str(made)]
        line += [f"-L{torch_home / 'lib'}", *(f"-l{name}" for name in LIBRARIES)]
        done = subprocess.run(line, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"the stand-in GPU was not built:\n{done.stderr[-4000:]}")
        os.replace(made, library)
    return library


@lru_cache(maxsize=1)
def load() -> None:
    """Make it this process's accelerator."""
    # At exit torch would wake the autograd thread of each device, which finds its interpreter gone and aborts.
    os.environ["TORCH_AUTOGRAD_SHUTDOWN_WAIT_LIMIT"] = "0"
    spec = importlib.util.spec_from_file_location("standin", build())
    library = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(library)
    library.install()
    if COUNT in os.environ:
        library.share_count(os.environ[COUNT])
    torch.utils.rename_privateuse1_backend(NAME)
    torch._register_device_module(NAME, _device_module(library))
    torch.utils.generate_methods_for_privateuse1_backend()
    torch.distributed.Backend.backend_capability["gloo"].append(NAME)
    _keep_parameters_that_move()


def _keep_parameters_that_move() -> None:
    """module.to(device) gives the parameters other bytes on the devices that torch knows, and makes new parameters on
    others: an optimizer that was made before would go on with the old ones. Swapping keeps them.
    """
    apply, future = torch.nn.Module._apply, torch.__future__

    def moves(module: torch.nn.Module, function: Callable) -> bool:
        """Whether it takes parameters between this device and the CPU: what torch does with meta stays as it is."""
        first = next((p for p in module._parameters.values() if p is not None), None)
        if first is None or future.get_overwrite_module_params_on_conversion():
            return False
        kinds = {first.device.type, function(first.detach().new_empty(0)).device.type}
        return len(kinds) == 2 and "meta" not in kinds

    def apply_and_swap(module: torch.nn.Module, function: Callable, recurse: bool = True) -> torch.nn.Module:
        kept = future.get_swap_module_params_on_conversion()
        future.set_swap_module_params_on_conversion(kept or moves(module, function))
        try:
            return apply(module, function, recurse)
        finally:
            future.set_swap_module_params_on_conversion(kept)

    torch.nn.Module._apply = apply_and_swap


def _device_module(library: ModuleType) -> ModuleType:
    """torch.gpu: what torch.cuda is to CUDA, as far as torch and we ask for it."""
    module = ModuleType(f"torch.{NAME}")
    stream = library.default_generator()
    forked = []
    os.register_at_fork(after_in_child=lambda: forked.append(True) if library.used() else None)

    def require_reachable(device: int | str | torch.device) -> None:
        if forked:  # as CUDA does
            raise RuntimeError(f"Cannot re-initialize {NAME} in forked subprocess")
        number = device if isinstance(device, int) else torch.device(device).index
        if number not in (None, 0):
            raise IndexError(f"there is one stand-in GPU, number 0, and no number {number}")

    def get_rng_state(device: int | str | torch.device = NAME) -> torch.Tensor:
        require_reachable(device)
        return stream.get_state()

    def set_rng_state(state: torch.Tensor, device: int | str | torch.device = NAME) -> None:
        require_reachable(device)
        stream.set_state(state)

    def manual_seed(seed: int) -> None:
        stream.manual_seed(seed)

    @contextmanager
    def device(index: object):
        yield

    module.is_available = lambda: True
    module._initialized = True  # torch's checkpoint keeps the random state of devices that say so
    module.is_initialized = lambda: library.used() and not forked
    module.operators = library.operators
    module._is_in_bad_fork = lambda: bool(forked)
    module._lazy_init = lambda: None
    module.device_count = lambda: 1
    module.current_device = lambda: 0
    module.set_device = lambda index: None
    module.device = device
    module.Stream, module.Event, module.current_stream = torch.Stream, torch.Event, torch.accelerator.current_stream
    module.stream = lambda stream: stream if stream else nullcontext()
    module.synchronize = lambda device=None: None
    module.get_device_name = lambda device=None: "stand-in GPU"
    module.get_rng_state, module.set_rng_state = get_rng_state, set_rng_state
    module.manual_seed = module.manual_seed_all = manual_seed
    for name in ("memory_allocated", "max_memory_allocated", "memory_stats", "reset_peak_memory_stats", "empty_cache"):
        setattr(module, name, getattr(torch.accelerator, name))
    module.get_amp_supported_dtype = lambda: [torch.float16, torch.bfloat16]
    return module
