"""A file is replaced whole or not at all."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from utils.atomic_write import write_bytes, write_text


@pytest.mark.parametrize("old", [None, b"", b"old and longer than the new"])
def test_the_file_holds_the_new_content_and_nothing_else_is_left(tmp_path, old):
    path = tmp_path / "a.json"
    if old is not None:
        path.write_bytes(old)
    write_text(path, "größer\r\n")
    assert path.read_bytes() == "größer\r\n".encode() and os.listdir(tmp_path) == ["a.json"]


def test_its_rights_are_those_of_any_new_file(tmp_path):
    (tmp_path / "by open").write_bytes(b"")
    write_bytes(tmp_path / "by us", b"")
    assert (tmp_path / "by us").stat().st_mode == (tmp_path / "by open").stat().st_mode


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError("no space left"), KeyboardInterrupt()], ids=["full", "stopped"])
def test_on_an_error_the_old_file_stays_alone(tmp_path, monkeypatch, step, error):
    path = tmp_path / "a.json"
    path.write_text("old")

    def fail(*_, **__):
        assert path.read_text() == "old", "until the new one is on the disk"
        raise error

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(type(error)):
        write_text(path, "new")
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["a.json"]


def test_it_is_on_the_disk_before_it_has_the_name(tmp_path, monkeypatch):
    order = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, name=name, real=real, **k: (order.append(name), real(*a, **k)))
    write_text(tmp_path / "a", "new")
    assert order == ["fsync", "replace"]


def test_half_a_character_is_refused_before_a_file_is_touched(tmp_path):
    with pytest.raises(UnicodeEncodeError):
        write_text(tmp_path / "a", "\ud800")
    assert os.listdir(tmp_path) == []


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        write_text(tmp_path / "nowhere" / "a", "new")


@pytest.mark.parametrize("fails", [False, True])
def test_by_its_descriptor_a_folder_is_found_wherever_it_has_been_moved(tmp_path, monkeypatch, fails):
    folder = tmp_path / "run"
    folder.mkdir()
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        folder.rename(tmp_path / "moved")
        folder.mkdir()  # another one takes its name
        monkeypatch.chdir(folder)
        if fails:
            monkeypatch.setattr(os, "fsync", lambda _: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                write_text(Path("a"), "new", dir_fd=descriptor)
        else:
            write_text(Path("a"), "new", dir_fd=descriptor)
    finally:
        os.close(descriptor)
    assert os.listdir(folder) == [] and os.listdir(tmp_path / "moved") == ["a"] * (not fails)


REWRITE = """
import sys
from pathlib import Path
from utils.atomic_write import write_bytes
print(flush=True)
while True:
    for byte in b"ab":
        write_bytes(Path(sys.argv[1]), bytes([byte]) * 1_000_000)
"""


@pytest.mark.slow
def test_killed_at_any_moment_the_file_is_whole(tmp_path):
    path = tmp_path / "file"
    for pause in (0.0, 0.001, 0.003, 0.01, 0.03):
        with subprocess.Popen([sys.executable, "-c", REWRITE, str(path)], stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            while not path.exists():
                time.sleep(0.001)
            time.sleep(pause)
            process.send_signal(signal.SIGKILL)
        assert path.read_bytes() in (b"a" * 1_000_000, b"b" * 1_000_000)
