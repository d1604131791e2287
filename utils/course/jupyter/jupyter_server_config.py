"""JupyterLab as `make lab` starts it: a lecture's outputs survive a save, and git sees no change."""

from utils.course.notebooks.kept_outputs import LectureContents

c.ServerApp.contents_manager_class = LectureContents  # noqa: F821 - Jupyter hands `c` to this file
