"""Pythons from which an environment can be created on a node, and conda environments of the login's user."""

from __future__ import annotations

import re
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts

NAMES = ("python3", *(f"python3.{minor}" for minor in range(10, 16)))
MOST_FOLDERS = 64
CODE = (
    "import sys; from importlib.util import find_spec; "
    'venv = "venv" if find_spec("ensurepip") and find_spec("venv") else "-"; '
    'print(sys.argv[1], "%d.%d.%d" % sys.version_info[:3], venv)'
)
"""Debian's own Python lacks ensurepip until the package python3-venv is installed."""
COMMAND = rf"""
printf '==> pythons <==\n'
known=" "
for name in {" ".join(NAMES)}; do
  path=$(command -v "$name" 2>/dev/null) && path=$(readlink -f "$path") || continue
  case "$known" in *" $path "*) continue;; esac
  known="$known$path "
  "$name" -I -S -c '{CODE}' "$name" 2>/dev/null
done
printf '==> conda <==\n'
{{
  cat "$HOME/.conda/environments.txt" 2>/dev/null
  for root in "$HOME"/miniconda3 "$HOME"/miniforge3 "$HOME"/mambaforge "$HOME"/anaconda3 "$HOME"/micromamba \
      /opt/conda /opt/miniconda3 /opt/miniforge3 /opt/anaconda3; do
    printf '%s\n' "$root" "$root"/envs/*
  done
}} | sort -u | head -n {MOST_FOLDERS} | while IFS= read -r folder; do
  [ -x "$folder/bin/python" ] || continue
  set -- "$folder"/conda-meta/python-[0-9]*.json; [ -e "$1" ] || continue
  version=${{1##*/python-}}; torch=-
  set -- "$folder"/lib/python3*/site-packages/torch/version.py; [ -e "$1" ] && torch=torch
  printf '%s %s %s\n' "${{version%%-*}}" "$torch" "$folder"
done
exit 0
"""
VERSION = re.compile(r"\d{1,2}\.\d{1,3}(?:\.\d{1,3}(?:(?:a|b|rc)\d{1,2})?)?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemPython:
    """A Python in the PATH; of several names for the same one, the first."""

    name: str
    version: str
    venv: bool
    """It can create environments with pip in them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CondaEnvironment:
    """An environment of conda, mamba or micromamba."""

    folder: str
    version: str
    """Of its Python."""
    torch: bool
    """PyTorch is installed in it."""

    @property
    def python(self) -> str:
        """The path of its Python."""
        return f"{self.folder}/bin/python"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pythons(TextFacts):
    """The Pythons of a machine."""

    system: tuple[SystemPython, ...] = ()
    conda: tuple[CondaEnvironment, ...] = ()


def parse(text: str) -> Pythons:
    """Read a line for each Python, `NAME VERSION venv`, and for each environment, `VERSION torch FOLDER`."""
    lines = Lines(text)
    parts = dict(lines.sections())
    lines.require({"pythons", "conda"} <= parts.keys(), "expected two sections")
    system: list[SystemPython] = []
    conda: list[CondaEnvironment] = []
    for line in parts["pythons"]:
        with lines.reading(line):
            system.append(_system(line))
    for line in parts["conda"]:
        with lines.reading(line):
            conda.append(_conda(line))
    return Pythons(system=tuple(system), conda=tuple(conda), not_understood=lines.not_understood)


def _system(line: str) -> SystemPython:
    words = line.split(" ")
    if len(words) != 3 or words[0] not in NAMES or words[2] not in ("venv", "-"):
        raise ParseError("expected a Python, its version, and `venv`", line=line)
    return SystemPython(name=words[0], version=_version(words[1], line), venv=words[2] == "venv")


def _conda(line: str) -> CondaEnvironment:
    words = line.split(" ", 2)
    if len(words) != 3 or words[1] not in ("torch", "-") or not words[2].startswith("/"):
        raise ParseError("expected a version, `torch`, and the folder of an environment", line=line)
    return CondaEnvironment(folder=words[2], version=_version(words[0], line), torch=words[1] == "torch")


def _version(word: str, line: str) -> str:
    if not VERSION.fullmatch(word):
        raise ParseError("expected a version of Python", line=line)
    return word


PROBE = Probe(
    name="pythons",
    title="Pythons for new environments, and conda environments",
    command=COMMAND,
    parse=parse,
    facts=Pythons,
)
