"""Wheels made for tests: nothing but a module with one line, and metadata."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path


def write_wheel(folder: Path, name: str, version: str, *requires: str, place: str = "") -> Path:
    """Write a wheel for every machine into a folder, and return its path.

    With a place, the wheel has no module: Python looks for it in that folder of the machine.
    """
    about = f"{name}-{version}.dist-info"
    required = "".join(f"Requires-Dist: {requirement}\n" for requirement in requires)
    files = {
        **({f"{name}.pth": f"{place}\n"} if place else {f"{name}.py": f"version = '{version}'\n"}),
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{required}",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},,\n" for path in (*files, f"{about}/RECORD"))
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for file, text in {**files, f"{about}/RECORD": record}.items():
            wheel.writestr(file, text)
    return path


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, as lock files have it."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
