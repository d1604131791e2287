"""The turns of the notebooks: each takes the right answer, tells each anticipated wrong one why, and goes on untouched."""

import subprocess

import pytest
from helpers.paths import ROOT
from helpers.tried_turns import try_turns
from test_course import claim, code, markdown, trial, write

from utils.course.lint.turns import guesses_are_settled, turns_are_whole
from utils.course.mutation.mutants import Code, mutants_of
from utils.course.notebooks.length import length
from utils.course.notebooks.notebook import Lecture, notebooks_in, parsed, read
from utils.course.notebooks.tidy import FOLDED, tidy
from utils.course.notebooks.turns import turns_of
from utils.course.receipts.provenance import hashes_of
from utils.proof_text import GREEN_LINE

OURS = """\
@ours(
    cases=[{"B": 8, "T": 1024}, {"B": 3, "T": 7}],
    because={lambda B, T: SIZE * T: "The whole batch is held."},
)
def held(B, T):
    return SIZE * B * T"""
YOURS = "@your_turn\ndef held(B, T):\n    # in bytes\n    ..."
SETUP = "from utils.checks import explain_asserts, ours, settle, your_turn\nexplain_asserts()\nSIZE = 4\nunused = 1 / 2"


def lecture_with(folder, *, above=OURS, yours=YOURS, below="assert held(2, 3) == 24") -> Lecture:
    cells = [code("ours-held", above), markdown("asked", "Yours?"), code("turn-held", yours)]
    return read(trial(folder, cells, claim(1, below), setup=SETUP))


BOOKS = [path for path in notebooks_in(ROOT / "notebooks") if turns_of(read(path))]


@pytest.mark.slow
@pytest.mark.parametrize("path", BOOKS, ids=lambda path: path.stem)
def test_turns_take_right_wrong_and_untouched_answers(path, forked_python):
    script = ROOT / "tests" / "helpers" / "tried_turns.py"
    done = subprocess.run([*forked_python, script, path], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


# The same on small lectures


def test_a_turn_that_works_is_let_through(tmp_path):
    try_turns(lecture_with(tmp_path))


@pytest.mark.parametrize(
    "above",
    [
        OURS.replace("SIZE * T:", "B * T * SIZE:"),  # an anticipated wrong answer that is right
        OURS.replace("SIZE * B * T", "SIZE / 0"),  # ours raises
        OURS.replace('{"B": 8, "T": 1024}, {"B": 3, "T": 7}', '{"B": 1, "T": 7}'),  # a case that tells nothing apart
        OURS.replace('{"B": 8, "T": 1024}, {"B": 3, "T": 7}', '{"b": 1, "T": 7}'),  # and one that fits no parameter
    ],
)
def test_a_turn_that_could_not_tell_wrong_from_right_is_red(tmp_path, above):
    with pytest.raises(AssertionError) as caught:
        try_turns(lecture_with(tmp_path, above=above))
    assert caught.value.__notes__ == ["in the turn held"]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, None),
        ({"yours": YOURS.replace("...", '"""Of one batch."""\n    ...')}, None),
        ({"yours": YOURS.replace("...", "return ...")}, None),
        ({"yours": YOURS.replace("...", "return 4 * B * T")}, "cell turn-held: the body of held is not `...`"),
        (
            {"yours": "@your_turn\ndef held(B, T): ..."},
            "the dots of held stand in the line of its def: write `return ...`",
        ),
        ({"yours": YOURS.replace("...", "pass")}, "cell turn-held: the body of held is not `...`"),
        ({"yours": YOURS.replace("B, T", "B, T=3")}, "held has not the parameters that ours has in ours-held"),
        ({"yours": f"{YOURS}\nprint(held(1, 2))"}, "the turn held does not stand alone"),
        ({"yours": YOURS.replace("held", "kept")}, "has no @ours with a function kept"),
        ({"yours": "print(held(1, 2))"}, "cell ours-held: @ours of held has no @your_turn in the next code cell"),
        ({"above": OURS.replace("cases=", "tolerance=0.1) if SIZE else (")}, "has no @ours with a function held"),
        ({"above": "@ours()\ndef held(B, T):\n    return 4"}, "@ours of held has no cases=…"),
    ],
)
def test_the_lint_of_turns(tmp_path, changed, words):
    problems = turns_are_whole(lecture_with(tmp_path, **changed))
    assert problems == [] if words is None else any(words in problem for problem in problems), problems


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (["guess = ...", 'settle(guess, 1500, "bytes")'], None),
        (["guess = ...  # in bytes", "settle(guess, 1)", "guess = ...", "settle(guess, 2)"], None),
        (["guess = ..."], "cell cell-0: no settle(guess, …) below it"),
        (["settle(guess, 1500)"], "cell cell-0: settles guess, which no cell above asks for"),
        (["guess = 1500", "settle(guess, 1500)"], "cell cell-1: settles guess, which no cell above asks for"),
    ],
)
def test_the_lint_of_guesses(tmp_path, cells, words):
    path = write(tmp_path / "01_trial.ipynb", [code(f"cell-{n}", source) for n, source in enumerate(cells)])
    problems = guesses_are_settled(read(path))
    assert problems == ([] if words is None else [words])


