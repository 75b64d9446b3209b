"""Every text parser over every case with a line that it does not know at every position: the facts stay the same.

Outputs that are JSON, and sections that are, have no such lines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import pytest

from railbed.parsing.lines import TextFacts
from railbed.parsing.text import SECTION
from railbed.probes.outputs import all_probes

CASES = Path(__file__).parent / "cases" / "probes"
SENTENCE = "This sentence is in no release that we know"
INDENTED = f"    {SENTENCE}"
AROUND = (
    "leaf1# show something detail",
    "leaf1(config-if)#",
    "[root@gpu1 ~]# ethtool eth1",
    " --More-- ",
    "\x1b[7m--More--\x1b[m\r        \r",
    "Warning: Permanently added 'leaf1' (ED25519) to the list of known hosts.",
    "2026 Nov 19 20:50:00 leaf1 %ETHPORT-5-IF_UP: Interface Ethernet1/1 is up in mode trunk",
)
"""What a terminal adds: it is neither a fact nor kept."""
VERBATIM = {
    "agents": (r"/.*|\d+ .*", "a command's arguments are any text"),
    "boot_config": ("file .*|netplan|ifupdown", "files are facts as they are"),
    "boot_host": (".*", "each section has only the lines that grep selected"),
    "boot_network": ("file .*|nm.*|netplan.*", "files are facts as they are"),
    "boot_scripts": (".*", "lines of files are facts as they are"),
    "gpu": ("problem|module", "the error message is a fact as it is; any text shows that the driver is loaded"),
    "ip_route": (".+", "both sections are JSON, also if they are empty"),
    "hostname": ("hosts", "the file is a fact as it is"),
    "pending_change": ("held|abandoned", "what the lock says is a fact as it is"),
}
"""Sections in which no line is unknown, by probe, and why."""
NOT_KEPT = {
    "boot_config": "nearly all of it is verbatim",
    "boot_host": "each section has the lines that grep selected",
    "boot_network": "nearly all of it is verbatim",
    "boot_scripts": "all of it is verbatim",
}


def text_cases() -> Iterator[Path]:
    for path in sorted(CASES.glob("*/*.txt")):
        result = json.loads(path.with_suffix(".json").read_text())
        if "error" not in result and next(_positions(path.parent.name, _lines(path)), None) is not None:
            yield path


def _lines(path: Path) -> list[str]:
    return path.read_bytes().decode("utf-8", "replace").split("\n")


def _positions(probe: str, lines: Sequence[str]) -> Iterator[int]:
    """Yield the positions at which a line can be inserted, except in JSON and in verbatim text."""
    if not "".join(lines).strip():
        return
    verbatim = re.compile(VERBATIM.get(probe, ("(?!)", ""))[0])
    bodies = ["\n".join(lines)] if not any(map(SECTION.fullmatch, lines)) else [""]
    section = ""
    yield from () if bodies[0].lstrip().startswith(("{", "[")) else (0,)
    for number, line in enumerate(lines, 1):
        if header := SECTION.fullmatch(line):
            section = header[1]
            rest = lines[number:]
            end = next((at for at, later in enumerate(rest) if SECTION.fullmatch(later)), len(rest))
            bodies = ["\n".join(rest[:end])]
        if not verbatim.fullmatch(section) and not bodies[0].lstrip().startswith(("{", "[")):
            yield number


def _each_insertion(path: Path, added: str) -> Iterator[tuple[int, str]]:
    lines = _lines(path)
    for position in _positions(path.parent.name, lines):
        yield position + 1, "\n".join([*lines[:position], added, *lines[position:]])


parametrized = pytest.mark.parametrize("path", list(text_cases()), ids=lambda path: f"{path.parent.name}/{path.stem}")


@parametrized
def test_unknown_lines_change_no_fact(path: Path) -> None:
    probe = all_probes()[path.parent.name]
    facts = probe.parse("\n".join(_lines(path)))
    times_kept = 0
    for added, every in ((SENTENCE, 1), (INDENTED, 3)):
        for number, text in islice(_each_insertion(path, added), 0, None, every):
            changed = probe.parse(text)
            assert changed == facts, f"{added!r} as line {number}"
            times_kept += isinstance(changed, TextFacts) and SENTENCE in changed.not_understood
    assert times_kept or probe.name in NOT_KEPT


@parametrized
def test_what_a_terminal_adds_is_left_out(path: Path) -> None:
    probe = all_probes()[path.parent.name]
    facts = probe.parse("\n".join(_lines(path)))
    for added in AROUND:
        *_, (_, below) = insertions = list(_each_insertion(path, added))
        for text in (insertions[0][1], insertions[len(insertions) // 2][1], below):
            changed = probe.parse(text)
            assert changed == facts, repr(added)
            assert getattr(changed, "not_understood", ()) == getattr(facts, "not_understood", ()), repr(added)
