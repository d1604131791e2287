"""A stand-in for Colab: a Python of its own that lacks some packages, and a notebook run by it in a folder of its own."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import metadata
from pathlib import Path
from threading import Thread

import nbformat
from helpers.paths import ROOT

OURS = ("honest_training_loop", "__editable__")  # installed, the course itself would be found without being fetched
KERNEL = "colab"


def stand_in(folder: Path, without: tuple[str, ...] = (), torch: str = "") -> Path:
    """A Python in `folder`, with google.colab loaded, that finds what this one finds, but for the packages `without`.

    With `torch` it finds the same torch, which says that it is of this version. Its own site-packages are empty: what pip
    installs there has been installed by whom we test.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "python"], check=True)
    python = folder / "python" / "bin" / "python"
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    own = Path(subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout.strip())
    found = packages(folder / "found", without=(*without, *["torch"] * bool(torch)))
    (found / "google" / "colab").mkdir(parents=True)
    (found / "google" / "colab" / "__init__.py").write_text("")
    if torch:
        another_torch(found, torch)
    (own / "stand_in.pth").write_text(f"{found}\nimport google.colab\n")
    return python


def packages(found: Path, without: tuple[str, ...] = ()) -> Path:
    """A folder of links to all packages that are installed here, but for those named and the course itself."""
    found.mkdir()
    left_out = {part for name in without for part in parts_of(name)} | {"google", "__pycache__"}
    for place in dict.fromkeys(sysconfig.get_path(name) for name in ("purelib", "platlib")):
        for path in Path(place).iterdir():
            if not (path.name.startswith(OURS) or path.suffix == ".pth" or path.name in left_out):
                (found / path.name).symlink_to(path)
    return found


def parts_of(name: str) -> set[str]:
    """The files and folders of site-packages that an installed package consists of."""
    return {path.parts[0] for path in metadata.files(name)} - {"..", "__pycache__"}


def another_torch(found: Path, version: str) -> None:
    """torch as it is installed here, but for what it says of its version."""
    files = metadata.files("torch")
    home = Path(next(path for path in files if path.parts == ("torch", "version.py")).locate()).parent
    (found / "torch").mkdir()
    for path in home.iterdir():
        if path.name not in ("version.py", "__pycache__"):
            (found / "torch" / path.name).symlink_to(path)
    here = metadata.version("torch")
    text = (home / "version.py").read_text()
    assert f"'{here}'" in text
    (found / "torch" / "version.py").write_text(text.replace(f"'{here}'", f"'{version}'"))
    for name in parts_of("torch") - {"torch"}:
        if name.endswith(".dist-info"):
            shutil.copytree(home.parent / name, found / f"torch-{version}.dist-info")
            told = found / f"torch-{version}.dist-info" / "METADATA"
            told.write_text(told.read_text().replace(f"\nVersion: {here}\n", f"\nVersion: {version}\n"))
        else:
            (found / name).symlink_to(home.parent / name)


def wheel_of(name: str, folder: Path) -> Path:
    """An installed package made a wheel again, so that pip can install it without a network."""
    found = metadata.distribution(name)
    path = folder / f"{name.replace('-', '_')}-{found.version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for file in found.files:
            if ".." not in file.parts and "__pycache__" not in file.parts:
                wheel.write(file.locate(), str(file))
    return path


def made_up_wheel(name: str, version: str, folder: Path, needs: str = "") -> None:
    """A package without any code, which may need another."""
    info = f"{name}-{version}.dist-info"
    texts = {
        "METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        + f"Requires-Dist: {needs}\n" * bool(needs),
        "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "RECORD": "",
    }
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for part, text in texts.items():
            wheel.writestr(f"{info}/{part}", text)


def run_alone(notebook: Path, python: Path, folder: Path, environment: dict[str, str]):
    """Run All by `python`, in the notebook's folder. Returns the notebook with its outputs, those of errors too."""
    spec = folder / "kernels" / KERNEL
    spec.mkdir(parents=True, exist_ok=True)
    surroundings = {"PYTHONPATH": "", "COLAB_RELEASE_TAG": "release-colab-20260101", "COLAB_GPU": ""} | environment
    command = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    text = {"argv": command, "display_name": KERNEL, "language": "python", "env": surroundings}
    (spec / "kernel.json").write_text(json.dumps(text))
    output = folder / "executed.ipynb"
    options = ["--to=notebook", "--execute", "--allow-errors", f"--ExecutePreprocessor.kernel_name={KERNEL}"]
    command = [sys.executable, "-m", "nbconvert", *options, f"--output={output}", str(notebook)]
    done = subprocess.run(command, env=os.environ | {"JUPYTER_PATH": str(folder)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return nbformat.read(output, as_version=4)


def repository(folder: Path) -> Path:
    """A copy of the course as it is here, for a repository of its own."""
    ignored = [line.strip("/") for line in (ROOT / ".gitignore").read_text().splitlines()]
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(".git", *ignored))
    return folder


def bare_clone(course: Path, folder: Path) -> Path:
    """A bare clone of the course, all in one commit."""

    def git(*words: str) -> None:
        subprocess.run(["git", "-C", str(course), *words], check=True, capture_output=True)

    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    git("init", "--quiet", "--initial-branch=main")
    git("add", "--all")
    git(*identity, "commit", "--quiet", "--message=All")
    git("clone", "--quiet", "--bare", str(course), str(folder))
    return folder


def redirected(address: str, clone: Path) -> dict[str, str]:
    """The environment in which git fetches from `clone` what has the address `address`."""
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.file://{clone}.insteadOf",
        "GIT_CONFIG_VALUE_0": address,
        "HOME": os.environ.get("HOME", "/"),
    }


@contextmanager
def sessions(file: str):
    """Colab's server, which answers what is open: a notebook whose fileId is `file`, an address on GitHub, with %2F for
    each slash, or a place in Drive. Yields the environment that says where it listens.

    The form of the answer is what users of it found in Colab: {"name": "01.ipynb", "path": "fileId=…", "kernel": …}.
    """

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path == "/api/sessions" else 404)
            self.end_headers()
            self.wfile.write(json.dumps([{"name": "01.ipynb", "path": f"fileId={file}", "type": "notebook"}]).encode())

        def log_message(self, *words):
            pass

    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield {"COLAB_JUPYTER_IP": "127.0.0.1", "KMP_TARGET_PORT": str(server.server_port), "no_proxy": "127.0.0.1"}
        server.shutdown()
