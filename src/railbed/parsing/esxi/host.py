"""The ESXi host itself: its version, virtual switches, and whether an installation waits for a reboot."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from railbed.errors import ParseError
from railbed.parsing.esxi.layout import blocks, fields, optional_count, require, split_list, truth, word
from railbed.parsing.text import integer

VERSION = re.compile(r"\d{1,3}(\.\d{1,3}){1,3}", re.ASCII)
HEADINGS = ("Switch Name ", "DVS Name ")


@dataclass(frozen=True, slots=True, kw_only=True)
class EsxiVersion:
    """The release of a host."""

    version: str
    build: str | None
    update: int | None
    patch: int | None

    @property
    def numbers(self) -> tuple[int, ...]:
        """The version to compare with others: `7.0.2` is (7, 0, 2)."""
        return tuple(integer(part) for part in self.version.split("."))


@dataclass(frozen=True, slots=True, kw_only=True)
class EsxiSwitch:
    """A virtual switch."""

    name: str
    mtu: int
    uplinks: tuple[str, ...]
    port_groups: tuple[str, ...]
    distributed: bool = False


def parse_version(text: str) -> EsxiVersion:
    """Read `esxcli system version get`."""
    tree = fields(text)
    version = require(tree, "Version")
    if not VERSION.fullmatch(version):
        raise ParseError("not a version", line=version)
    build = word(tree, "Build")
    return EsxiVersion(
        version=version,
        build=build.removeprefix("Releasebuild-") if build else None,
        update=optional_count(word(tree, "Update")),
        patch=optional_count(word(tree, "Patch")),
    )


def parse_switches(text: str) -> list[EsxiSwitch]:
    """Read `esxcli network vswitch standard list`, or `esxcfg-vswitch -l`, which lists distributed switches too."""
    if any(heading in text for heading in HEADINGS):
        return _of_tables(text)
    switches = [
        EsxiSwitch(
            name=require(tree, "Name"),
            mtu=integer(require(tree, "MTU")),
            uplinks=split_list(word(tree, "Uplinks")),
            port_groups=split_list(word(tree, "Portgroups")),
        )
        for _, tree in blocks(text)
    ]
    if not switches and text.strip():
        raise ParseError("no virtual switch", line=text.strip()[:80])
    return switches


def _of_tables(text: str) -> list[EsxiSwitch]:
    switches: list[EsxiSwitch] = []
    heading = ""
    for line in map(str.rstrip, text.splitlines()):
        if line.startswith(HEADINGS):
            heading = line
        elif heading and (cells := _split_row(line, numbers=4)):
            switches.append(_switch(cells, is_distributed=heading.startswith("DVS")))
            heading = ""
        elif (
            switches
            and not switches[-1].distributed
            and line.startswith("  ")
            and (cells := _split_row(line, numbers=2))
        ):
            last = switches[-1]
            switches[-1] = replace(last, port_groups=(*last.port_groups, cells[0]))
    if not switches:
        raise ParseError("no virtual switch", line=text.strip()[:80])
    return switches


def _split_row(line: str, *, numbers: int) -> list[str]:
    """Return the name, which may have spaces, the numbers behind it, and the uplinks; nothing for another line."""
    words = line.split()
    for uplinks in (0, 1):
        end = len(words) - uplinks
        cells = words[max(end - numbers, 0) : end]
        if end > numbers and all(cell.isascii() and cell.isdigit() for cell in cells):
            return [" ".join(words[: end - numbers]), *cells, " ".join(words[end:])]
    return []


def _switch(cells: list[str], *, is_distributed: bool) -> EsxiSwitch:
    return EsxiSwitch(
        name=cells[0], mtu=integer(cells[4]), uplinks=split_list(cells[5]), port_groups=(), distributed=is_distributed
    )


def parse_reboot_required(text: str) -> bool | None:
    """Read the answer of `esxcli software vib install`: whether what it installed waits for a reboot."""
    for title, tree in blocks(text):
        if title == "Installation Result":
            return truth(word(tree, "Reboot Required"))
    raise ParseError("no result of an installation", line=text.strip()[:80])
