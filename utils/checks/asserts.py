"""Expected errors, asserts that explain themselves, and proofs that cannot run here."""

import ast
from contextlib import contextmanager

from _pytest.assertion.rewrite import rewrite_asserts  # private to pytest: pinned, and covered by a test

NOT_VERIFIED = "not verified here:"


@contextmanager
def raises(kind: type[BaseException] | tuple[type[BaseException], ...], message: str = ""):
    """Pass if the block raises `kind` with `message` somewhere in its text; otherwise AssertionError says what happened.

    Any other exception passes through unchanged. Yields a list that holds the exception after the block.
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
    """Say that the proof in this cell could not run here; the ledger reads the line and counts the claim as unverified."""
    print(f"{NOT_VERIFIED} {reason}")


class _ExplainAsserts(ast.NodeTransformer):
    """pytest's assertion rewriting, applied to each cell."""

    def visit(self, node):
        if isinstance(node, ast.Module):
            rewrite_asserts(node, b"")
            # Its imports stand on the line of the first statement and end nowhere; IPython would end them on line 1.
            for statement in node.body:
                statement.end_lineno = getattr(statement, "end_lineno", None) or statement.lineno
        return node


def explain_asserts() -> None:
    """From here on a failing plain `assert` in this notebook shows the values it compared, as pytest does.

    Does nothing outside IPython; calling it twice is the same as calling it once.
    """
    try:
        shell = get_ipython()
    except NameError:
        return
    if not any(isinstance(t, _ExplainAsserts) for t in shell.ast_transformers):
        shell.ast_transformers.append(_ExplainAsserts())
