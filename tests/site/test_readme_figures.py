"""The READMEs' pictures are those that `make figures` makes, and what a README says of one stands in it."""

import json
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter

import matplotlib
import pytest
from helpers import figure_text  # noqa: F401  (no window)
from helpers.paths import ROOT

from utils.colab import pins_of
from utils.course import two_cores
from utils.course.notebooks.ledger import UNVERIFIED, VERIFIED
from utils.course.notebooks.notebook import read
from utils.course.run import run
from utils.device import pick_device
from utils.site import readme_figures

READMES = [path.read_text() for folder in ("tests", "utils") for path in (ROOT / folder).rglob("README.md")]
READMES.append((ROOT / "README.md").read_text())
NAMES = list(readme_figures.PICTURES)
COMPUTED = ("memory", "roofline")  # without training anything: the same on every machine; the ledger is make tidy's


def words_of(svg: bytes) -> list[str]:
    """What is written in an SVG, in order."""
    return ["".join(text.itertext()) for text in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def kept(name: str) -> bytes:
    return (readme_figures.FOLDER / f"{name}.svg").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("name", COMPUTED)
def test_the_kept_picture_is_the_one_that_is_made(name):
    made = readme_figures.svg(readme_figures.PICTURES[name]())
    assert words_of(kept(name)) == words_of(made), "call: make figures"
    pinned = pins_of((ROOT / "requirements.txt").read_text())["matplotlib"]
    assert matplotlib.__version__ != pinned or kept(name) == made, "call: make figures"


@pytest.mark.slow
def test_the_kept_spiral_has_the_accuracies_of_a_run_made_now():
    def shown(svg: bytes) -> list[tuple[str, float]]:
        titles = [re.fullmatch(r"(epoch \d+): ([\d.]+)% right", text) for text in words_of(svg)]
        return [(title[1], float(title[2])) for title in titles if title]

    made, there = shown(readme_figures.svg(readme_figures.spiral_picture())), shown(kept("spiral"))
    assert [name for name, _ in made] == [name for name, _ in there] == ["epoch 1", "epoch 6", "epoch 30"]
    assert [percent for _, percent in made] == pytest.approx([percent for _, percent in there], abs=2), "percent"


@pytest.mark.slow
def test_twice_the_same_bytes_and_nothing_is_written_twice(tmp_path, capsys):
    readme_figures.figures(tmp_path, ("roofline",))
    first = (tmp_path / "roofline.svg").read_bytes()
    assert "roofline.svg: written" in capsys.readouterr().out
    readme_figures.figures(tmp_path, ("roofline",))
    assert (tmp_path / "roofline.svg").read_bytes() == first and capsys.readouterr().out == ""


@pytest.mark.parametrize("name", NAMES)
def test_each_is_opaque_and_asks_nothing_of_the_network(name):
    svg = kept(name)
    assert re.search(rb'id="patch_1">\s*<path d="[^"]*"\s+style="fill: #ffffff', svg), "GitHub shows it on black too"
    assert not re.search(rb'(?:href|src)="(?!#|data:)', svg)


@pytest.mark.parametrize("name", NAMES)
def test_a_readme_shows_it_in_words_whose_numbers_stand_in_it(name):
    (alt,) = re.findall(rf"!\[([^\]]+)\]\((?:\.\./)*notebooks/figures/{name}\.svg\)", "\n".join(READMES))
    numbers = re.findall(r"\d+(?:\.\d+)?", alt)
    there = re.findall(r"\d+(?:\.\d+)?", " ".join(words_of(kept(name))))
    assert len(numbers) > 0 and set(numbers) - {"2"} <= set(there) | {"100"}, "GPT-2, A100, H100: names"


@pytest.mark.nightly
@pytest.mark.slow
def test_the_bar_of_a_lecture_is_what_a_run_of_it_counts(tmp_path):
    """On two CPU cores; the lecture has claims of three kinds."""
    if pick_device().type == "cuda":
        pytest.skip("the picture is about machines without a GPU")
    (path,) = (ROOT / "notebooks").glob("03_*.ipynb")
    run([path], tmp_path)
    counted = Counter(row["status"] for row in json.loads((tmp_path / "ledger.json").read_text())["claims"])
    drawn = Counter(two_cores.outcome_of(claim) for claim in read(path).claims)
    assert counted == {
        VERIFIED: drawn[two_cores.CLAIM] + drawn[two_cores.FOLKLORE],
        UNVERIFIED: drawn[two_cores.GPU] + drawn[two_cores.LONG],
    }
