"""Kernel modules, loaded or built in, and whether the RDMA core is there (`/proc/modules`, `/sys`).

A driver that is built into the kernel is not in `/proc/modules`, so the kernel's own list of built-in modules and the
names in `/sys/module` are read as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts

COMMAND = r"""
printf '==> loaded <==\n'; cat /proc/modules 2>/dev/null
printf '==> present <==\n'; ls /sys/module 2>/dev/null
printf '==> built-in <==\n'; read -r kernel </proc/sys/kernel/osrelease
if [ -r "/lib/modules/$kernel/modules.builtin" ]; then
  sed 's|.*/||; s|[.]ko$||' "/lib/modules/$kernel/modules.builtin"
fi
for class in infiniband infiniband_verbs; do
  if [ -d "/sys/class/$class" ]; then printf '==> %s <==\n' "$class"; ls "/sys/class/$class"; fi
done
exit 0
"""
LOADED = re.compile(r"(?P<name>\S+) \d+ (?:\d+|-) \S+(?: \S.*)?", re.ASCII | re.DOTALL)
NAME = re.compile(r"[A-Za-z0-9_.+-]+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Modules(TextFacts):
    """The modules of a kernel. Names have underscores, as the kernel writes them."""

    loaded: tuple[str, ...]
    built_in: tuple[str, ...] = ()
    rdma_devices: tuple[str, ...] | None = None
    """Entries of /sys/class/infiniband; None if that folder is missing: no RDMA core, or not read."""
    verbs_devices: tuple[str, ...] | None = None
    """Entries of /sys/class/infiniband_verbs, which programs open; None as above."""

    def has(self, name: str) -> bool:
        """Whether a module is loaded or built in."""
        return name in self.loaded or name in self.built_in


def parse(text: str) -> Modules:
    """Read the sections; text without sections is a saved /proc/modules."""
    lines = Lines(text)
    parts = dict(lines.sections())
    lines.require(text.strip(), "nothing was printed")
    loaded = tuple(_read_loaded(parts.get("loaded") or parts.get("")))
    others = {name.replace("-", "_") for part in ("present", "built-in") for name in _names(parts.get(part))}
    lines.require_known("expected a line of /proc/modules")
    return Modules(
        loaded=tuple(sorted(loaded)),
        built_in=tuple(sorted(others - set(loaded))),
        rdma_devices=tuple(_names(parts["infiniband"])) if "infiniband" in parts else None,
        verbs_devices=_verbs(parts["infiniband_verbs"]) if "infiniband_verbs" in parts else None,
        not_understood=lines.not_understood,
    )


def _read_loaded(lines: Lines | None) -> Iterator[str]:
    for line in lines or ():
        match = LOADED.fullmatch(line.strip())
        if match and NAME.fullmatch(match["name"]):
            yield match["name"]
        elif lines:
            lines.unknown(line)


def _names(lines: Lines | None) -> Iterator[str]:
    """Yield names, one in each line or, saved by hand, several in columns."""
    for line in lines or ():
        words = line.split()
        is_prose = len(words) > 1 and "  " not in line.strip() and "\t" not in line.strip()
        if lines and (is_prose or not all(map(NAME.fullmatch, words))):
            lines.unknown(line)
        else:
            yield from words


def _verbs(lines: Lines) -> tuple[str, ...]:
    return tuple(name for name in _names(lines) if name != "abi_version")


PROBE = Probe(
    name="modules",
    title="kernel modules, and the RDMA core's devices",
    command=COMMAND,
    parse=parse,
    facts=Modules,
)
