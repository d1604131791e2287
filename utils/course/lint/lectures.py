"""What must hold of a lecture before it runs. Each rule takes a Lecture and returns its problems, a sentence each."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from IPython.core.inputtransformer2 import TransformerManager

from utils.checks.shown import names_in
from utils.course.lint.program import the_program_is_plain, the_program_stands_where_it_grows
from utils.course.lint.turns import guesses_are_settled, turns_are_whole
from utils.course.lint.words import strangers
from utils.course.notebooks import program
from utils.course.notebooks.colab_links import address_of, cell_source, title_source
from utils.course.notebooks.dataflow import Use, called_name
from utils.course.notebooks.length import length
from utils.course.notebooks.notebook import CLAIM, DEEPER, FOLD, HOST, SIGNS, Cell, Claim, Lecture, read, readable
from utils.course.notebooks.tidy import FOLDED, METADATA, changes_of
from utils.proof_text import ASSERT_FUNCTIONS

OF_PROOFS = {"gpu", "full", "compiler", "real-data", "linux", "host"}
TAGS = OF_PROOFS | {"parameters", FOLD, program.BEGIN, program.END}
SECTIONS = (
    "How to say it out loud",
    "What this does not mean",
    "What did not work",
    "Takeaways",
    "Questions",
    "Where to read on",
)
CALCULATOR = 'from utils.napkin import calculators\n\ncalculators.show("{name}")'
INSTALLS = re.compile(r"^\s*[!%]+\s*(?:\S*/)?(?:python\S*\s+-m\s+)?(?:pip|conda|mamba|uv|apt|apt-get)\b", re.MULTILINE)
PATH_EDIT = re.compile(r"\bsys\.path\s*(?:\.\s*(?:insert|append|extend|remove|pop|clear)\b|\[.*\]\s*=[^=]|\+?=[^=])")
INTO_A_NOTEBOOK = re.compile(r"\]\(((?![a-z]+:)[^)#\s]*\.ipynb|)#([^)\s]+)\)")  # (file or "", place in it)
REMOTE_IMAGE = re.compile(
    r"!\[[^\]]*\]\(\s*https?:|<img[^>]*\bsrc\s*=\s*[\"']?https?:|\bImage\(\s*(?:url\s*=|[\"']https?:)"
)


# Claims and proofs


def claims_are_well_formed(lecture: Lecture) -> list[str]:
    """A cell that starts a claim in any spelling is one that the ledger reads, says something, and makes one claim."""
    problems = []
    heads = {claim.cell.index for claim in lecture.claims}
    for cell in lecture.cells:
        starts = re.findall(rf"^\W*(?:{'|'.join(SIGNS)})\s+(?:\d+|C)[.-]\d+", cell.source, re.MULTILINE)
        if cell.kind == "markdown" and (len(starts) > 1 or (starts and cell.index not in heads)):
            problems.append(
                f"cell {cell.id}: one claim a cell, which starts with '**Claim N.M.**', '**Folklore N.M.**' or "
                "'**Misconception N.M.**'"
            )
    problems += [f"claim {c.number} says nothing after its number" for c in lecture.claims if not c.text]
    return problems


def claims_are_numbered_in_order(lecture: Lecture) -> list[str]:
    """They are N.1, N.2, … without a gap, N being the lecture's number; in deeper/ they begin at N.101, N.201, …"""
    if lecture.number is None:
        return [f"{lecture.path.name}: the name starts with the lecture's two digits and an underscore"]
    first = lecture.claims[0].position if lecture.deeper and lecture.claims else 1
    if lecture.deeper and (first < 100 or first % 100 != 1):
        return [f"the first claim of a notebook in deeper/ is {lecture.number}.101 or {lecture.number}.201, …"]
    expected = [f"{lecture.number}.{first + n}" for n in range(len(lecture.claims))]
    pairs = zip(lecture.claims, expected, strict=True)
    return [f"claim {claim.number} stands where {wanted} should" for claim, wanted in pairs if claim.number != wanted]


def every_claim_has_a_proof(lecture: Lecture) -> list[str]:
    """The next cell is code and asserts something that can be false, whatever the machine (but for tagged proofs)."""
    return [f"claim {claim.number}: {why}" for claim in lecture.claims if (why := _unproved(claim))]


