"""`esxcli network sriovnic`: virtual functions and their owners; `esxcli rdma` and passthrough beside them."""

from __future__ import annotations

from switchlab.esxi.commands.tree import NIC, EsxCommand, Option, Options
from switchlab.esxi.formats.records import Answer, Value, single
from switchlab.esxi.model.cards import Nic
from switchlab.esxi.model.functions import Function, FunctionTable
from switchlab.esxi.model.host import Host, Refused

SRIOV_COLUMNS = ("Name", "PCI Device", "Driver", "Link", "Speed", "Duplex", "MAC Address", "MTU", "Description")
VF_COLUMNS = ("VF ID", "Active", "PCI Address", "Owner World ID")
RDMA_COLUMNS = ("Name", "Driver", "State", "MTU", "Speed", "Paired Uplink", "Description")
NO_OWNER = " -"
VF_COUNTERS = (
    *("rxUnicastPkts", "rxUnicastBytes", "rxMulticastPkts", "rxMulticastBytes", "rxBroadcastPkts", "rxBroadcastBytes"),
    *("rxOutOfBufferDrops", "rxErrorDrops", "rxLROPkts", "rxLROBytes", "rxRsvd0", "rxRsvd1"),
    *("txUnicastPkts", "txUnicastBytes", "txMulticastPkts", "txMulticastBytes", "txBroadcastPkts", "txBroadcastBytes"),
    *("txErrors", "txDiscards", "txTSOPkts", "txTSOBytes", "txRsvd0", "txRsvd1"),
)


def vf_counters(nic: Nic, number: int) -> dict[str, int]:
    """Return the counters of a virtual function, by the names that vsish has."""
    return {name: nic.counters.get(f"vf{number}.{name}") for name in VF_COUNTERS}


def _list(host: Host, _options: Options) -> Answer:
    table = FunctionTable(host)
    rows: list[dict[str, Value]] = [
        {
            "Name": nic.name,
            "PCI Device": str(nic.pci),
            "Driver": nic.driver,
            "Link": nic.link,
            "Speed": nic.shown_mbps,
            "Duplex": nic.duplex,
            "MAC Address": nic.mac,
            "MTU": nic.mtu,
            "Description": nic.description,
        }
        for nic in host.own_nics
        if table.count(nic)
    ]
    return Answer(type_name="SriovNic", structures=rows, columns=SRIOV_COLUMNS)


def functions_of(host: Host, name: str) -> list[Function]:
    """Return the virtual functions of a card; refuse one that has none."""
    nic = host.own_nic(name)
    functions = list(FunctionTable(host).of(nic)) if nic else []
    if not functions:
        raise Refused(f"There is no SRIOV Nic with name {name}")
    return functions


def _vf_list(host: Host, options: Options) -> Answer:
    rows: list[dict[str, Value]] = []
    for function in functions_of(host, options.text("nic-name")):
        address = str(function.address) if host.release.hexadecimal_vfs else function.address.decimal
        owner = NO_OWNER
        if function.owner:
            owner = str(function.owner.cartel if host.release.owner_is_cartel else function.owner.world)
        values = (function.number, function.owner is not None, address, owner)
        rows.append(dict(zip(VF_COLUMNS, values, strict=True)))
    return Answer(type_name="VirtualFunction", structures=rows, columns=VF_COLUMNS)


def _vf_stats(host: Host, options: Options) -> Answer:
    functions = functions_of(host, options.text("nic-name"))
    wanted = options.text("vf-id")
    if wanted not in {str(function.number) for function in functions}:
        raise Refused(f"There is no VF with id {wanted} on {options.text('nic-name')}")
    return single("VfStats", {**vf_counters(functions[0].nic, int(wanted))}, heading=f"Stats for VF {wanted}")


def _rdma_nics(host: Host) -> list[Nic]:
    return [nic for nic in host.own_nics if nic.has_rdma]


def _rdma_driver(nic: Nic) -> str:
    return {"nmlx5_core": "nmlx5_rdma", "icen": "irdman", "bnxtnet": "bnxtroce"}.get(nic.driver, nic.driver)


def _rdma_list(host: Host, _options: Options) -> Answer:
    rows: list[dict[str, Value]] = [
        {
            "Name": f"vmrdma{number}",
            "Driver": _rdma_driver(nic),
            "State": "Active" if nic.up else "Down",
            "MTU": 4096,
            "Speed": f"{nic.mbps // 1000} Gbps",
            "Paired Uplink": nic.name,
            "Description": nic.description,
        }
        for number, nic in enumerate(_rdma_nics(host))
    ]
    return Answer(type_name="RdmaDevice", structures=rows, columns=RDMA_COLUMNS)


def _rdma_vmknics(host: Host, _options: Options) -> Answer:
    rows: list[dict[str, Value]] = [
        {"Device": device, "Vmknic": vmknic, "NetStack": "defaultTcpipStack"}
        for device, vmknic in host.description.vmknics.items()
    ]
    return Answer(type_name="RdmaVmknic", structures=rows, columns=("Device", "Vmknic", "NetStack"))


def _rdma_protocols(host: Host, _options: Options) -> Answer:
    rows: list[dict[str, Value]] = [
        {
            "Device": f"vmrdma{number}",
            "RoCE v1": nic.driver == "nmlx5_core",
            "RoCE v2": True,
            "iWARP": nic.driver == "icen",
        }
        for number, nic in enumerate(_rdma_nics(host))
    ]
    return Answer(type_name="RdmaProtocol", structures=rows, columns=("Device", "RoCE v1", "RoCE v2", "iWARP"))


def _passthrough(host: Host, _options: Options) -> Answer:
    known = {**host.description.passthrough, **dict.fromkeys(host.passed_through, True)}
    rows: list[dict[str, Value]] = [{"Device ID": address, "Enabled": known[address]} for address in sorted(known)]
    return Answer(type_name="PciPassthru", structures=rows, columns=("Device ID", "Enabled"))


VF_ID = Option(short="v", long="vf-id", type="long", help="The ID of the virtual function.", required=True)
COMMANDS = (
    EsxCommand(words="network sriovnic list", handle=_list, help="List the NICs with SR-IOV."),
    EsxCommand(words="network sriovnic vf list", handle=_vf_list, options=(NIC,), help="List the VFs of a NIC."),
    EsxCommand(words="network sriovnic vf stats", handle=_vf_stats, options=(NIC, VF_ID), help="Statistics of a VF."),
    EsxCommand(words="rdma device list", handle=_rdma_list, help="List the RDMA devices."),
    EsxCommand(words="rdma device vmknic list", handle=_rdma_vmknics, help="List the vmknics of RDMA devices."),
    EsxCommand(words="rdma device protocol list", handle=_rdma_protocols, help="List the protocols of RDMA devices."),
    EsxCommand(
        words="hardware pci pcipassthru list",
        handle=_passthrough,
        help="List the devices that can be passed through.",
        exists=lambda release: release.has_passthrough_list,
    ),
)
