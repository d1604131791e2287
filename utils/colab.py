"""Sets up a notebook that was opened without the repository, as in Colab. Imports the standard library only.

The first code cell of every notebook fetches the course and calls `prepare`, which installs the missing packages. It never
changes an installed package, torch and NumPy included, since the notebook may have imported it already.
"""

import importlib
import os
import re
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

from utils.versions import TESTED, parts_of, pythons, red_with

ROOT = Path(__file__).resolve().parents[1]
NEEDED = ("torch", "numpy", "einops", "matplotlib", "tqdm", "nvidia-ml-py", "quickjs-ng")  # by the notebooks
ELSE = "Or read the course at home: its README needs two commands"


class NotReady(RuntimeError):
    """What a notebook lacks here, and the next move. A notebook shows the message alone."""

    def _render_traceback_(self) -> list[str]:
        """What IPython prints in place of a traceback."""
        return [str(self)]


def prepare(notebook: str) -> None:
    """Install the missing packages that notebooks need, report untested versions, and change to the notebook's folder.

    notebook: its path in the repository, "notebooks/01_tensors_and_strides.ipynb" say. Raises NotReady, before anything
    is changed, if Python is too old, if torch is missing or too old for this notebook; and if pip fails.
    """
    oldest, _ = pythons()
    if sys.version_info[:2] < parts_of(oldest):
        raise NotReady(
            f"Python {'.'.join(map(str, sys.version_info[:2]))} is too old, the course needs {oldest} or newer: choose "
            f"a newer runtime (Runtime, Change runtime type). {ELSE}"
        )
    present = {name: version for name in NEEDED if (version := version_of(name))}
    if "torch" not in present:
        raise NotReady(
            f"torch is missing, and it is never installed here: choose a runtime that has it, or install it. {ELSE}"
        )
    red = red_with(present["torch"]).get(Path(notebook).stem, ())
    if red is None:
        raise NotReady(
            f"This notebook needs torch {TESTED[0]} to {TESTED[-1]}, and torch {present['torch']} is installed. Run "
            f"`%pip install torch=={TESTED[-1]}.*` in a cell of its own, choose Runtime, Restart session, and run this "
            f"notebook again. {ELSE}"
        )
    pins = pins_of((ROOT / "requirements.txt").read_text(encoding="utf-8"))
    missing = [f"{name}=={pins[name]}" for name in NEEDED if name not in present]
    if missing:
        print(f"pip installs missing packages: {', '.join(missing)}")
        install(missing)
    print(_about(present, pins))
    if red:
        print(f"With this torch some proofs are red: {', '.join(red)}.")
    os.environ["PYTHONPATH"] = os.pathsep.join(
        filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])
    )  # for child processes
    os.chdir((ROOT / notebook).parent)


def version_of(name: str) -> str | None:
    """The installed version of a package, None if it is missing."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def pins_of(requirements: str) -> dict[str, str]:
    """{package: version} from the lines `name==version`, with or without a comment."""
    return dict(re.findall(r"^([\w.-]+)==([\w.+!]+)", requirements, re.MULTILINE))


def install(wanted: list[str]) -> None:
    """Have pip install `wanted` with every installed package pinned to its version. NotReady if it cannot."""
    installed = {f"{dist.name}=={dist.version}" for dist in metadata.distributions() if dist.name and dist.version}
    pinned = sorted(line for line in installed if re.fullmatch(r"[\w.-]+==\d[\w.+!]*", line))
    with tempfile.TemporaryDirectory() as folder:
        constraints = Path(folder) / "constraints.txt"
        constraints.write_text("\n".join(pinned) + "\n", encoding="utf-8")
        command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check"]
        command += ["--constraint", str(constraints), *wanted]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise NotReady(
            f"pip could not install {', '.join(wanted)} beside the installed packages:\n{done.stdout.strip()[-1500:]}\n"
            f"Start a fresh runtime and run this cell first. {ELSE}"
        )
    importlib.invalidate_caches()


def _about(present: dict[str, str], pins: dict[str, str]) -> str:
    """A report on installed versions that the course is not tested with."""
    torch = present["torch"]
    tested = f"{', '.join(TESTED[:-1])} and {TESTED[-1]}"
    known = any(torch.startswith(f"{version}.") for version in TESTED)
    lines = [f"torch {torch} is installed and stays. The course is tested with torch {tested}" + "." * known]
    if not known:
        lines[0] += ": if a claim turns red, the cause may be torch, not you."
    others = [
        f"{name} {version} (pinned: {pins[name]})"
        for name, version in present.items()
        if name != "torch" and version != pins[name]
    ]
    if others:
        lines.append(f"Also installed in other versions, and left unchanged: {', '.join(others)}.")
    return "\n".join(lines)