def green_lines_name_what_they_compare(lecture: Lecture) -> list[str]:
    """The line that a proof prints begins with its first assert: `76 = 76` would tell nobody what is 76."""
    problems = []
    for claim in lecture.claims:
        tree = tree_of(claim.proof) if claim.proof else None
        checks = [node for node in ast.walk(tree) if _shows_something(node)] if tree else []
        first = min(checks, key=lambda node: node.lineno, default=None)
        if first and not isinstance(first, ast.With) and not names_in(_shown(first)):  # raises(…) shows the error
            problems.append(
                f"claim {claim.number}: {ast.unparse(first)!r} names nothing that it compares: name a value"
            )
    return problems


def _shows_something(node: ast.AST) -> bool:
    return isinstance(node, ast.Assert) or (isinstance(node, ast.With | ast.Expr) and _is_check(node))


def _shown(check: ast.Assert | ast.Expr) -> ast.expr:
    """What the line shows of an assert: its test, or the first of several joined by `and`; or the arguments of a call."""
    if isinstance(check, ast.Expr):
        return ast.Tuple(check.value.args[:2], ast.Load())
    return check.test.values[0] if isinstance(check.test, ast.BoolOp) else check.test


def _unproved(claim: Claim) -> str:
    if claim.proof is None:
        return "the next cell is no code cell"
    tree = tree_of(claim.proof)
    if tree is None:
        return "its proof is not Python"
    if _check_or_call_one(tree.body, tree, inside_if=bool(claim.proof.tags)):
        return ""
    if _check_or_call_one(tree.body, tree, inside_if=True):
        return "all its asserts stand under an if, and no tag says so"
    return "its proof contains no assert that could fail"


def _check_or_call_one(body: list[ast.stmt], tree: ast.Module, inside_if: bool) -> bool:
    """Whether `body` checks something, or calls a function of its cell `tree`, as a statement, that does."""
    if any(_checks(body, inside_if)):
        return True
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    found = [node for node in body if not isinstance(node, ast.FunctionDef | ast.ClassDef)]
    nested = [inner for node in found if isinstance(node, ast.If) and inside_if for inner in node.body + node.orelse]
    called = [functions.get(called_name(node.value)) for node in found + nested if isinstance(node, ast.Expr)]
    return any(any(_checks(function.body, inside_if=True)) for function in called if function)


def _checks(body: list[ast.stmt], inside_if: bool) -> Iterator[ast.stmt]:
    """The statements in `body` that check something, not those in functions that may never be called."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if isinstance(node, ast.If) and not inside_if:
            continue
        if _is_check(node):
            yield node
        for name in ("body", "orelse", "finalbody"):
            yield from _checks(getattr(node, name, []), inside_if)


def _is_check(node: ast.stmt) -> bool:
    if isinstance(node, ast.Assert):
        return _can_be_false(node.test)
    if isinstance(node, ast.With):
        return any(called_name(item.context_expr) == "raises" for item in node.items)
    return isinstance(node, ast.Expr) and called_name(node.value) in ASSERT_FUNCTIONS


def _can_be_false(test: ast.expr) -> bool:
    """Whether an assert's test looks at anything: not at constants alone, a tuple, or a name compared with itself."""
    if isinstance(test, ast.Tuple | ast.List) or not any(isinstance(n, ast.Name | ast.Call) for n in ast.walk(test)):
        return False
    if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Eq | ast.Is) and len(test.ops) == 1:
        same = ast.dump(test.left) == ast.dump(test.comparators[0])
        return not same or any(isinstance(n, ast.Call) for n in ast.walk(test))
    return True


# Tags


def tags_are_known(lecture: Lecture) -> list[str]:
    """Only the course's own tags, and those about proofs only on proofs."""
    proofs = {claim.proof.index for claim in lecture.claims if claim.proof}
    problems = []
    for cell in lecture.cells:
        strange = set(cell.tags) - TAGS
        if strange:
            problems.append(
                f"cell {cell.id}: unknown tag {', '.join(sorted(strange))}; known are {', '.join(sorted(TAGS))}"
            )
        if (set(cell.tags) & OF_PROOFS) and cell.index not in proofs:
            problems.append(f"cell {cell.id}: only a proof is tagged gpu, full, compiler, real-data, linux or host")
    return problems


