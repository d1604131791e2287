"""Find one published file: in COURSE_DATA, in the cache, by download. It is used only if its MD5 is right."""

import fcntl
import hashlib
import http.client
import os
import queue
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from utils.facts import OutsideFile

COURSE_ROOT = Path(__file__).resolve().parents[2]
CACHE_NAME = "honest-training-loop"
CHUNK = 1 << 16  # bytes read at a time


@dataclass(frozen=True)
class Patience:
    """How long a download may keep us waiting."""

    first_byte: float = 8.0  # seconds until the first byte of a file, over all its addresses, names looked up included
    silence: float = 4.0  # seconds to connect, and between two reads
    trickle: float = 20.0  # seconds after which the average speed must have reached ...
    slowest: float = 2_000.0  # ... this many bytes/s
    retries: int = 3  # times in a row that an address may break off and be asked for the rest


# Filled once the network failed for all addresses of a file: the next files do not wait again.
_offline: list[str] = []


def find(file: OutsideFile, patience: Patience = Patience()) -> Path | None:
    """The path of a verified copy of `file`, or None where there is none and the network gives none.

    Looks in the folder COURSE_DATA, then in the user's cache, then downloads into the cache. COURSE_OFFLINE=1
    skips the network. ValueError for a file that is there and wrong: it is not used, replaced or deleted.
    RuntimeError for a download with the wrong bytes.
    """
    for folder in (_course_data(), _user_cache(), _temporary_cache()):
        if folder is not None and os.path.lexists(folder / file.path):
            return verify(folder / file.path, file)
    if os.environ.get("COURSE_OFFLINE", "0") not in ("", "0") or _offline:
        return None
    return download(file, cache_folder(), patience)


def verify(path: Path, file: OutsideFile) -> Path:
    """`path`, if its bytes are those of `file`; else ValueError: the file, what was expected, what found."""
    if not path.is_file():
        raise ValueError(f"{path} should be the file {file.path}, but is no readable file: move it away")
    found = _size_and_md5(path)
    if found != (file.size, file.md5):
        raise ValueError(
            f"{path} is not the published file: expected {_describe(file.size, file.md5)}, found "
            f"{_describe(*found)}. Delete it and run again, or put in its place the file from {file.urls[0]}"
        )
    return path


def cache_folder() -> Path:
    """A folder of ours to write to: the user's cache, or a temporary folder where that cannot be written."""
    folder = _user_cache()
    if folder is not None and _is_writable(folder):
        return folder
    return _temporary_cache()


def _course_data() -> Path | None:
    """The folder COURSE_DATA. A relative one is meant from the current folder or from the course's root.

    Both, since notebooks are executed in their own folder and `make` in the root.
    """
    name = os.environ.get("COURSE_DATA")
    if not name:
        return None
    candidates = [Path(name).expanduser().absolute(), (COURSE_ROOT / name).absolute()]
    for folder in candidates:
        if folder.is_dir():
            return folder
    raise ValueError(f"COURSE_DATA={name!r} is no folder (nor is {candidates[1]}): correct it or unset it")


def _user_cache() -> Path | None:
    """The cache as XDG defines it (a relative XDG_CACHE_HOME is ignored); None without a home."""
    for base in (os.environ.get("XDG_CACHE_HOME", ""), os.path.expanduser("~/.cache")):
        if os.path.isabs(base):
            return Path(base) / CACHE_NAME
    return None


def _temporary_cache() -> Path:
    return Path(tempfile.gettempdir()) / f"{CACHE_NAME}-{os.getuid()}"


