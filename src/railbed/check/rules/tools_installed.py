"""The programs that read and measure a node are installed.

What
----
`ethtool`, `ping`, `ip` and `iperf3`; on nodes with RDMA ports also `tcpdump`, `rdma`, `dcb`, `ibv_devinfo` and perftest
(`ib_write_bw`, `ib_write_lat`).

Why
---
Without them, rules are `unknown`, benchmarks are left out, and packets cannot be captured: a link that loses a tenth of
its packets or a card with the wrong settings goes unnoticed until training is slow. RDMA programs also need the
libraries of rdma-core on the node, and fall back to TCP without them.

Fix
---
`apt-get install ethtool iputils-ping iproute2 iperf3 tcpdump rdma-core ibverbs-providers ibverbs-utils perftest`, or on
Fedora and its relatives `dnf install ethtool iputils iproute iperf3 tcpdump rdma-core libibverbs-utils perftest`.
`railbed configure --rule tools_installed` installs what is missing; the node needs access to a mirror of its packages.

Source
------
rdma-core, README.md; linux-rdma/perftest, README.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from railbed.check.shared.port import rdma_devices
from railbed.model.fix import Fix, Persistence, RunStep, run
from railbed.probes import programs
from railbed.rules.judgement import Judgement, ok, warn
from railbed.rules.rule import Rule
from railbed.rules.site import NodeView

EVERYWHERE = ("ethtool", "ping", "ip", "iperf3")
FOR_RDMA = ("tcpdump", "rdma", "dcb", "ibv_devinfo", "ib_write_bw", "ib_write_lat")
PACKAGES = {
    "apt-get": {
        "ethtool": ("ethtool",),
        "ping": ("iputils-ping",),
        "ip": ("iproute2",),
        "iperf3": ("iperf3",),
        "tcpdump": ("tcpdump",),
        "rdma": ("iproute2",),
        "dcb": ("iproute2",),
        "ibv_devinfo": ("rdma-core", "ibverbs-providers", "ibverbs-utils"),
        "ib_write_bw": ("perftest", "ibverbs-providers"),
        "ib_write_lat": ("perftest", "ibverbs-providers"),
    },
    "dnf": {
        "ethtool": ("ethtool",),
        "ping": ("iputils",),
        "ip": ("iproute",),
        "iperf3": ("iperf3",),
        "tcpdump": ("tcpdump",),
        "rdma": ("iproute",),
        "dcb": ("iproute",),
        "ibv_devinfo": ("rdma-core", "libibverbs-utils"),
        "ib_write_bw": ("perftest",),
        "ib_write_lat": ("perftest",),
    },
}
LIST = {
    "apt-get": "dpkg-query -W -f '${db:Status-Abbrev} ${binary:Package}\\n' | sed -n 's/^ii *//p' | sort",
    "dnf": "rpm -qa --qf '%{NAME}.%{ARCH}\\n' | sort",
}
INSTALL = {
    "apt-get": "apt-get -qq update; DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends install",
    "dnf": "dnf -q -y --setopt=install_weak_deps=False install",
}
REMOVE = {"apt-get": "apt-get -qq -y purge", "dnf": "dnf -q -y remove"}
FOLDER = "/var/lib/railbed"
INSTALL_SECONDS = 600


def judge(node: NodeView) -> Iterator[Judgement]:
    """Look for each program."""
    facts = node.read(programs.PROBE)
    wanted = (*EVERYWHERE, *FOR_RDMA) if rdma_devices(node) else EVERYWHERE
    expected = "programs for RDMA and measurements" if rdma_devices(node) else "programs for measurements"
    missing = [program for program in wanted if program in facts.missing]
    if not missing:
        yield ok(expected=expected, observed="all installed")
        return
    fix = _fix(node, facts.manager, missing) if facts.manager else None
    yield warn(expected=expected, observed=f"missing: {', '.join(missing)}", fix=fix)


def _fix(node: NodeView, manager: str, missing: Sequence[str]) -> Fix:
    """Install the packages of programs; the undo removes them, and what was installed for them, but nothing else."""
    packages = list(dict.fromkeys(package for program in missing for package in PACKAGES[manager][program]))
    before = shlex.quote(f"{FOLDER}/before-{'+'.join(packages)}")
    added = shlex.quote(f"{FOLDER}/installed-{'+'.join(packages)}")
    write_added = f"{LIST[manager]} | comm -13 {before} - >{added}"
    # The list is missing if the installation failed half-way.
    remove = f"[ -e {added} ] || {write_added}; xargs -r {REMOVE[manager]} <{added} && rm {before} {added}"
    tidy = f"rmdir --ignore-fail-on-non-empty {FOLDER}"
    return Fix(
        device=node.name,
        apply=run(
            f"mkdir -p {FOLDER} && {LIST[manager]} >{before}", f"{INSTALL[manager]} {' '.join(packages)}", write_added
        ),
        undo=(RunStep(command=f"{remove} && {tidy}", only_if=f"[ -e {before} ]"),),
        persistence=Persistence.KEPT,
        condition=f"if {node.name} reaches a mirror of its packages",
        seconds=INSTALL_SECONDS,
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
