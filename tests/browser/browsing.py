"""A headless Chromium, what goes wrong on the pages it opens, and JupyterLab as a student uses it.

Each check is a function that returns what is wrong in words, so that an empty list is what a test asks for.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

import nbformat

try:
    from playwright.sync_api import sync_playwright
except ImportError:  # the tests are still collected, and left out by `make test`
    sync_playwright = None

ROOT = Path(__file__).parents[2]
SHOTS = ROOT / "build" / "browser"
WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
PAPER = {"width": 718, "height": 1047}  # of A4 between margins of a centimetre, in px
PAGE = 300_000  # ms for a page, a dialog, a saved file: busy machines are slow, what never comes is an error
LECTURE = 1_800_000  # ms for Run All: a minute and a half where nothing else runs
HERE = ("127.0.0.1", "localhost")
NO_NAME_IS_FOUND = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"
TOKEN = "of-the-test"
IDLE = ".jp-Notebook-ExecutionIndicator[data-status=idle]"


def chromium(playwright) -> str:
    """The path of the Chromium to drive. Raises RuntimeError, with the next move, where there is none."""
    named = os.environ.get("CHROMIUM")
    found = named or shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    path = found or playwright.chromium.executable_path
    if not Path(path).exists():
        raise RuntimeError(
            f"no Chromium at {path}: install one (apt install chromium, or {sys.executable} -m playwright install "
            "chromium), or say CHROMIUM=/path/to/it"
        )
    return path


def watched_page(browser, *, dark: bool = False, size: dict = WIDE):
    """A page in a context of its own, the same everywhere; `page.watch` notes what goes wrong."""
    context = browser.new_context(
        viewport=size, color_scheme="dark" if dark else "light", reduced_motion="reduce",
        locale="en-US", timezone_id="UTC", device_scale_factor=1,
    )  # fmt: skip
    context.set_default_timeout(PAGE)
    watch = Watch(context)
    page = context.new_page()
    page.watch = watch
    return page


class Watch:
    """All that the pages of a browser context complain about, and every address they ask for."""

    def __init__(self, context):
        self.errors: list[str] = []
        self.requests: list[str] = []
        context.on("console", self._console)
        context.on("weberror", lambda error: self.errors.append(f"exception: {error.error}"))
        context.on("request", lambda request: self.requests.append(request.url))
        context.on("page", lambda page: page.on("websocket", lambda socket: self.requests.append(socket.url)))

    def _console(self, message) -> None:
        if message.type == "error":
            where = message.location.get("url", "")
            self.errors.append(f"console: {message.text} {where}".strip())

    @property
    def left(self) -> list[str]:
        """The requests for something outside this machine."""
        return [url for url in self.requests if leaves(url)]

    @property
    def problems(self) -> list[str]:
        return self.errors + [f"asked for {url}" for url in self.left]


def leaves(url: str) -> bool:
    """Whether a request for `url` leaves the machine."""
    parts = urlsplit(url)
    if parts.scheme in ("http", "https", "ws", "wss"):
        return parts.hostname not in HERE
    return parts.scheme not in ("file", "data", "blob", "about") or bool(parts.scheme == "file" and parts.netloc)


def too_wide(page) -> list[str]:
    """What makes the page scroll sideways: the elements that reach over its right edge, or nothing."""
    return page.evaluate(
        """() => {
            const root = document.documentElement, width = root.clientWidth;
            if (Math.max(root.scrollWidth, document.body.scrollWidth) <= width) return [];
            const scrolls = e => e && e !== document.body && e !== root
                && (/auto|scroll|hidden|clip/.test(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
            const over = [...document.body.querySelectorAll('*')]
                .filter(e => e.getBoundingClientRect().right > width + 0.5 && !scrolls(e.parentElement));
            return [`the page is ${root.scrollWidth} px wide in a window of ${width}`].concat(
                over.slice(0, 10).map(e => `${e.tagName.toLowerCase()}#${e.id}.${e.className}: `
                    + `${Math.round(e.getBoundingClientRect().right)} px, ${e.textContent.trim().slice(0, 60)}`));
        }"""
    )


def faint(page, least: float = 4.5) -> list[str]:
    """The texts on the page whose contrast with what is behind them is below `least` (WCAG 2: 4.5 for plain text)."""
    return page.evaluate(
        """least => {
            const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
            const known = new Map(), backs = new Map();
            const read = text => {  // any CSS colour, as the browser itself reads it
                canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = text; canvas.fillRect(0, 0, 1, 1);
                const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
                return [r, g, b, a / 255];
            };
            const rgba = text => known.get(text) || known.set(text, read(text)).get(text);
            const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
            const behind = e => {
                if (!e) return rgba('canvas');
                if (!backs.has(e)) backs.set(e, over(rgba(getComputedStyle(e).backgroundColor), behind(e.parentElement)));
                return backs.get(e);
            };
            const linear = v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
            const light = c => 0.2126 * linear(c[0] / 255) + 0.7152 * linear(c[1] / 255) + 0.0722 * linear(c[2] / 255);
            const found = [], seen = {visibilityProperty: true, opacityProperty: true};
            for (const e of document.body.querySelectorAll('*')) {
                const text = [...e.childNodes].filter(n => n.nodeType === 3).map(n => n.textContent).join('').trim();
                if (!text || e.closest('svg, script, style') || !e.checkVisibility(seen)) continue;
                const back = behind(e), front = over(rgba(getComputedStyle(e).color), back);
                const [a, b] = [light(front), light(back)].sort((x, y) => y - x), ratio = (a + 0.05) / (b + 0.05);
                if (ratio < least) {
                    const where = `${e.tagName.toLowerCase()}.${e.className}`;
                    found.push(`${ratio.toFixed(2)}: ${where} ${text.slice(0, 60)}`);
                }
            }
            return found;
        }""",
        least,
    )


def kept_out(page) -> list[str]:
    """What axe-core finds on the page that keeps people out: its findings of serious and critical impact."""
    from axe_playwright_python.sync_playwright import Axe  # installed with the browser's driver

    found = Axe().run(page).response["violations"]
    serious = [each for each in found if each["impact"] in ("serious", "critical")]
    return [f"{each['id']}: {node['html'][:120]}" for each in serious for node in each["nodes"]]


def cut(page, what: str) -> list[str]:
    """What matches the selector and is wider than its place, so that it has to be scrolled, or paper does not show it."""
    return page.evaluate(
        """what => [...document.querySelectorAll(what)].filter(e => e.scrollWidth > e.clientWidth + 1)
            .map(e => `${e.scrollWidth} px in ${e.clientWidth}: ${e.textContent.trim().slice(0, 60)}`)""",
        what,
    )


@contextmanager
def served(folder: Path):
    """The address of `folder` on a free port of this machine."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    handler.log_message = lambda *_: None
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def problems_of(notebook: dict) -> list[str]:
    """The code cells of an executed notebook that did not run or that show an error."""
    problems = []
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        if cell["execution_count"] is None:
            problems.append(f"{cell['id']}: not executed")
        for output in cell["outputs"]:
            if output["output_type"] == "error":
                problems.append(f"{cell['id']}: {output['ename']}: {output['evalue']}")
    return problems


def pictures_in(notebook: dict) -> int:
    """How many pictures the outputs hold."""
    outputs = [output for cell in notebook["cells"] for output in cell.get("outputs", [])]
    return sum("image/svg+xml" in output.get("data", {}) for output in outputs)


def write_notebook(path: Path, sources: list[str]) -> None:
    """A notebook of code cells, called cell-0, cell-1, …"""
    cells = [nbformat.v4.new_code_cell(source, id=f"cell-{number}") for number, source in enumerate(sources)]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel}), path)


