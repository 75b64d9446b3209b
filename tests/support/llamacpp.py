"""llama.cpp, built once from the source package on PyPI and cached, with a small program that uses it."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tools import lockfile

PACKAGE = "llama-cpp-python==0.3.36"
"""Its source package contains llama.cpp."""
SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
PROGRAM = Path(__file__).parent / "llamacpp_greedy.c"
TOOLS = ("cmake", "make", "cc", "c++")
BUILD_SECONDS = 3600
OPTIONS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DBUILD_SHARED_LIBS=ON",
    "-DCMAKE_BUILD_RPATH_USE_ORIGIN=ON",
    "-DGGML_NATIVE=OFF",
    "-DGGML_OPENMP=OFF",
    "-DLLAMA_CURL=OFF",
    *(f"-DLLAMA_BUILD_{part}=OFF" for part in ("TESTS", "EXAMPLES", "TOOLS", "SERVER", "COMMON")),
)


def cache() -> Path:
    """Return the folder of the build, in railbed's cache."""
    home = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "railbed"
    return Path(os.environ.get("RAILBED_CACHE") or home) / "llama.cpp" / PACKAGE.rpartition("=")[2]


def build() -> Path:
    """Return the program, with llama.cpp built unless it is in the cache; the first time takes minutes."""
    if missing := [tool for tool in TOOLS if shutil.which(tool) is None]:
        pytest.skip(f"llama.cpp cannot be built without {', '.join(missing)}: apt-get install cmake g++ make")
    folder = cache()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "built").exists():
            _build_into(folder)
        program, libraries = folder / "greedy", folder / "built" / "lib"
        linked = (f"-L{libraries}", "-lllama", "-lggml", "-lggml-base", f"-Wl,-rpath,{libraries}")
        run("cc", "-O1", "-Wall", f"-I{folder / 'built' / 'include'}", PROGRAM, "-o", program, *linked)
    return program


def _build_into(folder: Path) -> None:
    """Add the headers and libraries to a folder, once they are complete."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        scratch = Path(name)
        source, made, ready = _source(scratch), scratch / "build", scratch / "ready"
        run("cmake", "-S", source, "-B", made, *OPTIONS)
        run("cmake", "--build", made, "--target", "llama", "--parallel", "2")
        shutil.copytree(made / "bin", ready / "lib", symlinks=True)
        for headers in (source / "include", source / "ggml" / "include"):
            shutil.copytree(headers, ready / "include", dirs_exist_ok=True)
        ready.rename(folder / "built")


def _source(folder: Path) -> Path:
    locked = folder / "locked.txt"
    locked.write_text(f"{PACKAGE} --hash=sha256:{SHA256}\n")
    fetch = ("download", "--quiet", "--require-hashes", "--no-deps", "--no-binary", "llama-cpp-python")
    # pip builds a part of it to read its metadata.
    builds = [f"--build-constraint={lockfile.path_of(name)}" for name in ("build", "soak")]
    run(sys.executable, "-m", "pip", *fetch, *builds, "--dest", folder, "--requirement", locked)
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    return next(folder.glob("llama_cpp_python-*/vendor/llama.cpp"))


def run(*command: str | Path) -> None:
    """Run a command, with its output in the message if it fails."""
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=BUILD_SECONDS, check=False)
    assert done.returncode == 0, f"{' '.join(map(str, command))}: {done.stdout[-2000:]}{done.stderr[-2000:]}"


def greedy(program: Path, file: Path, prompt: str, count: int) -> dict[str, Any]:
    """Return the tokens of a prompt, the scores after it, and greedy tokens, as llama.cpp computes them."""
    done = subprocess.run([program, file, prompt, str(count)], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def tokenize(program: Path, file: Path, texts: Sequence[str]) -> tuple[list[list[int]], list[bytes]]:
    """Return the tokens of each text, and the bytes that each token of the vocabulary stands for."""
    data = "".join(f"{text}\0" for text in texts).encode()
    done = subprocess.run([program, file], input=data, capture_output=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads(done.stdout)
    return result["tokens"], [bytes.fromhex(piece) for piece in result["pieces"]]
