"""Builds and checks a release: `make release` leaves its source archive and its wheel in `dist/`.

Both are built from a tree without changes, compared with it and with each other, and the wheel is used as people
install it, in an environment of its own. If anything is wrong, `dist/` does not change.
"""

from __future__ import annotations

import hashlib
import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tools import uplot

ROOT = Path(__file__).parent.parent
PACKAGES = ("src/railbed", "src/switchlab")
SECONDS = 900
VERDICTS = (0, 1, 3)
"""Exit codes of a `check` that works, whatever it makes of this machine."""


class NotReleasable(Exception):
    """Something is wrong with the tree, or with what was built from it."""


@dataclass(frozen=True)
class Built:
    """What a release consists of."""

    sdist: Path
    wheel: Path


def obstacles(root: Path, version: str) -> Iterator[str]:
    """Yield the reasons why a tree cannot be released as this version."""
    changed = _output("git", "-C", str(root), "status", "--porcelain").splitlines()
    if changed:
        yield f"the tree has changes that are not committed: {', '.join(line[3:] for line in changed)}"
    yield from find_unannounced((root / "CHANGELOG.md").read_text(encoding="utf-8"), version)


def find_unannounced(changelog: str, version: str) -> Iterator[str]:
    """Yield what a changelog lacks for a release of this version."""
    dates = dict(re.findall(r"^## (\S+)(?: \((\d{4}-\d\d-\d\d)\))?$", changelog, re.MULTILINE))
    if version not in dates:
        yield f"CHANGELOG.md has no section for {version}"
    elif not dates[version]:
        yield f"the section for {version} in CHANGELOG.md has no date"


def version_of(root: Path) -> str:
    """Return the version of a tree."""
    return str(runpy.run_path(str(root / PACKAGES[0] / "__init__.py"))["__version__"])


def build(root: Path, folder: Path, **variables: str) -> Built:
    """Build the source archive and the wheel of a tree, without an environment of their own."""
    _output(sys.executable, "-m", "hatchling", "build", "-d", str(folder), cwd=root, **variables)
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return Built(sdist, wheel)


def package_files(root: Path) -> set[str]:
    """Return the files that the wheel of a tree must have: those of its packages but compiled ones, and uPlot's."""
    files = (
        path
        for name in PACKAGES
        for path in (root / name).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    )
    downloaded = {PurePosixPath(name).name for name in (*uplot.FILES, uplot.LICENCE)}
    return {
        *(path.relative_to(root / "src").as_posix() for path in files),
        *((uplot.FOLDER / name).relative_to("src").as_posix() for name in downloaded),
    }


def wheel_files(wheel: Path) -> dict[str, int]:
    """Return the files of a wheel, except its metadata, with their checksums."""
    with zipfile.ZipFile(wheel) as archive:
        return {entry.filename: entry.CRC for entry in archive.infolist() if ".dist-info/" not in entry.filename}


def unpack(sdist: Path, folder: Path) -> None:
    """Extract the tree of a source archive as a folder."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder.parent, filter="data")
    (folder.parent / sdist.name.removesuffix(".tar.gz")).rename(folder)


def sdist_files(sdist: Path) -> set[str]:
    """Return the files of a source archive, except its metadata."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    return names - {"PKG-INFO"}


def wheel_of(sdist: Path, folder: Path, *, root: Path = ROOT) -> Path:
    """Build a wheel from a source archive as pip does, in an environment of its own, of locked packages."""
    options = ["--quiet", "--no-deps", "--build-constraint", str(root / "requirements" / "build.txt")]
    _output(sys.executable, "-m", "pip", "wheel", *options, "--wheel-dir", str(folder), str(sdist))
    (wheel,) = folder.glob("*.whl")
    return wheel


def compare(expected: Mapping[str, object], actual: Mapping[str, object], what: str) -> None:
    """Refuse files that are missing, additional or different."""
    problems = {
        "lacks": expected.keys() - actual.keys(),
        "also has": actual.keys() - expected.keys(),
        "has other content in": {name for name in expected.keys() & actual.keys() if expected[name] != actual[name]},
    }
    text = "; ".join(f"{problem} {', '.join(sorted(names))}" for problem, names in problems.items() if names)
    if text:
        raise NotReleasable(f"{what} {text}")


def install(wheel: Path, folder: Path, *, root: Path = ROOT) -> Path:
    """Install a wheel, and what it requires as locked, into a new environment; return the folder of its programs."""
    _output(sys.executable, "-m", "venv", str(folder))
    _output("sh", str(root / "tools" / "install_locked.sh"), str(folder), "railbed")
    pip = str(folder / "bin" / "pip")
    options = ["--quiet", "--disable-pip-version-check", "--no-compile", "--no-index", "--no-deps"]
    _output(pip, "install", *options, str(wheel))
    _output(pip, "check")
    return folder / "bin"


def try_out(programs: Path, version: str, folder: Path) -> str:
    """Use an installed railbed, and return what it makes of this machine."""
    answer = _output(str(programs / "railbed"), "--version", cwd=folder).strip()
    if answer != f"railbed {version}":
        raise NotReleasable(f"`railbed --version` prints {answer!r}, not {version}")
    check = _run(str(programs / "railbed"), "check", cwd=folder)
    if check.returncode not in VERDICTS:
        raise NotReleasable(f"`railbed check` ends with {check.returncode}: {_last_line(check.stderr)}")
    return f"exit code {check.returncode}"


def release(root: Path) -> Built:
    """Build and check a release, and return its files in `dist/`."""
    version = version_of(root)
    if reasons := list(obstacles(root, version)):
        raise NotReleasable("; ".join(reasons))
    with tempfile.TemporaryDirectory(prefix="railbed-release-") as temporary:
        work = Path(temporary)
        built = build(root, work / "built")
        files = wheel_files(built.wheel)
        compare(dict.fromkeys(package_files(root)), dict.fromkeys(files), "the wheel")
        print(f"{built.wheel.name}: {len(files)} files, as in {' and '.join(PACKAGES)}")
        compare(
            files,
            wheel_files(wheel_of(built.sdist, work / "rebuilt", root=root)),
            "the wheel built from the source archive",
        )
        print(f"{built.sdist.name}: gives the same wheel")
        result = try_out(install(built.wheel, work / "venv", root=root), version, work)
        print(f"installed in an environment of its own: railbed {version}; `railbed check` on this machine: {result}")
        (root / "dist").mkdir(exist_ok=True)
        return Built(*(Path(shutil.copy(path, root / "dist")) for path in (built.sdist, built.wheel)))


def main(root: Path = ROOT) -> int:
    """Release a clone, and print the checksums."""
    try:
        built = release(root)
    except NotReleasable as error:
        print(f"not released: {error}", file=sys.stderr)
        return 1
    for path in (built.sdist, built.wheel):
        print(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(root)}")
    return 0


def _run(*command: str, cwd: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    # Modules of the environment that this runs in must not reach what is tried out.
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")} | variables
    return subprocess.run(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def _output(*command: str, cwd: Path | None = None, **variables: str) -> str:
    done = _run(*command, cwd=cwd, **variables)
    if done.returncode:
        raise NotReleasable(f"`{' '.join(command[:4])} …` ends with {done.returncode}: {_last_line(done.stderr)}")
    return done.stdout


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["no output"])[-1]


if __name__ == "__main__":
    sys.exit(main())