def test_tidy_folds_ours_and_what_is_tagged_and_leaves_the_turn_in_sight(tmp_path):
    path = lecture_with(tmp_path).path
    book = read(path)
    tidy([path])
    folded = {cell.id: cell.raw["metadata"] == FOLDED for cell in read(path).code}
    assert folded == {"parameters": False, "setup": True, "ours-held": True, "turn-held": False, "proof-1-1": False}
    instrument = [*book.raw["cells"][:3], code("instrument", "x = 1", "folded"), *book.raw["cells"][3:]]
    tidy([write(path, instrument)])
    assert [cell.is_folded for cell in read(path).code if cell.id == "instrument"] == [True]


def test_a_turn_and_a_guess_take_four_minutes_each(tmp_path):
    turn, both = (
        lecture_with(tmp_path, below=below) for below in ("assert held(2, 3)", "guess = ...\nassert held(2, 3)")
    )
    assert (length(turn).turns, length(both).turns) == (1, 2)


# A proof that uses a turn's function leans on ours


def hash_of(folder, **changed) -> str:
    return hashes_of(lecture_with(folder, **changed))["1.1"]["computes"]


def test_a_proof_goes_stale_with_our_answer_and_not_with_the_words_of_its_turn(tmp_path):
    before = hash_of(tmp_path)
    assert hash_of(tmp_path, above=OURS.replace("SIZE * B * T", "SIZE * T * B")) != before
    assert hash_of(tmp_path, above=OURS.replace("The whole", "Sure, the whole")) == before
    assert hash_of(tmp_path, above=OURS.replace("1024", "1000")) == before
    assert hash_of(tmp_path, yours=YOURS.replace("in bytes", "in bytes, please")) == before
    proof = "settle(held(1, 2), 8)\nassert held(2, 3) == 24"
    assert hash_of(tmp_path, below=proof) == hash_of(tmp_path, below=proof.replace("8)", "8, 'bytes')"))


def test_mutants_change_ours_where_a_proof_leans_on_it_and_nothing_of_the_check(tmp_path):
    lecture = lecture_with(tmp_path)
    found = {mutant.cell.id: [] for mutant in mutants_of(Code(lecture), set())}
    for mutant in mutants_of(Code(lecture), set()):
        found[mutant.cell.id].append(mutant.change)
    assert set(found) == {"setup", "ours-held"} and any("* T" in change for change in found["ours-held"])
    assert not any(word in change for change in found["ours-held"] for word in ("1024", "because", "lambda"))


@pytest.mark.slow
@pytest.mark.parametrize("answer", ["...", "return 4 * T * B", "return T", "return 1 / 0"])
def test_run_all_goes_through_whatever_stands_in_a_turn(tmp_path, answer):
    """In a kernel of its own, as nbmake, papermill and `make run` have one."""
    from nbclient import NotebookClient
    from nbformat import reads

    lecture = lecture_with(tmp_path, yours=f"@your_turn\ndef held(B, T):\n    {answer}")
    book = reads(lecture.path.read_text(), as_version=4)
    NotebookClient(book, kernel_name="python3").execute()
    cells = {cell["id"]: cell["outputs"] for cell in book.cells if cell.cell_type == "code"}
    assert GREEN_LINE.search(cells["proof-1-1"][0]["text"]) and len(cells["turn-held"]) == 1
    assert parsed(book, lecture.path).claims
