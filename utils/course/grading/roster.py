"""Who handed in what: notebooks in a folder, in a folder for each student, or in a zip as Canvas and Moodle export it."""

import hashlib
import json
import re
import unicodedata
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from utils.course.grading.submission import LARGEST
from utils.course.labs import Lab

MOST_FILES = 100_000
IS_THIS_LABS = 0.5  # a likeness from which on a file is taken for the lab's
CANVAS = re.compile(r"(?P<name>[^_]+)_(?:LATE_)?(?P<id>\d+)_\d+_(?P<rest>.+)")
MOODLE = re.compile(r"(?P<name>.+)_(?P<id>\d+)_assignsubmission_\w+?_?")


@dataclass(frozen=True)
class Handed:
    """One notebook of one student. `id` is the number that the LMS knows the student by, "" if the file names none."""

    student: str
    id: str
    name: str
    read: Callable[[], bytes]


@dataclass(frozen=True)
class Work:
    """What is graded for one student and one lab. problem: why there is nothing to grade, "" if there is."""

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
        """The student as a file's name: no two share one."""
        return file_name(self.student)


def file_name(student: str) -> str:
    plain = unicodedata.normalize("NFC", student)
    safe = re.sub(r"[^\w.-]+", "_", plain).strip("._")[:80]
    return safe if safe == student else f"{safe or 'student'}-{hashlib.sha256(student.encode()).hexdigest()[:8]}"


def works(source: Path, labs: list[Lab]) -> list[Work]:
    """One Work for each student and lab of which something was handed in, by student. Raises ValueError if nothing was."""
    if not source.exists():
        raise ValueError(f"no such folder or zip: {source}")
    by_student: dict[str, list[Handed]] = {}
    for handed in _handed(source):
        by_student.setdefault(handed.student, []).append(handed)
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
        if path.is_symlink() or path.name.startswith(("._", "__MACOSX", ".ipynb_checkpoints")):
            continue
        if path.is_dir():
            student, number = _who(path.name)
            for file in sorted(path.rglob("*")):
                if file.is_symlink() or not file.is_file() or ".ipynb_checkpoints" in file.parts:
                    continue
                if file.suffix == ".zip":
                    yield from _in_zip(file, student, number)
                elif file.suffix == ".ipynb":
                    yield Handed(student, number, str(file.relative_to(source)), file.read_bytes)
        elif path.suffix == ".zip":
            yield from _in_zip(path, path.stem)
        elif path.suffix == ".ipynb":
            student, number = _who(path.stem)
            yield Handed(student, number, path.name, path.read_bytes)


def _in_zip(path: Path, student: str | None, number: str = "") -> Iterator[Handed]:
    """The notebooks of a zip: of `student`, or of those whom the names of its folders and files tell."""
    try:
        members = zipfile.ZipFile(path).infolist()
    except (zipfile.BadZipFile, OSError) as error:
        message = f"the zip cannot be read ({error})"
        yield Handed(student or path.stem, number, path.name, lambda: _refused(message))
        return
    for member in members[:MOST_FILES]:
        inside = PurePosixPath(member.filename)
        if inside.suffix != ".ipynb" or member.is_dir() or {"__MACOSX", ".ipynb_checkpoints"} & set(inside.parts):
            continue
        who, known = (student, number) if student else _who(inside.parts[0] if len(inside.parts) > 1 else inside.stem)
        yield Handed(who, known, f"{path.name}/{member.filename}", lambda member=member: _member(path, member))


def _member(path: Path, member: zipfile.ZipInfo) -> bytes:
    """At most LARGEST + 1 bytes of it, whatever size it says it has."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open(member) as stream:
            return stream.read(LARGEST + 1)
    except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError, EOFError) as error:
        return _refused(f"the file cannot be unpacked ({error})")


def _refused(message: str) -> bytes:
    raise ValueError(message)


def _who(name: str) -> tuple[str, str]:
    """(student, number in the LMS) by the name of a file or folder."""
    for pattern in (MOODLE, CANVAS):
        if match := pattern.fullmatch(name):
            return match["name"], match["id"]
    return name, ""


def _chosen(student: str, files: list[Handed], lab: Lab, alone: bool) -> Work | None:
    """The file that is this lab's, by the ids of its cells or by its name; any, if only one lab is graded."""
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
    return Work(student, number, lab, file.name, digest, file.read, notes, problem)


def _looked_at(file: Handed, lab: Lab) -> tuple[float, str, str]:
    """(likeness, digest, why it cannot be read)."""
    raw, problem = b"", ""
    try:
        raw = file.read()
    except (ValueError, OSError) as error:
        problem = str(error)
    return _likeness(raw, file.name, lab), hashlib.sha256(raw).hexdigest(), problem


def _likeness(raw: bytes, name: str, lab: Lab) -> float:
    """The share of the lab's cell ids that it has, and 1 more if its name names the lab."""
    ids = sum(json.dumps(task.code.id).encode() in raw for task in lab.tasks) if len(raw) <= LARGEST else 0
    number = lab.name.partition("_")[0]
    named = re.search(rf"(?<![0-9a-z]){number}(?![0-9a-z])", PurePosixPath(name).name) is not None
    return ids / len(lab.tasks) + named