def tags_say_what_proofs_do(lecture: Lecture) -> list[str]:
    """A tagged proof tests its condition and says not_verified otherwise; an untagged cell never says it."""
    problems = []
    proofs = {claim.proof.index for claim in lecture.claims if claim.proof}
    for cell in lecture.code:
        tree = tree_of(cell)
        if tree is None:
            continue  # another rule's business
        says = any(called_name(node) == "not_verified" for node in ast.walk(tree) if isinstance(node, ast.expr))
        tags = set(cell.tags) & (OF_PROOFS - {HOST})
        if says and cell.index not in proofs:
            problems.append(f"cell {cell.id}: not_verified is for proofs, which the ledger counts")
        elif says and not tags:
            problems.append(f"cell {cell.id}: calls not_verified without a tag gpu, full, compiler, real-data or linux")
        elif cell.index in proofs:
            problems += [f"cell {cell.id}: {why}" for tag in sorted(tags) if (why := _wrong_tag(tag, tree))]
    return problems


def _wrong_tag(tag: str, tree: ast.Module) -> str:
    """Why the proof does not do what its tag says, "" if it does."""
    asks, words = {
        "gpu": (_asks_for_cuda, 'if device.type == "cuda":'),
        "full": (_asks_for_full, "if full:"),
        "compiler": (_asks_for_compiler, "if compiler:"),
        "linux": (_asks_for_linux, 'if sys.platform == "linux":'),
        "real-data": (lambda test: True, "if …:"),
        "host": (None, ""),
    }[tag]
    if asks is None:
        return ""  # it runs anywhere; host_proofs_say_why looks at it
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and asks(node.test) and _check_or_call_one(node.body, tree, inside_if=True):
            otherwise = (inner for child in node.orelse for inner in ast.walk(child))
            if any(called_name(inner) == "not_verified" for inner in otherwise if isinstance(inner, ast.expr)):
                return ""
    return f"tagged {tag}, so its asserts stand under `{words}` with not_verified(…) in the else"


def _asks_for_cuda(test: ast.expr) -> bool:
    return any(ast.unparse(node) == "device.type == 'cuda'" for node in _conditions(test))


def _asks_for_linux(test: ast.expr) -> bool:
    return any(ast.unparse(node) == "sys.platform == 'linux'" for node in _conditions(test))


def _asks_for_full(test: ast.expr) -> bool:
    return any(isinstance(node, ast.Name) and node.id == "full" for node in _conditions(test))


def _asks_for_compiler(test: ast.expr) -> bool:
    return any(isinstance(node, ast.Name) and node.id == "compiler" for node in _conditions(test))


