"""The Dockerfile without Docker: what it names exists, and its steps work on what .dockerignore leaves of the course.

The steps before the ordinary user (Debian's packages, the user himself) are root's and are not run here.
"""

import fnmatch
import json
import os
import re
import shutil
import string
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import fake_colab
from helpers.paths import ROOT

from utils.device import git_commit
from utils.versions import parts_of, problem_of

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def instructions() -> list[tuple[str, str]]:
    """Each of the Dockerfile as (WORD, the rest), in order."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    return [tuple(line.split(None, 1)) for line in text.splitlines() if line.strip()]


STEPS = instructions()
AT_USER = [word for word, _ in STEPS].index("USER")


def rest_of(word: str) -> list[str]:
    return [rest for other, rest in STEPS if other == word]


def is_ignored(path: str) -> bool:
    """Whether .dockerignore leaves out a path of the course: a pattern leaves out what it matches and all below."""
    patterns = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"]
    parts = path.split("/")
    for head in ("/".join(parts[:n]) for n in range(1, len(parts) + 1)):
        for pattern in patterns:
            name = head.split("/")[-1] if pattern.startswith("**/") else head
            if fnmatch.fnmatchcase(name, pattern.removeprefix("**/")):
                return True
    return False


# What it says


def test_every_package_is_pinned_to_the_registrys_own():
    lines = [line.split("#")[0].strip() for line in (ROOT / "requirements.txt").read_text().splitlines()]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines if line), "no option, no +cpu, no range"


def test_the_base_is_one_version_of_a_python_that_the_course_is_tested_with():
    (base,) = rest_of("FROM")
    version = re.fullmatch(r"python:(3\.\d+)\.\d+-slim-bookworm", base)
    assert problem_of(parts_of(version[1])) == ""


def test_every_volume_of_the_readme_is_mounted_on_a_folder_of_the_user():
    """Docker makes a missing mount point for root; where the image has the folder, a new volume takes over its owner."""
    (made,) = re.findall(r"install --directory --owner=student ([^&]+)", " ".join(rest_of("RUN")))
    readme = (ROOT / "utils" / "course" / "README.md").read_text()
    mounted = set(re.findall(r"-v course-\w+:(\S+?)[ `]", readme))
    copied = {f"/course/{path.name}" for path in ROOT.iterdir() if path.is_dir() and not is_ignored(path.name)}
    assert mounted and mounted <= {*made.split(), *copied}


def test_every_path_that_it_copies_is_there_and_every_command_is_one():
    for rest in rest_of("COPY"):
        *sources, _ = [word for word in rest.split() if not word.startswith("--")]
        assert all((ROOT / source).exists() and not is_ignored(source) for source in sources)
    (command,) = [json.loads(rest) for rest in rest_of("CMD")]
    targets = re.findall(r"make ([\w./]+)", " ".join(rest for word, rest in STEPS[AT_USER:] if word == "RUN"))
    for line in [command, *(["make", target] for target in targets)]:
        done = subprocess.run([*line, "--dry-run"], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_the_image_holds_what_git_keeps_and_nothing_else():
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("no repository here")
    kept = {name for name in listed.stdout.split("\0") if name and not name.startswith(".ci/")}
    assert not {name for name in kept if is_ignored(name)}
    for made in (".git/HEAD", ".venv/bin/python", "build/ledger.json", "runs/a/run.json", "utils/__pycache__/a.pyc"):
        assert is_ignored(made), made
    ignored = [line.strip("/") for line in (ROOT / ".gitignore").read_text().splitlines()]
    assert all(is_ignored(f"{name.replace('*', 'x')}/file") for name in ignored), "whatever git ignores"


def test_make_image_passes_the_commit_in():
    done = subprocess.run(["make", "--dry-run", "image"], cwd=ROOT, capture_output=True, text=True, check=True)
    (asked,) = re.findall(r"--build-arg COMMIT=\$\((.*?)\) ", done.stdout)
    said = subprocess.run(["sh", "-c", asked], cwd=ROOT, capture_output=True, text=True)
    if said.returncode:
        pytest.skip("no repository here")
    there = git_commit(ROOT)
    assert said.stdout.strip() == there["commit"] + "-dirty" * said.stdout.strip().endswith("-dirty")
    assert "COMMIT" in rest_of("ARG") and any("COURSE_COMMIT=$COMMIT" in rest for rest in rest_of("ENV"))


# What it does


def test_without_a_repository_the_commit_is_what_was_passed_in(tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.delenv("COURSE_COMMIT", raising=False)
    assert git_commit(tmp_path) == {"commit": None, "dirty": None}
    monkeypatch.setenv("COURSE_COMMIT", COMMIT)
    assert git_commit(tmp_path) == {"commit": COMMIT, "dirty": False}
    monkeypatch.setenv("COURSE_COMMIT", f"{COMMIT}-dirty")
    assert git_commit(tmp_path) == {"commit": COMMIT, "dirty": True}
    monkeypatch.setenv("COURSE_COMMIT", "main")
    with pytest.raises(ValueError, match="COURSE_COMMIT='main' is not a commit: 40 hexadecimal digits"):
        git_commit(tmp_path)


def test_a_repository_is_asked_itself(tmp_path, monkeypatch):
    identity = ["-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    subprocess.run(
        ["git", "-C", tmp_path, *identity, "commit", "--quiet", "--allow-empty", "--message=One"], check=True
    )
    monkeypatch.setenv("COURSE_COMMIT", COMMIT)
    told = git_commit(tmp_path)
    assert told["commit"] not in (None, COMMIT) and told["dirty"] is False


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """What the image holds, its steps having been run: (the folder, the environment of its commands).

    Its .venv finds the packages of this one from the start, so that pip has nothing to fetch; its pins are checked all
    the same.
    """
    folder = tmp_path_factory.mktemp("image")
    course, data = folder / "course", folder / "data"
    data.mkdir()
    (course / ".venv").mkdir(parents=True)
    found = fake_colab.packages(folder / "found")
    environment = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "HOME": str(folder), "PIP_NO_INDEX": "1"}
    environment |= {"PIP_NO_BUILD_ISOLATION": "0", "COMMIT": COMMIT}  # 0: pip's word for no isolation
    for word, rest in STEPS[AT_USER:]:
        if word == "COPY":
            *sources, _ = [name for name in rest.split() if not name.startswith("--")]
            copy(sources, course)
        elif word == "ENV":
            for name, value in (pair.split("=", 1) for pair in rest.split()):
                environment[name] = string.Template(value).substitute(environment).replace("/course", str(course))
            environment["COURSE_DATA"] = str(data)
        elif word == "RUN":
            done = run(rest, course, environment)
            assert done.returncode == 0, done.stdout + done.stderr
            assert "Would install" not in done.stdout and "Downloading" not in done.stdout
        if word == "WORKDIR":
            assert rest == "/course"
            make_venv_find(course, found)
    return course, environment


def make_venv_find(course: Path, found: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", course / ".venv"], check=True)
    (own,) = (course / ".venv").glob("lib/python*/site-packages")
    (own / "found.pth").write_text(f"{found}\n")
    (course / ".venv" / "share").symlink_to(Path(sys.prefix) / "share")  # nbconvert's templates, beside the packages


def copy(sources: list[str], course: Path) -> None:
    if sources == ["."]:
        ignored = [line.strip("/") for line in (ROOT / ".gitignore").read_text().splitlines()]
        with_links = shutil.ignore_patterns(".git", *ignored)

        def not_in_image(folder: str, names: list[str]) -> set[str]:
            place = Path(folder).relative_to(ROOT)
            return with_links(folder, names) | {name for name in names if is_ignored((place / name).as_posix())}

        shutil.copytree(ROOT, course, ignore=not_in_image, dirs_exist_ok=True)
    else:
        for source in sources:
            shutil.copy(ROOT / source, course / source)


def run(command: str, course: Path, environment: dict[str, str]) -> subprocess.CompletedProcess:
    return subprocess.run(["sh", "-c", command], cwd=course, env=environment, capture_output=True, text=True)


@pytest.mark.nightly
@pytest.mark.slow
def test_a_run_in_the_image_knows_its_commit(image):
    course, environment = image
    assert not (course / ".git").exists()
    done = run("python -m utils train --run runs/a --data spiral --steps 3 --lr 0.01", course, environment)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads((course / "runs/a/run.json").read_text())["sessions"][0]["fingerprint"]
    assert (told["commit"], told["dirty"]) == (COMMIT, False)
    where = run("python -c 'import utils; print(utils.__file__)'", course / "notebooks", environment)
    assert where.stdout.strip() == str(course / "utils/__init__.py")


@pytest.mark.nightly
@pytest.mark.slow
def test_make_run_has_nothing_left_to_set_up_and_its_ledger_knows_the_commit(image, tmp_path):
    course, environment = image
    (command,) = [" ".join(json.loads(rest)) for rest in rest_of("CMD")]
    assert len(run(f"{command} --dry-run", course, environment).stdout.splitlines()) == 1, "the run itself"
    away = tmp_path / "away"
    shutil.move(course / "notebooks", away)
    (course / "notebooks").mkdir()
    for name in ("start_here", "05_modules_and_initialisation"):  # the site opens with start_here
        shutil.copy(away / f"{name}.ipynb", course / "notebooks")
    done = run(command, course, environment)
    assert done.returncode == 0, done.stdout + done.stderr
    ledger = json.loads((course / "build/ledger.json").read_text())
    verified = {lecture["lecture"]: lecture["verified"] for lecture in ledger["lectures"]}
    assert ledger["run"]["commit"] == COMMIT and verified["05_modules_and_initialisation"] > 0
    shutil.rmtree(course / "notebooks")
    shutil.move(away, course / "notebooks")


@pytest.mark.slow
@pytest.mark.parametrize("commit", ["", "main", "0123456"])
def test_without_a_commit_no_image_is_built(commit, tmp_path):
    (check,) = [rest for rest in rest_of("RUN") if "$COMMIT" in rest]
    done = run(check, tmp_path, {"PATH": os.environ["PATH"], "COMMIT": commit})
    assert done.returncode == 1 and "Build by: make image" in done.stderr
