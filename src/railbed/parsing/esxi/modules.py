"""Parameters of kernel modules: one string for each module, read at boot, and replaced as a whole.

A change has to be merged into what is stored: whatever else is in the string would be lost otherwise, and without
`max_vfs` the VMs that have a virtual function stay off after the next boot.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from railbed.errors import ParseError, UsageError

STORED = re.compile(r"(\S+) enabled = (\d) options = '(.*)'", re.ASCII)
NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
VALUE = re.compile(r"[\w.,:+-]+", re.ASCII)
COUNT = re.compile(r"\d{1,6}", re.ASCII)
FUNCTIONS = "max_vfs"


@dataclass(frozen=True, slots=True, kw_only=True)
class EsxiModule:
    """A module, with what is stored for the next boot, which need not be what runs."""

    name: str
    enabled: bool
    options: str


def parse_modules(text: str) -> dict[str, EsxiModule]:
    """Read the lines of `esxcfg-module -g` of some modules."""
    modules: dict[str, EsxiModule] = {}
    for line in text.splitlines():
        if match := STORED.fullmatch(line.strip()):
            modules[match[1]] = EsxiModule(name=match[1], enabled=match[2] == "1", options=match[3])
    if not modules:
        raise ParseError("no options of a module", line=text.strip()[:80])
    return modules


def option_values(options: str) -> dict[str, str]:
    """Return the parameters of a string; of one that is there twice, the last counts."""
    pairs = [item.partition("=") for item in options.split()]
    return {name: value for name, equals, value in pairs if equals}


def merge_options(stored: str, changes: Mapping[str, str]) -> str:
    """Return the string to store: the stored one with some parameters changed in their place, or added at the end.

    Everything else remains, in its order. A parameter that is changed is there once afterwards, so that merging again
    changes nothing. Refuses a value that would become something else in the string, and fewer virtual functions.
    """
    for name, value in changes.items():
        if not NAME.fullmatch(name) or not VALUE.fullmatch(value):
            raise UsageError(f"{name}={value} cannot be a parameter of a module")
    items = stored.split()
    merged: list[str] = []
    placed: set[str] = set()
    for item in items:
        name = item.partition("=")[0]
        if name not in changes:
            merged.append(item)
        elif name not in placed:
            placed.add(name)
            merged.append(f"{name}={changes[name]}")
    merged += [f"{name}={value}" for name, value in changes.items() if name not in placed]
    _require_functions(stored, " ".join(merged))
    return " ".join(merged)


def _require_functions(before: str, after: str) -> None:
    """Refuse a string with fewer virtual functions on any port than before."""
    old, new = (_functions(option_values(options).get(FUNCTIONS, "")) for options in (before, after))
    if any(count > (new[port] if port < len(new) else 0) for port, count in enumerate(old)):
        raise UsageError(
            f"the change would leave fewer virtual functions than {FUNCTIONS} has now",
            hint="VMs that have one of them would not start after the next boot",
        )


def _functions(text: str) -> list[int]:
    """Return the number of virtual functions of each port; what is not a number is none."""
    return [int(item) if COUNT.fullmatch(item) else 0 for item in text.split(",")]
