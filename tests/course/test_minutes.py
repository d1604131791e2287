"""How long a lecture takes, and that its first cell says so."""

import pytest
from test_course import claim, code, markdown, write

from utils.course.notebooks.length import length, measure, with_minutes
from utils.course.notebooks.notebook import load, read, text_of
from utils.course.notebooks.tidy import FOLDED, changes_of, tidy


def cells(words: int = 0, lines: int = 0, folded: int = 0, claims: int = 1, turns: int = 0) -> list[dict]:
    """Of a lecture with these, beside its title; each claim has 11 words and, in its proof, one line."""
    asked = "@your_turn\ndef stride(shape):\n    ...\n"
    return [
        markdown("title", "# Trial\n\nIt takes about 5 minutes."),
        markdown("prose", "word " * words),
        code("seen", "x = 1\n\n" * lines),
        code("hidden", "x = 1\n" * folded) | {"metadata": FOLDED},
        *(code(f"turn-{n}", asked) for n in range(turns)),
        *(cell for n in range(claims) for cell in claim(n + 1, "assert 1")),
    ]


@pytest.mark.parametrize(
    ("more", "minutes"),
    [({"words": 1500}, 10), ({"lines": 80}, 10), ({"folded": 80}, 0), ({"turns": 8}, 8 * (4 + 3 / 8))],
)
def test_prose_visible_code_and_turns_take_their_minutes(tmp_path, more, minutes):
    bare, longer = (read(write(tmp_path / "01_trial.ipynb", cells(**own))) for own in ({}, more))
    assert length(longer).minutes - length(bare).minutes == pytest.approx(minutes)


def test_a_claim_takes_two_minutes_beside_its_words_and_its_proof(tmp_path):
    one, eleven = (read(write(tmp_path / "01_trial.ipynb", cells(claims=n))) for n in (1, 11))
    words = len(["Claim", "1.1.", "The", "sentence", "of", "claim", "1", "has", "a", "number", "in", "it.", "More."])
    assert length(eleven).minutes - length(one).minutes == pytest.approx(10 * (2 + words / 150 + 1 / 8))


def test_of_the_program_what_the_lecture_adds_takes_time(tmp_path):
    """A student knows it as it begins; where it begins for the first time, all of it counts."""
    begin, end = code("begin", "x = 1\ny = 2", "program-begin"), code("end", "x = 1\nnew = 3\ny = 2", "program-end")
    lines = [length(read(write(tmp_path / "01_trial.ipynb", program))).lines for program in ([begin, end], [end])]
    assert lines == [1, 3]


def test_tidy_writes_the_minutes_in_fives_where_the_first_cell_of_a_lecture_says_them(tmp_path):
    path = write(tmp_path / "01_trial.ipynb", cells(words=3000))
    assert "cell title: minutes written" in changes_of(path)
    tidy([path])
    assert read(path).cells[0].source == "# Trial\n\nIt takes about 20 minutes." and changes_of(path) == []
    lab = load(write(tmp_path / "01_lab.ipynb", cells(words=3000, claims=0)))
    assert text_of(with_minutes(lab, tmp_path / "01_lab.ipynb")["cells"][0]["source"]).endswith("about 5 minutes.")


def test_measure_prints_the_parts_and_the_seconds_of_the_last_run(tmp_path, capsys):
    lecture = read(write(tmp_path / "01_trial.ipynb", cells(words=1500, lines=8, turns=1)))
    ledger = tmp_path / "ledger.json"
    measure([lecture], ledger)
    assert capsys.readouterr().out.splitlines()[1].split()[1:7] == ["18", "10", "2", "2", "4", "–"]
    ledger.write_text('{"lectures": [{"lecture": "01_trial", "seconds": 180}]}')
    measure([lecture], ledger)
    head, row, *_ = capsys.readouterr().out.splitlines()
    assert head.split()[:11] == ["minutes", "=", "prose", "+", "code", "+", "claims", "+", "turns", "+", "run"]
    assert row.split()[:7] == ["01_trial", "21", "10", "2", "2", "4", "3.0"]
