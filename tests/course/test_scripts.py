"""The scripts that lectures print are complete: each, saved as printed, runs from an empty folder and imports nothing of the
course. A script is the string in a code cell that consists of `name = ...`; SCRIPTS lists them.
"""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from helpers.paths import ROOT

from utils import facts
from utils.course.notebooks.notebook import read
from utils.data import fashion_mnist
from utils.data.download import find
from utils.loop import evaluate
from utils.models import MLP

NOWHERE = "http://127.0.0.1:9"  # a proxy that refuses every connection


def printed(lecture: str, cell_id: str) -> str:
    """The one string that the cell `cell_id` of a lecture assigns to a name."""
    (cell,) = (cell for cell in read(ROOT / "notebooks" / f"{lecture}.ipynb").cells if cell.id == cell_id)
    (statement,) = ast.parse(cell.source).body
    return ast.literal_eval(statement.value)


def run(script: str, folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess:
    """Runs `script` from the empty `folder`, where it is saved. COURSE_DATA is set only if given."""
    assert not any(folder.iterdir())
    (folder / "script.py").write_text(script)
    kept = {name: value for name, value in os.environ.items() if name not in ("COURSE_DATA", "PYTHONPATH")}
    command = [sys.executable, "-I", "script.py", *arguments]
    return subprocess.run(command, cwd=folder, env=kept | environment, capture_output=True, text=True, timeout=300)


SCRIPTS = [
    pytest.param("deeper/12_one_page_and_its_exercises", "the-script", id="fashion"),
    pytest.param("deeper/14_sharding_in_detail", "fsdp-script", id="fsdp"),
]


@pytest.mark.parametrize(("lecture", "cell_id"), SCRIPTS)
def test_a_script_is_plain_python_that_imports_nothing_of_the_course(lecture, cell_id):
    script = printed(lecture, cell_id)
    tree = ast.parse(script)
    whole = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    parts = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    imported = {name.partition(".")[0] for name in whole + parts}
    assert imported <= sys.stdlib_module_names | {"torch", "numpy"}
    for command in (["check"], ["format", "--check"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename", "script.py", "-"]
        assert subprocess.run(ruff, input=script, text=True, cwd=ROOT).returncode == 0


# A second reading of lecture 12

FASHION = ("deeper/12_one_page_and_its_exercises", "the-script")


def published() -> str:
    """The folder that holds the four published files, for COURSE_DATA."""
    paths = [find(file) for file in facts.FASHION_MNIST.values()]
    if None in paths:
        pytest.skip("FashionMNIST is not at hand")
    return str(paths[0].parents[1].absolute())


@pytest.mark.slow
def test_fashion_learns_from_an_empty_folder_and_opens_the_test_set_only_if_asked(tmp_path):
    for name, arguments in {"train": ["1"], "train_and_test": ["1", "test"]}.items():
        folder = tmp_path / name
        folder.mkdir()
        done = run(printed(*FASHION), folder, *arguments, COURSE_DATA=published())
        assert (done.returncode, done.stderr) == (0, "")
        assert sorted(path.name for path in folder.iterdir()) == ["fashion.pt", "script.py"]
        assert ("test accuracy" in done.stdout) == ("test" in arguments)
    model = MLP((784, 256, 256, 10), dropout=0.2)
    model.load_state_dict(torch.load(folder / "fashion.pt", map_location="cpu"))
    (tested,) = re.findall(r"test accuracy (0\.\d{4})", done.stdout)
    assert float(tested) > 0.80
    assert evaluate(model, fashion_mnist(val=0).test).accuracy == pytest.approx(float(tested), abs=1e-3)


@pytest.mark.slow
def test_fashion_without_files_and_without_network_says_what_to_do(tmp_path):
    done = run(printed(*FASHION), tmp_path, "1", http_proxy=NOWHERE, https_proxy=NOWHERE, no_proxy="")
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert f"{Path('fashion-mnist', 'train-images-idx3-ubyte.gz')} is missing" in done.stderr
    assert facts.FASHION_MNIST["train images"].urls[0] in done.stderr and "COURSE_DATA" in done.stderr
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "script.py"]


@pytest.mark.slow
def test_fashion_refuses_a_file_that_is_not_the_published_one(tmp_path):
    files = tmp_path / "data" / "fashion-mnist"
    files.mkdir(parents=True)
    (files / "train-images-idx3-ubyte.gz").write_bytes(b"half of it")
    empty = tmp_path / "empty"
    empty.mkdir()
    done = run(printed(*FASHION), empty, "1", COURSE_DATA=str(tmp_path / "data"))
    assert done.returncode == 1 and "is not the published file" in done.stderr and "Traceback" not in done.stderr


def test_fashion_names_the_published_files():
    script = printed(*FASHION)
    for file in facts.FASHION_MNIST.values():
        name = Path(file.path).name
        assert f'"{name}": "{file.md5}"' in script
        assert any(url == host + name for url in file.urls for host in re.findall(r'URL = "(.*)"', script))


# Lecture 14


def run_ranks(script: str, folder: Path, world: int) -> subprocess.CompletedProcess:
    """Runs `script` from the empty `folder` by torchrun, on CPUs, over gloo."""
    assert not any(folder.iterdir())
    (folder / "train.py").write_text(script)
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    kept |= {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world}", "train.py"]
    return subprocess.run(command, cwd=folder, env=kept, capture_output=True, text=True, timeout=600)


def losses_in(output: str) -> list[float]:
    return [float(loss) for loss in re.findall(r"^epoch \d: loss (\d+\.\d{4})$", output, re.MULTILINE)]


@pytest.mark.slow
def test_the_sharded_script_learns_by_torchrun_on_two_cpus_from_an_empty_folder(tmp_path):
    done = run_ranks(printed("deeper/14_sharding_in_detail", "fsdp-script"), tmp_path, world=2)
    assert done.returncode == 0, done.stderr
    losses = losses_in(done.stdout)
    assert len(losses) == 5 and losses[-1] < losses[0] / 2  # rank 0 alone prints
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint", "train.py"]


@pytest.mark.slow
def test_the_program_by_torchrun_stops_and_goes_on_with_two_ranks(tmp_path):
    program = (ROOT / "notebooks" / "program" / "14_many_ranks.py").read_text(encoding="utf-8")
    settings = "steps, batch_size, context = 400"
    assert settings in program and "% 100 == 0" in program
    program = program.replace(settings, "steps, batch_size, context = 8").replace("% 100 == 0", "% 4 == 0")
    outputs = []
    for folder, last in (
        (tmp_path / "whole", None),
        (tmp_path / "halves", "range(first, 4)"),
        (tmp_path / "halves", None),
    ):
        folder.mkdir(exist_ok=True)
        (folder / "program.py").write_text(program.replace("range(first, steps)", last) if last else program)
        kept = os.environ | {
            "CUDA_VISIBLE_DEVICES": "",
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(ROOT),
            "STATE_FILE": "gpt.pt",
        }
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "program.py"]
        done = subprocess.run(command, cwd=folder, env=kept, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    assert outputs[0].count("model checked") == 1  # rank 0 alone prints
    states = [torch.load(tmp_path / name / "gpt.pt", weights_only=True) for name in ("whole", "halves")]
    assert [state["done"] for state in states] == [8, 8] and len(states[0]["random"]) == 2
    assert not torch.equal(*states[0]["random"])  # each rank drops other numbers
    assert all(torch.equal(states[0]["model"][name], states[1]["model"][name]) for name in states[0]["model"])