def _is_writable(folder: Path) -> bool:
    """Whether a file can be created in `folder`: tried, since root passes every check of rights."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _size_and_md5(path: Path) -> tuple[int, str]:
    with open(path, "rb") as stream:
        digest = hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False))
        return stream.tell(), digest.hexdigest()


def _describe(size: int, md5: str) -> str:
    return f"{size:,} bytes with MD5 {md5}"


# --- the network --------------------------------------------------------------------------------------------


class _NoAnswer(Exception):
    """Not one byte came."""


class _Refused(Exception):
    """The server answered, and not with the file."""


class _NoSuchRange(Exception):
    """The server has nothing from there on."""


class _BrokeOff(Exception):
    """Some bytes came, then no more."""


def download(file: OutsideFile, folder: Path, patience: Patience) -> Path | None:
    """Download `file` into `folder` and verify it; None (and a line that says why) if no address gives it.

    What has come is kept in a .part file and asked no second time. RuntimeError if only wrong bytes came, and
    nothing lies under the file's own name. Of two processes that download at once, one waits for the other.
    """
    target = folder / file.path
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _locked(folder / ".download.lock"):
        if target.exists():
            return verify(target, file)
        reasons, wrong = _try_addresses(file, target, patience)
    if target.exists():
        return target
    if wrong:
        raise RuntimeError(
            f"the download of {file.path} is not the published file: expected "
            f"{_describe(file.size, file.md5)}, found {'; '.join(wrong)}. Nothing was kept. Try another "
            "network, name a folder that holds the file in COURSE_DATA, or set COURSE_OFFLINE=1 for the stand-in"
        )
    summary = f"{file.path}: " + "; ".join(f"{url} {reason}" for url, reason in reasons.items())
    if not any(isinstance(reason, _Refused) for reason in reasons.values()):
        _offline.append(summary)
    print(f"no download of {summary}", flush=True)
    return None


def _try_addresses(file: OutsideFile, target: Path, patience: Patience) -> tuple[dict[str, Exception], list[str]]:
    """Fill `target` from the first address that gives the right bytes; else the reasons and wrong finds."""
    part = target.with_name(target.name + ".part")
    deadline = time.monotonic() + patience.first_byte
    reasons, wrong = {}, []
    for url in file.urls:
        failures, furthest = 0, _size(part)
        while failures <= patience.retries:
            start = _size(part)
            try:
                _fetch(url, part, start, file.size, patience, deadline)
            except (_NoAnswer, _Refused) as error:
                reasons[url] = error
                break
            except _NoSuchRange:
                part.unlink()  # and ask for all of it, which cannot fail in this way
                continue
            except _BrokeOff as error:
                reasons[url] = error
                failures = 0 if _size(part) >= furthest + CHUNK else failures + 1
                furthest = max(furthest, _size(part))
                deadline = time.monotonic() + patience.first_byte
                continue
            found = _size_and_md5(part)
            if found == (file.size, file.md5):
                os.replace(part, target)
                return {}, []
            part.unlink()
            deadline = time.monotonic() + patience.first_byte
            if start == 0:
                wrong.append(f"{_describe(*found)} at {url}")
                break
    return reasons, wrong


def _fetch(url: str, part: Path, start: int, size: int, patience: Patience, deadline: float) -> None:
    """Append the bytes from `start` on to `part` until the server has no more (or sends more than `size`)."""
    response, chunk = _open(url, start, patience, deadline)
    with response:
        if response.status != http.client.PARTIAL_CONTENT:
            start = 0  # the server does not do ranges and sends all of it
        announced = response.headers.get("Content-Length")
        began, received = time.monotonic(), 0
        with (
            open(part, "r+b" if start else "wb") as stream,
            tqdm(total=size, initial=start, unit="B", unit_scale=True, desc=part.stem) as progress,
        ):
            stream.truncate(start)
            stream.seek(start)
            while chunk and start + received <= size:
                stream.write(chunk)
                received += len(chunk)
                progress.update(len(chunk))
                seconds = time.monotonic() - began
                if seconds > patience.trickle and received < patience.slowest * seconds:
                    raise _BrokeOff(f"sends only {received / seconds:.0f} bytes/s")
                try:
                    chunk = response.read1(CHUNK)
                except (OSError, http.client.HTTPException) as error:
                    raise _BrokeOff(f"broke off: {error!r}") from error
    if announced is not None and received < int(announced) and start + received <= size:
        raise _BrokeOff(f"broke off after {start + received:,} bytes")


def _open(url: str, start: int, patience: Patience, deadline: float) -> tuple[http.client.HTTPResponse, bytes]:
    """The response and its first bytes, asked for in a thread: looking up a name has no timeout of its own.

    _NoAnswer at the deadline; the thread is left behind (a daemon) and closes what it still gets.
    """
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise _NoAnswer("was not asked: no time left")
    answers: queue.Queue = queue.Queue()
    abandoned = threading.Event()
    request = urllib.request.Request(url, headers={"Range": f"bytes={start}-"} if start else {})

    def ask() -> None:
        try:
            with ExitStack() as on_error:
                response = on_error.enter_context(urllib.request.urlopen(request, timeout=patience.silence))
                answers.put((response, response.read1(CHUNK)))
                on_error.pop_all()
        except Exception as error:  # handed over and raised below
            answers.put(error)
        if abandoned.is_set():
            _close_all(answers)

    threading.Thread(target=ask, daemon=True, name=f"download {url}").start()
    try:
        answer = answers.get(timeout=seconds)
    except queue.Empty:
        abandoned.set()
        _close_all(answers)
        raise _NoAnswer(f"sent no byte within {seconds:.1f} s") from None
    if isinstance(answer, urllib.error.HTTPError):
        answer.close()
        if answer.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE and start:
            raise _NoSuchRange
        raise _Refused(f"answered {answer.code} {answer.reason}")
    if isinstance(answer, Exception):
        raise _NoAnswer(f"did not answer: {answer!r}")
    return answer


def _close_all(answers: queue.Queue) -> None:
    """Close the responses that nobody waits for any more."""
    while not answers.empty():
        answer = answers.get()
        if isinstance(answer, tuple):
            answer[0].close()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock file `path`. The kernel lets go of it when the holder dies, so it cannot go stale."""
    with open(path, "w") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"another process is downloading (it holds {path}): waiting for it", flush=True)
            fcntl.flock(stream, fcntl.LOCK_EX)
        yield
