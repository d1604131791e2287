"""Who handed in what: notebooks in a folder, in a folder for each student, or in a zip as Canvas and Moodle export it."""

import errno
import hashlib
import json
import os
import re
import stat
import unicodedata
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from utils.course.grading.submission import LARGEST
from utils.course.notebooks.lab import Lab

MOST_FILES = 100_000
MOST_OF_ONE = 50  # notebooks read per student
IS_THIS_LABS = 0.5  # the likeness from which a file counts as this lab's
CANVAS = re.compile(r"(?P<name>[^_]+)_(?:LATE_)?(?P<id>\d+)_\d+_(?P<rest>.+)")
MOODLE = re.compile(r"(?P<name>.+)_(?P<id>\d+)_assignsubmission_\w+?_?")


@dataclass(frozen=True)
class Handed:
    """One notebook of one student. `id` is the student's number in the LMS, "" if the file's name has none."""

    student: str
    id: str
    name: str
    read: Callable[[], bytes]


@dataclass(frozen=True)
class Work:
    """The file to grade for one student and one lab. problem: why there is nothing to grade, or ""."""

    student: str
    id: str
    lab: Lab
    file: str
    digest: str
    read: Callable[[], bytes]
    notes: tuple[str, ...] = ()
    problem: str = ""

    @property
    def key(self) -> str:
        """A unique file name for the student."""
        return file_name(self.student)


def file_name(student: str) -> str:
    plain = unicodedata.normalize("NFC", student)
    safe = re.sub(r"[^\w.-]+", "_", plain).strip("._")[:80]
    return (
        safe
        if safe == student
        else f"{safe or 'student'}-{hashlib.sha256(student.encode(errors='surrogatepass')).hexdigest()[:8]}"
    )


def works(source: Path, labs: list[Lab]) -> list[Work]:
    """One Work for each student and lab of which something was handed in, by student. Raises ValueError if nothing was."""
    if not source.exists():
        raise ValueError(f"no such folder or zip: {source}")
    handed = list(_handed(source))
    if not any(file.name.endswith(".ipynb") for file in handed):
        raise ValueError(f"{source} holds no notebook of {', '.join(lab.name for lab in labs)}")
    ids: dict[str, set[str]] = {}
    for file in handed:
        ids.setdefault(file.student, set()).add(file.id)
    by_student: dict[str, list[Handed]] = {}
    for file in handed:
        shared = len(ids[file.student]) > 1  # two students with the same name
        by_student.setdefault(f"{file.student} ({file.id})" if shared and file.id else file.student, []).append(file)
    found = [
        _chosen(student, files, lab, alone=len(labs) == 1)
        for student, files in sorted(by_student.items())
        for lab in labs
    ]
    found = [work for work in found if work is not None]
    if not found:
        raise ValueError(f"{source} holds no notebook of {', '.join(lab.name for lab in labs)}")
    return found


def _handed(source: Path) -> Iterator[Handed]:
    if source.is_file():
        yield from _in_zip(source, None)
        return
    for path in sorted(source.iterdir()):
        if path.name.startswith(("._", "__MACOSX")):
            continue
        if path.is_dir() and not path.is_symlink():
            yield from _in_folder(path, source) if not path.name.startswith(".") else ()
        elif path.suffix == ".zip":
            yield from _in_zip(path, path.stem)
        elif path.suffix == ".ipynb":
            student, number = _who(path.stem)
            yield Handed(student, number, path.name, lambda path=path: _file(path))


def _in_folder(folder: Path, source: Path) -> Iterator[Handed]:
    """The notebooks in one student's folder; without one, an entry that says so."""
    student, number = _who(folder.name)
    found = False
    for file in sorted(folder.rglob("*")):
        if file.is_dir() or ".ipynb_checkpoints" in file.parts or file.suffix not in (".zip", ".ipynb"):
            continue
        found = True
        if file.suffix == ".zip":
            yield from _in_zip(file, student, number)
        else:
            yield Handed(student, number, str(file.relative_to(source)), lambda file=file: _file(file))
    if not found:
        yield Handed(student, number, folder.name, lambda: _refused("no notebook was handed in"))


