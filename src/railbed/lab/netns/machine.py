"""A node's processes: an sshd that is the first process of its own process, mount and hostname namespaces.

All processes of a node are in its network namespace, so they can be found there, even if railbed was killed before it
could write anything down.

A node has its own home folder and a plain login shell, so that the user's start-up files (which may set up pyenv or
conda, or take a lock) neither slow down its logins nor make nodes collide.

Names of a lab's parts in the kernel are derived from its random id.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import signal
import site
from collections.abc import Iterable, Sequence
from pathlib import Path

from railbed.lab.folder import HOMES
from railbed.lab.host import end, is_own, is_stopped, program_path, run, send
from railbed.lab.model import LabNode, StoredLab, management_address, rail_name
from railbed.lab.netns import slurm

MANAGEMENT = "eth0"
"""The management interface on a node."""
BRIDGE = "mgmt"
"""The management bridge in the switch's namespace."""
UPLINK = "uplink"
"""The end of this machine's cable in the switch's namespace."""


def switch_namespace(lab: StoredLab) -> str:
    """Return the network namespace of the switch."""
    return f"railbed-{lab.id}-switch"


def node_namespace(lab: StoredLab, node: LabNode) -> str:
    """Return the network namespace of a node."""
    return f"railbed-{lab.id}-{node.name}"


def namespaces(lab: StoredLab) -> list[str]:
    """Return all network namespaces of a lab."""
    return [switch_namespace(lab), *(node_namespace(lab, machine) for machine in lab.machines)]


def namespace_file(namespace: str) -> Path:
    """Return the path of the kernel's handle for a network namespace."""
    return Path("/run/netns") / namespace


def host_interface(lab: StoredLab) -> str:
    """Return this machine's interface to a lab."""
    return f"railbed-{lab.id}"


def switch_port(node: LabNode, rail: int | None) -> str:
    """Return the switch's end of a node's cable to a rail, or to the management network."""
    return f"n{node.number}-{BRIDGE if rail is None else rail_name(rail)}"


LOOKS = 10
PAUSE_SECONDS = 0.05
# When the first process of a process namespace ends, the kernel kills all others, as when a machine loses power.
BOOT = """\
mount -t proc proc /proc && mount -t sysfs sysfs /sys && mount -t tmpfs -o mode=755 tmpfs /run && mkdir /run/sshd &&
mount --bind {hosts} /etc/hosts && mount --bind {accounts} /etc/passwd &&
hostname {name} && {scheduler} {offloads} exec {sshd} -D -e -f {config}
"""
CONFIG = """\
Port 22
HostKey {host_key}
AuthorizedKeysFile {key}.pub
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
StrictModes no
UsePAM no
UseDNS no
PrintMotd no
PidFile none
MaxStartups 100
Subsystem sftp internal-sftp
"""
ACCOUNT = "root"
SHELL = "/bin/sh"


def write_files(lab: StoredLab) -> None:
    """Write the files of the nodes: /etc/hosts, and the sshd configuration of each."""
    lines = ["127.0.0.1 localhost"]
    for machine in lab.machines:
        lines.append(f"{management_address(lab.number, machine.number)} {machine.name}")
        config = CONFIG.format(host_key=lab.host_key(machine.name), key=lab.key) + _environment(lab, machine)
        (lab.folder / f"{machine.name}.sshd").write_text(config, encoding="utf-8")
    lines += [f"{node.rail_address(rail)} {node.name}-{rail_name(rail)}" for node, rail in lab.ports()]
    (lab.folder / "hosts").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _environment(lab: StoredLab, machine: LabNode) -> str:
    """Return the lines of sshd's configuration with which Python finds packages in the user's home folder.

    Root's home is set here, too: the kernel removes a machine's passwd file when this machine's is replaced, as adding
    an account does, and training would leave its files in the home of this machine's root.
    """
    packages = [f"PYTHONUSERBASE={site.getuserbase()}"] if site.ENABLE_USER_SITE else []
    lines = [f"SetEnv {_quote(packages)}"] if packages else []
    lines += [f"Match User {ACCOUNT}", f"SetEnv {_quote([f'HOME={_home(lab, machine)}', *packages])}"]
    return "\n".join(lines) + "\n"


