"""Which names stand for something else after a statement: what it may change of objects that exist already.

Wide on purpose: what seems to change leans on nothing, but what changes unseen would keep a stale verdict. A statement may
change x in f(x), f(x[0]), x.step(), torch.x_(x) and x[0] = 1; a statement whose value nobody keeps is there for what it
changes, which may be all that it names, unless it draws; and whoever names a function of the lecture may change what that
function changes.
What does not change anything is listed: PURE_METHODS and PURE_FUNCTIONS. An imported name is changed by an assignment to
its attributes, and by a call of it whose value nobody keeps: torch.set_num_threads(1).
"""

import ast

from utils.course.notebooks.dataflow import Use, called_name, root_of
from utils.course.receipts.canonical import FUNCTIONS, bare_names

PURE_METHODS = {
    *(
        "abs",
        "all",
        "any",
        "argmax",
        "argmin",
        "clone",
        "cos",
        "count",
        "detach",
        "diff",
        "dim",
        "data_ptr",
        "endswith",
    ),
    *(
        "element_size",
        "eq",
        "exp",
        "expand",
        "flatten",
        "format",
        "ge",
        "get",
        "gt",
        "is_contiguous",
        "isfinite",
        "isnan",
    ),
    *(
        "item",
        "items",
        "join",
        "keys",
        "le",
        "log",
        "log2",
        "log_softmax",
        "lower",
        "lt",
        "max",
        "mean",
        "median",
        "min",
    ),
    *("ne", "nonzero", "norm", "numel", "permute", "pow", "prod", "removeprefix", "removesuffix", "replace", "reshape"),
    *("rstrip", "sin", "size", "softmax", "split", "splitlines", "sqrt", "square", "squeeze", "startswith", "std"),
    *(
        "storage_offset",
        "stride",
        "strip",
        "sum",
        "tolist",
        "transpose",
        "unsqueeze",
        "untyped_storage",
        "values",
        "var",
    ),
    *("view", "numpy"),
}
PURE_FUNCTIONS = {
    *(
        "abs",
        "all",
        "any",
        "bool",
        "complex",
        "dict",
        "divmod",
        "enumerate",
        "float",
        "frozenset",
        "getattr",
        "hasattr",
    ),
    *("hash", "id", "int", "isinstance", "issubclass", "len", "list", "max", "min", "pow", "print", "range", "repr"),
    *("reversed", "round", "set", "sorted", "str", "sum", "tuple", "type", "zip"),
}


class Changes:
    """Asked for one statement of a lecture after the other.

    imported: the names that the lecture's imports bind; drawing: those of them that are modules of pictures.
    """

    def __init__(self, imported: set[str], drawing: set[str]):
        self.imported, self.drawing = imported, drawing
        self._of_functions: dict[str, set[str]] = {}  # the global names that each function of the lecture changes
        self._pure_functions: set[str] = set()  # those that change nothing
        self._held: dict[str, set[str]] = {}  # by the name of an object, the names of those that it may hold

    def of(self, statement: ast.stmt) -> set[str]:
        """The names whose objects the statement may change, by one of their names or through what holds them."""
        if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
            self._of_functions[statement.name] = self._of_body(statement)
            return set().union(*(bare_names(each) for each in statement.decorator_list)) - self.imported
        changed = self._of(statement)
        for node in ast.walk(statement):
            if isinstance(node, ast.Assign):
                self._hold({name for target in node.targets for name in bare_names(target)}, node.value)
            elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value:
                self._hold(bare_names(node.target), node.value)
            elif isinstance(node, ast.For | ast.comprehension):
                self._hold(bare_names(node.target), node.iter)
        return changed | set().union(*(self._within(name) for name in changed))

    def _hold(self, names: set[str], value: ast.expr) -> None:
        held = bare_names(value) - self.imported - self._of_functions.keys()
        for name in names:
            self._held[name] = self._held.get(name, set()) | held - {name}

    def _within(self, name: str) -> set[str]:
        """All that an object may hold, directly or not."""
        found: set[str] = set()
        wanted = {name}
        while wanted:
            found |= wanted
            wanted = set().union(*(self._held.get(each, set()) for each in wanted)) - found
        return found

    def _of(self, statement: ast.stmt) -> set[str]:
        found: set[str] = set()
        certain: set[str] = set()  # also of imported names
        for node in ast.walk(statement):
            if isinstance(node, ast.Expr) and root_of(node.value) not in self.drawing:
                found |= bare_names(node) - _parameters_of_lambdas(node)
                certain |= {root_of(node.value)}
            elif isinstance(node, ast.Call):
                found |= set() if called_name(node) in self._pure_functions else _changed_by(node)
            elif isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
                certain |= {root_of(node)}
            elif isinstance(node, ast.Name):
                certain |= self._of_functions.get(node.id, set())
        functions = self._of_functions.keys()  # a call of one changes what it changes, not the function
        return (found - self.imported - functions | certain) - {""}

    def _of_body(self, definition: ast.stmt) -> set[str]:
        """The names that are global in a function, or in a class's methods, and that its body changes or assigns."""
        use = Use([definition])
        assigned = {name for node in ast.walk(definition) if isinstance(node, ast.Global) for name in node.names}
        changed = set().union(*(self._of(node) for node in definition.body))
        if isinstance(definition, FUNCTIONS) and not (changed | assigned or _adds_in_place(definition)):
            self._pure_functions.add(definition.name)
        else:
            self._pure_functions.discard(definition.name)
        return changed & use.needs | assigned


def _changed_by(call: ast.Call) -> set[str]:
    """The names that a call may change: what a function is given, and what a method belongs to."""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    given = [each.value if isinstance(each, ast.Starred) else each for each in given]
    places = {root_of(each) for each in given if isinstance(each, ast.Name | ast.Attribute | ast.Subscript)}
    if isinstance(call.func, ast.Attribute):
        method = call.func.attr
        owner = set() if method in PURE_METHODS else {root_of(call.func.value)}
        return owner | (places if method.endswith("_") else set())
    return set() if isinstance(call.func, ast.Name) and call.func.id in PURE_FUNCTIONS else places


def _adds_in_place(definition: ast.stmt) -> bool:
    return any(isinstance(node, ast.AugAssign) for node in ast.walk(definition))


def _parameters_of_lambdas(node: ast.AST) -> set[str]:
    lambdas = (each for each in ast.walk(node) if isinstance(each, ast.Lambda))
    return {argument.arg for each in lambdas for argument in each.args.args}
