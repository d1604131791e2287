"""Who handed in what: notebooks in a folder, in a folder for each student, or in a zip as an LMS exports it."""

import contextlib
import csv
import errno
import functools
import hashlib
import io
import itertools
import json
import os
import re
import stat
import unicodedata
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath

from utils.course.notebooks.lab import Lab
from utils.grader.submission import LARGEST, functions_of, is_starter

MOST_FILES = 100_000
MOST_OF_ONE = 50  # notebooks read per student, of LARGEST bytes together
LONGEST_NAME = 120  # bytes of a student's name in the name of a file
IS_THIS_LABS = 0.5  # the likeness from which a file counts as this lab's
CODE_CELL = re.compile(r'"id": "(code-[a-z0-9-]+)"')
DEFINITION = re.compile(rb"(?:def|class) (\w+)")
NO_DATE = 1980  # what zip writes where it knows no date
NOTEBOOKS = (".ipynb", ".ipynb.txt", ".ipynb.json")  # as browsers save them; compared in lower case
CANVAS = re.compile(r"(?P<name>[^_]+)_(?P<late>LATE_)?(?P<id>\d+)_\d+_.+")
MOODLE = re.compile(r"(?P<name>.+?)_(?P<id>\d+)_assignsubmission_[a-z]+(?:_.*)?")  # newer ones end in _file
BLACKBOARD = re.compile(
    r"(?P<head>.+?_[^_]+?)_attempt_\d{4}(?:-\d\d){5}_.+"
)  # its own file about each ends in .txt instead
BRIGHTSPACE = re.compile(
    r"(?P<id>\d+)-\d+ - (?P<name>.+?) - (?P<when>[A-Z][a-z]{2} \d{1,2}, \d{4} \d{3,4} [AP]M)(?: - .+)?"
)
STYLES = (CANVAS, MOODLE, BLACKBOARD, BRIGHTSPACE)
DATE = re.compile(r"(?<!\d)(?:(?:19|20)\d\d[-_.]\d{1,2}[-_.]\d{1,2}|\d{1,2}[-.]\d{1,2}[-.](?:\d\d){1,2})(?!\d)")
NOTHING = "no notebook was handed in"
MOST_NAMED = 5  # of the files that lay beside a notebook


@dataclass(frozen=True)
class StudentFile:
    """One file of one student. `id` is the student's number in the LMS, "" if the file's name has none; `when` is the date
    of the file, as in HandIn. ignored: it is no notebook, and cannot be read.
    """

    student: str
    id: str
    name: str
    read: Callable[[], bytes]
    when: str = ""
    ignored: bool = False


@dataclass(frozen=True)
class HandIn:
    """The file to grade for one student and one lab. problem: why there is nothing to grade, or "".

    handed_in: the file's date, or its date in the export, as 2026-11-20T14:03:10 in local time; "" where it has none.
    """

    student: str
    id: str
    lab: Lab
    file: str
    digest: str
    read: Callable[[], bytes]
    notes: tuple[str, ...] = ()
    problem: str = ""
    handed_in: str = ""

    @property
    def key(self) -> str:
        """A unique file name for the student."""
        return file_name(self.student)


@dataclass(frozen=True)
class ListedStudent:
    """A student of the class list."""

    student: str
    id: str


def file_name(student: str) -> str:
    """A file name for the student. A name that is no file name gets a hash, and so does one that looks as if it had one."""
    plain = unicodedata.normalize("NFC", student)
    safe = re.sub(r"[^\w.-]+", "_", plain).strip("._").encode()[:LONGEST_NAME].decode(errors="ignore")
    if safe == student and not re.search(r"-[0-9a-f]{8}$", safe):
        return safe
    return f"{safe or 'student'}-{hashlib.sha256(student.encode(errors='surrogatepass')).hexdigest()[:8]}"


def class_list(path: Path) -> list[ListedStudent]:
    """The students of a CSV file with a column `student` and, where the LMS numbers them, a column `id`.

    The gradebook that Canvas exports has these columns. Raises ValueError for another file.
    """
    try:
        rows = list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig"), newline="")))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"the class list {path} cannot be read: {error}") from error
    lower = [{(name or "").strip().lower(): value or "" for name, value in row.items() if name} for row in rows]
    if not lower or "student" not in lower[0]:
        raise ValueError(
            f"the class list {path} needs a line of headings with `student`, separated by commas, and a line for each"
        )
    listed = [ListedStudent(row["student"].strip(), row.get("id", "").strip()) for row in lower]
    return [
        each for each in listed if each.student and each.student.lower() not in ("points possible", "student, test")
    ]


