"""railbed's code in one file: imported from there, with byte code where it fits, and the same for the same sources."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from zipfile import ZipFile

import pytest

from railbed.launch.files.ship import archive

MODULES = {"pack/__init__.py": "", "pack/greet.py": "print(__file__)\n1 / 0\n"}


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", None)
    (tmp_path / "pack").mkdir()
    for name, text in MODULES.items():
        (tmp_path / name).write_text(text)
    return {name: tmp_path / name for name in MODULES}


def names(data: bytes) -> list[str]:
    return ZipFile(io.BytesIO(data)).namelist()


def imported(data: bytes, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """Run a module from an archive, in a Python that loads nothing else."""
    (tmp_path / "code.zip").write_bytes(data)
    command = [sys.executable, "-c", "import pack.greet"]
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "code.zip"), "PYTHONSAFEPATH": "1"}
    return subprocess.run(command, cwd="/", env=env, capture_output=True, text=True, check=False, timeout=60)


def test_byte_code_is_used_and_errors_show_the_source(sources: dict[str, Path], tmp_path: Path) -> None:
    data = archive(sources)
    assert names(data) == [
        "pack/__init__.py",
        "pack/__init__.pyc",
        "pack/greet.py",
        "pack/greet.pyc",
    ]
    done = imported(data, tmp_path)
    assert done.stdout == f"{tmp_path}/code.zip/pack/greet.pyc\n"
    # As on the machine that compiled it, where people can open it.
    assert f'File "{tmp_path}/pack/greet.py", line 2' in done.stderr
    assert "    1 / 0" in done.stderr


def test_byte_code_of_another_python_is_ignored(sources: dict[str, Path], tmp_path: Path) -> None:
    done = imported(_with_valid_sums(archive(sources).replace(MAGIC_NUMBER, b"\x01\x02\r\n")), tmp_path)
    assert done.stdout == f"{tmp_path}/code.zip/pack/greet.py\n"
    assert done.stderr.endswith("ZeroDivisionError: division by zero\n")


def _with_valid_sums(data: bytes) -> bytes:
    """Return an archive with the same content, whose checksums are right again."""
    before, after = ZipFile(io.BytesIO(data)), io.BytesIO()
    with ZipFile(after, "w") as file:
        for info in before.infolist():
            start = info.header_offset + 30 + len(info.filename)
            file.writestr(info.filename, data[start : start + info.file_size])
    return after.getvalue()


def test_the_same_sources_make_the_same_archive(sources: dict[str, Path]) -> None:
    first = archive(sources)
    assert archive(dict(reversed(sources.items()))) == first
    sources["pack/greet.py"].write_text("print('other')\n")
    assert archive(sources) != first


def test_byte_code_that_is_out_of_date_is_made_again(sources: dict[str, Path], tmp_path: Path) -> None:
    archive(sources)
    sources["pack/greet.py"].write_text("raise KeyError('a new source')\n")
    assert "KeyError: 'a new source'" in imported(archive(sources), tmp_path).stderr


def test_byte_code_may_have_a_place_of_its_own(
    sources: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path / "elsewhere"))
    assert "pack/greet.pyc" in names(archive(sources))
    assert not (tmp_path / "pack" / "__pycache__").exists()


def test_without_a_place_for_byte_code_there_is_none(
    sources: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pack" / "__pycache__").write_text("a file")
    assert names(archive(sources)) == sorted(MODULES)
    (tmp_path / "pack" / "__pycache__").unlink()
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    assert names(archive(sources)) == sorted(MODULES)
    assert not (tmp_path / "pack" / "__pycache__").exists()
