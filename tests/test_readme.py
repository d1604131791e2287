"""The README says what is true: its commands run, its counts are counted, its links lead somewhere."""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from helpers.paths import ROOT

from utils.course.notebooks.notebook import is_lecture, read
from utils.course.receipts.receipt_run import notebooks
from utils.course.receipts.receipts import receipts
from utils.course.receipts.table import readme_block, with_block

README = (ROOT / "README.md").read_text()
COMMANDS = [line for block in re.findall(r"```bash\n(.*?)```", README, re.S) for line in block.splitlines()]
MAKE = sorted(set(re.findall(r"make (\w+)", README)))


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_runs(command, tmp_path):
    """In a copy of nothing but what the command reads, so that it leaves no trace here."""
    for name in ("requirements.txt", "notebooks", "utils", "pyproject.toml"):
        (tmp_path / name).symlink_to(ROOT / name)
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    words = [word.replace("notebooks/", str(ROOT / "notebooks") + "/") for word in shlex.split(command)]
    shutil.copytree(ROOT / "labs", tmp_path / "submissions")
    if words[2:4] == ["utils.course", "run"]:
        words += ["--build", str(tmp_path / "build")]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def test_there_are_commands():
    assert len(COMMANDS) >= 5 and {"run", "test", "lab", "quick", "check"} <= set(MAKE)


@pytest.mark.parametrize("target", MAKE)
def test_each_make_target_exists(target):
    done = subprocess.run(["make", "--dry-run", target], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


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


@pytest.mark.slow
def test_the_benchmark_runs():
    command = [sys.executable, ROOT / "tests" / "bench_loop.py", "--rounds", "1", "--steps", "20"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert len(re.findall(r"^  train .*; all$", done.stdout, re.M)) == 3


def rows() -> dict[str, int]:
    """Each lecture's notebook and the claims that the README gives it."""
    return {path: int(claims) for path, claims in re.findall(r"\]\((notebooks/\S+?)\) \|[^|]+\| (\d+) \|", README)}


def test_the_table_counts_the_claims_of_every_lecture():
    lectures = {
        f"notebooks/{path.name}": len(read(path).claims)
        for path in sorted((ROOT / "notebooks").glob("*.ipynb"))
        if is_lecture(path)
    }
    assert rows() == lectures and lectures


def test_receipts_are_shown_as_they_are_today():
    shown = with_block(README, readme_block(receipts(), *notebooks()))
    assert shown == README, "call python -m utils.course receipt --readme"


def test_links_lead_to_files():
    links = re.findall(r"\]\(([^)]+)\)", README)
    assert links and all((ROOT / link).exists() for link in links if "://" not in link)


def test_the_map_names_every_module():
    modules = {path.stem for path in (ROOT / "utils").glob("*.py")} - {"__init__"}
    assert modules == set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| … .*?\|", README, re.M))))


LABS = sorted((ROOT / "labs").glob("*.ipynb"))


@pytest.mark.parametrize("lab", LABS, ids=lambda path: path.stem)
def test_each_lab_is_in_the_table_with_its_points_and_linked_by_its_lecture(lab):
    solution = json.loads((ROOT / "solutions" / lab.name).read_text())
    points = sum(cell["metadata"].get("points", 0) for cell in solution["cells"])
    row = next(line for line in README.splitlines() if f"](labs/{lab.name})" in line)
    assert row.startswith(f"| [{lab.stem.split('_')[0]}]") and row.endswith(f"| {points} |")
    (lecture,) = (ROOT / "notebooks").glob(f"{lab.name[:2]}_*.ipynb")
    assert f"](../labs/{lab.name})" in lecture.read_text()
