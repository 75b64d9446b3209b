"""From two bare machines to a training over RDMA with the commands of docs/first-contact.md, and nothing by hand.

The machines have sshd, an account with a password, and an address that a DHCP server leased. What they install comes
from a mirror of Debian's packages and from a folder of wheels in place of a package index: both are on this machine,
since guests have no other network.
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from railbed import clusterfile
from tests.support.bare.guests import BareGuests, bare_guests, site_mirror
from tests.support.cli import Result
from tests.support.training import events

pytestmark = [pytest.mark.vm, pytest.mark.xdist_group("vm")]
PAGE = Path(__file__).parent.parent / "docs" / "first-contact.md"
CHAPTER = "## From there to a training"
STORED = ("mtu", "pfc", "dscp_map", "rail_address")
"""Rules whose settings the next boot must restore."""
SMALL = {
    "steps": "2",
    "model.layers": "1",
    "model.heads": "2",
    "model.width": "128",
    "model.context": "8",
    "batch.sequences": "2",
    "evaluation.every": "0",
    "data.sample": "0",
}
"""A training for processors that are emulated: few tokens, and a megabyte of gradients a step."""
WAITING = ("--timeout", "300")


def commands() -> list[str]:
    """Return the commands of the page."""
    chapter = PAGE.read_text().partition(CHAPTER)[2]
    block = re.search(r"```\n(.*?)```", chapter, re.DOTALL)
    assert block
    return [line.partition("  #")[0].strip() for line in block[1].splitlines()]


@pytest.fixture
def guests(tmp_path: Path) -> Iterator[BareGuests]:
    with bare_guests(tmp_path) as machines:
        yield machines


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_six_commands_lead_from_bare_machines_to_a_training_over_rdma(guests: BareGuests, tmp_path: Path) -> None:
    lines = commands()
    assert [line.startswith("for host") for line in lines] == [False, False, False, True, False, False]
    first, check, configure, check_again, train = [
        shlex.split(line)[1:] for line in lines if line.startswith("railbed ")
    ]
    set_up(guests, first)
    before = guests.call(*check, "--json", *WAITING)
    assert before.code == 1, before
    assert wrong(before) >= {"mtu", "pfc", "torch_equal", "tools_installed", "rail_address"}
    with site_mirror(guests, tmp_path / "mirror"):
        applied = guests.call(*configure, "--yes", "--json", *WAITING)
    assert failed(applied) == [], applied
    assert applied.code == 0, applied

    reboot(guests)
    after = guests.call(*check_again, "--json", *WAITING)
    assert failed(after) == []
    assert wrong(after).isdisjoint({*STORED, "tools_installed", "torch_equal", "mpi_rdma"}), after.problems
    assert not [finding for finding in after.findings if "reboot" in finding["observed"]], after.problems

    before_packets = [packets(guests, number) for number in range(2)]
    settings = [word for name, value in SMALL.items() for word in ("--set", f"{name}={value}")]
    # Left to itself, railbed takes what is faster, which on emulated processors is TCP.
    trained = guests.call(*train, "--transport", "mpi", *settings, "--sample", "0", "--json", *WAITING)
    assert trained.code == 0, trained
    assert_over_rdma(trained, [packets(guests, number) - before_packets[number] for number in range(2)])
    assert (guests.here / "cluster.yaml").read_text().startswith("# The intended state of this cluster.")


def test_bare_machines_are_set_up_and_configured_for_the_next_boot(guests: BareGuests) -> None:
    """What needs neither a mirror nor a second boot."""
    set_up(guests, shlex.split(commands()[0])[1:])
    cluster = clusterfile.load(guests.here / "cluster.yaml")
    assert cluster.training.python == "/opt/railbed/env/bin/python"
    assert [(port.netdev, port.rdma) for _, port in cluster.ports()] == [("rail0", "rxe0")] * 2
    before = guests.call("check", *STORED, "tools_installed", "--json", *WAITING)
    assert wrong(before) == {*STORED, "tools_installed"}, before.problems
    (leased, _) = [finding["observed"] for finding in before.findings if finding["check"] == "rail_address"]
    assert "right now, after a reboot whatever DHCP leases" in leased
    rules = [word for rule in STORED for word in ("--rule", rule)]
    applied = guests.call("configure", *rules, "--apply", "--yes", "--json", *WAITING)
    assert applied.code == 0, applied
    assert applied.problems == []
    for number in range(2):
        stored = guests.console(number, "cat /etc/systemd/network/30-rail0.network.d/90-railbed.conf")
        assert f"\nAddress={cluster.nodes[f'node{number + 1}'].ports[0].address}/24\n" in stored
        assert "\nMTUBytes=9000\n" in stored


def set_up(guests: BareGuests, words: list[str]) -> None:
    """Call the first command of the page with these machines; the fingerprints are those of their consoles."""
    options = [word for word in words if "@" not in word]
    confirmed = [word for print_ in guests.fingerprints for word in ("--fingerprint", print_)]
    done = guests.call(*options, *guests.hosts, *confirmed, "--password", "env:LAB_PASSWORD", *WAITING)
    assert done.code == 0, done.err


def assert_over_rdma(trained: Result, sent: list[int]) -> None:
    """The proof of train, and the kernel's counters of the cards on both machines."""
    (chosen,) = events(trained.records, "transport")
    assert chosen["subject"] == "mpi", chosen
    (proof,) = [record for record in trained.findings if record["check"] == "gradients_over_rdma"]
    assert proof["verdict"] == "ok", proof
    assert "of gradients crossed RoCE on both nodes" in proof["observed"]
    gradients = sum(record["value"] for record in trained.records if record.get("name") == "bytes_sent") / 2
    assert gradients > 1_000_000
    for count in sent:
        assert count * 4096 >= gradients  # no packet carries more


def failed(result: Result) -> list[str]:
    return [line for line in result.problems if line.startswith("fail")]


def wrong(result: Result) -> set[str]:
    """Return the rules that fail or warn."""
    return {finding["check"] for finding in result.findings if finding["verdict"] in ("fail", "warn")}


def packets(guests: BareGuests, number: int) -> int:
    """Return how many packets a machine has sent over RDMA, by the kernel's counter."""
    return int(guests.console(number, "cat /sys/class/infiniband/rxe0/ports/1/hw_counters/sent_pkts"))


def reboot(guests: BareGuests) -> None:
    """Reboot both machines as the page does, and wait until they are up again."""
    boots = [boot_of(guests, number) for number in range(2)]
    assert all(boots)
    for number in range(2):
        guests.ssh(number, "sudo systemctl reboot")
    deadline = time.monotonic() + 900
    while any(boot_of(guests, number) in ("", boots[number]) for number in range(2)):
        assert time.monotonic() < deadline
        time.sleep(2)
    for number in range(2):
        guests.ssh(number, "systemctl is-system-running --wait")


def boot_of(guests: BareGuests, number: int) -> str:
    return guests.ssh(number, "cat /proc/sys/kernel/random/boot_id").stdout
