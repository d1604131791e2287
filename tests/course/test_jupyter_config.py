"""What JupyterLab saves as `make lab` starts it: lectures as git keeps them, labs with their outputs."""

import shutil

import nbformat
import pytest
from helpers.paths import ROOT
from jupyter_server.services.contents.filemanager import FileContentsManager
from traitlets.config.loader import PyFileConfigLoader

# Jupyter sets the hook twice when it starts, and warns of the second time.
pytestmark = pytest.mark.filterwarnings("ignore:Overriding existing pre_save_hook")
LECTURE, LAB = "notebooks/deeper/08_fp8.ipynb", "labs/00_plan_a_run.ipynb"


@pytest.fixture
def manager(tmp_path):
    config = PyFileConfigLoader("jupyter_server_config.py", str(ROOT / "utils" / "course" / "jupyter")).load_config()
    for name in (LECTURE, LAB):
        (tmp_path / name).parent.mkdir(parents=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return FileContentsManager(root_dir=str(tmp_path), config=config)


def ran(manager, name: str, note: str = "") -> dict:
    """The model that JupyterLab sends after Run All, with a note in the first cell."""
    model = manager.get(name)
    book = model["content"]
    for number, cell in enumerate(cell for cell in book.cells if cell.cell_type == "code"):
        cell.execution_count, cell.metadata["execution"] = number + 1, {"shell.execute_reply": "2026-01-01T00:00:00Z"}
        cell.outputs = [nbformat.v4.new_output("stream", text="1.0\n")]
    book.metadata.language_info |= {"version": "3.11.7", "mimetype": "text/x-python", "file_extension": ".py"}
    book.cells[0].source += note
    return model


def test_a_lecture_that_ran_is_saved_as_it_was(manager, tmp_path):
    stored = (tmp_path / LECTURE).read_bytes()
    manager.save(ran(manager, LECTURE), LECTURE)
    assert (tmp_path / LECTURE).read_bytes() == stored
    manager.save(ran(manager, LECTURE, note="\n\nA note of mine."), LECTURE)
    changed = set((tmp_path / LECTURE).read_text().splitlines()) - set(stored.decode().splitlines())
    assert changed and all("A note of mine." in line or line.endswith('\\n",') for line in changed)


def test_a_lab_keeps_its_outputs(manager, tmp_path):
    manager.save(ran(manager, LAB), LAB)
    book = nbformat.read(tmp_path / LAB, as_version=4)
    assert all(cell.outputs and cell.execution_count for cell in book.cells if cell.cell_type == "code")