def _quote(words: Iterable[str]) -> str:
    return " ".join(f'"{word}"' for word in words)


def _home(lab: StoredLab, machine: LabNode) -> Path:
    return lab.folder / HOMES / machine.name


def _write_account(lab: StoredLab, node: LabNode) -> Path:
    """Create the home folder of a node, and return its passwd file: this machine's, but with another root account."""
    home, accounts = _home(lab, node), lab.folder / f"{node.name}.passwd"
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    lines = Path("/etc/passwd").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    others = [line for line in lines if not line.startswith(f"{ACCOUNT}:")]
    own = f"{ACCOUNT}:x:0:0:{ACCOUNT}:{home}:{SHELL}"
    accounts.write_text("\n".join([own, *others]) + "\n", encoding="utf-8", errors="surrogateescape")
    return accounts


async def start(lab: StoredLab, node: LabNode) -> None:
    """Start a node, which outlives railbed."""
    boot = BOOT.format(
        hosts=shlex.quote(str(lab.folder / "hosts")),
        accounts=shlex.quote(str(_write_account(lab, node))),
        name=node.name,
        scheduler=slurm.boot_lines(lab, node),
        offloads=" ".join(f"ethtool -K {name} gro on;" for name in (lab.rails if node in lab.nodes else ())),
        sshd=program_path("sshd"),
        config=shlex.quote(str(lab.folder / f"{node.name}.sshd")),
    )
    log = shlex.quote(str(lab.folder / f"{node.name}.log"))
    unshare = "unshare --mount --uts --ipc --pid --fork --kill-child --propagation private"
    script = f"exec {unshare} sh -c {shlex.quote(boot)} </dev/null >>{log} 2>&1"
    entering = _entering(namespace_file(node_namespace(lab, node)))
    await run(["setsid", "--fork", "nsenter", entering, "sh", "-c", script])


async def stop(lab: StoredLab, nodes: Sequence[LabNode]) -> None:
    """End all processes on nodes.

    A scan may miss a process that is being started or is entering a namespace: two scans in a row must find nothing.
    """
    nothing = 0
    for _ in range(LOOKS):
        pids = processes(lab, nodes)
        if pids:
            nothing = 0
            await end(pids)
            continue
        nothing += 1
        if nothing == 2:
            return
        await asyncio.sleep(PAUSE_SECONDS)


async def settle(lab: StoredLab, node: LabNode) -> None:
    """Turn a node off, freeze it or start it, as its faults require."""
    if lab.of("kill", node.name):
        await stop(lab, [node])
        return
    pids = processes(lab, [node])
    if not pids:
        await start(lab, node)
    frozen = lab.of("freeze", node.name)
    send(pids, signal.SIGSTOP if frozen else signal.SIGCONT)


def state(lab: StoredLab, node: LabNode) -> str:
    """Return `up`, `frozen` or `off`."""
    pids = processes(lab, [node])
    if not pids:
        return "off"
    return "frozen" if all(is_stopped(pid) for pid in pids) else "up"


def processes(lab: StoredLab, nodes: Iterable[LabNode]) -> list[int]:
    """Return all processes in the network namespaces of nodes, and those that are about to enter one."""
    files = [namespace_file(node_namespace(lab, node)) for node in nodes]
    entering = {_entering(file).encode() for file in files}
    within = set()
    for file in files:
        with contextlib.suppress(OSError):
            within.add(file.stat().st_ino)
    return [
        int(folder.name)
        for folder in Path("/proc").iterdir()
        if folder.name.isdigit() and _is_of(folder, entering, within)
    ]


def _entering(file: Path) -> str:
    """Return the argument with which nsenter enters a namespace."""
    return f"--net={file}"


def _is_of(process: Path, entering: set[bytes], within: set[int]) -> bool:
    # In this order: a process that was about to enter has entered by the second test.
    with contextlib.suppress(OSError):
        arguments = (process / "cmdline").read_bytes().split(b"\0")
        is_entering = not entering.isdisjoint(arguments) and is_own(process)
        return is_entering or os.stat(process / "ns/net").st_ino in within  # noqa: PTH116  (follows)
    return False