def _conditions(test: ast.expr) -> list[ast.expr]:
    """What must all be true for `test` to be true."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return [part for value in test.values for part in _conditions(value)]
    return [test]


def host_proofs_say_why(lecture: Lecture) -> list[str]:
    """A proof that stays on the host has the reason in its metadata, in a phrase; no other cell has one."""
    problems = []
    for cell in lecture.cells:
        reason = cell.raw.get("metadata", {}).get(HOST)
        if (HOST in cell.tags) != bool(reason):
            problems.append(f'cell {cell.id}: the tag host and its reason, "host": "…" in the metadata, stand together')
        elif reason and not (isinstance(reason, str) and " " in reason.strip()):
            problems.append(f"cell {cell.id}: its reason for host is no phrase")
    return problems


def no_assert_spares_a_gpu(lecture: Lecture) -> list[str]:
    """No assert is true because of the device: `assert x or device.type == "cuda"` proves nothing on a GPU."""
    return [
        f"cell {cell.id}: an assert that {ast.unparse(test)!r} makes true: assert each device's answer instead"
        for cell in lecture.code
        for node in ast.walk(tree_of(cell) or ast.Module([], []))
        if isinstance(node, ast.Assert) and isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.Or)
        for test in node.test.values
        if "device.type" in ast.unparse(test)
    ]


def gpu_proofs_leave_no_names(lecture: Lecture) -> list[str]:
    """What runs on CUDA alone stands in a function: a name that it left behind would change later cells there, unseen."""
    problems = []
    for cell in lecture.code:
        for node in (tree_of(cell) or ast.Module([], [])).body:
            if isinstance(node, ast.If) and _asks_for_cuda(node.test):
                names = Use(node.body).binds
                if names:
                    problems.append(f"cell {cell.id}: {', '.join(sorted(names))} bound on CUDA alone: use a function")
    return problems


# The form


def ids_are_readable(lecture: Lecture) -> list[str]:
    """Each cell has an id of its own, in words; claims and proofs are named by their number."""
    problems = [f"cell {c.index}: the id {c.id!r} is not in words" for c in lecture.cells if not readable(c.id)]
    problems += [f"{n} cells have the id {name!r}" for name, n in Counter(c.id for c in lecture.cells).items() if n > 1]
    for claim in lecture.claims:
        number = f"{claim.lecture}-{claim.position}"
        if claim.cell.id != f"claim-{number}":
            problems.append(f"claim {claim.number}: its id is {claim.cell.id!r}, not 'claim-{number}'")
        if claim.proof and claim.proof.id != f"proof-{number}":
            problems.append(f"claim {claim.number}: its proof's id is {claim.proof.id!r}, not 'proof-{number}'")
    return problems


def nothing_is_stored_but_text(lecture: Lecture) -> list[str]:
    """No outputs, no counts, no metadata but kernelspec, language_info, tags and the reason of a host proof."""
    problems = [f"cell {c.id}: stored with outputs" for c in lecture.code if c.raw.get("outputs")]
    problems += [f"cell {c.id}: stored with a count" for c in lecture.code if c.raw.get("execution_count") is not None]
    for cell in lecture.cells:
        extra = sorted(set(cell.raw.get("metadata", {})) - {"tags", "host", "name", *FOLDED})
        if extra:
            problems.append(f"cell {cell.id}: metadata {', '.join(extra)}")
    if lecture.raw.get("metadata") != METADATA:
        problems.append(f"the notebook's metadata is not exactly {METADATA}")
    return problems


def is_tidy(lecture: Lecture) -> list[str]:
    """`python -m utils.course tidy` would change nothing."""
    return [f"not tidy: {change}" for change in changes_of(lecture.path)]


def title_comes_first(lecture: Lecture) -> list[str]:
    """The first cell is prose that starts with the lecture's title."""
    first = lecture.cells[0] if lecture.cells else None
    good = first is not None and first.kind == "markdown" and first.source.startswith("# ")
    return [] if good else ["the first cell is not markdown that starts with '# ' and the title"]


def colab_comes_before_all_code(lecture: Lecture) -> list[str]:
    """Right after the title stands the cell that Colab needs, as `make badges` writes it, and so does the title's link."""
    return colab_problems(lecture, "notebooks")


def colab_problems(book: Lecture, folder: str) -> list[str]:
    """What is not as `make badges` writes it in a notebook that Colab opens from `folder`."""
    address = address_of()
    first, second = (*book.cells, None, None)[:2]
    path = f"{folder}/{DEEPER}/{book.path.name}" if book.deeper else f"{folder}/{book.path.name}"
    problems = []
    if second is None or not second.is_colab or second.source != cell_source(path, address):
        problems.append("the second cell is not Colab's as `make badges` writes it: call that")
    if first is not None and first.source != title_source(first.source, path, address):
        problems.append("the title's link to Colab is not as `make badges` writes it: call that")
    return problems


def parameters_are_there_where_used(lecture: Lecture) -> list[str]:
    """Where a lecture has a long form: one cell tagged `parameters` with `full = False`, the first code but Colab's."""
    tagged = [cell for cell in lecture.code if "parameters" in cell.tags]
    uses = any(isinstance(n, ast.Name) and n.id == "full" for c in lecture.code if c not in tagged for n in _names(c))
    if len(tagged) != uses:
        return [f"{len(tagged)} cells are tagged parameters, and the name full is {'' if uses else 'not '}used"]
    if not uses:
        return []
    own = [cell for cell in lecture.code if not cell.is_colab]
    problems = [] if tagged[0] is own[0] else ["the parameters cell is not the first code cell"]
    tree = tree_of(tagged[0])
    if tree is None or not any(ast.unparse(node) == "full = False" for node in tree.body):
        problems.append("the parameters cell does not say `full = False`")
    return problems


