"""A papermill engine that runs every cell of a lecture, also after a failing one, and records why each cell stopped.

papermill's own engine stops at the first error, and its exit status is no verdict: it is 0 after sys.exit(0),
and a notebook whose kernel died says "completed" in every cell. Here each cell that failed, timed out or took
the kernel down carries an error output; a cell that never ran has no execution count. `ledger.py` reads both.

    python -m utils.course.notebooks.engine LECTURE OUTPUT [--full] [--timeout SECONDS]

runs one lecture in a process of its own and prints a line of JSON before each cell.
"""

import argparse
import json
import os
import re
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from queue import Empty

import papermill
from jupyter_client.manager import AsyncKernelManager
from nbclient.exceptions import CellTimeoutError, DeadKernelError
from nbclient.util import ensure_async, run_sync
from nbformat.v4 import new_output
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import NBClientEngine, papermill_engines
from papermill.exceptions import PapermillExecutionError
from papermill.execute import remove_error_markers
from papermill.iorw import load_notebook_node, write_ipynb
from traitlets import Any

from utils.course.notebooks import forked_kernel
from utils.distributed.forked_python import python
from utils.proof_text import GREEN_LINE, NOT_HERE, false_here, green_line, number_of_claim

NAME = "course"
STOPPED = "stopped"  # key in the executed notebook's metadata: why the cells after this point did not run
WORK = "work"  # key in a cell's metadata: what the device did meanwhile, absent on a machine without one
FREEZE = '__import__("gc").freeze()'  # the kernel ends 0.7 s sooner: it looks for no garbage in all that torch made
GRACE = 10.0  # seconds from the interrupt of a cell until its kernel is killed


# What the machine's GPU has done since the kernel began: operators on the stand-in, allocations on CUDA, whose allocator
# counts no operators. Exact, and asking changes nothing. None before torch is imported, NO_GPU where it finds none.
NO_GPU = -1
ASK = f"""(lambda torch: None if torch is None
    else torch.gpu.operators() if hasattr(torch, "gpu")
    else torch.cuda.memory_stats().get("allocation.all.allocated", 0) if torch.cuda.is_available()
    else {NO_GPU})(__import__("sys").modules.get("torch"))"""


class EveryCellClient(PapermillNotebookClient):
    """Runs all cells; after a dead kernel the remaining ones keep no execution count."""

    progress = Any()

    def execute(self, **kwargs):
        self.reset_execution_trackers()
        with self.setup_kernel(**kwargs):
            self.papermill_execute_cells()
            if STOPPED not in self.nb.metadata:
                with suppress(DeadKernelError):
                    self._ask(FREEZE)
        return self.nb

    def papermill_execute_cells(self):
        work = None
        for index, cell in enumerate(self.nb.cells):
            self.progress(index, len(self.nb.cells), cell.get("id", ""))
            self.nb_man.cell_start(cell, index)
            try:
                self.execute_cell(cell, index)
                if cell.cell_type == "code":
                    if work != NO_GPU:
                        before, work = work, self._ask(ASK)
                    if work not in (None, NO_GPU):
                        cell.metadata[WORK] = work - (before or 0)
                    _number(cell)
            except CellTimeoutError as error:
                _add_error(cell, "Timeout", str(error).strip().splitlines()[0])
                if not self._interrupt():
                    self._stop(cell, "did not answer the interrupt after its timeout; its kernel was killed")
            except DeadKernelError:
                _add_error(cell, "DeadKernel", "the kernel died in this cell")
                self._stop(cell, "the kernel died in it")
            finally:
                self.nb_man.cell_complete(cell, index)
            if STOPPED in self.nb.metadata:
                return

    @run_sync
    async def _ask(self, expression: str) -> int | None:
        """The kernel's value of an expression, a whole number or None. Raises DeadKernelError if the kernel is gone."""
        request = self.kc.execute("", silent=True, store_history=False, user_expressions={WORK: expression})
        while True:
            try:
                reply = await ensure_async(self.kc.shell_channel.get_msg(timeout=1))
            except Empty:
                if not await ensure_async(self.km.is_alive()):
                    raise DeadKernelError("the kernel died after the cell") from None
                continue
            if reply["parent_header"].get("msg_id") == request:
                text = reply["content"]["user_expressions"][WORK].get("data", {}).get("text/plain", "None")
                return None if text == "None" else int(text)

    def _stop(self, cell, what: str) -> None:
        self.nb.metadata[STOPPED] = f"not run: the cell {cell.get('id', '?')!r} came before it, and {what}"

    @run_sync
    async def _interrupt(self) -> bool:
        """Interrupt the cell. Returns whether the kernel answers within GRACE seconds; otherwise kills it."""
        await ensure_async(self.km.interrupt_kernel())
        question = self.kc.kernel_info()
        deadline = time.monotonic() + GRACE
        while time.monotonic() < deadline and await ensure_async(self.km.is_alive()):
            if await ensure_async(self.kc.shell_channel.msg_ready()):
                reply = await ensure_async(self.kc.shell_channel.get_msg(timeout=1))
                if reply["parent_header"].get("msg_id") == question:
                    return True
            else:
                time.sleep(0.05)
        await ensure_async(self.km.shutdown_kernel(now=True))
        return False