def _in_zip(path: Path, student: str | None, number: str = "") -> Iterator[Handed]:
    """The notebooks of a zip: of `student`, or of the students named by its folders and files."""
    try:
        if not path.is_file() or (path.is_symlink() and student):
            _refused("a link or a device, not a file")
        members = zipfile.ZipFile(path).infolist()
    except Exception as error:  # an invalid zip can raise any exception
        message = f"the zip cannot be read ({error})"
        yield Handed(student or path.stem, number, path.name, lambda: _refused(message))
        return
    found = False
    for member in members[:MOST_FILES]:
        inside = PurePosixPath(member.filename)
        if inside.suffix != ".ipynb" or member.is_dir() or {"__MACOSX", ".ipynb_checkpoints"} & set(inside.parts):
            continue
        found = True
        who, known = (student, number) if student else _who(inside.parts[0] if len(inside.parts) > 1 else inside.stem)
        yield Handed(who, known, f"{path.name}/{member.filename}", lambda member=member: _member(path, member))
    if student and not found:
        yield Handed(student, number, path.name, lambda: _refused("no notebook is in the zip"))


def _member(path: Path, member: zipfile.ZipInfo) -> bytes:
    """At most LARGEST + 1 bytes of it, whatever size it claims."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open(member) as stream:
            return stream.read(LARGEST + 1)
    except Exception as error:  # packed bytes can be wrong in many ways
        return _refused(f"the file cannot be unpacked ({error})")


def _file(path: Path) -> bytes:
    """At most LARGEST + 1 bytes of a plain file. A link may lead anywhere, and a pipe never ends."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_NOFOLLOW", 0))
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return _refused("a device, not a file")
        return file.read(LARGEST + 1)


def _refused(message: str) -> bytes:
    raise ValueError(message)


def _who(name: str) -> tuple[str, str]:
    """(student, number in the LMS) from the name of a file or folder."""
    for pattern in (MOODLE, CANVAS):
        if match := pattern.fullmatch(name):
            return match["name"], match["id"]
    return name, ""


def _chosen(student: str, files: list[Handed], lab: Lab, alone: bool) -> Work | None:
    """The file for this lab, by the ids of its cells or by its name; any file if only one lab is graded."""
    unread, files = files[MOST_OF_ONE:], files[:MOST_OF_ONE]
    number = next((file.id for file in files if file.id), "")
    looked = [_looked_at(file, lab) for file in files]
    best = max(range(len(files)), key=lambda index: looked[index][0])
    likeness, digest, problem = looked[best]
    if likeness < IS_THIS_LABS and not alone:
        return None
    file = files[best]
    others = [
        each for each, (score, _, _) in zip(files, looked, strict=True) if each is not file and score >= IS_THIS_LABS
    ]
    notes = tuple(f"{each.name} was handed in too; {file.name} was graded" for each in others)
    if unread:
        notes += (f"of {len(files) + len(unread):,} notebooks only the first {len(files)} were looked at",)
    return Work(student, number, lab, file.name, digest, file.read, notes, problem)


def _looked_at(file: Handed, lab: Lab) -> tuple[float, str, str]:
    """(likeness, digest, problem with reading it)."""
    raw, problem = b"", ""
    try:
        raw = file.read()
    except (ValueError, OSError) as error:
        problem = "a link, not a file" if getattr(error, "errno", None) == errno.ELOOP else str(error)
    likeness = _likeness(raw, file.name, lab) - bool(problem) / 4  # prefer a readable file
    return likeness, hashlib.sha256(raw).hexdigest(), problem


def _likeness(raw: bytes, name: str, lab: Lab) -> float:
    """The share of the lab's cell ids in the file, plus 1 if its name contains the lab's."""
    ids = sum(json.dumps(task.code.id).encode() in raw for task in lab.tasks) if len(raw) <= LARGEST else 0
    number = lab.name.partition("_")[0]
    named = re.search(rf"(?<![0-9a-z]){number}(?![0-9a-z])", PurePosixPath(name).name) is not None
    return ids / len(lab.tasks) + named
