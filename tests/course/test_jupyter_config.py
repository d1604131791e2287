"""What JupyterLab saves as `make lab` starts it: lectures as git keeps them, outputs beside; labs with theirs inside."""

import asyncio
import json
import shutil

import nbformat
import pytest
from helpers.paths import ROOT
from traitlets.config.loader import PyFileConfigLoader

LECTURE, LAB = "notebooks/deeper/08_fp8.ipynb", "labs/00_plan_a_run.ipynb"


@pytest.fixture
def manager(tmp_path):
    config = PyFileConfigLoader("jupyter_server_config.py", str(ROOT / "utils" / "course" / "jupyter")).load_config()
    for name in (LECTURE, LAB):
        (tmp_path / name).parent.mkdir(parents=True)
        shutil.copy(ROOT / name, tmp_path / name)
    return config.ServerApp.contents_manager_class(root_dir=str(tmp_path), config=config)


def opened(manager, name: str) -> dict:
    """The model that JupyterLab gets, through JSON as by the network."""
    model = asyncio.run(manager.get(name))
    return model | {"content": json.loads(json.dumps(model["content"]))}


def ran(manager, name: str, note: str = "", trusted: bool = True) -> dict:
    """The model that JupyterLab sends after Run All, with a note in the first cell."""
    model = opened(manager, name)
    book = model["content"]
    for number, cell in enumerate(cell for cell in book["cells"] if cell["cell_type"] == "code"):
        cell["execution_count"] = number + 1
        cell["metadata"] |= {"execution": {"shell.execute_reply": "2026-01-01T00:00:00Z"}, "trusted": trusted}
        cell["outputs"] = [nbformat.v4.new_output("stream", text=f"{number}\n")]
    book["cells"][0]["source"] += note
    return model


def printed(book: dict) -> list[str]:
    code = [cell for cell in book["cells"] if cell["cell_type"] == "code"]
    return ["".join(output["text"] for output in cell["outputs"]) for cell in code]


def test_a_lecture_that_ran_is_saved_as_it_was(manager, tmp_path):
    stored = (tmp_path / LECTURE).read_bytes()
    asyncio.run(manager.save(ran(manager, LECTURE), LECTURE))
    assert (tmp_path / LECTURE).read_bytes() == stored
    asyncio.run(manager.save(ran(manager, LECTURE, note="\n\nA note of mine."), LECTURE))
    changed = set((tmp_path / LECTURE).read_text().splitlines()) - set(stored.decode().splitlines())
    assert changed and all("A note of mine." in line or line.endswith('\\n",') for line in changed)


def test_its_outputs_are_there_when_it_is_opened_again(manager):
    assert set(printed(opened(manager, LECTURE)["content"])) == {""}
    asyncio.run(manager.save(ran(manager, LECTURE), LECTURE))
    shown = printed(opened(manager, LECTURE)["content"])
    assert shown == [f"{number}\n" for number in range(len(shown))]


def test_a_cell_of_ones_own_keeps_its_output_although_saving_gives_it_a_readable_id(manager):
    model = ran(manager, LECTURE)
    own = nbformat.v4.new_code_cell(
        "print(2 + 2)", execution_count=99, outputs=[nbformat.v4.new_output("stream", text="4\n")]
    )
    own["metadata"]["trusted"] = True
    model["content"]["cells"].insert(3, own)
    asyncio.run(manager.save(model, LECTURE))
    (cell,) = [cell for cell in opened(manager, LECTURE)["content"]["cells"] if cell["source"] == "print(2 + 2)"]
    assert cell["id"] != own["id"] and cell["outputs"][0]["text"] == "4\n" and cell["execution_count"] == 99


def test_a_cell_whose_code_has_changed_shows_no_old_output(manager, tmp_path):
    asyncio.run(manager.save(ran(manager, LECTURE), LECTURE))
    path = tmp_path / LECTURE
    path.write_text(path.read_text().replace("import torch\\n", "import torch  # a newer lecture\\n", 1))
    shown = printed(opened(manager, LECTURE)["content"])
    assert shown.count("") == 1 < len(shown)


def test_what_came_from_elsewhere_is_not_made_trustworthy_by_a_save(manager):
    asyncio.run(manager.save(ran(manager, LECTURE, trusted=False), LECTURE))
    assert set(printed(opened(manager, LECTURE)["content"])) == {""}


def test_opening_changes_nothing_that_a_kernel_would_write(manager):
    about = opened(manager, LECTURE)["content"]["metadata"]
    assert about["language_info"]["file_extension"] == ".py" and "ipykernel" in about["kernelspec"]["display_name"]


def test_a_lab_keeps_its_outputs(manager, tmp_path):
    asyncio.run(manager.save(ran(manager, LAB), LAB))
    book = nbformat.read(tmp_path / LAB, as_version=4)
    assert all(cell.outputs and cell.execution_count for cell in book.cells if cell.cell_type == "code")
