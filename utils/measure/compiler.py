"""What torch.compile makes of a function, counted: graphs and their operations, recompilations, Inductor's kernels."""

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from torch import fx
from torch._inductor import config, metrics
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.benchmark import Timer


class Recorder:
    """A backend for torch.compile that runs each graph as it was captured and writes down what is in it.

    torch.compile(function, backend=(recorder := Recorder())), then recorder.graphs is a list with one entry for each
    graph, in the order of their compilation: the names of its operations. Nothing is generated, so it works wherever
    Python does and takes milliseconds.
    """

    def __init__(self):
        self.graphs: list[list[str]] = []

    def __call__(self, module: fx.GraphModule, inputs: list) -> Callable:
        calls = [node for node in module.graph.nodes if node.op.startswith("call_")]
        self.graphs.append([getattr(node.target, "__name__", str(node.target)) for node in calls])
        return module.forward


def recorded(function: Callable, **settings) -> tuple[Callable, Recorder]:
    """The function (or module) compiled with a Recorder, and the Recorder; settings are torch.compile's.

    Forgets everything that was compiled before in this process: graphs of an earlier call would not be counted again.
    """
    torch.compiler.reset()
    recorder = Recorder()
    return torch.compile(function, backend=recorder, **settings), recorder


def graphs_after(function: Callable, calls: Iterable[tuple], **settings) -> list[int]:
    """How many graphs were compiled by the end of each call, function(*call), in order."""
    compiled, recorder = recorded(function, **settings)
    counts = []
    for call in calls:
        compiled(*call)
        counts.append(len(recorder.graphs))
    return counts


class _Operations(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(function._overloadpacket.__name__)
        return function(*args, **(kwargs or {}))


def operations(function: Callable, *args) -> list[str]:
    """The operations that function(*args) sends to the device, in order, without autograd's: "sin", "addmm", ..."""
    with _Operations() as seen:
        function(*args)
    return seen.names


class Kernels(NamedTuple):
    """What Inductor generated for one call. output: what the call returned; kernels, and how many of them use vectors.

    Vectors: those of a CPU in C++; on a GPU that count is 0. Matrix products that go to a library are no kernels here.
    """

    output: object
    count: int
    vectorised: int


def kernels(function: Callable, *args, **settings) -> Kernels:
    """Compile the function with Inductor, call it once, count; settings are torch.compile's.

    Forgets what was compiled before. A graph that Inductor finds in its cache on disk counts as when it was generated.
    """
    torch.compiler.reset()
    metrics.reset()
    output = torch.compile(function, **settings)(*args)
    return Kernels(output, metrics.generated_kernel_count, metrics.generated_cpp_vec_kernel_count)


def own_cache() -> str:
    """Have this process, and those it starts, generate its code afresh, in a folder that is deleted when it ends.

    One process compiles at a time, and the CPU's word about its vectors is taken: trying each kind takes as long as
    ten kernels. A C++ header that torch compiles once for each set of flags (150 MB) stays in torch's own folder of
    temporary files, where every later process finds it. Returns the folder.
    """
    folder = tempfile.mkdtemp(prefix="inductor-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["TORCHINDUCTOR_CACHE_DIR"], os.environ["TORCHINDUCTOR_VEC_ISA_OK"] = folder, "1"  # for processes to come
    config.compile_threads = 1
    config.cpp.vec_isa_ok = True
    return folder


def no_inductor(device: torch.device | str = "cpu") -> str:
    """Why Inductor does not work here, "" if it does: it compiles a small function and runs it.

    It needs a C++ compiler for a CPU and Triton, with a C compiler, for CUDA.
    """
    x = torch.ones(2, device=device)
    try:
        result = kernels(lambda x: x * 2 + 1, x).output
    except Exception as error:  # whatever is missing, torch wraps it in types of its own
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return "" if torch.equal(result, x * 2 + 1) else f"2·1 + 1 came out as {result.tolist()}"


def median_seconds(function: Callable, *args, least: float = 0.3) -> float:
    """The median time of function(*args), by torch's own timer, which measures for `least` seconds after a warm-up call."""
    function(*args)
    timer = Timer("function(*args)", globals={"function": function, "args": args})
    return timer.blocked_autorange(min_run_time=least).median


def speed_ratio(function: Callable, *args, least: float = 0.3) -> float:
    """How many times as long function(*args) takes in eager mode as compiled by Inductor; compiling is not timed."""
    torch.compiler.reset()
    compiled = torch.compile(function)
    return median_seconds(function, *args, least=least) / median_seconds(compiled, *args, least=least)
