"""Collect wheels for a machine without a network that already has torch, numpy, einops and matplotlib.

What a package needs may hang on the Python that reads its conditions, so a Python of that version does the resolving
(papermill, for one, wants aiohttp on Python 3.12 alone). Versions are those of requirements.txt and, for what these need in
turn, those installed here.
"""

import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from utils.colab import pins_of
from utils.course import ROOT

THERE = ("torch", "numpy", "einops", "matplotlib")  # already on the other machine
WANTED = (
    "tqdm", "nvidia-ml-py", "ipykernel", "quickjs-ng", "papermill", "nbclient", "nbformat", "nbconvert", "nh3",
    "latex2mathml",
)  # fmt: skip
GLIBC = 28  # wheels for a glibc of 2.28 or older, which torch's own wheels need
LIST = "requirements.txt"
ASK = "import json, platform, sys; print(json.dumps([list(sys.version_info[:2]), sys.platform, platform.machine()]))"


def wheels(python: str, folder: Path) -> int:
    """Fill `folder` with the wheels for `python`, "3.12" or an interpreter, and a list for pip to install them from.

    Raises ValueError for an interpreter that is missing or not on Linux x86-64, and if pip cannot get a wheel.
    """
    interpreter, version = find_python(python)
    wanted = pins((ROOT / "requirements.txt").read_text(encoding="utf-8"))
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        new = Path(scratch) / "wheels"
        _download(interpreter, wanted, new, Path(scratch))
        names = sorted(path.name for path in new.glob("*.whl"))
        (new / LIST).write_text("".join(f"{_pinned(name)}\n" for name in names), encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        new.rename(folder)
    size = sum(path.stat().st_size for path in folder.iterdir())
    print(f"{len(names)} wheels for Python {version} on Linux x86-64, {size / 1e6:.1f} MB, in {folder}")
    there = os.path.relpath(folder)
    print(f"there: python{version} -m pip install --no-index --find-links {there} -r {there}/{LIST}")
    return 0


def pins(requirements: str) -> list[str]:
    """The lines "name==version" of what is wanted, from the text of requirements.txt."""
    found = pins_of(requirements)
    missing = [name for name in WANTED if name not in found]
    if missing:
        raise ValueError(f"requirements.txt pins no {missing[0]}, which a receipt needs: pin it there")
    return [f"{name}=={found[name]}" for name in WANTED]


def find_python(python: str) -> tuple[str, str]:
    """The interpreter that "3.12", a command's name or a path stands for, and its version."""
    name = f"python{python}" if re.fullmatch(r"3\.\d+", python) else python
    try:
        answer = subprocess.run([name, "-c", ASK], capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise ValueError(
            f"{name} does not run here ({type(error).__name__}): install that Python, or name its interpreter, "
            "PYTHON=/path/to/python3.12, since only a Python of that version knows what packages need on it"
        ) from error
    (major, minor), system, machine = json.loads(answer)
    if (system, machine) != ("linux", "x86_64"):
        raise ValueError(f"{name} is on {system} {machine}: collect wheels on Linux x86_64, which is what they are for")
    return shutil.which(name) or name, f"{major}.{minor}"


def _download(interpreter: str, wanted: list[str], folder: Path, scratch: Path) -> None:
    """Run this environment's pip under `interpreter` to download the wheels of `wanted` and of their dependencies."""
    constraints = scratch / "constraints.txt"
    constraints.write_text("".join(f"{line}\n" for line in _installed()), encoding="utf-8")
    platforms = [f"manylinux_2_{minor}_x86_64" for minor in range(GLIBC, 4, -1)]
    platforms += [f"manylinux{old}_x86_64" for old in (2014, 2010, 1)] + ["linux_x86_64"]
    command = [sys.executable, "-m", "pip", "--python", interpreter, "download", "--only-binary=:all:"]
    command += ["--disable-pip-version-check", "--dest", str(folder), "--constraint", str(constraints)]
    command += [f"--platform={platform}" for platform in platforms]
    done = subprocess.run([*command, *wanted], capture_output=True, text=True)
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or [done.stderr[-1000:]]
        raise ValueError("pip could not get every wheel:\n" + "\n".join(errors))


def _installed() -> list[str]:
    """name==version of the packages installed here from an index, without those already on the other machine."""
    found = {dist.metadata["Name"]: dist.version for dist in importlib.metadata.distributions()}
    return [f"{name}=={version}" for name, version in sorted(found.items()) if name not in THERE and "+" not in version]


def _pinned(wheel: str) -> str:
    name, version = wheel.split("-")[:2]
    return f"{name.replace('_', '-')}=={version}"
