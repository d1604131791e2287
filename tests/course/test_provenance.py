"""What makes a verdict stale: a change of what its proof computes, wherever it is, and nothing else."""

import ast
from pathlib import Path

import pytest
from test_course import claim, code, trial

from utils.course import ROOT
from utils.course.mutation.mutants import Code, mutants_of
from utils.course.notebooks.notebook import notebooks_in, parsed, read, syntax_tree
from utils.course.receipts.provenance import hashes_of
from utils.course.receipts.reach import Library

SETUP = '''\
import os
import torch
from torch import nn
from utils.shop import LIMIT, Till, priced
from utils import shop, tools

two = 2
unused = 5

def square(x, *, plus=0):
    """The square of x."""
    # once
    result = x * x + plus
    return result

class Net(nn.Module):
    width = 4
    def forward(self, x):
        return [each * self.width for each in x]
'''
SHOWN = "shown = square(unused)\nprint(f'{shown} seen')\nfor name in ('a', 'b'):\n    print(name, two)"
PROOF = "y = priced(square(two))\nprint('y is', y)\nassert y == 8, 'it is eight'\nnet = Net()"
UTILS = {
    "__init__": "",
    "facts": "RATE = 2\nOTHER = 7\nRATES = {}\nRATES['a'] = 1\n",
    "shop/__init__": "from utils.shop.prices import priced\nfrom utils.shop.till import Till\n\nLIMIT = 3\n",
    "shop/prices": '''\
"""Prices."""

from functools import cache, lru_cache

from utils.facts import OTHER, RATE


def priced(x, by=RATE):
    """The price of x."""
    return helper(x) * by


@cache
def helper(x):
    if x < 0:
        raise ValueError(f"{x} is below 0")
    total = deeper(x)
    return total


def deeper(x):
    return x + 0


def never(x):
    return OTHER + x
''',
    "shop/till": '''\
class Box:
    pass


class Drawer:
    pass


class Till(Box):
    size = 4

    def room(self):
        return self.size
''',
    "tools": "from utils.facts import RATES\n\n\ndef rate(name):\n    return RATES[name]\n",
}  # fmt: skip


def library(folder: Path, sources: dict[str, str]) -> Library:
    for name, source in sources.items():
        path = folder / "utils" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return Library(folder)


def computes(
    folder: Path, setup: str = SETUP, shown: str = SHOWN, proof: str = PROOF, utils: dict[str, str] = UTILS
) -> dict[str, str]:
    """The hash of each claim of a small lecture."""
    others = [
        claim(2, "assert Till().room() == 4"),
        claim(3, "assert tools.rate('a') == 1"),
        claim(4, "assert LIMIT == 3"),
    ]
    lecture = read(trial(folder, [code("demo", shown)], claim(1, proof), *others, setup=setup))
    return {number: each["computes"] for number, each in hashes_of(lecture, library(folder, utils)).items()}


def changed(folder: Path, where: str, old: str, new: str) -> set[str]:
    """The claims whose hashes change with one edit: in "setup", "shown", "proof", or a file of utils."""
    text = {"setup": SETUP, "shown": SHOWN, "proof": PROOF, **UTILS}[where]
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {where}"
    text = text.replace(old, new)
    before = computes(folder / "before")
    after = computes(folder / "after", **({"utils": UTILS | {where: text}} if where in UTILS else {where: text}))
    return {number for number in before if before[number] != after[number]}


@pytest.fixture(autouse=True)
def folders(tmp_path):
    (tmp_path / "before").mkdir()
    (tmp_path / "after").mkdir()


