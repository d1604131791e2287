"""JupyterLab as `make lab` starts it: a lecture that ran is saved as it is stored, so that git sees no change."""

from utils.course.notebooks.tidy import tidied


def without_outputs(model: dict, path: str, **_) -> None:
    """Before the server writes: a lecture loses outputs and counts, not its text. A lab keeps them: it is handed in."""
    if model["type"] == "notebook" and path.lstrip("/").startswith("notebooks/"):
        model["content"] = tidied(model["content"])


c.FileContentsManager.pre_save_hook = without_outputs  # noqa: F821 - Jupyter hands `c` to this file
