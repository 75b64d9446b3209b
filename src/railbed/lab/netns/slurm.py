"""Slurm in a lab: the distribution's munged on every machine, slurmd on the nodes, slurmctld on the controller.

Every machine has its own network, /run and /etc/slurm, so that Slurm finds everything at its usual places and ports,
and any number of labs run side by side. Only the key and the state of slurmctld are files of the lab.
"""

from __future__ import annotations

import os
import secrets
import shlex
from pathlib import Path

from railbed.lab.host import HostFault, program_path
from railbed.lab.model import CONTROLLER, LabNode, StoredLab, management_address

PACKAGES = {
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "srun": "slurm-client",
    "sinfo": "slurm-client",
    "munged": "munge",
}
FOLDER = "slurm"
SETTINGS = Path("/etc/slurm")
LEAST_PROCESSORS = 4
"""Nodes share this machine's processors, and offer at least so many, so that several jobs fit on each."""
CONFIG = """\
ClusterName={cluster}
SlurmctldHost={controller}({address})
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
StateSaveLocation=/run/slurmctld
SlurmctldPidFile=/run/slurmctld.pid
SlurmdSpoolDir=/run/slurmd
SlurmdPidFile=/run/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
PropagateResourceLimits=NONE
JobRequeue=1
ReturnToService=2
SlurmdTimeout=15
SlurmctldTimeout=15
KillWait=5
InactiveLimit=0
AuthInfo=cred_expire=30
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
"""
NODE = "NodeName={name} NodeAddr={address} CPUs={processors} State=UNKNOWN\n"
PARTITIONS = """\
PartitionName=lab Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=2
"""
"""A job in `urgent` preempts those in `lab`, which return to the queue."""
# Debian's slurmd loads a cgroup plug-in although nothing here uses one, and fails where it cannot detect the version.
CGROUP = "CgroupPlugin=cgroup/v1\n"
BOOT = """\
mount --bind {settings} /etc/slurm && mkdir /run/munge /run/slurmd /run/slurmctld && {storage}
install -m 600 {key} /run/munge/key && {munged} --key-file=/run/munge/key --seed-file=/run/munge/seed \
--log-file=/run/munge/log --pid-file=/run/munge/pid --socket=/run/munge/munge.socket.2 &&
({daemon} -D >>{log} 2>&1 &) &&
"""


def need_settings() -> None:
    """Refuse a machine whose Slurm has its settings elsewhere."""
    if not SETTINGS.is_dir():
        raise HostFault(f"Slurm on this machine does not use {SETTINGS}", hint=f"`mkdir {SETTINGS}` makes it possible")


def write_files(lab: StoredLab) -> None:
    """Write the settings that all machines of a lab share, and the key that their messages are signed with."""
    folder = lab.folder / FOLDER
    for path in (folder / "etc", folder / "state"):
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
    (folder / "etc" / "slurm.conf").write_text(_config(lab), encoding="ascii")
    (folder / "etc" / "cgroup.conf").write_text(CGROUP, encoding="ascii")
    with os.fdopen(os.open(folder / "key", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as key:
        key.write(secrets.token_bytes(128))


def boot_lines(lab: StoredLab, machine: LabNode) -> str:
    """Return the shell commands that start Slurm on a machine; empty in a lab without it."""
    if not lab.spec.scheduler:
        return ""
    folder, controls = lab.folder / FOLDER, machine.name == CONTROLLER
    state = shlex.quote(str(folder / "state"))
    return BOOT.format(
        settings=shlex.quote(str(folder / "etc")),
        storage=f"mount --bind {state} /run/slurmctld &&" if controls else "",
        key=shlex.quote(str(folder / "key")),
        munged=program_path("munged"),
        daemon=program_path("slurmctld" if controls else "slurmd"),
        log=shlex.quote(str(log_file(lab, machine.name))),
    )


def log_file(lab: StoredLab, machine: str) -> Path:
    """Return the file that slurmctld or slurmd of a machine logs to."""
    return lab.folder / f"{machine}.slurm.log"


def _config(lab: StoredLab) -> str:
    assert lab.controller
    text = CONFIG.format(cluster=lab.spec.name, controller=CONTROLLER, address=_address(lab, lab.controller))
    processors = max(LEAST_PROCESSORS, os.cpu_count() or 1)
    nodes = (NODE.format(name=node.name, address=_address(lab, node), processors=processors) for node in lab.nodes)
    return text + "".join(nodes) + PARTITIONS


def _address(lab: StoredLab, machine: LabNode) -> str:
    return str(management_address(lab.number, machine.number))