@pytest.mark.parametrize(
    ("where", "old", "new"),
    [
        pytest.param("setup", '"""The square of x."""', '"""Else."""', id="docstring"),
        pytest.param("setup", "# once", "# twice", id="comment"),
        pytest.param("setup", "x * x + plus", "(x*x) + (\n        plus)", id="format"),
        pytest.param("setup", "result = x * x + plus\n    return result", "y = x * x + plus\n    return y", id="local"),
        pytest.param("setup", "[each * self.width for each in x]", "[e * self.width for e in x]", id="comprehension"),
        pytest.param("setup", "unused = 5", "unused = 6", id="a name that no proof uses"),
        pytest.param("setup", "import os", "import os, sys", id="an import that no proof uses"),
        pytest.param("shown", "seen", "looked at", id="demonstration: a printed word"),
        pytest.param("shown", "print(name, two)", "print(name)", id="demonstration: what is printed"),
        pytest.param("shown", "shown = square(unused)", "shown = square(unused) + square(two)", id="demonstration: a line"),
        pytest.param("proof", "'y is', y", "'y came out as', y, two", id="printed words"),
        pytest.param("proof", "it is eight", "eight it is", id="message of an assert"),
        pytest.param("shop/prices", '"""The price of x."""', '"""A price."""', id="docstring of utils"),
        pytest.param("shop/prices", '"""Prices."""', "# prices", id="docstring of a module"),
        pytest.param("shop/prices", "is below 0", "is negative", id="message of an error"),
        pytest.param("shop/prices", "total = deeper(x)\n    return total", "y = deeper(x)\n    return y", id="its local"),
        pytest.param("shop/prices", "OTHER + x", "OTHER - x", id="a function that nothing reaches"),
        pytest.param("facts", "OTHER = 7", "OTHER = 8", id="a constant that nothing reaches"),
        pytest.param("shop/till", "class Drawer:\n    pass", "class Drawer(Box):\n    pass", id="class unreached"),
    ],
)  # fmt: skip
def test_what_computes_the_same_stays_fresh(tmp_path, where, old, new):
    assert changed(tmp_path, where, old, new) == set()


@pytest.mark.parametrize(
    ("where", "old", "new", "claims"),
    [
        pytest.param("proof", "y == 8", "y <= 8", "1", id="operator"),
        pytest.param("proof", "square(two)", "square(2)", "1", id="another way to say it"),
        pytest.param("setup", "two = 2", "two = 3", "1", id="constant"),
        pytest.param("setup", "two = 2", "two = 2.0", "1", id="kind of number"),
        pytest.param("setup", "plus=0", "plus=1", "1", id="default"),
        pytest.param("setup", "width = 4", "width = 5", "1", id="class attribute"),
        pytest.param("setup", "Net(nn.Module)", "Net(nn.Linear)", "1", id="base class"),
        pytest.param("setup", "result = x * x", "result = x + x", "1", id="operator in a function"),
        pytest.param("setup", "from torch import nn", "from torch import fx as nn", "1", id="imported name"),
        pytest.param("setup", "import LIMIT, Till, priced", "import LIMIT, Till, Till as priced", "1", id="import of utils"),
        pytest.param("setup", "unused = 5", "unused = 5\ntwo += 1", "1", id="a statement that changes a name"),
        pytest.param("shown", "shown =", "priced = abs\nshown =", "1", id="a demonstration that binds a name anew"),
        pytest.param("shown", "print(name, two)", "print(Net().load(), square.cache_clear())", "", id="print of a call"),
        pytest.param("shop/prices", "by=RATE", "by=RATE + 1", "1", id="default of utils"),
        pytest.param("shop/prices", "helper(x) * by", "helper(x) / by", "1", id="operator of utils"),
        pytest.param("shop/prices", "x < 0", "x <= 0", "1", id="one hop away"),
        pytest.param("shop/prices", "x + 0", "x + 1", "1", id="two hops away"),
        pytest.param("shop/prices", "@cache", "@lru_cache(1)", "1", id="decorator"),
        pytest.param("shop/prices", "\n@cache", "", "1", id="decorator gone"),
        pytest.param("shop/prices", "import OTHER, RATE", "import OTHER, OTHER as RATE", "1", id="imported constant"),
        pytest.param("facts", "RATE = 2", "RATE = 3", "1", id="constant of utils"),
        pytest.param("shop/__init__", "LIMIT = 3", "LIMIT = 4", "4", id="constant of a room"),
        pytest.param("shop/__init__", "prices import priced", "prices import helper as priced", "1", id="name of a room"),
        pytest.param("shop/till", "size = 4", "size = 5", "2", id="class attribute of utils"),
        pytest.param("shop/till", "Till(Box)", "Till(Drawer)", "2", id="base class of utils"),
        pytest.param("shop/till", "class Box:\n    pass", "class Box:\n    size = 4", "2", id="in the base class"),
        pytest.param("facts", "RATES['a'] = 1", "RATES['a'] = 2", "3", id="what is put into a constant"),
    ],
)  # fmt: skip
def test_what_computes_something_else_is_stale(tmp_path, where, old, new, claims):
    assert changed(tmp_path, where, old, new) == {f"1.{number}" for number in claims}


