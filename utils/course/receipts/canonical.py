"""Code in a canonical form: two pieces of code have one form if they differ in nothing that they compute.

Left out are comments, blanks, docstrings, what a turn is checked with, and words for a reader: what `print` and `display`
show, the messages of asserts and of raised errors. A call inside what is shown stays, since it may do something. Local
variables of functions are numbered; parameters keep their names, which callers may use.

Where something listens (a cell that catches an error and may read it, code that captures what is printed) the words
count: see LISTENING and `catches`. Where something reads source (READING_SOURCE) its text counts, comments and all.
"""

import ast
from collections.abc import Iterable, Iterator

from utils.checks.elsewhere import shape
from utils.course.notebooks.dataflow import OURS

SHOWN = {
    "print",
    "display",
    "not_verified",
    "explain_asserts",
    "settle",
}  # functions whose arguments are words for a reader
LISTENING = {"redirect_stdout", "redirect_stderr", "StringIO", "getvalue", "PIPE"}
CALLING_PROGRAMS = {
    "capture_output",
    "text",
}  # arguments of subprocess.run, of a lecture's cells; utils calls those of others so
READING_SOURCE = {"getsource", "getsourcelines", "getsourcefile", "getfile", "findsource", "__doc__"}
NAMED_AT_RUNTIME = {"locals", "vars", "eval", "exec", "dir"}  # a function that calls one may look up its locals by name
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
SCOPES = (*FUNCTIONS, *COMPREHENSIONS, ast.Lambda, ast.ClassDef)


def without_words(node: ast.stmt, words: bool = False) -> ast.stmt:
    """The statement without docstrings and, unless `words`, without what only a reader reads; `pass` if nothing is left."""
    found = _Silence(words).visit(_copy(node))
    return ast.Pass() if found is None else found


def canonical(silent: ast.stmt) -> str:
    """The form of a statement that `without_words` has returned."""
    if bare_names(silent) & NAMED_AT_RUNTIME:
        return shape(silent)
    return shape(_Locals().visit(_copy(silent)))


def _copy(node: object) -> object:
    """A copy of a syntax tree without its places; copy.deepcopy takes five times as long."""
    if isinstance(node, list):
        return [_copy(each) for each in node]
    if isinstance(node, ast.AST):
        return type(node)(**{name: _copy(value) for name, value in ast.iter_fields(node)})
    return node


def bare_names(node: ast.AST) -> set[str]:
    """The names in a piece of code, without attributes: not the eval of model.eval()."""
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def names_in(nodes: Iterable[ast.AST]) -> set[str]:
    """Every name, attribute, keyword and imported name among the nodes."""
    names = set()
    for each in nodes:
        if isinstance(each, ast.Name):
            names.add(each.id)
        elif isinstance(each, ast.Attribute):
            names.add(each.attr)
        elif isinstance(each, ast.keyword) and each.arg:
            names.add(each.arg)
        elif isinstance(each, ast.alias):
            names.add(each.name)
    return names


def catches(node: ast.AST) -> bool:
    """Whether a cell's code may read words: what a program prints, or an error's message.

    That is `raises(E, "words")`, `with raises(E) as …` and `except E as …`.
    """
    for inner in ast.walk(node):
        if isinstance(inner, ast.keyword) and inner.arg in CALLING_PROGRAMS:
            return True
        if isinstance(inner, ast.ExceptHandler) and inner.name:
            return True
        if isinstance(inner, ast.withitem) and inner.optional_vars and _calls(inner.context_expr, {"raises"}):
            return True
        if _calls(inner, {"raises"}) and len(inner.args) + len(inner.keywords) > 1:
            return True
    return False


def _calls(node: ast.AST, names: set[str]) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in names


class _Silence(ast.NodeTransformer):
    """Takes docstrings out and, unless `words`, what is said to a reader."""

    def __init__(self, words: bool):
        self.words = words

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if isinstance(node, ast.stmt | ast.ExceptHandler) and getattr(node, "body", None) == []:
            node.body = [ast.Pass()]
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        if isinstance(node.value, ast.Constant):
            return None  # a docstring, or a text that stands for a comment
        if not self.words and self._is_shown(node.value):
            calls = [self.visit(call) for call in _outer_calls(_arguments(node.value))]
            return ast.Expr(calls[0] if len(calls) == 1 else ast.Tuple(calls, ast.Load())) if calls else None
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """What our answer to a turn is decorated with, cases and sentences, changes nothing of it."""
        node.decorator_list = [each.func if _calls(each, {OURS}) else each for each in node.decorator_list]
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.Call:
        if not self.words and self._is_shown(node):
            node.args, node.keywords = list(_outer_calls(_arguments(node))), []
        return self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> ast.Assert:
        if not self.words:
            node.msg = None
        return self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.Raise:
        if not self.words and isinstance(node.exc, ast.Call):
            node.exc.args = [each for each in node.exc.args if not _is_text(each)]
        return self.generic_visit(node)

    @staticmethod
    def _is_shown(node: ast.expr) -> bool:
        return (
            _calls(node, SHOWN) and isinstance(node.func, ast.Name) and not any(k.arg == "file" for k in node.keywords)
        )


