"""uPlot for the live page: taken from a wheel on PyPI when railbed is built, verified, never committed.

`python -m tools.uplot` puts it into this clone; building or installing railbed does the same (tools/build_hook.py).
Only the standard library is used here, since this runs while nothing else is installed yet.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGE = "uplot-python==1.1.1"
"""Wraps uPlot for notebooks; only the two files of uPlot are taken, and none of its dependencies."""
FILES = {
    "uplot/static/uPlot.iife.js": "655bc8aa33781e8721c5af6b59f1699c03c9bda951aa74a6ab518ac20cc4326d",
    "uplot/static/uPlot.min.css": "3f121cd4a997b634e07a887658850018e475c26f0bddd874109a8d382c19de87",
}
"""Files in the wheel with their SHA-256."""
LICENCE = "LICENSE.txt"
FOLDER = Path("src/railbed/web/page/static/uplot")
SECONDS = 180
MIT = """\
uPlot (https://github.com/leeoniya/uPlot)
Copyright (c) 2021 Leon Sorokin

The MIT License (MIT)

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the "Software"), to deal in the Software without restriction, including without limitation the
rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
"""
"""The file from the wheel only names its licence in a comment; the licence asks for its text."""


class Altered(Exception):
    """The wheel does not contain the expected files."""


class NotObtained(Exception):
    """The wheel could not be downloaded."""


def is_complete(folder: Path) -> bool:
    """Whether a folder has all files, unchanged."""
    return (folder / LICENCE).is_file() and all(
        (folder / Path(name).name).is_file() and _digest((folder / Path(name).name).read_bytes()) == digest
        for name, digest in FILES.items()
    )


def obtain(root: Path) -> None:
    """Put uPlot into a source tree, unless it is there."""
    folder = root / FOLDER
    if is_complete(folder):
        return
    with tempfile.TemporaryDirectory() as temporary:
        extract(_download(Path(temporary)), folder)


def extract(wheel: Path, folder: Path) -> None:
    """Write the files of uPlot in a wheel into a folder; raise Altered unless they are the expected ones."""
    contents = {}
    try:
        with zipfile.ZipFile(wheel) as archive:
            for name, digest in FILES.items():
                contents[Path(name).name] = data = archive.read(name)
                if _digest(data) != digest:
                    raise Altered(f"{name} in {wheel.name} is not the file that railbed was tested with")
    except (KeyError, zipfile.BadZipFile) as error:
        raise Altered(f"{wheel.name} does not contain uPlot: {error}") from error
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in contents.items():
        (folder / name).write_bytes(data)
    (folder / LICENCE).write_text(MIT, encoding="utf-8")


def _download(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    try:
        subprocess.run(
            [*command, "--dest", str(folder), PACKAGE],
            check=True,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            # pip hands the limits of the outer installation to everything it starts; they are not meant for this.
            env={name: value for name, value in os.environ.items() if name != "PIP_CONSTRAINT"},
        )
    except (OSError, subprocess.SubprocessError) as error:
        last = (getattr(error, "stderr", "") or str(error)).strip().splitlines()[-1]
        raise NotObtained(f"pip could not download {PACKAGE}: {last}") from error
    return next(folder.glob("*.whl"))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


if __name__ == "__main__":
    obtain(Path(__file__).parent.parent)
