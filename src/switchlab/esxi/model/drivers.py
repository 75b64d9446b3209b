"""Drivers of network cards: their module parameters, and what they do without any."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a module."""

    name: str
    type: str
    description: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """A kernel module; an option that it does not have is refused."""

    name: str
    parameters: tuple[Parameter, ...] = ()
    pauses: bool = False
    """Whether global pause is on unless something turns it off."""
    has_dcb: bool = False
    """Whether `esxcli network nic dcb` knows its cards."""


MAX_VFS = Parameter("max_vfs", "array of int", "Number of virtual functions per port. 0 disables SR-IOV.")
RSS = Parameter("RSS", "array of int", "Number of queues of each RSS engine.")
NMLX5_CORE = (
    Parameter("DRSS", "uint", "Number of hardware queues for default queue RSS. 0 disables it."),
    Parameter("dcbx", "uint", "DCBX: 0 - off, 1 - hardware, 2 - software, 3 - hardware if supported, else software."),
    Parameter("ecn", "uint", "ECN: 1 - enabled, 0 - disabled."),
    Parameter("enable_nmlx_debug", "int", "Debug prints: 1 - enabled, 0 - disabled."),
    Parameter("geneve_offload_enable", "int", "Geneve offload: 1 - enabled, 0 - disabled."),
    MAX_VFS,
    Parameter("pfcrx", "uint", "Priority based flow control on receive: a bit for each priority, 0 to 255."),
    Parameter("pfctx", "uint", "Priority based flow control on transmit: a bit for each priority, 0 to 255."),
    RSS,
    Parameter("supported_num_ports", "uint", "Number of supported ports."),
    Parameter("trust_state", "uint", "Port trust: 1 - PCP, 2 - DSCP."),
)
NMLX5_RDMA = (
    Parameter("dscp_force", "int", "DSCP of the host's own RDMA packets; -1 leaves it alone."),
    Parameter("enable_nmlx_debug", "int", "Debug prints: 1 - enabled, 0 - disabled."),
    Parameter("pcp_force", "int", "Priority of the host's own RDMA packets; -1 leaves it alone."),
)
MODULES = {
    module.name: module
    for module in (
        Module(name="nmlx5_core", parameters=NMLX5_CORE, pauses=True, has_dcb=True),
        Module(name="nmlx5_rdma", parameters=NMLX5_RDMA),
        Module(
            name="icen",
            parameters=(
                MAX_VFS,
                Parameter("RDMA", "array of int", "RDMA of each port: 1 - enabled, 0 - disabled."),
                RSS,
            ),
            has_dcb=True,
        ),
        Module(name="irdman", parameters=(Parameter("ROCE", "array of int", "1 - RoCEv2, 0 - iWARP."),)),
        Module(name="i40en", parameters=(MAX_VFS, RSS), has_dcb=True),
        Module(name="ixgben", parameters=(MAX_VFS, RSS)),
        Module(name="igbn"),
        Module(
            name="bnxtnet",
            parameters=(Parameter("disable_roce", "int", "RoCE: 1 - disabled, 0 - enabled."), MAX_VFS),
            has_dcb=True,
        ),
        Module(name="bnxtroce"),
        Module(name="nenic", parameters=(MAX_VFS,)),
        Module(name="nenic_ens"),
    )
}
"""The modules that a host may have; its own are those of its cards, and their RDMA modules."""
RDMA_MODULES = {"nmlx5_core": "nmlx5_rdma", "icen": "irdman", "bnxtnet": "bnxtroce"}
VF_IDS = {"8086:1572": "8086:154c", "8086:1593": "8086:1889", "8086:10fb": "8086:10ed", "14e4:16d8": "14e4:16dc"}


def vf_id_of(device_id: str) -> str:
    """Return the PCI id of a card's virtual functions; those of ConnectX follow the card's."""
    if device_id in VF_IDS:
        return VF_IDS[device_id]
    vendor, _, device = device_id.partition(":")
    return f"{vendor}:{int(device, 16) + 1:04x}"


def parse_options(options: str) -> dict[str, str]:
    """Return the options of a module; of one that is there twice, the last counts."""
    pairs = [word.partition("=") for word in options.split()]
    return {name: value for name, _, value in pairs}


def number_in(options: dict[str, str], name: str, default: int = 0) -> int:
    """Return an option that is a number, decimal or hexadecimal; the driver ignores anything else."""
    try:
        return int(options.get(name, ""), 0)
    except ValueError:
        return default


def element_of(options: dict[str, str], name: str, index: int) -> int:
    """Return the element for one port of an option that has one for each port."""
    elements = options.get(name, "").split(",")
    try:
        return int(elements[index], 0) if index < len(elements) else 0
    except ValueError:
        return 0