def _arguments(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _outer_calls(nodes: Iterable[ast.AST]) -> Iterator[ast.expr]:
    """The calls in these pieces of code that are inside no other; a comprehension or a lambda with a call as a whole."""
    for node in nodes:
        if isinstance(node, ast.Call) or (isinstance(node, SCOPES) and any(_outer_calls(ast.iter_child_nodes(node)))):
            yield node
        else:
            yield from _outer_calls(ast.iter_child_nodes(node))


def _is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_text(node.left) or _is_text(node.right)
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


class _Locals(ast.NodeTransformer):
    """Numbers the local variables of functions, and those of comprehensions, in the order in which they are bound."""

    def __init__(self):
        self.numbers: dict[str, str] = {}  # of the function around, by their names
        self.count = 0

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.Name(self.numbers.get(node.id, node.id), node.ctx)

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.ExceptHandler:
        node.name = self.numbers.get(node.name, node.name)
        return self.generic_visit(node)

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.Nonlocal:
        return ast.Nonlocal([self.numbers.get(name, name) for name in node.names])

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        node.decorator_list = [self.visit(each) for each in node.decorator_list]
        node.returns = node.returns and self.visit(node.returns)
        self._visit_defaults(node.args)
        parameters, others, outer = _parameters(node.args), _other_names(node.body), _nonlocal_names(node.body)
        bound = [name for name in _bound_in(node.body) if name not in parameters | others | outer]
        node.body = self._within(bound, parameters | others, node.body)
        return node

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> ast.Lambda:
        self._visit_defaults(node.args)
        [node.body] = self._within([], _parameters(node.args), [node.body])
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        for name in ("decorator_list", "bases", "keywords"):
            setattr(node, name, [self.visit(each) for each in getattr(node, name)])
        node.body = self._within([], set(_bound_in(node.body)), node.body)
        return node

    def _visit_comprehension(self, node: ast.AST) -> ast.AST:
        node.generators[0].iter = self.visit(node.generators[0].iter)
        bound = list(dict.fromkeys(name for each in node.generators for name in _stored(each.target)))
        outer, self.numbers = self.numbers, self._more(bound)
        for place, each in enumerate(node.generators):
            each.target, each.ifs = self.visit(each.target), [self.visit(test) for test in each.ifs]
            if place:
                each.iter = self.visit(each.iter)
        for name in ("elt", "key", "value"):
            if hasattr(node, name):
                setattr(node, name, self.visit(getattr(node, name)))
        self.numbers = outer
        return node

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _visit_comprehension

    def _visit_defaults(self, arguments: ast.arguments) -> None:
        arguments.defaults = [self.visit(each) for each in arguments.defaults]
        arguments.kw_defaults = [each and self.visit(each) for each in arguments.kw_defaults]

    def _within(self, bound: list[str], shadowed: set[str], body: list) -> list:
        outer = self.numbers
        self.numbers = {name: number for name, number in outer.items() if name not in shadowed}
        self.numbers = self._more(bound)
        body = [self.visit(each) for each in body]
        self.numbers = outer
        return body

    def _more(self, bound: list[str]) -> dict[str, str]:
        start, self.count = self.count, self.count + len(bound)
        return self.numbers | {name: f"·{start + place}" for place, name in enumerate(bound)}


def _parameters(arguments: ast.arguments) -> set[str]:
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return {each.arg for each in every if each}


def _of_scope(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """The nodes of a function's body that are not in a function, class or comprehension of its own."""
    for node in body:
        yield node
        if not isinstance(node, SCOPES):
            yield from _of_scope(ast.iter_child_nodes(node))


def _bound_in(body: Iterable[ast.AST]) -> list[str]:
    """The variables that a function's body assigns, in order."""
    names = []
    for node in _of_scope(body):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.append(node.id)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            names.append(node.name)
        elif isinstance(node, COMPREHENSIONS):
            names += [each.target.id for each in ast.walk(node) if isinstance(each, ast.NamedExpr)]
    return list(dict.fromkeys(names))


def _other_names(body: Iterable[ast.AST]) -> set[str]:
    """The names of a function's body that are global, or bound by more than an assignment: a function's, an import's."""
    names = set()
    for node in _of_scope(body):
        if isinstance(node, ast.Global):
            names |= set(node.names)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, ast.MatchAs | ast.MatchStar):
            names |= {node.name or ""}
        elif isinstance(node, ast.MatchMapping):
            names |= {node.rest or ""}
    return names


def _nonlocal_names(body: Iterable[ast.AST]) -> set[str]:
    return {name for node in _of_scope(body) if isinstance(node, ast.Nonlocal) for name in node.names}


def _stored(target: ast.expr) -> Iterator[str]:
    return (node.id for node in ast.walk(target) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
