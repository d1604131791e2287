"""What honest students do in their notebooks: whatever runs in Jupyter has to be graded as Jupyter would run it.

HABITS: name -> changes of lab 01's solution, cell id -> source. A cell with another id stands right after the set-up. In a
source, SOLUTION is the solution's own text of that cell; `changed_book` makes the notebook, whose last cell, WITNESS, raises
RAN if each line of the habit was run.
"""

# ruff: noqa: E501 - the source of a cell is one string

HABITS: dict[str, dict[str, str]] = {
    # parameters and set-up
    "device auto": {"parameters": 'device = "auto"\nseed = 0'},
    "another seed": {"parameters": 'device = "cpu"\nseed = 4711'},
    "auto and a seed": {"parameters": 'device = "auto"  # mine\nseed = 12'},
    "an import in the parameters": {
        "parameters": 'import functools\ndevice = "cpu"\nseed = 0',
        "code-swap": "SOLUTION\n\nswapped = functools.wraps(swapped)(swapped)",
    },
    "imports added to the set-up": {
        "setup": "SOLUTION\nimport operator",
        "code-strides": "SOLUTION\n\noperator.add(1, 2)",
    },
    "more threads": {"setup": "SOLUTION\ntorch.set_num_threads(2)"},
    "set-up run twice": {"again": "SETUP"},
    "a seed of one's own": {"mine": "torch.manual_seed(1)\nx = torch.randn(3)"},
    "default dtype set and reset": {
        "mine": "torch.set_default_dtype(torch.float64)\ntorch.set_default_dtype(torch.float32)"
    },
    "numpy print options": {"mine": "import numpy as np\nnp.set_printoptions(precision=3)"},
    "torch print options": {"mine": "torch.set_printoptions(precision=3, sci_mode=False)"},
    # magics and shell lines
    "time a cell": {"code-swap": "%%time\nSOLUTION"},
    "time a line": {"mine": "%time torch.ones(3)"},
    "timeit": {"mine": "%timeit -n 1 -r 1 torch.ones(3)"},
    "timeit a cell": {"mine": "%%timeit -n 1 -r 1\ntorch.ones(3)"},
    "matplotlib inline first": {"code-swap": "%matplotlib inline\nSOLUTION"},
    "matplotlib inline alone": {"mine": "%matplotlib inline"},
    "autoreload": {"mine": "%load_ext autoreload\n%autoreload 2"},
    "a shell line first": {"code-swap": "!echo installing\nSOLUTION"},
    "pip through a shell": {"code-strides": "!true pip install einops\nSOLUTION"},
    "pip as a magic": {"mine": "%pip --version"},
    "files from ls": {"mine": "files = !ls\nassert isinstance(list(files), list)"},
    "a shell variable": {"mine": "word = 'hello'\nout = !echo {word}\nassert out[0] == 'hello'"},
    "a bash cell": {"mine": "%%bash\necho hello"},
    "capture": {"mine": "%%capture caught\nprint('hello')"},
    "captured text used": {"mine": "%%capture caught\nprint('hello')", "mine2": "assert caught.stdout == 'hello\\n'"},
    "help with a question mark": {"code-swap": "torch.as_strided?\nSOLUTION"},
    "help with two": {"mine": "len??"},
    "who": {"mine": "%who"},
    "pwd": {"mine": "%pwd"},
    "cd and back": {"mine": "%cd .."},
    "env": {"mine": "%env COURSE_TEST=1\nimport os\nassert os.environ['COURSE_TEST'] == '1'"},
    "writefile and run": {
        "mine": "%%writefile helper_of_mine.py\nnumber = 7",
        "mine2": "%run helper_of_mine.py\nassert number == 7",
    },
    "writefile and import": {
        "mine": "%%writefile helper_too.py\nnumber = 7",
        "mine2": "import helper_too\nassert helper_too.number == 7",
    },
    "history": {"mine": "%history"},
    "reset of nothing": {"mine": "x = 1\n%xdel x"},
    "prun": {"mine": "%prun -q torch.ones(3)"},
    "lsmagic": {"mine": "%lsmagic"},
    "config": {"mine": "%config InlineBackend.figure_format = 'retina'"},
    "html cell": {"mine": "%%html\n<b>mine</b>"},
    "markdown by magic": {"mine": "%%markdown\n# mine"},
    "system by get_ipython": {"mine": "get_ipython().system('true')"},
    "a magic by get_ipython": {"mine": "get_ipython().run_line_magic('matplotlib', 'inline')"},
    # display
    "display": {"mine": "display(torch.ones(3))"},
    "display imported": {"mine": "from IPython.display import Markdown, display\ndisplay(Markdown('**mine**'))"},
    "clear output": {"mine": "from IPython.display import clear_output\nclear_output(wait=True)"},
    "the last value": {"mine": "3 + 4", "mine2": "assert _ == 7"},
    "out": {"mine": "3 + 4", "mine2": "assert 7 in Out.values()"},
    "a picture": {"mine": "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"},
    "a picture saved": {
        "mine": "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.savefig('mine.png')\nplt.close()"
    },
    "a progress bar": {"mine": "from tqdm.auto import tqdm\nfor _ in tqdm(range(3)):\n    pass"},
    "a data frame-like table": {"mine": "from IPython.display import HTML\nHTML('<table></table>')"},
    "print a lot": {"mine": "for n in range(2000):\n    print(n)"},
    "warnings": {"mine": "import warnings\nwarnings.warn('mine')"},
    "logging": {"mine": "import logging\nlogging.basicConfig(level=logging.INFO)\nlogging.info('mine')"},
    "stderr": {"mine": "import sys\nprint('hm', file=sys.stderr)"},
    # await
    "await at the top": {"mine": "import asyncio\nawait asyncio.sleep(0)\nready = True", "mine2": "assert ready"},
    "await in a task's cell": {"code-swap": "import asyncio\nawait asyncio.sleep(0)\nSOLUTION"},
    "async for": {
        "mine": "async def two():\n    yield 1\n    yield 2\n\ntotal = 0\nasync for n in two():\n    total += n\nassert total == 3"
    },
    "gather": {
        "mine": "import asyncio\nasync def one():\n    return 1\nassert await asyncio.gather(one(), one()) == [1, 1]"
    },
    # what looks at __main__
    "pickle a function": {
        "mine": "import pickle\ndef mine():\n    return 7\nassert pickle.loads(pickle.dumps(mine))() == 7"
    },
    "pickle an object": {
        "mine": "import pickle\nclass Mine:\n    pass\nassert isinstance(pickle.loads(pickle.dumps(Mine())), Mine)"
    },
    "save and load a class": {
        "mine": "class Net(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.one = torch.nn.Linear(2, 2)\n"
        "torch.save(Net(), 'net.pt')\nassert isinstance(torch.load('net.pt', weights_only=False), Net)"
    },
    "save a state": {"mine": "torch.save({'a': torch.ones(3)}, 'a.pt')\nassert torch.load('a.pt')['a'].sum() == 3"},
    "import from main": {
        "mine": "def mine():\n    return 7",
        "mine2": "from __main__ import mine as same\nassert same() == 7",
    },
    "pool": {
        "mine": "from multiprocessing import get_context\ndef double(n):\n    return 2 * n\nwith get_context('fork').Pool(2) as pool:\n    assert pool.map(double, [1, 2]) == [2, 4]"
    },
    "process pool": {
        "mine": "import multiprocessing\nfrom concurrent.futures import ProcessPoolExecutor\ndef double(n):\n    return 2 * n\n"
        "with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context('fork')) as pool:\n    assert list(pool.map(double, [1, 2])) == [2, 4]"
    },
    "a data loader with workers": {
        "mine": "from torch.utils.data import DataLoader\nassert sum(b.sum().item() for b in DataLoader(list(range(10)), num_workers=2, multiprocessing_context='fork')) == 45"
    },
    "script": {
        "mine": "@torch.jit.script\ndef mine(x: torch.Tensor) -> torch.Tensor:\n    return x + 1\nassert mine(torch.ones(1)) == 2"
    },
    "getsource": {"code-swap": "SOLUTION\n\nimport inspect\nassert 'def swapped' in inspect.getsource(swapped)"},
    "type hints": {
        "mine": "from typing import get_type_hints\nclass A:\n    b: 'A'\nassert get_type_hints(A)['b'] is A"
    },
    "dataclass": {
        "mine": "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: 'int' = 1\nassert P().x == 1"
    },
    "named main": {"mine": "if __name__ == '__main__':\n    ran = True\nassert ran"},
    "globals": {"mine": "globals()['mine_too'] = 7\nassert mine_too == 7"},
    "exec": {"code-swap": "exec('mine_three = 3')\nassert mine_three == 3\nSOLUTION"},
    "future annotations": {"code-swap": "from __future__ import annotations\nSOLUTION"},
    "compile": {"mine": "fast = torch.compile(lambda x: x * 2 + 1)\nassert fast(torch.ones(3)).sum() == 9"},
    "compiled by a decorator": {"mine": "@torch.compile\ndef fast(x):\n    return x.sin() + 1\nfast(torch.ones(3))"},
    "compile in eager": {
        "mine": "@torch.compile(backend='eager')\ndef fast(x):\n    return x + 1\nfast(torch.ones(3))"
    },
    "autocast": {"mine": "with torch.autocast('cpu', dtype=torch.bfloat16):\n    torch.ones(2, 2) @ torch.ones(2, 2)"},
    "the profiler": {"mine": "with torch.profiler.profile() as p:\n    torch.ones(3).sum()\np.key_averages().table()"},
    # files
    "a file in tmp": {
        "mine": "from pathlib import Path\nPath('/tmp/mine.txt').write_text('x')\nassert Path('/tmp/mine.txt').read_text() == 'x'"
    },
    "a temporary file": {
        "mine": "import tempfile\nwith tempfile.NamedTemporaryFile('w') as file:\n    file.write('x')"
    },
    "a temporary folder": {
        "mine": "import tempfile, os\nwith tempfile.TemporaryDirectory() as d:\n    open(os.path.join(d, 'a'), 'w').close()"
    },
    "a file beside": {"mine": "open('mine.txt', 'w').write('x')\nassert open('mine.txt').read() == 'x'"},
    "shutil": {
        "mine": "import shutil\nopen('a.txt', 'w').write('x')\nshutil.copy('a.txt', 'b.txt')\nassert open('b.txt').read() == 'x'"
    },
    "chmod of one's own": {"mine": "import os\nopen('a.sh', 'w').write('x')\nos.chmod('a.sh', 0o755)"},
    "touch": {"mine": "from pathlib import Path\nPath('t').touch()\nPath('t').touch()"},
    "a memory map": {
        "mine": "import numpy as np\nm = np.memmap('m.bin', dtype='float32', mode='w+', shape=(10,))\nm[:] = 1\nm.flush()\nassert m.sum() == 10"
    },
    "sqlite": {"mine": "import sqlite3\nwith sqlite3.connect('a.db') as db:\n    db.execute('create table t (a)')"},
    "a subprocess": {
        "mine": "import subprocess, sys\nassert subprocess.run([sys.executable, '-c', 'print(7)'], capture_output=True, text=True).stdout == '7\\n'"
    },
    "threads": {
        "mine": "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(2) as pool:\n    assert list(pool.map(abs, [-1, 2])) == [1, 2]"
    },
    "a signal of one's own": {
        "mine": "import os, signal\nsignal.signal(signal.SIGUSR1, lambda *_: None)\nos.kill(os.getpid(), signal.SIGUSR1)"
    },
    "a child ended": {"mine": "import subprocess\np = subprocess.Popen(['sleep', '60'])\np.terminate()\np.wait()"},
    "a short sleep": {"mine": "import time\ntime.sleep(0.5)"},
    "cpu count": {"mine": "import os\nassert os.cpu_count() >= 1"},
    "reads of itself": {"mine": "open('/proc/self/status').read()"},
    "resources": {"mine": "import resource\nassert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 0"},
    # how one works
    "a helper beside a check of one's own": {
        "mine": "def flipped(pair):\n    return pair[::-1]\n\nexpect_equal(ask('1 + 1'), 2, next_step='count')",
        "code-strides": "SOLUTION\n\nassert flipped((1, 2)) == (2, 1)",
    },
    "a helper in a check's cell": {
        "check-strides": "def kept():\n    return 7\n\nSOLUTION",
        "code-swap": "SOLUTION\n\nassert kept() == 7",
    },
    "a cell that raises": {"mine": "1 / 0"},
    "a cell that is no Python": {"mine": "this is a note to myself"},
    "an assert that fails": {"mine": "assert False, 'later'"},
    "an undefined name": {"mine": "print(nobody)"},
    "exit": {"mine": "import sys\nsys.exit()"},
    "a draft under the same name": {"mine": "def swapped(x, a, b):\n    return x.clone()"},
    "the solution in a cell below": {"code-swap": "# see below", "zz-below": "SWAP"},
    "a lambda": {
        "code-swap": "swapped = lambda x, a, b: x.as_strided(*[[v[b] if n == range(x.dim())[a] else v[a] if n == range(x.dim())[b] else v[n] for n in range(x.dim())] for v in (x.shape, x.stride())])"
    },
    "a partial": {"code-swap": "SOLUTION\n\nfrom functools import partial\nswapped = partial(swapped)"},
    "a decorator": {
        "code-swap": "import functools\ndef loud(f):\n    @functools.wraps(f)\n    def inner(*a, **k):\n        print('called')\n        return f(*a, **k)\n    return inner\n\nSOLUTION\n\nswapped = loud(swapped)"
    },
    "a cache": {
        "code-strides": "import functools\n\nSOLUTION\n\ncontiguous_strides = functools.cache(contiguous_strides)"
    },
    "a class with a call": {
        "code-swap": "class Swap:\n    def __call__(self, x, a, b):\n        sizes, strides = list(x.shape), list(x.stride())\n        sizes[a], sizes[b] = sizes[b], sizes[a]\n        strides[a], strides[b] = strides[b], strides[a]\n        return x.as_strided(sizes, strides)\n\nswapped = Swap()"
    },
    "an annotation of any kind": {
        "code-swap": "Matrix = 'torch.Tensor'\nSOLUTION\n\nswapped.__annotations__['x'] = Matrix"
    },
    "names of one's own": {"mine": "seed_of_mine, drawn, numbers, matrix = 1, 2, 3, 4"},
    "print in a task": {"code-strides": "SOLUTION\n\nprint(contiguous_strides((2, 3)))"},
    "tests of one's own": {"code-strides": "SOLUTION\n\nassert contiguous_strides((2, 3)) == (3, 1)"},
    "windows line ends": {"code-swap": "CRLF"},
    "tabs and blanks": {"code-swap": "\n\n\nSOLUTION\n\n\n"},
    "semicolons": {"mine": "x = 1; y = 2;"},
    "emoji": {"mine": "größe = 3\nprint('🙂', größe)"},
    "type checks": {"mine": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import nothing"},
    "gc": {"mine": "import gc\ngc.collect()"},
    "recursion limit": {"mine": "import sys\nsys.setrecursionlimit(5000)"},
    "deterministic": {"mine": "torch.use_deterministic_algorithms(True)"},
    "no grad for all": {"mine": "torch.set_grad_enabled(True)"},
    "einops again": {"mine": "import einops\neinops.rearrange(torch.ones(2, 3), 'a b -> b a')"},
    "a star import": {"mine": "from math import *\nassert floor(2.5) == 2"},
    "a big tensor": {"mine": "big = torch.ones(50_000_000)\ndel big"},
    "underscore names": {"mine": "_, rest = 1, 2\n__ = 3"},
    "walrus and match": {"mine": "match (n := 3):\n    case 3:\n        pass"},
}

# Lines that fail where something of the student's machine is missing, and what stands below them is needed.
LACKING: dict[str, str] = {
    "a package": "import a_package_of_mine\nimport math",
    "several": "from google.colab import drive\ndrive.mount('/content/drive')\n%cd /content/drive\nimport math",
    "an extension": "%load_ext an_extension_of_mine\nimport math",
    "a magic": "%tensorflow_version 2.x\nimport math",
    "widgets": "%matplotlib widget\nimport math",
    "a window": "%matplotlib qt\nimport math",
    "a person": "name = input('who? ')\nimport math",
    "a folder": "import os\nos.chdir('/content')\nimport math",
    "a language": "import locale\nlocale.setlocale(locale.LC_ALL, 'xx_XX.UTF-8')\nimport math",
}


WITNESS, RAN = "zz-witness", "the habit was run"


def witness(sources: list[str]) -> str:
    """A cell that raises RuntimeError: RAN, or the lines that nobody has run. Comments are not run, nor is what sets a
    parameter, which the grader sets itself.
    """
    lines = {line.strip() for source in sources for line in source.splitlines()} - {""}
    lines = sorted(line for line in lines if not line.startswith(("#", "device =", "seed =")))
    return (
        "cells_that_ran = get_ipython().history_manager.input_hist_raw\n"
        f"not_run = [line for line in {lines!r} if not any(line in cell for cell in cells_that_ran)]\n"
        f"raise RuntimeError(not_run or {RAN!r})"
    )


def changed_book(book: dict, changes: dict[str, str]) -> dict:
    """The solution `book` with the changes of one habit. ValueError for a change that has no place in it, or changes nothing."""
    own = {cell["id"]: "".join(cell["source"]) for cell in book["cells"]}
    whole = {"CRLF": own["code-swap"].replace("\n", "\r\n"), "SETUP": own["setup"], "SWAP": own["code-swap"]}
    new = {name: whole.get(text, text.replace("SOLUTION", own.get(name, ""))) for name, text in changes.items()}
    cells = []
    for cell in book["cells"]:
        cells.append(cell | {"source": new.get(cell["id"], cell["source"])})
        for after, prefix in (("setup", "mine"), ("setup", "again"), ("code-swap", "zz-")):
            if cell["id"] == after:
                cells += [
                    _cell(name, text) for name, text in new.items() if name not in own and name.startswith(prefix)
                ]
    placed = {cell["id"]: cell["source"] for cell in cells}
    if lost := [name for name, text in new.items() if placed.get(name) != text or text == own.get(name)]:
        raise ValueError(f"no change of {', '.join(lost)}")
    return book | {"cells": [*cells, _cell(WITNESS, witness(list(new.values())))]}


def _cell(name: str, source: str) -> dict:
    return {
        "cell_type": "code", "id": name, "metadata": {}, "outputs": [], "execution_count": None, "source": source,
    }  # fmt: skip
