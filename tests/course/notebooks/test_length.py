"""The size of what a module rests on: all that it imports of utils, and nothing else."""

from utils.course.notebooks.length import import_closure

SOURCES = {
    "utils/__init__.py": "",
    "utils/loop/__init__.py": "from utils.loop.end import train",
    "utils/loop/begin.py": "import torch\nfrom utils import facts\n\n\ndef later():\n    from utils.data.order import Order",
    "utils/loop/end.py": "from utils.loop.begin import later",
    "utils/loop/other.py": "",
    "utils/data/__init__.py": "",
    "utils/data/order.py": "import utils.device",
    "utils/data/unused.py": "",
    "utils/facts.py": "",
    "utils/device.py": "from numpy import utils",
}
UNUSED = {"utils/loop/other.py", "utils/data/unused.py"}


def test_the_closure_holds_what_is_imported_anywhere_and_nothing_else(tmp_path):
    for name, source in SOURCES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(source)
    files = {file.relative_to(tmp_path).as_posix() for file in import_closure("utils.loop.begin", tmp_path)}
    assert files == SOURCES.keys() - UNUSED