class EveryCellEngine(NBClientEngine):
    """papermill's nbclient engine with EveryCellClient as its client."""

    @classmethod
    def execute_managed_notebook(
        cls, nb_man, kernel_name, start_timeout=60, execution_timeout=None, progress=None, **_
    ):
        """`progress(done, total, cell id)` is called before each cell; the timeout is in seconds per cell."""
        with tempfile.TemporaryDirectory(prefix="kernel") as folder:
            EveryCellClient(
                nb_man,
                km=_reached_by_files(kernel_name, Path(folder)),
                progress=progress or (lambda done, total, cell: None),
                timeout=execution_timeout,
                startup_timeout=start_timeout,
                allow_errors=True,
                iopub_timeout=60,  # nbclient gives up after 4 s, too soon for a large output on a busy machine
            ).execute(cleanup_kc=True)


def _reached_by_files(kernel_name: str, folder: Path) -> AsyncKernelManager:
    """A kernel with sockets in `folder`: of two kernels that start at once, both may choose one TCP port, and one dies."""
    file = str(folder / "connection.json")
    manager = AsyncKernelManager(kernel_name=kernel_name, transport="ipc", connection_file=file)
    if forked_kernel.ADDRESS in os.environ:
        program = python(os.environ[forked_kernel.ADDRESS])
        manager.kernel_spec.argv = [*program, forked_kernel.__file__, "-f", "{connection_file}"]
    return manager


papermill_engines.register(NAME, EveryCellEngine)


def execute(lecture: Path, output: Path, *, full: bool = False, timeout: int | None = None, progress=None) -> None:
    """Run a copy of `lecture` in its own folder and write it with outputs to `output`; no cell raises.

    A lab, whose device is a parameter, gets the one that a lecture chooses: the accelerator if there is one.
    `timeout` is in seconds per cell, None for no limit. Papermill changes the working directory of the whole
    process meanwhile: do not call this from two threads.
    """
    lecture, output = lecture.resolve(), output.resolve()
    known = papermill.inspect_notebook(str(lecture))
    parameters = {"full": True} if full and "full" in known else {}
    if "device" in known:
        parameters["device"] = "auto"
    try:
        papermill.execute_notebook(
            str(lecture),
            str(output),
            parameters=parameters,
            engine_name=NAME,
            cwd=str(lecture.parent),
            request_save_on_cell_execute=False,  # all pictures after each cell cost more than the cell
            progress_bar=False,
            execution_timeout=timeout,
            progress=progress,
        )
    except PapermillExecutionError:
        # The error is in the notebook, where the ledger looks; papermill added two marker cells to it.
        write_ipynb(remove_error_markers(load_notebook_node(str(output))), str(output))


def _number(cell) -> None:
    """Number what a proof says of its claim, and take it from a cell that proves none: the kernel knows no cell's name."""
    number = number_of_claim(cell.get("id"))

    def numbered(line: re.Match) -> str:
        return f"{green_line(line[1], number)}\n" if number else ""

    for output in cell.outputs:
        if output["output_type"] == "stream":
            output["text"] = GREEN_LINE.sub(numbered, output["text"], count=1)
            if number:
                output["text"] = NOT_HERE.sub(rf"\g<1>{number}  ", output["text"], count=1)
        elif output["output_type"] == "error":
            output["traceback"] = [line.replace(false_here(), false_here(number)) for line in output["traceback"]]
    cell.outputs = [output for output in cell.outputs if output["output_type"] != "stream" or output["text"]]


def _add_error(cell, name: str, value: str) -> None:
    """Papermill's own names for these two ends leave no trace in the cell; this one shows and counts."""
    cell.outputs.append(new_output("error", ename=name, evalue=value, traceback=[f"{name}: {value}"]))


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m utils.course.notebooks.engine", description="Run one lecture.")
    parser.add_argument("lecture", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--timeout", type=int)
    args = parser.parse_args(argv)

    def tell(done: int, total: int, cell: str) -> None:
        print(json.dumps({"done": done, "total": total, "cell": cell}), flush=True)

    execute(args.lecture, args.output, full=args.full, timeout=args.timeout, progress=tell)


if __name__ == "__main__":
    main()
