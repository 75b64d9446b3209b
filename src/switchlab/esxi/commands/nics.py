"""`esxcli network nic`: cards, their statistics, global pause and DCB."""

from __future__ import annotations

from switchlab.esxi.commands.tree import NIC, EsxCommand, Option, Options
from switchlab.esxi.formats.records import Answer, Value, single
from switchlab.esxi.model.cards import Nic
from switchlab.esxi.model.drivers import MODULES
from switchlab.esxi.model.host import Host, Refused

NIC_COLUMNS = (
    *("Name", "PCI Device", "Driver", "Admin Status", "Link Status", "Speed", "Duplex", "MAC Address", "MTU"),
    "Description",
)
PAUSE_COLUMNS = (
    *("NIC", "Pause Params Supported", "Pause RX", "Pause TX", "Auto Negotiation"),
    *("Auto Negotiation Resolution Avail", "RX Auto Negotiation Resolution", "TX Auto Negotiation Resolution"),
)
STATISTICS = {
    "Packets received": "rxpkt",
    "Packets sent": "txpkt",
    "Bytes received": "rxbytes",
    "Bytes sent": "txbytes",
    "Receive packets dropped": "rxdrp",
    "Transmit packets dropped": "txdrp",
    "Multicast packets received": "rxmltcast",
    "Broadcast packets received": "rxbrdcast",
    "Multicast packets sent": "txmltcast",
    "Broadcast packets sent": "txbrdcast",
    "Total receive errors": "rxerr",
    "Receive length errors": "rxlgterr",
    "Receive over errors": "rxoverr",
    "Receive CRC errors": "rxcrcerr",
    "Receive frame errors": "rxfrmerr",
    "Receive FIFO errors": "rxfifoerr",
    "Receive missed errors": "rxmisserr",
    "Total transmit errors": "txerr",
    "Transmit aborted errors": "txaborterr",
    "Transmit carrier errors": "txcarerr",
    "Transmit FIFO errors": "txfifoerr",
    "Transmit heartbeat errors": "txhearterr",
    "Transmit window errors": "txwinerr",
}


def own_nic(host: Host, options: Options) -> Nic:
    """Return the card that a command names, which must not be passed through."""
    nic = host.own_nic(options.text("nic-name"))
    if nic is None:
        raise Refused(f"Unable to find NIC {options.text('nic-name')}")
    return nic


def _list(host: Host, _options: Options) -> Answer:
    rows: list[dict[str, Value]] = [
        {
            "Name": nic.name,
            "PCI Device": str(nic.pci),
            "Driver": nic.driver,
            "Admin Status": "Up",
            "Link Status": nic.link,
            "Speed": nic.shown_mbps,
            "Duplex": nic.duplex,
            "MAC Address": nic.mac,
            "MTU": nic.mtu,
            "Description": nic.description,
        }
        for nic in host.own_nics
    ]
    return Answer(type_name="NIC", structures=rows, columns=NIC_COLUMNS)


def _get(host: Host, options: Options) -> Answer:
    nic = own_nic(host, options)
    pause = host.pause_of(nic)
    fields: dict[str, Value] = {
        "Advertised Auto Negotiation": True,
        "Advertised Link Modes": nic.link_modes,
        "Auto Negotiation": pause.auto or nic.driver != "nmlx5_core",
        "Backing DPUId": "N/A",
        "Cable Type": nic.cable,
        "Current Message Level": -1 if nic.driver == "nmlx5_core" else 0,
        "Driver Info": {
            "Bus Info": nic.pci.with_colons,
            "Driver": nic.driver,
            "Firmware Version": nic.firmware,
            "Version": nic.driver_version,
        },
        "Link Detected": nic.up,
        "Link Status": nic.link,
        "Name": nic.name,
        "PHYAddress": 0,
        "Pause Autonegotiate": pause.auto,
        "Pause RX": pause.rx,
        "Pause TX": pause.tx,
        "Supported Ports": nic.cable if nic.driver != "nmlx5_core" else "",
        "Supports Auto Negotiation": True,
        "Supports Pause": nic.driver != "nmlx5_core",
        "Supports Wakeon": False,
        "Transceiver": "",
        "Virtual Address": nic.mac,
        "Wakeon": nic.wakeon,
    }
    release = host.release
    absent = [] if release.has_dpu else ["Backing DPUId"]
    absent += [] if release.has_dcb else ["Virtual Address"]
    return single("NicDetails", {label: value for label, value in fields.items() if label not in absent})