def alone(folder: Path, proof: str, setup: str = "two = 2", **sources: str) -> str:
    """The hash of a lecture with one claim."""
    folder.mkdir(exist_ok=True)
    lecture = read(trial(folder, claim(1, proof), setup=setup))
    return hashes_of(lecture, library(folder, {"__init__": "", **sources}))["1.1"]["computes"]


@pytest.mark.parametrize(
    ("proof", "setup", "old", "new"),
    [
        # Words count where something listens to them.
        ("with raises(ValueError, 'low'):\n    f(0)", "def f(x):\n    raise ValueError('too low')", "too", "so"),
        ("try:\n    f(0)\nexcept ValueError as e:\n    assert 'low' in str(e)",
         "def f(x):\n    raise ValueError('too low')", "too", "so"),
        ("with redirect_stdout(out):\n    f(0)\nassert out", "def f(x):\n    print('low')", "low", "high"),
        ("assert inspect.getsource(f).count('#') == 1", "def f(x):\n    return x  # so", "# so", "# no"),
        # A text that is run may use any name, and what a function assigns is its caller's change.
        ("exec('assert two == 2')", "two = 2", "two = 2", "two = 1 + 1"),
        ("assert two == 2", "two = 1\ndef f():\n    global two\n    two = 2\nf()", "    two = 2", "    two = 3"),
        ("assert os.environ['A'] == '1'", "import os\ndef f():\n    os.environ['A'] = '1'\nf()", "= '1'", "= '2'"),
        ("assert torch.get_num_threads() == 1", "import torch\ntorch.set_num_threads(1)", "(1)", "(2)"),
        ("assert net.grad", "net = Net()\nnet(3).sum().backward()", "net(3)", "net(4)"),
        ("assert net.grad", "net = Net()\nfill(net.weight)", "fill(net", "full(net"),
        ("assert net.grad", "net = Net()\nnorm = clip_(net.parts(), 1.0)", "1.0", "2.0"),
        ("assert f() == 1", "def f():\n    x = 1\n    def g():\n        nonlocal x\n        x = 2\n    g()\n    return x",
         "nonlocal x", "y = 3"),
        ("assert f(1)", "def f(x):\n    y = 3\n    return [x for x in (x, y)]", "(x, y)", "(y, x)"),
    ],
)  # fmt: skip
def test_what_is_easily_missed_is_seen(tmp_path, proof, setup, old, new):
    assert setup.count(old) == 1
    assert alone(tmp_path / "a", proof, setup) != alone(tmp_path / "b", proof, setup.replace(old, new))


