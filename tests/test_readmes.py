"""The READMEs are true: commands and code run, links lead somewhere, and what can be counted is written by make tidy."""

import ast
import contextlib
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import yaml
from helpers.paths import ROOT
from packaging.requirements import Requirement

from utils import __main__ as commands
from utils.checks.breaking import bugs, compare
from utils.colab import pins_of
from utils.course import __main__ as course
from utils.course.notebooks.notebook import read
from utils.course.readmes import readmes

PYTHON = Path(sys.executable)
ENVIRONMENT = os.environ | {"PATH": f"{PYTHON.parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
FENCE = re.compile(r"^```(.*)\n((?:.*\n)*?)```$", re.MULTILINE)


READMES = {str(path.relative_to(ROOT)): path for path in readmes(ROOT)}
TEXTS = {name: path.read_text(encoding="utf-8") for name, path in READMES.items()}
README = TEXTS["README.md"]
MAKEFILE = (ROOT / "Makefile").read_text()
BIN = re.search(r"^BIN := (.+)$", MAKEFILE, re.M)[1]


def blocks(name: str, language: str) -> list[str]:
    return [text for kind, text in FENCE.findall(TEXTS[name]) if kind == language]


def spans(name: str) -> list[str]:
    """What stands between backticks, outside of the blocks."""
    return [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", FENCE.sub("", TEXTS[name]))]


def section(name: str, title: str) -> str:
    return TEXTS[name].split(f"\n## {title}\n", 1)[1].split("\n## ")[0]


def test_there_are_readmes_and_each_block_is_of_a_kind_that_is_tested():
    assert "README.md" in READMES
    for name, text in TEXTS.items():
        assert {kind for kind, _ in FENCE.findall(text)} <= {"bash", "python", "text"}, name
        assert text.count("```") == 2 * len(FENCE.findall(text)), name


# Commands


COMMANDS = [
    (name, line.removeprefix(f"{BIN}/"))
    for name in READMES
    for block in blocks(name, "bash")
    for line in block.splitlines()
    if line.strip()
]
RUN = (  # the others are parsed, or asked for their help
    *("mkdir ", "torchrun ", "papermill ", "pytest --nbmake notebooks/", "python -m utils train "),
    *("python -m utils.course run ", "python -m utils.course grade ", "python tests/torture --short "),
)


TAKES_LONG = ("papermill ", "pytest --nbmake", "python -m utils.course run ", "python -m utils.course grade ")


def is_run(line: str) -> bool:
    return line.startswith(RUN)


def each(pairs: list[tuple[str, str]], marks: dict | None = None):
    cases = [pytest.param(*pair, id=f"{pair[0]}: {pair[1][:60]}", marks=(marks or {}).get(pair, ())) for pair in pairs]
    return pytest.mark.parametrize(("name", "line"), cases)


@pytest.mark.slow
@each(
    [pair for pair in COMMANDS if is_run(pair[1])],
    {pair: pytest.mark.nightly for pair in COMMANDS if pair[1].startswith(TAKES_LONG)},
)
def test_each_command_runs(name, line, tmp_path, monkeypatch):
    """In a copy of nothing but what the command reads, so that it leaves no trace here."""
    for part in ("requirements.txt", "pyproject.toml", "notebooks", "solutions", "utils", "tests"):
        (tmp_path / part).symlink_to(ROOT / part)
    shutil.copytree(ROOT / "labs", tmp_path / "submissions")
    words = [re.sub("^notebooks/", f"{ROOT}/notebooks/", word) for word in shlex.split(line, comments=True)]
    if words[:3] == ["python", "-m", "utils"]:  # here: python takes seconds to import torch
        monkeypatch.chdir(tmp_path)
        with contextlib.suppress(SystemExit):  # of --help
            assert commands.main(words[3:]) == 0
        return
    if words[2:4] == ["utils.course", "run"]:
        words += ["--build", str(tmp_path / "build")]
    done = subprocess.run(words, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


@pytest.mark.nightly
@each([pair for pair in COMMANDS if not is_run(pair[1]) or pair[1].startswith(TAKES_LONG)])
def test_each_command_that_takes_long_or_needs_more_is_right(name, line, tmp_path):
    check(line, tmp_path)


INLINE = sorted(
    {
        (name, span)
        for name in READMES
        for span in spans(name)
        if re.match(r"make \w|python3? -m utils|pytest |pip install -r", span)
    }
)


@each(INLINE)
def test_each_command_in_a_sentence_is_right(name, line, tmp_path):
    check(line, tmp_path)


def check(line: str, folder: Path) -> None:
    """Without running it: the target is one of make's, the options are understood, the files are there."""
    match shlex.split(line, comments=True):
        case ["make", *rest]:
            assert asked(["make", "--dry-run", *rest]), "nothing to be done"
        case ["docker", "run", *rest]:
            check(shlex.join(rest[rest.index("honest-training-loop") + 1 :] or ["make", "run"]), folder)
        case ["python" | "python3", "-m", "utils.course", *rest]:
            course.parser(rest).parse_args(rest)
        case ["python" | "python3", "-m", "utils", *rest]:
            commands.parser().parse_args(rest)
        case ["python", "-m", "http.server", *rest]:
            assert "usage: " in asked([PYTHON, "-m", "http.server", *rest, "--help"])
        case ["python", script, *rest]:
            assert "usage: " in asked([PYTHON, script, *rest, "--help"])
        case ["python3", "-m", "pip", *rest]:
            wheels = folder / "build" / "wheels"
            wheels.mkdir(parents=True)
            (wheels / "requirements.txt").touch()
            asked([PYTHON, "-m", "pip", *rest, "--dry-run"], folder)
        case ["python3", "-m", "venv", made, "&&", program, *rest]:
            assert (made, program) == (str(Path(BIN).parent), f"{BIN}/pip")
            check(shlex.join(["pip", *rest]), folder)
        case ["source", script]:  # of the environment that make sets up
            assert script == f"{BIN}/activate"
        case ["jupyter", "lab"]:
            asked([PYTHON, "-m", "jupyter", "lab", "--version"])
        case ["papermill", notebook, *_]:
            assert (ROOT / notebook).exists()
        case ["pytest" | "pip", *rest]:
            rest = [word for word in rest if word != "install"]
            assert rest and all((ROOT / word).exists() for word in rest if not word.startswith("-"))
        case _:
            pytest.fail("no test knows this command: run it, or say here how it is checked")


def asked(words: list, folder: Path = ROOT) -> str:
    done = subprocess.run(words, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.nightly
@pytest.mark.slow
def test_make_lab_opens_the_readme_as_a_page():
    """The server sends to it from its root, and its default for Markdown is the preview."""
    options = "--allow-root --no-browser --port=8941 --ServerApp.port_retries=0 --ServerApp.token=here"
    line = ["make", "lab", f"LAB={options}"]
    server = subprocess.Popen(line, cwd=ROOT, stderr=subprocess.DEVNULL, start_new_session=True)
    home, plugin = "http://127.0.0.1:8941", "@jupyterlab/docmanager-extension:plugin"
    try:
        deadline = time.monotonic() + 600
        while True:
            assert server.poll() is None and time.monotonic() < deadline
            try:
                with urllib.request.urlopen(f"{home}/?token=here", timeout=10) as answer:
                    assert b"JupyterLab" in answer.read()
                    assert answer.geturl().startswith(f"{home}/lab/tree/README.md")
                with urllib.request.urlopen(f"{home}/lab/api/settings/{plugin}?token=here", timeout=10) as answer:
                    defaults = json.load(answer)["schema"]["properties"]["defaultViewers"]["default"]
                assert defaults == {"markdown": "Markdown Preview"}
                break
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.2)
    finally:
        os.killpg(server.pid, signal.SIGTERM)  # make, and the server that it started
        server.wait(30)


@pytest.mark.nightly
@pytest.mark.slow
def test_the_benchmark_runs():
    command = [sys.executable, ROOT / "tests" / "bench_loop.py", "--rounds", "1", "--steps", "20"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert re.search(r"^  train .*; all$", done.stdout, re.M)


# Python


RECIPES = "utils/loop/README.md"  # tests/loop/test_recipes.py runs its pieces
HOOK, *OTHERS = blocks("README.md", "python")
PIECES = [("README.md", text) for text in OTHERS]
PIECES += [(name, text) for name in READMES if name not in ("README.md", RECIPES) for text in blocks(name, "python")]
FAILS = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
shell, cells = InteractiveShell.instance(colors="nocolor"), json.load(sys.stdin)
for source in cells[:-1]:
    shell.run_cell(source).raise_error()
print("BEFORE THE LAST")
error = shell.run_cell(cells[-1], cell_id="proof-7-1").error_in_exec
"""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "source"), PIECES, ids=[name for name, _ in PIECES])
def test_each_piece_of_python_runs(name, source, tmp_path):
    done = subprocess.run([sys.executable, "-c", source], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.strip(), done.stderr[-2000:]


@pytest.mark.slow
def test_the_verdict_on_a_loop_is_what_examine_says():
    told = re.search(r"It prints `(ALARM: [^`]+)`", README)[1]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(OTHERS[0], {})
    assert printed.getvalue().strip() == told


def test_the_losses_beside_a_planted_bug_are_those_of_its_run():
    found = compare(bugs()["1"])
    ends = [run.losses[max(run.losses)] for run in (found.broken, found.right)]
    told = re.search(
        r"whose training loss ends at (\S+), beside the right one, which ends at (\S+)\.", " ".join(README.split())
    )
    assert list(told.groups()) == [f"{loss:.2f}" for loss in ends]


def hook() -> tuple[list[str], str]:
    """The cells before the proof of the README's first claim, in its lecture, and that proof, which the README shows."""
    shown = README.split("```python")[0]
    (path,) = re.findall(r"\]\((notebooks/\S+\.ipynb)\)", shown)
    lecture = read(ROOT / path)
    (kind, number) = re.search(r"> \*\*(Claim|Folklore) ([\d.]+)\.\*\*", shown).groups()
    (claim,) = [claim for claim in lecture.claims if claim.number == number]
    quoted = " ".join(line.removeprefix("> ") for line in shown.splitlines() if line.startswith(">"))
    assert quoted == f"**{kind} {number}.** {claim.text}" and claim.kind == kind
    assert same_code(claim.proof.source, HOOK), "the README shows other code than the lecture's proof"
    return [cell.source for cell in lecture.code if cell.index < claim.proof.index and cell.id != "colab"], HOOK


def same_code(one: str, other: str) -> bool:
    """But for comments, where lines end, and what is only printed."""
    first, second = (
        [ast.dump(part) for part in ast.parse(code).body if "print(" not in ast.unparse(part)] for code in (one, other)
    )
    return first == second


def lines_of(*sources: str) -> list[str]:
    return [line for source in sources for line in source.splitlines() if line.strip()]


def test_the_first_proof_is_the_lectures_own():
    before, proof = hook()
    assert before and "assert " in proof


@pytest.mark.slow
def test_the_red_message_is_what_the_lecture_prints(tmp_path):
    """The line with the numbers becomes what the README says people expect, and the cell is run as in the notebook."""
    before, proof = hook()
    (belief,) = re.findall(r"put `(assert [^`]+)` in place of the line with both numbers", README)
    (numbers,) = [line for line in proof.splitlines() if line.startswith("assert first < T4 < second")]
    cells = [*before, proof, proof.replace(numbers, belief)]
    line = [sys.executable, "-c", FAILS]
    environment = ENVIRONMENT | {"IPYTHONDIR": str(tmp_path), "COURSE_OFFLINE": "1"}  # no word of a download
    done = subprocess.run(line, input=json.dumps(cells), env=environment, capture_output=True, text=True)
    green, red = done.stdout.split("BEFORE THE LAST\n")
    assert "Error" not in green and belief in red, done.stdout + done.stderr
    (message,) = blocks("README.md", "text")
    assert message.strip() == re.sub(r"\x1b\[[\d;]*m", "", red).strip()


# What is written


@pytest.mark.slow
def test_make_tidy_changes_nothing(capsys):
    assert course.main(["tidy", "--check"]) == 0, f"call make tidy: it would write\n{capsys.readouterr().out}"


# Links and maps


def slug(heading: str) -> str:
    """The anchor that GitHub and JupyterLab give a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("name", READMES)
def test_every_link_leads_somewhere(name):
    for link in re.findall(r"\]\(([^)\s]+)\)", FENCE.sub("", TEXTS[name])):
        path, _, anchor = link.partition("#")
        if "://" in path:
            continue
        target = READMES[name].parent / path if path else READMES[name]
        assert target.exists(), link
        if anchor:
            assert anchor in map(slug, re.findall(r"^#+ (.+)$", target.read_text(), re.MULTILINE)), link


def test_every_readme_is_linked_from_another():
    reached = set()
    for name, text in TEXTS.items():
        links = re.findall(r"\]\(([^)#\s]*README\.md)", text)
        reached |= {str((READMES[name].parent / link).resolve().relative_to(ROOT)) for link in links}
    assert reached | {"README.md"} == set(READMES)


@pytest.mark.parametrize("name", READMES)
def test_the_files_and_folders_that_it_names_are_there(name):
    """`train.py` somewhere below the README, `tests/loop/` from the root."""
    for span in spans(name):
        if re.fullmatch(r"[\w/]+\.py", span):
            assert (ROOT / span).exists() or list(READMES[name].parent.rglob(span)), span
        if re.fullmatch(r"(utils|tests|notebooks|labs|solutions)/[\w/]*", span):
            assert (ROOT / span).is_dir(), span


# The package


def test_the_package_needs_what_the_requirements_pin(tmp_path):
    for name in ("pyproject.toml", "requirements.txt"):
        shutil.copy(ROOT / name, tmp_path)
    said = asked([PYTHON, "-c", "from setuptools.build_meta import *; prepare_metadata_for_build_wheel('.')"], tmp_path)
    (metadata,) = tmp_path.glob("*.dist-info/METADATA")
    needs = {Requirement(text) for text in re.findall(r"^Requires-Dist: (.+)$", metadata.read_text(), re.M)}
    pins = pins_of((ROOT / "requirements.txt").read_text())
    assert needs == {Requirement(f"{name}=={version}") for name, version in pins.items()}, said


def test_licence_and_citation_agree_with_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["title"] == README.splitlines()[0].removeprefix("# ") and cited["cff-version"] == "1.2.0"
    assert (cited["version"], cited["license"]) == (project["version"], project["license"])
    licence = (ROOT / "LICENSE").read_text()
    assert licence.startswith(f"{cited['license']} License\n")
    assert all(author["name"] in licence for author in cited["authors"])
