"""Expected errors, asserts that explain themselves, and proofs that cannot run here."""

from contextlib import contextmanager

from utils.checks.elsewhere import sentences
from utils.checks.explained import EXPLAINED, VARIABLE, ExplainAsserts, explain
from utils.proof_text import NOT_VERIFIED


@contextmanager
def raises(kind: type[BaseException] | tuple[type[BaseException], ...], message: str = ""):
    """Pass if the block raises `kind` with `message` in its text; otherwise raise AssertionError that says what happened.

    What is no Exception, an interrupt for example, propagates. Yields a list that holds the exception after the block.
    """
    caught: list[BaseException] = []
    names = " or ".join(k.__name__ for k in (kind if isinstance(kind, tuple) else (kind,)))
    try:
        yield caught
    except kind as error:
        if message not in str(error):
            raise AssertionError(f"expected {message!r} in the error, got {type(error).__name__}: {error}") from error
        caught.append(error)
        words = str(error).strip().splitlines() or [""]
        text = f"{type(error).__name__}: {words[0]}"[:80]
        EXPLAINED.note(text, text)
    except Exception as error:
        raise AssertionError(f"expected {names}, got {type(error).__name__}: {error}") from error
    else:
        raise AssertionError(f"expected {names}, but nothing was raised")


def not_verified(reason: str) -> None:
    """Print that the proof in this cell could not run here, and what it compared on the GPUs with a receipt.

    Such as "○ 8.12  needs a CUDA GPU. On an H200 (2026-11-27): ratio 0.21 < 0.5". The ledger reads this line: the claim is
    not verified.
    """
    number = f"{EXPLAINED.number}  " if EXPLAINED.number else ""
    print(f"{NOT_VERIFIED} {number}{'. '.join([reason, *sentences(EXPLAINED.source)])}")


def explain_asserts() -> None:
    """Make the asserts of this notebook explain themselves: a false one says first what it claimed and what was measured,
    and a cell whose asserts all pass prints one line with what they compared.

    Does nothing outside IPython. A second call changes nothing.
    """
    try:
        shell = get_ipython()
    except NameError:
        return
    if not any(isinstance(transformer, ExplainAsserts) for transformer in shell.ast_transformers):
        shell.ast_transformers.append(ExplainAsserts())
        shell.user_ns[VARIABLE] = EXPLAINED
        shell.events.register("pre_run_cell", EXPLAINED.begin)
        shell.events.register("post_run_cell", EXPLAINED.end)
        shell.set_custom_exc((AssertionError,), explain)