@pytest.mark.parametrize(
    ("setup", "proof"),
    [
        ("from utils import tools", "assert getattr(tools, 'rate')() == 1"),
        ("import utils.tools", "assert dict(vars(utils.tools))"),
        ("import subprocess", "subprocess.run(['python', '-c', 'from utils.tools import rate; rate()'])"),
        ("import subprocess", "subprocess.run(['python', '-m', 'utils.tools'])"),
        ("from importlib import import_module", "assert import_module(f'utils.{name}').rate() == 1"),
        ("from utils.more import others", "assert others['rate']() == 1"),
        ("from utils.late import later", "assert later() == 1"),
    ],
)
def test_a_definition_that_nothing_names_in_code_is_reached(tmp_path, setup, proof):
    """Through a module as a value, a text, a registry that a decorator fills, or an import inside a function."""
    sources = {
        "tools": "def rate():\n    return 1\n",
        "more": "others = {}\n\n\ndef put(f):\n    others[f.__name__] = f\n\n\n@put\ndef rate():\n    return 1\n",
        "late": "def later():\n    from utils.tools import rate\n\n    return rate()\n",
    }
    other = {name: source.replace("return 1", "return 2") for name, source in sources.items()}
    assert alone(tmp_path / "a", proof, setup, **sources) != alone(tmp_path / "b", proof, setup, **other)


def test_what_moves_to_another_module_computes_the_same(tmp_path):
    kept = {"tools": "from utils.facts import one\n\n\ndef rate():\n    return one\n", "facts": "one = 1\n"}
    moved = {"tools": "from utils.far import rate\n", "far": "one = 1\n\n\ndef rate():\n    return one\n"}
    proof, setup = "assert rate() == 1", "from utils.tools import rate"
    assert alone(tmp_path / "a", proof, setup, **kept) == alone(tmp_path / "b", proof, setup, **moved)


def made_from(mutant, code):
    """The names that the cell makes from the statement that was changed; a proof and an assignment change no others."""
    place, line = code.cells.index(mutant.cell), int(mutant.change.split(":")[0])
    statements = syntax_tree(mutant.cell).body
    first = max(index for index, statement in enumerate(statements) if statement.lineno <= line)
    made = set()
    if code.statements[place][first].binds & answers_of_turns(mutant.cell):
        return made
    for statement, use in list(zip(statements, code.statements[place], strict=True))[first:]:
        if statement is statements[first] or use.needs & made:
            only_binds = place in code.proof_places or isinstance(statement, ast.Assign | ast.Expr)
            made |= use.binds if only_binds else use.binds | use.changes
        else:
            made -= use.binds
    return made & mutant.touched


def answers_of_turns(cell) -> set[str]:
    """Names that a cell uses only to try and to explain a student's answers, within @ours(...): no proof leans on them."""
    tree = syntax_tree(cell)
    turns = [d for node in tree.body if isinstance(node, ast.FunctionDef) for d in node.decorator_list]
    within = {
        name for turn in turns if isinstance(turn, ast.Call) and turn.func.id == "ours" for name in ast.walk(turn)
    }
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    return {name.id for name in names if name in within} - {name.id for name in names if name not in within}


@pytest.mark.parametrize("name", ["07_bytes_in_detail"])
def test_every_mutant_of_what_a_proof_leans_on_makes_it_stale(name):
    """The mutants by which the strength of asserts is measured."""
    [path] = [path for path in notebooks_in(ROOT / "notebooks") if path.stem == name]
    lecture = read(path)
    before, code = hashes_of(lecture), Code(lecture)
    proofs = {claim.number: claim.proof.index for claim in lecture.claims if claim.proof}
    mutants = mutants_of(code, set())
    missed, looked_at = [], []
    for mutant in mutants[:: max(1, len(mutants) // 60)]:
        raw = dict(lecture.raw, cells=list(lecture.raw["cells"]))
        raw["cells"][mutant.cell.index] = mutant.cell.raw | {"source": mutant.source}
        after = hashes_of(parsed(raw, lecture.path))
        place = code.cells.index(mutant.cell)
        users = {code.cells[user].index for user in code.users(place, made_from(mutant, code))} | {mutant.cell.index}
        leaning = [number for number, index in proofs.items() if index in users]
        looked_at += leaning
        missed += [(number, mutant.change) for number in leaning if before[number] == after[number]]
    assert missed == [] and looked_at