def students_missing(listed: Iterable[ListedStudent], handed_in: Iterable[HandIn]) -> list[ListedStudent]:
    """Those of the class list of whom there is nothing, by number where both have one, else by name."""
    handed_in = list(handed_in)
    ids = {hand_in.id for hand_in in handed_in if hand_in.id}
    names = {_plain_name(hand_in.student) for hand_in in handed_in}
    unnumbered = {_plain_name(hand_in.student) for hand_in in handed_in if not hand_in.id}
    return [
        each
        for each in listed
        if each.id not in ids and _plain_name(each.student) not in (unnumbered if each.id else names)
    ]


def students_unrecognised(source: Path, handed_in: Iterable[HandIn]) -> list[str]:
    """The students who handed in something of which none is one of these."""
    known = {hand_in.student.removesuffix(f" ({hand_in.id})") for hand_in in handed_in}
    return sorted({file.student for file in _student_files(source)} - known)


def _plain_name(name: str) -> str:
    """A name as Canvas writes it in the name of a file, without spaces, signs and capitals, whatever comes first."""
    letters = re.split(r"[\W_]+", unicodedata.normalize("NFKC", name).casefold())
    return "".join(sorted("".join(letters)))


def hand_ins(source: Path, labs: list[Lab]) -> list[HandIn]:
    """One HandIn for each student and lab of which something was handed in, by student.

    Raises ValueError if nothing was, and where two students have one number, one name in the tables or one file name.
    """
    if not source.exists():
        raise ValueError(f"no such folder or zip: {source}")
    all_files = list(_student_files(source))
    if not any(_is_notebook(file.name) for file in all_files):
        raise ValueError(f"{source} holds no notebook of {', '.join(lab.name for lab in labs)}")
    ids: dict[str, set[str]] = {}
    for file in all_files:
        ids.setdefault(file.student, set()).add(file.id)
    by_student: dict[str, list[StudentFile]] = {}
    for file in all_files:
        shared = len(ids[file.student]) > 1  # two students with the same name
        listed = f"{file.student} ({file.id})" if shared and file.id else file.student
        files = by_student.setdefault(listed, [])
        if files and (files[0].student, files[0].id) != (file.student, file.id):
            raise ValueError(
                f"{listed!r} would be two students: rename the files of one of them ({files[0].name}; {file.name})"
            )
        files.append(file)
    _refuse_shared_names(by_student)
    found = [hand_in for student, files in sorted(by_student.items()) for hand_in in _hand_ins_of(student, files, labs)]
    if not found:
        raise ValueError(f"{source} holds no notebook of {', '.join(lab.name for lab in labs)}")
    return found


def _refuse_shared_names(by_student: dict[str, list[StudentFile]]) -> None:
    for what, value_of in (
        ("number", lambda student, files: next((file.id for file in files if file.id), "")),
        ("file name", lambda student, files: file_name(student).casefold()),
    ):
        first: dict[str, str] = {}
        for student, files in by_student.items():
            if (value := value_of(student, files)) and first.setdefault(value, student) != student:
                raise ValueError(
                    f"{first[value]!r} and {student!r} have the same {what}, {value!r}: rename the files of one of them "
                    f"({by_student[first[value]][0].name}; {files[0].name})"
                )


def _is_notebook(name: str) -> bool:
    return name.lower().endswith(NOTEBOOKS)


def _is_hidden(name: str) -> bool:
    return name.startswith("._") or name in ("__MACOSX", ".DS_Store", ".git", ".ipynb_checkpoints")


def _student_files(source: Path) -> Iterator[StudentFile]:
    if source.is_file():
        yield from _files_in_export(source)
        return
    paths = [path for path in sorted(source.iterdir()) if not _is_hidden(path.name)]
    style = _style([path.name for path in paths])
    for path in paths:
        student, number = _student_and_number(path.name if path.is_dir() else _name_without_suffix(path.name), style)
        when = _date_in_name(path.name, style)
        if path.is_dir() and not path.is_symlink():
            yield from _files_in_folder(path, source, student, number, when)
        elif path.suffix.lower() == ".zip":
            yield from _files_in_zip(path.name, _opener(path), student, number, when or _date_of(path))
        elif _is_notebook(path.name):
            yield StudentFile(student, number, path.name, lambda path=path: _read_file(path), when or _date_of(path))
        elif _is_in(path.name, style):
            yield _no_notebook(student, number, path.name)