class Lab:
    """A JupyterLab that `make lab` would start, on a copy of the notebooks in `home`."""

    def __init__(self, home: Path):
        self.home = home
        self.url = ""

    @contextmanager
    def running(self):
        for name in ("notebooks", "labs"):
            shutil.copytree(ROOT / name, self.home / name, ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
        shutil.copy(ROOT / "README.md", self.home)
        with open(self.home / "lab.log", "w") as log:
            server = subprocess.Popen(
                self._command(), cwd=self.home, env=self._environment(), stdout=log, stderr=log, start_new_session=True
            )
            try:
                self.url = self._address(server)
                yield self
            finally:
                _stop(server)

    def _command(self) -> list[str]:
        """The last line of `make lab`, run by the Python that runs the tests."""
        options = f"--allow-root --no-browser --port={_free_port()} --ServerApp.token={TOKEN}"
        lines = subprocess.run(
            ["make", "--dry-run", "--no-print-directory", "lab", f"LAB={options}"],
            cwd=ROOT, capture_output=True, text=True, check=True,
        ).stdout.splitlines()  # fmt: skip
        return ["sh", "-c", lines[-1].replace(".venv/bin", str(Path(sys.executable).parent))]

    def _environment(self) -> dict[str, str]:
        """No settings but these, and nothing written outside the copy; the news would be asked for outside the machine."""
        settings = self.home / "settings" / "@jupyterlab" / "apputils-extension"
        settings.mkdir(parents=True)
        news = {"fetchNews": "false", "checkForUpdates": False}
        (settings / "notification.jupyterlab-settings").write_text(json.dumps(news))
        folders = {
            "JUPYTERLAB_SETTINGS_DIR": "settings", "JUPYTERLAB_WORKSPACES_DIR": "workspaces", "JUPYTER_CONFIG_DIR": "config",
            "JUPYTER_DATA_DIR": "data", "JUPYTER_RUNTIME_DIR": "runtime", "IPYTHONDIR": "ipython",
        }  # fmt: skip
        places = {name: str(self.home / "jupyter" / folder) for name, folder in folders.items()}
        places["JUPYTERLAB_SETTINGS_DIR"] = str(self.home / "settings")
        return os.environ | places | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}

    def _address(self, server: subprocess.Popen) -> str:
        """Where the server listens, once it answers. Raises RuntimeError with its log if it ends or stays silent."""
        deadline = time.monotonic() + PAGE / 1000
        while time.monotonic() < deadline and server.poll() is None:
            for file in (self.home / "jupyter" / "runtime").glob("jpserver-*.json"):
                try:
                    url = json.loads(file.read_text())["url"]
                    with urllib.request.urlopen(f"{url}api/status?token={TOKEN}", timeout=5):
                        return url
                except (OSError, json.JSONDecodeError):
                    pass  # not yet
            time.sleep(0.1)
        raise RuntimeError(f"JupyterLab does not answer:\n{(self.home / 'lab.log').read_text()}")

    @contextmanager
    def opened(self, page, notebook: str):
        """A notebook, alone in a workspace of its own, once its kernel is ready and all its cells stand there.

        One of the course is as it is stored, without what another test saved.
        """
        if (ROOT / notebook).exists():
            shutil.copy(ROOT / notebook, self.home / notebook)
        page.goto(f"{self.url}lab/workspaces/{safe(notebook)}/tree/{notebook}?token={TOKEN}")
        page.get_by_text("| Idle").wait_for(timeout=PAGE)  # the status bar; before, a cell that is run is forgotten
        cells = sum(cell["cell_type"] == "code" for cell in self.read(notebook)["cells"])
        page.wait_for_function(
            "n => document.querySelectorAll('.jp-Notebook .jp-CodeCell').length === n", arg=cells, timeout=PAGE
        )
        try:
            yield
        finally:
            self._end_kernels()

    def _end_kernels(self) -> None:
        with urllib.request.urlopen(f"{self.url}api/kernels?token={TOKEN}", timeout=PAGE / 1000) as answer:
            kernels = json.load(answer)
        for kernel in kernels:
            url = f"{self.url}api/kernels/{kernel['id']}?token={TOKEN}"
            urllib.request.urlopen(urllib.request.Request(url, method="DELETE"), timeout=PAGE / 1000).close()

    def run_all(self, page) -> None:
        """The menu's Run All Cells, until every cell has its number or one has failed."""
        page.get_by_role("menuitem", name="Run", exact=True).click()
        page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        page.wait_for_function(  # a star: waits for its turn; no more stars: all have run, or one has failed
            r"""() => {
                const prompts = [...document.querySelectorAll('.jp-Notebook .jp-CodeCell .jp-InputPrompt')];
                const texts = prompts.map(prompt => prompt.textContent);
                return texts.some(text => /\d/.test(text)) && !texts.some(text => text.includes('*'));
            }""",
            timeout=LECTURE,
        )
        page.locator(IDLE).wait_for(timeout=PAGE)

    def save(self, page, notebook: str) -> dict:
        """Save as a student does, and read what was saved."""
        with page.expect_response(
            lambda answer: answer.request.method == "PUT" and "/api/contents/" in answer.url, timeout=PAGE
        ) as saved:
            page.keyboard.press("Control+s")
        assert saved.value.ok, f"not saved: {saved.value.status}"
        return self.read(notebook)

    def read(self, notebook: str) -> dict:
        """The notebook as JupyterLab shows it when it is opened: a lecture's outputs are not in its file."""
        with urllib.request.urlopen(f"{self.url}api/contents/{notebook}?token={TOKEN}", timeout=PAGE / 1000) as answer:
            return json.load(answer)["content"]


def _free_port() -> int:
    """A port that is free now. If somebody takes it first the server moves on, and its own file says where to."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _stop(server: subprocess.Popen) -> None:
    os.killpg(server.pid, signal.SIGTERM)
    try:
        server.wait(30)
    except subprocess.TimeoutExpired:
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def safe(name: str) -> str:
    return re.sub(r"\W+", "_", name).strip("_")
