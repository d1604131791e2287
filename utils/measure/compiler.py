"""Counts what torch.compile produces: graphs and their operations, recompilations, Inductor's kernels, bytes, seconds."""

import atexit
import contextlib
import copy
import io
import os
import re
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple
from unittest.mock import patch

import torch
from functorch.compile import make_boxed_func
from torch import fx
from torch._inductor import config, metrics
from torch._inductor import utils as inductor
from torch._inductor.cpu_vec_isa import pick_vec_isa
from torch._inductor.graph import GraphLowering
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.benchmark import Timer


class Recorder:
    """A backend for torch.compile that runs each graph as it was captured and records its operations.

    torch.compile(function, backend=(recorder := Recorder())), then recorder.graphs is a list with one entry for each
    graph, in the order of compilation: the names of its operations. No code is generated, so it needs no compiler
    and takes milliseconds.
    """

    def __init__(self):
        self.graphs: list[list[str]] = []

    def __call__(self, module: fx.GraphModule, inputs: list) -> Callable:
        calls = [node for node in module.graph.nodes if node.op.startswith("call_")]
        self.graphs.append([getattr(node.target, "__name__", str(node.target)) for node in calls])
        return module.forward


def recorded(function: Callable, **settings) -> tuple[Callable, Recorder]:
    """The function (or module) compiled with a Recorder, and the Recorder; settings are torch.compile's.

    Resets torch.compile first: a graph that this process compiled before would not be counted again.
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


LAUNCHED = (
    re.compile(  # in the function `call` that Inductor writes: its own kernels, a library's, and torch's operations
        r"^ +(?:(?:cpp|triton)_\w*?fused_(?P<fused>\w+?)_\d+(?:\.run)?\(|extern_kernels\.(?P<library>\w+)\("
        r"|(?:\w+ = )?(?:torch\.ops\.)?aten\.(?P<torch>\w+))",
        re.MULTILINE,
    )
)


class Half(NamedTuple):
    """What Inductor makes of one graph that AOTAutograd hands it: a forward, or a backward.

    operations: of the graph. launches: what its code calls, in order, as (kind, name): ("fused", "gelu_view"),
    ("library", "addmm"), ("torch", "randint"). nbytes: what these read and write, by Inductor's own count. source: its code.
    """

    operations: list[str]
    launches: list[tuple[str, str]]
    nbytes: int
    source: str


class XRay:
    """A backend for torch.compile that goes through every stage of Inductor and keeps what each makes.

    Afterwards `dynamo` holds the graphs of Dynamo, as Python text; `joint` the operations of AOTAutograd's graphs of
    forward and backward together; `halves` what Inductor wrote for each part, one Half after the other. The written
    kernels are not compiled, which takes the longest: the graph is run as AOTAutograd has written it, within `around`.
    """

    def __init__(self, around: AbstractContextManager | None = None):
        self.dynamo: list[str] = []
        self.joint: list[list[str]] = []
        self.halves: list[Half] = []
        self.around = around or nullcontext()

    def __call__(self, module: fx.GraphModule, inputs: list) -> Callable:
        self.dynamo.append(module.code.strip())
        from torch._inductor.compile_fx import compile_fx  # here: to import it takes a second, and it warns

        patches = {"joint_custom_pre_pass": self._keep_joint, "force_disable_caches": True}
        return compile_fx(module, inputs, inner_compile=self._compile_half, config_patches=patches)

    def _keep_joint(self, graph: fx.Graph) -> None:
        self.joint.append(_called(graph))

    def _compile_half(self, module: fx.GraphModule, inputs: list, **options) -> Callable:
        from torch._inductor.compile_fx import compile_fx_inner

        written = []

        def write_only(lowering: GraphLowering) -> object:
            code, _ = lowering.codegen()
            written.append((code.value, lowering.count_bytes()[0]))
            return _Uncompiled()

        with warnings.catch_warnings(action="ignore"):  # torch's own code copies what torch deprecates
            unchanged = copy.deepcopy(module)  # Inductor rewrites the graph that it gets
        with patch.object(GraphLowering, "compile_to_module", write_only):
            compile_fx_inner(module, inputs, **options)
        ((source, nbytes),) = written
        body = source[source.index("def call(") :]
        launches = [(found.lastgroup, found[found.lastgroup]) for found in LAUNCHED.finditer(body)]
        self.halves.append(Half(_called(unchanged.graph), launches, nbytes, source))

        def run(*args):
            with self.around:
                return unchanged(*args)

        return make_boxed_func(run)


class _Uncompiled:
    """Stands for the module that Inductor would have compiled."""

    def call(self, args: list) -> None:
        raise RuntimeError("only written, not compiled: XRay runs the graph instead")


def _called(graph: fx.Graph) -> list[str]:
    return [getattr(node.target, "__name__", str(node.target)) for node in graph.nodes if node.op.startswith("call_")]


class _Operations(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names: list[str] = []
        self.bytes = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        self.names.append(function._overloadpacket.__name__)
        self.bytes += sum(t.nbytes for t in tree_leaves((args, kwargs, result)) if isinstance(t, torch.Tensor))
        return result


def operations(function: Callable, *args) -> list[str]:
    """The operations that function(*args) sends to the device, in order, without autograd's: "sin", "addmm", ...

    For eager code only: under its dispatch mode Dynamo would skip a compiled function, and go on skipping it later.
    """
    with _Operations() as recorder:
        function(*args)
    return recorder.names


class Kernels(NamedTuple):
    """What Inductor generated for one call. output: the call's result; count: loop nests; vectorised: those with SIMD code.

    A Triton kernel is one loop nest, a C++ function may hold several. vectorised is 0 on a GPU. Matrix products that go to
    a library are not counted.
    """

    output: object
    count: int
    vectorised: int


def kernels(function: Callable, *args, **settings) -> Kernels:
    """Compile the function with Inductor, call it once, count; settings are torch.compile's.

    Resets torch.compile first. A graph that Inductor loads from its cache on disk counts the same as a generated one.
    """
    torch.compiler.reset()
    metrics.reset()
    output = torch.compile(function, **settings)(*args)
    return Kernels(output, metrics.generated_kernel_count, metrics.generated_cpp_vec_kernel_count)


def generated_source(function: Callable, *args) -> str:
    """What Inductor writes for function(*args), without gradients: Python with the kernels in it, C++ or Triton."""
    torch.compiler.reset()
    with torch.no_grad():
        _, sources = inductor.run_and_get_code(torch.compile(function), *args)
    return "\n".join(sources)


def mode_seconds(function: Callable, *args, mode: str, least: float = 0.3, **options) -> tuple[float, float]:
    """Seconds of the first call of torch.compile(function, mode=mode, **options), from an empty cache, and of a later one.

    The later one is the median of calls that take `least` seconds together.
    """
    torch.compiler.reset()
    with (
        inductor.fresh_cache(),
        torch.no_grad(),
        contextlib.redirect_stderr(io.StringIO()),
    ):  # of what max-autotune tries
        compiled = torch.compile(function, mode=mode, **options)
        began = time.perf_counter()
        compiled(*args)
        first = time.perf_counter() - began
        compiled(*args)  # CUDA graphs are recorded in the second call
        return first, median_seconds(compiled, *args, least=least)


def own_cache() -> str:
    """Give this process and its children an empty Inductor cache, in a folder that is deleted at exit. Returns the folder.

    One process compiles at a time. Inductor trusts the CPU's list of vector instructions: testing each takes as long as
    ten kernels. What it tests all the same, and a C++ header that torch compiles once for each set of flags (150 MB),
    stay in torch's own temporary folder, where later processes find them.
    """
    config.compile_threads = 1
    config.cpp.vec_isa_ok = True
    pick_vec_isa()  # now, before the folder is another
    folder = tempfile.mkdtemp(prefix="inductor-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["TORCHINDUCTOR_CACHE_DIR"], os.environ["TORCHINDUCTOR_VEC_ISA_OK"] = folder, "1"  # for child processes
    return folder


def no_inductor(device: torch.device | str = "cpu") -> str:
    """Why Inductor does not work here, or "" if it does: tries to compile and run a small function.

    Inductor needs a C++ compiler for the CPU, and Triton with a C compiler for CUDA.
    """
    x = torch.ones(2, device=device)
    try:
        result = kernels(lambda x: x * 2 + 1, x).output
    except Exception as error:  # torch wraps each cause in an exception class of its own
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return "" if torch.equal(result, x * 2 + 1) else f"2·1 + 1 gave {result.tolist()}"


def median_seconds(function: Callable, *args, least: float = 0.3) -> float:
    """The median seconds of function(*args), by torch's timer over at least `least` seconds, after a warm-up call."""
    function(*args)
    names = {"function": function, "args": args}
    timer = Timer(
        "function(*args)", globals=names, num_threads=torch.get_num_threads()
    )  # with another Dynamo recompiles
    return timer.blocked_autorange(min_run_time=least).median
