"""Processors: model, sockets, cores, NUMA nodes, hypervisor, frequency governors (`lscpu`, cpufreq in sysfs)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from railbed.errors import ParseError
from railbed.model.probe import Probe
from railbed.parsing.lines import Lines, TextFacts
from railbed.parsing.text import Fields, integer, json_value

COMMAND = r"""
printf '==> lscpu <==\n'; lscpu -J 2>/dev/null || lscpu
printf '\n==> governors <==\n'
if [ -e /sys/devices/system/cpu/cpu0/cpufreq/scaling_governor ]; then
  sort /sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor | uniq -c
fi
printf '\n==> machine <==\n'
for name in sys_vendor product_name; do
  if read -r line 2>/dev/null </sys/class/dmi/id/$name; then printf '%s\n' "$line"; fi
done
if [ -r /proc/device-tree/compatible ]; then tr '\0' '\n' </proc/device-tree/compatible; fi
exit 0
"""
MAX_DEPTH = 8
MODEL = "Model name"
MACHINES = {
    "QEMU": "qemu",
    "KVM": "kvm",
    "VMware": "vmware",
    "VirtualBox": "virtualbox",
    "Virtual Machine": "hyper-v",
    "Xen": "xen",
    "HVM domU": "xen",
    "BHYVE": "bhyve",
    "Bochs": "bochs",
    "Parallels": "parallels",
    "Apple Virtualization": "apple",
    "OpenStack": "openstack",
    "Google Compute Engine": "google",
    "dummy-virt": "virtual machine",
}
"""Vendor names in the firmware of virtual machines. lscpu detects virtualisation only on x86."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cpu(TextFacts):
    """The processors of a machine."""

    model: str | None = None
    """With big and little cores both names: `Cortex-X925 + Cortex-A725`."""
    sockets: int | None = None
    cores: int | None = None
    """Physical cores of all sockets."""
    threads: int
    """Logical processors, as the kernel counts them."""
    numa_nodes: int | None = None
    hypervisor: str | None = None
    """The hypervisor; None on a physical machine, or if it is not reported."""
    governors: dict[str, int] | None = None
    """The number of logical processors by frequency governor; None if the kernel does not control the frequency."""


def parse(text: str) -> Cpu:
    """Read lscpu's JSON (nested or flat) or its text, and what follows it."""
    lines = Lines(text)
    parts = dict(lines.sections())
    kinds = _kinds(parts.get("lscpu") or parts.get("") or Lines(""))
    fields = {name: value for kind in kinds for name, value in kind.items()}
    lines.require("CPU(s)" in fields, "lscpu does not report the number of processors")
    sockets = [count for kind in kinds if (count := _count(kind, "Socket(s)")) is not None]
    cores = [count for kind in kinds if (count := _cores(kind)) is not None]
    return Cpu(
        model=" + ".join(kind[MODEL] for kind in kinds if MODEL in kind) or None,
        sockets=max(sockets, default=None),
        cores=sum(cores) if len(cores) == len(kinds) else None,
        threads=integer(fields["CPU(s)"]),
        numa_nodes=_count(fields, "NUMA node(s)"),
        hypervisor=fields.get("Hypervisor vendor") or _virtual_machine(parts.get("machine")),
        governors=_governors(parts.get("governors")),
        not_understood=lines.not_understood,
    )


def _kinds(lines: Lines) -> list[dict[str, str]]:
    """Return the fields of lscpu; big and little cores each have a model name followed by their counts."""
    kinds: list[dict[str, str]] = [{}]
    for key, text_value in _pairs(lines):
        name, value = key.strip().rstrip(":"), text_value.strip()
        if value in ("", "-"):
            continue
        if name == MODEL and MODEL in kinds[-1]:
            kinds.append({})
        kinds[-1][name] = value
    return kinds


def _pairs(lines: Lines) -> Iterator[tuple[str, str]]:
    return _json_pairs(lines.json) if lines.json else _text_pairs(lines)


def _json_pairs(text: str) -> Iterator[tuple[str, str]]:
    for item in Fields(json_value(text)).subs("lscpu"):
        yield from _with_children(item, MAX_DEPTH)


def _with_children(item: Fields, depth: int) -> Iterator[tuple[str, str]]:
    """Yield an entry and, as newer util-linux nests them, the entries below it."""
    if depth == 0:
        raise ParseError("the entries of lscpu are nested too deeply")
    yield item.text("field"), item.optional_text("data") or ""
    for child in item.subs("children"):
        yield from _with_children(child, depth - 1)


def _text_pairs(lines: Lines) -> Iterator[tuple[str, str]]:
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            yield name, value
        else:
            lines.unknown(line)


def _count(fields: dict[str, str], name: str) -> int | None:
    return integer(fields[name]) if name in fields else None


def _cores(fields: dict[str, str]) -> int | None:
    sockets, per_socket = _count(fields, "Socket(s)"), _count(fields, "Core(s) per socket")
    if sockets is not None and per_socket is not None:
        return sockets * per_socket
    clusters, per_cluster = _count(fields, "Cluster(s)"), _count(fields, "Core(s) per cluster")
    return None if clusters is None or per_cluster is None else clusters * per_cluster


def _virtual_machine(lines: Lines | None) -> str | None:
    text = lines.text if lines else ""
    return next((name for mark, name in MACHINES.items() if mark in text), None)


def _governors(lines: Lines | None) -> dict[str, int] | None:
    counts = {}
    for line in lines or ():
        count, _, name = line.strip().partition(" ")
        if lines and not (count.isdecimal() and count.isascii()):
            lines.unknown(line)
        else:
            counts[name.strip()] = integer(count)
    return counts or None


PROBE = Probe(
    name="cpu",
    title="processors, NUMA nodes, frequency governors",
    command=COMMAND,
    parse=parse,
    facts=Cpu,
    tool="lscpu",
    package="util-linux",
    one_line=True,
)
