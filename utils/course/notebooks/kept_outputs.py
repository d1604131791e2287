"""JupyterLab's files as `make lab` serves them: a lecture stays on the disk as git keeps it, its outputs beside it.

A lecture that ran is saved without outputs and counts. What it printed and drew is kept in build/outputs/ and shown when
the lecture is opened again. A lab keeps its outputs in its own file, since it is handed in.
"""

import json
from pathlib import Path

from ipykernel.ipkernel import IPythonKernel
from jupyter_client.kernelspec import get_kernel_spec
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager

from utils.atomic_write import write_bytes
from utils.course.notebooks.notebook import text_of
from utils.course.notebooks.tidy import METADATA, tidied

LECTURES = "notebooks/"
COURSE = (LECTURES, "labs/")
KEPT = Path("build", "outputs")  # in the folder that JupyterLab shows


class LectureContents(AsyncLargeFileManager):
    """What JupyterLab's file manager does, and for lectures: save the text alone, and keep the outputs beside it."""

    async def save(self, model: dict, path: str = "") -> dict:
        """Write the notebook or file. Of a lecture, the outputs go to a file of their own."""
        path = path.strip("/")
        if model.get("type") != "notebook" or not path.startswith(LECTURES):
            return await super().save(model, path)
        stored = tidied(model["content"])
        outputs = outputs_of(model["content"], stored)
        saved = await super().save(model | {"content": stored}, path)
        place = self._place(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(place, json.dumps(outputs).encode())
        return saved

    async def get(self, path: str, content: bool = True, type: str | None = None, **how) -> dict:
        """The model of a file, as Jupyter's clients ask for it. A lecture comes with the outputs that were kept."""
        model = await super().get(path, content=content, type=type, **how)
        path = path.strip("/")
        if model["type"] == "notebook" and content and path.startswith(COURSE):
            model["content"]["metadata"] |= _metadata()
            if path.startswith(LECTURES) and self._place(path).exists():
                put_back(json.loads(self._place(path).read_bytes()), model["content"])
        return model

    def _place(self, path: str) -> Path:
        return Path(self.root_dir, KEPT, path).with_suffix(".json")


def outputs_of(book: dict, stored: dict) -> dict[str, dict]:
    """Source, outputs and count of each code cell that ran, by the id that it has in `stored`, the notebook as it is saved.

    A cell that ran here is trusted. What a file from elsewhere brought along is left out: saving makes nothing trustworthy.
    """
    return {
        kept["id"]: {"source": text_of(kept["source"])} | {key: cell[key] for key in ("outputs", "execution_count")}
        for cell, kept in zip(book["cells"], stored["cells"], strict=True)
        if cell["cell_type"] == "code" and cell["execution_count"] is not None and cell["metadata"].get("trusted")
    }


def put_back(outputs: dict[str, dict], book: dict) -> None:
    """Give each cell of the notebook its outputs again, unless its code has changed since."""
    for cell in book["cells"]:
        kept = outputs.get(cell.get("id", ""))
        if kept and cell["cell_type"] == "code" and text_of(cell["source"]) == kept["source"]:
            cell |= {"outputs": kept["outputs"], "execution_count": kept["execution_count"]}


def _metadata() -> dict:
    """What JupyterLab writes into a notebook's metadata once its kernel answers: what is there already, it leaves alone."""
    spec = get_kernel_spec(METADATA["kernelspec"]["name"])
    return {
        "kernelspec": METADATA["kernelspec"] | {"display_name": spec.display_name, "language": spec.language},
        "language_info": IPythonKernel.language_info,
    }
