"""Expected errors, asserts that explain themselves, and proofs that cannot run here."""

import ast
from contextlib import contextmanager

from _pytest.assertion.rewrite import rewrite_asserts  # private to pytest: pinned, and covered by a test

NOT_VERIFIED = "not verified here:"


@contextmanager
def raises(kind: type[BaseException] | tuple[type[BaseException], ...], message: str = ""):
    """Pass if the block raises `kind` with `message` in its text; otherwise raise AssertionError that says what happened.

    Any other exception propagates unchanged. Yields a list that holds the exception after the block.
    """
    caught: list[BaseException] = []
    try:
        yield caught
    except kind as error:
        if message not in str(error):
            raise AssertionError(f"expected {message!r} in the error, got {type(error).__name__}: {error}") from error
        caught.append(error)
    else:
        names = " or ".join(k.__name__ for k in (kind if isinstance(kind, tuple) else (kind,)))
        raise AssertionError(f"expected {names}, but nothing was raised")


def not_verified(reason: str) -> None:
    """Print that the proof in this cell could not run here. The ledger reads this line: the claim is not verified."""
    print(f"{NOT_VERIFIED} {reason}")


class _ExplainAsserts(ast.NodeTransformer):
    """pytest's assertion rewriting, applied to each cell."""

    def visit(self, node):
        if isinstance(node, ast.Module):
            rewrite_asserts(node, b"")
            # pytest adds imports on the line of the first statement, without an end line; IPython would take line 1.
            for statement in node.body:
                statement.end_lineno = getattr(statement, "end_lineno", None) or statement.lineno
        return node


def explain_asserts() -> None:
    """Make every failing `assert` in this notebook show the values that it compared, as pytest does.

    Does nothing outside IPython. A second call changes nothing.
    """
    try:
        shell = get_ipython()
    except NameError:
        return
    if not any(isinstance(t, _ExplainAsserts) for t in shell.ast_transformers):
        shell.ast_transformers.append(_ExplainAsserts())