def _names(cell: Cell) -> Iterator[ast.AST]:
    return ast.walk(tree_of(cell) or ast.Module([], []))


def sections_are_there(lecture: Lecture) -> list[str]:
    """Every closing section is there, and answers are folded away: in lectures alone."""
    if lecture.deeper or lecture.number is None:
        return []
    missing = [f"no section {name!r}" for name in SECTIONS if name not in _sections(lecture)]
    if missing:
        return missing
    problems = []
    questions = "".join(cell.source for cell in _section_cells(lecture, "Questions"))
    if "<details>" not in questions or questions.count("<details>") != questions.count("</details>"):
        problems.append("'Questions' has no answers folded between <details> and </details>")
    return problems


def _sections(lecture: Lecture) -> dict[str, int]:
    """The closing sections that are there, with the index of the cell that each starts in."""
    found = {}
    for cell in lecture.cells:
        for name in SECTIONS:
            head = rf"^(?:#+\s*|\*\*){re.escape(name)}\b"
            if cell.kind == "markdown" and re.search(head, cell.source, re.MULTILINE | re.IGNORECASE):
                found[name] = cell.index
    return found


def _section_cells(lecture: Lecture, name: str) -> list[Cell]:
    starts = _sections(lecture)
    end = min((index for index in starts.values() if index > starts[name]), default=len(lecture.cells))
    return list(lecture.cells[starts[name] : max(end, starts[name] + 1)])


def pictures_are_read_aloud(lecture: Lecture) -> list[str]:
    """The cell after a picture is prose."""
    return [
        f"cell {cell.id}: no prose after it reads the picture aloud"
        for cell, after in zip(lecture.cells, [*lecture.cells[1:], None], strict=True)
        if cell.kind == "code" and cell.id.startswith("picture-")
        if after is None or after.kind != "markdown" or CLAIM.match(after.source)
    ]


def calculators_are_introduced(lecture: Lecture) -> list[str]:
    """Before a calculator stands prose that asks for a guess; its cell imports it, shows it and does nothing else."""
    problems = []
    for before, cell in zip([None, *lecture.cells[:-1]], lecture.cells, strict=True):
        if not cell.is_calculator:
            continue
        name = cell.id.removeprefix("calculator-")
        if before is None or before.kind != "markdown" or "?" not in before.source or CLAIM.match(before.source):
            problems.append(f"cell {cell.id}: no prose before it asks what to guess")
        if cell.source != CALCULATOR.format(name=name):
            problems.append(f"cell {cell.id}: not exactly {CALCULATOR.format(name=name)!r}")
    return problems


# An evening


def says_its_minutes(lecture: Lecture) -> list[str]:
    """Its first cell says how many minutes it takes to read."""
    if lecture.deeper or lecture.number is None:
        return []
    minutes = length(lecture).rounded_minutes
    told = re.search(r"about (\d+) minutes", lecture.cells[0].source)
    return [] if told and int(told[1]) == minutes else [f"the first cell does not say 'about {minutes} minutes'"]


def folklore_names_who_tells_it(lecture: Lecture) -> list[str]:
    """With a link; what has none is a misconception, or no folklore."""
    told = [claim for claim in lecture.claims if claim.kind == "Folklore" and "](http" not in claim.cell.source]
    return [f"folklore {claim.number} links nobody who tells it" for claim in told]


def words_are_the_fields(lecture: Lecture) -> list[str]:
    """None of the course's former private words."""
    return [f"cell {cell.id}: {word!r}: {name}" for cell in lecture.cells for word, name in strangers(cell.source)]


# What has no place in a lecture


