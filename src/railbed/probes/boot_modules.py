"""Which kernel modules the next boot loads by name, and which it must not load by itself (modules-load.d, modprobe.d).

rdma-core loads the modules in /etc/rdma/modules once it sees an RDMA device. Some modules are loaded when a program
first asks for them. Drivers of hardware follow from the hardware, unless a file forbids it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts

ON_DEMAND = {"rdma-client-rdma_cm": "rdma_ucm"}
"""By the alias under which the kernel asks for it, the module that newer kernels load for a program."""
OFED_SERVICE = "openibd"
COMMAND = rf"""
[ -d /run/systemd/system ] || {{ echo '==> end <=='; exit 0; }}
states=$(systemctl list-unit-files --plain --no-legend --no-pager {OFED_SERVICE}.service 'rdma-load-modules@*.service')
rdma=; case "$states" in *rdma-load-modules@*masked*) ;; *rdma-load-modules@*) rdma=/etc/rdma/modules;; esac
set --
echo '==> loads <=='
for file in /etc/modules-load.d/*.conf /run/modules-load.d/*.conf /usr/local/lib/modules-load.d/*.conf \
  /usr/lib/modules-load.d/*.conf /etc/modules /etc/initramfs-tools/modules "$rdma"/*.conf
do
  [ -f "$file" ] && set -- "$@" "$file"
done
awk '$1 ~ /^[A-Za-z0-9_-]+$/ {{ print FILENAME, $1 }}' "$@" /dev/null; set --
echo '==> blocked <=='
for file in /etc/modprobe.d/*.conf /run/modprobe.d/*.conf /usr/local/lib/modprobe.d/*.conf /usr/lib/modprobe.d/*.conf
do
  [ -f "$file" ] && set -- "$@" "$file"
done
awk '$1 == "blacklist" && $2 ~ /^[A-Za-z0-9_-]+$/ {{ print FILENAME, $1, $2 }}' "$@" /dev/null
echo '==> cmdline <=='; tr ' ' '\n' </proc/cmdline | grep -E '^(modules_load|modprobe[.]blacklist|module_blacklist)='
echo '==> on-demand <=='
for alias in {" ".join(ON_DEMAND)}; do modprobe -R "$alias" >/dev/null 2>&1 && echo "$alias"; done
echo '==> ofed <=='
printf '%s\n' "$states" | sed -nE 's/^{OFED_SERVICE}[.]service +(enabled)( .*)?$/\1/p'
echo '==> end <=='
"""
CMDLINE = "the kernel's command line"
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class BootModules(TextFacts):
    """The modules of the next boot. Names have underscores, as the kernel writes them."""

    loads: dict[str, str] = field(default_factory=dict)
    """By module that is loaded by its name, the file that has it."""
    blocked: dict[str, str] = field(default_factory=dict)
    """By module that is not loaded for its hardware, the file that forbids it."""
    on_demand: tuple[str, ...] = ()
    """Modules that the kernel loads when a program asks for them."""
    ofed: bool = False
    """OFED's service is enabled, which loads modules as its own configuration says."""


def parse(text: str) -> BootModules:
    """Read the sections."""
    lines = Lines(text)
    sections = dict(lines.sections())
    parts = {name: part.text for name, part in sections.items()}
    lines.require("end" in parts, "the output is not complete")
    parameters = dict(line.split("=", 1) for line in parts.get("cmdline", "").splitlines() if "=" in line)
    blocked = ",".join(parameters.get(key, "") for key in ("modprobe.blacklist", "module_blacklist"))
    return BootModules(
        loads=dict(_list_named(sections.get("loads"))) | _from_cmdline(parameters.get("modules_load", "")),
        blocked=dict(_list_named(sections.get("blocked"))) | _from_cmdline(blocked),
        on_demand=tuple(ON_DEMAND[alias] for alias in parts.get("on-demand", "").split() if alias in ON_DEMAND),
        ofed="enabled" in map(str.strip, sections.get("ofed", ())),
        not_understood=lines.not_understood,
    )


def _list_named(lines: Lines | None) -> Iterator[tuple[str, str]]:
    """Yield each module with its file; `blacklist` may stand before the module."""
    for line in lines or ():
        path, _, rest = line.partition(" ")
        words = rest.split()
        if path.startswith("/") and words and NAME.fullmatch(words[-1]):
            yield words[-1].replace("-", "_"), path
        elif lines:
            lines.unknown(line)


def _from_cmdline(names: str) -> dict[str, str]:
    return {name.replace("-", "_"): CMDLINE for name in names.split(",") if NAME.fullmatch(name)}


PROBE = Probe(
    name="boot_modules",
    title="kernel modules that the next boot loads, or must not load",
    command=COMMAND,
    parse=parse,
    facts=BootModules,
    needs_root=True,
)
