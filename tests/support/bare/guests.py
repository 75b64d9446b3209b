"""Two virtual machines as somebody installed them who has not heard of RDMA, and the control machine's folder.

They are the machines of a lab, resumed in seconds, without all that a lab gives them: each has sshd, an account with a
password that may use sudo, and an address by DHCP on the rail. What a site has around its machines is here, too: the
network that leases addresses, the mirror of packages (both are set up on the machines by whoever installed them), and
their consoles, by which a test looks at them and which nothing else uses.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from railbed.check.rules.tools_installed import PACKAGES as TOOLS
from railbed.lab.folder import load_lab
from railbed.lab.model import StoredLab
from railbed.lab.up import targets
from railbed.lab.vm.qemu.hardware import MONITOR
from railbed.lab.vm.qemu.machine import node_folder
from railbed.lab.vm.qemu.qmp import connect_qmp
from railbed.lab.vm.recipe import architecture
from tests.support.bare import mirror
from tests.support.bare.cable import leasing
from tests.support.bare_machines import fingerprint_of
from tests.support.cli import Result, railbed
from tests.support.labs import RunningLab, running_lab
from tests.support.ranks import wait_for

USER, PASSWORD = "ada", "correct-horse-9"
NODES = ("node1", "node2")
SECONDS = 3600.0
DISK_GIGABYTES = 40
REMOVED = (
    *("perftest", "ibverbs-utils", "rdma-core", "ibverbs-providers", "libibverbs1", "librdmacm1", "libibumad3"),
    *(
        "tcpdump",
        "libpcap0.8",
        "fio",
        "librbd1",
        "librados2",
        "iperf3",
        "libiperf0",
        "sockperf",
        "ethtool",
        "nftables",
        "pciutils",
    ),
)
"""What the lab's image has and a bare machine has not."""
NETWORK = """\
[Match]
Name=rail0

[Link]
MACAddress={mac}

[Network]
DHCP=ipv4
"""
"""The card's own address is the lab's part: all its cards are made alike."""
STRIP = f"""set -e
exec 2>&1
systemctl disable --now railbed-warm
mkdir {mirror.SHARED_FOLDER}
ln -s /opt/training/lib/python3*/site-packages/* {mirror.SHARED_FOLDER}
rm -f {mirror.SHARED_FOLDER}/mpi* {mirror.SHARED_FOLDER}/*.dist-info
cd /var/lib/dpkg/info
for package in {" ".join(REMOVED)}; do rm -f "$package".p* "$package":*.p*; done
dpkg --no-triggers --purge {" ".join(REMOVED)} >/dev/null
resize2fs /dev/vda
cd /etc/systemd/system
rm -f rdma-load-modules@rdma.service rdma-ndd.service systemd-user-sessions.service
printf 'virtio_net\\nvirtio_rng\\nrdma_rxe\\n' >/etc/modules-load.d/railbed.conf
modprobe -r rdma_ucm
sed -i 's/^\\(PasswordAuthentication\\|UsePAM\\) .*/\\1 yes/' /etc/ssh/sshd_config.d/railbed.conf
useradd -m -s /bin/bash -G sudo {USER}
echo {USER}:{PASSWORD} | chpasswd
echo '{mirror.SOURCES.strip()}' >/etc/apt/sources.list
cat >/etc/pip.conf <<'END'
{mirror.PIP}END
printf '127.0.0.1 localhost\\n127.0.1.1 %s\\n' "$(hostname)" >/etc/hosts
mac=$(cat /sys/class/net/rail0/address)
sed "s/{{mac}}/$mac/" >/etc/systemd/network/30-rail0.network <<'END'
{NETWORK}END
printf '[Match]\\nPath=*pci-0000:00:05.0*\\n\\n[Link]\\nName=rail0\\nMACAddressPolicy=none\\nMTUBytes=1500\\n' \
    >/etc/systemd/network/10-rail0.link
ip addr flush dev rail0
ip link set dev rail0 mtu 1500
systemctl daemon-reload
systemctl restart systemd-networkd
systemctl start systemd-user-sessions
systemctl reload ssh
"""
"""Packages go without their scripts, which take an emulated machine minutes to tell systemd what is gone.

The module rdma_rxe and the file of its link are the card and its MTU: a kernel without settings gives 1500."""