def code_is_plain_python(lecture: Lecture) -> list[str]:
    """Every code cell parses; nothing is installed, hidden, star-imported or put on sys.path."""
    problems = []
    for cell in lecture.code:
        tree = tree_of(cell)
        if tree is None:
            problems.append(f"cell {cell.id}: not Python")
            continue
        if INSTALLS.search(cell.source):
            problems.append(f"cell {cell.id}: installs something; requirements.txt does that")
        if re.search(r"^\s*%%", cell.source):
            problems.append(f"cell {cell.id}: a cell magic can hide what the cell does")
        if PATH_EDIT.search(cell.source) and not cell.is_colab:  # whose text another rule fixes
            problems.append(f"cell {cell.id}: edits sys.path; the package is installed")
        if any(isinstance(n, ast.ImportFrom) and n.names[0].name == "*" for n in ast.walk(tree)):
            problems.append(f"cell {cell.id}: star import")
        if any(_hides_warnings(node) for node in ast.walk(tree)):
            problems.append(f"cell {cell.id}: hides warnings")
    return problems


def _hides_warnings(node: ast.AST) -> bool:
    """A call of a warnings filter whose action is not to show or to raise."""
    if called_name(node) not in ("filterwarnings", "simplefilter"):
        return False
    action = node.args[0] if node.args else next((k.value for k in node.keywords if k.arg == "action"), None)
    return not (isinstance(action, ast.Constant) and action.value in ("always", "error"))


def links_to_cells_land(lecture: Lecture) -> list[str]:
    """A link into this notebook or another names a cell or a heading that is there, as JupyterLab understands it."""
    problems = []
    for cell in lecture.cells:
        for address, place in INTO_A_NOTEBOOK.findall(cell.source if cell.kind == "markdown" else ""):
            path = (lecture.path.parent / address).resolve() if address else lecture.path
            if place not in _places_in(path):
                problems.append(
                    f"cell {cell.id}: {path.name} has no {place} (a cell is #cell-id=NAME, a heading #Its-words)"
                )
    return problems


@cache
def _places_in(path: Path) -> frozenset[str]:
    """What JupyterLab can scroll to in a notebook: its cells, and its headings by their words."""
    cells = read(path).cells if path.exists() else ()
    headings = [words for cell in cells for words in re.findall(r"^#+ (.+)$", cell.source, re.MULTILINE)]
    return frozenset(f"cell-id={cell.id}" for cell in cells) | {words.replace(" ", "-") for words in headings}


def images_are_local(lecture: Lecture) -> list[str]:
    """No picture is fetched from the network."""
    return [f"cell {cell.id}: a remote image" for cell in lecture.cells if REMOTE_IMAGE.search(cell.source)]


def tree_of(cell: Cell) -> ast.Module | None:
    """The cell's syntax tree, IPython's own syntax translated; None if it is not Python."""
    try:
        return ast.parse(TransformerManager().transform_cell(cell.source))
    except SyntaxError:
        return None


RULES = (  # for a lecture
    claims_are_well_formed,
    claims_are_numbered_in_order,
    every_claim_has_a_proof,
    green_lines_name_what_they_compare,
    tags_are_known,
    tags_say_what_proofs_do,
    host_proofs_say_why,
    no_assert_spares_a_gpu,
    gpu_proofs_leave_no_names,
    ids_are_readable,
    nothing_is_stored_but_text,
    is_tidy,
    title_comes_first,
    colab_comes_before_all_code,
    parameters_are_there_where_used,
    sections_are_there,
    pictures_are_read_aloud,
    calculators_are_introduced,
    turns_are_whole,
    guesses_are_settled,
    the_program_stands_where_it_grows,
    the_program_is_plain,
    says_its_minutes,
    folklore_names_who_tells_it,
    words_are_the_fields,
    code_is_plain_python,
    links_to_cells_land,
    images_are_local,
)


NOTEBOOK_RULES = (  # for a notebook that is no lecture
    ids_are_readable,
    nothing_is_stored_but_text,
    is_tidy,
    title_comes_first,
    colab_comes_before_all_code,
    pictures_are_read_aloud,
    calculators_are_introduced,
    turns_are_whole,
    guesses_are_settled,
    the_program_stands_where_it_grows,
    the_program_is_plain,
    words_are_the_fields,
    code_is_plain_python,
    links_to_cells_land,
    images_are_local,
)


def problems_of(lecture: Lecture) -> list[str]:
    """Everything that any rule finds, in order."""
    return [problem for rule in RULES for problem in rule(lecture)]