def _stats(host: Host, options: Options) -> Answer:
    nic = own_nic(host, options)
    fields: dict[str, Value] = {label: nic.counters.get(name) for label, name in STATISTICS.items()}
    return single("NicStats", fields, heading=f"NIC statistics for {nic.name}")


def _pause_list(host: Host, _options: Options) -> Answer:
    rows: list[dict[str, Value]] = []
    for nic in host.own_nics:
        pause = host.pause_of(nic)
        values = (nic.name, True, pause.rx, pause.tx, pause.auto, False, False, False)
        rows.append(dict(zip(PAUSE_COLUMNS, values, strict=True)))
    return Answer(type_name="PauseParams", structures=rows, columns=PAUSE_COLUMNS)


def _pause_set(host: Host, options: Options) -> str:
    nic = own_nic(host, options)
    host.set_pause(nic, rx=options.truth("rx"), tx=options.truth("tx"), auto=options.truth("auto"))
    return ""


def _dcb(host: Host, options: Options) -> Answer:
    nic = own_nic(host, options)
    if not MODULES[nic.driver].has_dcb:
        raise Refused(f"NIC {nic.name} does not support DCB")
    dcb = host.dcb_of(nic)
    sent, received = (
        " ".join(str(nic.counters.get(f"pfc_{kind}_{priority}")) for priority in range(8))
        for kind in ("sent", "received")
    )
    return single(
        "DcbStatus",
        {
            "Nic Name": nic.name,
            "Mode": dcb.mode,
            "Enabled": dcb.mode != "Unknown",
            "Capabilities": {
                "Priority Group": True,
                "Priority Flow Control": True,
                "PG Traffic Classes": 8,
                "PFC Traffic Classes": 8,
            },
            "PFC Enabled": dcb.is_on,
            "PFC Configuration": dcb.configuration,
            "Sent PFC Frames": sent,
            "Received PFC Frames": received,
        },
    )


def _ring(host: Host, options: Options) -> Answer:
    nic = own_nic(host, options)
    if nic.driver == "nmlx5_core":
        raise Refused("Unable to get ring parameters: Not supported")
    return single("RingParams", {"RX": 1024, "RX Mini": 0, "RX Jumbo": 0, "TX": 1024})


PAUSE_OPTIONS = (
    Option(short="a", long="auto", type="bool", help="Enable/disable auto negotiation."),
    Option(short="n", long="nic-name", help="Name of NIC whose pause parameters should be set.", required=True),
    Option(short="r", long="rx", type="bool", help="Enable/disable pause RX flow control."),
    Option(short="t", long="tx", type="bool", help="Enable/disable pause TX flow control."),
)
COMMANDS = (
    EsxCommand(words="network nic list", handle=_list, help="List the physical NICs of this host."),
    EsxCommand(words="network nic get", handle=_get, options=(NIC,), help="Get the configuration of a physical NIC."),
    EsxCommand(words="network nic stats get", handle=_stats, options=(NIC,), help="Get the statistics of a NIC."),
    EsxCommand(words="network nic pauseParams list", handle=_pause_list, help="List the pause parameters of all NICs."),
    EsxCommand(
        words="network nic pauseParams set",
        handle=_pause_set,
        options=PAUSE_OPTIONS,
        help="Set pause parameters of a NIC.",
        changes=True,
    ),
    EsxCommand(
        words="network nic dcb status get",
        handle=_dcb,
        options=(NIC,),
        help="Get the DCB status of a NIC.",
        exists=lambda release: release.has_dcb,
    ),
    EsxCommand(words="network nic ring current get", handle=_ring, options=(NIC,), help="Get the ring sizes of a NIC."),
)