def _name_without_suffix(name: str) -> str:
    """Without the ending of a notebook or a zip."""
    return re.sub(r"\.(ipynb(\.txt|\.json)?|zip)$", "", name, flags=re.I)


def _style(names: list[str]) -> re.Pattern | None:
    """How the entries of one export are named: as most of them are. A student chooses only a part of one's own name."""
    styles = [next((style for style in STYLES if style.fullmatch(name)), None) for name in names]
    matches = Counter(style for style in styles if style)
    most = matches.most_common(1)[0][0] if matches else None
    if most is not BLACKBOARD:
        return most
    # Before the user's name stands that of the assignment, which all have in common; either may have a _ in it.
    heads = [match["head"] for name in names if (match := BLACKBOARD.fullmatch(name))]
    assignment = os.path.commonprefix(heads).rpartition("_")[0]  # noqa: RUF071 - of texts, not of paths
    return re.compile(re.escape(assignment) + r"_(?P<name>.+?)_attempt_(?P<when>\d{4}(?:-\d\d){5})_.+")


def _is_in(name: str, style: re.Pattern | None) -> bool:
    """Whether a file or folder has a name of an export in this style."""
    return bool(style and style.fullmatch(name))


def _student_and_number(name: str, style: re.Pattern | None) -> tuple[str, str]:
    """(student, number in the LMS) from the name of a file or folder of an export in this style."""
    name = unicodedata.normalize("NFC", name)  # macOS writes ü as two characters, whoever decides writes one
    match = style.fullmatch(name) if style else None
    return (match["name"], match.groupdict().get("id", "")) if match else (name, "")


def _date_in_name(name: str, style: re.Pattern | None) -> str:
    """When it was handed in, where the LMS says that in the name of a file or folder."""
    match = style.fullmatch(name) if style else None
    when = match.groupdict().get("when") if match else ""
    for form in ("%Y-%m-%d-%H-%M-%S", "%b %d, %Y %I%M %p") if when else ():
        with contextlib.suppress(ValueError):
            return datetime.strptime(re.sub(r" (?=\d{3} )", " 0", when), form).isoformat()
    return ""


def _no_notebook(student: str, number: str, name: str) -> StudentFile:
    return StudentFile(student, number, name, lambda: _refuse(f"{NOTHING}, but {name}"), ignored=True)


def _files_in_folder(folder: Path, source: Path, student: str, number: str, when: str) -> Iterator[StudentFile]:
    """The files in one student's folder, which was handed in at `when`, "" for the dates of the files."""
    empty = True
    for file in sorted(folder.rglob("*")):
        if file.is_dir() or any(map(_is_hidden, file.relative_to(source).parts)):
            continue
        empty, name = False, str(file.relative_to(source))
        if file.suffix.lower() == ".zip":
            yield from _files_in_zip(name, _opener(file), student, number, when or _date_of(file))
        elif _is_notebook(file.name):
            yield StudentFile(student, number, name, lambda file=file: _read_file(file), when or _date_of(file))
        else:
            yield _no_notebook(student, number, name)
    if empty:
        yield _no_notebook(student, number, "an empty folder")


def _opener(path: Path) -> Callable[[], zipfile.ZipFile]:
    def opened() -> zipfile.ZipFile:
        if not path.is_file() or path.is_symlink():
            _refuse("a link or a device, not a file")
        return zipfile.ZipFile(path)

    return opened


