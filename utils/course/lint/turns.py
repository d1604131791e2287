"""What must hold of the turns of a notebook before it runs: each is unanswered, and ours stands above it."""

import ast
from collections.abc import Iterator

from utils.course.notebooks.dataflow import OURS, called_name
from utils.course.notebooks.notebook import Lecture
from utils.course.notebooks.turns import Half, Turn, halves, turns_of


def turns_are_whole(lecture: Lecture) -> list[str]:
    """@your_turn is before a function whose body is `...`, alone in its cell. The code cell above has @ours, with cases."""
    turns = turns_of(lecture)
    answered = [turn.ours.function for turn in turns if turn.ours]
    problems = [f"cell {turn.yours.cell.id}: {why}" for turn in turns for why in _problems(turn)]
    for half in (half for cell in lecture.code for half in halves(cell, OURS)):
        if not any(ast.dump(half.function) == ast.dump(each) for each in answered):
            problems.append(f"cell {half.cell.id}: @ours of {half.name} has no @your_turn in the next code cell")
    return problems


def _problems(turn: Turn) -> Iterator[str]:
    name, function = turn.yours.name, turn.yours.function
    if len(ast.parse(turn.yours.cell.source).body) != 1:
        yield f"the turn {name} does not stand alone"
    if not _is_unanswered(turn.yours):
        yield f"the body of {name} is not `...`: an answer is stored"
    elif not turn.yours.cell.source.splitlines()[function.body[-1].lineno - 1].lstrip().startswith(("...", "return")):
        yield f"the dots of {name} stand in the line of its def: write `return ...`, or a comment in a line above them"
    if turn.ours is None:
        yield f"the code cell above it has no @ours with a function {name}"
        return
    if ast.dump(function.args) != ast.dump(turn.ours.function.args):
        yield f"{name} has not the parameters that ours has in {turn.ours.cell.id}"
    if _takes_something(turn.ours.function) and not _gives_cases(turn.ours.function):
        yield f"@ours of {name} has no cases=…, which its parameters need"


def _is_unanswered(half: Half) -> bool:
    body = half.function.body
    if ast.get_docstring(half.function, clean=False) is not None:
        body = body[1:]
    return (
        len(body) == 1 and isinstance(body[0], ast.Expr | ast.Return) and ast.unparse(body[0].value or body[0]) == "..."
    )


def _takes_something(function: ast.FunctionDef) -> bool:
    return bool(function.args.args or function.args.posonlyargs or function.args.kwonlyargs)


def _gives_cases(function: ast.FunctionDef) -> bool:
    calls = [each for each in function.decorator_list if called_name(each) == OURS]
    return any(call.args or any(each.arg == "cases" for each in call.keywords) for call in calls)


def guesses_are_settled(lecture: Lecture) -> list[str]:
    """A guess that a student is asked for, `name = ...`, is compared by `settle(name, …)` further down."""
    problems, waiting = [], {}
    for cell in lecture.code:
        try:
            tree = ast.parse(cell.source)
        except SyntaxError:
            continue  # another rule's business
        for node in tree.body:
            for call in (inner for inner in ast.walk(node) if called_name(inner) == "settle"):
                if call.args and ast.unparse(call.args[0]) not in waiting:
                    problems.append(
                        f"cell {cell.id}: settles {ast.unparse(call.args[0])}, which no cell above asks for"
                    )
                waiting[ast.unparse(call.args[0]) if call.args else ""] = None
            if isinstance(node, ast.Assign) and ast.unparse(node.value) == "...":
                waiting |= {ast.unparse(target): cell.id for target in node.targets}
    return problems + [f"cell {cell}: no settle({name}, …) below it" for name, cell in waiting.items() if cell]
