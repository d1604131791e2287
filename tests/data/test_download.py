"""A file from outside: where it is looked for, and that no wrong byte of it is ever used.

The network is a server in a thread of this process; how long the code waits is set, so nothing here is a race
against the clock of the machine.
"""

import hashlib
import http.server
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from utils.data import download
from utils.data.download import find
from utils.facts import OutsideFile

CONTENT = random.Random(0).randbytes(300_000)
OTHER = random.Random(1).randbytes(300_000)
MD5 = hashlib.md5(CONTENT).hexdigest()
QUICK, CALM = 0.4, 30.0  # seconds: gives up soon; does not on a slow machine


class Server(http.server.ThreadingHTTPServer):
    """Answers every request by `behave(handler)`; keeps path and Range of each; `release` ends all stalls."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.requests: list[tuple[str, str | None]] = []
        self.release = threading.Event()
        self.behave = send

    def file(self, *addresses: str, path: str = "set/file.bin") -> OutsideFile:
        urls = tuple(f"http://127.0.0.1:{self.server_port}/{address}" for address in addresses or ("a",))
        return OutsideFile(path, urls, MD5, len(CONTENT))

    def handle_error(self, request, client_address):
        """A client that went away is part of the play."""


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.requests.append((self.path, self.headers.get("Range")))
        self.server.behave(self)

    def log_message(self, *args):
        pass


def send(handler, content=CONTENT, ranges=True, stop_after=None, length=True):
    """All of `content`, or the part asked for; `stop_after`: so many bytes, although more were announced."""
    asked = handler.headers.get("Range") if ranges else None
    start = int(re.fullmatch(r"bytes=(\d+)-", asked)[1]) if asked else 0
    if start >= len(content):
        handler.send_error(416)
        return
    handler.send_response(206 if asked else 200)
    if asked:
        handler.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
    if length:
        handler.send_header("Content-Length", str(len(content) - start))
    handler.end_headers()
    handler.wfile.write(content[start:][:stop_after])


@pytest.fixture
def server():
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield server
    server.release.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def own_world(tmp_path, monkeypatch):
    """No folder of the user's, no proxy, no memory of an earlier test."""
    for name in ("COURSE_DATA", "COURSE_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(download, "_offline", [])
    monkeypatch.setattr(download, "SECONDS", CALM)


@pytest.fixture
def cached(tmp_path) -> Path:
    return tmp_path / "cache" / "honest-training-loop" / "set" / "file.bin"


def put(path: Path, content: bytes = CONTENT) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def within(seconds: float, function, *args):
    """What function(*args) returns, or the error it raises; failing rather than hanging."""
    result = []

    def call():
        try:
            result.append(function(*args))
        except Exception as error:
            result.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(seconds)
    assert not thread.is_alive(), f"still waiting after {seconds} s"
    return result[0]


# --- where it is looked for ---------------------------------------------------------------------------------


def test_course_data_comes_first(server, cached, tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_DATA", str(tmp_path / "mine"))
    mine = put(tmp_path / "mine" / "set" / "file.bin")
    put(cached, OTHER)  # wrong, and not even looked at
    assert find(server.file()) == mine
    assert server.requests == []


def test_cache_comes_second(server, cached, tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_DATA", str(tmp_path))
    put(cached)
    assert find(server.file()) == cached
    assert server.requests == []


def test_download_comes_third_and_once(server, cached, monkeypatch):
    assert find(server.file()) == cached
    assert cached.read_bytes() == CONTENT
    monkeypatch.setenv("COURSE_OFFLINE", "1")
    assert find(server.file()) == cached
    assert server.requests == [("/a", None)]
    assert sorted(os.listdir(cached.parent)) == ["file.bin"]


def test_course_offline_asks_nobody(server, monkeypatch):
    monkeypatch.setenv("COURSE_OFFLINE", "1")
    assert find(server.file()) is None
    assert server.requests == []
    monkeypatch.setenv("COURSE_OFFLINE", "0")
    assert find(server.file()) is not None


def test_relative_course_data_counts_from_here_or_from_the_root(tmp_path, monkeypatch):
    monkeypatch.setattr(download, "COURSE_ROOT", tmp_path / "course")
    monkeypatch.setenv("COURSE_DATA", "../mine")
    at_root = put(tmp_path / "mine" / "set" / "file.bin")
    (tmp_path / "course" / "notebooks").mkdir(parents=True)
    for folder in ("course", "course/notebooks"):
        monkeypatch.chdir(tmp_path / folder)
        assert find(OutsideFile("set/file.bin", (), MD5, len(CONTENT))).samefile(at_root)


def test_course_data_that_is_no_folder_is_an_error(server, tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_DATA", str(tmp_path / "typo"))
    with pytest.raises(ValueError, match=r"COURSE_DATA=.*typo.*is no folder"):
        find(server.file())


def test_cache_that_cannot_be_written_gives_a_temporary_folder(server, tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(put(tmp_path / "a file, no folder")))
    path = find(server.file())
    assert path.read_bytes() == CONTENT and path.is_relative_to(tmp_path / "temporary")
    assert find(server.file()) == path and len(server.requests) == 1


def test_relative_cache_home_is_ignored(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert download.cache_folder() == tmp_path / "home" / ".cache" / "honest-training-loop"


def test_without_a_home_the_cache_is_a_temporary_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    assert download.cache_folder().parent == tmp_path / "temporary"


# --- wrong bytes --------------------------------------------------------------------------------------------

FLIPPED = bytes([CONTENT[0] ^ 1]) + CONTENT[1:]


@pytest.mark.parametrize("place", ["COURSE_DATA", "cache"])
@pytest.mark.parametrize(
    "bad", [CONTENT[:-1], FLIPPED, OTHER, b"", CONTENT + b"\0"], ids=["cut", "flipped", "other", "empty", "longer"]
)
def test_wrong_file_is_named_and_left_alone(place, bad, server, cached, tmp_path, monkeypatch):
    monkeypatch.setenv("COURSE_DATA", str(tmp_path / "mine"))
    (tmp_path / "mine").mkdir()
    path = put(cached if place == "cache" else tmp_path / "mine" / "set" / "file.bin", bad)
    with pytest.raises(ValueError) as error:
        find(server.file())
    for part in (str(path), "300,000", MD5, f"{len(bad):,} bytes", hashlib.md5(bad).hexdigest(), "Delete it"):
        assert part in str(error.value)
    assert path.read_bytes() == bad
    assert server.requests == []


@pytest.mark.parametrize("kind", ["folder", "dangling link"])
def test_what_is_no_file_is_an_error(kind, server, cached):
    cached.parent.mkdir(parents=True)
    cached.mkdir() if kind == "folder" else cached.symlink_to("nowhere")
    with pytest.raises(ValueError, match=re.escape(str(cached))):
        find(server.file())
    assert server.requests == []


@pytest.mark.parametrize(
    "bad",
    [CONTENT[:-1], FLIPPED, CONTENT + b"\0" * 200_000, b"<html>log in</html>"],
    ids=["cut", "flipped", "longer", "page"],
)
@pytest.mark.parametrize("length", [True, False], ids=["announced", "unannounced"])
def test_wrong_download_does_not_land(bad, length, server, cached):
    server.behave = lambda handler: send(handler, bad, length=length)
    error = within(30, find, server.file())
    assert isinstance(error, RuntimeError), error
    assert all(part in str(error) for part in ("set/file.bin", "300,000", MD5, "COURSE_DATA")), error
    assert os.listdir(cached.parent) == []


def test_second_address_helps_when_the_first_has_wrong_bytes(server, cached):
    server.behave = lambda handler: send(handler, OTHER if handler.path == "/a" else CONTENT)
    assert find(server.file("a", "b")) == cached
    assert cached.read_bytes() == CONTENT


def test_endless_download_is_cut_off(server):
    def endless(handler):
        handler.send_response(200)
        handler.end_headers()
        while not handler.server.release.is_set():
            handler.wfile.write(bytes(1 << 16))

    server.behave = endless
    error = within(30, find, server.file())
    assert isinstance(error, RuntimeError) and "not the published file" in str(error)


# --- broken connections -------------------------------------------------------------------------------------


def test_cut_connection_is_resumed_where_it_broke(server, cached):
    server.behave = lambda handler: send(handler, stop_after=100_000)
    assert find(server.file()) == cached
    assert cached.read_bytes() == CONTENT
    assert server.requests == [("/a", None), ("/a", "bytes=100000-"), ("/a", "bytes=200000-")]


def test_server_without_ranges_starts_over(server, cached):
    def behave(handler):
        send(handler, ranges=False, stop_after=100_000 if len(server.requests) == 1 else None)

    server.behave = behave
    assert find(server.file()) == cached
    assert cached.read_bytes() == CONTENT
    assert server.requests == [("/a", None), ("/a", "bytes=100000-")]


@pytest.mark.parametrize(
    "left_over", [OTHER[:100_000], OTHER, CONTENT, CONTENT + b"\0"], ids=["wrong", "full", "done", "longer"]
)
def test_left_over_part_never_spoils_the_file(left_over, server, cached):
    put(cached.with_name("file.bin.part"), left_over)
    assert find(server.file()) == cached
    assert cached.read_bytes() == CONTENT


@pytest.mark.parametrize("answer", ["416", "another part"])
def test_range_that_the_server_does_not_have(answer, server, cached):
    put(cached.with_name("file.bin.part"), CONTENT[:100_000])

    def behave(handler):
        if not handler.headers.get("Range"):
            send(handler)
        elif answer == "416":
            handler.send_error(416)
        else:
            handler.send_response(206)
            handler.send_header("Content-Range", "bytes 5-9/300000")
            handler.send_header("Content-Length", "5")
            handler.end_headers()
            handler.wfile.write(CONTENT[5:10])

    server.behave = behave
    assert find(server.file()) == cached
    assert cached.read_bytes() == CONTENT


def test_connection_that_keeps_breaking_is_given_up(server, cached, capsys):
    server.behave = lambda handler: send(handler, stop_after=10)
    assert within(30, find, server.file()) is None
    assert len(server.requests) == download.ATTEMPTS
    assert "no download of set/file.bin" in capsys.readouterr().out
    assert not cached.exists()
    server.behave = send
    download._offline.clear()  # another day
    assert find(server.file()).read_bytes() == CONTENT
    assert server.requests[-1] == ("/a", "bytes=40-")


def test_server_without_ranges_that_breaks_off_here_and_there_is_given_up(server):
    """Each second answer gets further than the one before, none further than the first."""
    server.behave = lambda handler: send(handler, ranges=False, stop_after=(200_000, 100_000)[len(server.requests) % 2])
    assert within(30, find, server.file()) is None


def test_missing_everywhere_is_no_file_and_another_file_is_still_asked_for(server, capsys):
    server.behave = lambda handler: handler.send_error(404) if handler.path in ("/a", "/b") else send(handler)
    assert find(server.file("a", "b")) is None
    assert [path for path, _ in server.requests] == ["/a", "/b"]
    assert capsys.readouterr().out.count("HTTPError 404") == 2
    assert find(server.file("c", path="set/other.bin")) is not None


def test_next_address_is_tried_after_a_404(server, cached):
    server.behave = lambda handler: handler.send_error(404) if handler.path == "/a" else send(handler)
    assert find(server.file("a", "b")) == cached


# --- offline ------------------------------------------------------------------------------------------------


def stall_at_once(handler):
    handler.server.release.wait(60)


def stall_after_headers(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(CONTENT)))
    handler.end_headers()
    handler.wfile.flush()
    handler.server.release.wait(60)


def stall_in_headers(handler):
    """One byte of header at a time: no single read is ever slow."""
    while not handler.server.release.wait(0.05):
        handler.wfile.write(b"x")


def stall_in_the_middle(handler):
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(CONTENT)))
    handler.end_headers()
    handler.wfile.write(CONTENT[:1000])
    handler.server.release.wait(60)


@pytest.mark.slow
@pytest.mark.parametrize("behave", [stall_at_once, stall_after_headers, stall_in_headers, stall_in_the_middle])
def test_server_that_stalls_does_not_hang_us(behave, server, capsys, monkeypatch):
    server.behave = behave
    monkeypatch.setattr(download, "SECONDS", QUICK)
    assert within(20, find, server.file("a", "b")) is None
    monkeypatch.setattr(download, "SECONDS", CALM)
    assert within(20, find, server.file("c", path="set/other.bin")) is None  # calm, and yet no wait
    assert ("/a", None) in server.requests and ("/c", None) not in server.requests
    assert capsys.readouterr().out.count("no download of") == 1


def test_name_that_is_looked_up_for_ever_does_not_hang_us(server, monkeypatch):
    def hang(*args, **kwargs):
        server.release.wait(60)
        raise socket.gaierror("released")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    monkeypatch.setattr(download, "SECONDS", QUICK)
    file = OutsideFile("set/file.bin", ("http://nowhere.invalid/a", "http://nowhere.invalid/b"), MD5, 5)
    assert within(20, find, file) is None


def test_refused_connection_is_offline(server):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound and not listening: nobody answers there
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/a"
        assert within(20, find, OutsideFile("set/file.bin", (url,), MD5, 5)) is None
    assert "ConnectionRefusedError" in download._offline[0]


# --- several processes --------------------------------------------------------------------------------------

CHILD = """
import sys
from utils import facts
from utils.data import download
download.SECONDS = 30
print(download.find(facts.OutsideFile(*eval(sys.argv[1]))))
"""


def start_child(file: OutsideFile) -> subprocess.Popen:
    arguments = [sys.executable, "-c", CHILD, repr((file.path, file.urls, file.md5, file.size))]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def wait_until(condition, seconds=300):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} s"
        time.sleep(0.01)


@pytest.mark.slow
def test_of_two_processes_one_downloads_and_the_other_waits(server, cached):
    go_on = threading.Event()

    def behave(handler):
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(CONTENT)))
        handler.end_headers()
        handler.wfile.write(CONTENT[:150_000])
        go_on.wait(20)
        handler.wfile.write(CONTENT[150_000:])

    server.behave = behave
    first = start_child(server.file())
    wait_until(lambda: server.requests)
    second = start_child(server.file())
    assert "another process is downloading" in second.stdout.readline()
    go_on.set()
    assert first.communicate(timeout=600)[0].strip() == str(cached)
    assert second.communicate(timeout=600)[0].strip() == str(cached)
    assert len(server.requests) == 1 and cached.read_bytes() == CONTENT


@pytest.mark.slow
def test_killed_download_is_resumed_by_the_next_process(server, cached):
    part = cached.with_name("file.bin.part")
    server.behave = stall_in_the_middle
    child = start_child(server.file())
    wait_until(lambda: server.requests)
    # The first bytes may still sit in the child's buffer; what matters is that nothing but a part is there.
    wait_until(part.exists)
    child.send_signal(signal.SIGKILL)
    child.communicate(timeout=600)
    kept = part.stat().st_size
    assert not cached.exists()
    server.behave = send
    assert within(30, find, server.file()).read_bytes() == CONTENT
    assert server.requests[1:] == [("/a", f"bytes={kept}-" if kept else None)]
