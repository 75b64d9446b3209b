"""The programs that read and measure a node are installed.

What
----
The programs that rules and the suites of `bench` run on this node: `ethtool`, `ping`, `ip`, `iperf3`, `sockperf` and
`fio`; with RDMA ports also `tcpdump`, `rdma`, `dcb`, `ibv_devinfo` and perftest (`ib_write_bw`, `ib_write_lat`);
`lldpctl` of lldpd if the cluster file has cables between this node and a switch.

Why
---
Without them, rules are `unknown`, benchmarks are left out, and packets cannot be captured: a link that loses a tenth of
its packets or a card with the wrong settings goes unnoticed until training is slow. RDMA programs also need the
libraries of rdma-core on the node, and fall back to TCP without them.

Fix
---
`apt-get install ethtool iputils-ping iproute2 iperf3 sockperf fio tcpdump rdma-core ibverbs-providers ibverbs-utils
perftest lldpd`, or on Fedora and its relatives `dnf install ethtool iputils iproute iperf3 sockperf fio tcpdump
rdma-core libibverbs-utils perftest lldpd`. `railbed configure --rule tools_installed` installs what is missing of them;
the node needs access to a mirror of its packages. A package that no source of the node has is left out, and named by
the next check. The undo removes what that installed, and nothing else.

Source
------
rdma-core, README.md; linux-rdma/perftest, README; the built-in suites (`railbed bench --list`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from railbed.check.shared.packages import INSTALL_SECONDS, install_packages
from railbed.check.shared.port import rdma_devices
from railbed.model.fix import Fix, Persistence, RunStep
from railbed.probes import programs
from railbed.rules.judgement import Judgement, ok, warn
from railbed.rules.rule import Rule
from railbed.rules.site import NodeView

EVERYWHERE = ("ethtool", "ping", "ip", "iperf3", "sockperf", "fio")
FOR_RDMA = ("tcpdump", "rdma", "dcb", "ibv_devinfo", "ib_write_bw", "ib_write_lat")
FOR_CABLES = ("lldpctl",)
PACKAGES: Mapping[str, Mapping[str, Sequence[str]]] = {
    "apt-get": {
        "ethtool": ("ethtool",),
        "ping": ("iputils-ping",),
        "ip": ("iproute2",),
        "iperf3": ("iperf3",),
        "sockperf": ("sockperf",),
        "fio": ("fio",),
        "tcpdump": ("tcpdump",),
        "rdma": ("iproute2",),
        "dcb": ("iproute2",),
        "ibv_devinfo": ("rdma-core", "ibverbs-providers", "ibverbs-utils"),
        "ib_write_bw": ("perftest", "ibverbs-providers"),
        "ib_write_lat": ("perftest", "ibverbs-providers"),
        "lldpctl": ("lldpd",),
    },
    "dnf": {
        "ethtool": ("ethtool",),
        "ping": ("iputils",),
        "ip": ("iproute",),
        "iperf3": ("iperf3",),
        "sockperf": ("sockperf",),
        "fio": ("fio",),
        "tcpdump": ("tcpdump",),
        "rdma": ("iproute",),
        "dcb": ("iproute",),
        "ibv_devinfo": ("rdma-core", "libibverbs-utils"),
        "ib_write_bw": ("perftest",),
        "ib_write_lat": ("perftest",),
        "lldpctl": ("lldpd",),
    },
}
HAS_LLDPD = "command -v lldpd >/dev/null"
NO_SOURCE = (
    "no package source of the node has {packages}: add one (on Ubuntu `add-apt-repository universe`) and run "
    "`apt-get update`, or install it by hand"
)
START_LLDPD = RunStep(command="systemctl enable --now lldpd", only_if=HAS_LLDPD)
STOP_LLDPD = RunStep(command="systemctl disable --now lldpd", only_if=HAS_LLDPD)


def judge(node: NodeView) -> Iterator[Judgement]:
    """Look for each program."""
    facts = node.read(programs.PROBE)
    has_rdma = bool(rdma_devices(node))
    wanted = [*EVERYWHERE, *(FOR_RDMA if has_rdma else ()), *(FOR_CABLES if _is_cabled(node) else ())]
    expected = "programs for RDMA and measurements" if has_rdma else "programs for measurements"
    missing = [program for program in wanted if program in facts.missing]
    if not missing:
        yield ok(expected=expected, observed="all installed")
        return
    lacking = _lacking(facts, missing)
    installable = [program for program in missing if program not in lacking]
    note = NO_SOURCE.format(packages=", ".join(dict.fromkeys(lacking.values()))) if lacking else ""
    fix = _fix(node, facts.manager, installable, note) if facts.manager and installable else None
    yield warn(expected=expected, observed=f"missing: {', '.join(missing)}", fix=fix, remedy="" if fix else note)


def _lacking(facts: programs.Programs, missing: Sequence[str]) -> dict[str, str]:
    """Return the package of each program that the node's package manager could not find."""
    needed = PACKAGES.get(facts.manager or "", {})
    wanted = {program: [name for name in needed.get(program, ()) if name in facts.unavailable] for program in missing}
    return {program: names[0] for program, names in wanted.items() if names}


def _is_cabled(node: NodeView) -> bool:
    """Whether LLDP shows where its cables lead; in a lab, which disappears, nothing is installed for that."""
    cabling = node.site.cabling
    return node.site.cluster.lab is None and any(cabling.of_node(node.name, port) for port in node.node.ports)


def _fix(node: NodeView, manager: str, missing: Sequence[str], note: str) -> Fix:
    apply, undo = install_packages(manager, [name for program in missing for name in PACKAGES[manager][program]])
    if manager == "dnf" and "lldpctl" in missing:
        # Debian's package starts the service by itself.
        apply, undo = (*apply, START_LLDPD), (STOP_LLDPD, *undo)
    return Fix(
        device=node.name,
        apply=apply,
        undo=undo,
        persistence=Persistence.KEPT,
        condition=f"if {node.name} reaches a mirror of its packages",
        seconds=INSTALL_SECONDS,
        note=note,
    )


RULE = Rule(
    name="tools_installed",
    title="the programs that read and measure are installed",
    scope="node",
    needs=(programs.PROBE,),
    judge=judge,
    doc=__doc__,
    rank=10,
)