@dataclass(frozen=True)
class BareGuests:
    """The machines, and the control machine's folder that `railbed` is called in."""

    lab: RunningLab
    here: Path
    hosts: Sequence[str]
    """As a person names them."""
    fingerprints: Sequence[str]

    def call(self, *words: str) -> Result:
        """Call `railbed` as the control machine's user, who has nothing but the password."""
        return railbed(self.here, *words, timeout=SECONDS, **self.variables)

    def ssh(self, number: int, command: str) -> subprocess.CompletedProcess[str]:
        """Log in to a machine as the user does after the set-up, with OpenSSH."""
        user, _, place = self.hosts[number].partition("@")
        host, _, port = place.partition(":")
        known = f"UserKnownHostsFile={self.here}/.ssh/known_hosts"
        words = ["ssh", "-F", "none", "-o", known, "-o", "BatchMode=yes", "-i", f"{self.here}/.ssh/id_ed25519"]
        return subprocess.run(
            [*words, "-p", port, f"{user}@{host}", command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    @property
    def variables(self) -> dict[str, Any]:
        return {"HOME": str(self.here), "SSH_AUTH_SOCK": "", "LAB_PASSWORD": PASSWORD, "COLUMNS": "1000"}

    def console(self, number: int, command: str) -> str:
        """Run a command on the console of a machine."""
        done = self.lab.run_inside(NODES[number], command)
        assert done.code == 0, done
        return done.out


@contextmanager
def bare_guests(folder: Path) -> Iterator[BareGuests]:
    """Bring two bare machines up, and wait until they have their leases."""
    here = folder / "here"
    here.mkdir()
    with ExitStack() as stack:
        options = ("--kind", "vm", "--nodes", "2", "--with", "training")
        lab = stack.enter_context(running_lab(folder, *options))
        stored = load_lab(lab.name)
        stack.enter_context(leasing(stored.folder))
        asyncio.run(grow_disks(stored))
        with ThreadPoolExecutor(len(NODES)) as pool:
            for done in pool.map(partial(lab.run_inside, command=STRIP), NODES):
                assert done.code == 0, done
        hosts = [f"{USER}@{target.host}:{target.login.port}" for target in targets(stored)]
        keys = [stored.host_key(node).with_suffix(".host_key.pub") for node in NODES]
        leased = "ip -br -4 addr show dev rail0 | grep -q 10.55.0"
        wait_for(lambda: all(lab.run_inside(node, leased).code == 0 for node in NODES), 300)
        yield BareGuests(lab, here, hosts, [fingerprint_of(key) for key in keys])


@contextmanager
def site_mirror(guests: BareGuests, folder: Path) -> Iterator[None]:
    """Let the machines reach a mirror of the packages that they may want, and of a package index."""
    folder.mkdir()
    arch = architecture(None)
    names = {name for packages in TOOLS["apt-get"].values() for name in packages}
    status = guests.console(0, "cat /var/lib/dpkg/status")
    mirror.download_packages(folder, sorted({*names, "python3-venv"}), arch, status)
    mirror.make_wheels(folder, arch)
    with mirror.serving(folder) as port, ExitStack() as stack:
        for target in targets(load_lab(guests.lab.name)):
            stack.enter_context(_tunnel(guests.lab, target.host, target.login.port or 22, port))
        yield


async def grow_disks(lab: StoredLab) -> None:
    """Give the machines disks of a usual size: the lab's are as small as they can be."""
    for node in lab.nodes:
        async with connect_qmp(node_folder(lab, node) / MONITOR) as monitor:
            await monitor.execute("block_resize", device="root", size=DISK_GIGABYTES << 30)


@contextmanager
def _tunnel(lab: RunningLab, host: str, port: int, to: int) -> Iterator[None]:
    """Let a machine reach the mirror, which it has no other network for."""
    stored = load_lab(lab.name)
    options = (f"-oUserKnownHostsFile={stored.known_hosts}", "-oIdentitiesOnly=yes", "-oExitOnForwardFailure=yes")
    words = ["ssh", "-F", "none", "-N", *options, f"-R127.0.0.1:{mirror.PORT}:127.0.0.1:{to}"]
    tunnel = subprocess.Popen([*words, f"-i{stored.key}", f"-p{port}", f"root@{host}"], stdin=subprocess.DEVNULL)
    try:
        yield
    finally:
        tunnel.terminate()
        tunnel.wait(60)
