"""A fast card asks for enough data at a time over PCIe, and may have its packets reordered.

What
----
On ports of 100 Gb/s and more, the device control register of the card's physical function has MaxReadReq above 512
bytes, and relaxed ordering on. Virtual functions and virtual machines are skipped: what they show is not the card's.

Why
---
To send, the card reads memory in requests of this size, and only so many may be under way: with 512 bytes, a card of
100 Gb/s and more may not reach its speed when memory is far away or busy. Without relaxed ordering, writes wait for
each other; on processors with several chips that costs a large part of the bandwidth.

Fix
---
MaxReadReq: `setpci -s ADDRESS CAP_EXP+8.w=5000:7000` sets 4096 bytes until the next boot; `railbed configure` stores
it. Relaxed ordering: a setting of the BIOS (PCIe Relaxed Ordering); the kernel turns it off for root ports that cannot.

Source
------
PCI Express Base Specification (Device Control Register); NVIDIA Network Operator documentation, NIC configuration
(pciPerformanceOptimized sets the maximum read request to 4096); lspci(8), setpci(8).
"""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from railbed.check.shared.card import CARD_PROBES
from railbed.check.shared.hardware.pcie import port_speed
from railbed.check.shared.port import no_rdma
from railbed.model.fix import Fix, Persistence, as_steps
from railbed.probes import cpu, pcie, pcie_tuning
from railbed.probes.pcie_tuning import PciFunction
from railbed.rules.judgement import Judgement, ok, skip, unknown, warn
from railbed.rules.rule import Rule
from railbed.rules.site import PortView

EXPECTED = "MaxReadReq above 512 bytes, relaxed ordering"
FAST = 100
"""Gb/s from which on it matters."""
USUAL, WANTED = 512, 4096
NO_ORDERING = "turn on relaxed ordering in the BIOS (PCIe settings); the kernel turns it off where it is not safe"


def judge(port: PortView) -> Iterator[Judgement]:
    """Look at the registers of the card."""
    address, card = port.read(pcie.PROBE).card_of(port.port.netdev, port.port.rdma)
    processors = port.node.try_read(cpu.PROBE)
    speed = port_speed(port)
    if card is None:
        yield skip("no PCIe card: a virtual device", expected=EXPECTED)
    elif card.virtual_function:
        yield skip("a virtual function: the host that owns the card has the settings", expected=EXPECTED)
    elif processors is not None and processors.hypervisor:
        yield skip("a virtual machine: its host has the settings", expected=EXPECTED)
    elif speed is not None and speed < FAST:
        yield skip(f"below {FAST} Gb/s they do not matter", expected=EXPECTED)
    else:
        yield from _judge_function(port, address, port.read(pcie_tuning.PROBE).functions.get(address))


def _judge_function(port: PortView, address: str, function: PciFunction | None) -> Iterator[Judgement]:
    if function is None or function.max_read_request is None:
        yield unknown(
            expected=EXPECTED,
            observed=f"the registers of {address} were not read",
            remedy="install the package pciutils",
        )
        return
    size = function.max_read_request
    if size <= USUAL:
        yield warn(f"MaxReadReq {size} bytes", expected=EXPECTED, fix=_fix(port, address, size))
    if function.relaxed_ordering is False:
        yield warn("relaxed ordering is off", expected=EXPECTED, remedy=NO_ORDERING)
    if size > USUAL and function.relaxed_ordering:
        yield ok(expected=EXPECTED, observed=f"MaxReadReq {size} bytes, relaxed ordering")


def _fix(port: PortView, address: str, before: int) -> Fix:
    return Fix(
        device=port.node.name,
        apply=as_steps(_write(address, WANTED)),
        undo=as_steps(_write(address, before)),
        persistence=Persistence.BOOT,
    )


def _write(address: str, size: int) -> str:
    """Return the command that writes bits 12 to 14 of the device control register: the power of two of 128 bytes."""
    return f"setpci -s {quote(address)} CAP_EXP+8.w={(size // 128).bit_length() - 1 << 12:04x}:7000"


RULE = Rule(
    name="pcie_settings",
    title="PCIe requests and ordering of fast cards",
    scope="RDMA port",
    stage="BIOS",
    needs=(pcie_tuning.PROBE, pcie.PROBE, cpu.PROBE, *CARD_PROBES),
    judge=judge,
    unless=no_rdma,
    doc=__doc__,
    rank=70,
)