def _files_in_export(path: Path) -> Iterator[StudentFile]:
    """The students of a zip, by its folders and files."""
    try:
        archive = zipfile.ZipFile(path)
    except (OSError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is neither a folder nor a zip: {error}") from error
    with archive:
        members = [member for member in archive.infolist()[:MOST_FILES] if not member.is_dir()]
    parts = [(member, PurePosixPath(member.filename).parts) for member in members]
    parts = [(member, inside) for member, inside in parts if not any(map(_is_hidden, inside))]
    tops = {inside[0] for _, inside in parts}
    if (
        len(tops) == 1
        and not _style(list(tops))
        and (any(len(inside) > 2 for _, inside in parts) or parts[0][1][0] in ("submissions", path.stem))
    ):
        parts = [(member, inside[1:]) for member, inside in parts if len(inside) > 1]  # the zip of a folder
    style = _style(list(dict.fromkeys(inside[0] for _, inside in parts)))
    for member, inside in parts:
        entry = inside[0] if len(inside) > 1 else _name_without_suffix(inside[0])
        student, number = _student_and_number(entry, style)
        name, when = f"{path.name}/{member.filename}", _date_in_name(inside[0], style) or _date_in(member)
        if inside[-1].lower().endswith(".zip"):
            opened = lambda member=member: zipfile.ZipFile(io.BytesIO(_read_member(path, member)))  # noqa: E731
            yield from _files_in_zip(name, opened, student, number, when)
        elif _is_notebook(inside[-1]):
            yield StudentFile(student, number, name, lambda member=member: _read_member(path, member), when)
        elif len(inside) > 1 or _is_in(inside[0], style):
            yield _no_notebook(student, number, member.filename)


def _date_of(path: Path) -> str:
    try:
        return datetime.fromtimestamp(path.lstat().st_mtime).isoformat(timespec="seconds")
    except (OSError, OverflowError, ValueError):
        return ""


def _date_in(member: zipfile.ZipInfo) -> str:
    try:
        when = datetime(*member.date_time)
    except ValueError:
        return ""
    return "" if when.year <= NO_DATE else when.isoformat()


def _files_in_zip(
    name: str, opened: Callable[[], zipfile.ZipFile], student: str, number: str, when: str
) -> Iterator[StudentFile]:
    """The files of one student's zip, which was handed in at `when`."""
    try:
        with opened() as archive:
            members = archive.infolist()
    except Exception as error:  # an invalid zip can raise any exception
        message = f"the zip cannot be read ({error})"
        yield StudentFile(student, number, name, lambda: _refuse(message), when)
        return
    empty = True
    for member in members[:MOST_FILES]:
        inside = PurePosixPath(member.filename)
        if member.is_dir() or any(map(_is_hidden, inside.parts)):
            continue
        empty, inner_name = False, f"{name}/{member.filename}"
        if _is_notebook(inside.name):
            inner = lambda member=member: _read_member(None, member, opened)  # noqa: E731
            yield StudentFile(student, number, inner_name, inner, when)
        else:
            yield _no_notebook(student, number, inner_name)
    if empty:
        yield StudentFile(student, number, name, lambda: _refuse("no notebook is in the zip"), when)


def _read_member(
    path: Path | None, member: zipfile.ZipInfo, opened: Callable[[], zipfile.ZipFile] | None = None
) -> bytes:
    """At most LARGEST + 1 bytes of it, whatever size it claims."""
    try:
        with opened() if opened else zipfile.ZipFile(path) as archive, archive.open(member) as stream:
            return stream.read(LARGEST + 1)
    except Exception as error:  # packed bytes can be wrong in many ways
        return _refuse(f"the file cannot be unpacked ({error})")


def _read_file(path: Path) -> bytes:
    """At most LARGEST + 1 bytes of a plain file. A link may lead anywhere, and a pipe never ends."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_NOFOLLOW", 0))
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return _refuse("a device, not a file")
        return file.read(LARGEST + 1)


def _refuse(message: str) -> bytes:
    raise ValueError(message)


@dataclass(frozen=True)
class Inspection:
    """What a file is: its likeness to each lab, whether it is that lab's starter, as it was given, its digest, and what is
    wrong with reading it; `another`: the lab that it is of, if that is none of those graded.
    """

    likeness: tuple[float, ...]
    untouched: tuple[bool, ...]
    digest: str
    problem: str
    another: str

    def preference(self, which: int) -> tuple:
        """The larger, the rather it is graded for that lab."""
        like = self.likeness[which]
        return not self.another, like >= IS_THIS_LABS, not self.untouched[which], like, not self.problem


def _hand_ins_of(student: str, files: list[StudentFile], labs: list[Lab]) -> Iterator[HandIn]:
    """The file for each lab, by what is in it, or by its name; for one lab alone, any that is not another's.

    Of several of the lab, one in which the student has written something, then the one most like it, then the newest.
    """
    beside = [file.name for file in files if file.ignored]
    files = [file for file in files if not file.ignored] or files[:1]
    unread, files = files[MOST_OF_ONE:], files[:MOST_OF_ONE]
    number = next((file.id for file in files if file.id), "")
    inspections, left = [], LARGEST
    for file in files:
        inspections.append(_inspect(file, labs, left))
        left -= inspections[-1][1]
    for which, lab in enumerate(labs):
        best = max(
            range(len(files)),
            key=lambda index: (*inspections[index][0].preference(which), files[index].when),
        )
        inspection = inspections[best][0]
        if inspection.another:
            if len(labs) == 1:
                problem = f"nothing of this lab was handed in; {files[best].name} is of lab {inspection.another}"
                yield HandIn(student, number, lab, "", inspection.digest, files[best].read, (), problem)
            continue
        if inspection.likeness[which] < IS_THIS_LABS and len(labs) > 1:
            continue
        file = files[best]
        others = [
            each
            for each, (other, _) in zip(files, inspections, strict=True)
            if each is not file and other.likeness[which] >= IS_THIS_LABS
        ]
        notes = tuple(f"{each.name} was handed in too; {file.name} was graded" for each in others)
        if beside and not file.ignored:
            more = f" and {len(beside) - MOST_NAMED:,} more" if len(beside) > MOST_NAMED else ""
            notes += (f"handed in beside it, and not there when it ran: {', '.join(beside[:MOST_NAMED])}{more}",)
        if any(_marked_late(part, number) for part in PurePosixPath(file.name).parts):
            notes += ("Canvas marks it as late",)
        if unread:
            notes += (f"of {len(files) + len(unread):,} notebooks only the first {len(files)} were looked at",)
        yield HandIn(
            student, number, lab, file.name, inspection.digest, file.read, notes, inspection.problem, file.when
        )


def _marked_late(name: str, number: str) -> bool:
    match = CANVAS.fullmatch(name)
    return bool(match and match["late"] and match["id"] == number)


def _inspect(file: StudentFile, labs: list[Lab], left: int) -> tuple[Inspection, int]:
    """What it is, and how many bytes were read. left: how many of this student may still be."""
    raw, problem = b"", ""
    try:
        raw = file.read() if left > 0 else _refuse("too many bytes in the files before it")
    except (ValueError, OSError) as error:
        problem = "a link, not a file" if getattr(error, "errno", None) == errno.ELOOP else str(error)
    likeness = [_share_of_ids([task.code.id for task in lab.tasks], raw) for lab in labs]
    another = "" if max(likeness) >= IS_THIS_LABS else _number_of_another_lab(raw, labs)
    if max(likeness) < IS_THIS_LABS and not another:
        likely = _defines_most_tasks(raw, labs)
        likely = likely if any(likely) else [_has_number_of(file.name, lab) for lab in labs]
        likeness = [max(like, IS_THIS_LABS * tells) for like, tells in zip(likeness, likely, strict=True)]
    untouched = tuple(like >= IS_THIS_LABS and is_starter(raw, lab) for like, lab in zip(likeness, labs, strict=True))
    return Inspection(tuple(likeness), untouched, hashlib.sha256(raw).hexdigest(), problem, another), len(raw)


def _defines_most_tasks(raw: bytes, labs: list[Lab]) -> list[bool]:
    """For each lab, whether the file defines what most of its tasks ask for, whatever its cells are called."""
    wanted = [[{name.encode() for name in functions_of(task)} for task in lab.tasks] for lab in labs]
    names = set().union(*itertools.chain(*wanted))
    found = {match[1] for match in DEFINITION.finditer(raw) if match[1] in names} if len(raw) <= LARGEST else set()
    return [sum(bool(task & found) for task in tasks) >= IS_THIS_LABS * len(tasks) for tasks in wanted]


def _has_number_of(name: str, lab: Lab) -> bool:
    """Whether the file's name contains the lab's number, elsewhere than in a date."""
    number = lab.name.partition("_")[0]
    plain = DATE.sub(" ", PurePosixPath(name).name)
    return re.search(rf"(?<![0-9a-z]){number}(?![0-9a-z])", plain) is not None


def _share_of_ids(ids: list[str], raw: bytes) -> float:
    """The share of these cell ids in the file: some labs have ids in common."""
    return sum(json.dumps(name).encode() in raw for name in ids) / len(ids) if len(raw) <= LARGEST else 0.0


def _number_of_another_lab(raw: bytes, labs: list[Lab]) -> str:
    """The number of the lab that the file is of, among those whose solutions lie beside these labs'; "" for none."""
    known = _ids_of_labs(labs[0].book.path.parent)
    shares = {name: _share_of_ids(ids, raw) for name, ids in known.items() if name not in [lab.name for lab in labs]}
    best = max(shares, key=shares.get, default="")
    return best.partition("_")[0] if best and shares[best] >= IS_THIS_LABS else ""


@functools.cache
def _ids_of_labs(folder: Path) -> dict[str, list[str]]:
    """lab -> ids of the cells with its tasks' code."""
    found = {path.stem: CODE_CELL.findall(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.ipynb"))}
    return {name: ids for name, ids in found.items() if ids}
