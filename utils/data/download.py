"""Find one published file: in COURSE_DATA, in the cache, by download. It is used only if its MD5 is right."""

import hashlib
import http.client
import os
import tempfile
import threading
import urllib.error
import urllib.request
from concurrent.futures import Future
from pathlib import Path

from filelock import FileLock, Timeout
from tqdm import tqdm

from utils.facts import CACHE_NAME, OutsideFile

COURSE_ROOT = Path(__file__).resolve().parents[2]
CHUNK = 1 << 16  # bytes read at a time
SECONDS = 6.0  # without an answer, or a byte, after which an address is given up
ATTEMPTS = 4  # requests to one address, if each brings some bytes and breaks off

# Filled once the network failed for all addresses of a file: the next files do not wait again.
_offline: list[str] = []


def find(file: OutsideFile) -> Path | None:
    """The path of a verified copy of `file`, or None where there is none and the network gives none.

    Looks in the folder COURSE_DATA, then in the user's cache, then downloads into the cache. COURSE_OFFLINE=1
    skips the network. ValueError for a file that is there and wrong: it is not used, replaced or deleted.
    RuntimeError for a download with the wrong bytes.
    """
    for folder in (_course_data(), _user_cache(), _temporary_cache()):
        if folder and os.path.lexists(folder / file.path):
            return verify(folder / file.path, file)
    if os.environ.get("COURSE_OFFLINE", "0") not in ("", "0") or _offline:
        return None
    return download(file, cache_folder())


def verify(path: Path, file: OutsideFile) -> Path:
    """`path`, if its bytes are those of `file`; else ValueError: the file, what was expected, what found."""
    if not path.is_file():
        raise ValueError(f"{path} should be the file {file.path}, but is no readable file: move it away")
    if problem := _difference(path, file):
        better = f"Delete it and run again, or put in its place the file from {file.urls[0]}"
        raise ValueError(f"{path} is not the published file: {problem}. {better}")
    return path


def _difference(path: Path, file: OutsideFile) -> str:
    """What was expected and what was found; "" where the bytes at `path` are those of `file`."""
    with open(path, "rb") as stream:
        md5 = hashlib.file_digest(stream, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
        size = stream.tell()
    if (size, md5) == (file.size, file.md5):
        return ""
    return f"expected {file.size:,} bytes with MD5 {file.md5}, found {size:,} bytes with MD5 {md5}"


def cache_folder() -> Path:
    """A folder of ours to write to: the user's cache, or a temporary folder where that cannot be written."""
    folder = _user_cache()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):  # tried, since root passes every check of rights
            return folder
    except OSError:
        return _temporary_cache()


def _course_data() -> Path | None:
    """The folder COURSE_DATA. A relative one counts from here, as in a terminal, or from the root, as in a notebook."""
    name = os.environ.get("COURSE_DATA")
    if not name:
        return None
    candidates = [Path(name).expanduser().absolute(), (COURSE_ROOT / name).absolute()]
    for folder in candidates:
        if folder.is_dir():
            return folder
    raise ValueError(f"COURSE_DATA={name!r} is no folder (nor is {candidates[1]}): correct it or unset it")


def _user_cache() -> Path:
    """The cache as XDG defines it (a relative XDG_CACHE_HOME is ignored); a temporary folder without a home."""
    for base in (os.environ.get("XDG_CACHE_HOME", ""), os.path.expanduser("~/.cache")):
        if os.path.isabs(base):
            return Path(base) / CACHE_NAME
    return _temporary_cache()


def _temporary_cache() -> Path:
    return Path(tempfile.gettempdir()) / f"{CACHE_NAME}-{os.getuid()}"


def download(file: OutsideFile, folder: Path) -> Path | None:
    """Download `file` into `folder` and verify it; None (and a line that says why) if no address gives it.

    What has come is kept in a .part file and asked no second time. RuntimeError if only wrong bytes came, and
    nothing lies under the file's own name. Of two processes that download at once, one waits for the other.
    """
    target = folder / file.path
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = FileLock(folder / ".download.lock")
    try:
        held = lock.acquire(blocking=False)
    except Timeout:
        print(f"another process is downloading (it holds {lock.lock_file}): waiting for it", flush=True)
        held = lock.acquire()
    with held:
        return verify(target, file) if target.exists() else _try_addresses(file, target)


def _try_addresses(file: OutsideFile, target: Path) -> Path | None:
    part = target.with_name(target.name + ".part")
    reasons, wrong = {}, []
    for url in file.urls:
        for _ in range(ATTEMPTS):
            start = _size(part)
            try:
                _fetch(url, part, file.size)
            except (OSError, http.client.HTTPException) as error:
                reasons[url] = error
                if start and getattr(error, "code", None) == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
                    part.unlink()  # and ask for all of it
                elif _size(part) <= start:
                    break  # nothing came: the next address
                continue
            problem = _difference(part, file)
            if not problem:
                os.replace(part, target)
                return target
            part.unlink()
            if start == 0:  # else what an earlier download left may be to blame: ask for all of it
                wrong.append(f"{url}: {problem}")
                break
    if wrong:
        raise RuntimeError(
            f"the download of {file.path} is not the published file. {'; '.join(wrong)}. Nothing was kept. Try another "
            "network, name a folder that holds the file in COURSE_DATA, or set COURSE_OFFLINE=1 for the stand-in"
        )
    summary = f"{file.path}: " + "; ".join(f"{url} {error!r}" for url, error in reasons.items())
    if not any(isinstance(error, urllib.error.HTTPError) for error in reasons.values()):
        _offline.append(summary)
    print(f"no download of {summary}", flush=True)
    return None


def _fetch(url: str, part: Path, size: int) -> None:
    """Append to `part` what it lacks, `size` + CHUNK bytes at most. OSError if the server breaks off, or does not answer."""
    start = _size(part)
    with _open(url, start) as response:
        if response.status != http.client.PARTIAL_CONTENT:
            start = 0  # the server does not do ranges and sends all of it
        progress = tqdm(total=size, initial=start, unit="B", unit_scale=True, desc=part.stem)
        with open(part, "ab" if start else "wb") as stream, progress:
            while stream.tell() <= size and (chunk := response.read1(CHUNK)):
                progress.update(stream.write(chunk))
        if response.length and _size(part) <= size:
            raise ConnectionError(f"broke off, {response.length:,} bytes before the end")


def _open(url: str, start: int) -> http.client.HTTPResponse:
    """The response, asked for in a thread: looking up a name has no timeout of its own. OSError if none comes."""
    request = urllib.request.Request(url, headers={"Range": f"bytes={start}-"} if start else {})
    answer: Future[http.client.HTTPResponse] = Future()

    def ask() -> None:
        try:
            answer.set_result(urllib.request.urlopen(request, timeout=SECONDS))
        except Exception as error:
            answer.set_exception(error)

    threading.Thread(target=ask, daemon=True, name=f"download {url}").start()
    try:
        return answer.result(timeout=SECONDS)
    except urllib.error.HTTPError as error:
        error.close()
        raise
    except TimeoutError:
        answer.add_done_callback(lambda late: late.exception() or late.result().close())
        raise


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
